"""Vector registers of a processor, and the register tile of a matmul."""

from __future__ import annotations

from typing import NamedTuple

from ...ir.types import DType

PREFER_VECTOR_WIDTH = (
    '"prefer-vector-width"="512"'  # an attribute of functions: the widest vectors of LLVM's vectoriser
)
TILE_PRODUCT = "tile_product"  # the word of the matmul microkernel, per dtype


class VectorRegisters(NamedTuple):
    """The vector registers of a processor."""

    bytes: int  # of one register
    registers: int


def tile_shape(d: DType, vectors: VectorRegisters) -> tuple[int, int]:
    """(rows, columns) of a register tile: two vectors wide; some registers are left for the operands."""
    return (12 if vectors.registers == 32 else 6), 2 * vectors.bytes // d.itemsize
