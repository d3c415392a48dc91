"""Batched calls: many calls of one kernel in one launch, with the layout of their parameter block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

SMALL_WORDS = 511  # 4 KiB: what kernels take under any CUDA
BLOCK_WORDS = (128, SMALL_WORDS, 4095)  # words of a block; the last under CUDA 12.1 and later


@dataclass(frozen=True)
class BatchedCalls:
    """A block of `words` 8-byte words for up to `capacity` calls.

    From its start: the calls' pointers (`pointers` each), what is `fixed` of each (extents, strides, magics), the
    number of each call's first block (32 bits each), and the number of calls. From its end backwards: the scalars that
    all calls share, and those that each has of its `own`; both name scalars of the kernel.
    """

    words: int
    pointers: int
    fixed: int
    own: tuple[int, ...]
    shared: tuple[int, ...]

    @cached_property
    def capacity(self) -> int:
        """Calls of a launch."""
        return (2 * (self.words - 1 - len(self.shared)) - 1) // (2 * self.words_per_call + 1)

    @property
    def words_per_call(self) -> int:
        """Words of a call, beside half a word for its first block."""
        return self.pointers + self.fixed + len(self.own)

    @property
    def fixed_at(self) -> int:
        """The word where what is fixed of the first call begins."""
        return self.capacity * self.pointers

    @property
    def starts_at(self) -> int:
        """The word where the numbers of the calls' first blocks begin, two in a word."""
        return self.fixed_at + self.capacity * self.fixed

    @property
    def count_at(self) -> int:
        """The word that holds the number of calls."""
        return self.starts_at + -(-self.capacity // 2)

    def own_at(self, call: int = 0) -> int:
        """The word where the scalars of a call begin: calls stand from the end backwards."""
        return self.words - len(self.shared) - (call + 1) * len(self.own)

    @property
    def shared_at(self) -> int:
        """The word where the shared scalars begin: the last words of the block."""
        return self.words - len(self.shared)


def choose_batched_calls(
    calls: int, pointers: int, fixed: int, own: tuple[int, ...], shared: tuple[int, ...], largest: int
) -> BatchedCalls:
    """The smallest block of at most `largest` words that holds so many calls, or the largest block."""
    sizes = [words for words in BLOCK_WORDS if words <= largest]
    tables = [BatchedCalls(words, pointers, fixed, own, shared) for words in sizes]
    return next((table for table in tables if table.capacity >= calls), tables[-1])
