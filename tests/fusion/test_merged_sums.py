"""Products that sum over several axes, as einsum writes a projection of heads, multiply along one axis as it is stored;
copies of 16-bit arrays have 16 bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.report.explain import resolved_call
from fusedsl.runtime.array_copies import to_host

HEADS, WEIGHTS = (2, 8, 256, 64), (8, 64, 256)
PROJECTED = "einsum('bhsk,hkd->bsd', einsum('bsm,mhk->bhsk', x, v), w)"


def kernels(text: str, **shapes) -> list:
    """The kernels of a text of bfloat16 arrays on sm_90."""
    kernel = fd.kernel(text)
    call = resolved_call(kernel._program, [fd.spec(shapes[n], "bfloat16") for n in kernel.params], "cuda", (9, 0))
    return [bound.kernel for bound in call.bounds]


@pytest.mark.parametrize(
    "text, shapes",
    [
        ("einsum('bhsk,hkd->bsd', o, w)", {"o": HEADS, "w": WEIGHTS}),
        ("einsum('hkd,bhsk->bsd', w, tanh(o))", {"o": HEADS, "w": WEIGHTS}),
        (PROJECTED, {"x": (2, 256, 512), "v": (512, 8, 64), "w": WEIGHTS}),
        ("einsum('bchpwq,cpqd->bhwd', reshape(x, (2,3,8,16,8,16)), w)", {"x": (2, 3, 128, 128), "w": (3, 16, 16, 128)}),
    ],
)
def test_a_sum_over_several_axes_is_one_as_it_is_stored(text, shapes):
    first, last = kernels(text, **shapes)
    assert last.column_axes == 1 and {o.dtype.name for o in last.operands} == {"bfloat16"}
    assert {o.dtype.name for o in first.operands} == {"bfloat16"}


def test_sums_that_need_no_copy_have_none():
    assert len(kernels("einsum('bshk,hkd->bsd', o, w)", o=(2, 256, 8, 64), w=WEIGHTS)) == 1
    assert len(kernels("einsum('bhsk,hdk->bsd', o, w)", o=HEADS, w=(8, 256, 64))) == 1  # neither has them together


@pytest.mark.parametrize("cc", [(9, 0), (8, 0)])
def test_values_of_a_projection(cc):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    draw = np.random.default_rng(4)
    x, v, w = (draw.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((2, 24, 40), (40, 3, 16), (3, 16, 96)))
    with emulated_gpu(multiprocessors=4, cc=cc) as gpu:
        found = to_host(fd.kernel(PROJECTED)(*map(gpu.asarray, (x, v, w)))).astype(np.float64)
    x, v, w = (a.astype(np.float64) for a in (x, v, w))
    heads = np.einsum("bsm,mhk->bhsk", x, v).astype(ml_dtypes.bfloat16).astype(np.float64)
    exact = np.einsum("bhsk,hkd->bsd", heads, w)
    np.testing.assert_allclose(found, exact, rtol=2.0**-8, atol=2.0**-8 * np.abs(exact).max())
