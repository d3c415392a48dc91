"""Philox4x32-10 (Salmon et al., SC 2011): random bits as a function of position, seed and stream."""

from __future__ import annotations

from ....ir.semantics import PHILOX_KEYS, PHILOX_MULTIPLIERS, PHILOX_ROUNDS
from ....ir.types import UINT32, UINT64
from ..llvm_values import LLVMValue, select


def words(position: LLVMValue, seed: LLVMValue, stream: LLVMValue) -> list[LLVMValue]:
    """The four 32-bit words of one counter, as uint32."""
    low, high = lambda x: x.to(UINT32), lambda x: (x >> 32).to(UINT32)
    words = [low(position), high(position), low(stream), high(stream)]
    keys = [low(seed), high(seed)]
    for _ in range(PHILOX_ROUNDS):
        a, b = (words[k].to(UINT64) * m for k, m in zip((0, 2), PHILOX_MULTIPLIERS))
        words = [high(b) ^ words[1] ^ keys[0], low(b), high(a) ^ words[3] ^ keys[1], low(a)]
        keys = [key + step for key, step in zip(keys, PHILOX_KEYS)]
    return words


def philox(position: LLVMValue, seed: LLVMValue, stream: LLVMValue) -> LLVMValue:
    """The first two words."""
    first, second, _, _ = words(position, seed, stream)
    return first.to(UINT64) | (second.to(UINT64) << 32)


def philox_high(position: LLVMValue, seed: LLVMValue, stream: LLVMValue) -> LLVMValue:
    """The last two words."""
    *_, third, fourth = words(position, seed, stream)
    return third.to(UINT64) | (fourth.to(UINT64) << 32)


def philox_word(position: LLVMValue, seed: LLVMValue, stream: LLVMValue) -> LLVMValue:
    """The 32-bit word at a position of the concatenated outputs of all counters."""
    first, second, third, fourth = words(position >> 2, seed, stream)
    upper, odd = (position & 2) != 0, (position & 1) != 0
    return select(odd, select(upper, fourth, second), select(upper, third, first)).to(UINT64)


def philox_pair(position: LLVMValue, seed: LLVMValue, stream: LLVMValue) -> LLVMValue:
    """The 64-bit half at a position of the concatenated outputs of all counters."""
    first, second, third, fourth = words(position >> 1, seed, stream)
    odd = (position & 1) != 0
    return select(odd, third, first).to(UINT64) | (select(odd, fourth, second).to(UINT64) << 32)
