"""The text of orders: a row's elements merge-sorted in working memory, or its best few kept in order as they come;
and loops over the places of the order."""

from __future__ import annotations

from ...ir.types import BOOL, INT64, UINT8, DType
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Phase, Selection
from ..cuda.scan_sort.sort_method import selection
from . import reduce
from .roles import Array, Roles
from .source_text import indented, store_line, times

BLOCK = 64  # places of the order that are folded one after another
FEW = 64  # of a row that are kept in order while the row is read; more are sorted


def arrays(kernel: KernelIR) -> list[Array]:
    """The elements and their columns: the best few, or all of the row, twice: a merge reads one half and writes the
    other."""
    select = selection(kernel)
    if select is None:
        return []
    count = str(select.count) if _few(select) else "2 * columns"
    return [Array("order", _kept(select.key.dtype), count), Array("place", INT64, count)]


def _few(select: Selection) -> bool:
    return select.count is not None and select.count <= FEW


def _kept(d: DType) -> DType:
    return UINT8 if d is BOOL else d


def starts(phase: Phase) -> list[str]:
    """Nothing has been kept."""
    return ["kept = 0"] if phase.select and _few(phase.select) else []


def keep(phase: Phase, index: str) -> list[str]:
    """Keep an element for the order."""
    select = phase.select
    if select is None:
        return []
    name = select.key.name
    value = f"uint8({name})" if select.key.dtype is BOOL else name
    return _insert(select, value, index) if _few(select) else [reduce.put("order", index, value)]


def _insert(select: Selection, value: str, index: str) -> list[str]:
    """Put an element among the best, if it comes before the last of them: those behind it move on."""
    count = select.count
    move = [
        reduce.put("order", "spot", reduce.get("order", "spot - 1")),
        reduce.put("place", "spot", reduce.get("place", "spot - 1")),
        "spot = spot - 1",
        "ahead = False",
        "if spot > 0:",
        *indented([f"old = {reduce.get('order', 'spot - 1')}", f"ahead = {_before(select)}"]),
    ]
    insert = [
        f"spot = smaller(kept, {count} - 1)",
        f"kept = smaller(kept + 1, {count})",
        "ahead = False",
        "if spot > 0:",
        *indented([f"old = {reduce.get('order', 'spot - 1')}", f"ahead = {_before(select)}"]),
        "while ahead:",
        *indented(move),
        reduce.put("order", "spot", "new"),
        reduce.put("place", "spot", index),
    ]
    wanted = [f"wanted = kept < {count}", f"if kept == {count}:"]
    wanted += indented([f"old = {reduce.get('order', f'{count} - 1')}", f"wanted = {_before(select)}"])
    return [f"new = {value}", *wanted, "if wanted:", *indented(insert)]


def sort(phase: Phase) -> list[str]:
    """Merge runs of 1, 2, 4 … elements until one is left, at `here`; then read the places that are row values.

    The left run wins among equals, so that the lower column comes first.
    """
    select = phase.select
    if select is None:
        return []
    if _few(select):
        return ["here = 0", *_picked(select)]
    merge = [
        "chosen = left",
        "if left >= middle:",
        *indented(["chosen = right"]),
        "if (left < middle) & (right < high):",
        *indented(
            [
                f"old = {reduce.get('order', 'here + left')}",
                f"new = {reduce.get('order', 'here + right')}",
                f"if {_before(select)}:",
                *indented(["chosen = right"]),
            ]
        ),
        reduce.put("order", "there + spot", reduce.get("order", "here + chosen")),
        reduce.put("place", "there + spot", reduce.get("place", "here + chosen")),
        "if chosen < middle:",
        *indented(["left = left + 1"]),
        "if chosen >= middle:",
        *indented(["right = right + 1"]),
    ]
    run = [
        "middle = smaller(low + width, columns)",
        "high = smaller(middle + width, columns)",
        "left = low",
        "right = middle",
        "for spot in range(low, high):",
        *indented(merge),
        "low = high",
    ]
    turn = ["low = 0", "while low < columns:", *indented(run), "here = columns - here", "there = columns - there"]
    lines = ["for spot in range(columns):", *indented([reduce.put("place", "spot", "spot")])]
    lines += ["here = 0", "there = columns", "width = 1"]
    lines += ["while width < columns:", *indented([*turn, "width = width * 2"])]
    return lines + _picked(select)


def _picked(select: Selection) -> list[str]:
    return [f"{value.name} = {_read(select, part, f'here + {place}')}" for part, place, value in select.places]


def _before(select: Selection) -> str:
    """Whether the right run's element comes before the left's."""
    d = select.key.dtype
    first, second = ("old", "new") if select.descending else ("new", "old")
    less = "new > old" if select.descending else "new < old"
    return f"({less}) | (isnan({second}) & not_(isnan({first})))" if d.kind == "f" else less


def _read(select: Selection, part: str, index: str) -> str:
    if part == "positions":
        return reduce.get("place", index)
    found = reduce.get("order", index)
    return f"bool_({found})" if select.key.dtype is BOOL else found


def ranks(roles: Roles, phase: Phase) -> list[str]:
    """A phase over the places of the order."""
    kernel, select = roles.kernel, selection(roles.kernel)
    assert select is not None
    inner, used = [], roles.used(phase)
    for part, value in (("values", select.values), ("positions", select.positions)):
        if value is not None and value.name in used:
            inner.append(f"{value.name} = {_read(select, part, 'here + rank')}")
    inner += phase.element.instructions
    for store in phase.stores:
        letter = kernel.operands[store.operand].rank
        stride = f"s{store.operand}at{kernel.axes}" if letter == "s" else letter
        inner.append(store_line(store, f"r{store.operand}", times("rank", stride)))
    for use in phase.folds:
        inner += reduce.merged(use, reduce.states(use), [value.name for value in use.inputs], reduce.states(use))
    count = "columns" if select.count is None else str(select.count)
    if not phase.folds:
        return [f"for rank in range({count}):", *indented(inner)]
    block = [line for use in phase.folds for line in reduce.identity(use)]
    block += [f"for rank in range(block * {BLOCK}, smaller(block * {BLOCK} + {BLOCK}, {count})):", *indented(inner)]
    blocks = [f"blocks = ({count} + {BLOCK - 1}) // {BLOCK}", "for block in range(blocks):"]
    return [*blocks, *indented([*block, *reduce.push(phase.folds, "block")]), *reduce.join_tree(phase.folds, "blocks")]
