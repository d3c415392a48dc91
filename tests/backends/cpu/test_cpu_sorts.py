"""Radix sort and insertion sort on the CPU: rows of any length and dtype, in stable order, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd

SORT = fd.kernel("sort(x), argsort(x), sort(x, descending=True), argsort(x, descending=True)", fallback=False)
RANDOM = np.random.default_rng(5)


def require_sorted(x: np.ndarray) -> None:
    """Hold both directions against NumPy's stable order: the same bits, except for a NaN's."""
    values, order, down, back = SORT(x)
    wanted = np.argsort(x, axis=-1, kind="stable")
    np.testing.assert_array_equal(order, wanted)
    flipped = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    np.testing.assert_array_equal(back, x.shape[-1] - 1 - flipped)
    for result, places in ((values, order), (down, back)):
        ordered = np.take_along_axis(x, places, -1)
        np.testing.assert_array_equal(result, ordered)
        if x.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(result), np.signbit(ordered))


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint16", "int32", "int64", "uint64", "bool"]
)
def test_rows_of_any_length_are_in_stable_order(dtype):
    for columns in (2, 40, 41, 1000):
        x = RANDOM.integers(-90, 90, (3, columns))
        x = (x > 0) if dtype == "bool" else x.astype(dtype)
        if x.dtype.kind == "f":
            for value, share in ((np.nan, 0.1), (-0.0, 0.2), (0.0, 0.1), (np.inf, 0.05), (-np.inf, 0.05)):
                x[RANDOM.random(x.shape) < share] = value
        require_sorted(x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_keys_of_which_few_digits_differ_are_in_stable_order(dtype):
    whole = RANDOM.integers(-(2**62), 2**62, 3000)
    for spread in (1, 1 << 20, 1 << 40, 1 << 55):
        require_sorted((whole // spread * spread).astype(dtype))  # high digits alone
        require_sorted((whole % spread).astype(dtype))  # low digits alone
        require_sorted((whole // spread * spread + whole % 7).astype(dtype))
    high, low = RANDOM.integers(0, 256, 3000), RANDOM.integers(0, 1 << 30, 3000)
    require_sorted(((high << 56) + (high << 48) + (high << 40) + (high << 32) + low).astype(dtype))  # digits that agree
    require_sorted(np.sort(whole).astype(dtype))
    require_sorted(np.sort(whole)[::-1].astype(dtype))


VALUES = {
    "sort(x)": lambda x: x,
    "sort(x, descending=True)": lambda x: x,
    "sort(x, descending=True)[..., :3]": lambda x: x,
    "sort(x + x)[..., ::2]": lambda x: x + x,
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint16", "int32", "uint64", "bool"])
@pytest.mark.parametrize("text", VALUES)
def test_rows_that_numpy_sorts_have_the_bits_of_a_stable_sort(text, dtype):
    """Values alone are sorted by NumPy, in the result or in the workspace: zeros of both signs keep their order."""
    for shape in ((3000,), (3, 500), (2, 3, 41)):
        x = (RANDOM.integers(0, 40, shape)).astype(dtype)
        if x.dtype.kind == "f":
            for value, share in ((np.nan, 0.05), (-0.0, 0.1), (0.0, 0.1), (-np.inf, 0.05)):
                x[RANDOM.random(shape) < share] = value
            x.reshape(-1, shape[-1])[-1, -1] = 1.5
        keys = VALUES[text](x)
        ordered = np.take_along_axis(keys, np.argsort(keys, axis=-1, kind="stable"), -1)
        if "descending" in text:
            back = np.argsort(keys[..., ::-1], axis=-1, kind="stable")[..., ::-1]
            ordered = np.take_along_axis(keys, keys.shape[-1] - 1 - back, -1)
        wanted = ordered[..., :3] if ":3" in text else ordered[..., ::2] if "::2" in text else ordered
        result = fd.kernel(text, fallback=False)(x)
        np.testing.assert_array_equal(result, wanted)
        if x.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(result), np.signbit(wanted))


def test_rows_are_sorted_where_they_are_stored():
    x = RANDOM.standard_normal((4, 300))
    assert "ranks" not in fd.kernel("sort(x)").source(x, device="cpu")
    assert "def ranks" in fd.kernel("sort(x)[:, 3]").source(x, device="cpu")
    out = np.empty((300, 4)).T
    np.testing.assert_array_equal(fd.kernel("sort(x)")(x, out=out), np.sort(x))
    np.testing.assert_array_equal(fd.evaluate("sort(x)", x=x, out=x), out)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("what", ["random", "ascending", "NaN"])
def test_the_best_of_long_rows_are_selected_in_stable_order(dtype, what):
    x = (np.abs(RANDOM.standard_normal((2, 70_001))) * 40).astype(dtype)
    x = np.sort(x) if what == "ascending" else x
    if what == "NaN" and x.dtype.kind == "f":
        x[0], x[0, :50], x[0, -60:] = np.nan, 3, 1
        x[1, ::7] = -0.0
    values, places = fd.kernel("topk(x, 100)", fallback=False)(x)
    wanted = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1][:, :100]
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, -1))
    least = fd.kernel("argsort(x)[:, :100]", fallback=False)(x)
    np.testing.assert_array_equal(least, np.argsort(x, axis=-1, kind="stable")[:, :100])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32", "int16", "int8", "bool"])
@pytest.mark.parametrize("shape", [(7, 200), (3, 41), (1, 5000), (5, 3, 64)])
def test_positions_alone_are_of_integers_of_keys_and_columns(dtype, shape):
    """Those of narrow keys are sorted by NumPy as one integer each, in which equals differ by their columns."""
    x = (5 * np.random.default_rng(0).standard_normal(shape)).round().astype(dtype)
    if x.dtype.kind == "f":
        x[..., 5:11] = np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf
    descending = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    wanted = {
        "argsort(x)": np.argsort(x, axis=-1, kind="stable"),
        "argsort(x, descending=True)": descending,
        "argsort(x)[..., 3] + 0": np.argsort(x, axis=-1, kind="stable")[..., 3],
        "sum(argsort(x)[..., :20], -1)": np.argsort(x, axis=-1, kind="stable")[..., :20].sum(-1),
    }
    for text, right in wanted.items():
        kernel = fd.kernel(text, fallback=False)
        np.testing.assert_array_equal(kernel(x), right, text)
        assert "_pair(" in kernel.source(x, device="cpu")
