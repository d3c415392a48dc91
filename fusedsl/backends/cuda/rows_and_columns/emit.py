"""Emits a row-and-column reduction: a loop over rows, column states in registers, their combination over blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....ir.types import DType
from ....kernel_ir.kernel import ColumnEpilogue, RowColumnKernel
from ....kernel_ir.phase import Phase, Reduction
from ..emit.file_builder import signature
from ..emit.intrinsic import Named
from ..emit.phase_emitter import PhaseEmitter, ReductionIntrinsics
from ..emit.source_builder import TILE, SourceBuilder, header
from ..tile import (
    CpAsyncRing,
    Tile,
    TileIntrinsics,
    block_idx,
    commit_group,
    dynamic_smem_base,
    load_value,
    store_value,
    thread_idx,
    udiv,
    wait_group,
)
from . import RowGroups, RowGroupsIntrinsics, grid_barrier, grid_barrier_exit, grid_dim
from .emit_elements import RowColumnElements, reduction_key
from .schedule import LINE, RowColumnSchedule, smem_row_layout, state_layout

NEXT_ROW = "_next"  # suffix of names of the next row
PREFETCH_ROW = "_prefetch"  # suffix of names of the row that is prefetched
LINES = TileIntrinsics("state_tile")  # of states, padded to whole vectors
ROW_GROUPS = RowGroupsIntrinsics("row_groups")


def emit_rows_and_columns(kernel: RowColumnKernel, schedule: RowColumnSchedule) -> str:
    """The generated file of a kernel that folds rows and columns."""
    what = f"rows and columns; {schedule.threads} threads to a row, {schedule.row_groups} rows at a time in a block"
    src = SourceBuilder(kernel)
    PhaseEmitter(src, RowColumnLayout(src, schedule, kernel.column_epilogue)).emit()
    return src.text(
        header(kernel, what, ""), "Row groups loop over rows; then the blocks combine the states of columns."
    )


class RowColumnLayout:
    """Layout of blocks of several thread groups that loop over rows; each thread reduces its columns of all of them."""

    stores = stores_row = ""

    def __init__(self, src: SourceBuilder, schedule: RowColumnSchedule, epilogue: ColumnEpilogue):
        self.src, self.schedule, self.kernel, self.index = src, schedule, src.kernel, src.kernel.index
        self.elements, self.epilogue = RowColumnElements(src, schedule), epilogue
        self.reductions: dict[str, ReductionIntrinsics] = {}  # of rows
        self.has_folds = any(phase.folds for phase in self.kernel.phases)

    @contextmanager
    def rows(self, emitter: PhaseEmitter) -> Iterator[None]:
        src = self.src
        self._define()
        src.read_scalars()
        fixed = set(src.ready)  # the same for all rows and columns
        self._find_thread()
        for load in self.elements.once:
            self.elements.load_row(load)
        for use in self.kernel.column_reductions:
            src.assign(", ".join(_accumulators(use)), f"no_{reduction_key(use)}()")
        self._begin()
        with src.while_("row < rows"):
            self._begin_row()
            yield
            self._end_row()
        self._store_states()
        self._finish(emitter, fixed)

    def run_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """Columns are accumulated while the group is waiting for its reductions."""
        src = self.src
        self.elements.forget()
        self.elements.compute(emitter, number, phase)
        for use in phase.column_reductions:
            states = ", ".join(_accumulators(use))
            src.assign(states, f"accumulate_{reduction_key(use)}({states}, {', '.join(src.lifted(use))})")
        if phase.folds:
            states = ", ".join(self.elements.reduce(use, self.reductions[reduction_key(use)]) for use in phase.folds)
            names = [value.name for use in phase.folds for value in use.accumulators]
            src.assign(", ".join(names), f"all_reduce_{number}(parity, {states})")
            src.ready |= set(names)
        emitter.store_elements(number, phase)

    # Definitions.

    def _define(self) -> None:
        """Tiles, thread groups, copies and reductions."""
        s, src = self.schedule, self.src
        shape = {"width": s.width, "vectors": s.vectors, "step": s.vector_stride}
        src.bind("tile", Tile(**shape, checks="." * s.full_vectors + "v" * (s.vectors - s.full_vectors)))
        lines = Tile(**shape, checks="v" * s.vectors)
        src.top.append(f"{LINES} = {lines}  # of states, padded to whole vectors")
        src.bind("row_groups", RowGroups(threads=s.threads, groups=s.row_groups))
        begins, self.stage_bytes = smem_row_layout(s, self.kernel)
        for k, begin in zip(s.prefetched, begins):
            name, dtype = src.names.operand(k), self.kernel.operands[k].dtype.name
            ring = src.bind(f"ring_{name}", CpAsyncRing(TILE, dtype, begin=begin, threads=s.block_threads))
            src.bind(f"copy_async_{name}", ring.copy_async())
            src.bind(f"load_{name}", ring.load())
        if s.prefetched:
            src.bind("wait_stage", wait_group(s.stages - 2))
        for number, phase in enumerate(self.kernel.phases):
            for use in phase.folds:
                self.reductions[reduction_key(use)] = self.elements.define_reduction(use, reduction_key(use))
            if phase.folds:
                ops = [self.reductions[reduction_key(use)].op for use in phase.folds]
                src.bind(f"all_reduce_{number}", ROW_GROUPS.all_reduce(*ops), src.functions)
            for use in phase.column_reductions:
                self._define_column_reduction(use)
        ops = [Named(f"reduction_{reduction_key(use)}") for use in self.kernel.column_reductions]
        src.bind("all_blocks", ROW_GROUPS.reduce_blocks(*ops, at_once=s.loads_in_flight), src.functions)

    def _define_column_reduction(self, use: Reduction) -> None:
        """A state for each column of a tile: none, one row more, and those of a block together."""
        key, types, bind, functions = reduction_key(use), _dtypes(use), self.src.bind, self.src.functions
        op = self.elements.reduce_op(use)
        bind(f"no_{key}", TILE.elementwise(signature((), types))(f"identity_{key}"), functions)
        bind(f"accumulate_{key}", TILE.elementwise(signature(types + types, types))(f"combine_{key}"), functions)
        bind(f"reduce_block_{key}", ROW_GROUPS.reduce_block(TILE, op), functions)
        for value in use.accumulators:
            bind(f"store_partial_{value.name}", LINES.store(value.dtype.name), functions)

    # The loop over rows.

    def _find_thread(self) -> None:
        """Where a thread stands in its block, and in the first row of its group."""
        s, src, kernel, index = self.schedule, self.src, self.kernel, self.index
        src.assign("rows", f"{index}({' * '.join(src.names.extent(axis) for axis in range(kernel.row_axes))})")
        src.assign("columns", f"{index}({src.names.extent(kernel.axes - 1)})")
        src.assign("row_group", udiv(thread_idx(), s.threads) if s.row_groups > 1 else "int32(0)")
        src.assign("thread_in_row", f"int32({thread_idx()} - row_group * {s.threads})")
        src.assign("start", f"{index}(thread_in_row * {s.width})" if s.width > 1 else f"{index}(thread_in_row)")
        src.assign("stride", f"{index}({grid_dim()} * {s.row_groups})")
        src.assign("row", f"{index}(row_group * {grid_dim()} + {block_idx()})")
        for k, operand in enumerate(kernel.operands):
            if set(operand.strides[: kernel.row_axes]) <= {"0"}:
                self.elements.bases[k] = src.names.pointer(k)

    def _begin(self) -> None:
        """Begin the copies of the first rows, and load what the first row has in registers."""
        s, src = self.schedule, self.src
        if s.prefetched:
            src.assign("first_stage", dynamic_smem_base())
            for stage in range(s.stages - 1):
                src.assign("prefetch_row", f"{self.index}(row + {stage} * stride)" if stage else "row")
                self._prefetch(f"int32(first_stage + {stage * self.stage_bytes})" if stage else "first_stage")
            src.assign("stage", "first_stage")
            src.assign("write_stage", f"int32(first_stage + {(s.stages - 1) * self.stage_bytes})")
        if self.elements.carried:
            src.assign("next_row", f"{self.index}(select(row < rows, row, 0))")
            self._carry()
        if self.has_folds:
            src.assign("parity", "int32(0)")

    def _prefetch(self, stage: str) -> None:
        """Begin the copies of row `prefetch_row` into a stage, as one group."""
        operands = list(dict.fromkeys(load.operand for load in self.elements.prefetched))
        with self.src.if_("prefetch_row < rows"):
            self.elements.find_row("prefetch_row", PREFETCH_ROW, operands)
            for k in operands:
                base = self.elements.base(k, PREFETCH_ROW)
                self.src.emit(f"copy_async_{self.src.names.operand(k)}({base}, start, columns, {stage})")
        self.src.emit(commit_group())

    def _carry(self) -> None:
        """Load what row `next_row` has in registers."""
        self.elements.find_row("next_row", NEXT_ROW, [load.operand for load in self.elements.carried])
        for load in self.elements.carried:
            self.elements.load_row(load, NEXT_ROW)

    def _begin_row(self) -> None:
        s, src = self.schedule, self.src
        if s.prefetched:
            src.emit("wait_stage()")
            src.assign("prefetch_row", f"{self.index}(row + {s.stages - 1} * stride)")
            self._prefetch("write_stage")
        stores = [store.operand for phase in self.kernel.phases for store in phase.stores + phase.row_stores]
        self.elements.find_row("row", "", list(dict.fromkeys(stores)))
        src.assign("following_row", f"{self.index}(row + stride)")
        if self.elements.carried:
            for load in self.elements.carried:
                src.assign(load.value.name, f"{load.value.name}{NEXT_ROW}")
            src.assign("next_row", f"{self.index}(select(following_row < rows, following_row, row))")
            self._carry()

    def _end_row(self) -> None:
        s, src = self.schedule, self.src
        if self.has_folds:
            src.assign("parity", "int32(1 - parity)")
        if s.prefetched:
            last = f"first_stage + {(s.stages - 1) * self.stage_bytes}"
            src.assign("write_stage", "stage")
            src.assign("stage", f"int32(select(stage == {last}, first_stage, stage + {self.stage_bytes}))")
        src.assign("row", "following_row")

    # Columns.

    def _store_states(self) -> None:
        """A line of states from each block, in the workspace; then wait for all blocks."""
        src, lines, offset = self.src, [], 0
        for use in self.kernel.column_reductions:
            states = ", ".join(_accumulators(use))
            src.assign(states, f"reduce_block_{reduction_key(use)}({states})")
        src.assign("padded_columns", f"int64((columns + {LINE - 1}) // {LINE} * {LINE})")
        for name, dtype in state_layout(self.kernel):
            skipped = f" + int64({grid_dim()}) * padded_columns * {offset}" if offset else ""
            src.assign(f"{name}_partials", f"workspace{skipped}")
            own = f"{name}_partials + int64({block_idx()}) * padded_columns * {dtype.itemsize}"
            lines.append(f"store_partial_{name}({own}, start, {name}_accumulator, start, {self.index}(padded_columns))")
            offset += dtype.itemsize
        with src.if_("row_group == 0"):
            src.emit(*lines)
        src.emit(grid_barrier("semaphores", grid_dim()))

    def _finish(self, emitter: PhaseEmitter, fixed: set[str]) -> None:
        """Each block takes strips of columns, merges what all blocks left, and stores the results."""
        src, states = self.src, [value.name for use in self.kernel.column_reductions for value in use.accumulators]
        lines = ", ".join(f"{name}_partials" for name in states)
        src.assign("strip", f"{self.index}({block_idx()} * {LINE})")
        with src.while_("strip < columns"):
            src.assign(", ".join(states), f"all_blocks({lines}, int32(strip), padded_columns, {grid_dim()})")
            src.assign("in_bounds", f"({thread_idx()} < {LINE}) & (strip + {thread_idx()} < columns)")
            src.assign("column", f"{self.index}(select(in_bounds, strip + {thread_idx()}, 0))")
            src.ready = {*fixed, *states}
            self._column_epilogue(emitter)
            src.assign("strip", f"{self.index}(strip + {grid_dim()} * {LINE})")
        src.emit(grid_barrier_exit("semaphores", grid_dim()))

    def _column_epilogue(self, emitter: PhaseEmitter) -> None:
        """The results of a column from its states."""
        src, epilogue = self.src, self.epilogue
        for value in epilogue.body.args if epilogue.body else ():
            load = next((x for x in self.kernel.loads if x.value.name == value.name), None)
            if load is not None:
                read = src.bind(f"read_{value.name}", load_value(self.kernel.operands[load.operand].dtype.name))
                src.assign(value.name, read(self._column_address(load.operand)))
            elif any(p.value.name == value.name for p in self.kernel.positions):
                src.assign(value.name, f"{value.dtype.name}(column)")
            src.ready.add(value.name)
        if epilogue.body:
            emitter.row_body("finish", epilogue.body)
        for k, store in enumerate(epilogue.stores):
            write = src.bind(f"store_column_{k}", store_value(self.kernel.operands[store.operand].dtype.name))
            src.emit(write(self._column_address(store.operand), store.value, "in_bounds"))

    def _column_address(self, k: int) -> str:
        """The address of a column's element."""
        kind, stride = self.src.access(k, 1)
        scaled = "".join(f" * {factor}" for factor in stride)
        pointer, size = self.src.names.pointer(k), self.kernel.operands[k].dtype.itemsize
        return pointer if kind == "0" else f"{pointer} + int64(column){scaled} * {size}"


def _dtypes(use: Reduction) -> list[DType]:
    return [value.dtype for value in use.accumulators]


def _accumulators(use: Reduction) -> list[str]:
    """The variables that accumulate over rows: a tile for each part of a state."""
    return [f"{value.name}_accumulator" for value in use.accumulators]
