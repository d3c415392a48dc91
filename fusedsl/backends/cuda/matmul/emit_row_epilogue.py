"""Emits the epilogue of products: accumulators out of shared memory, row by row, with wide loads and stores."""

from __future__ import annotations

from ....kernel_ir.kernel import Load
from ....kernel_ir.phase import Body
from ..emit.intrinsic import Function
from ..emit.source_builder import TILE
from ..tile import Tile, load_value
from . import RowVectors
from .emit_coordinates import MatmulCoordinates
from .mma_schedule import MmaMatmulSchedule


class RowEpilogue:
    """What follows the accumulators of a tile, which stand in shared memory: the phase's row body, and its stores."""

    def __init__(self, coordinates: MatmulCoordinates, schedule: MmaMatmulSchedule):
        self.coordinates, self.schedule, self.src = coordinates, schedule, coordinates.src
        self.kernel, self.axes, self.shape = self.src.kernel, coordinates.axes, schedule.vectors
        self.phase = self.kernel.phases[0]
        self.body = self.phase.row or Body((), (), ())
        used = {v.name for v in self.body.args} | {store.value for store in self.phase.row_stores}
        self.loads = [load for load in self.kernel.loads if load.value.name in used]
        self.positions = [p for p in self.kernel.positions if p.value.name in used]

    def emit(self) -> None:
        src, s, shape = self.src, self.schedule, self.shape
        src.bind("tile", Tile(width=shape.width, vectors=shape.vectors, step=1, checks="." * shape.vectors))
        src.bind("row_values", Tile(width=1, vectors=shape.vectors, step=1, checks="." * shape.vectors))
        self.vectors = src.bind(
            "vectors", RowVectors(shape.columns, shape.width, shape.vectors, shape.threads, shape.partial)
        )
        first_row, first_column, rows_from = src.bind_several(
            {
                "first_row": self.vectors.first_row(),
                "first_column": self.vectors.first_column(),
                "rows_at": self.vectors.rows_from(),
            }
        )
        src.emit(
            f"row, column = {first_row()}, column_from + {first_column()}",
            f"valid_columns = int32(minimum(columns - column, {shape.width}))",
            f"row_end = int32(minimum(rows - row_from, {s.tile.rows}))",
        )
        everyone = {load.operand for load in self.loads} | {store.operand for store in self.phase.row_stores}
        self.coordinates.emit_columns(sorted(everyone))
        self._emit_column_values()
        with src.while_("row < row_end"):
            rows = sorted(k for k in everyone if self.coordinates.varies(k, self.axes.rows))
            self.coordinates.emit_rows(rows, rows_from("row"))
            self._emit_row_values()
            for number, use in enumerate(self.phase.folds):
                name = use.accumulators[0]
                read = src.bind(f"read_{name.name}", self.vectors.load_accumulators(name.dtype.name, s.tile.pitch))
                src.assign(name.name, read(f"int32(accumulators_at + {number * s.tile.size_bytes})", "row"))
            src.apply(TILE.elementwise, "epilogue", self.body)
            for number, store in enumerate(self.phase.row_stores):
                self._emit_store(number, store.operand, src.element(store.value))
            src.assign("row", f"int32(row + {shape.rows})")

    # -- values of columns and of batches: once a thread

    def _emit_column_values(self) -> None:
        """Emit the loads that are the same in all rows, and the positions of columns."""
        src, columns = self.src, self.axes.columns
        once = [load for load in self.loads if not self.coordinates.varies(load.operand, self.axes.rows)]
        if once:
            shape = self.shape
            line = src.bind("column_vector", RowVectors(shape.columns, shape.width, 1, shape.threads, shape.partial))
        for load in once:
            name, dtype = load.value.name, self.kernel.operands[load.operand].dtype
            if not self.coordinates.varies(load.operand, columns):
                read = src.bind(f"load_{name}", load_value(dtype.name))
                src.assign(name, read(self.coordinates.column_base(load.operand)))
                continue
            stride_kind, step = self._stride_kind(load.operand)
            src.stored[name] = dtype
            read = src.bind(f"load_{name}", line.load(dtype.name, stride_kind))
            src.assign(name, read(self.coordinates.column_base(load.operand), "True", "valid_columns", *step))
        for p in self.positions:
            if p.axis == columns[-1]:
                positions = src.bind(f"at_{p.value.name}", self.vectors.column_positions(p.value.dtype.name))
                src.assign(p.value.name, positions(f"c{p.axis}"))
            elif p.axis in columns:
                src.assign(p.value.name, f"{p.value.dtype.name}(c{p.axis})")

    def _stride_kind(self, k: int) -> tuple[str, list[str]]:
        """The stride of an operand's columns, and the further argument of its access: bytes between columns."""
        operand, axis = self.kernel.operands[k], self.axes.columns[-1]
        if not self.coordinates.varies(k, self.axes.columns) or (operand.strides[axis] == "0" and self.shape.width > 1):
            return "0", []
        if operand.near == axis and operand.near_access == "vector":
            return "1", []
        return "s", [f"int64({self.coordinates.stride(k, axis)} * {operand.dtype.itemsize})"]

    # -- values of rows and elements: in the loop

    def _emit_row_values(self) -> None:
        for load in self.loads:
            if self.coordinates.varies(load.operand, self.axes.rows):
                self._emit_load(load)
        for p in self.positions:
            if p.axis in self.axes.rows:
                spread = self.src.bind(f"spread_{p.value.name}", self.vectors.broadcast_rows(p.value.dtype.name))
                self.src.assign(p.value.name, spread(p.value.name))

    def _emit_load(self, load: Load) -> None:
        src, name, dtype = self.src, load.value.name, self.kernel.operands[load.operand].dtype
        stride_kind, step = self._stride_kind(load.operand)
        src.stored[name] = dtype
        read: Function = src.bind(f"load_{name}", self.vectors.load(dtype.name, stride_kind))
        src.assign(name, read(self.coordinates.row_address(load.operand), "in_bounds", "valid_columns", *step))

    def _emit_store(self, number: int, k: int, value: str) -> None:
        stride_kind, step = self._stride_kind(k)
        write = self.src.bind(f"store_{number}", self.vectors.store(self.kernel.operands[k].dtype.name, stride_kind))
        row = (
            self.coordinates.row_address(k)
            if self.coordinates.varies(k, self.axes.rows)
            else self.coordinates.column_base(k)
        )
        self.src.emit(write(row, value, "in_bounds", "valid_columns", *step))
