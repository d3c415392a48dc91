"""Sliding windows: views that folds consume. A fold over short windows is unrolled, over longer ones in two levels: of
neighbours, and of these folds at distances of so many. Of the longest it is two scans.

Two scans (van Herk 1992; Gil and Werman 1993): the axis is cut into blocks of a window's length, and a window is the
end of one block and the beginning of the next: a suffix and a prefix. This takes any associative fold, without
cancellation and without spreading NaN or infinities to other windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import ArgumentError
from . import joins, scans_sorts, shapes
from .builder import GraphBuilder, fail
from .checks import shape_error
from .dims import Dim, evaluate, expression
from .folds import FOLDS
from .gathers import GUARDED, INSIDE, at_position, gather, in_range
from .graph import Check, Node, Type, node, value_of
from .index_keys import basic_index, whole_axis
from .ops import CASTS, OPS
from .scans_sorts import ScanMode
from .types import INT64

UNROLLED = 32  # elements of a window that are merged one by one
LONGEST_BLOCK, MOST_BLOCKS = 20, 16  # neighbours, and blocks of them, that a thread merges at a time
IDEMPOTENT = ("max", "min", "any", "all")  # folds of blocks that may overlap
VECTOR = 4  # elements of one load, whose distances decide whether it is aligned
STORED_FROM = 16  # merges that storing the folds of neighbours spares, for each byte of one: planning stores them
REST = 8  # cost of reading the array again, in loads that the caches have
MERGES = {
    "sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "any": "logical_or", "all": "logical_and",
}  # fmt: skip
SCANS = {**dict.fromkeys(("sum", "prod", "max", "min")), "any": "max", "all": "min"}


@dataclass(frozen=True)
class Window:
    """Windows of `n` elements along an axis of `base`, of which there are `count`."""

    base: Node
    axis: int
    n: Dim
    count: Dim


def require_windows(b: GraphBuilder, x: Node, axis: int, n: Dim, what: str = "sliding_window") -> None:
    """Check that an axis holds a window of `n` elements."""
    if isinstance(n, int) and n < 1:
        fault = ArgumentError(f"a window has 1 element or more, not {n}", "argument.range", help="give 1 or more")
        raise fail(fault, 1)
    size = x.type.shape[axis]
    check = Check("enough", (size, n), what, (x.type,), site=b.site)
    if n != 1 and evaluate(size, b.extents) < evaluate(n, b.extents):
        raise shape_error(check, b.extents)
    if not (isinstance(size, int) and isinstance(n, int)) and n not in (1, size):
        b.checks.append(check)


def sliding_window(b: GraphBuilder, x: Node, n: Dim, axis: int) -> Node:
    """All windows of `n` neighbours along an axis, as a new last axis."""
    require_windows(b, x, axis, n)
    size = x.type.shape[axis]
    count = expression("-", size, expression("-", n, 1))
    starts = basic_index(b.iota(count), (whole_axis(count), *(("new",),) * (x.type.rank - axis)))
    position = b.strong(b.elementwise("add", starts, b.iota(n)))
    shape = (*x.type.shape[:axis], count, *x.type.shape[axis + 1 :], n)
    result_axes = [None if k == axis else k for k in range(x.type.rank)]
    windows = gather(x, {axis: position}, result_axes, shape, INSIDE)
    b.windows[windows] = Window(x, axis, n, count)
    b.fold_windows = fold_windows
    return windows


def fold_windows(b: GraphBuilder, fold: str, x: Node, axes: Sequence[int]) -> Node | None:
    """A fold over windows, with extent 1 along their axes; None if it is no such fold, or a general one."""
    if fold not in MERGES:
        return None
    for axis in sorted(axes, reverse=True):
        n = x.type.shape[axis]
        views = _Elements(b, axis - x.type.rank)
        if not isinstance(n, int) or not views.reads_windows(x):
            return None
        folded = _unrolled(fold, x, views, n) if n <= UNROLLED else _of_long_windows(b, fold, x, axis)
        if folded is None:
            return None
        x = folded
    return x


def weighted(b: GraphBuilder, x: Node, tap: Node, inside: Node | None) -> Node:
    """Elements times a tap; 0 for those that are not `inside` of an array, whatever the tap is."""
    product = b.elementwise("multiply", x, tap)
    return product if inside is None else b.elementwise("where", inside, product, b.literal(0))


def weighted_sum(b: GraphBuilder, x: Node, taps: Sequence[Node]) -> Node:
    """The sum of windows' elements times one tap each, unrolled."""
    views = _Elements(b, -1)
    products = [b.elementwise("multiply", views.at(x, j), tap) for j, tap in enumerate(taps)]
    return shapes.squeeze(b, _merged("sum", products), (x.type.rank - 1,))


def weighted_neighbours(b: GraphBuilder, x: Node, taps: Sequence[Node], before: Dim, size: Dim) -> Node:
    """Element k is the sum of elements k - before … of the last axis times one tap each; 0 for those beside the array,
    whatever the tap is."""
    axis, parts = x.type.rank - 1, []
    first = b.elementwise("subtract", b.iota(size), b.extent(before))
    for j, tap in enumerate(taps):
        at = b.convert(b.elementwise("add", first, b.literal(j)) if j else first, INT64)
        read = at_position(b, x, axis, at, size, GUARDED)
        parts.append(weighted(b, read, tap, in_range(b, at, x.type.shape[axis])))
    return _merged("sum", parts)


def _unrolled(fold: str, x: Node, views: _Elements, n: int) -> Node:
    return _merged(fold, [views.at(x, j) for j in range(n)])


def _merged(fold: str, parts: list[Node]) -> Node:
    """Values merged pairwise, as a tree."""
    while len(parts) > 1:
        merged = [node(MERGES[fold], pair, None, pair[0].type) for pair in zip(parts[::2], parts[1::2])]
        parts = merged + parts[len(merged) * 2 :]
    return parts[0]


class _Elements:
    """Element j of a value along a negative axis, which remains with extent 1."""

    def __init__(self, b: GraphBuilder, axis: int):
        self.b, self.axis = b, axis
        self.known: dict[tuple[Node, int], Node] = {}

    def reads_windows(self, x: Node) -> bool:
        """Whether an elementwise value reads windows along the axis."""
        seen, stack = set[Node](), [x]
        while stack:
            n = stack.pop()
            if n in seen or self._is_constant(n):
                continue
            seen.add(n)
            if n in self.b.windows and self.axis == -1:
                return True
            if n.op == "index" and n.args[0] in self.b.windows and self._through_index(n) == n.args[0].type.rank - 1:
                return True
            stack += n.args if self._is_elementwise(n) else ()
        return False

    def at(self, x: Node, j: int) -> Node:
        """Element j."""
        if (x, j) not in self.known:
            self.known[x, j] = self._at(x, j)
        return self.known[x, j]

    def _at(self, x: Node, j: int) -> Node:
        if self._is_constant(x):
            return x
        position = x.type.rank + self.axis
        shape = (*x.type.shape[:position], 1, *x.type.shape[position + 1 :])
        if self._is_elementwise(x):
            args = tuple(self.at(a, j) for a in x.args)
            if x.op == "broadcast" and args[0].type.shape == shape:
                return args[0]
            return node(x.op, args, x.attr, Type(x.type.dtype, shape, x.type.weak))
        window = self.b.windows.get(x)
        if window is not None and self.axis == -1:
            key = [whole_axis(d) for d in window.base.type.shape]
            key[window.axis] = ("slice", j, 1, window.count)
            return basic_index(window.base, (*key, ("new",)))
        inner = self._through_index(x) if x.op == "index" else None
        if inner is not None:
            source = _Elements(self.b, inner - x.args[0].type.rank).at(x.args[0], j)
            key = [("slice", 0, 1, 1) if k == position else entry for k, entry in enumerate(x.attr)]
            return basic_index(source, tuple(key))
        key = [whole_axis(d) for d in x.type.shape]
        key[position] = ("slice", j, 1, 1)
        return basic_index(x, tuple(key))

    def _through_index(self, x: Node) -> int | None:
        """The axis below a slicing view that is whole there."""
        position, source_axis = x.type.rank + self.axis, 0
        if any(entry[0] == "int" for entry in x.attr):
            return None
        for k, entry in enumerate(x.attr):
            if k == position:
                return source_axis if entry == whole_axis(x.args[0].type.shape[source_axis]) else None
            source_axis += entry[0] != "new"
        return None

    def _is_constant(self, x: Node) -> bool:
        return x.type.rank < -self.axis or x.type.shape[self.axis] == 1

    def _is_elementwise(self, x: Node) -> bool:
        return x.op in OPS or x.op in CASTS or x.op == "broadcast"


def _of_long_windows(b: GraphBuilder, fold: str, x: Node, axis: int) -> Node | None:
    """A fold over long windows; None if elements do not depend on the array's own position alone."""
    if axis != x.type.rank - 1:
        return None
    known: dict[Node, Node | None] = {}
    base = _unwindowed(b, x, known)
    windows = [b.windows[n] for n in known if n in b.windows]
    if base is None or len({(w.axis, w.n, w.base.type.shape) for w in windows}) != 1:
        return None
    length = block_length(fold, windows[0].n, base.type.dtype.itemsize)
    two_levels = length and _two_levels(b, fold, base, windows[0], length)
    merged = two_levels or _two_scans(b, fold, base, windows[0])
    return basic_index(merged, (*(whole_axis(d) for d in merged.type.shape), ("new",)))


def block_length(fold: str, n: Dim, itemsize: int) -> int:
    """Elements of the neighbours that a fold over windows of `n` elements merges first: loads decide, by estimate.

    0 where the folds of neighbours would not be stored, as merging them again takes no longer, and for longer windows,
    of which a thread would hold too much. (measured: H100, 64 M float32, windows of 100: 470 us in two levels, 622 as
    two scans; 16 M, windows of 1000, 32 and 31 at a time: 347 us in two levels.)
    """

    if not isinstance(n, int):
        return 0
    costs = {}
    for a in range(-(-n // MOST_BLOCKS), LONGEST_BLOCK + 1):
        blocks, rest = divmod(n, a)
        loads = a / VECTOR + blocks * (1 if a % VECTOR == 0 else 2)
        if (blocks - 1) * (a - 1) >= STORED_FROM * itemsize:
            costs[a] = loads + (0 if not rest else 2 if fold in IDEMPOTENT else REST + rest)
    return min(costs, key=costs.__getitem__, default=0)


def _two_levels(b: GraphBuilder, fold: str, base: Node, window: Window, length: int) -> Node:
    """Blocks of neighbours are folded, and a window is some of them at distances of a block: the last one may overlap
    the one before it, or the elements that remain are merged by themselves."""
    n = window.n
    assert isinstance(n, int)
    blocks, rest = divmod(n, length)

    def neighbours(first: int, number: int, count: Dim) -> Node:
        return _merged(fold, [_slice(base, window.axis, first + j, count) for j in range(number)])

    folded = neighbours(0, length, expression("+", window.count, n - length))
    starts = [length * k for k in range(blocks)] + ([n - length] if rest and fold in IDEMPOTENT else [])
    parts = [_slice(folded, window.axis, start, window.count) for start in starts]
    if rest and fold not in IDEMPOTENT:
        parts.append(neighbours(length * blocks, rest, window.count))
    return _merged(fold, parts)


def _slice(x: Node, axis: int, start: Dim, count: Dim) -> Node:
    """So many elements along an axis, from `start` on."""
    whole = enumerate(x.type.shape)
    return basic_index(x, tuple(("slice", start, 1, count) if k == axis else whole_axis(d) for k, d in whole))


def _two_scans(b: GraphBuilder, fold: str, base: Node, window: Window) -> Node:
    """Suffixes and exclusive prefixes of blocks."""
    a, n, size = window.axis, window.n, base.type.shape[window.axis]
    nothing = FOLDS[fold].identity(base.type.dtype)[0]
    blocks = expression("+", expression("//", size, n), 1)
    room = expression("-", expression("*", blocks, n), size)
    padded = joins.pad(b, base, a, joins.Padding(0, room, "constant", b.literal(value_of(nothing))))
    shape = base.type.shape
    cut = shapes.reshape(b, padded, (*shape[:a], blocks, n, *shape[a + 1 :]))
    name = SCANS[fold] or fold
    suffixes, prefixes = (
        shapes.reshape(b, scans_sorts.scan(b, name, cut, a + 1, d), padded.type.shape)
        for d in (ScanMode(reverse=True), ScanMode(exclusive=True))
    )
    suffix, prefix = _slice(suffixes, a, 0, window.count), _slice(prefixes, a, n, window.count)
    return b.elementwise(MERGES[fold], suffix, prefix)


def _unwindowed(b: GraphBuilder, x: Node, known: dict[Node, Node | None]) -> Node | None:
    """The elementwise value of an array that has these windows; None if it reads more than windows and numbers.

    `known` are the values of nodes that were visited, the windows among them.
    """
    if x not in known:
        known[x] = _without_windows(b, x, known)
    return known[x]


def _without_windows(b: GraphBuilder, x: Node, known: dict[Node, Node | None]) -> Node | None:
    if not x.type.rank:
        return x
    if x in b.windows:
        return b.windows[x].base
    if x.op == "broadcast" and not x.args[0].type.rank:
        return x.args[0]
    if x.op not in OPS and x.op not in CASTS:
        return None
    args = [_unwindowed(b, a, known) for a in x.args]
    shape = max((a.type.shape for a in args if a is not None), key=len, default=())
    if any(a is None for a in args) or not shape:
        return None
    return node(x.op, tuple(a for a in args if a is not None), x.attr, Type(x.type.dtype, shape, x.type.weak))
