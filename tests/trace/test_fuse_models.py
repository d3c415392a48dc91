"""torch functions of models on CUDA: the kernels are those of the same program written as a text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import fusedsl as fd
from fusedsl.kernel_ir.kernel import AttentionKernel
from fusedsl.report.explain import resolved_call

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import llama_block  # noqa: E402

SHAPES, _ = llama_block.shapes(512, 3, 16, (512, 4, 2, 128, 1024))


def kernels_of(program, arguments) -> list:
    return [bound.kernel for bound in resolved_call(program, arguments, "cuda", (9, 0)).bounds]


def test_a_llama_block_has_the_kernels_of_its_text():
    arrays = {name: torch.empty(shape, dtype=torch.bfloat16) for name, (shape, _) in SHAPES.items()}
    program, _ = fd.fuse(llama_block.prefill).program(**arrays)
    text = fd.kernel(llama_block.PREFILL_TEXT)
    traced = kernels_of(program, [arrays[name] for name in program.names])
    written = kernels_of(text._program, [fd.spec(SHAPES[name][0], "bfloat16") for name in text.params])
    assert [type(k) for k in traced] == [type(k) for k in written]
    for one, other in zip(traced, written):
        assert sorted(x.access for x in one.operands) == sorted(x.access for x in other.operands)
    (attention,) = (k for k in traced if isinstance(k, AttentionKernel))
    assert all(x.strides.endswith("1") for x in attention.operands[: attention.inputs])


def test_a_llama_block_takes_nine_launches():
    given = {name: fd.spec(shape, "bfloat16") for name, (shape, _) in llama_block.PREFILL.items()}
    text = fd.kernel(llama_block.PREFILL_TEXT)
    call = resolved_call(text._program, [given[name] for name in text.params], "cuda", (9, 0))
    assert len(call.launches) == 9
