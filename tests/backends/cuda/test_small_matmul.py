"""Batches of small matrices on CUDA: kernels compile without spilling, and compute what they should, without a GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from test_cuda_emulated import check_twice

import fusedsl as fd

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

RANDOM = np.random.default_rng(6)
HALF, BRAIN = np.float16, ml_dtypes.bfloat16


def normal(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


CASES = {
    "16 by 16": ("x @ w", {"x": normal(37, 16, 16), "w": normal(37, 16, 16)}),
    "transposed, ends in all directions": (
        "x @ w.mT + b", {"x": normal(70, 13, 30), "w": normal(70, 7, 30), "b": normal(7)},
    ),
    "several batch axes": ("x @ w[:, ::2]", {"x": normal(5, 8, 9, 11), "w": normal(5, 16, 11, 17)}),
    "bfloat16, an epilogue of rows": (
        "gelu(x @ w) * s[:, :, None]",
        {"x": normal(40, 20, 12, dtype=BRAIN), "w": normal(40, 12, 24, dtype=BRAIN), "s": normal(40, 20)},
    ),
    "computed factors, two products": (
        "(x * 2) @ w - x @ (w + 1)", {"x": normal(33, 10, 16), "w": normal(33, 16, 12)},
    ),
    "a matrix with itself": ("x @ x.mT", {"x": normal(70, 8, 100, dtype=HALF)}),
    "float64": ("x @ w", {"x": normal(36, 9, 9, dtype=np.float64), "w": normal(36, 9, 9, dtype=np.float64)}),
    "reversed": ("x[:, ::-1] @ w[:, :, ::2]", {"x": normal(36, 9, 9), "w": normal(36, 9, 18)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_small_matrices_on_an_emulated_gpu(name):
    text, arrays = CASES[name]
    kernel = fd.kernel(text)
    with emulated_gpu(multiprocessors=2) as gpu:
        assert "small matrices" in kernel.source(*(gpu.asarray(arrays[p]) for p in kernel.params))
        check_twice(gpu, text, arrays)


@pytest.mark.parametrize(("edge", "dtype"), [(16, "float32"), (32, "float32"), (8, "float64"), (24, "bfloat16")])
def test_small_matrices_do_not_spill(edge, dtype):
    given = [fd.spec((65536, edge, edge), dtype)] * 2
    for cc in (80, 90):
        (found,) = fd.kernel("x @ w").resources(*given, cc=cc)
        assert found.figures.spill_bytes == 0
    assert "small matrices" in fd.kernel("x @ w").source(*given, device="cuda")
