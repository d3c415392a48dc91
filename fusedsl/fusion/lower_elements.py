"""Scalar nodes of loads, folds, scans and sorts, and the coordinates at which their operands are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..ir.dims import Dim, expression
from ..ir.folds import FOLDS, SCANS, Fold, State, scalar
from ..ir.graph import Node, Type, constant, is_literal, node
from ..ir.types import INT64
from ..rewrite.scalar_builder import free_axes
from .concat_pieces import Pieces
from .coordinates import (
    Axis,
    ComputedIndex,
    Coordinate,
    Coordinates,
    all_of,
    as_affine_index,
    depends_on_axis,
    extent_scalar,
    in_range,
    plus,
    position_of,
)
from .scalar_program import ArraySource


class NeedsMemory(Exception):
    """A value must be a temporary: a scan read at computed coordinates, or a value recomputed at too many."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.node = node


def fresh(extent: Dim, used: Iterable[Axis | None]) -> Axis:
    """The first axis of this extent that is not in use."""
    tags = {a.tag for a in used if a is not None and a.extent == extent}
    return Axis(extent, next(t for t in range(len(tags) + 1) if t not in tags))


def load(source: ArraySource, n: Node, at: Coordinates) -> Node:
    """Load of an array element."""
    if any(isinstance(c, ComputedIndex) for c in at):
        windows = _windows(source, n, at)
        if windows is None:
            return _fetch(source, n, at)
        source, at = windows
    return node("load", (), (source, at), Type(n.type.dtype))


def _windows(source: ArraySource, n: Node, at: Coordinates) -> tuple[ArraySource, Coordinates] | None:
    """The array as a view with an axis for each step of an affine index, and the coordinates there.

    None if an index is not affine, or may be out of range.
    """
    axes, inner = list[tuple[Dim, tuple[tuple[Dim, int], ...]]](), list[Coordinate]()
    for c, extent in zip(at, n.type.shape):
        if isinstance(c, Coordinate):
            axes.append((0, ((extent, 1),)))
            inner.append(c)
            continue
        index = as_affine_index(c.value) if c.within else None
        if index is None:
            return None
        axes.append((index.start, tuple((axis.extent, step) for axis, step in index.steps)))
        inner += [Coordinate(0, 1, axis) for axis, _ in index.steps]
    return replace(source, views=(*source.views, ("windows", tuple(axes)))), tuple(inner)


def _fetch(source: ArraySource, n: Node, at: Coordinates) -> Node:
    """Predicated load from a computed address: 0 if an index is outside its axis.

    Only computed indices are checked, and those that a tile adds beyond an axis' end.
    """
    address, conditions = node("pointer", (), (source,), Type(INT64)), []
    for k, (c, extent) in enumerate(zip(at, n.type.shape)):
        position = position_of(c)
        if not is_literal(position, 0):
            stride = node("stride", (), (source, k), Type(INT64))
            address = scalar("add", address, scalar("multiply", position, stride))
        if isinstance(c, ComputedIndex):
            conditions.append(c.inside)
        if not c.sure if isinstance(c, ComputedIndex) else c.axis is not None:
            conditions.append(in_range(position, extent))
    wanted = all_of(conditions)
    assert wanted is not None
    return node("fetch", (address, wanted), (source, at, source.stored_dtype(n.type.dtype)), Type(n.type.dtype))


def fill_value(n: Node) -> Node:
    """Value of an element outside the array: NaN, or 0."""
    return constant(float("nan") if n.type.dtype.kind == "f" else 0, n.type.dtype)


def reduced_coordinates(n: Node, at: Coordinates, pieces: Pieces | None) -> tuple[list[Coordinates], tuple[Axis, ...]]:
    """Coordinates of the reduced operand, one for each piece of a split axis, and the folded axes."""
    (x,) = n.args
    _, axes = n.attr
    used: list[Axis | None] = [c.axis for k, c in enumerate(at) if k not in axes]
    columns: list[Axis] = []
    inner: list[list] = [[]]
    for k, d in enumerate(x.type.shape):
        coordinates: list = [at[k]]
        if k in axes:
            cut = pieces is not None and d == pieces.extent
            column = None if d == 1 else fresh(pieces.piece if pieces is not None and cut else d, used)
            if column is not None:
                used.append(column)
                columns.append(column)
            coordinates = [
                Coordinate(start, 1, column) for start in (pieces.starts if pieces is not None and cut else (0,))
            ]
        inner = [[*outer, coordinate] for outer in inner for coordinate in coordinates]
    return [tuple(operand) for operand in inner], tuple(columns)


def fold(n: Node, columns: tuple[Axis, ...], x: Node) -> Node:
    """A reduction of `x` over these axes."""
    name, _ = n.attr
    if not columns and name == "sum" and x.type.dtype.kind == "f":  # of one element -0.0, too, the sum is 0.0
        return node("add", (x, constant(0.0, x.type.dtype)), None, Type(n.type.dtype))
    if not columns:  # one element: nothing to merge
        return constant(0, INT64) if FOLDS[name].positional else x
    return node("fold", (x,), (name, columns), Type(n.type.dtype))


def scan(n: Node, at: Coordinates, args: tuple[Node, ...]) -> Node:
    """Prefix along an axis; the suffix if the axis runs backwards."""
    name, k, exclusive = n.attr
    extent, c = n.type.shape[k], at[k]
    fold, nothing = SCANS[name], SCANS[name].identity(args[0].type.dtype)
    if extent == 1:
        state = nothing if exclusive else fold.lift(*args)
        return _result(fold, state if exclusive or len(args) == 1 else fold.merge(nothing, state))
    last = expression("-", extent, 1)
    if isinstance(c, ComputedIndex):
        raise NeedsMemory(n)
    forward = (c.start, c.step) == (0, 1)
    covers_axis = c.axis is not None and c.axis.extent == extent
    if c.axis is None or not (forward or ((c.start, c.step) == (last, -1) and covers_axis)) or depends_on_axis(at, k):
        raise NeedsMemory(n)
    x = args[0] if len(args) == 1 else node("pair", args, None, Type(args[0].type.dtype))
    attr = (name, c.axis, not forward, exclusive)
    return _result(fold, tuple(node("scan", (x,), (*attr, k), Type(n.type.dtype)) for k in range(len(nothing))))


def _result(fold: Fold, state: State) -> Node:
    return fold.value(state) if fold.value else state[fold.finish]


def sorted_coordinates(n: Node, at: Coordinates) -> Coordinates:
    """Coordinates of the elements to sort."""
    extent = n.args[0].type.shape[-1]
    column = None if extent == 1 else fresh(extent, [c.axis for c in at])
    return (*at[:-1], Coordinate(0, 1, column))


def sorted_element(n: Node, at: Coordinates, x: Node) -> Node:
    """Element of a sort at a constant or computed index, or along the sorted axis; its `sort` node is the sort itself.

    An index that is computed is that of the row: it varies along no axis that the sorted elements do not vary along.
    """
    part, descending = n.attr
    column, c, count = sorted_coordinates(n, at)[-1].axis, at[-1], n.type.shape[-1]
    if column is None:
        return x if part == "values" else constant(0, INT64)
    if isinstance(c, ComputedIndex) or (c.axis is None and not isinstance(c.start, int)):
        rank = scalar("maximum", scalar("minimum", position_of(c), plus(extent_scalar(count), -1)), constant(0, INT64))
        free = free_axes([rank, x])
        if count != n.args[0].type.shape[-1] or not free[rank] <= free[x] - {column}:
            raise NeedsMemory(n)
        select = node("sort", (x,), (descending, column, count), Type(x.type.dtype))
        return node("sorted", (select, rank), (part, None), Type(n.type.dtype))
    if c.axis is not None and (
        (c.start, c.step) != (0, 1) or c.axis.extent != count or depends_on_axis(at, len(at) - 1)
    ):
        raise NeedsMemory(n)
    select = node("sort", (x,), (descending, column, count), Type(x.type.dtype))
    return node("sorted", (select,), (part, c.start if c.axis is None else c.axis), Type(n.type.dtype))
