"""Emits coordinates of products: batches, rows and columns of several axes, and the addresses of operands there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ....kernel_ir.matmul_axes import MatmulAxes
from ..emit.intrinsic import Function
from ..emit.signature import Names
from ..emit.source_builder import SourceBuilder
from ..tile import TileIntrinsics
from . import udiv64
from .tile_shapes import OperandTileShape


def coordinates(names: Names, number: str, axes: Sequence[int]) -> list[str]:
    """Lines that split a number into coordinates c0, c1 … on axes, the last of which varies fastest."""
    lines = []
    for a in reversed(axes):
        if a == axes[0]:
            lines.append(f"c{a} = {number}")
            continue
        size = names.extent(a)
        lines += [f"q{a} = {udiv64(number, size)}", f"c{a} = {number} - q{a} * {size}"]
        number = f"q{a}"
    return lines


class OperandCoordinates:
    """Offsets of a kernel's operands at coordinates c0, c1 …; `{name}_base` is an operand's address in the batch.

    `near` are the axes along which operands are known to be contiguous, -1 for none.
    """

    def __init__(self, src: SourceBuilder, batch: Sequence[int], near: Sequence[int] = ()):
        self.src, self.names, self.batch = src, src.names, batch
        self.stride_kinds = [operand.strides for operand in src.kernel.operands]
        for k, axis in enumerate(near):
            if axis >= 0 and self.stride_kinds[k][axis] == "s":
                self.stride_kinds[k] = f"{self.stride_kinds[k][:axis]}1{self.stride_kinds[k][axis + 1 :]}"

    def emit_batch(self, number: str) -> None:
        """Emit the coordinates of a batch, each operand's base there, and its positions."""
        src, kernel = self.src, self.src.kernel
        src.emit(*coordinates(self.names, number, self.batch))
        for k, operand in enumerate(kernel.operands):
            offset, pointer = self.offset(k, self.batch), self.names.pointer(k)
            src.assign(self.base(k), f"{pointer} + ({offset}) * {operand.dtype.itemsize}" if offset else pointer)
        for p in kernel.positions:
            if p.axis in self.batch:
                src.assign(p.value.name, f"{p.value.dtype.name}(c{p.axis})")

    def base(self, k: int) -> str:
        """The variable with the address of an operand's first element in the batch."""
        return f"{self.names.operand(k)}_base"

    def varies(self, k: int, axes: Iterable[int]) -> bool:
        return any(self.stride_kinds[k][a] != "0" for a in axes)

    def stride(self, k: int, axis: int) -> str:
        """The stride of an operand along an axis, in elements: 0, 1 or a variable."""
        kind = self.stride_kinds[k][axis]
        return kind if kind in "01" else self.names.stride(k, axis)

    def offset(self, k: int, axes: Iterable[int]) -> str:
        """The offset of an operand at the coordinates of axes, in elements; "" for none."""
        terms = {"1": "c{0}", "s": "c{0} * {1}"}
        kinds = {a: kind for a in axes if (kind := self.stride_kinds[k][a]) != "0"}
        return " + ".join(terms[kind].format(a, self.names.stride(k, a)) for a, kind in kinds.items())

    def strides(self, operands: Iterable[int], axes: Sequence[int]) -> list[str]:
        """The strides along axes that functions of coordinates take as arguments."""
        return [self.names.stride(k, a) for k in operands for a in axes if self.stride_kinds[k][a] == "s"]


class MatmulCoordinates(OperandCoordinates):
    """Addresses of a product's operands, and functions that add rows and columns to them."""

    def __init__(self, src: SourceBuilder, axes: MatmulAxes):
        super().__init__(src, axes.batch, [operand.near for operand in src.kernel.operands])
        self.axes = axes

    def arguments(self, operands: Iterable[int], axes: Sequence[int]) -> list[str]:
        """What a function of coordinates on these axes takes besides them: extents and strides."""
        return list(dict.fromkeys([*(self.names.extent(a) for a in axes[1:]), *self.strides(operands, axes)]))

    def emit_vectors(self, k: int, side: str, axes: Sequence[int], shape: OperandTileShape, own_mn: str) -> None:
        """Emit the addresses of a thread's copy vectors at their first step, and how many M/N positions exist there.

        `own_mn` is a call that gives its M/N positions. Positions out of bounds are those of the last vector.
        """
        name, size, limit = self.names.operand(k), shape.itemsize, f"{side}s"
        last = (
            f"({limit} - 1) // {shape.vector} * {shape.vector}"
            if shape.major == "mn" and shape.vector > 1
            else f"{limit} - 1"
        )
        given = [f"{name}_base", f"{side}_from", limit, f"{name}_k_offset", *self.arguments([k], axes)]
        address = f"{name}_base + ({self.offset(k, axes) or '0'}) * {size} + {name}_k_offset"
        lines = [f"index = minimum({side}_from + mn, {last})", *coordinates(self.names, "index", axes)]
        lines.append(f"return {address}, {limit} - index")
        find = self._function(f"{name}_vectors", f"{name}_vector_addresses", ["mn", *given], lines, "int64, int64")
        self.src.assign(f"{name}_addresses, {name}_valid_mn", find(own_mn, *given))

    def _function(self, tile: str, name: str, arguments: list[str], lines: list[str], results: str) -> Function:
        decorator = TileIntrinsics(tile).elementwise(f"{', '.join(['int64'] * len(arguments))} -> {results}")
        return self.src.function(decorator, name, arguments, lines)

    def emit_columns(self, operands: Sequence[int]) -> None:
        """Emit the coordinates of a thread's first `column`, and the address of each operand there."""
        src = self.src
        last = "minimum(column, columns - 1)" if len(self.axes.columns) > 1 else "column"
        src.emit(*coordinates(self.names, last, self.axes.columns))
        for k in operands:
            offset, size = self.offset(k, self.axes.columns), self.src.kernel.operands[k].dtype.itemsize
            src.assign(self.column_base(k), self.base(k) + (f" + ({offset}) * {size}" if offset else ""))

    def column_base(self, k: int) -> str:
        return f"{self.names.operand(k)}_column"

    def row_address(self, k: int) -> str:
        return f"{self.names.operand(k)}_row"

    def emit_rows(self, operands: Sequence[int], rows: str) -> None:
        """Emit whether each of a thread's rows exists, the address of each operand there, and the rows' positions."""
        axes, src = self.axes.rows, self.src
        positions = [p for p in self.src.kernel.positions if p.axis in axes]
        bases = [self.column_base(k) for k in operands]
        given = ["row_from", "rows", *bases, *self.arguments(operands, axes)]
        lines = [
            "row_index = row_from + row",
            "in_bounds = row_index < rows",
            *coordinates(self.names, "row_index", axes),
        ]
        for k in operands:
            offset, size = self.offset(k, axes), self.src.kernel.operands[k].dtype.itemsize
            lines.append(f"{self.row_address(k)} = {self.column_base(k)} + ({offset or '0'}) * {size}")
        lines += [f"{p.value.name} = {p.value.dtype.name}(c{p.axis})" for p in positions]
        results = ["in_bounds", *map(self.row_address, operands), *(p.value.name for p in positions)]
        types = ["bool", *["int64"] * len(operands), *(p.value.dtype.name for p in positions)]
        find = self._function(
            "row_values", "row_addresses", ["row", *given], [*lines, f"return {', '.join(results)}"], ", ".join(types)
        )
        src.assign(", ".join(results), find(rows, *given))
