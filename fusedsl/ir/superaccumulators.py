"""Superaccumulators: sums of floats in integers, whose bits no order of additions changes.

A superaccumulator (Kulisch 1981; the chunks are those of Neal 2015, arXiv:1505.05571) holds a float sum as int64
words, one for each range of exponents: a chunk. A float is an integer shifted within its chunk, so adding it is one
integer addition; a float64 is two of them, its upper and its lower bits. Indices lie in groups of neighbours, chunk by
chunk, so that the chunks that most values fall in lie together.

The fewer terms an index may have, the fewer bits are kept free for their number, and the wider the chunks are. Where
runs of one index are summed before they are added, additions are few, and words count: chunks are then as wide as they
may be, and what a mantissa shifted within its chunk has beyond it is added to the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .types import FLOAT32, FLOAT64, DType

# Folds of scatters that add floats to words of shape (groups, chunks, group): up to 2**bits at an index in any order,
# by the bits; and of indices in runs, up to as many as the most.
ACCUMULATE = {bits: f"accumulate {bits}" for bits in (20, 24, 28)}
ACCUMULATE_MANY = {bits: f"accumulate {bits} many" for bits in ACCUMULATE}  # for many indices
ACCUMULATE_RUNS = "accumulate runs"
# Neighbouring indices, whose words of one chunk lie together; of many indices more: atomics are faster on words that
# are near. Measured: H100, 16 M float32 into 65,536 indices: 350 us in groups of 64, 286 of 512, 246 of 4096
GROUP, LARGE_GROUP = 64, 4096
MOST_BITS = max(ACCUMULATE)  # binary logarithm of the values that a word can take, whatever they are
UP, DOWN = 1, 1 << 32  # what an infinity counts in the last chunk, above and below; a NaN counts as both


@dataclass(frozen=True)
class Superaccumulator:
    """The words of a sum of floats of one dtype: of shape (groups, chunks, group)."""

    dtype: DType
    width: int  # exponents of a chunk
    mantissa: int  # bits, the leading one among them
    low: int  # bits of the lower part of a mantissa; 0 if it has none
    carries: bool = False  # whether the chunks hold so many bits, and what is beyond them goes to the next one
    term_bits: int = MOST_BITS  # binary logarithm of the values that a word can take
    group: int = GROUP  # neighbouring indices

    @property
    def exponent_bits(self) -> int:
        return self.dtype.bits - self.mantissa

    @property
    def special(self) -> int:
        """The chunk that counts infinities and NaN, behind those of numbers; also, how many these are."""
        return ((1 << self.exponent_bits) - 2 + self.low) // self.width + 1 + self.carries

    @property
    def chunks(self) -> int:
        return self.special + 1

    @property
    def unit(self) -> int:
        """The exponent of one in chunk 0; in each further chunk it is `width` more."""
        return 2 - (1 << self.exponent_bits - 1) - self.mantissa

    @cached_property
    def reciprocal(self) -> int:
        """An exponent times this, shifted right by 16, is its chunk."""
        return -(-(1 << 16) // self.width)

    def terms(self, values: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """(chunks, words) of what is added for each value."""
        bits = values.view(np.dtype(f"u{self.dtype.itemsize}")).astype(np.uint64)
        field = ((bits >> np.uint64(self.mantissa - 1)) & np.uint64((1 << self.exponent_bits) - 1)).astype(np.int64)
        mantissa = (bits & np.uint64((1 << self.mantissa - 1) - 1)).astype(np.int64)
        mantissa |= np.where(field > 0, 1 << self.mantissa - 1, 0)
        exponent, sign = np.maximum(field, 1), np.where(np.signbit(values), -1, 1)
        finite = np.isfinite(values)
        terms = []
        for shift, part in self.parts(mantissa):
            chunk = ((exponent + shift) * self.reciprocal) >> 16
            wide = part << (exponent + shift - chunk * self.width)
            words = [wide & ((1 << self.width) - 1), wide >> self.width] if self.carries else [wide]
            for further, word in enumerate(words):
                terms.append((np.where(finite, chunk + further, self.special), np.where(finite, sign * word, 0)))
        counted = np.where(np.isnan(values), UP + DOWN, np.where(sign > 0, UP, DOWN))
        terms[0] = (terms[0][0], np.where(finite, terms[0][1], counted))
        return terms

    def parts(self, mantissa: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """(what its exponent is more than that of the lowest bit, the part) of mantissas."""
        if not self.low:
            return [(0, mantissa)]
        return [(self.low, mantissa >> self.low), (0, mantissa & ((1 << self.low) - 1))]

    def add_at(self, words: np.ndarray, flat_indices: np.ndarray, values: np.ndarray) -> None:
        """Add values at indices to words, in C order."""
        grouped = words.reshape(words.size // (self.chunks * self.group), self.chunks, self.group)
        for chunk, word in self.terms(values):
            np.add.at(grouped, (flat_indices // self.group, chunk, flat_indices % self.group), word)


def _in_any_order(dtype: DType, mantissa: int, low: int, bits: int, group: int) -> Superaccumulator:
    """Chunks of the exponents that 63 bits have room for, beside a part of a mantissa and so many terms."""
    width = 64 - bits - max(low, mantissa - low)
    return Superaccumulator(dtype, width, mantissa, low, term_bits=bits, group=group)


SUPERACCUMULATORS = {
    fold: {FLOAT32: _in_any_order(FLOAT32, 24, 0, bits, g), FLOAT64: _in_any_order(FLOAT64, 53, 26, bits, g)}
    for g, folds in ((GROUP, ACCUMULATE), (LARGE_GROUP, ACCUMULATE_MANY))
    for bits, fold in folds.items()
}
SUPERACCUMULATORS[ACCUMULATE_RUNS] = {
    FLOAT32: Superaccumulator(FLOAT32, 35, 24, 0, carries=True),
    FLOAT64: Superaccumulator(FLOAT64, 35, 53, 26, carries=True),
}
