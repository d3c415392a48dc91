"""Random bits on CUDA: Philox4x32-10 of a position, a stream and a seed (Salmon et al., SC 2011)."""

from __future__ import annotations

from ....ir.semantics import PHILOX_KEYS, PHILOX_MULTIPLIERS, PHILOX_ROUNDS
from ..compiler.numba_backend import I32, I64, Emitter, emitted, ir, types

SHARES = {"philox_word": 4, "philox_pair": 2}  # neighbours that one counter serves


def philox_words(e: Emitter, position: ir.Value, seed: ir.Value, stream: ir.Value) -> list[ir.Value]:
    """Philox4x32-10: the four 32-bit words of one counter (position, stream) under a key."""
    b = e.builder
    parts = [[b.trunc(x, I32), b.trunc(b.lshr(x, I64(32)), I32)] for x in (position, stream, seed)]
    words, keys = [*parts[0], *parts[1]], parts[2]
    for _ in range(PHILOX_ROUNDS):
        (low_a, high_a), (low_b, high_b) = (_product(e, words[k], m) for k, m in zip((0, 2), PHILOX_MULTIPLIERS))
        words = [b.xor(b.xor(high_b, words[1]), keys[0]), low_b, b.xor(b.xor(high_a, words[3]), keys[1]), low_a]
        keys = [b.add(key, I32(step)) for key, step in zip(keys, PHILOX_KEYS)]
    return words


def _product(e: Emitter, word: ir.Value, multiplier: int) -> list[ir.Value]:
    """Both halves of a product of two words. LLVM would make whole rounds of 64 bits of one that it can see through."""
    words = ir.LiteralStructType([I32, I32])
    text = "{ .reg .b64 t; mul.wide.u32 t, $2, $3; mov.b64 {$0, $1}, t; }"
    return e.unpack(e.asm(words, text, "=r,=r,r,n", [word, I32(multiplier)]), 2)


def _halves(e: Emitter, words: list[ir.Value]) -> list[ir.Value]:
    """Neighbouring words as 64 bits."""
    b = e.builder
    wide = [b.zext(word, I64) for word in words]
    return [b.or_(low, b.shl(high, I64(32))) for low, high in zip(wide[::2], wide[1::2])]


def _numbers(e: Emitter, name: str, counter: ir.Value, seed: ir.Value, stream: ir.Value) -> list[ir.Value]:
    """What one counter gives to its neighbours: SHARES[name] numbers of 64 bits."""
    words = philox_words(e, counter, seed, stream)
    return [e.builder.zext(word, I64) for word in words] if SHARES[name] == 4 else _halves(e, words)


def _random_type(kinds) -> types.Type | None:
    """The type of a random number: its counter, seed and stream have it too."""
    return types.uint64 if all(kind == types.uint64 for kind in kinds) else None


@emitted(_random_type, 3)
def philox(e, *values, first: int):
    """Two neighbouring words of Philox as 64 bits."""
    return _halves(e, philox_words(e, *values)[first : first + 2])[0]


@emitted(_random_type)
def shared_philox(e, position, seed, stream, *, name: str):
    """The random number at one position of the stream that counters 0, 1, … give."""
    return _alone(e, name, position, seed, stream)


def _alone(e: Emitter, name: str, position: ir.Value, seed: ir.Value, stream: ir.Value) -> ir.Value:
    shares = SHARES[name]
    counter = e.builder.lshr(position, I64(shares.bit_length() - 1))
    return _shifted(e, _numbers(e, name, counter, seed, stream), position, shares, 1)[0]


def _shifted(e: Emitter, numbers: list[ir.Value], by: ir.Value, shares: int, count: int) -> list[ir.Value]:
    """`count` numbers from `by` modulo `shares` on."""
    b, step = e.builder, shares // 2
    while step:
        far = b.icmp_unsigned("!=", b.and_(by, I64(step)), I64(0))
        left = count + step - 1
        numbers = [b.select(far, numbers[k + step], numbers[k]) for k in range(left)]
        step //= 2
    return numbers


def neighbours(e: Emitter, name: str, positions: list[ir.Value], seed: ir.Value, stream: ir.Value) -> list[ir.Value]:
    """The numbers at some positions; where these turn out to be neighbours, each counter is asked once."""
    b = e.builder
    if len(positions) == 1:
        return [_alone(e, name, positions[0], seed, stream)]
    near = ir.Constant(ir.IntType(1), 1)
    for k, position in enumerate(positions[1:], 1):
        near = b.and_(near, b.icmp_unsigned("==", b.sub(position, positions[0]), I64(k)))
    return e.if_else(
        near,
        lambda: _in_a_row(e, name, positions[0], len(positions), seed, stream),
        lambda: [_alone(e, name, position, seed, stream) for position in positions],
    )


def _in_a_row(e: Emitter, name: str, first: ir.Value, count: int, seed: ir.Value, stream: ir.Value) -> list[ir.Value]:
    """The numbers at `count` positions from `first` on. Rows rarely begin in the midst of what a counter gives; vectors
    may begin before the first position, whose counter follows that of -1.
    """
    b, shares = e.builder, SHARES[name]
    counter = b.ashr(first, I64(shares.bit_length() - 1))
    numbers: list[ir.Value] = []
    while len(numbers) < count:
        numbers += _numbers(e, name, b.add(counter, I64(len(numbers) // shares)), seed, stream)
    before = b.block
    with b.if_then(b.icmp_unsigned("!=", b.and_(first, I64(shares - 1)), I64(0))):
        more = numbers + _numbers(e, name, b.add(counter, I64(len(numbers) // shares)), seed, stream)
        moved, after = _shifted(e, more, first, shares, count), b.block
    return e.phi((numbers[:count], before), (moved, after))
