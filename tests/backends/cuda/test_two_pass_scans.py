"""Scans of few rows that lie side by side: blocks find the totals of their parts first, and scan them then."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cuda.scan.schedule import LookbackSchedule, TwoPassScanSchedule
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from one_kernel import emulated, scheduled
from oracle import evaluate
from ptx import emulated_gpu

TEXTS = [
    ("cumsum(x, axis=0)", "float32"),
    ("cumsum(x * 2 + 1, axis=0, exclusive=True) * 3", "float32"),
    ("cummax(x, axis=0)", "float16"),
    ("cumsum(int32(x * 9), axis=0)", "float32"),  # sums of 64 bits
    ("linear_scan(0.9 * tanh(x), x, axis=0)", "float32"),  # the order counts, and states have two parts
    ("logcumsumexp(x, axis=0) - x", "float64"),
]


@pytest.mark.parametrize("rows", [16, 37])
@pytest.mark.parametrize(("text", "dtype"), TEXTS)
def test_parts_are_scanned_in_order(text, dtype, rows):
    x = np.random.default_rng(rows).standard_normal((2500, rows)).astype(dtype)
    found, schedule = emulated(text, 8, x=x)
    assert "rows side by side" in schedule
    np.testing.assert_allclose(found, evaluate(text, x=x), rtol=1e-5, atol=1e-4)


def test_a_call_may_be_repeated():
    x = np.random.default_rng(1).standard_normal((2300, 16)).astype("float32")
    with emulated_gpu(multiprocessors=3, cc=(9, 0)) as gpu:
        again = fd.kernel("cumsum(x, axis=0)", fallback=False).bind(gpu.asarray(x))
        for _ in range(3):  # counters of the barrier are 0 again
            np.testing.assert_allclose(to_host(again()), np.cumsum(x, 0, dtype="float64"), rtol=1e-4, atol=1e-4)


def test_only_few_long_rows_side_by_side_take_two_passes():
    assert isinstance(scheduled("cumsum(x, axis=0)", fd.spec((1 << 20, 16)))[1], TwoPassScanSchedule)
    assert isinstance(scheduled("cumsum(x, axis=0)", fd.spec((1 << 20, 2)))[1], LookbackSchedule)
    assert isinstance(scheduled("cumsum(x, axis=-1)", fd.spec((16, 1 << 20)))[1], LookbackSchedule)
    for shape in ((8192, 4096), (1000, 16)):
        assert not isinstance(scheduled("cumsum(x, axis=0)", fd.spec(shape))[1], TwoPassScanSchedule)
