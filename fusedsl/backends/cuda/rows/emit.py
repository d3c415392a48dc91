"""Emits a row kernel: a row for each thread group, in registers, in shared memory or in loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Phase
from ..emit.phase_emitter import PhaseEmitter, ReductionIntrinsics
from ..emit.source_builder import SourceBuilder, accumulator_name, header
from ..tile import cluster_wait
from .cluster import with_recomputed_values
from .emit_early_gathers import EarlyGathers, hoist_gathers
from .emit_elements import RowElements
from .emit_index import RowIndex
from .emit_loops import RowLoops
from .schedule import RowSchedule


def emit_rows(kernel: KernelIR, schedule: RowSchedule) -> str:
    """The generated file of a row kernel."""
    where = "in registers" if schedule.resident else "in shared memory" if schedule.smem else "that they loop over"
    group = f"{schedule.threads} thread{'s' if schedule.threads > 1 else ''}"
    group = "a line of threads" if schedule.max_threads else group
    shared = f"{schedule.rows} rows a block" if schedule.cluster == 1 else f"in each of {schedule.cluster} blocks"
    shared = "each of a block" if schedule.max_threads else shared
    opening = header(kernel, f"a row kernel; {group} to a row {where}, {shared}", "")
    recomputed = with_recomputed_values(kernel) if schedule.rematerialize else kernel
    assert recomputed is not None
    hoisted, gathers = hoist_gathers(recomputed)
    src = SourceBuilder(hoisted)
    PhaseEmitter(src, GroupRow(src, schedule, EarlyGathers(gathers))).emit()
    return src.text(opening, "One row per thread group.")


class GroupRow:
    """Layout of a row for each thread group."""

    stores_row = ""  # no condition: stores of row values take `store_predicate` as an argument

    def __init__(self, src: SourceBuilder, schedule: RowSchedule, early: EarlyGathers):
        self.src, self.schedule, self.index = src, schedule, RowIndex(src, schedule)
        store_predicate = "(thread_in_row == 0) & in_bounds" if self.index.has_several_rows else "thread_in_row == 0"
        self.elements = RowElements(self.index, early, store_predicate=store_predicate)
        self.loops = RowLoops(self.elements, self._combine)
        self.cluster_reductions = 0  # emitted so far

    @property
    def stores(self) -> str:
        return "in_bounds" if self.index.has_several_rows else ""

    @contextmanager
    def rows(self, emitter: PhaseEmitter) -> Iterator[None]:
        s, elements = self.schedule, self.elements
        threads = elements.define()
        if s.cluster > 1:
            self.src.emit(self.src.bind("enter_cluster", threads.cluster_init())())
        self.src.read_scalars()
        self.src.fill_tables(0 if s.max_threads else s.block_threads)
        if s.decoupled_lookback:
            elements.scans.take_tile()
        self.index.find_row()
        self.index.find_columns()
        if s.decoupled_lookback:
            elements.scans.find_tile()
            yield
            return
        elements.early.begin(emitter)
        if s.load_all_first:
            elements.load_all(emitter)
        if s.smem:
            self.loops.copy_to_smem()
            elements.early.emit(emitter)
            self.loops.wait_for_smem()
        yield

    def run_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        if self.schedule.decoupled_lookback:
            self.elements.compute(emitter, number, phase)
        elif phase.ranks:
            self.elements.sort.emit_phase(emitter, number, phase)
        elif self.schedule.resident:
            emitter.straight(number, phase, self._all_reduce)
        else:
            self.loops.run_phase(emitter, number, phase)
        self.elements.early.emit(emitter)

    def _all_reduce(self, intrinsics: ReductionIntrinsics, state: str) -> str:
        """The call that combines the states of a row's threads."""
        if self.schedule.cluster == 1:
            return intrinsics.all_reduce(state)
        if not self.cluster_reductions:  # by now the other blocks have had time to begin
            self.src.assign("own", state)
            self.src.emit(cluster_wait())
            state = "own"
        self.cluster_reductions += 1
        return intrinsics.all_reduce(self.cluster_reductions - 1, state)

    def _combine(self, emitter: PhaseEmitter, phase: Phase) -> None:
        for use in phase.folds:
            self.src.unpack(use, self._all_reduce(emitter.reduction(use), accumulator_name(use)))
