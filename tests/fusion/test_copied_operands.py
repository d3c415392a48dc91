"""Copied operands: large products multiply aligned copies of arguments that TMA and 16-byte loads cannot take."""

from __future__ import annotations

import ml_dtypes
import pytest
from test_cuda_emulated import check_twice, normal

import fusedsl as fd
from fusedsl.program import operand_copies

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

BRAIN = ml_dtypes.bfloat16
CASES = {
    "both operands": ("x @ w", {"x": (130, 67), "w": (67, 99)}),
    "columns of x": ("gelu(x.mT @ w + b)", {"x": (67, 130), "w": (67, 96), "b": (96,)}),
    "a batch of one operand": ("x @ w", {"x": (3, 70, 67), "w": (67, 96)}),
    "an argument that is read elsewhere": ("(x @ w, sum(x, 0) + x)", {"x": (72, 67), "w": (67, 96)}),
    "both operands are one argument": ("x @ x.mT", {"x": (131, 73)}),
    "a computed operand with odd rows": ("tanh(x) @ w", {"x": (72, 67), "w": (67, 96)}),
}


@pytest.fixture
def always(monkeypatch):
    """Copies are made wherever they can be."""
    monkeypatch.setattr(operand_copies, "WORTH", float("inf"))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("cc", [(8, 0), (9, 0)])
def test_values(case, cc, always):
    text, shapes = CASES[case]
    with emulated_gpu(cc=cc) as gpu:
        check_twice(gpu, text, {name: normal(*shape, dtype=BRAIN) for name, shape in shapes.items()})


def schedules(text, *given, **options):
    """(the schedule of each kernel, the temporaries) on sm_90."""
    told = fd.kernel(text, **options).explain(*given, cc=90, compile=False)
    return [str(kernel.schedule) for kernel in told.kernels], [one.type for one in told.temporaries]


def test_a_large_product_of_odd_rows_multiplies_a_copy():
    x, w, b = fd.spec((4096, 4095), "bfloat16"), fd.spec((4095, 4096), "bfloat16"), fd.spec((4096,), "bfloat16")
    (_, product), copies = schedules("gelu(x @ w + b)", x, w, b)
    assert "wgmma" in product and copies == ["bfloat16[4096, 4096]"]


def test_tf32_across_the_sum_is_turned_first():
    x = fd.spec((4096, 4096), "float32")
    (_, product), copies = schedules("gelu(x.mT @ w)", x, x, matmul="tf32")
    assert "wgmma" in product and copies == ["float32[4096, 4096]"]


@pytest.mark.parametrize("text, size", [("gelu(x @ w)", 67), ("gelu(x @ w)", 4096), ("gelu(x.mT @ w)", 4096)])
def test_no_copy_where_it_saves_nothing(text, size):
    """Of small products, and of operands that wgmma reads as they are."""
    x = fd.spec((size, size), "bfloat16")
    assert schedules(text, x, x)[1] == []


def test_float32_is_not_copied_for_fused_multiply_adds():
    x = fd.spec((2049, 2049), "float32")
    assert schedules("gelu(x @ w)", x, x)[1] == []


def test_rows_of_a_computed_operand_are_aligned():
    x, w = fd.spec((4096, 4095), "bfloat16"), fd.spec((4095, 4096), "bfloat16")
    kernels, _ = schedules("softmax(x) @ w", x, w)
    assert any("wgmma" in kernel for kernel in kernels)


def test_copies_count_as_kernels():
    x, w = fd.spec((4096, 4095), "bfloat16"), fd.spec((4095, 4096), "bfloat16")
    assert len(schedules("gelu(x @ w)", x, w, max_kernels=1)[0]) == 1


def test_no_copy_of_rows_that_have_bits_of_their_own():
    """Batch-invariant products."""
    x, w = fd.spec((4096, 4095), "bfloat16"), fd.spec((4095, 4096), "bfloat16")
    assert schedules("gelu(x @ w)", x, w, deterministic="batch")[1] == []
