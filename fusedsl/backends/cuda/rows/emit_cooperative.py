"""Emits a cooperative row kernel: blocks loop over a row together and combine partials through the workspace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Phase
from ..emit.phase_emitter import PhaseEmitter
from ..emit.source_text import SourceBuilder, accumulator_name, header
from ..rows_and_columns import grid_dim
from ..split_heuristics import exchange_count
from ..tile import (
    grid_barrier_reset,
    grid_barrier_wait,
    is_last_block,
    load_partial,
    store_partial,
    thread_idx,
    udiv,
)
from .cooperative import ALIGNMENT, CooperativeSchedule, record_bytes
from .emit_early_gathers import EarlyGathers
from .emit_elements import RowElements
from .emit_index import RowIndex
from .emit_loops import RowLoops


def emit_cooperative(kernel: KernelIR, schedule: CooperativeSchedule) -> str:
    """The generated file of a row kernel whose rows several blocks share."""
    how = "wait for each other after each fold" if schedule.grid_sync else "leave it to the last of them to finish"
    description = f"a row kernel; blocks of {schedule.threads} threads loop over a row together and {how}"
    src = SourceBuilder(kernel)
    PhaseEmitter(src, CooperativeRow(src, schedule)).emit()
    return src.text(
        header(kernel, description, ""), "Several blocks share a row, tile by tile, and combine their partial states."
    )


class CooperativeRow:
    """Layout of rows that are split over blocks: tiles are dealt out to the blocks of a row."""

    stores = stores_row = ""

    def __init__(self, src: SourceBuilder, schedule: CooperativeSchedule):
        self.src, self.schedule, self.index = src, schedule, RowIndex(src, schedule)
        first = "(thread_in_row == 0) & (block_in_row == 0)" if schedule.grid_sync else "thread_in_row == 0"
        self.elements = RowElements(self.index, EarlyGathers({}), store_predicate=first, prefetch=schedule.prefetch)
        self.loops = RowLoops(self.elements, self._combine)
        self.exchange = 0  # the number of the next exchange of states

    @contextmanager
    def rows(self, emitter: PhaseEmitter) -> Iterator[None]:
        src, fixed, index = self.src, self.schedule.fixed_blocks, self.index.index
        self.elements.define()
        src.read_scalars()
        src.fill_tables(self.schedule.block_threads)
        self.index.find_block(f"int32({fixed})" if fixed else udiv(grid_dim(), "int32(count)"))
        src.assign("row_index", f"{index}(row_group)" if fixed else "row_group")
        if fixed:
            src.assign("row_groups", udiv(grid_dim(), "blocks_per_row"))
            src.assign("iteration", "int32(0)")
        with src.while_("row_index < count" if fixed else ""):
            self._find_tiles()
            yield
            if fixed:
                src.assign("row_index", f"{index}(row_index + row_groups)")
                src.assign("iteration", "int32(iteration + 1)")
        if self.schedule.grid_sync:
            src.emit(grid_barrier_reset("semaphores", "row_group * 2", "blocks_per_row"))

    def _find_tiles(self) -> None:
        index, tile = self.index.index, self.index.stride
        self.index.find_row("row_index")
        self.index.find_columns()
        self.src.assign("start", f"{index}(start + {index}(block_in_row) * {tile})")
        self.src.assign("stride", f"{index}({index}(blocks_per_row) * {tile})")
        self.index.stride = "stride"
        self.index.last = f"start + {udiv('max(columns - 1 - start, 0)', 'stride')} * stride"

    def run(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        self.loops.run(emitter, number, phase)

    def _combine(self, emitter: PhaseEmitter, phase: Phase) -> None:
        """Each block stores its partial state; the last block, or all after a grid barrier, combine them in order."""
        if not phase.folds:
            return
        src, size, loads = self.src, record_bytes(self.src.kernel), []
        rows = f"{self.exchange} * int64(count) + " if self.exchange else ""
        src.assign("partials", f"workspace + ({rows}int64(row_index)) * blocks_per_row * {size}")
        begin = 0
        for use in phase.folds:
            intrinsics, state = emitter.reduction(use), use.accumulators[0].name
            store = src.bind(f"store_partial_{state}", store_partial(intrinsics.op, begin), src.functions)
            loads.append(src.bind(f"load_partial_{state}", load_partial(intrinsics.op, begin), src.functions))
            src.emit(store(f"partials + block_in_row * {size}", intrinsics.all_reduce(accumulator_name(use))))
            begin += ALIGNMENT * len(use.accumulators)
        self._wait()
        for use, load in zip(phase.folds, loads):
            intrinsics, accumulator = emitter.reduction(use), accumulator_name(use)
            src.assign(accumulator, intrinsics.initial())
            src.assign("partial", thread_idx())
            with src.while_("partial < blocks_per_row"):
                src.assign(accumulator, intrinsics.merge(accumulator, load(f"partials + partial * {size}")))
                src.assign("partial", f"int32(partial + {self.schedule.threads})")
            src.unpack(use, intrinsics.all_reduce(accumulator))
        self.exchange += 1

    def _wait(self) -> None:
        """Wait until all blocks of the row have stored their states; or end, but for the last of them."""
        if self.schedule.grid_sync:
            before = f"iteration * {exchange_count(self.src.kernel)} + " if self.schedule.fixed_blocks else ""
            self.src.assign("arrivals", f"int32(({before}{self.exchange + 1}) * blocks_per_row)")
            self.src.emit(grid_barrier_wait("semaphores", "row_group * 2", "arrivals"))
        else:
            with self.src.if_(f"not {is_last_block('semaphores', 'row_group', 'blocks_per_row')}"):
                self.src.emit("return")
