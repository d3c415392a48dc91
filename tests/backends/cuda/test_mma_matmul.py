"""Products by warps: float32 on CUDA cores, from operands that lie anywhere, with everything around them."""

from __future__ import annotations

import numpy as np
import pytest
from test_cuda_emulated import check_twice, normal

import fusedsl as fd
from fusedsl.backends.cuda.matmul import mma_schedule

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

RANDOM = np.random.default_rng(5)

LAYOUTS = {
    "row-major": ("x @ w", {"x": (40, 50), "w": (50, 70)}),
    "column-major weights, several chains": ("x @ w.mT", {"x": (70, 530), "w": (66, 530)}),
    "column-major rows": ("x.mT @ w", {"x": (64, 40), "w": (64, 72)}),
    "every other row, backwards": ("x[::2, ::-1] @ w", {"x": (80, 24), "w": (24, 36)}),
    "a result that is turned": ("swapaxes(x @ w, 0, 1) + 1", {"x": (40, 64), "w": (64, 72)}),
    "batches that are broadcast": ("x @ w", {"x": (3, 1, 20, 24), "w": (5, 24, 18)}),
    "rows and columns of several axes": ("einsum('bsd,dhe->bhse', x, w)", {"x": (2, 20, 24), "w": (24, 3, 8)}),
    "columns of several odd axes": ("einsum('bsd,dhe->bhse', x, w)", {"x": (2, 20, 24), "w": (24, 3, 9)}),
}
EPILOGUES = {
    "bias, residual": ("gelu(x @ w + b) + r", {"x": (33, 37), "w": (37, 35), "b": (35,), "r": (33, 35)}),
    "a residual that is turned": ("x @ w + r.mT", {"x": (40, 24), "w": (24, 36), "r": (36, 40)}),
    "a value of each row": ("x @ w * c[:, None]", {"x": (40, 24), "w": (24, 36), "c": (40,)}),
    "rows and columns by number": (
        "where(arange(40)[:, None] <= arange(36), x @ w, -inf)",
        {"x": (40, 24), "w": (24, 36)},
    ),
    "several results": ("(bfloat16(x @ w), (x @ w) > 0, int8(clip(x @ w, -9, 9)))", {"x": (40, 24), "w": (24, 36)}),
    "products of one x": ("silu(x @ g) * (x @ u)", {"x": (40, 64), "g": (64, 80), "u": (64, 80)}),
    "products of several": ("x @ x.mT + x @ y", {"x": (40, 40), "y": (40, 40)}),
}


def arrays(shapes, dtype=np.float32):
    return {name: normal(*shape, dtype=dtype) for name, shape in shapes.items()}


@pytest.mark.parametrize("case", [*LAYOUTS, *EPILOGUES])
def test_values(case):
    text, shapes = (LAYOUTS | EPILOGUES)[case]
    with emulated_gpu(cc=(8, 0)) as gpu:
        check_twice(gpu, text, arrays(shapes))


@pytest.mark.parametrize("shape", mma_schedule.FMA_SHAPES, ids=lambda s: f"{s.rows}x{s.columns}")
def test_every_tile_shape(shape, monkeypatch):
    monkeypatch.setattr(mma_schedule, "FMA_SHAPES", (shape,))
    with emulated_gpu(cc=(9, 0)) as gpu:
        check_twice(gpu, "x @ w", arrays({"x": (140, 50), "w": (50, 170)}))


def test_gathered_rows_are_added():
    given = arrays({"x": (40, 24), "w": (24, 36), "t": (9, 36)}) | {"i": RANDOM.integers(0, 9, 40)}
    with emulated_gpu() as gpu:
        check_twice(gpu, "x @ w + take(t, i, 0)", given)


@pytest.mark.parametrize("cc", [80, 86, 90, 120])
@pytest.mark.parametrize("shape", mma_schedule.FMA_SHAPES, ids=lambda s: f"{s.rows}x{s.columns}")
def test_nothing_spills(shape, cc, monkeypatch):
    monkeypatch.setattr(mma_schedule, "FMA_SHAPES", (shape,))
    x = fd.spec((4096, 4096), "float32")
    for text in ("x @ w", "gelu(x @ w.mT + b)"):
        kernel = fd.kernel(text)
        given = [x, x, fd.spec((4096,), "float32")][: len(kernel.params)]
        assert all(one.figures.spill_bytes == 0 for one in kernel.resources(*given, cc=cc))
