"""Maps that read neighbouring rows of an array: blocks take tiles of rows, for any extents."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

FIVE_POINTS = "x[1:-1, 1:-1] * -4 + x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]"
ROLLED = "roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1) - 4 * x"
SEVEN_POINTS = "x[2:, 1:-1, 1:-1] + x[:-2, 1:-1, 1:-1] + x[1:-1, 2:, 1:-1] + x[1:-1, :-2, 1:-1] - x[1:-1, 1:-1, 1:-1]"
ROW_TILES = "beside < row_vectors"
STENCILS = {
    "slices": (FIVE_POINTS, (37, 71)),
    "one row": (FIVE_POINTS, (3, 90)),
    "one column": (FIVE_POINTS, (90, 3)),
    "whole vectors": (ROLLED, (33, 260)),
    "few columns": (ROLLED, (70, 12)),
    "three axes": (SEVEN_POINTS, (7, 11, 45)),
    "and positions": ("(x[1:, :] - x[:-1, :]) * arange(0, size(x, 1))", (40, 36)),
}  # fmt: skip


@pytest.mark.parametrize("name", STENCILS)
def test_tiles_of_rows_compute_every_element_once(name):
    text, shape = STENCILS[name]
    x = np.random.default_rng(1).integers(-50, 50, shape).astype(np.float32)
    with emulated_gpu(tails=False, multiprocessors=4) as gpu:
        kernel = fd.kernel(text, fallback=False)
        there = gpu.asarray(x)
        assert ROW_TILES in kernel.source(there) or min(shape) == 3
        np.testing.assert_array_equal(to_host(kernel(there)), fd.evaluate(text, x=x, device="cpu"))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("sigmoid(x[:, :512]) * x[:, 512:]", (300, 1024)),  # halves of a row are no neighbours
        ("x[:150] + x[150:]", (300, 1024)),
        ("x * 2 + 1", (300, 1024)),
        ("x[i] + 1", (300, 1024)),
    ],
)
def test_what_reads_no_neighbouring_rows_runs_along_lines(text, shape):
    arrays = {"x": fd.spec(shape), "i": fd.spec(40, "int64")}
    kernel = fd.kernel(text)
    assert ROW_TILES not in kernel.source(**{name: arrays[name] for name in kernel.params}, device="cuda")
