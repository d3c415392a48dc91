"""Superaccumulators hold every float exactly, in words that so many more of them cannot overflow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fusedsl.ir.interp_scatter import merge_at
from fusedsl.ir.superaccumulators import (
    DOWN,
    SUPERACCUMULATORS,
    UP,
    Superaccumulator,
)
from fusedsl.ir.types import FLOAT32

RANDOM = np.random.default_rng(3)
KINDS = [a for kinds in SUPERACCUMULATORS.values() for a in kinds.values()]


def floats(accumulator: Superaccumulator) -> np.ndarray:
    """Floats of all exponents, the extreme ones among them."""
    d = np.dtype(accumulator.dtype.name)
    bits = RANDOM.integers(0, 1 << d.itemsize * 8, 4000, np.uint64).astype(f"u{d.itemsize}")
    facts = np.finfo(d)
    extreme = np.array([0, -0.0, facts.smallest_subnormal, -facts.tiny, facts.max, facts.min], d)
    return np.concatenate([bits.view(d), extreme])


def value_of(accumulator: Superaccumulator, words: np.ndarray) -> Fraction:
    """What the words of one place stand for."""
    unit = Fraction(2) ** accumulator.unit
    return sum(int(w) * unit * Fraction(2) ** (accumulator.width * c) for c, w in enumerate(words[:-1]))


@pytest.mark.parametrize("accumulator", KINDS, ids=str)
def test_terms_are_exact_and_leave_room_for_others(accumulator):
    x = floats(accumulator)
    terms = accumulator.terms(x)
    for k in np.flatnonzero(np.isfinite(x)):
        words = np.zeros(accumulator.chunks, object)
        for chunk, word in terms:
            words[chunk[k]] += int(word[k])
            assert abs(int(word[k])) << accumulator.term_bits <= 1 << 63
        assert value_of(accumulator, words) == Fraction(float(x[k]))
    special = {float("inf"): UP, float("-inf"): DOWN}
    for k in np.flatnonzero(~np.isfinite(x)):
        chunk, word = terms[0]
        assert (chunk[k], word[k]) == (accumulator.special, special.get(float(x[k]), UP + DOWN))


@pytest.mark.parametrize("accumulator", KINDS, ids=str)
def test_a_chunk_is_an_exponent_times_a_reciprocal(accumulator):
    exponents = np.arange((1 << accumulator.exponent_bits) - 1 + accumulator.low)
    np.testing.assert_array_equal(exponents * accumulator.reciprocal >> 16, exponents // accumulator.width)


@pytest.mark.parametrize("fold", SUPERACCUMULATORS)
def test_words_are_the_sums_of_places_in_any_order(fold):
    accumulator = SUPERACCUMULATORS[fold][FLOAT32]
    values = np.float32(RANDOM.standard_normal(300) * np.exp2(RANDOM.integers(-90, 90, 300)))
    places = RANDOM.integers(-4, 70, 300)
    shape = (2, accumulator.chunks, accumulator.group)
    made = [np.zeros(shape, np.int64) for _ in range(2)]
    order = RANDOM.permutation(300)
    merge_at(fold, made[0], places, values)
    merge_at(fold, made[1], places[order], values[order])
    np.testing.assert_array_equal(*made)
    for place in range(70):
        words = made[0][place // accumulator.group, :, place % accumulator.group]
        assert value_of(accumulator, words) == sum(map(Fraction, values[places == place].astype(float)))
