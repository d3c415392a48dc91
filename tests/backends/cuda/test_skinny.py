"""Products with few rows on CUDA: kernels compile without spilling, and compute what they should, without a GPU."""

from __future__ import annotations

import devices
import ml_dtypes
import numpy as np
import pytest
from draw import Program
from laws import Case, hold
from test_cuda_emulated import check_twice

import fusedsl as fd
from fusedsl.backends.cuda.matmul import schedule
from fusedsl.backends.cuda.skinny.schedule import schedule_skinny

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

RANDOM = np.random.default_rng(5)
HALF, BRAIN, FLOAT = np.float16, ml_dtypes.bfloat16, np.float32


@pytest.fixture(autouse=True)
def skinny_first(monkeypatch):
    """Products with few rows have this schedule, whether another is predicted to be faster or not."""
    monkeypatch.setattr(schedule, "SCHEDULERS", (schedule_skinny, *schedule.SCHEDULERS))


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
    "float32 across the sum": (
        "gelu(x @ w) + b",
        {"x": normal(9, 400, dtype=FLOAT), "w": normal(400, 136, dtype=FLOAT), "b": normal(136, dtype=FLOAT)}, True,
    ),
    "float32 along the sum, two warps of rows": (
        "x @ w.T", {"x": normal(30, 260, dtype=FLOAT), "w": normal(132, 260, dtype=FLOAT)}, True,
    ),
    "float32, two products of rows that no copy takes": (
        "(x.T @ w) * (x.T @ v)",
        {"x": normal(70, 17, dtype=FLOAT), "w": normal(70, 72, dtype=FLOAT), "v": normal(70, 72, dtype=FLOAT)}, False,
    ),
    "float32, short": ("x @ w", {"x": normal(3, 24, 50, dtype=FLOAT), "w": normal(3, 50, 64, dtype=FLOAT)}, False),
    "16 rows": ("gelu(x @ w)", {"x": normal(16, 300), "w": normal(300, 128)}, False),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_products_with_few_rows_on_an_emulated_gpu(name):
    text, arrays, split = CASES[name]
    source = fd.kernel(text).source(*specs(text, arrays), device="cuda")
    assert "a product with few rows" in source and ("is_last_block" in source) == split
    with emulated_gpu() as gpu:
        check_twice(gpu, text, arrays)


def padded(*shape, dtype=FLOAT):
    """Part of a longer matrix, whose other elements are NaN; its lines begin at multiples of 16 bytes."""
    whole = np.full((shape[0], -(-shape[1] // 8) * 8), np.nan, dtype)
    whole[:, : shape[1]] = normal(*shape, dtype=dtype)
    return whole[:, : shape[1]]


PARTS = {  # text, and operands whose last vector of a line is one in part
    "across the sum": ("x @ w", padded(2, 65), padded(65, 70)),
    "along the sum": ("x @ w.T", padded(2, 65), padded(66, 65)),
    "16 bits along the sum": ("x @ w.T", padded(2, 99, dtype=BRAIN), padded(66, 99, dtype=BRAIN)),
    "one line for all steps": ("x @ w", padded(2, 65), np.broadcast_to(normal(65, dtype=FLOAT), (65, 65))),
}


@pytest.mark.parametrize("name", PARTS)
def test_nothing_beyond_the_end_of_a_line_is_read(name):
    text, x, w = PARTS[name]
    assert "a product with few rows" in fd.kernel(text).source(x, w, device="cuda")
    with emulated_gpu():
        hold(Case(Program((f"t = {text}",), ("t",), {"x": x, "w": w})), devices.on(devices.Emulated()))


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


@pytest.mark.parametrize(("text", "dtype"), [*((text, "bfloat16") for text in SHAPES), ("x @ w.T", "float32")])
def test_products_with_few_rows_do_not_spill(text, dtype):
    given = [fd.spec(shape, dtype) for shape in SHAPES[text]]
    kernel = fd.kernel(text)
    for cc in (80, 90):
        assert all(found.figures.spill_bytes == 0 for found in kernel.resources(*given, cc=cc))
    assert "a product with few rows" in kernel.source(*given, device="cuda")
