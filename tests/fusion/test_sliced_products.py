"""A product that is read in equal slices is one kernel with what joins them, as for two matrices."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.report.explain import resolved_call
from fusedsl.runtime.array_copies import to_host

GATED = "h = x @ w; n = size(w, 1) // 2; silu(h[:, :n]) * h[:, n:]"


def products(text: str, **shapes) -> list[int]:
    """How many products each kernel of a text computes on sm_90, for arrays of bfloat16."""
    kernel = fd.kernel(text)
    call = resolved_call(kernel._program, [fd.spec(shapes[n], "bfloat16") for n in kernel.params], "cuda", (9, 0))
    return [len(bound.kernel.products) for bound in call.bounds]


@pytest.mark.parametrize(
    "text, expected",
    [
        (GATED, [2]),
        ("h = x @ w; h[:, :256] + h[:, 256:] * 2", [2]),
        ("h = x @ w; h[:512] * h[512:]", [2]),
        ("h = x @ w; return h[:, :256] + h[:, 256:], h", [1, 0]),  # whose result is stored anyway
        ("h = x @ w; h[:, :256] + h[:, 128:384]", [1, 0]),  # slices that share columns
        ("h = x @ w; h[:, ::2] + h[:, 1::2]", [1, 0]),
        ("h = x @ w; a = h[:, :256]; b = h[:, 256:]; concat([a * c - b * s, b * c + a * s], -1)", [1, 0]),
    ],
)
def test_equal_slices_are_products_of_one_kernel(text, expected):
    assert products(text, x=(1024, 512), w=(512, 512), c=(256,), s=(256,)) == expected


@pytest.mark.parametrize("cc", [(9, 0), (8, 0)])
def test_values_of_slices(cc):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    draw = np.random.default_rng(6)
    x, w = (draw.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((40, 72), (72, 160)))
    with emulated_gpu(multiprocessors=4, cc=cc) as gpu:
        found = to_host(fd.kernel(GATED)(gpu.asarray(x), gpu.asarray(w))).astype(np.float64)
        assert len(gpu.launches) == 1
    gate, up = np.split(x.astype(np.float64) @ w.astype(np.float64), 2, -1)
    np.testing.assert_allclose(found, gate / (1 + np.exp(-gate)) * up, rtol=2.0**-7, atol=1e-3)
