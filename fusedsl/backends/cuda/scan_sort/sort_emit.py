"""Emits sorts and top-k of a row kernel, and the phases over the sorted positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.phase import Phase, Selection
from ..emit.source_text import indented
from .scan_schedule import max_misalignment
from .sort_method import SortMethod, sort_of
from .sort_schedule import SortSchedule

if TYPE_CHECKING:
    from ..rows.emit import RowEmitter


def sort_method_of(writer: RowEmitter) -> SortMethod:
    """How the kernel's order is found."""
    assert isinstance(writer.schedule, SortSchedule)
    return writer.schedule.sort_method


def _index(writer: RowEmitter) -> str:
    return writer.kernel.index


def define_key_codec(writer: RowEmitter, select: Selection) -> None:
    """The intrinsics of the kernel's order."""
    plan, rank, add = writer.schedule, sort_method_of(writer), writer.scope.functions.append
    add("")
    add("")
    add(f'ordered = key_codec("{select.key.dtype.name}", {select.descending}, tile, thread_group)')
    add("enter_entries = make_entries(ordered)")
    if rank.method == "rounds":
        places = tuple(dict.fromkeys(place for _, place, _ in select.places))
        add(f"best_entries = select_best(ordered, {select.count}, {rank.per_thread}, {places})")
    else:
        add(f"order_room = sort_smem(ordered, {rank.size})")
    if rank.method in ("sort", "merge"):
        add(f"sort_entries = sort_tile(ordered, {rank.size})")
    if rank.method == "choose":
        add(f"chosen = topk_buffer(ordered, {select.count}, {rank.keep}, {rank.size}, {rank.limit})")
        add("reset_choice, push_choice, settle_choice = reset(chosen), insert(chosen), flush(chosen)")
    if rank.method == "merge":
        add(f"keep_entries, merge_entries = store_run(ordered, {rank.size}), merge_runs(ordered, {rank.size})")
    space = ", 1" if rank.method == "merge" else ""
    if rank.method != "rounds":
        add(f"take_entries = load_entries(ordered, {rank.per_thread or 1}{space})")
        for _, place, _ in select.places:
            if (line := f"pick_{place} = load_entry(ordered, {place}{space})") not in writer.scope.functions:
                add(line)
    for name, function in (("values", "values_of"), ("positions", "columns_of")):
        add(f"ranked_{name} = {function}(ordered, {rank.per_thread or 1})")
        add(f"one_{name} = {function}(ordered, 0)")
    checks = "v" * (rank.per_thread or 1)
    writer.scope.top.append(
        f'ranks = Tile(width=1, vectors={rank.per_thread or 1}, step={plan.threads}, checks="{checks}")'
    )


def begin_sort(writer: RowEmitter, phase: Phase) -> None:
    """What stands before the loop that gathers an order."""
    if phase.select is None:
        return
    define_key_codec(writer, phase.select)
    rank = sort_method_of(writer)
    writer.code.append("room = order_room()")
    if rank.method == "choose":
        writer.code.append("bound = reset_choice(room)")
        return
    size, shift = rank.size, rank.size.bit_length() - 1
    reach = (
        max_misalignment(writer.kernel, writer.schedule.width) + size - 1
    )  # as far as the loop over the row goes, in runs
    writer.code.append(f"slots = int64(((columns + {reach}) >> {shift}) << {shift})")
    bytes_each = 16 if phase.select.key.dtype.bits == 64 else 8
    row = "row0" if writer.kernel.row_axes == 1 else "row"
    writer.code.append(f"work = workspace + int64({row}) * slots * {2 * bytes_each}")


def emit_sort(writer: RowEmitter, phase: Phase) -> None:
    """The elements of a phase go into the order, once its bodies have run."""
    select = phase.select
    if select is None:
        return
    rank, value = sort_method_of(writer), writer.scope.element(select.key.name)
    column = "start" if writer.schedule.resident else "column"
    if rank.method in ("rounds", "sort"):
        define_key_codec(writer, select)
    writer.code.append(f"entries = enter_entries({value}, {column}, columns)")
    match rank.method:
        case "rounds":
            places = dict.fromkeys(place for _, place, _ in select.places)
            names = ["ranked", *(f"place_{place}" for place in places)]
            writer.code.append(f"{', '.join(names)}{',' if len(names) == 1 else ''} = best_entries(entries)")
            _read_places(writer, select)
        case "sort":
            writer.code.append("room = order_room()")
            writer.code.append("sort_entries(room, entries)")
            _take(writer, select, "room")
        case "choose":
            writer.code.append("bound = push_choice(room, entries, bound, at == 0)")
        case "merge":
            writer.code.append("sort_entries(room, entries)")
            writer.code.append("keep_entries(room, work, at)")


def end_sort(writer: RowEmitter, phase: Phase) -> None:
    """What stands behind the loop that gathered an order."""
    if phase.select is None:
        return
    if sort_method_of(writer).method == "choose":
        writer.code.append("settle_choice(room)")
        _take(writer, phase.select, "room")
    else:
        writer.code.append("merged = merge_entries(work, slots)")
        _take(writer, phase.select, "merged")


def _limit(select: Selection) -> str:
    return "columns" if select.count is None else str(select.count)


def _take(writer: RowEmitter, select: Selection, room: str) -> None:
    """The places that a thread holds, and those that are row values."""
    index = _index(writer)
    if sort_method_of(writer).per_thread:
        writer.code.append(f"ranked = take_entries({room}, {index}(thread_in_row), {index}({_limit(select)}))")
    for place in dict.fromkeys(place for _, place, _ in select.places):
        writer.code.append(f"place_{place} = pick_{place}({room})")
    _read_places(writer, select)


def _read_places(writer: RowEmitter, select: Selection) -> None:
    for part, place, value in select.places:
        writer.code.append(f"{value.name} = one_{part}(place_{place})")
        writer.scope.ready.add(value.name)
    if sort_method_of(writer).per_thread:
        _read_ranked(writer, select)


def _read_ranked(writer: RowEmitter, select: Selection) -> None:
    for part, value in (("values", select.values), ("positions", select.positions)):
        if value is not None:
            writer.code.append(f"{value.name} = ranked_{part}(ranked)")
            writer.scope.ready.add(value.name)


def emit_sorted_phase(writer: RowEmitter, number: int, phase: Phase) -> None:
    """A phase over the places of the order: those that a thread holds, or a loop over all."""
    select, index = sort_of(writer.kernel), _index(writer)
    assert select is not None
    limit = f"{index}({_limit(select)})"
    given = {v.name for v in (select.values, select.positions) if v is not None}
    for value in phase.element.args:
        if value.name not in given:
            writer.provide(value)
    if sort_method_of(writer).per_thread:
        writer.code.append(f"rank = {index}(thread_in_row)")
        _work(writer, number, phase, limit)
        return
    outside, writer.scope.code = writer.scope.code, []
    writer.code.append(f"ranked = take_entries(merged, rank, {limit})")
    _read_ranked(writer, select)
    _work(writer, number, phase, limit)
    writer.code.append(f"rank = {index}(rank + {writer.schedule.threads})")
    inside, writer.scope.code = writer.scope.code, outside
    writer.code.extend([f"rank = {index}(thread_in_row)", f"while rank < {limit}:", *indented(inside)])
    writer.scope.ready -= given


def _work(writer: RowEmitter, number: int, phase: Phase, limit: str) -> None:
    """The body, the stores and the folds of the places at `rank`."""
    scope = writer.scope
    scope.map_plain(f"phase_{number}", phase.element, "ranks")
    stores = []
    for place, store in enumerate(phase.stores):
        operand, name = writer.kernel.operands[store.operand], f"store_{number}_{place}"
        scope.top.append(f'{name} = ranks.store("{operand.dtype.name}", "{operand.rank}")')
        stride = f", {scope.names.stride(store.operand, writer.kernel.axes)}" if operand.rank == "s" else ""
        value = scope.element(store.value)
        stores.append(f"{name}({writer.bases[store.operand]}, rank, {value}, rank, {limit}{stride})")
    scope.code.extend(["if in_bounds:", *indented(stores)] if stores and writer.schedule.rows > 1 else stores)
    for k, use in enumerate(phase.folds):
        name = f"ranks_{number}_{use.name}{f'_{k}' if k else ''}"
        writer.define_reduce_op(use, name)
        intrinsics = f"reduce_tile(ranks, reduction_{name}), thread_group.all_reduce(reduction_{name})"
        scope.functions.append(f"reduce_{name}, all_reduce_{name} = {intrinsics}")
        lifted = ", ".join(scope.element(value.name) for value in use.inputs)
        states = ", ".join(value.name for value in use.accumulators)
        scope.code.append(f"{states} = all_reduce_{name}(reduce_{name}({lifted}, rank, {limit}))")
        scope.ready |= {value.name for value in use.accumulators}
