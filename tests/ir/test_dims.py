"""Extents as expressions: laws that keep them short, which hold for every number of elements."""

from __future__ import annotations

from itertools import product

import pytest

from fusedsl.ir.dims import Symbol, evaluate, expression

N = Symbol(0, 0)
BOUNDS = (None, 0, 1, 3, 5, -1, -4)


def sliced(begin: int | None, end: int | None):
    return expression("slice", N, begin, end, None)


@pytest.mark.parametrize("cut", [1, 12, -1, -12])
def test_both_parts_of_an_axis_have_its_extent(cut):
    assert expression("+", sliced(None, cut), sliced(cut, None)) == N
    assert expression("+", sliced(cut, None), sliced(None, cut)) == N


def test_neighbouring_slices_are_one():
    assert expression("+", sliced(1, 3), sliced(3, 5)) == sliced(1, 5)
    assert expression("+", expression("+", sliced(None, 4), sliced(4, 8)), sliced(8, None)) == N


def test_sums_of_slices_are_right_for_every_extent():
    for bounds in product(BOUNDS, repeat=4):
        total = expression("+", sliced(*bounds[:2]), sliced(*bounds[2:]))
        for n in range(9):
            parts = (len(range(n)[begin:end]) for begin, end in (bounds[:2], bounds[2:]))
            assert evaluate(total, {N: n}) == sum(parts), (bounds, n)
