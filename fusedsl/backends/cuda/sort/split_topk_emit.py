"""Emits a top-k of rows that several blocks share: the top k of each block's chunk, which the last block merges (split
top-k)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Phase, Sort
from ..emit.intrinsic import Named
from ..emit.phase_emitter import PhaseEmitter
from ..emit.source_builder import SourceBuilder, header
from ..rows.emit_early_gathers import EarlyGathers
from ..rows.emit_elements import RowElements
from ..rows.emit_index import RowIndex
from ..rows_and_columns import grid_dim
from ..scan.schedule import max_misalignment
from ..tile import is_last_block, udiv
from . import load_entries, store_run
from .emit import RowSort
from .split_topk_schedule import SplitTopKSchedule, entry_bytes


def emit_split_topk(kernel: KernelIR, schedule: SplitTopKSchedule) -> str:
    """The generated file of a kernel whose rows' best are found by several blocks."""
    description = f"a top-k; blocks of {schedule.threads} threads share a row, and the last one merges what they found"
    src = SourceBuilder(kernel)
    PhaseEmitter(src, SplitTopKRow(src, schedule)).emit()
    return src.text(
        header(kernel, description, ""), "Several blocks share a row, tile by tile, and combine their partial states."
    )


class SplitTopKRow:
    """Layout of rows whose top k several blocks find, each of a chunk."""

    stores = stores_row = ""  # no predicate: every thread stores

    def __init__(self, src: SourceBuilder, schedule: SplitTopKSchedule):
        self.src, self.schedule, self.index = src, schedule, RowIndex(src, schedule)
        self.elements = RowElements(self.index, EarlyGathers({}), prefetch=False)

    @property
    def sort(self) -> RowSort:
        return self.elements.sort

    @contextmanager
    def rows(self, emitter: PhaseEmitter) -> Iterator[None]:
        src, index = self.src, self.index.index
        self.elements.define()
        src.read_scalars()
        self.index.find_block(udiv(grid_dim(), "int32(count)"))
        src.assign("row_index", f"{index}(row_group)")
        self.index.find_row("row_index")
        self.index.find_columns()
        yield

    def run_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        if phase.ranks:
            self.sort.emit_phase(emitter, number, phase)
            return
        emitter.begin_loop(phase)
        self.sort.begin(phase)
        with self._over_share(phase):
            emitter.tile(number, phase)
        emitter.forget()
        assert phase.sort is not None
        self._merge(phase.sort)
        self.sort.end(phase)

    @contextmanager
    def _over_share(self, phase: Phase) -> Iterator[None]:
        """The tiles of a block, the same number of iterations for all its threads; a tile is loaded while the one
        before is sorted."""
        src, index, span = self.src, self.index.index, self.schedule.tile_elements
        src.assign("begin", f"{index}({index}(block_in_row) * {span})")
        src.assign("stride", f"{index}({index}(blocks_per_row) * {span})")
        src.assign("column", f"{index}(start + begin)")
        src.assign("tile_offset", f"{index}(0)")
        more = f"begin + tile_offset < columns + {max_misalignment(self.src.kernel, self.schedule.width)}"
        with self.elements.tiles_ahead(phase, more, "column + stride", "tile_offset + stride"):
            yield

    def _merge(self, sort: Sort) -> None:
        """The block's top k go to the workspace; the last block merges those of all."""
        src, s, functions = self.src, self.schedule, self.sort.functions
        size = entry_bytes(s, src.kernel)
        per_thread = s.width * s.vectors
        codec = Named("codec")
        store = src.bind("store_best", store_run(codec, sort.count), src.functions)
        load = src.bind("load_partials", load_entries(codec, per_thread, 1), src.functions)
        src.emit(functions["flush_topk"]("buffer"))
        src.assign("partials", f"workspace + int64(row_group) * int64(blocks_per_row) * {size * (sort.count or 1)}")
        src.emit(store("buffer", "partials", f"int64(block_in_row) * {sort.count}"))
        with src.if_(f"not {is_last_block('semaphores', 'row_group', 'blocks_per_row')}"):
            src.emit("return")
        src.assign("bound", functions["reset_topk"]("buffer"))
        src.assign("total", f"int64(blocks_per_row) * {sort.count}")
        src.assign("loaded", "int64(0)")
        with src.while_("loaded < total"):
            src.assign("entries", load("partials", "loaded + int64(thread_in_row)", "total"))
            src.assign("bound", functions["insert_topk"]("buffer", "entries", "bound", "loaded == 0"))
            src.assign("loaded", f"int64(loaded + {per_thread * s.threads})")
