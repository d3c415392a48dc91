"""Cotangents of gathers: moved back where positions are shifts, else sums over the elements that were read.

An element's cotangent is the sum over all reads at its position: a scatter that adds. For a few reads, and some more
at positions that no argument gives, it is a reduction whose terms are selected by comparing positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..ir import shapes
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim, expression, product
from ..ir.gathers import CHECKED, COUNTING_BACK, WRAPPED, at_position, before_axes, from_start
from ..ir.graph import Node, value_of, walk
from ..ir.index_keys import basic_index, whole_axis
from ..ir.scatters import NOWHERE
from ..ir.types import INT64
from .scatters import sum_at
from .unbroadcast import masked
from .views import at_indices

FEW = 8  # reads that are compared with each element, and not added by a scatter
FEW_COMPUTED = 256  # the same of positions that no argument gives, as those of pads: they are not loaded


def of_gather(b: GraphBuilder, n: Node, g: Node) -> Node:
    """The cotangent of a gather's first argument."""
    x, *arrays = n.args
    mode, entries = n.attr
    extents = x.type.shape
    arrays = [_of_rank(b, a, n.type.rank) for a in arrays]
    # the axis of x that each axis of the result runs along
    axis_of = {k: axis for axis, (kind, k) in enumerate(entries) if kind == "axis" and not b.is_unit(extents[axis])}
    read: dict[int, Node] = {}  # the positions that are read along other axes of x
    for axis, k in [(axis, k) for axis, (kind, k) in enumerate(entries) if kind == "at"]:
        shift = _shift_of(b, arrays[k])
        if shift is None or shift[0] in axis_of or not _inverts(shift[1], mode):
            read[axis] = from_start(b, arrays[k], extents[axis]) if mode in COUNTING_BACK else arrays[k]
            continue
        g, *arrays = (_moved_back(b, y, shift, extents[axis], mode) for y in (g, *arrays))
        axis_of[shift[0]] = axis
    return _sum_of_reads(b, x, g, axis_of, read)


def _of_rank(b: GraphBuilder, x: Node, rank: int) -> Node:
    missing = rank - x.type.rank
    return shapes.expand_dims(b, x, list(range(missing))) if missing else x


# -- shifts: positions i + offset along one axis


def _shift_of(b: GraphBuilder, position: Node) -> tuple[int, Dim] | None:
    """(axis of the result, offset) of positions that count along this axis; else None."""
    axes = [k for k, d in enumerate(position.type.shape) if not b.is_unit(d)]
    linear = _linear(position, {}) if len(axes) == 1 else None
    return (axes[0], linear[1]) if linear is not None and linear[0] == 1 else None


Linear = tuple[int, Dim] | None
"""(c, offset) of positions c i + offset; None of other positions."""


def _linear(n: Node, known: dict[Node, Linear]) -> Linear:
    """The form of positions; `known` are those of nodes that were visited."""
    if n not in known:
        known[n] = _linear_form(n, known)
    return known[n]


def _linear_form(n: Node, known: dict[Node, Linear]) -> Linear:
    if n.op == "iota":
        return 1, 0
    if n.op in ("const", "size"):
        return 0, int(value_of(n)) if n.op == "const" else n.attr
    if n.op in ("add", "subtract"):
        left, right = (_linear(a, known) for a in n.args)
        if left is None or right is None:
            return None
        sign = 1 if n.op == "add" else -1
        return left[0] + sign * right[0], expression("+" if n.op == "add" else "-", left[1], right[1])
    return _linear(n.args[0], known) if n.op in ("convert", "broadcast") or _only_adds_axes(n) else None


def _only_adds_axes(n: Node) -> bool:
    if n.op != "index":
        return False
    old = iter(n.args[0].type.shape)
    return all(entry[0] == "new" or entry == whole_axis(next(old)) for entry in n.attr)


def _inverts(offset: Dim, mode: str) -> bool:
    """Whether each position is read at one position: a negative one must not count from the end unless all wrap."""
    return mode != CHECKED or (isinstance(offset, int) and offset >= 0)


def _moved_back(b: GraphBuilder, y: Node, shift: tuple[int, Dim], extent: Dim, mode: str) -> Node:
    """`y` along the axis that was read, whose element j is element j - offset of the result."""
    axis, offset = shift
    count = y.type.shape[axis]
    if b.is_unit(count):
        return y
    index = b.elementwise("subtract", b.iota(extent), b.extent(offset))
    if mode == WRAPPED:
        return at_position(b, y, axis, b.elementwise("subtract", index, b.extent(extent)), extent, WRAPPED)
    return at_indices(b, y, axis, (index, b.literal(True)), (count, extent))


# -- sums of reads


def _sum_of_reads(b: GraphBuilder, x: Node, g: Node, axis_of: Mapping[int, int], read: Mapping[int, Node]) -> Node:
    """The sum, over the axes of the result that x does not have, of what was read at each position of x."""
    rank = x.type.rank
    others = [k for k in range(g.type.rank) if k not in axis_of]
    count = product(g.type.shape[k] for k in others if not b.is_unit(g.type.shape[k]))
    if read and not _are_few(b, count, read.values()):
        return sum_at(b, x, _indices_in(b, x, g, axis_of, read), shapes.broadcast_to(b, g, g.type.shape))
    g = _arranged(b, g, axis_of, others, rank)
    for axis, position in read.items():
        line = before_axes(b, b.iota(x.type.shape[axis]), rank - axis - 1 + len(others))
        here = b.elementwise("equal", _arranged(b, position, axis_of, others, rank), line)
        g = masked(b, here, g)
    if not others:
        return g
    return shapes.reduce(b, "sum", g, tuple(range(rank, rank + len(others))))


def _are_few(b: GraphBuilder, count: Dim, positions: Iterable[Node]) -> bool:
    """Whether reads are compared with each element; of computed positions the plan is for their length class."""
    if any(n.op == "param" for n in walk(positions)):
        return isinstance(count, int) and count <= FEW
    return b.is_unit(expression("fits", count, FEW_COMPUTED))


def _indices_in(b: GraphBuilder, x: Node, g: Node, axis_of: Mapping[int, int], read: Mapping[int, Node]) -> Node:
    """The position in x's C order that each element was read at; NOWHERE where that is out of range."""
    extents, axis_at = x.type.shape, {axis: k for k, axis in axis_of.items()}
    index, there = b.convert(b.literal(0), INT64), b.literal(True)
    for axis, extent in enumerate(extents):
        if axis in axis_at:
            position = before_axes(b, b.convert(b.iota(extent), INT64), g.type.rank - axis_at[axis] - 1)
        elif axis in read:
            position = read[axis]
            for op, bound in (("greater_equal", b.literal(0)), ("less", b.extent(extent))):
                there = b.elementwise("logical_and", there, b.elementwise(op, position, bound))
        else:
            continue
        step = b.extent(product(extents[axis + 1 :]))
        index = b.elementwise("add", index, b.elementwise("multiply", position, step))
    index = b.elementwise("where", there, index, b.literal(NOWHERE))
    return shapes.broadcast_to(b, index, g.type.shape)


def _arranged(b: GraphBuilder, y: Node, axis_of: Mapping[int, int], others: Sequence[int], rank: int) -> Node:
    """An array of the result's axes with the axes of x first, of extent 1 where the result lacks them."""
    axis_at = {axis: k for k, axis in axis_of.items()}
    y = shapes.transpose(b, y, [axis_at[axis] for axis in sorted(axis_at)] + list(others))
    old = iter(y.type.shape)
    key = [whole_axis(next(old)) if axis in axis_at else ("new",) for axis in range(rank)]
    return basic_index(y, (*key, *(whole_axis(d) for d in old)))
