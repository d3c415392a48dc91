"""Sorts of rows that a warp or a block holds: emulated against NumPy to the bit, compiled without spills."""

from __future__ import annotations

import numpy as np
import pytest
from ptx import emulated_gpu
from test_column import figures, source
from test_radix_sort import descending, elements

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

UP, DOWN = "argsort(x), sort(x)", "argsort(x, descending=True), sort(x, descending=True)"
NETWORKS = [(UP, (40, 3), "float32"), (UP, (7, 16), "float64"), (DOWN, (9, 33), "int8"), (DOWN, (3, 250), "float32")]
DIGITS = [(UP, (2, 300), "float32"), (DOWN, (2, 260), "int8"), (UP, (2, 515), "float64"), (DOWN, (2, 1030), "float16")]
LONG = [(UP, (1, 9000), "int16"), (DOWN, (1, 5001), "float32"), (UP, (1, 4096), "int64")]


@pytest.mark.parametrize(
    ("text", "shape", "dtype"), NETWORKS + DIGITS + [pytest.param(*case, marks=pytest.mark.slow) for case in LONG]
)
def test_rows_are_in_order_and_equals_in_the_order_of_their_columns(text, shape, dtype):
    x = elements(shape, dtype)
    with emulated_gpu(multiprocessors=2) as gpu:
        places, values = map(to_host, fd.kernel(text, fallback=False)(gpu.asarray(x)))
    order = descending(x) if text == DOWN else np.argsort(x, axis=-1, kind="stable")
    ordered = np.take_along_axis(x, order, -1)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, ordered)
    if x.dtype.kind == "f":
        numbers = ~np.isnan(ordered)
        np.testing.assert_array_equal(np.signbit(values)[numbers], np.signbit(ordered)[numbers])


@pytest.mark.parametrize("columns", [60, 700])
def test_unaligned_rows_of_which_values_alone_are_wanted(columns):
    """What precedes an aligned vector is missing like what follows the row, behind NaN."""
    x = elements((3, columns + 1), "float32")[:, 1:]
    with emulated_gpu(multiprocessors=2) as gpu:
        both = gpu.asarray(np.ascontiguousarray(x))
        made = to_host(fd.kernel("sort(x[:, 1:]), sort(x)[:, 2]", fallback=False)(both)[0])
    np.testing.assert_array_equal(made, np.sort(x[:, 1:]))


@pytest.mark.parametrize("cc", [80, 90, 120])
def test_held_sorts_compile_without_spills(cc):
    for text, shape, dtype in (
        ("sort(x)", (8192, 4096), "float32"),
        (UP, (8192, 8192), "float64"),
        ("argsort(x)", (512, 16000), "float32"),
        ("sort(x * 2 + 1)", (4096, 256), "float32"),
    ):
        report = figures(text, cc, x=(shape, dtype))
        assert all(kernel.figures.spill_bytes == 0 for kernel in report), str(report)


def test_the_length_of_a_row_says_where_it_is_sorted():
    assert "sort_warp(" in source("sort(x)", x=((1 << 16, 16), "float32"))
    assert "block_radix(" in source("sort(x)", x=((4096, 1000), "float32"))
    assert "radix_sorter(" in source("sort(x)", x=((4096, 20000), "float32"))


def test_few_elements_are_read_at_ranks_that_are_computed():
    x = np.array([0, 2, 2, 2, 1, 1, 2, 6], "int8")
    with emulated_gpu(multiprocessors=2) as gpu:
        kernel = fd.kernel("percentile(bincount(x, 7), (25, 75), 0, method='median_unbiased')", fallback=False)
        found = to_host(kernel(gpu.asarray(x)))
    np.testing.assert_allclose(found, np.percentile(np.bincount(x), (25, 75), method="median_unbiased"), rtol=1e-6)
