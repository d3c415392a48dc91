"""Emits a cooperative row kernel: blocks loop over a row together and combine partials through the workspace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body, Phase, ScanStep, ScanUse
from ..emit.phase_emitter import PhaseEmitter
from ..emit.source_builder import SourceBuilder, accumulator_name, header
from ..rows_and_columns import grid_dim
from ..scan.emit import carried_state, name_of
from ..scan.schedule import TwoPassScanSchedule, lane_record_bytes
from ..split_heuristics import exchange_count
from ..tile import (
    combine_states,
    grid_barrier_reset,
    grid_barrier_wait,
    identity_state,
    is_last_block,
    load_partial,
    store_lane_partial,
    store_partial,
    thread_idx,
    udiv,
)
from .cooperative import ALIGNMENT, CooperativeSchedule, record_bytes
from .emit_early_gathers import EarlyGathers
from .emit_elements import RowElements
from .emit_index import RowIndex
from .emit_loops import RowLoops
from .schedule import WARP

AT_ONCE = 4  # records of a scan in two passes that are loaded before the first is merged


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

    def run_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        self.loops.run_phase(emitter, number, phase)

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


def emit_two_pass_scan(kernel: KernelIR, schedule: TwoPassScanSchedule) -> str:
    """The generated file of a scan of few rows that lie side by side."""
    description = "a scan; blocks find the totals of their parts of 32 rows, wait for each other, and scan their parts"
    src = SourceBuilder(kernel)
    PhaseEmitter(src, TwoPassScanRow(src, schedule)).emit()
    return src.text(header(kernel, description, ""), "Several blocks share 32 rows, each a part of their columns.")


class TwoPassScanRow:
    """Layout of 32 neighbouring rows, which are split over blocks along their columns."""

    stores = stores_row = "in_bounds"

    def __init__(self, src: SourceBuilder, schedule: TwoPassScanSchedule):
        self.src, self.schedule, self.index = src, schedule, RowIndex(src, schedule)
        self.elements = RowElements(self.index, EarlyGathers({}), prefetch=False)
        self.loops = RowLoops(self.elements, lambda emitter, phase: None)

    @contextmanager
    def rows(self, emitter: PhaseEmitter) -> Iterator[None]:
        src = self.src
        self.elements.define()
        src.read_scalars()
        src.fill_tables(self.schedule.block_threads)
        groups = f"({self.index.count_rows()} + {WARP - 1}) >> {WARP.bit_length() - 1}"
        self.index.find_block(udiv(grid_dim(), "count"), groups)
        self.index.find_row("row_group")
        self.index.find_columns()
        self._find_part()
        yield
        src.emit(grid_barrier_reset("semaphores", "row_group * 2", "blocks_per_row"))

    def _find_part(self) -> None:
        """The block's part of the rows, whole tiles: where it begins in operands, and its columns."""
        src, index, tile, names = self.src, self.index.index, self.schedule.tile_elements, self.src.names
        tiles = f"((columns + {tile - 1}) >> {tile.bit_length() - 1})"
        src.assign("part_columns", f"{index}({udiv(f'({tiles} + blocks_per_row - 1)', 'blocks_per_row')} * {tile})")
        src.assign("part_start", f"{index}(block_in_row * part_columns)")
        src.assign("columns", f"{index}(min(max(columns - part_start, 0), part_columns))")
        for k, operand in enumerate(src.kernel.operands):
            if operand.strides[-1] != "0":
                stride = f" * int64({names.stride(k, src.kernel.axes - 1)})" if operand.strides[-1] == "s" else ""
                offset = f"int64(part_start){stride} * {operand.dtype.itemsize}"
                src.assign(f"{names.operand(k)}_part", f"{self.index.bases[k]} + {offset}")
                self.index.bases[k] = f"{names.operand(k)}_part"

    def run_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        (use,) = phase.scan_uses
        step = ScanStep(phase.scans[0].scans, Body((), (), ()))
        self.loops.scan(emitter, f"{number}_totals", replace(phase, stores=(), scans=(step,)))
        self._exchange(use)
        self.elements.scans.before[name_of(use)] = "before"
        self.loops.scan(emitter, number, phase)

    def _exchange(self, use: ScanUse) -> None:
        """Each block leaves the totals of its part, and merges those before it, in order."""
        src, size, name = self.src, lane_record_bytes(use), name_of(use)
        op, threads, functions = src.reduce_op(use, name), self.elements.threads, src.functions
        store = src.bind(f"store_partial_{name}", store_lane_partial(op), functions)
        load = src.bind(f"load_partial_{name}", load_partial(op, 0), functions)
        initial = src.bind(f"initial_{name}", identity_state(op), functions)
        merge = src.bind(f"merge_{name}", combine_states(op), functions)
        all_reduce = src.bind(f"all_reduce_{name}", threads.all_reduce(op), functions)
        lane = f"(int64(row_group) * blocks_per_row * {WARP} + ({thread_idx()} & {WARP - 1})) * {size}"
        src.assign("partials", f"workspace + {lane}")
        src.emit(store(f"partials + block_in_row * {size * WARP}", carried_state(use)))
        src.emit(grid_barrier_wait("semaphores", "row_group * 2", "blocks_per_row"))
        src.assign("each", f"int32({udiv(f'(block_in_row + {self.schedule.threads - 1})', self.schedule.threads)})")
        src.assign("partial", "int32(thread_in_row * each)")
        src.assign("last_partial", "min(int32(partial + each), block_in_row)")
        src.assign("before", initial())
        for number in (AT_ONCE, 1):  # loads that are in flight together
            with src.while_(f"partial + {number - 1} < last_partial" if number > 1 else "partial < last_partial"):
                for k in range(number):
                    src.assign(f"others_{k}", load(f"partials + (partial + {k}) * {size * WARP}"))
                for k in range(number):
                    src.assign("before", merge("before", f"others_{k}"))
                src.assign("partial", f"int32(partial + {number})")
        src.assign("before", all_reduce("before"))
