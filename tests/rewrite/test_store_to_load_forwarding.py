"""Rows that are read after other rows were written: the right ones, and without asking each write."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import evaluate as interpreted

import fusedsl as fd


def rows(p):
    y = np.zeros_like(p)
    y[0] = p[0]
    for t in range(1, len(p)):
        y[t] = 0.5 * y[t - 1] + p[t]
    return y


def columns(p):
    y = p.copy()
    for t in range(2, 6):
        y[:, t] = y[:, t - 1] * y[:, t - 2] + y[:, 0]
    return y


def elements(p):
    y = p.copy()
    for i in range(1, 4):
        for j in range(1, 4):
            y[i, j] = y[i - 1, j] + y[i, j - 1] - y[i - 1, j - 1]
    return y


def numbers(p):
    y = p.copy()
    for t in range(1, 5):
        y[t] = t
        y[t - 1] = y[t] + y[0]
    return y


def from_the_end(p):
    y = p.copy()
    for t in range(1, 4):
        y[-t] = y[-t - 1] + y[t]
    return y


def parts_of_rows(p):
    y = p.copy()
    for t in range(1, 5):
        y[t, 1:4] = y[t - 1, 2:5] + y[t, 0:3]
    return y, y[3, ::-1], y[2, None, :, None]


def blocks(p):
    y = np.zeros((3, *p.shape), p.dtype)
    for t in range(1, 3):
        y[t] = y[t - 1] + p
        y[0, t] = y[t, 0]
    return y[2], y[:, 1]


def last_row(p):
    return rows(p)[len(p) - 1]


def swapped(p):
    y = p.copy()
    y[0], y[1] = y[1], y[0]
    return y[0] - y[1], y[:1]


FUNCTIONS = (rows, columns, elements, numbers, from_the_end, parts_of_rows, blocks, last_row, swapped)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_read_sees_the_write_before_it(function):
    p = np.random.default_rng(0).standard_normal((7, 6)).astype(np.float32)
    fused = fd.fuse(function, fallback=False, verify=True)
    want, got = function(p), fused(p)
    for one, right in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        np.testing.assert_allclose(one, right, 1e-5, 1e-6)


@pytest.mark.parametrize("condition", ["arange(1) == 0", "(arange(7) == 2)[2:3]", "arange(1) == arange(7)"])
def test_a_condition_of_one_row_holds_of_all_rows(condition):
    p = np.random.default_rng(0).standard_normal((7, 6)).astype(np.float32)
    for row in (0, 5):
        text = f"where(({condition})[:, None], p, -p)[{row}]"
        np.testing.assert_array_equal(fd.kernel(text, fallback=False)(p), interpreted(text, p=p))


def test_a_row_that_was_written_asks_no_other_write():
    p = np.ones((9, 4), np.float32)
    assert fd.fuse(last_row)(p).shape == (4,)
    assert "where" not in str(fd.fuse(last_row).source(p))
    assert str(fd.fuse(rows).source(p)).count("select(") <= 2 * len(p)
