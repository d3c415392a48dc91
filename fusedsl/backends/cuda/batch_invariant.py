"""Batch invariance: schedules for a canonical kernel and extents, so that a row's bits do not depend on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.types import DType
from ...kernel_ir.kernel import KernelIR, Operand
from ...kernel_ir.memory_access import ACCESS_BYTES
from .split_heuristics import has_no_pass_after_reduction

# Canonical numbers of rows, for which a schedule is chosen whatever number a call has.
FEW = 1  # a single row, which several blocks may share
MANY = 1 << 16  # rows fill the machine, each with a block of its own
STRIP = 1024  # so many neighbouring rows, which vectors across them reduce side by side


def batch_invariant_width(columns: int, dtypes: Sequence[DType], lines: Sequence[str]) -> int:
    """Elements of a vector along rows of so many columns: 16 bytes of the widest contiguous array, or 1 if they do not
    divide a row. Neither alignment nor whether rows share an array changes it."""
    sizes = [d.itemsize for d, line in zip(dtypes, lines) if line.endswith("1")]
    width = ACCESS_BYTES // max(sizes) if sizes else 1
    return width if columns % width == 0 else 1


def batch_invariant_form(kernel: KernelIR, extents: tuple[int, ...]) -> tuple[KernelIR, tuple[int, ...]]:
    """Canonical kernel and extents, from which the schedule is chosen: one row axis of a fixed number of rows, whose
    arrays have run-time strides and share nothing between rows."""
    axes = kernel.row_axes
    last = axes - 1 if kernel.row_vector_width else None

    def alike(operand: Operand) -> Operand:
        columns = operand.strides[axes:]
        row = operand.strides[last] if last is not None else "s" if columns.strip("0") else operand.strides[0]
        return replace(operand, strides=row + columns)

    positions = tuple(replace(p, axis=max(0, p.axis - axes + 1)) for p in kernel.positions)
    operands = tuple(map(alike, kernel.operands))
    form = replace(kernel, row_axes=1, operands=operands, positions=positions, index64=True)
    may_share = has_no_pass_after_reduction(kernel) and not any(phase.scans or phase.sort for phase in kernel.phases)
    rows = (STRIP if kernel.row_vector_width else FEW) if may_share else MANY
    return form, (rows, *extents[axes:])
