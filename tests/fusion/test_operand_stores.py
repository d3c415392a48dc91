"""Normalised rows that products multiply on CUDA: stored once, by the kernel that reduces them if it holds a row."""

from __future__ import annotations

import pytest

import fusedsl as fd
from fusedsl.kernel_ir.kernel import AttentionKernel
from fusedsl.report.explain import resolved_call

ROWS, SQUARE, WIDE, TALL = (1024, 512), (512, 512), (512, 1024), (1024, 512)
RESIDUAL = {"x": ROWS, "a": ROWS, "w": SQUARE, "g": (512,)}
LONG = 2 << 20


def kernels(text: str, arrays: dict) -> list[str]:
    """What each kernel is, of bfloat16 arrays; the plan is compared with its graph."""
    kernel = fd.kernel(text, verify=True)
    call = resolved_call(kernel._program, [fd.spec(arrays[n], "bfloat16") for n in kernel.params], "cuda", (9, 0))
    assert not any(isinstance(bound.kernel, AttentionKernel) for bound in call.bounds)
    return [bound.kernel.name.split("_")[0] for bound in call.bounds]


@pytest.mark.parametrize(
    ("text", "arrays"),
    [
        (
            "r = x + a @ w; h = rms_norm(r, g); r + (silu(h @ p) * (h @ q)) @ s",
            RESIDUAL | {"p": WIDE, "q": WIDE, "s": TALL},
        ),
        (
            "r = x + a @ w; h = layer_norm(r, g, b); r + gelu(h @ p) @ s",
            RESIDUAL | {"b": (512,), "p": WIDE, "s": TALL},
        ),
    ],
    ids=("rms norm", "layer norm"),
)
def test_the_kernel_that_reduces_a_row_stores_it_normalised(text, arrays):
    assert kernels(text, arrays) == ["matmul", "row", "matmul", "matmul"]


def test_an_operand_of_several_products_is_stored_once():
    text = "r = x + a @ w; h = rms_norm(r, g); return r, h @ p, h @ q, h @ s"
    arrays = RESIDUAL | {"p": SQUARE, "q": SQUARE, "s": (512, 256)}
    assert kernels(text, arrays) == ["matmul", "row", "matmul", "matmul"]  # p and q are equally wide: one kernel


def test_rows_longer_than_a_chip_holds_are_normalised_by_a_map():
    text = "r = x + a @ w; h = rms_norm(r, g); return r, h @ p"
    arrays = {"x": (64, LONG), "a": (64, 64), "w": (64, LONG), "g": (LONG,), "p": (LONG, 64)}
    found = kernels(text, arrays)
    assert found[:3] == ["matmul", "row", "map"]
