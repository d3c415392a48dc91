"""Emits the index arithmetic of a row kernel: tiles, the row of a thread, its columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ....kernel_ir.phase import Phase
from ..emit.multi_axis_index import MultiAxisIndex
from ..emit.source_text import KernelEmitter, indented
from .emit_prefetch import prefetched_of
from .emit_unaligned import emit_peeled_index
from .schedule import LOOP_BLOCK, WARP, RowSchedule


@dataclass
class RowIndexEmitter(KernelEmitter):
    """Emitter of row and column indices, for one row kernel."""

    schedule: RowSchedule
    multi_axis: MultiAxisIndex | None = None
    bases: dict[int, str] = field(default_factory=dict)  # operand -> variable: where its row begins
    full: bool = False  # the tile that is worked on needs no checks
    peeled: set[str] = field(default_factory=set)  # names that have a value at the edges

    @property
    def tile(self) -> str:
        """The tile that is worked on: one that is checked, or one that is there as a whole."""
        return "whole" if self.full else "tile"

    @property
    def prefix(self) -> str:
        """Of the names of what depends on that."""
        return "whole_" if self.full else ""

    @property
    def limit(self) -> str:
        """Where the vectors of a row end."""
        return "limit" if self.peeled_elements else "columns"

    @property
    def peeled_elements(self) -> int:
        """Elements that a thread takes of what comes before and after the aligned vectors of a row."""
        return self.schedule.peeled_elements

    def _define_tile(self) -> None:
        plan = self.schedule
        split = any(operand.access == "peeled" for operand in self.kernel.operands)
        if not plan.resident:
            checks = ("b" if split else "v") * plan.vectors
        else:
            checks = self.checks()
        top = self.scope.top
        shape = f"width={plan.width}, vectors={plan.vectors}{self.stride_argument}"
        top.append(f'tile = Tile({shape}, checks="{checks}"{self.exact_reads})')
        if self.has_full_tiles:
            top.append(f'whole = Tile({shape}, checks="{"." * plan.vectors}")')
        top.append(f"thread_group = ThreadGroup({self._team()})")

    @property
    def stride_argument(self) -> str:
        """How far the vectors of a thread are apart, if that is compiled."""
        plan = self.schedule
        return (
            "" if plan.max_threads else f", step={plan.threads if self.kernel.column_axes > 1 else plan.vector_stride}"
        )

    @property
    def has_several_rows(self) -> bool:
        """Whether a block has several rows, so that the last ones may not be there."""
        return self.schedule.rows > 1 or self.schedule.max_threads > 0

    def _team(self) -> str:
        """The threads of a row."""
        plan = self.schedule
        if plan.max_threads:
            return f"threads={WARP // 2 if plan.max_threads <= LOOP_BLOCK else plan.max_threads}, dynamic=True"
        meetings = sum(len(phase.folds) for phase in self.kernel.phases)
        cluster = f", cluster={plan.cluster}, reductions={meetings}" if plan.cluster > 1 else ""
        return f"threads={plan.threads}{f', rows_across={WARP}' if plan.rows_across_lanes else cluster}"

    @property
    def exact_reads(self) -> str:
        """How far rows that are split at their ends are read: 16-bit rows to the end of the last aligned block."""
        split = [operand for operand in self.kernel.operands if operand.access == "peeled"]
        return ", exact=False" if any(operand.dtype.itemsize == 2 for operand in split) else ""

    def checks(self) -> str:
        """What a resident row checks of each vector (see Tile)."""
        plan, split = self.schedule, any(operand.access == "peeled" for operand in self.kernel.operands)
        split = split and not plan.peeled_elements and (plan.width > 1 or not plan.max_threads)
        found = "." * plan.full_vectors + ("t" if split else "v") * (plan.vectors - plan.full_vectors)
        return ("h" if plan.full_vectors else "b") + found[1:] if split else found

    @property
    def has_full_tiles(self) -> bool:
        """True if a loop body is emitted twice: unchecked for full tiles, checked for others."""
        plan = self.schedule
        return plan.smem or (not plan.resident and any(map(self._streams, self.kernel.phases)))

    def _streams(self, phase: Phase) -> bool:
        """True if a loop prefetches its next tile: one column axis, independent iterations."""
        plain = not (
            phase.scans
            or phase.select
            or phase.ranks
            or self.schedule.decoupled_lookback
            or self.schedule.rows_across_lanes
        )
        return self.kernel.column_axes == 1 and plain and bool(prefetched_of(self.kernel, phase))

    def tile_stride(self) -> str:
        """Step of a loop: elements, or vectors if they are numbered over several axes."""
        return str(self.schedule.vectors * self.schedule.threads if self.multi_axis else self.schedule.tile_elements)

    def last(self) -> str:
        """Start of a thread's last tile; a thread without one gets a position before its first."""
        return f"start + (max(columns - 1 - start, 0) & -{self.tile_stride()})"

    def _find_row(self) -> None:
        """Emit the row of this thread; groups beyond the last row compute that row and store nothing."""
        plan, names, axes = self.schedule, self.scope.names, self.kernel.row_axes
        rows = " * ".join(names.extent(axis) for axis in range(axes))
        self.code.append(f"rows = {rows}")
        index = self.kernel.index
        team, block = f"(thread_idx() >> {plan.threads.bit_length() - 1})", self.scope.block
        block = "tile_row(number, tiles)" if plan.decoupled_lookback else block
        if plan.rows_across_lanes:
            self.code.append(f"number = {block} * {plan.rows} + (thread_idx() & {WARP - 1})")
        elif plan.max_threads:
            self.code.append(f"number = {block} * block_dim_y() + thread_idx_y()")
        elif plan.rows > 1:
            self.code.append(f"number = {block} * {plan.rows} + {team}")
        else:
            self.code.append(f"row0 = {self._place()}" if axes == 1 else f"row = {index}({self._place()})")
        if self.has_several_rows:
            self.code.append("in_bounds = number < rows")
            self.code.append(f"{'row0' if axes == 1 else 'row'} = {index}(select(in_bounds, number, rows - 1))")
        self.bases |= self.emit_row_bases(range(len(self.kernel.operands)))

    def emit_row_bases(self, operands: Iterable[int], suffix: str = "") -> dict[int, str]:
        """Where the row of this number begins in operands: lines that compute it, and by operand the variable."""
        names, axes, found = self.scope.names, self.kernel.row_axes, {}
        rest = f"row{suffix}"
        for axis in range(axes - 1, 0, -1):
            size = f"{self.kernel.index}({names.extent(axis)})"
            quotient = f"row0{suffix}" if axis == 1 else f"quotient{axis}"
            self.code.append(f"{quotient} = divide({rest}, {size}, {names.magic(axis)})")
            self.code.append(f"row{axis}{suffix} = {rest} - {quotient} * {names.extent(axis)}")
            rest = quotient
        for k in operands:
            operand = self.kernel.operands[k]
            strided = [axis for axis in range(axes) if operand.strides[axis] == "s"]
            terms = [f"row{axis}{suffix} * {names.stride(k, axis)}" for axis in strided]
            found[k] = f"{names.operand(k)}_row{suffix}" if terms else names.pointer(k)
            if terms:
                offset = " + ".join(terms)
                offset = f"({offset})" if len(terms) > 1 and operand.dtype.itemsize > 1 else offset
                size = f" * {operand.dtype.itemsize}" if operand.dtype.itemsize > 1 else ""
                self.code.append(f"{found[k]} = {names.pointer(k)} + {offset}{size}")
        return found

    def _place(self) -> str:
        """The number of the row, where a block has one."""
        if self.schedule.decoupled_lookback:
            return "tile_row(number, tiles)"
        cluster = self.schedule.cluster.bit_length() - 1
        return f"{self.scope.block} >> {cluster}" if cluster else self.scope.block

    def _find_columns(self) -> None:
        plan, kernel, names = self.schedule, self.kernel, self.scope.names
        if plan.rows_across_lanes:
            lane = f"(thread_idx() >> {WARP.bit_length() - 1})"
        elif plan.cluster > 1:
            thread = "thread_idx()" if plan.rows == 1 else f"(thread_idx() & {plan.threads - 1})"
            lane = f"({thread} + (block_idx() & {plan.cluster - 1}) * {plan.threads})"
        elif plan.rows > 1 and not plan.max_threads:
            lane = f"(thread_idx() & {plan.threads - 1})"
        else:
            lane = "thread_idx()"
        self.code.append(f"thread_in_row = int32{lane}" if lane.startswith("(") else f"thread_in_row = {lane}")
        if kernel.column_axes > 1:
            self._find_scattered_columns()
            return
        index = kernel.index
        self.code.append(f"columns = {index}({names.extent(kernel.axes - 1)})")
        anchor = next((k for k, o in enumerate(kernel.operands) if o.access == "peeled"), None)
        begin = f"thread_in_row * {plan.thread_stride}" if plan.thread_stride > 1 else "thread_in_row"
        if anchor is None or plan.width == 1:
            self.code.append(f"start = {index}({begin})")
            return
        size = kernel.operands[anchor].dtype.itemsize
        position = f"({self.bases[anchor]} >> {size.bit_length() - 1})" if size > 1 else self.bases[anchor]
        self.code.append(f"skew = {position} & {plan.width - 1}  # elements between the row's start and a vector's")
        if self.peeled_elements:
            emit_peeled_index(self)
            return
        self.code.append(f"start = {index}({begin} - skew)")

    def _find_scattered_columns(self) -> None:
        """Several column axes: vectors are numbered, and placed as the loop meets them."""
        kernel, rows = self.kernel, self.kernel.row_operands
        axes = tuple(range(kernel.row_axes, kernel.axes))
        self.multi_axis = MultiAxisIndex(self.scope, axes, self.schedule.width, "column", "columns", self.bases)
        used = [k for k in range(len(kernel.operands)) if k not in rows]
        self.multi_axis.define(used, self.schedule.vectors, f"step={self.schedule.threads}")
        self.code.append(f"start = {self.multi_axis.index}(thread_in_row)")

    def _first(self) -> str:
        """Condition under which this thread stores row values."""
        return "(thread_in_row == 0) & in_bounds" if self.has_several_rows else "thread_in_row == 0"

    def if_in_bounds(self, lines: list[str]) -> list[str]:
        """The lines, under a condition if some groups have no row."""
        return ["if in_bounds:", *indented(lines)] if lines and self.has_several_rows else lines
