"""Radix sorts of long rows: emulated against NumPy to the bit, compiled without spills, and when they are chosen."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from ptx import emulated_gpu
from test_column import figures, source

import fusedsl as fd
from fusedsl.backends.cuda.sort import schedule as sort_schedule
from fusedsl.runtime.array_copies import to_host

RANDOM = np.random.default_rng(31)
BRAIN = ml_dtypes.bfloat16


def elements(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few values with many ties; of floats also NaN, infinities and zeros of both signs."""
    x = np.round(RANDOM.standard_normal(shape) * 40)
    if np.dtype(dtype).kind not in "fV":
        return (np.abs(x) if np.dtype(dtype).kind == "u" else x).astype(dtype)
    x = (x / 8).astype(dtype)
    for value in (np.nan, -0.0, 0.0, np.inf, -np.inf):
        x[RANDOM.random(shape) < 0.05] = value
    return x


def descending(x: np.ndarray) -> np.ndarray:
    """The stable order with the largest first."""
    return x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]


CASES = [
    ("argsort(x)", (1500,), "float64", 2, lambda x: np.argsort(x, kind="stable")),
    ("argsort(x, descending=True)", (1, 5000), "int8", 2, descending),
    ("sort(x)", (5, 2600), "uint8", 1, np.sort),  # more rows than blocks
    ("argsort(x)", (2600,), "uint16", 1, lambda x: np.argsort(x, kind="stable")),
    ("sort(x)", (2, 2600), "float16", 2, np.sort),
    ("argsort(x, descending=True)", (2600,), "float16", 2, descending),
    ("argsort(x)", (2600,), BRAIN, 1, lambda x: np.argsort(x.astype(np.float32), kind="stable")),
    ("argsort(x)", (1500,), ml_dtypes.float8_e4m3fn, 1, lambda x: np.argsort(x.astype("f4"), kind="stable")),
    ("argsort(bfloat16(x))", (2600,), "float32", 1, lambda x: np.argsort(x.astype(BRAIN).astype("f4"), kind="stable")),
    ("argsort(0 * x)", (2600,), "int16", 2, lambda x: np.arange(2600)),  # no digit differs: no word moves
]


@pytest.fixture
def short_blocks(monkeypatch):
    """Blocks hold rows of 1024 columns at most."""
    monkeypatch.setattr(sort_schedule, "LONGER", (1024,))


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize(("text", "shape", "dtype", "multiprocessors", "wanted"), CASES)
def test_long_rows_are_sorted_by_digits(text, shape, dtype, multiprocessors, wanted):
    x = elements(shape, dtype)
    with emulated_gpu(multiprocessors=multiprocessors) as gpu:
        kernel = fd.kernel(text, fallback=False)
        made = to_host(kernel(gpu.asarray(x)))
        ((_, grid),) = gpu.launches
    assert grid.cooperative
    np.testing.assert_array_equal(made, wanted(x))


@pytest.mark.usefixtures("short_blocks")
def test_zeros_keep_their_signs_and_what_surrounds_a_sort_is_fused():
    x = elements((1, 2600), "float32")
    text = "v, i = topk(x + x, 1300); v * 2, i, sort(x + x, descending=True)[:, 1]"
    with emulated_gpu(multiprocessors=2) as gpu:
        values, places, second = map(to_host, fd.kernel(text)(gpu.asarray(x)))
    order = descending(x)[:, :1300]
    ordered = np.take_along_axis(x + x, order, -1) * 2
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, ordered)
    finite = ~np.isnan(ordered)
    np.testing.assert_array_equal(np.signbit(values)[finite], np.signbit(ordered)[finite])
    np.testing.assert_array_equal(second * 2, ordered[:, 1])


@pytest.mark.parametrize("cc", [80, 90, 120])  # from 100 on, the compiler verifies what it is given
def test_radix_sorts_compile_without_spills(cc):
    for text, dtype in (("sort(x)", "float32"), ("argsort(x)", "bfloat16"), ("sort(x), argsort(x)", "float64")):
        report = figures(text, cc, x=((1 << 24,), dtype))
        assert all(kernel.figures.spill_bytes == 0 for kernel in report), str(report)


def test_rows_that_fit_shared_memory_and_few_best_are_ordered_otherwise():
    assert "radix_sorter(" in source("sort(x)", x=((16, 128256), "float32"))
    assert "radix_sorter(" not in source("sort(x)", x=((16, 4096), "float32"))
    assert "radix_sorter(" not in source("topk(x, 100)", x=((16, 128256), "float32"))


def test_a_new_length_of_a_radix_sort_compiles_nothing():
    texts = {source("argsort(x)", x=((3, n), "float32")) for n in (50_000, 1_000_003)}
    assert len(texts) == 1
