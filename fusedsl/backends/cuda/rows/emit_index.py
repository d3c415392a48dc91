"""Emits the index arithmetic of a row kernel: the row of a thread group, its columns, where it begins in operands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..emit.multi_axis_index import MultiAxisIndex
from ..emit.source_builder import SourceBuilder
from ..rows_and_columns import grid_dim
from ..scan import tile_row
from ..tile import (
    Tile,
    block_dim_x,
    block_dim_y,
    block_idx,
    divide,
    grid_barrier_reset,
    grid_barrier_wait,
    thread_idx,
    thread_idx_y,
    udiv,
)
from .schedule import LOOP_BLOCK, WARP, RowSchedule


@dataclass
class RowIndex:
    """Row and column indices of one row kernel."""

    src: SourceBuilder
    schedule: RowSchedule
    multi_axis: MultiAxisIndex | None = None
    bases: dict[int, str] = field(default_factory=dict)  # operand -> variable: where its row begins

    def __post_init__(self) -> None:
        self.kernel, self.index = self.src.kernel, self.src.kernel.index
        self.row = "row0" if self.kernel.row_axes == 1 else "row"  # the number of a row, by which its axes are found
        s, several = self.schedule, self.kernel.column_axes > 1  # of several axes, columns count vectors
        self.vector_step = s.threads * s.cluster if several else s.vector_stride
        self.stride = str(s.vectors * self.vector_step if several else s.tile_elements)  # of a loop
        # the start of a thread's last tile; a thread without one gets a position before its first
        self.last = f"start + (max(columns - 1 - start, 0) & -{self.stride})"

    @property
    def peeled(self) -> bool:
        """Whether rows may be misaligned, or are not a whole number of vectors long."""
        return any(operand.access == "peeled" for operand in self.kernel.operands)

    @property
    def has_several_rows(self) -> bool:
        """Whether a block has several rows, so that the last ones may not be there."""
        return self.schedule.rows > 1 or self.schedule.max_threads > 0

    @property
    def peeled_elements(self) -> int:
        """Elements that a thread takes of what comes before and after the aligned vectors of a row."""
        return self.schedule.peeled_elements

    @property
    def limit(self) -> str:
        """Where the vectors of a row end."""
        return "limit" if self.peeled_elements else "columns"

    @property
    def column(self) -> str:
        """Where a thread's tile begins: the row's if it is held, else that of an iteration."""
        return "start" if self.schedule.resident else "column"

    def find_block(self, blocks_per_row: str, groups: str = "") -> None:
        """Emit the row, or group of rows, that a block works on, and the block's number among those that share it."""
        self.src.assign("count", f"{self.index}({groups or self.count_rows()})")
        self.src.assign("blocks_per_row", blocks_per_row)
        self.src.assign("row_group", f"int32({udiv(block_idx(), 'blocks_per_row')})")
        self.src.assign("block_in_row", f"int32({block_idx()} - int32(row_group * blocks_per_row))")

    def full_tile(self) -> str:
        """The condition that all of a thread's tile in a loop is there."""
        s = self.schedule
        there = f"column + {(s.vectors - 1) * s.vector_stride + s.width} <= columns"
        return f"(column >= 0) & ({there})" if self.peeled else there

    # Tiles and threads.

    def shape(self, vectors: int) -> dict[str, Any]:
        """So many vectors of a thread, as Tile takes them: `step` is compiled where the number of threads is."""
        s = self.schedule
        return {"width": s.width, "vectors": vectors} | ({} if s.max_threads else {"step": self.vector_step})

    @property
    def exact(self) -> dict[str, Any]:
        """The end of what is read of rows with peeled ends: of 16-bit rows the end of the last aligned block."""
        short = any(o.access == "peeled" and o.dtype.itemsize == 2 for o in self.kernel.operands)
        return {"exact": False} if short else {}

    def checks(self) -> str:
        """What a tile checks of each vector."""
        s, split = self.schedule, self.peeled
        if not s.resident:
            return ("b" if split else "v") * s.vectors
        split = split and not s.peeled_elements and (s.width > 1 or not s.max_threads)
        checks = "." * s.full_vectors + ("t" if split else "v") * (s.vectors - s.full_vectors)
        return ("h" if s.full_vectors else "b") + checks[1:] if split else checks

    def thread_group(self) -> dict[str, Any]:
        """The threads of a row, as ThreadGroup takes them."""
        s = self.schedule
        if s.max_threads:
            return {"threads": WARP // 2 if s.max_threads <= LOOP_BLOCK else s.max_threads, "dynamic": True}
        if s.rows_across_lanes:
            return {"threads": s.threads, "rows_across": WARP}
        reductions = sum(len(phase.folds) for phase in self.kernel.phases)
        return {"threads": s.threads} | ({"cluster": s.cluster, "reductions": reductions} if s.cluster > 1 else {})

    # Rows.

    def count_rows(self) -> str:
        return " * ".join(self.src.names.extent(axis) for axis in range(self.kernel.row_axes))

    def find_row(self, number: str = "") -> None:
        """Emit the row of this thread, of this number or that of its group in the grid.

        Groups beyond the last row compute that row and store nothing.
        """
        src, s = self.src, self.schedule
        src.assign("rows", self.count_rows())
        block = tile_row("tile_index", "tiles") if s.decoupled_lookback else src.block
        block = number if number and s.rows_across_lanes else block
        if s.rows_across_lanes:
            src.assign("row_index", f"{block} * {s.rows} + ({thread_idx()} & {WARP - 1})")
        elif s.max_threads:
            src.assign("row_index", f"{block} * {block_dim_y()} + {thread_idx_y()}")
        elif s.rows > 1:
            src.assign("row_index", f"{block} * {s.rows} + ({thread_idx()} >> {s.threads.bit_length() - 1})")
        else:
            shifted = number or (f"{block} >> {s.cluster.bit_length() - 1}" if s.cluster > 1 else block)
            self.begin_row(shifted if self.row == "row0" else f"{self.index}({shifted})")
            return
        src.assign("in_bounds", "row_index < rows")
        self.begin_row(f"{self.index}(select(in_bounds, row_index, rows - 1))")

    def begin_row(self, number: str) -> None:
        """The row of this number, and where it begins in all operands."""
        self.src.assign(self.row, number)
        self.bases |= self.emit_bases(range(len(self.kernel.operands)))

    def emit_bases(self, operands: Iterable[int], suffix: str = "") -> dict[int, str]:
        """Where the row of this number begins in operands: lines that compute it, and by operand the variable."""
        names, axes, bases = self.src.names, self.kernel.row_axes, {}
        rest = f"row{suffix}"
        for axis in range(axes - 1, 0, -1):
            quotient = f"row0{suffix}" if axis == 1 else f"quotient{axis}"
            extent = names.extent(axis)
            self.src.assign(quotient, divide(rest, f"{self.index}({extent})", names.magic(axis)))
            self.src.assign(f"row{axis}{suffix}", f"{rest} - {quotient} * {extent}")
            rest = quotient
        for k in operands:
            operand = self.kernel.operands[k]
            strided = [axis for axis in range(axes) if operand.strides[axis] == "s"]
            terms = [f"row{axis}{suffix} * {names.stride(k, axis)}" for axis in strided]
            bases[k] = f"{names.operand(k)}_row{suffix}" if terms else names.pointer(k)
            if terms:
                offset = " + ".join(terms)
                offset = f"({offset})" if len(terms) > 1 and operand.dtype.itemsize > 1 else offset
                size = f" * {operand.dtype.itemsize}" if operand.dtype.itemsize > 1 else ""
                self.src.assign(bases[k], f"{names.pointer(k)} + {offset}{size}")
        return bases

    # Columns.

    def find_columns(self) -> None:
        """Emit the thread's number in its row, and where its first vector begins."""
        src, s, kernel = self.src, self.schedule, self.kernel
        thread = thread_idx()
        if s.rows_across_lanes:
            thread = f"int32({thread} >> {WARP.bit_length() - 1})"
        elif s.cluster > 1:
            thread = thread if s.rows == 1 else f"({thread} & {s.threads - 1})"
            thread = f"int32({thread} + ({block_idx()} & {s.cluster - 1}) * {s.threads})"
        elif s.rows > 1 and not s.max_threads:
            thread = f"int32({thread} & {s.threads - 1})"
        src.assign("thread_in_row", thread)
        if kernel.column_axes > 1:
            self._find_scattered_columns()
            return
        src.assign("columns", f"{self.index}({src.names.extent(kernel.axes - 1)})")
        anchor = next((k for k, o in enumerate(kernel.operands) if o.access == "peeled"), None)
        begin = f"thread_in_row * {s.thread_stride}" if s.thread_stride > 1 else "thread_in_row"
        if anchor is None or s.width == 1:
            src.assign("start", f"{self.index}({begin})")
            return
        size = kernel.operands[anchor].dtype.itemsize
        position = f"({self.bases[anchor]} >> {size.bit_length() - 1})" if size > 1 else self.bases[anchor]
        src.assign("skew", f"{position} & {s.width - 1}  # elements between the row's start and a vector's")
        if self.peeled_elements:
            self._find_peeled()
        else:
            src.assign("start", f"{self.index}({begin} - skew)")

    def _find_peeled(self) -> None:
        """Where a thread's whole vectors begin, where those of the row end, where its peeled elements are."""
        src, width, index, count = self.src, self.schedule.width, self.index, self.peeled_elements
        src.bind("edge_tile", Tile(width=1, vectors=count, checks="e" * count))
        src.assign("head", f"{index}(-skew & {width - 1})  # elements before the first whole vector")
        if not self.schedule.full_vectors:  # a row may end before its first whole vector
            src.assign("head", f"{index}(minimum(head, columns))")
        src.assign(
            "vector_columns", f"{index}((columns - head) & {-width})  # columns of whole vectors, behind the head"
        )
        src.assign("start", f"{index}(head + thread_in_row * {width})")
        src.assign("limit", f"{index}(head + vector_columns)")
        for k in range(count):
            number = f"(thread_in_row + {block_dim_x()} * {k})" if k else "thread_in_row"
            src.assign(f"edge_{k}", f"{index}(select({number} < head, {number}, {number} + vector_columns))")
        src.assign("edge", f"({', '.join(f'edge_{k}' for k in range(count))},)")

    def _find_scattered_columns(self) -> None:
        """Several column axes: vectors are numbered, and placed as a loop meets them, or at once if they are held."""
        kernel, rows = self.kernel, self.kernel.row_operands
        axes = tuple(range(kernel.row_axes, kernel.axes))
        self.multi_axis = MultiAxisIndex(self.src, axes, self.schedule.width, self.column, "columns", self.bases)
        used = [k for k in range(len(kernel.operands)) if k not in rows]
        self.multi_axis.define(used, self.schedule.vectors, {"step": self.vector_step})
        if any(operand.one_line for operand in kernel.operands):
            self.multi_axis.define_line(self.schedule.vectors, self.vector_step, self.checks())
        self.src.assign("start", f"{self.multi_axis.index}(thread_in_row)")
        if self.schedule.resident:
            self.multi_axis.emit_offsets()


@dataclass
class SharedRows:
    """Rows that resident blocks share, row after row: the blocks of a row wait for each other at grid barriers."""

    index: RowIndex
    counters: int  # semaphores of a row, of which the first two are those of its barrier

    @contextmanager
    def each(self) -> Iterator[None]:
        """The loop of a block over its rows; it waits for the others before the next one."""
        src, index = self.index.src, self.index.index
        self.index.find_block(f"int32(max({udiv(grid_dim(), 'int32(count)')}, 1))")
        src.assign("row_groups", f"int32({udiv(grid_dim(), 'blocks_per_row')})")
        src.assign("row_index", f"{index}(row_group)")
        src.assign("arrivals", "int32(0)")
        with src.while_("row_index < count"):
            self.index.find_row("row_index")
            self.index.find_columns()
            yield
            self.wait()
            src.assign("row_index", f"{index}(row_index + row_groups)")
        with src.if_("row_group < count"):
            src.emit(grid_barrier_reset("semaphores", self._first_counter, "blocks_per_row"))

    def wait(self) -> None:
        """Wait for the other blocks of the row."""
        self.index.src.assign("arrivals", "int32(arrivals + blocks_per_row)")
        self.index.src.emit(grid_barrier_wait("semaphores", self._first_counter, "arrivals"))

    @property
    def _first_counter(self) -> str:
        return f"row_group * {self.counters}"
