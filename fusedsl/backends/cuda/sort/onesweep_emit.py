"""Emits a onesweep radix sort: words with counts of digits, sweeps with grid barriers between, phases over ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Phase, Sort
from ..emit.phase_emitter import PhaseEmitter
from ..emit.source_builder import TILE, SourceBuilder, header
from ..rows.emit_early_gathers import EarlyGathers
from ..rows.emit_elements import RowElements
from ..rows.emit_index import RowIndex, SharedRows
from ..tile import Tile
from . import (
    add_counts,
    clear_counts,
    clear_states,
    clear_total,
    radix_sorter,
    ranked,
    store_words,
    sweep_digit,
)
from .emit import RowSort
from .onesweep_schedule import PADDING, READ_AHEAD, STATE_BYTES, RadixSortSchedule, counters, passes, word_bytes
from .sort_method import sort_of

ROW = ("row_words", "padded_columns", "buffer", "moves")  # where the words of a row are, and whether they have moved


def emit_radix_sort(kernel: KernelIR, schedule: RadixSortSchedule) -> str:
    """The generated file of a kernel whose rows are sorted digit by digit."""
    description = f"a radix sort; blocks of {schedule.threads} threads share a row, with a barrier after each sweep"
    one_by_one = tuple(replace(operand, access="element") for operand in kernel.operands)  # aligned or not
    src = SourceBuilder(replace(kernel, operands=one_by_one))
    PhaseEmitter(src, RadixRow(src, schedule)).emit()
    return src.text(header(kernel, description, ""), "Blocks share a row: sweep over its tiles once per digit.")


class RankedRow(RowSort):
    """The words of a row in global memory, and what phases over the ranks read of them."""

    def emit(self, sort: Sort, column: str) -> None:
        value = self.src.element(sort.key.name)
        self.src.emit(self.functions["store_row_words"]("row_words", value, column, "columns"))

    def define(self, sort: Sort, items: int) -> None:
        """The intrinsics of the sort."""
        src = self.src
        src.functions += ["", ""]
        threads = self.schedule.threads
        makes = radix_sorter(sort.key_dtype.name, sort.descending, threads, items, sort.has_positions)
        sorter = src.bind("sorter", makes, src.functions)
        self.bind(store_row_words=store_words(sorter, TILE), sweep_row=sweep_digit(sorter))
        self.bind(clear_block_counts=clear_counts(sorter), add_block_counts=add_counts(sorter))
        self.bind(clear_row_states=clear_states(sorter), clear_row_counts=clear_total(sorter))
        for part, value in (("values", sort.values), ("positions", sort.positions)):
            if value is not None:
                self.bind(**{f"ranked_{part}": ranked(sorter, part, READ_AHEAD)})
        for part in dict.fromkeys(part for part, _, _ in sort.rank_reads):
            self.bind(**{f"entry_{part}": ranked(sorter, part, 0)})
        src.bind("ranks", Tile(width=1, vectors=READ_AHEAD, step=threads, checks="v" * READ_AHEAD))

    def end(self, phase: Phase) -> None:
        """The row values that are elements of the order."""
        for part, given, value in phase.sort.rank_reads if phase.sort else ():
            rank = given if isinstance(given, int) else given.name
            self.src.assign(value.name, self.functions[f"entry_{part}"](*ROW, rank, "columns"))
            self.src.ready.add(value.name)

    def emit_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """A phase over the ranks, a tile of which each block takes in turn."""
        src, sort, index = self.src, sort_of(self.src.kernel), self.index
        assert sort is not None
        limit, values = self.limit_of(sort), (("values", sort.values), ("positions", sort.positions))
        ranked_names = self.provide(emitter, phase, sort)
        tile = self.schedule.threads * READ_AHEAD
        src.assign("rank", f"{index}({index}(block_in_row) * {tile} + thread_in_row)")
        with src.while_(f"rank < {limit}"):
            for part, value in values:
                if value is not None:
                    src.assign(value.name, self.functions[f"ranked_{part}"](*ROW, "rank", limit))
                    src.ready.add(value.name)
            self.work(number, phase, limit)
            src.assign("rank", f"{index}(rank + {index}(blocks_per_row) * {tile})")
        src.ready -= ranked_names


class RadixRow:
    """Layout of rows that are sorted: shares of a row for its blocks, row after row."""

    stores = stores_row = ""

    def __init__(self, src: SourceBuilder, schedule: RadixSortSchedule):
        self.src, self.schedule, self.index = src, schedule, RowIndex(src, schedule)
        first = "(thread_in_row == 0) & (block_in_row == 0)"
        self.elements = RowElements(self.index, EarlyGathers({}), store_predicate=first, prefetch=False)
        self.sort = RankedRow(src, schedule, self.index.bases)
        self.elements.take = self.sort.emit
        sort = sort_of(src.kernel)
        assert sort is not None
        self.order, self.shared = sort, SharedRows(self.index, counters(sort))

    @contextmanager
    def rows(self, emitter: PhaseEmitter) -> Iterator[None]:
        self.elements.define()
        self.sort.define(self.order, self.schedule.items)
        self.src.read_scalars()
        with self.shared.each():
            self._workspace_addresses()
            yield

    def _workspace_addresses(self) -> None:
        """Where the row's words are, the states of its tiles, and the counts of its digits."""
        src, sort, shift = self.src, self.order, self.schedule.tile.bit_length() - 1
        pair_bytes = 2 * (word_bytes(sort) + 4 * sort.has_positions)
        src.assign("tiles", f"int32((columns + {self.schedule.tile - 1}) >> {shift})")
        src.assign("padded_columns", f"int64((columns + {PADDING - 1}) & {-PADDING})")
        src.assign("room", f"int64(padded_columns * {pair_bytes} + int64(tiles) * {2 * STATE_BYTES})")
        src.assign("row_words", "workspace + int64(row_group) * room")
        src.assign("states", f"row_words + padded_columns * {pair_bytes}")
        src.assign("counts", f"semaphores + int64(row_group) * {4 * counters(sort)} + 8")  # behind those of the barrier

    def run_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        if phase.ranks:
            self.sort.emit_phase(emitter, number, phase)
            return
        functions = self.sort.functions
        if phase.sort is not None:
            self.src.emit(functions["clear_block_counts"]())
            self.src.emit(functions["clear_row_states"]("states", "block_in_row", "blocks_per_row", "tiles"))
        self._over_columns(emitter, number, phase)
        if phase.sort is not None:
            self.src.emit(functions["add_block_counts"]("counts"))
            self._sort(phase.sort)
            self.sort.end(phase)
        emitter.forget()

    def _over_columns(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """Tiles of the row, of which each block takes one in turn."""
        src, index, tile = self.src, self.index.index, self.index.stride
        emitter.begin_loop(phase)
        src.assign("column", f"{index}(start + {index}(block_in_row) * {tile})")
        with src.while_("column < columns"), src.local_values():
            emitter.tile(number, phase)
            src.assign("column", f"{index}(column + {index}(blocks_per_row) * {tile})")

    def _sort(self, sort: Sort) -> None:
        """The sweeps: after each one the blocks wait for all others."""
        src, functions = self.src, self.sort.functions
        self.shared.wait()
        src.emit("buffer = int32(0)", "moves = int32(0)", "digit = int32(0)")
        with src.while_(f"digit < {passes(sort)}"):
            share = ("columns", "digit", "counts", "states", "tiles", "block_in_row", "blocks_per_row")
            src.assign("moved", functions["sweep_row"]("row_words", "padded_columns", "buffer", "moves", *share))
            self.shared.wait()
            with src.if_("block_in_row == 0"):
                src.emit(functions["clear_row_counts"]("counts", "digit"))
            src.assign("buffer", "int32(buffer ^ moved)")
            src.assign("moves", "int32(moves + moved)")
            src.assign("digit", "int32(digit + 1)")
