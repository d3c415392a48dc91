"""Emits scans of a row kernel: on a row that is held, in a loop with a carried state, or by decoupled look-back."""

from __future__ import annotations

from dataclasses import dataclass, field

from ....kernel_ir.phase import Phase, ScanUse
from ..emit.intrinsic import Function, Named
from ..emit.phase_emitter import PhaseEmitter
from ..emit.source_builder import TILE, SourceBuilder
from ..rows.schedule import RowSchedule
from ..tile import identity_state
from . import reset_lookback, scan_tile, scan_with_lookback, take_tile
from .schedule import HEADER, max_misalignment, tile_state_bytes

THREAD_GROUP = Named("thread_group")


def name_of(use: ScanUse) -> str:
    """What the functions of a scan are called after."""
    return use.accumulators[0].name


def direction_of(use: ScanUse) -> dict[str, bool]:
    """The arguments of a scan's functions that are not their defaults."""
    given = {"reverse": use.reverse, "exclusive": use.exclusive}
    return {name: True for name, is_set in given.items() if is_set}


def carried_state(use: ScanUse) -> str:
    """The variable with the state of the row's earlier tiles."""
    return f"{name_of(use)}_accumulator"


@dataclass
class RowScans:
    """The scans of a row kernel; `row` names the number of the row."""

    src: SourceBuilder
    schedule: RowSchedule
    row: str
    states: str = ""  # the bytes of the tiles' states
    before: dict[str, str] = field(default_factory=dict)  # by name of a scan: what lies before the first tile of a loop

    def backwards(self, phase: Phase) -> bool:
        return any(use.reverse for use in phase.scan_uses)

    def begin(self, phase: Phase) -> None:
        """The states before the first tile of a loop."""
        for use in phase.scan_uses:
            _, initial = self._define(use)
            self.src.assign(carried_state(use), self.before.get(name_of(use)) or initial())

    def emit(self, emitter: PhaseEmitter, number: int | str, phase: Phase) -> None:
        """The scans of a phase and the bodies after them, once the first body has run."""
        for index, step in enumerate(phase.scans):
            for use in step.scans:
                if self.schedule.decoupled_lookback:
                    self._look_back(use)
                else:
                    self._scan(use)
            if self.schedule.decoupled_lookback and index == len(phase.scans) - 1:
                self._finish_tile()
            for value in step.element.args:
                emitter.provide(value)
            self.src.map_body(f"phase_{number}_{index}", step.element)

    def _scan(self, use: ScanUse) -> None:
        scan, initial = self._define(use)
        resident = self.schedule.resident
        column, before = ("start", initial()) if resident else ("column", carried_state(use))
        scanned = scan(*self.src.lifted(use), column, "columns", before)
        self.src.unpack(use, scanned, "_" if resident else carried_state(use))

    def _define(self, use: ScanUse) -> tuple[Function, Function]:
        """The scan of a tile, and the state before the first one."""
        src, name = self.src, name_of(use)
        op = src.reduce_op(use, name)
        options = direction_of(use)
        options |= {"blocked": True} if self.schedule.blocked_layout else {}
        scan = src.bind(f"scan_{name}", scan_tile(TILE, THREAD_GROUP, op, **options), src.functions)
        return scan, src.bind(f"initial_{name}", identity_state(op), src.functions)

    # Decoupled look-back: a tile for each block.

    def _look_back(self, use: ScanUse) -> None:
        """A scan whose earlier tiles are other blocks'."""
        src, name, uses = self.src, name_of(use), self._all_scans()
        op = src.reduce_op(use, name)
        intrinsic = scan_with_lookback(TILE, THREAD_GROUP, op, **direction_of(use))
        scan = src.bind(f"scan_{name}", intrinsic, src.functions)
        where = ("semaphores", f"offset_{uses.index(use)}", self._row_number(), "tile_in_row", "tiles", "rows_tiles")
        src.unpack(use, scan(*src.lifted(use), "column", "columns", *where))

    def _all_scans(self) -> list[ScanUse]:
        return [use for phase in self.src.kernel.phases for use in phase.scan_uses]

    def _row_number(self) -> str:
        return f"int32({self.row})"

    def take_tile(self) -> None:
        """The block takes the number of its tile."""
        s, kernel = self.schedule, self.src.kernel
        extent, shift = self.src.names.extent(kernel.axes - 1), s.tile_elements.bit_length() - 1
        reach = max_misalignment(kernel, s.width) + s.tile_elements - 1
        self.src.assign("tiles", f"int32(({extent} + {reach}) >> {shift})")
        self.src.assign("tile_index", take_tile("semaphores"))

    def find_tile(self) -> None:
        """Where the block's tile is in its row, and where states are."""
        src, row, index = self.src, self._row_number(), self.src.kernel.index
        src.assign("tile_in_row", f"int32(tile_index - {row} * tiles)")
        src.assign("rows_tiles", "int32(rows * tiles)")
        src.assign("groups", "int32(rows * ((tiles + 31) >> 5))")
        (phase,), offset = src.kernel.phases, "0"
        for k, use in enumerate(self._all_scans()):
            size = tile_state_bytes(use)
            src.assign(f"offset_{k}", f"int64({offset})")
            offset = f"offset_{k} + (int64(rows_tiles) + 2 * int64(groups)) * {size}"
        tile = "(tiles - 1 - tile_in_row)" if self.backwards(phase) else "tile_in_row"
        src.assign("column", f"{index}(start + {index}({tile}) * {self.schedule.tile_elements})")
        self.states = offset

    def _finish_tile(self) -> None:
        """Count the block's tile as one that reads no states any more; the last one clears them."""
        self.src.emit(reset_lookback("semaphores", "rows_tiles", f"int64({HEADER}) + {self.states}"))
