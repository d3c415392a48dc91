"""Texts of models on CUDA: kernels, each product computed once, attention kept, its operands stored in 16 bits."""

from __future__ import annotations

import pytest
from model_texts import MODEL_TEXTS

import fusedsl as fd
from fusedsl.fusion.graph_products import is_product
from fusedsl.ir.graph import walk
from fusedsl.kernel_ir.kernel import AttentionKernel, KernelIR
from fusedsl.report.explain import resolved_call
from fusedsl.rewrite.engine import rewrite


def count_products(kernel: KernelIR) -> int:
    """The matrix products that a kernel computes."""
    if isinstance(kernel, AttentionKernel):
        return len(kernel.attention.scores) + len(kernel.attention.weighted_sums)
    return len(kernel.products)


def specs(arrays: dict) -> dict:
    """Stand-ins for arrays: a shape of bfloat16, or (shape, dtype)."""
    typed = {n: x if isinstance(x[-1], str) else (x, "bfloat16") for n, x in arrays.items()}
    return {n: fd.spec(*x) for n, x in typed.items()}


@pytest.mark.parametrize("one", MODEL_TEXTS, ids=[one.name for one in MODEL_TEXTS])
def test_a_text_of_a_model(one):
    kernel, given = fd.kernel(one.text), specs(one.arrays)
    call = resolved_call(kernel._program, [given[n] for n in kernel.params], "cuda", (9, 0))
    kernels = [bound.kernel for bound in call.bounds]
    assert len(kernels) <= one.kernels
    assert sum(map(count_products, kernels)) == sum(map(is_product, walk(rewrite(call.graph).results)))
    attention = [k for k in kernels if isinstance(k, AttentionKernel)]
    assert bool(attention) is one.attends
    for k in attention:
        assert {x.dtype.bits for x in k.operands[: k.inputs] if x.dtype.kind == "f"} == {16}
