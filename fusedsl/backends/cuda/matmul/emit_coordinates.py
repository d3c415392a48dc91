"""Emits coordinates of products: batches, rows and columns of several axes, and the addresses of operands there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....kernel_ir.matmul_axes import MatmulAxes
from ..emit.intrinsic import Function
from ..emit.source_text import SourceBuilder
from ..tile import TileIntrinsics
from .emit_places import coordinates
from .tile_shapes import OperandTileShape


class MatmulCoordinates:
    """Addresses of a kernel's operands: `{name}_base` has the batch's, and functions add rows and columns."""

    def __init__(self, src: SourceBuilder, axes: MatmulAxes):
        self.src, self.kernel, self.axes = src, src.kernel, axes

    def emit_batch(self) -> None:
        """Emit the coordinates of this block's `batch`, and each operand's base there."""
        src = self.src
        src.emit(*self.split("batch", self.axes.batch))
        for k, operand in enumerate(self.kernel.operands):
            offset = self.offset(k, self.axes.batch)
            src.assign(
                self.base(k), src.names.pointer(k) + (f" + ({offset}) * {operand.dtype.itemsize}" if offset else "")
            )
        for p in self.kernel.positions:
            if p.axis in self.axes.batch:
                src.assign(p.value.name, f"{p.value.dtype.name}(c{p.axis})")

    def base(self, k: int) -> str:
        return f"{self.src.names.operand(k)}_base"

    def varies(self, k: int, axes: Iterable[int]) -> bool:
        return any(self.kernel.operands[k].strides[a] != "0" for a in axes)

    def stride(self, k: int, axis: int) -> str:
        """The stride of an operand along an axis, in elements: 1 along its contiguous axis."""
        operand = self.kernel.operands[k]
        if operand.near == axis or operand.strides[axis] in "01":
            return "0" if operand.strides[axis] == "0" else "1"
        return self.src.names.stride(k, axis)

    def offset(self, k: int, axes: Iterable[int]) -> str:
        """The offset of an operand at the coordinates c0, c1 … of axes, in elements; "" for none."""
        terms = [(a, self.stride(k, a)) for a in axes]
        return " + ".join(f"c{a}" if step == "1" else f"c{a} * {step}" for a, step in terms if step != "0")

    def split(self, number: str, axes: Sequence[int]) -> list[str]:
        """Lines that split a number into coordinates on axes."""
        return coordinates(self.src.names, number, axes)

    def arguments(self, operands: Iterable[int], axes: Sequence[int]) -> list[str]:
        """What a function of coordinates on these axes takes besides them: extents and strides."""
        extents = [self.src.names.extent(a) for a in axes[1:]]
        strides = [self.stride(k, a) for k in operands for a in axes]
        return list(dict.fromkeys([*extents, *(s for s in strides if s not in ("0", "1"))]))

    def emit_pieces(
        self, k: int, side: str, axes: Sequence[int], shape: OperandTileShape, own: tuple[str, str]
    ) -> None:
        """Emit the addresses of a thread's pieces at their first step, and how many lanes exist from each on.

        `own` are calls that give its lanes and its first step. Lanes out of bounds are those of the last piece.
        """
        name, size, limit = self.src.names.operand(k), shape.itemsize, f"{side}s"
        last = (
            f"({limit} - 1) // {shape.piece} * {shape.piece}"
            if shape.major == "mn" and shape.piece > 1
            else f"{limit} - 1"
        )
        given = [f"{name}_base", f"{side}_from", limit, f"{name}_first", *self.arguments([k], axes)]
        place = f"{name}_base + ({self.offset(k, axes) or '0'}) * {size} + {name}_first"
        lines = [f"number = minimum({side}_from + lane, {last})", *self.split("number", axes)]
        lines.append(f"return {place}, {limit} - number")
        find = self._function(f"{name}_pieces", f"find_{name}", ["lane", *given], lines, "int64, int64")
        self.src.assign(f"{name}_first", f"(begin + {own[1]}) * {name}_step_bytes")
        self.src.assign(f"{name}_addresses, {name}_room", find(own[0], *given))

    def _function(self, tile: str, name: str, arguments: list[str], lines: list[str], results: str) -> Function:
        decorator = TileIntrinsics(tile).elementwise(f"{', '.join(['int64'] * len(arguments))} -> {results}")
        return self.src.function(decorator, name, arguments, lines)

    def emit_columns(self, operands: Sequence[int]) -> None:
        """Emit the coordinates of a thread's first `column`, and the address of each operand there."""
        src = self.src
        last = "minimum(column, columns - 1)" if len(self.axes.columns) > 1 else "column"
        src.emit(*self.split(last, self.axes.columns))
        for k in operands:
            offset, size = self.offset(k, self.axes.columns), self.kernel.operands[k].dtype.itemsize
            src.assign(self.column_base(k), self.base(k) + (f" + ({offset}) * {size}" if offset else ""))

    def column_base(self, k: int) -> str:
        return f"{self.src.names.operand(k)}_column"

    def row_address(self, k: int) -> str:
        return f"{self.src.names.operand(k)}_row"

    def emit_rows(self, operands: Sequence[int], rows: str) -> None:
        """Emit whether each of a thread's rows exists, the address of each operand there, and the rows' positions."""
        axes, src = self.axes.rows, self.src
        positions = [p for p in self.kernel.positions if p.axis in axes]
        bases = [self.column_base(k) for k in operands]
        given = ["row_from", "rows", *bases, *self.arguments(operands, axes)]
        lines = ["number = row_from + row", "wanted = number < rows", *self.split("number", axes)]
        for k in operands:
            offset, size = self.offset(k, axes), self.kernel.operands[k].dtype.itemsize
            lines.append(f"{self.row_address(k)} = {self.column_base(k)} + ({offset or '0'}) * {size}")
        lines += [f"{p.value.name} = {p.value.dtype.name}(c{p.axis})" for p in positions]
        results = ["wanted", *map(self.row_address, operands), *(p.value.name for p in positions)]
        types = ["bool", *["int64"] * len(operands), *(p.value.dtype.name for p in positions)]
        find = self._function(
            "row_values", "find_rows", ["row", *given], [*lines, f"return {', '.join(results)}"], ", ".join(types)
        )
        src.assign(", ".join(results), find(rows, *given))
