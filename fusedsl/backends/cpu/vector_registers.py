"""The vector registers of a processor, and the tiles of sums that they hold."""

from __future__ import annotations

from typing import NamedTuple

from ...ir.types import DType

TILE_PRODUCT = "tile_product"  # the word that adds the product of a tile; one for each dtype


class VectorRegisters(NamedTuple):
    """Bytes of a vector register, and how many there are."""

    bytes: int
    registers: int


def tile_shape(d: DType, vectors: VectorRegisters) -> tuple[int, int]:
    """(rows, columns) of a tile: two vectors wide, and as many rows as leave registers for the operands."""
    return (12 if vectors.registers == 32 else 6), 2 * vectors.bytes // d.itemsize
