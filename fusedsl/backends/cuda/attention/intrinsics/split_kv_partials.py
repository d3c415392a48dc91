"""Split-KV partial states in global memory: stored by the block of a split, loaded by the block that combines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...compiler.numba_backend import F32, F64, I1, I32, I64, VOID, Emitter, emitted, ir, numba_type, types
from ...mma.fragment_layout import ROWS

GROUP = 4  # words that are written at once: 16 bytes


def _shape(rows: str, own: str, width: int) -> types.Type:
    """A tuple of both rows' values for each of these types, then one of a fragment's elements."""
    kinds = [types.UniTuple(numba_type(name), ROWS) for name in rows.split(", ") if name]
    return types.Tuple.from_types((*kinds, types.UniTuple(numba_type(own), width // 2)))


@emitted(types.void, lambda rows, own, width: 2 + len(_shape(rows, own, width)) - 1)
def store_partial_state(e, at, *values, rows: str, own: str, width: int, threads: int):
    """`store_partial_state(address, row values…, sums)`: store a block's state, 16 bytes per thread, coalesced."""
    shape = _shape(rows, own, width)
    parts = [v for value, kind in zip(values, shape) for v in e.unpack(value, len(kind))]
    words = [word for part in parts for word in _words(e, part)]
    words += [I32(0)] * (-len(words) % GROUP)
    text = f"st.global.v{GROUP}.b32 [$0], {{$1, $2, $3, $4}};"
    for k, address in enumerate(_addresses(e, at, len(words), threads)):
        given = words[GROUP * k : GROUP * k + GROUP]
        e.asm(VOID, text, "l,r,r,r,r,~{memory}", [address, *given], side_effect=True)


def load_partial_state(rows: str, own: str, width: int, threads: int) -> Callable:
    """`load_partial_state(address)`: load such a state past the L1; the sums alone if rows have no other values."""
    shape = _shape(rows, own, width)
    result = shape if rows else shape[0]

    @emitted(result)
    def emit(e, at):
        kinds = [_register_type(kind.dtype) for kind in shape for _ in range(len(kind))]
        count = sum(2 if kind in (F64, I64) else 1 for kind in kinds)
        text = f"ld.relaxed.gpu.global.v{GROUP}.b32 {{$0, $1, $2, $3}}, [$4];"
        words: list[ir.Value] = []
        for address in _addresses(e, at, count, threads):
            loaded = e.asm(
                ir.LiteralStructType([I32] * GROUP), text, "=r,=r,=r,=r,l,~{memory}", [address], side_effect=True
            )
            words += e.unpack(loaded, GROUP)
        rest = iter(words)
        states = []
        for kind in shape:
            states.append(e.pack(kind, [_joined(e, _register_type(kind.dtype), rest) for _ in range(len(kind))]))
        return e.pack(shape, states) if rows else states[0]

    return emit


def _register_type(kind: types.Type) -> ir.Type:
    if kind == types.boolean:
        return I1
    return {types.float32: F32, types.float64: F64}.get(kind) or ir.IntType(kind.bitwidth)


def _addresses(e: Emitter, at: ir.Value, words: int, threads: int) -> Sequence[ir.Value]:
    """The addresses of a thread's groups of words."""
    b = e.builder
    first = b.add(at, b.zext(b.shl(e.special_register("tid.x"), I32(4)), I64))
    return [b.add(first, I64(16 * k * threads)) for k in range(-(-words // GROUP))]


def _words(e: Emitter, value: ir.Value) -> list[ir.Value]:
    b = e.builder
    if value.type in (F64, I64):
        bits = b.bitcast(value, I64)
        return [b.trunc(bits, I32), b.trunc(b.lshr(bits, I64(32)), I32)]
    if value.type == F32:
        return [b.bitcast(value, I32)]
    return [value if value.type == I32 else b.zext(value, I32)]


def _joined(e: Emitter, kind: ir.Type, words) -> ir.Value:
    b, word = e.builder, next(words)
    if kind in (F64, I64):
        bits = b.or_(b.zext(word, I64), b.shl(b.zext(next(words), I64), I64(32)))
        return b.bitcast(bits, kind)
    if kind == F32:
        return b.bitcast(word, kind)
    return word if kind == I32 else b.trunc(word, kind)
