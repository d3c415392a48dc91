"""Emits the index arithmetic of a column kernel: tiles, the strip of a block, the columns of a thread.

Shifted vectors: if the rows of an array are no whole number of vectors long, each begins at another offset in 16 bytes;
those of every so many columns begin alike: as many as a vector has elements, or fewer. So threads_y is a multiple of
that, each level loads the aligned vectors around its rows, and after the loop each thread takes the first few states of
the next one. The last thread of a block, and one more vector in each row, exist for their neighbours only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....kernel_ir.kernel import Operand
from ..emit.multi_axis_index import MultiAxisIndex
from ..emit.source_builder import SourceBuilder
from ..rows_and_columns import grid_dim
from ..tile import Tile, TileIntrinsics, block_dim_x, block_dim_y, divide, thread_idx, thread_idx_y, udiv
from .layout import ColumnSchedule


@dataclass
class ColumnIndex:
    """Row and column indices of one column kernel."""

    src: SourceBuilder
    schedule: ColumnSchedule
    bases: dict[int, str] = field(default_factory=dict)  # operand -> variable with the address of a thread's rows
    multi_axis: MultiAxisIndex = field(init=False)

    def __post_init__(self) -> None:
        self.kernel, self.index, self.names = self.src.kernel, self.src.kernel.index, self.src.names
        dynamic, x = self.schedule.max_threads, self.schedule.threads_x
        # the lane of a thread, and how many there are
        self.thread_x = thread_idx() if dynamic else f"int32({thread_idx()} & {x - 1})"
        self.threads_x = block_dim_x() if dynamic else f"int32({x})"
        # how the vectors of a thread are apart, as Tile takes it
        self.step: dict[str, Any] = {"along_y": True} if dynamic else {"step": self.schedule.threads_y}

    def threads_y_times(self, times: int) -> str:
        """So many times the levels of a block."""
        return f"{block_dim_y()} * {times}" if self.schedule.max_threads else str(self.schedule.threads_y * times)

    def define_tile(self, name: str, checks: str) -> TileIntrinsics:
        """A tile whose vectors lie across the columns."""
        s = self.schedule
        return self.src.bind(name, Tile(width=s.width, vectors=s.vectors, **self.step, checks=checks))

    # Rows.

    def find_rows(self) -> None:
        """The vector of rows of this thread; lanes beyond the last work on that one, and store nothing."""
        src, s, names, kernel, index = self.src, self.schedule, self.names, self.kernel, self.index
        if s.is_split:
            src.assign("strips", self._strips())
            src.assign("splits", udiv(grid_dim(), "int32(strips)"))
            src.assign("strip_index", udiv(src.block, "splits"))
            src.assign("split", f"int32({src.block} - int32(strip_index * splits))")
        else:
            src.assign("strip_index", src.block)
        level = thread_idx_y() if s.max_threads else f"int32({thread_idx()} >> {s.threads_x.bit_length() - 1})"
        src.assign("thread_y", level)
        src.assign("vectors", self._vectors())
        row_step = f"({self.threads_x} - 1)" if kernel.shifted else self.threads_x
        src.assign("vector", f"{index}({index}({index}(strip_index) * {row_step}) + {self.thread_x})")
        src.assign("in_bounds", "vector < vectors")
        src.assign("clamped_vector", f"{index}(select(in_bounds, vector, {index}(vectors - 1)))")
        rest, last = "clamped_vector", kernel.row_axes - 1
        for axis in range(last, 0, -1):
            size = f"{index}({self._lines() if axis == last else names.extent(axis)})"
            quotient = "row0" if axis == 1 else f"quotient{axis}"
            src.assign(quotient, divide(rest, size, names.magic(axis)))
            src.assign(f"row{axis}", f"{index}({rest} - {index}({quotient} * {size}))")
            rest = quotient
        if last == 0:
            src.assign("row0", "clamped_vector")
        if s.width > 1:
            src.assign(f"row{last}", f"{index}(row{last} * {s.width})")
        for k, operand in enumerate(kernel.operands):
            self._find_base(k, operand)
        if kernel.shifted:
            self._find_shift()
        elif self.has_partial_vectors:
            src.assign("left", f"int32(select(in_bounds, min({self.last_extent} - {self.last_row}, {s.width}), 0))")

    @property
    def row_bounds(self) -> tuple[str, str]:
        """Where the rows of a thread begin and end, as they are loaded and stored."""
        return ("int32(0)", "left" if self.has_partial_vectors else "int32(1)")

    @property
    def has_partial_vectors(self) -> bool:
        """Whether a vector of rows may be there in part: a shifted one, and one of pairs, of any number of rows."""
        return self.kernel.shifted or (self.kernel.is_pairwise and self.schedule.width > 1)

    def _find_base(self, k: int, operand: Operand) -> None:
        names, terms = self.names, []
        if operand.base >= 0:
            self.bases[k] = self.bases[operand.base]
            return
        for axis in range(self.kernel.row_axes):
            if operand.strides[axis] == "1":
                terms.append(f"row{axis}")
            elif operand.strides[axis] == "s":
                terms.append(f"row{axis} * {names.stride(k, axis)}")
        self.bases[k] = f"{names.operand(k)}_rows" if terms else names.pointer(k)
        if terms:
            offset, size = " + ".join(terms), operand.dtype.itemsize
            scaled = f"({offset}) * {size}" if size > 1 else offset
            self.src.assign(self.bases[k], f"{names.pointer(k)} + int64({scaled})")

    def _lines(self) -> str:
        """Vectors along the last row axis."""
        extent, width = self.names.extent(self.kernel.row_axes - 1), self.schedule.width
        more = " + 1" if self.kernel.shifted else ""
        return f"((({extent} + {width - 1}) >> {width.bit_length() - 1}){more})" if width > 1 else extent

    def _vectors(self) -> str:
        outer = [self.names.extent(axis) for axis in range(self.kernel.row_axes - 1)]
        return f"{self.index}({' * '.join([*outer, self._lines()])})"

    def _strips(self) -> str:
        s, index, vectors, x = self.schedule, self.index, self._vectors(), self.threads_x
        if self.kernel.shifted:  # the last lane of a strip only loads for its neighbour
            return f"{index}({udiv(f'{index}({vectors} + {x} - 2)', f'{x} - 1')})"
        if s.max_threads:
            return f"{index}({udiv(f'{index}({vectors} + {x} - 1)', x)})"
        return f"{index}(({vectors} + {s.threads_x - 1}) >> {s.threads_x.bit_length() - 1})"

    # Shifted vectors.

    def _find_shift(self) -> None:
        """Begin with the aligned vector that holds a thread's first row, or the one before if nothing of it exists."""
        src, width = self.src, self.schedule.width
        (k,) = (k for k, operand in enumerate(self.kernel.operands) if operand.access == "shifted")
        size, row, extent, base = self.kernel.operands[k].dtype.itemsize, self.last_row, self.last_extent, self.bases[k]
        column = f"int64(thread_y) * {self.names.stride(k, self.kernel.axes - 1)} * {size}"
        src.assign("in_bounds", f"in_bounds & ({self.thread_x} < {self.threads_x} - 1) & ({row} < {extent})")
        src.assign("left", f"int32(select(in_bounds, min({extent} - {row}, {width}), 0))")
        src.assign("shift", f"int32((({base} + {column}) & {size * width - 1}) >> {size.bit_length() - 1})")
        src.assign("beyond", f"{row} - shift >= {extent}")
        src.assign(base, f"{base} - int64(select(beyond, shift + {width}, shift) * {size})")

    @property
    def last_row(self) -> str:
        """A thread's index on the last row axis."""
        return f"row{self.kernel.row_axes - 1}"

    @property
    def last_extent(self) -> str:
        return self.names.extent(self.kernel.row_axes - 1)

    # Columns.

    def find_columns(self) -> None:
        s, src, kernel, index = self.schedule, self.src, self.kernel, self.index
        axes, rows = tuple(range(kernel.row_axes, kernel.axes)), kernel.row_operands
        self.multi_axis = MultiAxisIndex(src, axes, 1, "column", "columns", self.bases)
        own = [k for k, operand in enumerate(kernel.operands) if k not in rows and operand.base < 0]
        used = [k for k in own if not self._is_plain(k)]
        self.multi_axis.define(used, s.vectors, self.step)
        first = f"{index}(split * {self.threads_y_times(s.vectors)}) + thread_y" if s.is_split else "thread_y"
        src.assign("start", f"{index}({first})")
        if s.resident:
            src.assign("column", "start")
            self.multi_axis.emit_offsets()
            return
        beyond = self.threads_y_times(s.vectors - 1)  # from a thread's first vector to its last
        src.assign("full_end", f"{index}(columns - {beyond})" if s.vectors > 1 else "columns")
        if s.is_split:
            src.assign("stride", f"{index}({index}(splits) * {self.threads_y_times(s.vectors)})")

    def next_column(self) -> None:
        s = self.schedule
        self.src.assign("column", f"{self.index}(column + {'stride' if s.is_split else s.tile_reduced})")

    def _is_plain(self, k: int) -> bool:
        """Are the elements of this operand found without a walk: vectors across one column axis?"""
        return self.kernel.column_axes == 1 and self.row_access(k)[0] == "1"

    def access(self, k: int) -> tuple[str, str, list[str]]:
        """How the tiles of an operand are accessed: the stride's kind, where, and a further argument."""
        k = self._base_of(k)
        kind, stride = self.row_access(k)
        if not self._is_plain(k):
            return kind, self.multi_axis.offset(k), stride
        across = "o" if self.kernel.operands[k].access == "shifted" else "c"
        return across, "column", [f"{self.index}({self.names.stride(k, self.kernel.axes - 1)})"]

    def row_access(self, k: int) -> tuple[str, list[str]]:
        """How an operand is accessed along the rows of a thread."""
        return self.src.access(self._base_of(k), self.schedule.width, self.kernel.vector_axis)

    def displacement(self, k: int) -> tuple[int, ...]:
        """Bytes from the operand whose addresses this one's follow, and the alignment there: further constants of its
        loads, where there are any."""
        operand = self.kernel.operands[k]
        if operand.alignment:
            return operand.displacement * operand.dtype.itemsize, operand.alignment
        return (operand.displacement * operand.dtype.itemsize,) if operand.base >= 0 else ()

    def _base_of(self, k: int) -> int:
        """The operand whose addresses those of this one follow, or itself."""
        return k if self.kernel.operands[k].base < 0 else self.kernel.operands[k].base
