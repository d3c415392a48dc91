"""Sorts and top-k of rows as text: insertion of short rows and of the best few, radix sort, loops over ranks."""

from __future__ import annotations

from math import prod

from ...ir.types import BOOL, INT64, UINT8, DType
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Phase, Sort
from ..cuda.sort.sort_method import sort_of
from . import radix_sort, reduce
from .core_time import MAX_TOP_K
from .launch_stages import LibrarySort
from .roles import ScratchArray, ValueRoles
from .source_text import indented, store_line, times

BLOCK = 64  # ranks that are reduced serially
LONG, SHARE = 1 << 16, 16  # columns of a row, and for each of the best, from which on NumPy selects those
PAIR_BITS = 32  # of a key, and of a column
SHORT = 40  # columns at most of a row that is sorted by insertion


class PairSort(Sort):
    """An order of positions alone that sorts integers: an element's key in the high bits, its column in the low ones.

    No two are equal, so that a sort that keeps no order of equals finds the stable order.
    """


def packs_pairs(order: Sort) -> bool:
    """Whether an order is of positions alone, and keys and columns fit one integer."""
    valued = order.values is not None or any(part == "values" for part, _, _ in order.rank_reads)
    return order.has_positions and not valued and order.key.dtype.bits <= PAIR_BITS


def arrays(kernel: KernelIR) -> list[ScratchArray]:
    """Scratch for (element, column): of the top k, or twice the row; a pass reads one half and writes the other."""
    sort = sort_of(kernel)
    if sort is None:
        return []
    dtype = scratch_dtype(sort.key.dtype)
    if is_top_k(sort):
        return [ScratchArray("order", dtype, str(sort.count)), ScratchArray("position", INT64, str(sort.count))]
    arrays = [ScratchArray("order", dtype, "2 * columns"), ScratchArray("tally", INT64, str(radix_sort.bins(dtype)))]
    return [*arrays, ScratchArray("position", INT64, "2 * columns")] if sort.has_positions else arrays


def is_top_k(sort: Sort) -> bool:
    return sort.count is not None and sort.count <= MAX_TOP_K


def scratch_dtype(d: DType) -> DType:
    return UINT8 if d is BOOL else d


def row_sort(kernel: KernelIR, extents: tuple[int, ...]) -> LibrarySort | None:
    """The sort of a kernel's rows in the workspace, if they are long and it is of values alone, or of positions alone;
    else None."""
    order, first = sort_of(kernel), kernel.phases[0]
    columns = prod(extents[kernel.row_axes :])
    if order is None or is_top_k(order) or columns <= SHORT:
        return None
    few = order.count is not None and columns >= max(LONG, SHARE * order.count)
    pairs = packs_pairs(order) and not few
    if order.has_positions and not few and not pairs:
        return None
    others = (first.stores, first.folds, first.scans, first.column_reductions, first.tile_phases)
    if first.sort is None or any(others) or ValueRoles(kernel).scratch_values:
        return None
    if pairs:
        return LibrarySort(INT64.name, columns, descending=False)
    count = order.count if few and order.count is not None else 0
    return LibrarySort(scratch_dtype(order.key.dtype).name, columns, order.descending, count=count)


def row_sort_operand(kernel: KernelIR, extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> int | None:
    """The operand that holds the rows in order, if they are contiguous there and the kernel stores nothing else."""
    order, sorts, ranked = sort_of(kernel), row_sort(kernel, extents), kernel.phases[1:]
    if sorts is None or sorts.count or order is None or order.values is None or len(ranked) != 1 or not ranked[0].ranks:
        return None
    rows, stores = ranked[0].row_stores or kernel.phases[0].row_stores, ranked[0].stores
    if rows or len(stores) != 1 or stores[0].value != order.values.name or order.count is not None or ranked[0].folds:
        return None
    k, lines = stores[0].operand, list(zip(extents[: kernel.row_axes], strides[stores[0].operand]))
    steps = [prod(extents[axis + 1 :]) for axis in range(kernel.row_axes)]
    whole = all(n == 1 or step == wanted for (n, step), wanted in zip(lines, steps))
    alike = kernel.operands[k].dtype.name == sorts.dtype and strides[k][-1:] == (1,)
    return k if whole and alike else None


def init_top_k(phase: Phase) -> list[str]:
    """Reset the number of elements of the top k."""
    return ["filled = 0"] if phase.sort and is_top_k(phase.sort) else []


def store_element(phase: Phase, index: str) -> list[str]:
    """Store an element for the sort, or insert it into the top k."""
    sort = phase.sort
    if sort is None:
        return []
    name = sort.key.name
    value = f"uint8({name})" if sort.key.dtype is BOOL else name
    if isinstance(sort, PairSort):
        value = f"{'descending' if sort.descending else 'ascending'}_pair({value}, {index} - row * columns)"
    return _insert_top_k(sort, value, index) if is_top_k(sort) else [reduce.put("order", index, value)]


def _insert_top_k(sort: Sort, value: str, index: str) -> list[str]:
    """Insert an element into the top k if it comes before the last of them; later ones are shifted."""
    count = sort.count
    move = [
        reduce.put("order", "spot", reduce.get("order", "spot - 1")),
        reduce.put("position", "spot", reduce.get("position", "spot - 1")),
        "spot = spot - 1",
        "ahead = False",
        "if spot > 0:",
        *indented([f"old = {reduce.get('order', 'spot - 1')}", f"ahead = {_before(sort)}"]),
    ]
    insert = [
        f"spot = smaller(filled, {count} - 1)",
        f"filled = smaller(filled + 1, {count})",
        "ahead = False",
        "if spot > 0:",
        *indented([f"old = {reduce.get('order', 'spot - 1')}", f"ahead = {_before(sort)}"]),
        "while ahead:",
        *indented(move),
        reduce.put("order", "spot", "new"),
        reduce.put("position", "spot", index),
    ]
    wanted = [f"wanted = filled < {count}", f"if filled == {count}:"]
    wanted += indented([f"old = {reduce.get('order', f'{count} - 1')}", f"wanted = {_before(sort)}"])
    return [f"new = {value}", *wanted, "if wanted:", *indented(insert)]


def sort_row(phase: Phase) -> list[str]:
    """Sort the row, with the result at `source`; then load the ranks that are row values."""
    sort = phase.sort
    if sort is None:
        return []
    if is_top_k(sort):
        return ["source = 0", *read_row_values(sort)]
    insert = _insert(sort)
    short = ["moves = 0", "for spot in range(1, columns):", *indented(insert)]
    lines = [*radix_sort.number_columns(sort), "source = 0", "target = columns"]
    lines += [f"if columns <= {SHORT}:", *indented(short)]
    lines += ["else:", *indented(radix_sort.sort_long_row(sort, insert))]
    return lines + read_row_values(sort)


def _insert(sort: Sort) -> list[str]:
    """Insert the element at `spot` among those from `source` on, which are in order: behind its equals."""
    ahead = [f"old = {reduce.get('order', 'low - 1')}", f"ahead = {_before(sort)}"]
    put = [reduce.put("order", "low", "new")]
    lines = [f"new = {reduce.get('order', 'spot')}", "low = spot", *ahead]
    move = [reduce.put("order", "low", "old")]
    if sort.has_positions:
        lines.append(f"held = {reduce.get('position', 'spot')}")
        move.append(reduce.put("position", "low", reduce.get("position", "low - 1")))
        put.append(reduce.put("position", "low", "held"))
    move += ["low = low - 1", "moves = moves + 1", "ahead = False", "if low > source:", *indented(ahead)]
    return [*lines, "if ahead:", *indented(["while ahead:", *indented(move), *put])]


def read_row_values(sort: Sort) -> list[str]:
    """The row values that are elements of the order, at constants or at ranks that are computed."""
    lines = list(sort.ranks.lines) if sort.ranks else []
    for part, given, value in sort.rank_reads:
        rank = given if isinstance(given, int) else given.name
        lines.append(f"{value.name} = {_read(sort, part, f'source + {rank}')}")
    return lines


def _before(sort: Sort) -> str:
    """The comparison: true if the right run's element comes before the left's."""
    d = sort.key.dtype
    first, second = ("old", "new") if sort.descending else ("new", "old")
    less = "new > old" if sort.descending else "new < old"
    return f"({less}) | (isnan({second}) & not_(isnan({first})))" if d.kind == "f" else less


def _read(sort: Sort, part: str, index: str) -> str:
    if isinstance(sort, PairSort):
        return f"({reduce.get('order', index)} & {(1 << PAIR_BITS) - 1})"
    if part == "positions":
        return reduce.get("position", index)
    element = reduce.get("order", index)
    return f"bool_({element})" if sort.key.dtype is BOOL else element


def rank_loop(roles: ValueRoles, phase: Phase) -> list[str]:
    """The loop of a phase over ranks."""
    kernel, sort = roles.kernel, sort_of(roles.kernel)
    assert sort is not None
    inner, used = [], roles.used(phase)
    for part, value in (("values", sort.values), ("positions", sort.positions)):
        if value is not None and value.name in used:
            inner.append(f"{value.name} = {_read(sort, part, 'source + rank')}")
    inner += phase.element.lines
    for store in phase.stores:
        stride_kind = kernel.operands[store.operand].rank
        stride = f"s{store.operand}at{kernel.axes}" if stride_kind == "s" else stride_kind
        inner.append(store_line(store, f"r{store.operand}", times("rank", stride)))
    for use in phase.folds:
        inner += reduce.merge(use, reduce.state_names(use), [v.name for v in use.inputs], reduce.state_names(use))
    count = "columns" if sort.count is None else str(sort.count)
    if not phase.folds:
        return [f"for rank in range({count}):", *indented(inner)]
    block = [line for use in phase.folds for line in reduce.identity(use)]
    block += [f"for rank in range(block * {BLOCK}, smaller(block * {BLOCK} + {BLOCK}, {count})):", *indented(inner)]
    blocks = [f"blocks = ({count} + {BLOCK - 1}) // {BLOCK}", "for block in range(blocks):"]
    return [
        *blocks,
        *indented([*block, *reduce.push_to_tree(phase.folds, "block")]),
        *reduce.reduce_tree(phase.folds, "blocks"),
    ]
