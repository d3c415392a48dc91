"""Emits sorts and top-k of a row kernel, and the phases over the sorted positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....kernel_ir.phase import Phase, Sort, Value
from ..emit.intrinsic import Binding, Function, Named
from ..emit.phase_emitter import PhaseEmitter
from ..emit.source_builder import TILE, SourceBuilder
from ..rows.schedule import RowSchedule
from ..scan.schedule import max_misalignment
from ..tile import ThreadGroupIntrinsics, Tile, TileIntrinsics, reduce_tile
from . import (
    block_radix,
    columns_of,
    flush,
    insert,
    key_codec,
    load_entries,
    load_entry,
    load_entry_at,
    load_sorted,
    load_sorted_entry,
    load_sorted_entry_at,
    make_entries,
    merge_runs,
    radix_room,
    reset,
    select_best,
    sort_row,
    sort_smem,
    sort_tile,
    sort_warp,
    store_run,
    topk_buffer,
    values_of,
)
from .schedule import SortSchedule
from .sort_method import SortMethod, sort_of

THREAD_GROUP = ThreadGroupIntrinsics("thread_group")
RANKS = TileIntrinsics("ranks")  # of sorted positions


@dataclass
class RowSort:
    """The sort of a row, and the phases over its sorted positions; `bases` say where the row begins in operands."""

    src: SourceBuilder
    schedule: RowSchedule
    bases: Mapping[int, str]

    def __post_init__(self) -> None:
        self.index, self.functions = self.src.kernel.index, dict[str, Function]()

    @property
    def method(self) -> SortMethod:
        """How the kernel's order is found."""
        assert isinstance(self.schedule, SortSchedule)
        return self.schedule.sort_method

    def bind(self, **bindings: Binding[Function]) -> None:
        """Define intrinsics of the order, by name."""
        for name, function in zip(bindings, self.src.bind_several(bindings, self.src.functions)):
            self.functions[name] = function

    def _define(self, sort: Sort) -> None:
        """The intrinsics of the kernel's order."""
        src, method = self.src, self.method
        src.functions += ["", ""]
        wide = {"wide": True} if method.wide else {}
        key_type = key_codec(sort.key.dtype.name, sort.descending, TILE, THREAD_GROUP, **wide)
        codec = src.bind("codec", key_type, src.functions)
        if method.method == "digits":
            self._define_digits(sort, codec)
        else:
            self.bind(to_entries=make_entries(codec))
            self._define_entries(sort, codec)
        for name, function in (("values", values_of), ("positions", columns_of)):
            self.bind(**{f"ranked_{name}": function(codec, method.per_thread or 1)})
            self.bind(**{f"entry_{name}": function(codec, 0)})
        vectors = method.per_thread or 1
        src.bind("ranks", Tile(width=1, vectors=vectors, step=self.schedule.threads, checks="v" * vectors))

    def _define_digits(self, sort: Sort, codec: Named) -> None:
        """The intrinsics of a row that a block sorts by digits."""
        method = self.method
        narrow = (sort.key_dtype.name,) if sort.key_dtype is not sort.key.dtype else ()
        makes = block_radix(codec, method.size, sort.has_positions, *narrow)
        sorter = self.src.bind("sorter", makes, self.src.functions)
        self.bind(sort_buffer=radix_room(sorter), sort_block=sort_row(sorter))
        self.bind(load_ranked_entries=load_sorted(sorter, method.per_thread))
        for rank in _ranks(sort):
            load = load_sorted_entry(sorter, rank) if isinstance(rank, int) else load_sorted_entry_at(sorter)
            self.bind(**{f"load_{_entry(rank)}": load})

    def _define_entries(self, sort: Sort, codec: Named) -> None:
        """The intrinsics of entries that are compared."""
        src, method, ranks = self.src, self.method, _ranks(sort)
        if method.method == "rounds":
            picked = tuple(rank for rank in ranks if isinstance(rank, int))  # ranks are computed of whole orders
            self.bind(select_best_entries=select_best(codec, sort.count, method.per_thread, picked))
            return
        groups = (self.schedule.rows,) if self.schedule.rows > 1 else ()
        self.bind(sort_buffer=sort_smem(codec, method.size, *groups))
        if method.method == "network":
            self.bind(sort_entries=sort_warp(codec, method.size))
        if method.method == "choose":
            buffer = topk_buffer(codec, sort.count, method.keep, method.size, method.limit)
            topk = src.bind("topk", buffer, src.functions)
            self.bind(reset_topk=reset(topk), insert_topk=insert(topk), flush_topk=flush(topk))
        if method.method == "merge":
            self.bind(sort_entries=sort_tile(codec, method.size))
            self.bind(store_sorted_run=store_run(codec, method.size), merge_entries=merge_runs(codec, method.size))
        space = (1,) if method.method == "merge" else ()
        self.bind(load_ranked_entries=load_entries(codec, method.per_thread or 1, *space))
        for rank in ranks:
            load = load_entry(codec, rank, *space) if isinstance(rank, int) else load_entry_at(codec, *space)
            self.bind(**{f"load_{_entry(rank)}": load})

    def begin(self, phase: Phase) -> None:
        """What stands before the loop that gathers an order."""
        if phase.sort is None:
            return
        self._define(phase.sort)
        src, method = self.src, self.method
        src.assign("buffer", self.functions["sort_buffer"]())
        if method.method == "choose":
            src.assign("bound", self.functions["reset_topk"]("buffer"))
            return
        shift = method.size.bit_length() - 1
        # as far as the loop over the row goes, in runs
        reach = max_misalignment(src.kernel, self.schedule.width) + method.size - 1
        src.assign("slots", f"int64(((columns + {reach}) >> {shift}) << {shift})")
        bytes_each = 16 if phase.sort.key.dtype.bits == 64 or method.wide else 8
        row = "row0" if src.kernel.row_axes == 1 else "row"
        src.assign("work", f"workspace + int64({row}) * slots * {2 * bytes_each}")

    def emit(self, sort: Sort, column: str) -> None:
        """The elements of a phase go into the order, once its bodies have run."""
        src, method, value = self.src, self.method.method, self.src.element(sort.key.name)
        if self.schedule.resident:
            self._define(sort)
        functions = self.functions
        if method == "digits":
            src.assign("buffer", functions["sort_buffer"]())
            src.emit(functions["sort_block"]("buffer", value, column, "columns"))
            self._take(sort, "buffer")
            return
        src.assign("entries", functions["to_entries"](value, column, "columns"))
        match method:
            case "rounds":
                names = ["ranked", *(_entry(rank) for rank in _ranks(sort))]
                src.assign(
                    f"{', '.join(names)}{',' if len(names) == 1 else ''}", functions["select_best_entries"]("entries")
                )
                self._read_ranks(sort)
            case "network":
                src.assign("buffer", functions["sort_buffer"]())
                src.emit(functions["sort_entries"]("buffer", "entries"))
                self._take(sort, "buffer")
            case "choose":
                src.assign("bound", functions["insert_topk"]("buffer", "entries", "bound", "tile_offset == 0"))
            case "merge":
                src.emit(functions["sort_entries"]("buffer", "entries"))
                src.emit(functions["store_sorted_run"]("buffer", "work", "tile_offset"))

    def end(self, phase: Phase) -> None:
        """What stands behind the loop that gathered an order."""
        if phase.sort is None:
            return
        if self.method.method == "choose":
            self.src.emit(self.functions["flush_topk"]("buffer"))
            self._take(phase.sort, "buffer")
        else:
            self.src.assign("merged", self.functions["merge_entries"]("work", "slots"))
            self._take(phase.sort, "merged")

    def limit_of(self, sort: Sort) -> str:
        """How many ranks of the order there are."""
        return f"{self.index}({'columns' if sort.count is None else sort.count})"

    def _take(self, sort: Sort, buffer: str) -> None:
        """The ranks that a thread holds, and those that are row values."""
        if self.method.per_thread:
            limit, first = self.limit_of(sort), f"{self.index}(thread_in_row)"
            self.src.assign("ranked", self.functions["load_ranked_entries"](buffer, first, limit))
        for rank in _ranks(sort):
            given = () if isinstance(rank, int) else (rank.name,)
            self.src.assign(_entry(rank), self.functions[f"load_{_entry(rank)}"](buffer, *given))
        self._read_ranks(sort)

    def _read_ranks(self, sort: Sort) -> None:
        for part, rank, value in sort.rank_reads:
            self.src.assign(value.name, self.functions[f"entry_{part}"](_entry(rank)))
            self.src.ready.add(value.name)
        if self.method.per_thread:
            self.read_ranked(sort)

    def read_ranked(self, sort: Sort) -> None:
        """The values and positions of the ranks that a thread holds."""
        for part, value in (("values", sort.values), ("positions", sort.positions)):
            if value is not None:
                self.src.assign(value.name, self.functions[f"ranked_{part}"]("ranked"))
                self.src.ready.add(value.name)

    def provide(self, emitter: PhaseEmitter, phase: Phase, sort: Sort) -> set[str]:
        """Provide what a phase over the ranks of the order reads beside it; the names of the order's own elements."""
        ranked = {v.name for v in (sort.values, sort.positions) if v is not None}
        for value in phase.element.args:
            if value.name not in ranked:
                emitter.provide(value)
        return ranked

    def emit_phase(self, emitter: PhaseEmitter, number: int, phase: Phase) -> None:
        """A phase over the ranks of the order: those that a thread holds, or a loop over all."""
        src, sort = self.src, sort_of(self.src.kernel)
        assert sort is not None
        limit, ranked = self.limit_of(sort), self.provide(emitter, phase, sort)
        src.assign("rank", f"{self.index}(thread_in_row)")
        if self.method.per_thread:
            self.work(number, phase, limit)
            return
        with src.while_(f"rank < {limit}"):
            src.assign("ranked", self.functions["load_ranked_entries"]("merged", "rank", limit))
            self.read_ranked(sort)
            self.work(number, phase, limit)
            src.assign("rank", f"{self.index}(rank + {self.schedule.threads})")
        src.ready -= ranked

    def work(self, number: int, phase: Phase, limit: str, stores_if: str = "") -> None:
        """The body, the stores (of blocks where `stores_if` holds) and the folds of the ranks at `rank`."""
        src, kernel, stores = self.src, self.src.kernel, []
        src.apply(RANKS.elementwise, f"phase_{number}", phase.element)
        for k, store in enumerate(phase.stores):
            operand = kernel.operands[store.operand]
            write = src.bind(f"store_{number}_{k}", RANKS.store(operand.dtype.name, operand.rank))
            stride = [src.names.stride(store.operand, kernel.axes)] if operand.rank == "s" else []
            value = src.element(store.value)
            stores.append(write(self.bases[store.operand], "rank", value, "rank", limit, *stride))
        with src.if_("in_bounds" if self.schedule.rows > 1 else stores_if):
            src.emit(*stores)
        for k, use in enumerate(phase.folds):
            name = f"ranks_{number}_{use.name}{f'_{k}' if k else ''}"
            op = src.reduce_op(use, name)
            bindings = {f"reduce_{name}": reduce_tile(RANKS, op), f"all_reduce_{name}": THREAD_GROUP.all_reduce(op)}
            reduce, all_reduce = src.bind_several(bindings, src.functions)
            src.unpack(use, all_reduce(reduce(*src.lifted(use), "rank", limit)))


def _ranks(sort: Sort) -> tuple[int | Value, ...]:
    """The ranks of the order that are row values."""
    return tuple(dict.fromkeys(rank for _, rank, _ in sort.rank_reads))


def _entry(rank: int | Value) -> str:
    """The variable of the entry at a rank."""
    return f"entry_at_{rank if isinstance(rank, int) else rank.name}"
