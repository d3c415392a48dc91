"""Emits the index arithmetic of a column kernel: tiles, the strip of a block, the columns of a thread."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..emit.multi_axis_index import MultiAxisIndex
from ..emit.source_text import KernelEmitter
from ..split_heuristics import fold_bytes
from .emit_unaligned import emit_shift, shifted_strips
from .schedule import ColumnSchedule


@dataclass
class ColumnIndexEmitter(KernelEmitter):
    """Emitter of row and column indices, for one column kernel."""

    schedule: ColumnSchedule
    bases: dict[int, str] = field(default_factory=dict)  # operand -> variable: where a thread's rows begin in it
    multi_axis: MultiAxisIndex = field(init=False)

    @property
    def step(self) -> str:
        """How the vectors of a thread are apart."""
        return "along_y=True" if self.schedule.max_threads else f"step={self.schedule.threads_y}"

    def thread_x_in_block(self) -> tuple[str, str]:
        """The lane of a thread, and how many there are."""
        lanes = self.schedule.threads_x
        return (
            ("thread_idx()", "block_dim_x()")
            if self.schedule.max_threads
            else (f"int32(thread_idx() & {lanes - 1})", f"int32({lanes})")
        )

    def threads_y_times(self, times: int) -> str:
        """So many times the levels of a block."""
        return f"block_dim_y() * {times}" if self.schedule.max_threads else str(self.schedule.threads_y * times)

    def define_tiles(self) -> None:
        plan, top = self.schedule, self.scope.top
        size, checks = f"width={plan.width}, vectors={plan.vectors}, {self.step}", "v" * plan.vectors
        whole = "." * plan.full_vectors + checks[plan.full_vectors :] if plan.resident else "." * plan.vectors
        top.append(f'tile = Tile({size}, checks="{whole}")')
        if not plan.resident:
            top.append(f'ends = Tile({size}, checks="{checks}")')
        check = "t" if self.kernel.shifted else "."
        top.append(f'strip = Tile(width={plan.width}, vectors=1, step=1, checks="{check}")  # the rows of a thread')
        place = f"threads_x={plan.threads_x}, threads_y={plan.threads_y}"
        place = f"max_threads={plan.max_threads}" if plan.max_threads else place
        place += f", width={plan.width}"
        top.append(f"reducer = ColumnReducer({place}, state={fold_bytes(self.kernel)})")

    def find_rows(self) -> None:
        """The vector of rows of this thread; lanes beyond the last work on that one, and store nothing."""
        plan, names, kernel, index = self.schedule, self.scope.names, self.kernel, self.index
        if plan.is_split:
            self.code.append(f"strips = {self._strips()}")
            self.code.append("parts = udiv(grid_dim(), int32(strips))")
            self.code.append(f"number = udiv({self.scope.block}, parts)")
            self.code.append(f"part = int32({self.scope.block} - int32(number * parts))")
        else:
            self.code.append(f"number = {self.scope.block}")
        level = "thread_idx_y()" if plan.max_threads else f"int32(thread_idx() >> {plan.threads_x.bit_length() - 1})"
        self.code.append(f"level = {level}")
        self.code.append(f"vectors = {self._vectors()}")
        lane, lanes = self.thread_x_in_block()
        apart = f"({lanes} - 1)" if kernel.shifted else lanes
        self.code.append(f"vector = {index}({index}({index}(number) * {apart}) + {lane})")
        self.code.append("in_bounds = vector < vectors")
        self.code.append(f"rest = {index}(select(in_bounds, vector, {index}(vectors - 1)))")
        rest, last = "rest", kernel.row_axes - 1
        for axis in range(last, 0, -1):
            size = f"{index}({self._lines() if axis == last else names.extent(axis)})"
            quotient = "row0" if axis == 1 else f"quotient{axis}"
            self.code.append(f"{quotient} = divide({rest}, {size}, {names.magic(axis)})")
            self.code.append(f"row{axis} = {index}({rest} - {index}({quotient} * {size}))")
            rest = quotient
        if last == 0:
            self.code.append("row0 = rest")
        if plan.width > 1:
            self.code.append(f"row{last} = {index}(row{last} * {plan.width})")
        for k, operand in enumerate(kernel.operands):
            self._begin(k, operand)
        if kernel.shifted:
            emit_shift(self)

    @property
    def row_bounds(self) -> str:
        """Where the rows of a thread begin and end, as they are loaded and stored."""
        return "int32(0), left" if self.kernel.shifted else "int32(0), int32(1)"

    def _begin(self, k: int, operand) -> None:
        names, terms = self.scope.names, []
        for axis in range(self.kernel.row_axes):
            if operand.strides[axis] == "1":
                terms.append(f"row{axis}")
            elif operand.strides[axis] == "s":
                terms.append(f"row{axis} * {names.stride(k, axis)}")
        self.bases[k] = f"{names.operand(k)}_rows" if terms else names.pointer(k)
        if terms:
            offset, size = " + ".join(terms), operand.dtype.itemsize
            scaled = f"({offset}) * {size}" if size > 1 else offset
            self.code.append(f"{self.bases[k]} = {names.pointer(k)} + int64({scaled})")

    def _lines(self) -> str:
        """Vectors along the last row axis."""
        extent, width = self.scope.names.extent(self.kernel.row_axes - 1), self.schedule.width
        more = " + 1" if self.kernel.shifted else ""
        return f"((({extent} + {width - 1}) >> {width.bit_length() - 1}){more})" if width > 1 else extent

    def _vectors(self) -> str:
        outer = [self.scope.names.extent(axis) for axis in range(self.kernel.row_axes - 1)]
        return f"{self.index}({' * '.join([*outer, self._lines()])})"

    def _strips(self) -> str:
        shift, lanes = self.schedule.threads_x.bit_length() - 1, self.schedule.threads_x
        if self.kernel.shifted:
            return shifted_strips(self, self._vectors())
        if self.schedule.max_threads:
            return f"{self.index}(udiv({self.index}({self._vectors()} + block_dim_x() - 1), block_dim_x()))"
        return f"{self.index}(({self._vectors()} + {lanes - 1}) >> {shift})"

    def find_columns(self) -> None:
        plan, kernel = self.schedule, self.kernel
        axes = tuple(range(kernel.row_axes, kernel.axes))
        rows = kernel.row_operands
        self.multi_axis = MultiAxisIndex(self.scope, axes, 1, "column", "columns", self.bases)
        used = [k for k in range(len(kernel.operands)) if k not in rows and not self._is_plain(k)]
        self.multi_axis.define(used, plan.vectors, self.step)
        start = (
            f"{self.index}({self.index}(part * {self.threads_y_times(plan.vectors)}) + level)"
            if plan.is_split
            else f"{self.index}(level)"
        )
        self.code.append(f"start = {start}")
        if plan.resident:
            self.code.append("column = start")
            self.multi_axis.emit_offsets()
            return
        beyond = self.threads_y_times(plan.vectors - 1)  # from a thread's first vector to its last
        self.code.append(f"whole = {self.index}(columns - {beyond})" if plan.vectors > 1 else "whole = columns")
        if plan.is_split:
            self.code.append(f"stride = {self.index}({self.index}(parts) * {self.threads_y_times(plan.vectors)})")

    def _is_plain(self, k: int) -> bool:
        """Are the elements of this operand found without a walk: vectors across one column axis?"""
        return self.kernel.column_axes == 1 and self.letter(k)[0] == "1"

    def at_column(self, k: int) -> tuple[str, str, str]:
        """How the tiles of an operand are accessed: letter, place, and stride."""
        letter, stride = self.letter(k)
        if not self._is_plain(k):
            return letter, self.multi_axis.offset(k), stride
        across = "o" if self.kernel.operands[k].access == "shifted" else "c"
        return across, "column", f", {self.index}({self.scope.names.stride(k, self.kernel.axes - 1)})"

    def letter(self, k: int) -> tuple[str, str]:
        """How an operand is accessed along the kept axis, and the stride that this takes."""
        operand, along = self.kernel.operands[k], self.kernel.vector_axis
        letter = operand.strides[along]
        if letter == "1" and operand.access == "element" and self.schedule.width > 1:
            return "s", ", 1"
        return letter, f", {self.scope.names.stride(k, along)}" if letter == "s" else ""
