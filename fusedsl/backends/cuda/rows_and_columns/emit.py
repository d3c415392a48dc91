"""Emits a mixed reduction: a loop over rows, column states in registers, then their combination over blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ....ir.types import DType
from ....kernel_ir.kernel import ColumnEpilogue, Load, MixedReductionKernel, Position
from ....kernel_ir.phase import Phase, Reduction, Store
from ..emit.intrinsic import Named
from ..emit.phase_emitter import UNDEFINED, PhaseEmitter, ReductionIntrinsics
from ..emit.source_text import TILE, SourceBuilder, header, signature
from ..peephole import rewritten
from ..tile import (
    CpAsyncRing,
    Tile,
    TileIntrinsics,
    block_idx,
    commit_group,
    divide,
    dynamic_smem_base,
    load_value,
    reduce_tile,
    reduction,
    store_value,
    thread_idx,
    udiv,
    uniform,
    wait_group,
)
from . import RowGroups, RowGroupsIntrinsics, grid_barrier, grid_barrier_exit, grid_dim
from .schedule import LINE, MixedReductionSchedule, smem_row_layout, state_layout

NEXT_ROW = "_next"  # suffix of what belongs to the row after this one
PREFETCH_ROW = "_far"  # … and to the row whose copies are begun
LINES = TileIntrinsics("lines")  # of states, padded to whole vectors
ROW_GROUPS = RowGroupsIntrinsics("row_groups")


def emit_rows_and_columns(kernel: MixedReductionKernel, schedule: MixedReductionSchedule) -> str:
    """The generated file of a kernel that folds rows and columns."""
    what = f"rows and columns; {schedule.threads} threads to a row, {schedule.row_groups} rows at a time in a block"
    src = SourceBuilder(kernel)
    PhaseEmitter(src, MixedRows(src, schedule, kernel.column_epilogue)).emit()
    return src.text(header(kernel, what, ""), "Walk over the rows, then join what the columns came to.")


@dataclass
class MixedElements:
    """The elements of a row that a thread holds: loaded once for all rows, prefetched, carried, or loaded anew."""

    src: SourceBuilder
    schedule: MixedReductionSchedule
    bases: dict[int, str] = field(default_factory=dict)  # operand -> variable: where its line begins
    once: list[Load] = field(default_factory=list)  # for all rows
    prefetched: list[Load] = field(default_factory=list)  # through shared memory
    carried: list[Load] = field(default_factory=list)  # loaded into registers while the row before is worked on
    anew: list[Load] = field(default_factory=list)  # in each phase

    row_function = uniform

    def __post_init__(self) -> None:
        self.kernel, self.index = self.src.kernel, self.src.kernel.index
        read = {v.name for phase in self.kernel.phases for v in phase.element.args}
        read |= {v.name for phase in self.kernel.phases if phase.row for v in phase.row.args}
        read |= {store.value for phase in self.kernel.phases for store in phase.row_stores}
        s, rows = self.schedule, self.kernel.row_operands
        for load in (load for load in self.kernel.loads if load.value.name in read):
            still = set(self.kernel.operands[load.operand].strides[: self.kernel.row_axes]) <= {"0"}
            if load.operand in s.prefetched:
                self.prefetched.append(load)
            elif still and (load.operand in s.hoisted or load.operand in rows):
                self.once.append(load)
            else:
                (self.anew if still else self.carried).append(load)

    def base(self, k: int, suffix: str = "") -> str:
        return self.bases[k] if self.bases[k] == self.src.names.pointer(k) else self.bases[k] + suffix

    def forget(self) -> None:
        """What stands in shared memory is read again in each phase rather than held in registers."""
        for load in self.prefetched + self.anew:
            self.src.ready.discard(load.value.name)
            self.src.wide.pop(load.value.name, None)

    def load(self, load: Load) -> None:
        if load in self.prefetched:
            self.src.stored[load.value.name] = self.kernel.operands[load.operand].dtype
            self.src.assign(load.value.name, f"load_{self.src.names.operand(load.operand)}(stage)")
        else:
            self.load_row(load)

    def load_row(self, load: Load, suffix: str = "") -> None:
        """A tile, or one value of a row, into registers."""
        src, name, k = self.src, load.value.name, load.operand
        dtype = self.kernel.operands[k].dtype
        src.ready.add(name)
        if k in self.kernel.row_operands:
            call = src.bind(f"load_{name}", load_value(dtype.name))(self.base(k, suffix))
        else:
            src.stored[name] = dtype
            kind, stride = src.access(k, self.schedule.width)
            read = src.bind(f"load_{name}", TILE.load(dtype.name, kind))
            call = read(self.base(k, suffix), "start", "columns", *stride)
        src.assign(f"{name}{suffix}", call)

    def position(self, position: Position) -> None:
        name, kind = position.value.name, position.value.dtype.name
        if position.axis < self.kernel.row_axes:
            self.src.assign(name, f"{kind}(row{position.axis})")
        else:
            self.src.assign(name, self.src.bind(f"at_{name}", TILE.positions(kind))("start"))

    def store(self, name: str, store: Store, value: str) -> str:
        kind, stride = self.src.access(store.operand, self.schedule.width)
        write = self.src.bind(name, TILE.store(self.kernel.operands[store.operand].dtype.name, kind))
        return write(self.base(store.operand), "start", value, "start", "columns", *stride)

    def store_row(self, name: str, store: Store) -> str:
        write = self.src.bind(name, store_value(self.kernel.operands[store.operand].dtype.name))
        return write(self.base(store.operand), store.value, "thread_in_row == 0")

    def compute(self, emitter: PhaseEmitter, number: int | str, phase: Phase) -> None:
        for value in phase.element.args:
            emitter.provide(value)
        self.src.map_body(f"phase_{number}", rewritten(self.kernel, phase))

    def define_reduction(self, use: Reduction, name: str) -> ReductionIntrinsics:
        """A reduction of rows."""
        src, op = self.src, self.reduce_op(use)
        reduce = src.bind(f"reduce_{name}", reduce_tile(TILE, op), src.functions)
        return ReductionIntrinsics(name, op, {"tile": reduce}, UNDEFINED)

    def reduce_op(self, use: Reduction) -> Named:
        """The combine and the identity as scalar functions, and the ReduceOp made of them."""
        src, merge, key = self.src, use.combine, _key(use)
        lines = [*merge.lines, f"return {', '.join(v.name for v in merge.results)}"]
        combine = src.function("", f"combine_{key}", (v.name for v in merge.args), lines)
        identity = src.function("", f"identity_{key}", (), [f"return {', '.join(use.identity)}"])
        src.functions += ["", ""]
        kinds = ", ".join(value.dtype.name for value in use.accumulators)
        return src.bind(f"reduction_{key}", reduction(kinds, combine, identity), src.functions)

    def reduce(self, use: Reduction, intrinsics: ReductionIntrinsics) -> str:
        return intrinsics.reduce["tile"](*self.src.lifted(use), "start", "columns")

    # Rows.

    def find_row(self, row: str, suffix: str, operands: Sequence[int]) -> None:
        """Place a row: its index on each axis, and where it begins in the operands."""
        src, names, axes, rest = self.src, self.src.names, self.kernel.row_axes, row
        for axis in range(axes - 1, 0, -1):
            size = f"{self.index}({names.extent(axis)})"
            quotient = f"row0{suffix}" if axis == 1 else f"quotient{axis}{suffix}"
            src.assign(quotient, divide(rest, size, names.magic(axis)))
            src.assign(f"row{axis}{suffix}", f"{rest} - {quotient} * {size}")
            rest = quotient
        if axes == 1:
            src.assign(f"row0{suffix}", row)
        for k in operands:
            operand = self.kernel.operands[k]
            strided = [axis for axis in range(axes) if operand.strides[axis] == "s"]
            if strided:
                offset = " + ".join(f"row{axis}{suffix} * {names.stride(k, axis)}" for axis in strided)
                size = f" * {operand.dtype.itemsize}" if operand.dtype.itemsize > 1 else ""
                self.bases[k] = f"{names.operand(k)}_row"
                src.assign(f"{names.operand(k)}_row{suffix}", f"{names.pointer(k)} + ({offset}){size}")


class MixedRows:
    """Layout of blocks of several thread groups that loop over rows; each thread reduces its columns of all of them."""

    stores = stores_row = ""

    def __init__(self, src: SourceBuilder, schedule: MixedReductionSchedule, epilogue: ColumnEpilogue):
        self.src, self.schedule, self.kernel, self.index = src, schedule, src.kernel, src.kernel.index
        self.elements, self.epilogue = MixedElements(src, schedule), epilogue
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
            src.assign(", ".join(_accumulators(use)), f"no_{_key(use)}()")
        self._begin()
        with src.while_("row < rows"):
            self._begin_row()
            yield
            self._end_row()
        self._store_states()
        self._finish(emitter, fixed)

    def run(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """Columns are accumulated while the group is waiting for its reductions."""
        src = self.src
        self.elements.forget()
        self.elements.compute(emitter, number, phase)
        for use in phase.column_reductions:
            states = ", ".join(_accumulators(use))
            src.assign(states, f"accumulate_{_key(use)}({states}, {', '.join(src.lifted(use))})")
        if phase.folds:
            states = ", ".join(self.elements.reduce(use, self.reductions[_key(use)]) for use in phase.folds)
            names = [value.name for use in phase.folds for value in use.accumulators]
            src.assign(", ".join(names), f"all_reduce_{number}(turn, {states})")
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
        places, self.stage_bytes = smem_row_layout(s, self.kernel)
        for k, begin in zip(s.prefetched, places):
            name, dtype = src.names.operand(k), self.kernel.operands[k].dtype.name
            ring = src.bind(f"ring_{name}", CpAsyncRing(TILE, dtype, begin=begin, threads=s.block_threads))
            src.bind(f"copy_async_{name}", ring.copy_async())
            src.bind(f"load_{name}", ring.load())
        if s.prefetched:
            src.bind("wait_for_row", wait_group(s.stages - 2))
        for number, phase in enumerate(self.kernel.phases):
            for use in phase.folds:
                self.reductions[_key(use)] = self.elements.define_reduction(use, _key(use))
            if phase.folds:
                ops = [self.reductions[_key(use)].op for use in phase.folds]
                src.bind(f"all_reduce_{number}", ROW_GROUPS.all_reduce(*ops), src.functions)
            for use in phase.column_reductions:
                self._define_column_reduction(use)
        ops = [Named(f"reduction_{_key(use)}") for use in self.kernel.column_reductions]
        src.bind("all_blocks", ROW_GROUPS.reduce_blocks(*ops, at_once=s.loads_in_flight), src.functions)

    def _define_column_reduction(self, use: Reduction) -> None:
        """A state for each column of a tile: none, one row more, and those of a block together."""
        key, types, bind, functions = _key(use), _dtypes(use), self.src.bind, self.src.functions
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
                src.assign("far", f"{self.index}(row + {stage} * stride)" if stage else "row")
                self._prefetch(f"int32(first_stage + {stage * self.stage_bytes})" if stage else "first_stage")
            src.assign("stage", "first_stage")
            src.assign("free", f"int32(first_stage + {(s.stages - 1) * self.stage_bytes})")
        if self.elements.carried:
            src.assign("next_row", f"{self.index}(select(row < rows, row, 0))")
            self._carry()
        if self.has_folds:
            src.assign("turn", "int32(0)")

    def _prefetch(self, stage: str) -> None:
        """Begin the copies of row `far` into a stage, and send them off."""
        operands = list(dict.fromkeys(load.operand for load in self.elements.prefetched))
        with self.src.if_("far < rows"):
            self.elements.find_row("far", PREFETCH_ROW, operands)
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
            src.emit("wait_for_row()")
            src.assign("far", f"{self.index}(row + {s.stages - 1} * stride)")
            self._prefetch("free")
        stores = [store.operand for phase in self.kernel.phases for store in phase.stores + phase.row_stores]
        self.elements.find_row("row", "", list(dict.fromkeys(stores)))
        src.assign("after", f"{self.index}(row + stride)")
        if self.elements.carried:
            for load in self.elements.carried:
                src.assign(load.value.name, f"{load.value.name}{NEXT_ROW}")
            src.assign("next_row", f"{self.index}(select(after < rows, after, row))")
            self._carry()

    def _end_row(self) -> None:
        s, src = self.schedule, self.src
        if self.has_folds:
            src.assign("turn", "int32(1 - turn)")
        if s.prefetched:
            last = f"first_stage + {(s.stages - 1) * self.stage_bytes}"
            src.assign("free", "stage")
            src.assign("stage", f"int32(select(stage == {last}, first_stage, stage + {self.stage_bytes}))")
        src.assign("row", "after")

    # Columns.

    def _store_states(self) -> None:
        """A line of states from each block, in the workspace; then wait for all blocks."""
        src, lines, offset = self.src, [], 0
        for use in self.kernel.column_reductions:
            states = ", ".join(_accumulators(use))
            src.assign(states, f"reduce_block_{_key(use)}({states})")
        src.assign("line", f"int64((columns + {LINE - 1}) // {LINE} * {LINE})")
        for name, dtype in state_layout(self.kernel):
            place = f" + int64({grid_dim()}) * line * {offset}" if offset else ""
            src.assign(f"{name}_lines", f"workspace{place}")
            own = f"{name}_lines + int64({block_idx()}) * line * {dtype.itemsize}"
            lines.append(f"store_partial_{name}({own}, start, {name}_accumulator, start, {self.index}(line))")
            offset += dtype.itemsize
        with src.if_("row_group == 0"):
            src.emit(*lines)
        src.emit(grid_barrier("semaphores", grid_dim()))

    def _finish(self, emitter: PhaseEmitter, fixed: set[str]) -> None:
        """Each block takes strips of columns, merges what all blocks left, and stores the results."""
        src, states = self.src, [value.name for use in self.kernel.column_reductions for value in use.accumulators]
        lines = ", ".join(f"{name}_lines" for name in states)
        src.assign("strip", f"{self.index}({block_idx()} * {LINE})")
        with src.while_("strip < columns"):
            src.assign(", ".join(states), f"all_blocks({lines}, int32(strip), line, {grid_dim()})")
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


def _key(use: Reduction) -> str:
    """What tells a reduction from the others of its kernel."""
    return use.accumulators[0].name


def _dtypes(use: Reduction) -> list[DType]:
    return [value.dtype for value in use.accumulators]


def _accumulators(use: Reduction) -> list[str]:
    """The variables that accumulate over rows: a tile for each part of a state."""
    return [f"{value.name}_accumulator" for value in use.accumulators]
