"""Predicted time of matrix products on one core: by our own kernel, and by BLAS.

measured: one core of an EPYC (Zen 5, vectors of 64 bytes) with OpenBLAS, 2026-11: 64³ to 1024³, and thin ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...kernel_ir.instruction_cost import total_cost
from ...kernel_ir.kernel import AttentionKernel, KernelIR
from ...kernel_ir.matmul_axes import extent, matmul_axes, worth_tiling
from . import core_time
from .core_time import CACHE_BYTE, INSTRUCTION
from .schedule import MATMUL_BLOCK

LAUNCH = 1e-6  # seconds of a call of one kernel
ATTENTION_SHARE = 0.7  # of the rate of a matrix product that attention's products reach


@dataclass(frozen=True)
class ProductRate:
    """Rate of a product kernel: seconds per multiply-add and byte of the type, and its tile, which it pads to."""

    multiplication: float
    rows: int
    columns: int
    call: float

    def seconds(self, sides: Sequence[int], width: int) -> float:
        """Time of (batch, rows, columns, terms) with elements of `width` bytes."""
        batch, rows, columns, terms = sides
        padded = -(-rows // self.rows) * self.rows * -(-columns // self.columns) * self.columns
        moved = rows * columns + (rows + columns) * terms
        return self.call + batch * width * (padded * terms * self.multiplication + moved * CACHE_BYTE)


OWN = ProductRate(5.15e-12, 8, 32, 1.5e-6)
BLAS = ProductRate(4.7e-12, 8, 16, 1.5e-6)


def seconds(kernel: KernelIR, extents: tuple[int, ...]) -> float:
    """The time of one of our kernels on one thread."""
    if 0 in extents:
        return 0.0
    if isinstance(kernel, AttentionKernel):
        return LAUNCH + core_time.seconds(kernel, extents) / ATTENTION_SHARE
    axes = matmul_axes(kernel)
    if axes is None or not worth_tiling(kernel, axes, extents):
        return LAUNCH + core_time.seconds(kernel, extents)
    rows, columns = extent(axes.rows, extents), extent(axes.columns, extents)
    sides = extent(axes.batch, extents), rows, columns, prod(extents[kernel.row_axes :])
    width = max(operand.dtype.compute.itemsize for operand in kernel.operands)
    total = len(axes.factors) * OWN.seconds(sides, width)
    for pair in axes.factors:  # elements of operands are computed as blocks are packed
        for body, own, other, block in zip(pair, (rows, columns), (columns, rows), (MATMUL_BLOCK[1], MATMUL_BLOCK[0])):
            packed = sides[0] * own * sides[3] * -(-other // block)
            total += packed * total_cost(body.instructions) * width * INSTRUCTION
    row = kernel.phases[0].row
    if row is not None:
        total += sides[0] * rows * columns * total_cost(row.instructions) * width * INSTRUCTION
    return total
