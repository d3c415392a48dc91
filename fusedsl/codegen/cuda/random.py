"""Random bits on CUDA: Philox4x32-10 of a position, a stream and a seed (Salmon et al., SC 2011)."""

from __future__ import annotations

from ...ir.meaning import PHILOX_KEYS, PHILOX_MULTIPLIERS, PHILOX_ROUNDS
from .backend import I32, I64, Emitter, intrinsic, ir, types


def _philox_words(e: Emitter, position: ir.Value, seed: ir.Value, stream: ir.Value) -> list[ir.Value]:
    """Philox4x32-10: the four 32-bit words of one counter (position, stream) under a key."""
    b = e.builder
    parts = [[b.trunc(x, I32), b.trunc(b.lshr(x, I64(32)), I32)] for x in (position, stream, seed)]
    words, keys = [*parts[0], *parts[1]], parts[2]
    for _ in range(PHILOX_ROUNDS):
        products = [b.mul(b.zext(words[k], I64), I64(m)) for k, m in zip((0, 2), PHILOX_MULTIPLIERS)]
        (low_a, high_a), (low_b, high_b) = ([b.trunc(p, I32), b.trunc(b.lshr(p, I64(32)), I32)] for p in products)
        words = [b.xor(b.xor(high_b, words[1]), keys[0]), low_b, b.xor(b.xor(high_a, words[3]), keys[1]), low_a]
        keys = [b.add(key, I32(step)) for key, step in zip(keys, PHILOX_KEYS)]
    return words


def philox(first: int):
    """Two neighbouring words of Philox as 64 bits."""

    def rule(*kinds):
        def emit(e, *values):
            low, high = _philox_words(e, *values)[first : first + 2]
            return e.builder.or_(e.builder.zext(low, I64), e.builder.shl(e.builder.zext(high, I64), I64(32)))

        return (types.uint64, emit) if all(kind == types.uint64 for kind in kinds) else None

    return intrinsic(3)(rule)
