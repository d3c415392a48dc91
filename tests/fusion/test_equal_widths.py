"""Products of one operand share a kernel where their other operands are equally wide, though nothing in a program says
so; calls of other widths have a plan of their own."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.kernel_ir.kernel import KernelIR
from fusedsl.report.explain import resolved_call
from fusedsl.runtime.array_copies import to_host

BRAIN = ml_dtypes.bfloat16
CARD = ("cuda", (9, 0))


def products(text: str, target=CARD, dtype: str = "bfloat16", **shapes) -> list[int]:
    """How many products each kernel of a text computes, for arrays of these shapes."""
    kernel = fd.kernel(text)
    call = resolved_call(kernel._program, [fd.spec(shapes[n], dtype) for n in kernel.params], *target)
    return [len(bound.kernel.products) for bound in call.bounds if isinstance(bound.kernel, KernelIR)]


@pytest.mark.parametrize(
    "text, widths, expected",
    [
        ("return x @ a, x @ b", (512, 512), [2]),
        ("return x @ a, x @ b, x @ c", (256, 256, 256), [3]),
        ("return x @ a, x @ b, x @ c", (512, 128, 128), [1, 2]),
        ("return x @ a, x @ b, x @ c", (512, 256, 128), [1, 1, 1]),
        ("return x @ a, x @ b, x @ c, x @ d, x @ e", (256,) * 5, [4, 1]),
        ("return x @ a, (x + 1) @ b", (256, 256), [1, 1]),
    ],
)
def test_products_of_one_operand_share_a_kernel(text, widths, expected):
    shapes = dict(zip("abcde", [(512, width) for width in widths]))
    assert sorted(n for n in products(text, x=(1024, 512), **shapes) if n) == sorted(expected)


def test_rows_are_shared_too():
    assert products("return a @ x, b @ x", x=(512, 768), a=(256, 512), b=(256, 512)) == [2]


def test_every_letter_of_an_einsum_is_compared():
    text = "return einsum('sd,dhk->hsk', x, a), einsum('sd,dhk->hsk', x, b)"
    assert products(text, x=(512, 512), a=(512, 4, 64), b=(512, 4, 64)) == [2]
    assert products(text, x=(512, 512), a=(512, 4, 64), b=(512, 2, 64)) == [1, 1]


def test_widths_that_are_equal_in_another_order_make_no_cycle():
    text = "p = einsum('sd,dhk->shk', x, a); q = einsum('sd,dhk->shk', x, b); return p + swapaxes(q, 1, 2)"
    assert sum(products(text, x=(512, 512), a=(512, 32, 32), b=(512, 32, 32))) == 2


def test_a_blas_multiplies_for_each_width():
    assert products("return x @ a, x @ b", ("cpu", None), "float32", x=(64, 64), a=(64, 32), b=(64, 32)) == [1, 1]


@pytest.mark.parametrize("cc", [(9, 0), (8, 0)])
def test_calls_of_equal_and_unequal_widths_have_their_own_plans(cc):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    kernel, draw = fd.kernel("return x @ a, relu(x @ b), x @ c + 1"), np.random.default_rng(5)
    x = draw.standard_normal((40, 72)).astype(BRAIN)
    with emulated_gpu(multiprocessors=4, cc=cc) as gpu:
        for widths, launches in (((80, 80, 80), 1), ((96, 80, 80), 2)):
            weights, before = [draw.standard_normal((72, width)).astype(BRAIN) for width in widths], len(gpu.launches)
            found = [to_host(y).astype(np.float64) for y in kernel(*map(gpu.asarray, (x, *weights)))]
            assert len(gpu.launches) - before == launches
            exact = [x.astype(np.float64) @ w.astype(np.float64) for w in weights]
            for made, right in zip(found, (exact[0], np.maximum(exact[1], 0), exact[2] + 1)):
                np.testing.assert_allclose(made, right, rtol=2.0**-8, atol=1e-3)
