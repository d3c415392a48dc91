"""Products of matrices on CUDA: kernels compile without spilling, and compute what they should, without a GPU."""

from __future__ import annotations

import bounds
import numpy as np
import pytest
from ml_dtypes import float8_e4m3fn
from oracle import graph_of

import fusedsl as fd

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

KERNELS = {
    "x @ y": ("bfloat16", "float64"),
    "gelu(x @ y + b) * s[:, None] + r": ("float16",),
    "silu(x @ y) * (x @ (z * 2))": ("bfloat16",),
    'einsum("ij,jk->ki", x * iota(x, 1), y)': ("float32",),
}
SHAPES = {"x": (1000, 520), "y": (520, 300), "z": (520, 300), "b": (300,), "s": (1000,), "r": (1000, 300)}


@pytest.mark.parametrize(("text", "dtype"), [(text, dtype) for text, dtypes in KERNELS.items() for dtype in dtypes])
def test_products_do_not_spill(text, dtype):
    kernel = fd.kernel(text)
    given = [fd.spec(SHAPES[name], dtype) for name in kernel.params]
    architectures = (80, 90, 100) if (text, dtype) == ("x @ y", "bfloat16") else (90,)
    for cc in architectures:
        found = kernel.resources(*given, cc=cc)
        assert any(one.name.startswith("matmul_") for one in found)
        assert all(one.figures.spill_bytes == 0 for one in found)
    assert "matrix product" in str(kernel.explain(*given, device="cuda"))


def test_few_rows_are_not_a_product_of_squares():
    given = [fd.spec((2, 512), "float32"), fd.spec((512, 512), "float32")]
    assert "squares" not in fd.kernel("x @ y").source(*given, device="cuda")


# ---- run without a GPU (tests/ptx): right results, no byte out of bounds, no race

RANDOM = np.random.default_rng(3)


def whole(*shape, dtype=np.float32):
    return RANDOM.integers(-3, 4, shape).astype(dtype)


ARRAYS = {
    "x": whole(70, 37), "y": whole(37, 90), "z": whole(37, 90), "b": whole(90), "r": whole(70, 90),
    "i": RANDOM.integers(-37, 37, 37), "c": whole(3, 20, 9), "d": whole(1, 30, 9), "p": whole(3, 4, 6, 5),
    "q": whole(5, 6, 3, 4), "h": whole(30, 20, dtype=np.float16), "e": whole(12, 20, dtype=float8_e4m3fn),
    "n": RANDOM.integers(-128, 128, (20, 30)).astype(np.int8), "w": whole(20, 40, dtype=np.float64),
    "u": whole(5, 530), "m": whole(20, 30) > 0,
}  # fmt: skip
RUN = {
    "x @ y": "ends in all directions",
    'einsum("abcd,dcef->eafb", p, q)': "several axes on every side",
    "c @ d.mT + iota(c, 0)[:, :1, :1]": "a batch, and its positions",
    "sigmoid(x @ y * 0.01) * (x @ (z * iota(z, 1))) + r, x[::-1, i] @ y": "two products in a kernel, a gathered factor",
    "(h * 0.3) @ e.mT[:, ::-1], n @ n.mT, m @ m.mT": "narrow floats, integers, bools",
    "w @ w.mT, u @ u.mT": "float64, and a sum of several chains",
}


@pytest.mark.parametrize("text", RUN, ids=list(RUN.values()))
def test_products_on_an_emulated_gpu(text):
    kernel = fd.kernel(text)
    given = {name: ARRAYS[name] for name in kernel.params}
    graph, arguments = graph_of(text, given)
    with emulated_gpu() as gpu:
        results = kernel(**{name: gpu.asarray(value) for name, value in given.items()})
        results = [r.get() for r in (results if isinstance(results, tuple) else (results,))]
        assert gpu.launches
    for found, (value, bound) in zip(results, bounds.evaluate(graph, arguments)):
        assert found.shape == value.shape
        assert (np.abs(found.astype(np.float64) - value.astype(np.float64)) <= bound).all()
