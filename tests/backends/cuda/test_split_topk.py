"""Top-k of long rows that blocks share: emulated against NumPy, compiled without spills, and when it is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from ptx import emulated_gpu
from test_column import figures, source
from test_radix_sort import descending, elements

import fusedsl as fd
from fusedsl.backends.cuda.sort import onesweep_schedule, sort_method, split_topk_schedule
from fusedsl.backends.cuda.sort import schedule as sort_schedule
from fusedsl.runtime.array_copies import to_host

TOPK = "v, i = topk({}, 20); v * 2, i"


@pytest.mark.parametrize(("dtype", "shape", "part"), [("float32", (2, 9001), "x"), ("int64", (5000,), "x * 3")])
def test_the_best_of_the_shares_are_the_best_of_the_row(monkeypatch, dtype, shape, part):
    monkeypatch.setattr(split_topk_schedule, "LEAST_COLUMNS", 1000)
    x = elements(shape, dtype)
    with emulated_gpu(multiprocessors=4) as gpu:
        kernel = fd.kernel(TOPK.format(part), fallback=False)
        for _ in range(2):  # the counters are 0 again
            values, places = map(to_host, kernel(gpu.asarray(x)))
        assert all(grid.blocks > (shape[0] if len(shape) > 1 else 1) for _, grid in gpu.launches)
    y = x if part == "x" else x * 3
    order = descending(y)[..., :20]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(y, order, -1) * 2)


@pytest.mark.parametrize(("text", "count"), [(TOPK.format("x"), 20), ("v, i = topk(x, 2500); v * 2, i", 2500)])
def test_columns_whose_tags_do_not_fit_beside_their_keys(monkeypatch, text, count):
    """As if 1000 columns were 2^31: the best are gathered by several blocks, and all are sorted in runs and merged."""
    monkeypatch.setattr(split_topk_schedule, "LEAST_COLUMNS", 1000)
    monkeypatch.setattr(onesweep_schedule, "MOST_COLUMNS", 1000)
    monkeypatch.setattr(sort_method, "TAG_COLUMNS", 1000)
    monkeypatch.setattr(sort_schedule, "LONGER", (1024,))
    x = elements((1, 2600), "float32")
    with emulated_gpu(multiprocessors=4) as gpu:
        values, places = map(to_host, fd.kernel(text, fallback=False)(gpu.asarray(x)))
    order = descending(x)[..., :count]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1) * 2)
    assert "wide=True" in source(text, x=((1, 2600), "float32"))
    assert "wide=True" not in source(text, x=((1, 2600), "float64"))


def test_split_topk_compiles_without_spills():
    for dtype, k in (("float32", 100), ("float64", 7), ("bfloat16", 500)):
        for cc in (80, 90):
            report = figures(f"topk(x, {k})", cc, x=((1 << 24,), dtype))
            assert all(kernel.figures.spill_bytes == 0 for kernel in report), str(report)


def test_few_long_rows_are_shared():
    shared = "is_last_block("
    assert shared in source("topk(x, 50)", x=((16, 128256), "float32"))
    assert shared not in source("topk(x, 50)", x=((2000, 128256), "float32"))
    assert shared not in source("topk(x, 50)", x=((16, 10000), "float32"))
    assert shared not in source("topk(softmax(x), 8)", max_kernels=1, x=((16, 128256), "float32"))
