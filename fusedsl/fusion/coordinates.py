"""Coordinates of array elements: affine in a loop axis, or computed by the kernel; and their mapping through views."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ..ir.dims import Dim, expression
from ..ir.folds import scalar
from ..ir.graph import Node, Type, constant, node, resolve, value_of, walk
from ..ir.types import BOOL, INT64, UINT64, DType
from ..rewrite.scalar_builder import free_axes


@dataclass(frozen=True)
class Axis:
    """Loop variable from 0 to `extent`; `tag` distinguishes axes of equal extent."""

    extent: Dim
    tag: int = 0

    def __str__(self) -> str:
        return f"{self.extent}{chr(39) * self.tag}"


@dataclass(frozen=True)
class Coordinate:
    """Affine index along one axis of an array: start + step * axis."""

    start: Dim = 0
    step: int = 1
    axis: Axis | None = None


@dataclass(frozen=True)
class ComputedIndex:
    """Index along one axis of an array that the kernel computes."""

    value: Node  # int64 scalar
    inside: Node | None = None  # bool scalar: the element exists; None: always
    sure: bool = False  # if `inside`, the index is in range for every iteration, even beyond an axis' end
    within: bool = False  # the index is in range for all elements of the axes that it is computed from

    @property
    def axis(self) -> None:
        """None: the index follows no single axis."""
        return None


Coordinates = tuple[Coordinate | ComputedIndex, ...]
UNIT_AXIS_COORDINATE = Coordinate(0, 1, None)  # the only index of an axis of extent 1


def position_of(at: Coordinate | ComputedIndex) -> Node:
    """The index as an int64 scalar."""
    if isinstance(at, ComputedIndex):
        return at.value
    if at.axis is None:
        return extent_scalar(at.start)
    return plus(times(node("position", (), at.axis, Type(INT64)), at.step), at.start)


def depends_on_axis(at: Coordinates, k: int) -> bool:
    """Whether another coordinate depends on the axis of this one, as on a diagonal."""
    axis, others = at[k].axis, (*at[:k], *at[k + 1 :])
    computed = [c.value for c in others if isinstance(c, ComputedIndex)]
    free = free_axes(computed)
    return any(c.axis == axis for c in others) or any(axis in free[value] for value in computed)


def aligned(shape: tuple[Dim, ...], at: Coordinates) -> Coordinates:
    """Coordinates of a broadcast operand: the trailing ones, index 0 along extents of 1."""
    trailing = at[len(at) - len(shape) :]
    return tuple(UNIT_AXIS_COORDINATE if d == 1 else c for d, c in zip(shape, trailing))


def memory_order(values: Iterable[Node], axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """Axes in the memory order of the largest arrays below some values; other axes last."""
    loads = [n for n in walk(values) if n.op in ("load", "fetch")]
    wanted = dict.fromkeys(axes)
    order: dict[Axis, None] = {}
    for n in sorted(loads, key=lambda n: -len(n.attr[1])):
        order |= {c.axis: None for c in n.attr[1] if c.axis in wanted}
    return tuple(order | wanted)


# -- arithmetic on positions


def extent_scalar(d: Dim, kind: DType = INT64) -> Node:
    """An extent as a scalar."""
    return constant(d, kind) if isinstance(d, int) else node("size", (), d, Type(kind))


def plus(x: Node, d: Dim) -> Node:
    return x if d == 0 else scalar("add", x, extent_scalar(d))


def times(x: Node, d: Dim) -> Node:
    return x if d == 1 else scalar("multiply", x, extent_scalar(d))


def all_of(conditions: Iterable[Node | None]) -> Node | None:
    """Conjunction of conditions; None is always true."""
    total = None
    for c in dict.fromkeys(conditions):
        if c is not None:
            total = c if total is None else scalar("logical_and", total, c)
    return total


def in_range(position: Node, extent: Dim) -> Node:
    """Whether 0 <= position < extent, by one unsigned comparison."""
    unsigned = node("convert", (position,), None, Type(UINT64))
    size = extent if isinstance(extent, int) else extent_scalar(extent)
    limit = constant(size, UINT64) if isinstance(size, int) else node("convert", (size,), None, Type(UINT64))
    return scalar("less", unsigned, limit, dtype=BOOL)


_known: WeakKeyDictionary[Node, Coordinate | None] = WeakKeyDictionary()


def as_coordinate(n: Node) -> Coordinate | None:
    """An int64 scalar as start + step * axis, if it is affine; else None."""
    return resolve(_known, n, lambda n: n.args if n.op in ("add", "subtract", "multiply") else (), _as_coordinate_step)


def _as_coordinate_step(n: Node) -> Coordinate | None:
    """`as_coordinate` of a node whose operands are done."""
    match n.op:
        case "position":
            return Coordinate(0, 1, n.attr)
        case "const" if n.type.dtype.kind in "iu":
            return Coordinate(int(value_of(n)), 1, None)
        case "size":
            return Coordinate(n.attr, 1, None)
        case "add" | "subtract" | "multiply":
            return _combined(n.op, *(_known[a] for a in n.args))
    return None


def _combined(op: str, x: Coordinate | None, y: Coordinate | None) -> Coordinate | None:
    if x is None or y is None:
        return None
    if op != "subtract" and x.axis is None:
        x, y = y, x
    if y.axis is not None:
        return None
    if op == "multiply":
        if x.axis is None:
            return Coordinate(expression("*", x.start, y.start), 1, None)
        return _stepped(x, y.start) if isinstance(y.start, int) and y.start else None
    return Coordinate(expression("+" if op == "add" else "-", x.start, y.start), x.step, x.axis)


def _stepped(c: Coordinate, step: int) -> Coordinate:
    return Coordinate(expression("*", c.start, step), c.step * step, c.axis)


@dataclass(frozen=True)
class AffineIndex:
    """start + Σ step * axis over several axes."""

    start: Dim
    steps: tuple[tuple[Axis, int], ...]


_affine: WeakKeyDictionary[Node, AffineIndex | None] = WeakKeyDictionary()


def as_affine_index(n: Node) -> AffineIndex | None:
    """An int64 scalar as a sum of steps along axes, if it is one; else None."""
    return resolve(_affine, n, lambda n: n.args if n.op in ("add", "subtract") else (), _as_affine_step)


def _as_affine_step(n: Node) -> AffineIndex | None:
    """`as_affine_index` of a node whose operands are done."""
    plain = as_coordinate(n)
    if plain is not None:
        return AffineIndex(plain.start, () if plain.axis is None else ((plain.axis, plain.step),))
    if n.op not in ("add", "subtract"):
        return None
    x, y = (_affine[a] for a in n.args)
    if x is None or y is None:
        return None
    sign, steps = (1 if n.op == "add" else -1), dict(x.steps)
    for axis, step in y.steps:
        steps[axis] = steps.get(axis, 0) + sign * step
    start = expression("+" if n.op == "add" else "-", x.start, y.start)
    return AffineIndex(start, tuple((axis, step) for axis, step in steps.items() if step))


# -- through views


# -- through reshapes
