"""Products with few rows on CUDA: kernels compile without spilling, and compute what they should, without a GPU."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from test_cuda_emulated import check_twice

import fusedsl as fd

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

RANDOM = np.random.default_rng(5)
HALF, BRAIN = np.float16, ml_dtypes.bfloat16


def normal(*shape, dtype=BRAIN):
    return RANDOM.standard_normal(shape).astype(dtype)


# name: text, arrays, whether several blocks share a tile
CASES = {
    "weights across the sum": ("x @ w", {"x": normal(16, 800), "w": normal(800, 136)}, True),
    "weights along the sum, ends in all directions": ("x @ w.T", {"x": normal(5, 776), "w": normal(100, 776)}, True),
    "one stage": ("x @ w", {"x": normal(3, 96, dtype=HALF), "w": normal(96, 64, dtype=HALF)}, False),
    "many stages, two warps of weights": ("x @ w.T", {"x": normal(24, 1304), "w": normal(136, 1304)}, True),
    "two weights and an epilogue": (
        "silu(x @ w) * (x @ v) + r",
        {"x": normal(9, 1000), "w": normal(1000, 72), "v": normal(1000, 72), "r": normal(9, 72)}, True,
    ),
    "two weights, 64 rows": (
        "(x @ w.T) * (x @ v.T)", {"x": normal(64, 128), "w": normal(64, 128), "v": normal(64, 128)}, False,
    ),
    "the weights have the rows": ("w @ x", {"w": normal(160, 792), "x": normal(792, 8)}, True),
    "a batch": ("float32(x @ w) + b", {"x": normal(3, 17, 130), "w": normal(3, 130, 72), "b": normal(72)}, False),
    "rows that no copy takes": ("x.T[:, ::-1] @ w", {"x": normal(769, 7), "w": normal(769, 64)}, True),
    "small matrices, steps that the ring holds": ("x @ w", {"x": normal(300, 64, 64), "w": normal(300, 64, 64)}, False),
    "small transposed matrices": ("x @ w.mT", {"x": normal(40, 20, 40), "w": normal(40, 50, 40)}, False),
    "64 rows": ("gelu(x @ w)", {"x": normal(64, 300), "w": normal(300, 128)}, False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_products_with_few_rows_on_an_emulated_gpu(name):
    text, arrays, split = CASES[name]
    source = fd.kernel(text).source(*specs(text, arrays), device="cuda")
    assert "a product with few rows" in source and ("is_last_block" in source) == split
    with emulated_gpu() as gpu:
        check_twice(gpu, text, arrays)


def specs(text, arrays):
    return [fd.spec(arrays[name].shape, arrays[name].dtype.name) for name in fd.kernel(text).params]


SHAPES = {
    "x @ w": ((64, 4096), (4096, 14336)),
    "x @ w.T": ((16, 14336), (4096, 14336)),
    "silu(x @ w) * (x @ v)": ((64, 4096), (4096, 14336), (4096, 14336)),
    "gelu(x @ w + b) + r": ((40, 4096), (4096, 14336), (14336,), (40, 14336)),
    "softmax(x @ w)": ((32768, 4096), (4096, 8)),
    "x @ w.mT": ((4096, 64, 64), (4096, 64, 64)),
}


@pytest.mark.parametrize("text", SHAPES)
def test_products_with_few_rows_do_not_spill(text):
    given = [fd.spec(shape, "bfloat16") for shape in SHAPES[text]]
    kernel = fd.kernel(text)
    for cc in (80, 90):
        assert all(found.figures.spill_bytes == 0 for found in kernel.resources(*given, cc=cc))
    assert "a product with few rows" in kernel.source(*given, device="cuda")
