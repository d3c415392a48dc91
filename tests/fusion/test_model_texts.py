"""Texts of models on CUDA: kernels, each product computed once and on tensor cores, attention kept, its operands stored
in 16 bits; and their values."""

from __future__ import annotations

import re

import numpy as np
import pytest
from layer_texts import LAYER_TEXTS
from model_texts import MODEL_TEXTS, ModelText
from oracle import evaluate

import fusedsl as fd
from fusedsl.backends.cuda.attention.mma_schedule import MmaAttentionSchedule
from fusedsl.backends.cuda.attention.sm90_schedule import Sm90AttentionSchedule
from fusedsl.backends.cuda.matmul.mma_schedule import MmaMatmulSchedule
from fusedsl.backends.cuda.matmul.sm90.schedule import Sm90MatmulSchedule
from fusedsl.fusion.graph_products import is_product
from fusedsl.fusion.sliced_products import split_sliced_products
from fusedsl.ir.dims import evaluate as extent_of
from fusedsl.ir.graph import walk
from fusedsl.kernel_ir.kernel import AttentionKernel, KernelIR
from fusedsl.program.resolve_call import ResolvedCall
from fusedsl.report.explain import resolved_call
from fusedsl.report.listing import list_kernel
from fusedsl.rewrite.engine import rewrite

ON_TENSOR_CORES = (Sm90MatmulSchedule, MmaMatmulSchedule, Sm90AttentionSchedule, MmaAttentionSchedule)


def count_products(kernel: KernelIR) -> int:
    """The matrix products that a kernel computes."""
    if isinstance(kernel, AttentionKernel):
        return len(kernel.attention.scores) + len(kernel.attention.weighted_sums)
    return len(kernel.products)


def specs(arrays: dict) -> dict:
    """Stand-ins for arrays: a shape of bfloat16, or (shape, dtype)."""
    typed = {n: x if isinstance(x[-1], str) else (x, "bfloat16") for n, x in arrays.items()}
    return {n: fd.spec(*x) for n, x in typed.items()}


TEXTS = (*MODEL_TEXTS, *LAYER_TEXTS)
each_text = pytest.mark.parametrize("one", TEXTS, ids=[one.name for one in TEXTS])


def resolved(one: ModelText) -> ResolvedCall:
    """The call of a text on sm_90."""
    kernel, given = fd.kernel(one.text), specs(one.arrays)
    return resolved_call(kernel._program, [given[n] for n in kernel.params], "cuda", (9, 0))


@each_text
def test_a_text_of_a_model(one):
    call = resolved(one)
    kernels = [bound.kernel for bound in call.bounds]
    assert len(kernels) <= one.kernels
    graph = split_sliced_products(
        rewrite(call.graph), lambda a, b: extent_of(a, call.extents) == extent_of(b, call.extents)
    )
    assert sum(map(count_products, kernels)) == sum(map(is_product, walk(graph.results)))
    attention = [k for k in kernels if isinstance(k, AttentionKernel)]
    assert bool(attention) is one.attends
    for plan, bound in call.kernels:
        multiplies = bound.kernel in attention or bound.kernel.products
        assert not multiplies or isinstance(call.scheduled(plan, bound)[1], ON_TENSOR_CORES)
    for k in attention:
        assert {x.dtype.bits for x in k.operands[: k.inputs] if x.dtype.kind == "f"} == {16}


@pytest.mark.slow
@each_text
def test_tensor_cores_are_in_its_ptx(one):
    pytest.importorskip("numba_cuda")
    call = resolved(one)
    for members in call.launches:
        kernel = members[0][1].kernel
        if isinstance(kernel, AttentionKernel) or kernel.products:
            ptx = "".join(line.text for line in list_kernel(call, one.name, call.built(members)).ptx)
            assert "wgmma.mma_async" in ptx or "mma.sync" in ptx


@pytest.mark.slow
@each_text
def test_its_values_are_those_of_float64(one):
    """On the CPU, of float32 arrays, beside NumPy node by node; the weights are as those of a trained model."""
    draw, given = np.random.default_rng(3), {}
    for name, spec in specs(one.arrays).items():
        shape, kind = spec.shape, spec.dtype.kind
        x = draw.standard_normal(shape) * (shape[0] ** -0.5 if name.startswith("w") else 1)
        given[name] = draw.integers(0, 8, shape) if kind == "i" else x
    single = {n: x.astype(np.float32) if x.dtype.kind == "f" else x for n, x in given.items()}
    text = re.sub(r"bfloat16\(|float32\(", "(", one.text)
    found, exact = fd.kernel(text)(**single), evaluate(text, **given)
    for made, right in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, exact))):
        assert made.shape == right.shape
        if right.dtype.kind == "f":
            assert np.abs(made - right).max() <= 2e-4 * np.abs(right).max()
