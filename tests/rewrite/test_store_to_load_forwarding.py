"""Rows that are read after other rows were written: the right ones, and without asking each write."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import evaluate as interpreted
from oracle import graph_of
from ptx import emulated_gpu

import fusedsl as fd
from fusedsl.rewrite.engine import rewrite


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


def long_columns(p):
    y = p.copy()
    for t in range(1, p.shape[1]):
        y[:, t] = 0.5 * y[:, t - 1] + p[:, t]
    return y


def shares(p):
    y = np.zeros_like(p)
    y[0] = p[0]
    for t in range(1, len(p)):
        y[t] = (y[t - 1] + p[t]) / (1 + np.sum(p[t] * p[t]))
    return y


def rows_of_products(p):
    y = p.copy()
    for t in range(1, len(p)):
        y[t] = y[t - 1] @ p[:8] + p[t]
    return y


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("function, kernels", [(rows, 6), (long_columns, 6), (shares, 12), (rows_of_products, 45)])
def test_many_written_rows_are_stored_and_read(function, kernels, device):
    """An element of the result was a choice among all rows, each computed from the first one on."""
    p = 0.5 * np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    p = p.T.copy() if function is long_columns else p
    fused = fd.fuse(function, fallback=False, verify=True)
    assert len(fused.explain(p, device=device, compile=False).kernels) <= kernels
    if device == "cpu":
        np.testing.assert_allclose(fused(p), function(p), 1e-4, 1e-5)
        return
    pytest.importorskip("numba_cuda")
    with emulated_gpu() as gpu:
        fused(gpu.asarray(p))  # which `verify` compares


@pytest.mark.parametrize("text", ["x[:, None][:, 0]", "x[:, None, :, None][:, 0, :, 0]", "x[2, None, :][0]"])
def test_the_first_of_a_new_axis_is_what_the_axis_was_given(text):
    x = np.random.default_rng(0).standard_normal((5, 6))
    graph, _ = graph_of(text, {"x": x})
    assert sum(n.op == "index" for n in rewrite(graph).nodes()) <= (text.startswith("x[2"))
    np.testing.assert_array_equal(fd.kernel(text + " + 0.0")(x), interpreted(text, x=x))


def test_a_new_axis_that_is_read_otherwise_stays():
    x = np.random.default_rng(0).standard_normal((5, 6))
    for text in ("x[:, None][0]", "x[:, None][1:, 0]", "x[:, None][:, 0, ::2]"):
        np.testing.assert_array_equal(fd.kernel(text + " + 0.0")(x), interpreted(text, x=x))
