"""Tensor maps of products on sm_90: the boxes of operands that TMA loads, and of outputs that it stores."""

from __future__ import annotations

from .....kernel_ir.kernel import KernelIR, TmaBox
from .....kernel_ir.matmul_operands import MatmulOperands
from ...mma.tile_sizes import SWIZZLE_ELEMENTS, TMA_RANK

SLICE = 64  # elements of a K-slice: one swizzled row
KINDS = ("float16", "bfloat16")


def tma_axes(kernel: KernelIR, k: int) -> tuple[int, ...]:
    """The axes of an operand's tensor map, from the contiguous one outwards: first those of a tile."""
    operand = kernel.operands[k]
    varying = [a for a, stride in enumerate(operand.strides) if stride != "0" and a != operand.near]
    return (operand.near, *reversed(varying))


def is_stored_by_tma(kernel: KernelIR, operands: MatmulOperands, k: int) -> bool:
    """Whether TMA stores panels of an output: 16 bits, contiguous columns, every row aligned."""
    operand = kernel.operands[k]
    near = operand.near == operands.axes.columns[0] and operand.near_access == "vector"
    varies = operand.strides[operands.axes.rows[0]] != "0"
    return operand.dtype.name in KINDS and near and varies and len(tma_axes(kernel, k)) <= TMA_RANK


def tma_box(kernel: KernelIR, k: int, inner: int, across: int, lines: int) -> TmaBox:
    axes = tma_axes(kernel, k)
    return TmaBox(k, axes, tuple({inner: SWIZZLE_ELEMENTS, across: lines}.get(a, 1) for a in axes))
