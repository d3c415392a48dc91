"""Long sums of float32: in chunks and trees wherever they are computed, never sequential."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd

COUNT = 60_000
X = np.full(COUNT, 0.1, np.float32)  # one after another, roundings of equal terms go the same way: 100 to 400 units
EXACT = float(X[0]) * COUNT
UNIT = 2.0**-24  # half an ulp, relative
AT_MOST = 20  # of them: a vector loop over 2,048 elements, or 64 one after another, and a tree of those

WHOLE = [
    "sum(x)", "sum(x * y)", "sum(cummax(x))", "sum(cummin(x))", "sum(x[::-1] * y)", "sum(x[i])", "sum(sort(x))",
    "sum(where(x > 0, x, 1))", "sum(fmod(x, 3.0))", "sum(hypot(x, x * 0))", "sum(float32(float16(x)) * 0 + x)",
    "sum(roll(x, 5))", "sum(pad(x, 2))", "sum(reshape(x, (-1, 3)))", "sum(sum(reshape(x, (3, -1)), 0))", "x @ y",
    "sum(flip(cummax(flip(x))))", "values, places = topk(x, 60000); sum(values)",
    "mean(cummax(x)) * 60000", "sum(lgamma(x + 1) * 0 + x)", "sum(x % 3.0)",
    "cumsum(x)[-1]", "flip(cumsum(flip(x)))[0]",
]  # fmt: skip


@pytest.mark.parametrize("text", WHOLE)
def test_sums_of_all_elements(text):
    given = {"x": X, "y": np.ones_like(X), "i": np.arange(COUNT)[::-1].copy()}
    found = fd.evaluate(text, given, fallback=False)
    assert abs(float(found) - EXACT) <= AT_MOST * UNIT * EXACT


@pytest.mark.parametrize("layout", [np.copy, np.asfortranarray, lambda x: np.repeat(x, 2, 1)[:, ::2]])
@pytest.mark.parametrize("shape", [(4, 15_000), (15_000, 4), (300, 200)])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_of_rows_and_columns(layout, shape, axis):
    x = layout(X.reshape(shape))
    exact = EXACT / shape[1 - axis]
    for text in ("sum(x, a)", "sum(cummax(x, a), a)", "mean(cummin(x, a), a) * size(x, a)", "sum(x * x, a) * 10"):
        found = fd.evaluate(text.replace("a)", f"{axis})"), x=x, fallback=False)
        assert np.abs(found - exact).max() <= AT_MOST * UNIT * exact, text


@pytest.mark.parametrize("layout", [np.copy, np.asfortranarray])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_so_far_do_not_drift(layout, axis):
    x = layout(np.full((4, 50_000) if axis else (50_000, 4), 0.1, np.float32))
    exact = np.cumsum(x, axis, dtype=np.float64)
    found = fd.evaluate(f"cumsum(x, {axis})", x=x, fallback=False)
    assert (np.abs(found - exact) / exact).max() <= AT_MOST * UNIT


def test_a_constant_running_maximum_has_no_variance():
    x = np.where(np.arange(1024) == 0, np.float32(0.7), np.float32(0.1))[None]
    mean, least, var = fd.evaluate("mean(cummax(x, 1), -1), sum(cummin(-x, 1), -1), var(cummax(x, 1), -1)", x=x)
    assert abs(mean[0] - np.float32(0.7)) < 2e-7 and abs(least[0] / 1024 + np.float32(0.7)) < 2e-7 and var[0] < 1e-13


def test_products_of_many_steps():
    x = np.full((8, 200_000), 0.1, np.float32)
    exact = float(x[0, 0]) ** 2 * 200_000
    found = fd.evaluate("x @ y", x=np.repeat(x, 4, 0), y=np.repeat(x, 4, 0).T, fallback=False)
    assert np.abs(found - exact).max() <= AT_MOST * UNIT * exact
    whole = np.ones((40, 40_000), np.int64)
    assert (fd.evaluate("x @ x.mT", x=whole) == 40_000).all()


def test_what_is_summed_over_rows_and_columns_at_once():
    x = X.reshape(300, 200)
    for found in fd.evaluate("y = x * 2; s = sum(y, 1); sum(y, 0) / 300, s / 200", x=x, fallback=False):
        assert np.abs(found - 2 * float(X[0])).max() <= AT_MOST * UNIT * 0.2
