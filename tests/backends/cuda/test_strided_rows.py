"""Rows whose elements lie apart in memory: neighbouring threads take neighbours along whichever axis is nearer."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cuda.rows.schedule import LoopedRowSchedule
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from one_kernel import scheduled
from ptx import emulated_gpu

WINDOWS = "max(tanh(x[:, 0::4] + x[:, 1::4] + x[:, 2::4] + x[:, 3::4]) * 2, axis=-1)"


def test_elements_that_are_nearer_along_columns_go_to_neighbouring_threads():
    kernel, schedule = scheduled(WINDOWS, fd.spec((4096, 4096)))
    assert kernel.columns_nearer
    assert isinstance(schedule, LoopedRowSchedule)
    assert not schedule.rows_across_lanes


@pytest.mark.parametrize("shape", [(40, 4), (40, 256), (33, 1028)])
def test_windows_of_rows_are_folded(shape):
    x = np.random.default_rng(3).standard_normal(shape, dtype=np.float32)
    expected = np.max(np.tanh(x.reshape(shape[0], -1, 4).sum(-1, dtype=np.float64)) * 2, axis=-1)
    with emulated_gpu() as gpu:
        found = to_host(fd.kernel(WINDOWS)(gpu.asarray(x)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
