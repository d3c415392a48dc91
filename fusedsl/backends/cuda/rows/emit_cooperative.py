"""Emits a cooperative row kernel: blocks loop over a row together and combine partials through the workspace."""

from __future__ import annotations

from dataclasses import dataclass

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Phase
from ..emit.source_text import SourceBuilder, accumulator_name, header, indented
from ..split_heuristics import exchange_count
from .cooperative import ALIGNMENT, CooperativeSchedule, record_bytes
from .emit import RowEmitter


def emit_cooperative(kernel: KernelIR, schedule: CooperativeSchedule) -> str:
    """The generated file of a row kernel whose rows several blocks share."""
    how = "wait for each other after each fold" if schedule.grid_sync else "leave it to the last of them to finish"
    told = f"a row kernel; blocks of {schedule.threads} threads loop over a row together and {how}"
    writer = CooperativeEmitter(SourceBuilder(kernel), schedule)
    writer.write()
    return writer.scope.text(header(kernel, told, ""), "Each block takes every so many tiles of a row.")


@dataclass
class CooperativeEmitter(RowEmitter):
    """Emitter of a row kernel whose rows are split over blocks."""

    schedule: CooperativeSchedule
    exchange: int = 0  # the number of the phase's exchange of states
    records: int = 0  # bytes of a block's record

    @property
    def grid_sync(self) -> bool:
        return self.schedule.grid_sync

    @property
    def fixed_blocks(self) -> int:
        return self.schedule.fixed_blocks

    def _streams(self, phase: Phase) -> bool:
        return self.schedule.prefetch and super()._streams(phase)

    @property
    def index(self) -> str:
        return self.kernel.index

    def write(self) -> None:
        self._define_tile()
        self.scope.read_scalars()
        rows = " * ".join(self.scope.names.extent(axis) for axis in range(self.kernel.row_axes))
        self.code.append(f"count = {self.index}({rows})")
        self.records = record_bytes(self.kernel)
        self.code.append(
            f"blocks_per_row = int32({self.fixed_blocks})"
            if self.fixed_blocks
            else "blocks_per_row = udiv(grid_dim(), int32(count))"
        )
        self.code.extend(
            [
                "row_group = int32(udiv(block_idx(), blocks_per_row))",
                "block_in_row = int32(block_idx() - int32(row_group * blocks_per_row))",
            ]
        )
        self.code.append(f"number = {self.index}(row_group)" if self.fixed_blocks else "number = row_group")
        if not self.fixed_blocks:
            self._row()
        else:
            outside, self.scope.code = self.scope.code, []
            self._row()
            inside, self.scope.code = self.scope.code, outside
            inside += [f"number = {self.index}(number + row_groups)", "turn = int32(turn + 1)"]
            self.code.extend(["row_groups = udiv(grid_dim(), blocks_per_row)", "turn = int32(0)"])
            self.code.extend(["while number < count:", *indented(inside)])
        if self.grid_sync:
            self.code.append("grid_barrier_reset(semaphores, row_group * 2, blocks_per_row)")

    def _row(self) -> None:
        """The work on a row."""
        self._find_row()
        self._find_columns()
        for number, phase in enumerate(self.kernel.phases):
            self.exchange = sum(bool(p.folds) for p in self.kernel.phases[:number])
            self._loop(number, phase)
            self._row_work(number, phase)

    def _place(self) -> str:
        return "number"

    def _find_columns(self) -> None:
        """Tiles are dealt out to the blocks of a row."""
        super()._find_columns()
        tile = super().tile_stride()
        self.code.append(f"start = {self.index}(start + {self.index}(block_in_row) * {tile})")
        self.code.append(f"stride = {self.index}({self.index}(blocks_per_row) * {tile})")

    def tile_stride(self) -> str:
        return "stride"

    def last(self) -> str:
        return "start + udiv(max(columns - 1 - start, 0), stride) * stride"

    def combine_accumulators(self, phase: Phase) -> None:
        """Each block stores its partial state; the last block, or all after a grid barrier, combine them in order."""
        if not phase.folds:
            return
        size, rows = self.records, f"{self.exchange} * int64(count) + " if self.exchange else ""
        self.code.append(f"records = workspace + ({rows}int64(number)) * blocks_per_row * {size}")
        begin = 0
        for use in phase.folds:
            rule, state = self.define_reduction(use), use.accumulators[0].name
            self.scope.functions.append(f"store_partial_{state} = store_partial(reduction_{rule}, {begin})")
            self.scope.functions.append(f"load_partial_{state} = load_partial(reduction_{rule}, {begin})")
            self.code.append(
                f"store_partial_{state}(records + block_in_row * {size}, all_reduce_{rule}({accumulator_name(use)}))"
            )
            begin += ALIGNMENT * len(use.accumulators)
        if self.grid_sync:
            before = f"turn * {exchange_count(self.kernel)} + " if self.fixed_blocks else ""
            self.code.extend(
                [
                    f"met = int32(({before}{self.exchange + 1}) * blocks_per_row)",
                    "grid_barrier_wait(semaphores, row_group * 2, met)",
                ]
            )
        else:
            self.code.extend(["if not is_last_block(semaphores, row_group, blocks_per_row):", *indented(["return"])])
        for use in phase.folds:
            rule, state = self.define_reduction(use), use.accumulators[0].name
            taken = f"load_partial_{state}(records + other * {size})"
            self.code.extend(
                [f"{accumulator_name(use)} = initial_{rule}()", "other = thread_idx()", "while other < blocks_per_row:"]
            )
            merged = f"{accumulator_name(use)} = merge_{rule}({accumulator_name(use)}, {taken})"
            self.code.extend(indented([merged, f"other = int32(other + {self.schedule.threads})"]))
            self.scope.unpack(use, f"all_reduce_{rule}({accumulator_name(use)})")

    def _first(self) -> str:
        return "(thread_in_row == 0) & (block_in_row == 0)" if self.grid_sync else "thread_in_row == 0"
