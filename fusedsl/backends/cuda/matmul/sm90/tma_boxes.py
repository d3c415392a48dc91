"""TMA boxes of products on sm_90: of operands that TMA loads, and of outputs that it stores."""

from __future__ import annotations

from .....kernel_ir.kernel import KernelIR, TmaBox
from .....kernel_ir.matmul_operands import MatmulOperands
from ...mma.tile_sizes import SWIZZLE_BYTES, TMA_RANK

STAGED = ("float16", "bfloat16", "float32")  # dtypes of outputs that are stored by TMA


def tma_axes(kernel: KernelIR, k: int) -> tuple[int, ...]:
    """The axes of an operand's tensor map, from the contiguous one outwards: first those of a tile."""
    operand = kernel.operands[k]
    varying = [a for a, stride in enumerate(operand.strides) if stride != "0" and a != operand.near]
    return (operand.near, *reversed(varying))


def is_stored_by_tma(kernel: KernelIR, operands: MatmulOperands, k: int) -> bool:
    """Whether TMA stores panels of an output: floats of at most 32 bits, contiguous columns, every row aligned."""
    operand = kernel.operands[k]
    near = operand.near == operands.axes.columns[0] and operand.near_access == "vector"
    varies = operand.strides[operands.axes.rows[0]] != "0"
    return operand.dtype.name in STAGED and near and varies and len(tma_axes(kernel, k)) <= TMA_RANK


def tma_box(kernel: KernelIR, k: int, inner: int, across: int, lines: int) -> TmaBox:
    """A box of so many lines, each a swizzled row."""
    axes, width = tma_axes(kernel, k), SWIZZLE_BYTES // kernel.operands[k].dtype.itemsize
    return TmaBox(k, axes, tuple({inner: width, across: lines}.get(a, 1) for a in axes))
