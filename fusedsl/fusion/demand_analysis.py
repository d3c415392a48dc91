"""Demand analysis: the coordinates at which consumers read an array, computed without lowering."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..ir.contraction import Subscripts
from ..ir.dims import Dim
from ..ir.gathers import GUARDED, INSIDE
from ..ir.graph import Node, Type, is_literal, node, resolve
from ..ir.op_cost import FETCH_COST
from ..ir.ops import LEAVES, OPS, VIEWS
from .coordinates import Axis, ComputedIndex, Coordinate, Coordinates, aligned, position_of
from .view_coordinates import through_gather, through_index, through_reshape

ARITHMETIC = (
    "add",
    "subtract",
    "multiply",
    "convert",
    *VIEWS,
)  # operations of index arithmetic of slices and concatenations
FREE = (*VIEWS, "convert")  # operations without cost
VIEW_COST = 3  # instructions of a view of an argument, for its address
WORKS = ("reduce", "scan", "sorted", "contract")
BOUND_TAG = 1 << 20  # least tag of axes that a reduction binds; results have smaller tags


def below_views(n: Node) -> Node:
    """The operand below views and dtype changes."""
    while n.op in FREE:
        n = n.args[0]
    return n


def array_below(n: Node) -> Node:
    """The array to store for an operand: that below its views, or a view of that which no strides express.

    Such a view merges permuted axes, as where heads are joined: it is stored as the operand reads it.
    """
    base, chain = n, []
    while base.op in FREE:
        chain.append(base)
        base = base.args[0]
    array, permuted = base, False
    for view in reversed(chain if base.op not in LEAVES else ()):
        if view.op == "convert":
            break
        if view.op == "reshape" and permuted and view.type.rank < view.args[0].type.rank:
            array, permuted = view, False
        permuted = permuted or view.op == "transpose"
    return array


def array_below_windows(n: Node) -> Node | None:
    """The array of which an operand is windows, through views; None if it is none."""
    reads_windows = False
    while n.op in (*FREE, "gather"):
        if n.op == "gather":
            if n.attr[0] != INSIDE:
                break
            reads_windows = True
        n = n.args[0]
    return n if reads_windows else None


def below_zeros(n: Node) -> Node:
    """The array around which an array has zeros; the array itself if it has none."""
    while n.op == "where" and is_literal(n.args[2], 0) and n.args[1].op == "gather" and n.args[1].attr[0] == GUARDED:
        n = n.args[1].args[0]
    return n


def own_coordinates(shape: Sequence[Dim]) -> Coordinates:
    """Coordinates of a store: one axis per extent other than 1."""
    axes: list[Axis] = []
    for d in shape:
        axes.append(Axis(d, sum(a.extent == d for a in axes)))
    return tuple(Coordinate(0, 1, None if d == 1 else a) for d, a in zip(shape, axes))


def reads(n: Node, at: Coordinates) -> list[tuple[Node, Coordinates]]:
    """Operands of element `at` of a node, each with the coordinates at which it is read.

    Axes that the node reduces get tags that depend on the other coordinates only, so that several reductions of one
    array for the same rows read equal coordinates. Indices that a gather computes are placeholders.
    """
    if n.op in LEAVES:
        return []
    x = n.args[0]
    match n.op:
        case "index":
            return [(x, through_index(n, at))]
        case "transpose":
            inverse = {axis: position for position, axis in enumerate(n.attr)}
            return [(x, tuple(at[inverse[a]] for a in range(len(at))))]
        case "reshape":
            return [(x, through_reshape(n, at))]
        case "reduce":
            return [(x, _reduced(x.type.shape, at, n.attr[1]))]
        case "sorted":
            return [(x, (*at[:-1], _bound(x.type.shape[-1], at[:-1])))]
        case "contract":
            return _contracted(n, at)
        case "scatter":
            return [(x, at), *((a, own_coordinates(a.type.shape)) for a in n.args[1:])]
        case "gather":
            keys = [(i, aligned(i.type.shape, at)) for i in n.args[1:]]
            return [(x, through_gather(n, at, [_position(*key) for key in keys])[0]), *keys]
    return [(a, aligned(a.type.shape, at)) for a in n.args]


Key = tuple[Node, Coordinates]


def _position(n: Node, at: Coordinates) -> Node:
    """Scalar of an element of an index array, if it is computed from positions only; else a placeholder."""

    def needs(key: Key) -> list[Key]:
        return reads(*key) if key[0].op in ARITHMETIC else []

    def make(key: Key) -> Node:
        m, where = key
        if m.op == "iota":
            return position_of(where[0])
        if m.op in ("const", "size"):
            return m
        if m.op not in ARITHMETIC:
            return node("placeholder", (m,), where, Type(m.type.dtype))
        args = tuple(known[k] for k in reads(m, where))
        return args[0] if m.op in VIEWS else node(m.op, args, m.attr, Type(m.type.dtype))

    known: dict[Key, Node] = {}
    return resolve(known, (n, at), needs, make)


def canonical(at: Coordinates) -> Coordinates:
    """Coordinates with bound axes renumbered in order, so that coordinates that differ in their names only are
    equal."""
    names: dict[Axis, Axis] = {}
    for c in at:
        if is_bound(c) and c.axis not in names:
            number = sum(a.extent == c.axis.extent for a in names)  # type: ignore[union-attr]
            names[c.axis] = Axis(c.axis.extent, BOUND_TAG + number)  # type: ignore[union-attr, index]
    if all(a == b for a, b in names.items()):
        return at
    return tuple(replace(c, axis=names[c.axis]) if c.axis in names else c for c in at)  # type: ignore[type-var, index]


def is_bound(c: Coordinate | ComputedIndex) -> bool:
    """Whether a coordinate runs along an axis that a reduction binds."""
    return c.axis is not None and c.axis.tag >= BOUND_TAG


def count_reads(demands: Iterable[Coordinates]) -> int:
    """Number of distinct coordinates at which an array is read; a reduction along a whole axis includes elementwise
    reads."""
    kinds = dict.fromkeys(tuple("all" if is_bound(c) and _is_identity(c) else c for c in at) for at in demands)
    return len(kinds) - sum(any(a is not b and _within(a, b) for b in kinds) for a in kinds)


def count_read_patterns(demands: Iterable[Coordinates]) -> int:
    """Number of distinct access patterns of an array: the axes along which reductions read it.

    Elementwise reads, and reads along one axis less, are part of a wider pattern.
    """
    kinds = dict.fromkeys(
        tuple("all" if is_bound(c) else "computed" if isinstance(c, ComputedIndex) else c for c in at) for at in demands
    )
    return len(kinds) - sum(
        any(_within(a, b) and not _reduced_axes(b) and _reduced_axes(a) == 1 for b in kinds) for a in kinds
    )


def _within(a: tuple, b: tuple) -> bool:
    return a != b and all(x == y or x == "all" for x, y in zip(a, b))


def _reduced_axes(kind: tuple) -> int:
    """The number of axes along which a reduction reads."""
    return sum(c == "all" for c in kind)


def _is_identity(c: Coordinate | ComputedIndex) -> bool:
    """Whether the index is the position on its axis. That axis may be shorter than the array's: a prefix, as in
    sum(x[:5]), counts as the whole axis, since the counts are estimates that decide what is stored."""
    return isinstance(c, Coordinate) and (c.start, c.step) == (0, 1)


def _bound(extent: Dim, used: Iterable[Coordinate | ComputedIndex]) -> Coordinate:
    """Coordinate along a reduced axis, with a tag that these coordinates do not use."""
    tags = {c.axis.tag for c in used if c.axis is not None and c.axis.extent == extent}
    return Coordinate(0, 1, Axis(extent, next(t for t in range(BOUND_TAG, BOUND_TAG + len(tags) + 1) if t not in tags)))


def _reduced(shape: Sequence[Dim], at: Coordinates, axes: Sequence[int]) -> Coordinates:
    inner = list(at)
    for k in axes:
        others = [c for j, c in enumerate(inner) if j not in axes or j < k]
        inner[k] = Coordinate(0, 1, None) if shape[k] == 1 else _bound(shape[k], others)  # type: ignore[arg-type]
    return tuple(inner)


def _contracted(n: Node, at: Coordinates) -> list[tuple[Node, Coordinates]]:
    subscripts = Subscripts.parse(n.attr)
    position: dict[str, Coordinate] = dict(zip(subscripts.result, at))  # type: ignore[arg-type]
    extents = dict(zip(subscripts.left, n.args[0].type.shape))
    for c in subscripts.summed:
        position[c] = Coordinate(0, 1, None) if extents[c] == 1 else _bound(extents[c], position.values())
    return [(x, tuple(position[c] for c in own)) for x, own in zip(n.args, (subscripts.left, subscripts.right))]


def cost(n: Node) -> int:
    """Instructions per element of a node, without its operands."""
    if n.op == "gather":
        return FETCH_COST
    if n.op == "index" and n.args[0].op == "param":
        return VIEW_COST
    return OPS[n.op].cost if n.op in OPS else int(n.op not in (*FREE, "const"))
