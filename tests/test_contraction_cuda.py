"""Products of matrices on CUDA: every kernel compiles without spilling, whatever surrounds the product."""

from __future__ import annotations

import pytest

import fusedsl as fd

pytest.importorskip("numba_cuda")

KERNELS = {
    "x @ y": ("float32", "bfloat16", "float64", "int8"),
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
        (found,) = kernel.resources(*given, cc=cc)
        assert found.name == "matmul_0" and found.figures.spill_bytes == 0
    told = str(kernel.explain(*given, device="cuda"))
    assert "product of matrices: 80 squares of 64 × 64" in told


def test_few_rows_are_not_a_product_of_squares():
    given = [fd.spec((2, 512), "float32"), fd.spec((512, 512), "float32")]
    assert "squares" not in fd.kernel("x @ y").source(*given, device="cuda")
