"""Scan tile states: what tiles of a look-back scan leave in global memory, each with its status."""

from __future__ import annotations

from dataclasses import dataclass

from ..compiler.numba_backend import I1, I32, I64, VOID, Emitter, ir, types
from ..tile.reduce import ReduceOp, State


@dataclass(frozen=True)
class TileStates:
    """Tile states in global memory: a slot is written once, and 0 until then.

    A state of up to 32 bits shares a word with its mark; the words of wider ones precede it, with release and acquire.
    """

    rule: ReduceOp

    @property
    def bits(self) -> list[int]:
        """The width in memory of each component of the state."""
        return [64 if getattr(kind, "bitwidth", 1) == 64 else 32 for kind in self.rule.state]

    @property
    def words(self) -> int:
        """Words of a state without its mark; 0 if the mark shares its word."""
        return 0 if sum(self.bits) <= 32 else -(-sum(self.bits) // 64)

    @property
    def slot(self) -> int:
        """Bytes of a slot."""
        return 8 * (self.words + 1)

    def _at(self, e: Emitter, base: ir.Value, index: ir.Value) -> ir.Value:
        return e.builder.add(base, e.builder.mul(e.builder.sext(index, I64), I64(self.slot)))

    def store(self, e: Emitter, base: ir.Value, index: ir.Value, state: State) -> None:
        """Store a state, by one thread."""
        b, at = e.builder, self._at(e, base, index)
        parts = [self._bits_of(e, part, bits) for part, bits in zip(state, self.bits)]
        if not self.words:
            word = b.or_(b.shl(b.zext(parts[0], I64), I64(32)), I64(1))
            e.asm(VOID, "st.relaxed.gpu.global.b64 [$0], $1;", "l,l", [at, word], True)
            return
        for k, word in enumerate(_packed(e, parts)):
            e.asm(VOID, "st.relaxed.gpu.global.b64 [$0], $1;", "l,l", [_offset(e, at, 8 * k), word], True)
        mark = _offset(e, at, 8 * self.words)
        e.asm(VOID, "st.release.gpu.global.b64 [$0], 1;", "l,~{memory}", [mark], True)

    def load(self, e: Emitter, base: ir.Value, index: ir.Value) -> tuple[ir.Value, State]:
        """(whether something has been left there, what)."""
        b, at = e.builder, self._at(e, base, index)
        if self.words:
            mark = _offset(e, at, 8 * self.words)
            seen = e.asm(I64, "ld.acquire.gpu.global.b64 $0, [$1];", "=l,l,~{memory}", [mark], True)
            words = [self._load_word(e, _offset(e, at, 8 * k)) for k in range(self.words)]
            parts = _unpacked(e, words, self.bits)
            return b.icmp_unsigned("!=", seen, I64(0)), [self._value(e, *p) for p in zip(parts, self.rule.state)]
        word = self._load_word(e, at)
        value = self._value(e, b.trunc(b.lshr(word, I64(32)), I32), self.rule.state[0])
        return b.icmp_unsigned("!=", b.and_(word, I64(1)), I64(0)), [value]

    def _load_word(self, e: Emitter, at: ir.Value) -> ir.Value:
        return e.asm(I64, "ld.relaxed.gpu.global.b64 $0, [$1];", "=l,l,~{memory}", [at], True)

    def _bits_of(self, e: Emitter, value: ir.Value, bits: int) -> ir.Value:
        if isinstance(value.type, ir.IntType):
            return value if value.type.width == bits else e.builder.zext(value, I32)
        return e.builder.bitcast(value, ir.IntType(bits))

    def _value(self, e: Emitter, bits: ir.Value, kind: types.Type) -> ir.Value:
        if kind == types.boolean:
            return e.builder.trunc(bits, I1)
        if isinstance(kind, types.Integer):
            width = ir.IntType(kind.bitwidth)
            return bits if width == bits.type else e.builder.trunc(bits, width)
        return e.builder.bitcast(bits, ir.FloatType() if kind.bitwidth == 32 else ir.DoubleType())


def _offset(e: Emitter, at: ir.Value, size: int) -> ir.Value:
    return e.builder.add(at, I64(size)) if size else at


def _packed(e: Emitter, parts: State) -> list[ir.Value]:
    """Parts of 32 and 64 bits as words of 64 bits: first the wide ones, then the others two by two."""
    b, narrow = e.builder, [b for b in parts if b.type == I32]
    words = [part for part in parts if part.type != I32]
    for k in range(0, len(narrow), 2):
        low, *high = (b.zext(part, I64) for part in narrow[k : k + 2])
        words.append(b.or_(low, b.shl(high[0], I64(32))) if high else low)
    return words


def _unpacked(e: Emitter, words: list[ir.Value], bits: list[int]) -> list[ir.Value]:
    """The inverse of `_packed`."""
    b, wide = e.builder, bits.count(64)
    halves = [b.trunc(part, I32) for word in words[wide:] for part in (word, b.lshr(word, I64(32)))]
    whole, half = iter(words[:wide]), iter(halves)
    return [next(whole) if size == 64 else next(half) for size in bits]
