"""Skinny problem: which products have few rows on one side, and operands that cp.async and mma.sync take."""

from __future__ import annotations

from dataclasses import dataclass

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.matmul_axes import extent
from ....kernel_ir.matmul_operands import MatmulOperands, matmul_operands
from ..schedule_base import Extents

# Rows of the narrow operand, at most, and of the streamed one, at least: tensor cores take more, and half empty slots.
SIDES = {"bfloat16": (64, 32), "float16": (64, 32), "float32": (32, 64)}
LEAST_STEPS = 32


@dataclass(frozen=True)
class SkinnyProblem:
    """A product with `few` rows on one side: its operands, and its extents on the sides that the schedule tells apart.

    `swapped`: the streamed operand has the kernel's rows; `near` as in SkinnyLayout.
    """

    arrays: MatmulOperands
    dtype: str
    swapped: bool
    near: str
    few: int
    many: int
    steps: int
    batches: int

    @property
    def products(self) -> int:
        return len(self.arrays.pairs)


def skinny_problem(kernel: KernelIR, extents: Extents) -> SkinnyProblem | None:
    """The product with few rows that a kernel is; None if it is none whose lines cp.async can copy."""
    operands = matmul_operands(kernel)
    if operands is None or not kernel.resident or kernel.column_axes != 1:
        return None
    axes = operands.axes
    if len(axes.rows) != 1 or len(axes.columns) != 1:
        return None
    rows, columns = extents[axes.rows[0]], extents[axes.columns[0]]
    swapped = columns < rows
    few, many = (columns, rows) if swapped else (rows, columns)
    streamed, axis = (operands.left, axes.rows[0]) if swapped else (operands.right, axes.columns[0])
    kinds = {kernel.operands[k].dtype.name for pair in operands.pairs for k in pair}
    sums = {use.accumulators[0].dtype.name for use in kernel.phases[0].folds}
    if len(kinds) != 1 or kinds.isdisjoint(SIDES) or sums != {"float32"}:
        return None
    (dtype,), near = kinds, streamed_near(kernel, streamed, axis)
    most, least = SIDES[dtype]
    if not near or few > most or many < least or extents[-1] < LEAST_STEPS:
        return None
    return SkinnyProblem(operands, dtype, swapped, near, few, many, extents[-1], extent(axes.batch, extents))


def streamed_near(kernel: KernelIR, streamed: tuple[int, ...], rows: int) -> str:
    """ "k" or "n": the axis along which all streamed operands are contiguous and aligned; "" if there is none."""
    nears = {kernel.operands[k].near if kernel.operands[k].near_access == "vector" else -1 for k in streamed}
    return "k" if nears == {kernel.axes - 1} else "n" if nears == {rows} else ""
