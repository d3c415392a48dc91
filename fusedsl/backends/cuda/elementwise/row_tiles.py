"""Row tiles of a map: a block takes neighbouring rows, so that what several of them read comes to its SM once.

Loads of a stencil, or gathers of a shifted array, read each element again for its neighbours. Where a block is a line,
those above and below are other blocks', and each of them reads it through the L2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ....kernel_ir.kernel import KernelIR
from ..emit.multi_axis_index import MultiAxisIndex
from ..tile import Tile, divide, thread_idx

LANES = 32  # vectors of a tile along the last axis
SHIFT = LANES.bit_length() - 1


def reads_neighbours(kernel: KernelIR) -> bool:
    """Whether it reads an array at several neighbouring rows, or at computed places again and again."""
    fetches = sum(i.op == "fetch" for phase in kernel.phases for i in phase.element.instructions)
    again = fetches > len(kernel.pointers) + 1
    return (kernel.neighbour_rows or again) and kernel.axes > 1 and not kernel.index64


def tiles_across(extent: int, width: int) -> int:
    """Tiles along the last axis."""
    return -(-extent // (width * LANES))


def tile_count(extents: tuple[int, ...], width: int, rows: int) -> int:
    """Tiles of so many rows; the axes before the last are one row after the other."""
    return -(-prod(extents[:-1]) // rows) * tiles_across(extents[-1], width)


@dataclass
class RowTileIndex(MultiAxisIndex):
    """Vectors by row and column: `first` is a thread's row, `count` how many there are, and `column` its vector."""

    def begin_tiles(self, vectors: int, threads: int, operands: Sequence[int]) -> None:
        """Define the tile of a thread, whose vectors are as many rows apart as a block has lines of threads."""
        src, step = self.src, {"step": threads // LANES}
        src.bind("tile", Tile(width=self.width, vectors=vectors, **step, checks="v" * vectors))
        self.define(operands, vectors, step)
        self._find_tile(threads // LANES * vectors)

    def _find_tile(self, rows: int) -> None:
        """Split the block's number; rows and columns beyond the last are none, and read what the last ones do."""
        src, last = self.src, self.axes[-1]
        src.assign("across", f"int32(int32(row_vectors + {LANES - 1}) >> {SHIFT})")
        src.assign("band", divide(src.block, "across", src.names.magic(last)))
        beside = f"int32(int32({src.block} - int32(band * across)) * {LANES})"
        src.assign("beside", f"int32({beside} + int32({thread_idx()} & {LANES - 1}))")
        src.assign("own", f"int32(int32(band * {rows}) + int32({thread_idx()} >> {SHIFT}))")
        src.assign(self.first, f"int32(select(beside < row_vectors, own, {self.count}))")
        src.assign("column", "int32(select(beside < row_vectors, beside, int32(row_vectors - 1)))")

    def _count(self) -> None:
        super()._count()
        product = ""
        for axis in self.axes[:-1]:
            extent = f"int32({self.src.names.extent(axis)})"
            product = f"int32({product} * {extent})" if product else extent
        self.src.code[-1] = f"{self.count} = {product}  # rows"

    def _coordinates(self) -> tuple[list[str], list[str]]:
        arguments, lines, rest = ["vector", "column"], [], "vector"
        for axis in reversed(self.axes[1:-1]):
            size, magic = self.src.names.extent(axis), self.src.names.magic(axis)
            arguments += [size, magic]
            lines.append(f"q{axis} = {divide(rest, size, magic)}")
            lines.append(f"c{axis} = int32({rest} - int32(q{axis} * {size}))")
            rest = f"q{axis}"
        column = f"int32(column * {self.width})" if self.width > 1 else "column"
        return arguments, [*lines, f"c{self.axes[0]} = {rest}", f"c{self.axes[-1]} = {column}"]
