"""Emits a selection by digits: two readings of a row with grid barriers, rounds over candidates, phases over ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Phase, Sort, Value
from ..emit.phase_emitter import PhaseEmitter
from ..emit.source_builder import TILE, SourceBuilder, header
from ..radix_select import (
    add_first_digits,
    add_next_digits,
    clear_digit_bins,
    clear_row_counters,
    clear_selection,
    collect_candidates,
    count_first_digits,
    count_next_digits,
    entry_of_rank,
    gather_candidates,
    locate_ranks,
    narrow_ranks,
    order_candidates,
    selector,
    shift_of_next,
)
from ..rows.emit_early_gathers import EarlyGathers
from ..rows.emit_elements import RowElements
from ..rows.emit_index import RowIndex, SharedRows
from ..scan.schedule import max_misalignment
from ..sort import columns_of, key_codec, load_entries, load_entry, load_entry_at, values_of
from ..sort.emit import THREAD_GROUP, RowSort
from ..sort.sort_method import sort_of
from ..tile import Tile
from .schedule import BITS, BUFFERS, HEADER, SelectSchedule, counters, entry_bytes, first_bins, rank_row_values, ranks

SHARE = ("block_in_row", "blocks_per_row")


def emit_selection(kernel: KernelIR, schedule: SelectSchedule) -> str:
    """The generated file of a kernel that selects elements of rows by their digits."""
    description = f"a selection; blocks of {schedule.threads} threads share a row, with a barrier after each digit"
    src = SourceBuilder(kernel)
    PhaseEmitter(src, SelectedRow(src, schedule)).emit()
    return src.text(header(kernel, description, ""), "Blocks share a row: count a digit, gather candidates.")


class SelectedOrder:
    """The candidates of a row, and what phases over the ranks read of them."""

    def __init__(self, src: SourceBuilder, row: RowSort):
        self.src, self.row, self.index, self.functions = src, row, row.index, row.functions

    def define(self, sort: Sort, schedule: SelectSchedule) -> None:
        """The intrinsics of the selection."""
        src, wanted = self.src, ranks(sort)
        src.functions += ["", ""]
        codec = src.bind("codec", key_codec(sort.key.dtype.name, sort.descending, TILE, THREAD_GROUP), src.functions)
        makes = selector(codec, sort.count or 0, len(wanted))
        chosen = src.bind("selector", makes, src.functions)
        self.row.bind(clear_state=clear_selection(chosen), count_row_keys=count_first_digits(chosen))
        self.row.bind(add_row_keys=add_first_digits(chosen), find_ranks=locate_ranks(chosen))
        self.row.bind(gather_row=gather_candidates(chosen), clear_row_counts=clear_row_counters(chosen))
        self.row.bind(clear_bins=clear_digit_bins(chosen))
        self.row.bind(count_candidates=count_next_digits(chosen))
        self.row.bind(add_digit_bins=add_next_digits(chosen), narrow_found=narrow_ranks(chosen))
        self.row.bind(next_shift=shift_of_next(chosen), collect_kept=collect_candidates(chosen))
        self.row.bind(order_kept=order_candidates(chosen))
        for name, function in (("values", values_of), ("positions", columns_of)):
            self.row.bind(**{f"entry_{name}": function(codec, 0)})
        if sort.count is not None:
            each = -(-sort.count // schedule.threads)
            self.row.bind(load_ranked_entries=load_entries(codec, each))
            self.row.bind(ranked_values=values_of(codec, each), ranked_positions=columns_of(codec, each))
            src.bind("ranks", Tile(width=1, vectors=each, step=schedule.threads, checks="v" * each))
        for k, rank in enumerate(rank_row_values(sort)):
            if sort.count is None:
                load = entry_of_rank(chosen, k)
            else:  # the candidates in order are the first of the row
                load = load_entry_at(codec) if isinstance(rank, Value) else load_entry(codec, rank)
            self.row.bind(**{f"load_rank_{k}": load})

    def count(self, sort: Sort, column: str) -> None:
        """The first digits of a tile are counted."""
        self.src.emit(self.functions["count_row_keys"](self.src.element(sort.key.name), column, "columns"))

    def gather(self, sort: Sort, column: str) -> None:
        """The elements of a tile that may be wanted go to the candidates."""
        value = self.src.element(sort.key.name)
        self.src.emit(self.functions["gather_row"](value, column, "columns", "candidates"))

    def read(self, sort: Sort) -> None:
        """What a thread holds of the first elements, and the row values that are elements of the order."""
        src, wanted = self.src, rank_row_values(sort)
        if sort.count is not None:
            first = f"{self.index}(thread_in_row)"
            src.assign("ranked", self.functions["load_ranked_entries"]("ordered", first, self.row.limit_of(sort)))
            self.row.read_ranked(sort)
        for part, rank, value in sort.rank_reads:
            k = wanted.index(rank)
            given = ("ordered", rank.name) if sort.count is not None and isinstance(rank, Value) else ("ordered",)
            src.assign(f"entry_at_{k}", self.functions[f"load_rank_{k}"](*given))
            src.assign(value.name, self.functions[f"entry_{part}"](f"entry_at_{k}"))
            src.ready.add(value.name)

    def emit_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """A phase over the ranks, which every block has; the first one stores."""
        sort = sort_of(self.src.kernel)
        assert sort is not None
        self.row.provide(emitter, phase, sort)
        self.src.assign("rank", f"{self.index}(thread_in_row)")
        self.row.work(number, phase, self.row.limit_of(sort), "block_in_row == 0")


class SelectedRow:
    """Layout of rows of which elements are selected: shares of a row for its blocks, row after row."""

    stores = stores_row = ""

    def __init__(self, src: SourceBuilder, schedule: SelectSchedule):
        self.src, self.schedule, self.index = src, schedule, RowIndex(src, schedule)
        first = "(thread_in_row == 0) & (block_in_row == 0)"
        self.elements = RowElements(self.index, EarlyGathers({}), store_predicate=first, prefetch=False)
        self.sort = SelectedOrder(src, self.elements.sort)
        sort = sort_of(src.kernel)
        assert sort is not None
        self.order, self.shared = sort, SharedRows(self.index, counters(sort))

    @contextmanager
    def rows(self, emitter: PhaseEmitter) -> Iterator[None]:
        self.elements.define()
        self.sort.define(self.order, self.schedule)
        self.src.read_scalars()
        with self.shared.each():
            self._find_room()
            yield

    def _find_room(self) -> None:
        """Where the candidates of the row are, and the counts of its digits."""
        src, size = self.src, entry_bytes(self.order)
        src.assign("room", f"int64((int64(columns) + {self.schedule.limit}) * {size})")
        src.assign("candidates", "workspace + int64(row_group) * room")
        src.assign("collected", f"candidates + int64(columns) * {size}")
        src.assign("cursors", f"semaphores + int64(row_group) * {4 * counters(self.order)} + 8")  # behind the barrier's
        src.assign("counts", f"cursors + {4 * HEADER - 8}")
        src.assign("digit_counts", f"counts + {4 * first_bins(self.order)}")

    def run_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        if phase.ranks:
            self.sort.emit_phase(emitter, number, phase)
            return
        if phase.sort is None:
            self._over_columns(emitter, number, phase)
            emitter.forget()
            return
        src, functions = self.src, self.sort.functions
        src.emit(functions["clear_state"]())
        self._read(emitter, number, phase, self.sort.count)
        src.emit(functions["add_row_keys"]("counts"))
        self.shared.wait()
        wanted = [self._rank(rank) for rank in ranks(self.order)]
        src.assign("total", functions["find_ranks"]("counts", "cursors", "columns", *wanted))
        self._read(emitter, number, phase, self.sort.gather)
        self.shared.wait()
        with src.if_("block_in_row == 0"):
            src.emit(functions["clear_row_counts"]("cursors", "int32(1)"))
            src.emit(functions["clear_row_counts"]("counts", f"int32({first_bins(self.order)})"))
        self._narrow()
        src.assign("ordered", functions["order_kept"]("candidates", "total"))
        self.sort.read(self.order)

    def _rank(self, rank: object) -> str:
        return rank.name if isinstance(rank, Value) else f"int64({rank})"

    def _read(self, emitter: PhaseEmitter, number: int, phase: Phase, take: Callable[[Sort, str], None]) -> None:
        """A reading of the row, whose elements are counted or gathered."""
        self.elements.take = take
        with self.src.local_values():
            self._over_columns(emitter, number, phase)
        emitter.forget()

    def _over_columns(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """The tiles of a block, as many turns for all its threads; a tile is loaded while the one before is counted."""
        src, index, span = self.src, self.index.index, self.schedule.tile_elements
        emitter.begin_loop(phase)
        src.assign("begin", f"{index}({index}(block_in_row) * {span})")
        src.assign("stride", f"{index}({index}(blocks_per_row) * {span})")
        src.assign("column", f"{index}(start + begin)")
        src.assign("tile_offset", f"{index}(0)")
        more = f"begin + tile_offset < columns + {max_misalignment(src.kernel, self.schedule.width)}"
        with src.local_values(), self.elements.tiles_ahead(phase, more, "column + stride", "tile_offset + stride"):
            emitter.tile(number, phase)

    def _narrow(self) -> None:
        """Digit after digit, until a block can sort what is left of the candidates."""
        src, functions, sort = self.src, self.sort.functions, self.order
        bits = sort.key.dtype.compute.bits
        src.assign("shift", f"int32({bits + 32 - first_bins(sort).bit_length() + 1})")
        src.assign("candidates_there", "total")
        src.assign("turn", "int32(0)")
        with src.while_(f"total > {self.schedule.limit}"):
            src.emit(functions["clear_bins"]())
            src.emit(functions["count_candidates"]("candidates", "candidates_there", "shift", *SHARE))
            src.emit(functions["add_digit_bins"]("digit_counts", "turn", "block_in_row"))
            self.shared.wait()
            src.assign("total", functions["narrow_found"]("digit_counts", "turn", "shift"))
            src.assign("shift", functions["next_shift"]("shift"))
            src.assign("turn", "int32(turn + 1)")
        with src.if_("turn > 0"):
            where = ("collected", "cursors + 4", *SHARE)
            src.emit(functions["collect_kept"]("candidates", "candidates_there", "shift", *where))
            self.shared.wait()
            with src.if_("block_in_row == 0"):
                src.emit(functions["clear_row_counts"]("cursors + 4", "int32(1)"))
                number = BUFFERS * len(ranks(sort)) << BITS
                src.emit(functions["clear_row_counts"]("digit_counts", f"int32({number})"))
            src.assign("candidates", "collected")
