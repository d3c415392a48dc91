"""Selection by digits of long rows: emulated against NumPy, compiled without spills, and when it is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from ptx import emulated_gpu
from test_column import figures, source
from test_radix_sort import descending, elements

import fusedsl as fd
from fusedsl.backends.cuda.radix_select import schedule
from fusedsl.backends.cuda.sort import schedule as sort_schedule
from fusedsl.runtime.array_copies import to_host

RANDOM = np.random.default_rng(41)


@pytest.fixture
def short_blocks(monkeypatch):
    """Blocks hold rows of 1024 columns at most, and sort few candidates."""
    monkeypatch.setattr(sort_schedule, "LONGER", (1024,))
    monkeypatch.setattr(schedule, "LEAST_COLUMNS", 1024)
    monkeypatch.setattr(schedule, "LIMIT", 16)
    monkeypatch.setattr(schedule, "THREADS", 256)


def selected(text: str, multiprocessors: int = 2, **arrays: np.ndarray):
    """What a kernel computes on an emulated GPU, twice; one of its kernels is a selection."""
    with emulated_gpu(multiprocessors=multiprocessors) as gpu:
        kernel, given = fd.kernel(text, fallback=False), {name: gpu.asarray(x) for name, x in arrays.items()}
        first, second = (kernel(**given) for _ in range(2))  # the counters are 0 again
        assert "selected by digits" in str(kernel.explain(**given))
        results = [[*map(to_host, r if isinstance(r, tuple) else (r,))] for r in (first, second)]
    for one, again in zip(*results):
        np.testing.assert_array_equal(one, again)
    return results[0] if isinstance(first, tuple) else results[0][0]


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("dtype", ["float32", "int8", pytest.param("float64", marks=pytest.mark.slow)])
def test_ranks_of_rows_are_selected(dtype):
    """More rows than blocks; ties, NaN, infinities and zeros of both signs."""
    x = elements((3, 2500), dtype)
    text = "s = sort(x); s[:, 0], s[:, 1700], s[:, -1], argsort(x)[:, 1700]"
    made = selected(text, 1, x=x)
    order = np.argsort(x, axis=-1, kind="stable")
    wanted = [np.take_along_axis(x, order, -1)[:, k] for k in (0, 1700, -1)]
    for value, expected in zip(made, [*wanted, order[:, 1700]]):
        np.testing.assert_array_equal(value, expected)
    if x.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(made[1]), np.signbit(wanted[1]))


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_the_first_of_the_order_are_selected(dtype):
    x = elements((2, 2601), dtype)
    values, places = selected("v, i = topk(x, 70); v + v, i", x=x)
    order = descending(x)[:, :70]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x + x, order, -1))


@pytest.mark.usefixtures("short_blocks")
def test_elements_of_the_first_may_be_row_values():
    x = elements((2, 1300), "float32")
    best, worst, place, centred = selected("v, i = topk(x, 70); v[:, 0], v[:, -1], i[:, 3], v - v[:, :1]", x=x)
    order = descending(x)[:, :70]
    values = np.take_along_axis(x, order, -1)
    np.testing.assert_array_equal(place, order[:, 3])
    with np.errstate(invalid="ignore"):
        for found, wanted in ((best, values[:, 0]), (worst, values[:, -1]), (centred, values - values[:, :1])):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.usefixtures("short_blocks")
def test_ranks_may_be_computed():
    x = RANDOM.standard_normal((2, 1500)).astype("float32")
    i = np.array([[5], [1499]])
    np.testing.assert_array_equal(
        selected("take_along_axis(sort(x), i, -1)", x=x, i=i), np.take_along_axis(np.sort(x), i, -1)
    )
    x[:, ::7] = np.nan
    np.testing.assert_array_equal(selected("nanmedian(x, axis=-1)", x=x), np.nanmedian(x, axis=-1))
    centred = selected("x - nanquantile(x, 0.25, axis=-1, keepdims=True, method='lower')", x=x)
    np.testing.assert_array_equal(centred, x - np.nanquantile(x, 0.25, axis=-1, keepdims=True, method="lower"))


@pytest.mark.usefixtures("short_blocks")
def test_equal_elements_are_told_apart_by_their_columns():
    x = np.zeros(3000, "float32")
    x[::3] = -0.0
    ordered = selected("s = sort(x); s[1234], argsort(x)[1234]", x=x)
    assert np.signbit(ordered[0]) == np.signbit(x[1234]) and ordered[1] == 1234


def test_selections_compile_without_spills():
    for text, dtype in (("median(x)", "float32"), ("topk(x, 1000)", "float64"), ("quantile(x, [0.1, 0.9])", "int8")):
        for cc in (80, 90):
            report = figures(text, cc, x=((1 << 24,), dtype))
            assert all(kernel.figures.spill_bytes == 0 for kernel in report), str(report)


def test_orders_that_are_read_at_few_places_are_selections():
    chosen = "count_first_digits("
    assert chosen in source("median(x, axis=-1)", x=((16, 128256), "float32"))
    assert chosen in source("topk(x, 1000)", x=((16, 128256), "float32"))
    assert chosen not in source("median(x, axis=-1)", x=((16, 4096), "float32"))
    assert chosen not in source("sort(x)", x=((16, 128256), "float32"))
    assert chosen not in source("sort(x), median(x, axis=-1)", x=((16, 128256), "float32"))


def test_rows_that_blocks_share_are_folded_by_another_kernel():
    text = "sum(x > quantile(x, 0.9, axis=-1, keepdims=True), axis=-1)"
    assert str(fd.kernel(text).explain(fd.spec((16, 128256), "float32"), device="cuda")).startswith("2 kernels")
    assert str(fd.kernel(text).explain(fd.spec((16, 1000), "float32"), device="cuda")).startswith("1 kernel ")
