"""Kernels whose binaries serve all lengths: right results, without a GPU (tests/ptx) and on one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from test_targets import as_torch, check

import fusedsl as fd
from fusedsl.schedule import looped

BRAIN = ml_dtypes.bfloat16
RANDOM = np.random.default_rng(5)
TEXTS = {
    "several rows": "h = x + y; return layer_norm(h, w, b), softmax(x), max(y, axis=-1)",
    "a row with a read of its own": "logsumexp(x, -1) - take_along_axis(x, i[:, None], -1)[:, 0]",
    "columns": "softmax(x, 0), var(x, axis=0)",
    "scattered rows": "softmax(z.T + y)",
    "scans": "cumsum(x, -1)",
    "the best": "topk(x, 3)",
    "orders": "sort(x), argsort(y)",
}  # fmt: skip


def arrays(n, m, dtype):
    """What the texts read, of rows of m elements."""
    shapes = {"x": (n, m), "y": (n, m), "z": (m, n), "w": (m,), "b": (m,)}
    made = {name: RANDOM.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    return made | {"i": RANDOM.integers(0, m, n)}


@pytest.mark.parametrize("name", TEXTS)
def test_rows_of_any_length(name):
    """On a small GPU, whose few blocks share columns."""
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    dtype = BRAIN if name in ("several rows", "the best") else np.float32
    with fd.options(dynamic=True, fallback=False), emulated_gpu(multiprocessors=4) as gpu:
        for shape in [(7, 37), (3, 64), (1, 301), (2, 1304)]:
            check(TEXTS[name], arrays(*shape, dtype), gpu.asarray)


def test_a_thread_behind_a_row_that_is_passed_twice_writes_nothing(monkeypatch):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    monkeypatch.setattr(looped, "_team", lambda *_: 32)
    monkeypatch.setattr("fusedsl.schedule.rows.schedule_resident", lambda *_: None)
    monkeypatch.setattr("fusedsl.schedule.rows.schedule_shared", lambda *_: None)
    with emulated_gpu() as gpu:
        check("softmax(x)", arrays(5, 24, np.float32), gpu.asarray)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", TEXTS)
def test_rows_of_any_length_on_a_gpu(name, dtype):
    kind = BRAIN if dtype == "bfloat16" else np.dtype(dtype)
    shapes = [(1, 3), (300, 5), (7, 37), (33, 64), (257, 130), (1, 301), (40, 1999), (9, 12_345), (3, 40_001)]
    with fd.options(dynamic=True, fallback=False):
        for shape in [*shapes, (1, 70_001), (2, 100_000), (3, 4096)]:
            if name == "the best" or name == "orders" or shape[1] < 50_000:
                check(TEXTS[name], arrays(*shape, kind), lambda v: moved(as_torch(v)))


def moved(x):
    """The array at an address that is no multiple of 16 bytes."""
    room = x.new_empty(x.numel() + 1)
    room[1:] = x.reshape(-1)
    return room[1:].reshape(x.shape)
