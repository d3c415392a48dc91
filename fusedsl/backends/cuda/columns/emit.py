"""Emits a column kernel: threads across rows, thread levels along the reduced axes, states per column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....kernel_ir.kernel import KernelIR, Load, Position
from ....kernel_ir.phase import Phase, Reduction, Store
from ..emit.intrinsic import Function
from ..emit.phase_emitter import PhaseEmitter, ReductionIntrinsics
from ..emit.source_builder import TILE, SourceBuilder, accumulator_name, header
from ..peephole import rewritten
from ..split_heuristics import fold_bytes, state_words
from ..tile import Tile, TileIntrinsics, grid_barrier_reset, grid_barrier_wait, is_last_block
from . import ColumnReducer, ColumnReducerIntrinsics
from .emit_index import ColumnIndex
from .layout import ColumnSchedule, record_bytes, record_offsets

TILES = 16  # tiles that share the reference of the first one: rounding grows with their number
BATCH_WORDS = 32  # registers for partial records that a thread loads at once
ENDS = TileIntrinsics(
    "partial_tile"
)  # the tile of a loop's last iteration, some of whose vectors are beyond the columns
STRIP = TileIntrinsics("strip")  # the rows of a thread
REDUCER = ColumnReducerIntrinsics("reducer")


def emit_columns(kernel: KernelIR, schedule: ColumnSchedule) -> str:
    """The generated file of a column kernel."""
    where = "in registers" if schedule.resident else "that they loop over"
    group = f"{schedule.threads_x} threads side by side, {schedule.threads_y} deep on columns {where}"
    group = "lines of threads on columns that they loop over" if schedule.max_threads else group
    opening = header(kernel, f"a column kernel; {group}", "")
    src = SourceBuilder(kernel)
    PhaseEmitter(src, ColumnStrip(src, schedule)).emit()
    return src.text(opening, "One strip of neighbouring rows per block, or per group of blocks.")


@dataclass
class ColumnElements:
    """The columns of a strip that a thread holds, at once or in an iteration of a loop: a vector of rows of each."""

    index: ColumnIndex
    tile: TileIntrinsics = TILE  # that is worked on: one that needs no checks, or ENDS

    row_function = STRIP.elementwise

    def __post_init__(self) -> None:
        self.src, self.kernel, self.schedule = self.index.src, self.index.kernel, self.index.schedule

    def define(self) -> None:
        s, kernel = self.schedule, self.kernel
        checked = "v" * s.vectors
        full = "." * s.full_vectors + checked[s.full_vectors :] if s.resident else "." * s.vectors
        self.index.define_tile("tile", full)
        if not s.resident:
            self.index.define_tile("partial_tile", checked)
        strip = Tile(width=s.width, vectors=1, step=1, checks="t" if self.index.has_partial_vectors else ".")
        self.src.top.append(f"strip = {strip}  # the rows of a thread")
        threads = {"threads_x": s.threads_x, "threads_y": s.threads_y}
        threads = {"max_threads": s.max_threads} if s.max_threads else threads
        self.src.bind("reducer", ColumnReducer(**threads, width=s.width, state=fold_bytes(kernel)))

    def _bind(self, name: str, method: str, *constants: str | int) -> Function:
        """An intrinsic of the tile that is worked on; in a loop also of the other one."""
        function = self.src.bind(name, getattr(TILE, method)(*constants))
        if self.schedule.resident:
            return function
        at_end = self.src.bind(f"{name}_end", getattr(ENDS, method)(*constants))
        return at_end if self.tile is ENDS else function

    def load(self, load: Load) -> None:
        name, k = load.value.name, load.operand
        kind, start, stride = self.index.access(k)
        self.src.stored[name] = self.kernel.operands[k].dtype
        read = self._bind(f"load_{name}", "load", self.src.stored[name].name, kind, *self.index.displacement(k))
        self.src.assign(name, read(self.index.bases[k], start, "columns", *stride))

    def load_row(self, load: Load) -> None:
        """One vector with a value for each row."""
        name, k = load.value.name, load.operand
        kind, stride = self.index.row_access(k)
        self.src.stored[name] = self.kernel.operands[k].dtype
        read = self.src.bind(f"load_{name}", STRIP.load(self.src.stored[name].name, kind, *self.index.displacement(k)))
        self.src.assign(name, read(self.index.bases[k], *self.index.row_bounds, *stride))

    def position(self, position: Position) -> None:
        name, axis, kind = position.value.name, position.axis, position.value.dtype.name
        if axis < self.kernel.vector_axis:
            self.src.assign(name, f"{kind}(row{axis})")
            return
        tile, along, at = TILE, False, f"place_{axis}"
        if axis == self.kernel.vector_axis:
            tile, along, at = STRIP, True, f"row{axis}"
        self.src.assign(name, self.src.bind(f"at_{name}", tile.positions(kind, along=along))(at))

    def store(self, name: str, store: Store, value: str) -> str:
        k = store.operand
        kind, start, stride = self.index.access(k)
        write = self._bind(name, "store", self.kernel.operands[k].dtype.name, kind)
        return write(self.index.bases[k], start, value, "column", "columns", *stride)

    def store_row(self, name: str, store: Store) -> str:
        k = store.operand
        kind, stride = self.index.row_access(k)
        write = self.src.bind(name, STRIP.store(self.kernel.operands[k].dtype.name, kind))
        value = self.src.widen(store.value, STRIP)
        return write(self.index.bases[k], "int32(0)", value, *self.index.row_bounds, *stride)

    def compute(self, emitter: PhaseEmitter, number: int | str, phase: Phase) -> None:
        for value in phase.element.args:
            emitter.provide(value)
        self.src.map_body(f"phase_{number}", rewritten(self.kernel, phase))
        emitter.store_elements(number, phase)

    def define_reduction(self, use: Reduction, name: str) -> ReductionIntrinsics:
        src, functions = self.src, self.src.functions
        op = src.reduce_op(use, name)
        reduce = {"tile": src.bind(f"reduce_{name}", REDUCER.reduce_tile(TILE, op), functions)}
        all_reduce = src.bind(f"all_reduce_{name}", REDUCER.all_reduce(op), functions)
        if self.schedule.resident:
            return ReductionIntrinsics(name, op, reduce, all_reduce)
        reduce["partial_tile"] = src.bind(f"reduce_{name}_end", REDUCER.reduce_tile(ENDS, op), functions)
        initial = src.bind(f"initial_{name}", REDUCER.identity(op), functions)
        merge = src.bind(f"merge_{name}", REDUCER.combine(op), functions)
        if self.kernel.shifted:
            src.bind(f"align_{name}", REDUCER.align(op), functions)
        return ReductionIntrinsics(name, op, reduce, all_reduce, initial, merge)

    def reduce(self, use: Reduction, intrinsics: ReductionIntrinsics) -> str:
        return intrinsics.reduce[self.tile.name](*self.src.lifted(use), "column", "columns")


class ColumnStrip:
    """Layout of strips of neighbouring rows, whose columns the threads of a block share, or those of a few blocks."""

    stores = "in_bounds"

    def __init__(self, src: SourceBuilder, schedule: ColumnSchedule):
        self.src, self.schedule, self.index = src, schedule, ColumnIndex(src, schedule)
        self.elements = ColumnElements(self.index)
        self.exchange = 0  # the number of the next exchange of states
        self.stores_row = "in_bounds & (thread_y == 0)" + (" & (split == 0)" if schedule.grid_sync else "")

    @contextmanager
    def rows(self, emitter: PhaseEmitter) -> Iterator[None]:
        self.elements.define()
        self.src.read_scalars()
        self.src.fill_tables(0 if self.schedule.max_threads else self.schedule.block_threads)
        self.index.find_rows()
        self.index.find_columns()
        yield
        if self.schedule.grid_sync:
            self.src.emit(grid_barrier_reset("semaphores", "strip_index * 2", "splits"))

    def run_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        if self.schedule.resident:
            emitter.straight(number, phase, lambda intrinsics, state: intrinsics.all_reduce(state))
        elif phase.stores or phase.folds:
            self._loop(emitter, number, phase)

    def _loop(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """One pass over the columns: as many full tiles as there are, then one that checks what is there."""
        emitter.begin_loop(phase)
        self.src.assign("column", "start")
        with self.src.while_("column < full_end"):
            self._tile(emitter, number, phase)
        if self.schedule.vectors > 1:
            self.elements.tile = ENDS
            with self.src.while_("column < columns"):
                self._tile(emitter, number, phase)
            self.elements.tile = TILE
        self._combine(emitter, phase)
        emitter.forget()

    def _tile(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """An iteration; with a few full tiles rather than one, if these may share what their rows need."""
        emitter.forget()
        self.index.multi_axis.emit_offsets()
        emitter.tile(number, phase, lambda: self._next_tile(emitter, number, phase))

    def _next_tile(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        self.index.next_column()
        if phase.reuses_reference and self.elements.tile is TILE:
            self._further_tiles(emitter, number, phase)

    def _further_tiles(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """Tiles that are measured from what the one before them came to; their folds merge with its own."""
        src, derived = self.src, phase.derived
        src.assign("tiles", "int32(1)")
        with src.while_(f"(tiles < {TILES}) & (column < full_end)"):
            emitter.forget()
            self.index.multi_axis.emit_offsets()
            follow = {value.name for value in derived.accumulators} if derived else set()
            for k, part in enumerate(phase.tile_phases):
                self.elements.compute(emitter, f"{number}_{k}", part)
                for use in (use for use in part.folds if use.accumulators[0].name not in follow):
                    intrinsics, names = emitter.reduction(use), ", ".join(value.name for value in use.accumulators)
                    states = f"({names})" if len(use.accumulators) > 1 else names
                    src.assign(names, intrinsics.merge(states, self.elements.reduce(use, intrinsics)))
            self.index.next_column()
            src.assign("tiles", "int32(tiles + 1)")
        if derived is not None:
            read = {value.name for value in derived.body.args}
            derived_names = [value.name for value in derived.body.results if value.name not in read]
            variables = dict(zip(derived_names, (value.name for value in derived.accumulators)))
            src.apply(STRIP.elementwise, f"implied_{number}", derived.body, variables)

    # Combination of states.

    def _combine(self, emitter: PhaseEmitter, phase: Phase) -> None:
        """Combine the states of a strip's threads, after those of its blocks."""
        if self.kernel.shifted:
            self._align(emitter, phase)
        if self.schedule.is_split and phase.folds:
            with self.src.if_("splits > 1" if self.schedule.max_threads else ""):
                self._exchange(emitter, phase)
        for use in phase.folds:
            self.src.unpack(use, emitter.reduction(use).all_reduce(accumulator_name(use)))

    @property
    def kernel(self) -> KernelIR:
        return self.src.kernel

    def _align(self, emitter: PhaseEmitter, phase: Phase) -> None:
        """Move the states of a phase from where vectors were read to the rows of each thread."""
        row, extent = self.index.last_row, self.index.last_extent
        for use in phase.folds:
            given = f"{accumulator_name(use)}, shift, {row} == 0, {row} >= {extent}"
            self.src.assign(accumulator_name(use), f"align_{emitter.reduction(use).name}({given})")

    def _exchange(self, emitter: PhaseEmitter, phase: Phase) -> None:
        """Leave the states of this block; whoever goes on merges all of the strip, in the order of the parts."""
        src, s, before = self.src, self.schedule, self.exchange
        batch = max(1, BATCH_WORDS // (s.width * state_words([phase])))
        record, offsets = record_bytes(s, self.kernel), record_offsets(s, phase)
        first = f"({before} * int64(strips) + int64(strip_index))" if before else "int64(strip_index)"
        src.assign("partials", f"workspace + {first} * splits * {record}")
        loads = []
        for use, offset in zip(phase.folds, offsets):
            intrinsics, state = emitter.reduction(use), use.accumulators[0].name
            op = intrinsics.op
            store = src.bind(f"store_partial_{state}", REDUCER.store_partial(op, offset), src.functions)
            load_partials = REDUCER.load_partials(op, offset, record, batch)
            loads.append(src.bind(f"load_partials_{state}", load_partials, src.functions))
            src.emit(store(f"partials + split * {record}", intrinsics.all_reduce(accumulator_name(use))))
        if s.grid_sync:
            src.assign("arrivals", f"int32({before + 1} * splits)")
            src.emit(grid_barrier_wait("semaphores", "strip_index * 2", "arrivals"))
        else:
            with src.if_(f"not {is_last_block('semaphores', 'strip_index', 'splits')}"):
                src.emit("return")
        for use, load in zip(phase.folds, loads):
            intrinsics, state = emitter.reduction(use), accumulator_name(use)
            src.assign(state, intrinsics.initial())
            src.assign("partial", "thread_y")
            with src.while_("partial < splits"):
                src.assign(state, intrinsics.merge(state, load("partials", "partial", "splits")))
                src.assign("partial", f"int32(partial + {self.index.threads_y_times(batch)})")
        self.exchange += 1
