"""Emits loops over the columns of a row: plain, with the next tile prefetched, in shared memory, or in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....kernel_ir.phase import Phase
from ..emit.phase_emitter import PhaseEmitter
from ..emit.source_builder import TILE
from ..scan.schedule import max_misalignment
from ..tile import cp_async_wait_all, smem_base
from .emit_elements import FULL, RowElements
from .smem import smem_copied_operands


@dataclass
class RowLoops:
    """Loops of a thread over the columns of its row; reductions accumulate in them, and `combine` follows."""

    elements: RowElements
    combine: Callable[[PhaseEmitter, Phase], None]

    def __post_init__(self) -> None:
        self.index, self.schedule = self.elements.index, self.elements.schedule
        self.src, self.kernel = self.index.src, self.index.kernel

    def run_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """One phase of a row that is not held."""
        if not (phase.stores or phase.folds or phase.sort):
            return
        if self.schedule.smem:
            self._in_smem(emitter, number, phase)
        elif self.elements.prefetches(phase):
            self._prefetched(emitter, number, phase)
        else:
            self._plain(emitter, number, phase)
        self.combine(emitter, phase)
        self.elements.sort.end(phase)
        emitter.forget()

    def scan(self, emitter: PhaseEmitter, number: int | str, phase: Phase) -> None:
        """A loop that scans a row tile by tile; the state of all is carried to its end."""
        emitter.begin_loop(phase)
        with self._in_order(phase):
            emitter.tile(number, phase)
        emitter.forget()

    def _plain(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        self.elements.early.emit(emitter)
        emitter.begin_loop(phase)
        self.elements.sort.begin(phase)
        with self._in_order(phase) if phase.scans or phase.sort else self._over_columns(number, phase):
            if self.index.multi_axis:
                self.index.multi_axis.emit_offsets()
            emitter.tile(number, phase)

    @contextmanager
    def _over_columns(self, number: int, phase: Phase) -> Iterator[None]:
        backwards, index = self._backwards(number, phase), self.index
        self._start(backwards)
        with self.src.while_("column >= start" if backwards else "column < columns"):
            yield
            self.src.assign("column", f"{index.index}(column {'-' if backwards else '+'} {index.stride})")

    def _backwards(self, number: int, phase: Phase) -> bool:
        """True for a loop that only stores, after another loop: it runs backwards, as the end of the row is in L2."""
        return number > 0 and not phase.folds

    def _start(self, backwards: bool) -> None:
        last = f"{self.index.index}({self.index.last})  # what was read last is still in L2"
        self.src.assign("column", last if backwards else "start")

    @contextmanager
    def _in_order(self, phase: Phase) -> Iterator[None]:
        """A loop whose state passes from tile to tile: a tile is loaded while the one before it is worked on.

        All threads of a block take as many turns, since they wait for each other in each.
        """
        src, s, index, backwards = self.src, self.schedule, self.index.index, self.elements.scans.backwards(phase)
        skew = max_misalignment(self.kernel, s.width)
        reach, span = f"columns + {skew}" if skew else "columns", s.tile_elements
        shift = span.bit_length() - 1
        self.elements.scans.begin(phase)
        src.assign("tile_offset", f"{index}((({reach} - 1) >> {shift}) << {shift})" if backwards else f"{index}(0)")
        src.assign("column", f"{index}(start + tile_offset)")
        more = "tile_offset >= 0" if backwards else f"tile_offset < {reach}"
        coming = f"select(tile_offset >= {span}, column - {span}, columns)" if backwards else f"column + {span}"
        with self.elements.tiles_ahead(phase, more, coming, f"tile_offset {'-' if backwards else '+'} {span}"):
            yield

    def _prefetched(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """Each iteration loads the next tile, then processes its own."""
        src, index, backwards = self.src, self.index.index, self._backwards(number, phase)
        stride, loads = self.index.stride, self.elements.prefetched(phase)
        emitter.begin_loop(phase)
        self._start(backwards)
        for load in loads:
            src.stored[load.value.name] = self.kernel.operands[load.operand].dtype
            src.assign(f"{load.value.name}_next", self.elements.load_from(load, "column"))
        self.elements.early.emit(emitter)
        following = f"select(column >= start + {stride}, column - {stride}, columns)"  # before the first tile: none
        with src.while_("column < columns"):
            for load in loads:
                src.assign(load.value.name, f"{load.value.name}_next")
            src.assign("next_column", f"{index}({following if backwards else f'column + {stride}'})")
            for load in loads:
                src.assign(f"{load.value.name}_next", self.elements.load_from(load, "next_column"))
            with src.local_values():
                src.ready |= {load.value.name for load in loads}
                self._checked_or_full(lambda: emitter.tile(number, phase))
            src.assign("column", "next_column")

    # Rows in shared memory.

    def copy_to_smem(self) -> None:
        """Copy reread operands to shared memory, once; each thread waits only for its own elements."""
        offset, s, copies = 0, self.schedule, []
        for k in smem_copied_operands(self.kernel):
            dtype, load = self.kernel.operands[k].dtype, next(x for x in self.kernel.loads if x.operand == k)
            name = load.value.name
            self.elements.smem_offsets[name] = offset
            for prefix, tile in (("full_", FULL), ("", TILE)):
                self.src.bind(f"{prefix}copy_async_{name}", tile.copy_async(dtype.name, s.threads, offset))
            self.elements.bind_shared(load, TILE, name)
            copies.append(f"copy_async_{name}({self.index.bases[k]}, column, columns, smem)")
            offset += s.vectors * s.width * s.threads * dtype.itemsize
        self._through_smem(lambda: self.src.emit(*(f"{self.elements.prefix}{call}" for call in copies)))

    def wait_for_smem(self) -> None:
        self.src.emit(cp_async_wait_all())

    def _in_smem(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        emitter.begin_loop(phase)
        self._through_smem(lambda: emitter.tile(number, phase))

    def _through_smem(self, work: Callable[[], None]) -> None:
        """A loop over the columns; `smem` is where an iteration's tiles are in shared memory."""
        src, s = self.src, self.schedule
        each = sum(self.kernel.operands[k].dtype.itemsize for k in smem_copied_operands(self.kernel))
        src.assign("column", "start")
        src.assign("smem", smem_base())
        with src.while_("column < columns"):
            self._checked_or_full(work)
            src.assign("column", f"{self.index.index}(column + {s.tile_elements})")
            src.assign("smem", f"int32(smem + {s.vectors * s.width * s.threads * each})")

    def _checked_or_full(self, work: Callable[[], None]) -> None:
        """Work on a tile that is there as a whole, or else on one that checks what is there."""
        with self.src.if_else(self.index.full_tile()) as branches:
            for self.elements.tile, branch in zip((FULL, TILE), branches):
                with branch, self.src.local_values():
                    work()
