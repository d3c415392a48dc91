"""Predicted time of matrix products on one core: by our own kernel, and by BLAS.

measured: one core of an EPYC (Zen 5) with OpenBLAS, 2026-11: 64³ to 1024³, and thin ones, in GFLOPS of float32. Where
its units compute 64 bytes at once, ours 132 to 225, OpenBLAS 204 to 245 by its kernels for AVX-512 and 101 to 129 by
those for AVX2, which it takes where it does not know the processor; float64 half of it, ours 78 to 109, 99 to 111.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from ...kernel_ir.instruction_cost import total_cost
from ...kernel_ir.kernel import AttentionKernel, KernelIR
from ...kernel_ir.matmul_axes import extent, matmul_axes, worth_tiling
from . import core_time
from .core_time import CACHE_BYTE, INSTRUCTION
from .schedule import matmul_block

LAUNCH = 1e-6  # seconds of a call of one kernel
ATTENTION_SHARE = 0.7  # of the rate of a matrix product that attention's products reach


@dataclass(frozen=True)
class ProductRate:
    """Rate of a product kernel: seconds per multiply-add and byte of the type, and its tile, which it pads to."""

    multiplication: float
    rows: int
    columns: int
    call: float
    packing: float = CACHE_BYTE  # seconds per byte of the arrays

    def seconds(self, sides: Sequence[int], width: int) -> float:
        """Time of (batch, rows, columns, terms) with elements of `width` bytes."""
        batch, rows, columns, terms = sides
        padded = -(-rows // self.rows) * self.rows * -(-columns // self.columns) * self.columns
        moved = rows * columns + (rows + columns) * terms
        return self.call + batch * width * (padded * terms * self.multiplication + moved * self.packing)


class ProductRates(NamedTuple):
    """Rates of our own kernel, and of BLAS, on one processor."""

    own: ProductRate
    blas: ProductRate


def product_rates(units: int, blas: int | None) -> ProductRates:
    """The rates for vector units of so many bytes, and a BLAS with vectors of `blas` bytes (None: it is not known)."""
    if units < 64:
        return ProductRates(ProductRate(5.15e-12, 8, 32, 1.5e-6), ProductRate(4.7e-12, 8, 16, 1.5e-6))
    narrow = blas is not None and blas < units
    own = ProductRate(2.1e-12, 12, 32, 1.5e-6, 3e-11)
    return ProductRates(own, ProductRate(3.95e-12 if narrow else 2e-12, 8, 16, 1.5e-6))


def seconds(kernel: KernelIR, extents: tuple[int, ...], rate: ProductRate) -> float:
    """The time of one of our kernels on one thread, whose products have this rate."""
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
    total = len(axes.factors) * rate.seconds(sides, width)
    for pair in axes.factors:  # elements of operands are computed as blocks are packed
        for body, own, other, block in zip(pair, (rows, columns), (columns, rows), reversed(matmul_block(*sides[:3]))):
            packed = sides[0] * own * sides[3] * -(-other // block)
            total += packed * total_cost(body.instructions) * width * INSTRUCTION
    row = kernel.phases[0].row
    if row is not None:
        total += sides[0] * rows * columns * total_cost(row.instructions) * width * INSTRUCTION
    return total
