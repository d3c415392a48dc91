"""Coordinates of array elements: affine in a loop axis, or computed by the kernel; and their mapping through views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ..ir.dims import Dim, expression
from ..ir.folds import scalar
from ..ir.gathers import CHECKED, GUARDED, INSIDE
from ..ir.graph import Node, Type, constant, is_literal, node, resolve, value_of, walk
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

    @property
    def axis(self) -> None:
        """None: the index follows no single axis."""
        return None


Coordinates = tuple[Coordinate | ComputedIndex, ...]
NOWHERE_ELSE = Coordinate(0, 1, None)  # the only index of an axis of extent 1


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
    return tuple(NOWHERE_ELSE if d == 1 else c for d, c in zip(shape, trailing))


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


# -- through views


def through_index(n: Node, at: Coordinates) -> Coordinates:
    """Coordinates in the operand of a basic index."""
    outer = iter(at)
    inner: list[Coordinate | ComputedIndex] = []
    for entry in n.attr:
        if entry[0] == "new":
            next(outer)
        elif entry[0] == "int":
            inner.append(Coordinate(entry[1], 1, None))
        else:
            _, start, step, _ = entry
            inner.append(_moved(next(outer), start, step))
    return tuple(inner)


def below_index(n: Node, axis: int) -> int | None:
    """The operand's axis that an axis of a basic index covers entirely, or None."""
    below = above = 0
    for entry in n.attr:
        if above == axis and entry[0] == "slice":
            return below if entry[1:] == (0, 1, n.args[0].type.shape[below]) else None
        below += entry[0] != "new"
        above += entry[0] != "int"
    return None


def _moved(c: Coordinate | ComputedIndex, start: Dim, step: int) -> Coordinate | ComputedIndex:
    """start + step * c"""
    if isinstance(c, ComputedIndex):
        return ComputedIndex(plus(times(c.value, step), start), c.inside, c.sure)
    moved = c.start * step if isinstance(c.start, int) else expression("*", c.start, step)
    return Coordinate(expression("+", start, moved), c.step * step, c.axis)


def through_gather(
    n: Node, at: Coordinates, positions: Sequence[Node], settled: Callable[[Dim], Dim] = lambda d: d
) -> tuple[Coordinates, Node | None]:
    """Coordinates in the operand of a gather, and whether the element is in range (None: it is, or need not be).

    Extents are compared as `settled` writes them.
    """
    mode, entries = n.attr
    inner: list[Coordinate | ComputedIndex] = []
    for extent, (kind, k) in zip(n.args[0].type.shape, entries):
        if kind == "axis":
            inner.append(NOWHERE_ELSE if extent == 1 else at[k])
        else:
            inner.append(_gathered(mode, positions[k], extent, settled))
    inside = [c.inside for c, (kind, _) in zip(inner, entries) if kind == "at" and isinstance(c, ComputedIndex)]
    return tuple(inner), all_of(inside) if mode == CHECKED else None


def _gathered(mode: str, position: Node, extent: Dim, settled: Callable[[Dim], Dim]) -> Coordinate | ComputedIndex:
    plain = as_coordinate(position)
    if plain is not None:
        plain = Coordinate(settled(plain.start), plain.step, plain.axis)
        if mode == INSIDE or _covers(plain, settled(extent)):
            return plain
    if mode == INSIDE:
        return ComputedIndex(position)
    if mode == GUARDED:
        return ComputedIndex(position, in_range(position, extent), sure=True)
    negative = scalar("less", position, constant(0, INT64), dtype=BOOL)
    counted = scalar("where", negative, plus(position, extent), position)
    return ComputedIndex(counted, in_range(counted, extent), sure=True) if mode == CHECKED else ComputedIndex(counted)


def _covers(c: Coordinate, extent: Dim) -> bool:
    """Whether a coordinate is in range on an axis of this extent for every iteration, even if the extent may be 0."""
    if c.axis is None:
        return isinstance(c.start, int) and isinstance(extent, int) and 0 <= c.start < extent
    return c == Coordinate(0, 1, Axis(extent, c.axis.tag))


# -- through reshapes


def through_reshape(n: Node, at: Coordinates) -> Coordinates:
    """Coordinates in the operand of a reshape.

    Axes that both sides share keep their coordinates; the others are linearised in C order and divided again.
    """
    old, new = n.args[0].type.shape, n.type.shape
    first, last = shared_ends(old, new)
    inner = [NOWHERE_ELSE] * len(old)  # type: list[Coordinate | ComputedIndex]
    before, after = non_unit_axes(old), non_unit_axes(new)
    for a, c in zip(before[:first] + before[len(before) - last :], after[:first] + after[len(after) - last :]):
        inner[a] = at[c]
    middle_old, middle_new = before[first : len(before) - last], after[first : len(after) - last]
    flat, inside = constant(0, INT64), all_of(at[c].inside for c in middle_new if isinstance(at[c], ComputedIndex))  # type: ignore[union-attr]
    for c in middle_new:
        step = _product(new[k] for k in middle_new if k > c)
        part = times(position_of(at[c]), step)
        flat = part if is_literal(flat, 0) else scalar("add", flat, part)
    for a in reversed(middle_old[1:]):
        flat, index = _divided(flat, old[a])
        inner[a] = ComputedIndex(index, inside)
    if middle_old:
        plain = as_coordinate(flat) if inside is None else None
        inner[middle_old[0]] = plain or ComputedIndex(flat, inside)
    return tuple(inner)


def shared_ends(old: Sequence[Dim], new: Sequence[Dim]) -> tuple[int, int]:
    """Number of leading and of trailing axes that two shapes share, unit axes not counted."""
    a, b = [d for d in old if d != 1], [d for d in new if d != 1]
    first = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    a, b = a[first:], b[first:]
    last = next((k for k, (x, y) in enumerate(zip(reversed(a), reversed(b))) if x != y), min(len(a), len(b)))
    return first, last


def unshared_axes(old: Sequence[Dim], new: Sequence[Dim]) -> tuple[list[int], list[int]]:
    """Axes of the operand, and axes of the result, that a reshape does not keep."""
    first, last = shared_ends(old, new)
    before, after = non_unit_axes(old), non_unit_axes(new)
    return before[first : len(before) - last], after[first : len(after) - last]


def non_unit_axes(shape: Sequence[Dim]) -> list[int]:
    """Axes with an extent other than 1."""
    return [k for k, d in enumerate(shape) if d != 1]


def _product(dims: Iterable[Dim]) -> Dim:
    total: Dim = 1
    for d in dims:
        total = expression("*", total, d)
    return total


def _divided(x: Node, d: Dim) -> tuple[Node, Node]:
    """(x // d, x % d) for x >= 0."""
    if isinstance(d, int) and d & (d - 1) == 0:
        shift, mask = constant(d.bit_length() - 1, INT64), constant(d - 1, INT64)
        return scalar("right_shift", x, shift), scalar("bitwise_and", x, mask)
    unsigned, divisor = (node("convert", (part,), None, Type(UINT64)) for part in (x, extent_scalar(d)))
    quotient = node("convert", (scalar("floor_divide", unsigned, divisor),), None, Type(INT64))
    return quotient, scalar("subtract", x, scalar("multiply", quotient, extent_scalar(d)))


def divides_by_literals(old: Sequence[Dim], new: Sequence[Dim]) -> bool:
    """Whether all divisors of `through_reshape` are compile-time constants."""
    first, last = shared_ends(old, new)
    wide = [old[a] for a in non_unit_axes(old)]
    return all(isinstance(d, int) for d in wide[first : len(wide) - last][1:])
