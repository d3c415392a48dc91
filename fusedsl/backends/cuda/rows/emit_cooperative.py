"""The gang skeleton: blocks stream a row together; the last one finishes it, or all wait for each other and go on."""

from __future__ import annotations

from dataclasses import dataclass

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Phase
from ..emit.source_text import Names, Scope, header, indented, so_far
from ..split_heuristics import meetings
from .cooperative import ALIGNMENT, GangSchedule, record_bytes
from .emit import RowWriter


def gang_source(kernel: KernelIR, schedule: GangSchedule) -> str:
    """The generated file of a row kernel whose rows several blocks share."""
    how = "wait for each other after each fold" if schedule.together else "leave it to the last of them to finish"
    told = f"a row kernel; blocks of {schedule.threads} threads loop over a row together and {how}"
    writer = GangWriter(Scope(kernel, Names(kernel)), schedule)  # type: ignore[arg-type]
    writer.write()
    return writer.scope.text(header(kernel, told, ""), "Each block takes every so many tiles of a row.")


@dataclass
class GangWriter(RowWriter):
    """Writes a row kernel whose blocks share rows."""

    exchange: int = 0  # the number of the phase's exchange of states
    records: int = 0  # bytes of a block's record

    @property
    def together(self) -> bool:
        return self.schedule.together  # type: ignore[attr-defined]

    @property
    def fixed(self) -> int:
        return self.schedule.fixed  # type: ignore[attr-defined]

    def _streams(self, phase: Phase) -> bool:
        return bool(self.schedule.ahead) and super()._streams(phase)

    @property
    def index(self) -> str:
        return self.kernel.index

    def write(self) -> None:
        self._define_tile()
        self.scope.read_scalars()
        rows = " * ".join(self.scope.names.extent(axis) for axis in range(self.kernel.row_axes))
        self.code.append(f"count = {self.index}({rows})")
        self.records = record_bytes(self.kernel)
        self.code.append(f"parts = int32({self.fixed})" if self.fixed else "parts = share(blocks(), int32(count))")
        self.code.extend(["gang = int32(share(block(), parts))", "part = int32(block() - int32(gang * parts))"])
        self.code.append(f"number = {self.index}(gang)" if self.fixed else "number = gang")
        if not self.fixed:
            self._row()
        else:
            outside, self.scope.code = self.scope.code, []
            self._row()
            inside, self.scope.code = self.scope.code, outside
            inside += [f"number = {self.index}(number + gangs)", "turn = int32(turn + 1)"]
            self.code.extend(["gangs = share(blocks(), parts)", "turn = int32(0)"])
            self.code.extend(["while number < count:", *indented(inside)])
        if self.together:
            self.code.append("part_from(tickets, gang * 2, parts)")

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
        tile = super().stride()
        self.code.append(f"start = {self.index}(start + {self.index}(part) * {tile})")
        self.code.append(f"stride = {self.index}({self.index}(parts) * {tile})")

    def stride(self) -> str:
        return "stride"

    def last(self) -> str:
        return "start + share(max(columns - 1 - start, 0), stride) * stride"

    def join(self, phase: Phase) -> None:
        """Each block joins what its threads have collected and leaves it; whoever goes on merges all, in order."""
        if not phase.folds:
            return
        size, rows = self.records, f"{self.exchange} * int64(count) + " if self.exchange else ""
        self.code.append(f"records = workspace + ({rows}int64(number)) * parts * {size}")
        begin = 0
        for use in phase.folds:
            rule, state = self.define_fold(use), use.accumulators[0].name
            self.scope.functions.append(f"leave_{state} = leave_state(rule_{rule}, {begin})")
            self.scope.functions.append(f"take_{state} = take_state(rule_{rule}, {begin})")
            self.code.append(f"leave_{state}(records + part * {size}, join_{rule}({so_far(use)}))")
            begin += ALIGNMENT * len(use.accumulators)
        if self.together:
            before = f"turn * {meetings(self.kernel)} + " if self.fixed else ""
            self.code.extend([f"met = int32(({before}{self.exchange + 1}) * parts)", "meet(tickets, gang * 2, met)"])
        else:
            self.code.extend(["if not last(tickets, gang, parts):", *indented(["return"])])
        for use in phase.folds:
            rule, state = self.define_fold(use), use.accumulators[0].name
            taken = f"take_{state}(records + other * {size})"
            self.code.extend([f"{so_far(use)} = empty_{rule}()", "other = thread()", "while other < parts:"])
            merged = f"{so_far(use)} = merge_{rule}({so_far(use)}, {taken})"
            self.code.extend(indented([merged, f"other = int32(other + {self.schedule.threads})"]))
            self.scope.unpack(use, f"join_{rule}({so_far(use)})")

    def _first(self) -> str:
        return "(lane == 0) & (part == 0)" if self.together else "lane == 0"
