"""Matmul axes of a kernel: M, N and batch axes among the row axes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .kernel import KernelIR
from .phase import Body


@dataclass(frozen=True)
class MatmulAxes:
    """The row axes of a kernel by the factors that they belong to.

    `rows` are axes of one factor only, `columns` of the other, `batch` of both (or of none). `factors` has for each
    product of the kernel its factor with the rows, then that with the columns.
    """

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    factors: tuple[tuple[Body, Body], ...]


def matmul_axes(kernel: KernelIR) -> MatmulAxes | None:
    """The matmul axes; None if the kernel sums no products, or not all over the same axes.

    The last axis of one factor only is a column: neighbours in memory are columns of the result.
    """
    axes: MatmulAxes | None = None
    for product in kernel.products:
        left, right = (axes_of(kernel, body) for body in (product.left, product.right))
        alone = left ^ right
        if not left - right or not right - left:
            return None
        swapped = max(alone) in left
        mine, other = (right, left) if swapped else (left, right)
        factors = (product.right, product.left) if swapped else (product.left, product.right)
        batch = set(range(kernel.row_axes)) - alone
        parts = [tuple(sorted(s)) for s in (batch, mine - other, other - mine)]
        if axes is not None and [axes.batch, axes.rows, axes.columns] != parts:
            return None
        axes = MatmulAxes(parts[0], parts[1], parts[2], (*(axes.factors if axes else ()), factors))
    return axes


def axes_of(kernel: KernelIR, body: Body) -> set[int]:
    """The row axes along which the results of a body vary."""
    names = {v.name for v in body.args}
    varying = {p.axis for p in kernel.positions if p.value.name in names and p.axis < kernel.row_axes}
    for load in kernel.loads:
        if load.value.name in names:
            stride_kinds = kernel.operands[load.operand].strides[: kernel.row_axes]
            varying |= {axis for axis, kind in enumerate(stride_kinds) if kind != "0"}
    return varying


def is_contiguous_along_sum(kernel: KernelIR, body: Body) -> bool:
    """Whether an array that a factor loads is contiguous along an axis of the sum."""
    names = {v.name for v in body.args}
    operands = [kernel.operands[load.operand] for load in kernel.loads if load.value.name in names]
    return any(operand.near >= kernel.row_axes for operand in operands)


def extent(axes: tuple[int, ...], extents: tuple[int, ...]) -> int:
    """The number of points of some axes."""
    return prod(extents[a] for a in axes)


SMALL = (4, 4, 8)  # rows, columns and steps below which products are folds of rows
MANY = 1 << 14  # elements of a result from which on products of fewer steps are tiled too


def worth_tiling(kernel: KernelIR, axes: MatmulAxes, extents: tuple[int, ...]) -> bool:
    """True if factors of these extents are worth loading in K-slices."""
    rows, columns, steps = extent(axes.rows, extents), extent(axes.columns, extents), prod(extents[kernel.row_axes :])
    few_steps = steps < SMALL[2] and rows * columns < MANY
    return rows >= SMALL[0] and columns >= SMALL[1] and not few_steps
