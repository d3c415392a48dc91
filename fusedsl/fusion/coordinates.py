"""Where an element of an array stands, along loop axes or at computed positions; and what views make of it."""

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
    """A loop variable from 0 to `extent`; `tag` tells apart several of one extent."""

    extent: Dim
    tag: int = 0

    def __str__(self) -> str:
        return f"{self.extent}{chr(39) * self.tag}"


@dataclass(frozen=True)
class Coordinate:
    """The position along one axis of a source: start + step * axis."""

    start: Dim = 0
    step: int = 1
    axis: Axis | None = None


@dataclass(frozen=True)
class ComputedIndex:
    """A position along one axis of a source that only the kernel knows: `value`, an int64 scalar. Where `inside` (a
    bool scalar) is False, there is no such element; None says that there always is. Where `sure`, what is inside is
    a position of the axis whatever the iteration, even beyond its end."""

    value: Node
    inside: Node | None = None
    sure: bool = False

    @property
    def axis(self) -> None:
        """It follows no axis of its own."""
        return None


Coordinates = tuple[Coordinate | ComputedIndex, ...]
NOWHERE_ELSE = Coordinate(0, 1, None)  # the one position of an axis of extent 1


def position_of(at: Coordinate | ComputedIndex) -> Node:
    """The position as an int64."""
    if isinstance(at, ComputedIndex):
        return at.value
    if at.axis is None:
        return extent_scalar(at.start)
    return plus(times(node("position", (), at.axis, Type(INT64)), at.step), at.start)


def depends_on_axis(at: Coordinates, place: int) -> bool:
    """Whether another coordinate depends on the axis of this one, as on a diagonal."""
    axis, others = at[place].axis, (*at[:place], *at[place + 1 :])
    computed = [c.value for c in others if isinstance(c, ComputedIndex)]
    free = free_axes(computed)
    return any(c.axis == axis for c in others) or any(axis in free[value] for value in computed)


def aligned(shape: tuple[Dim, ...], at: Coordinates) -> Coordinates:
    """Coordinates of a broadcast operand: the trailing ones, position 0 where its extent is 1."""
    trailing = at[len(at) - len(shape) :]
    return tuple(NOWHERE_ELSE if d == 1 else c for d, c in zip(shape, trailing))


def memory_order(values: Iterable[Node], axes: Iterable[Axis]) -> tuple[Axis, ...]:
    """Axes in the order in which the first of the largest arrays below some values store them; other axes last."""
    loads = [n for n in walk(values) if n.op in ("load", "fetch")]
    wanted = dict.fromkeys(axes)
    found: dict[Axis, None] = {}
    for n in sorted(loads, key=lambda n: -len(n.attr[1])):
        found |= {c.axis: None for c in n.attr[1] if c.axis in wanted}
    return tuple(found | wanted)


# -- arithmetic on positions


def extent_scalar(d: Dim, kind: DType = INT64) -> Node:
    """An extent as a scalar."""
    return constant(d, kind) if isinstance(d, int) else node("size", (), d, Type(kind))


def plus(x: Node, d: Dim) -> Node:
    return x if d == 0 else scalar("add", x, extent_scalar(d))


def times(x: Node, d: Dim) -> Node:
    return x if d == 1 else scalar("multiply", x, extent_scalar(d))


def all_of(conditions: Iterable[Node | None]) -> Node | None:
    """Whether all of these hold; None always does."""
    found = None
    for c in dict.fromkeys(conditions):
        if c is not None:
            found = c if found is None else scalar("logical_and", found, c)
    return found


def in_range(position: Node, extent: Dim) -> Node:
    """Whether an axis of this extent has this position: as unsigned numbers, negative ones are beyond."""
    unsigned = node("convert", (position,), None, Type(UINT64))
    limit = (
        constant(extent, UINT64)
        if isinstance(extent, int)
        else node("convert", (extent_scalar(extent),), None, Type(UINT64))
    )
    return scalar("less", unsigned, limit, dtype=BOOL)


_known: WeakKeyDictionary[Node, Coordinate | None] = WeakKeyDictionary()


def as_coordinate(n: Node) -> Coordinate | None:
    """The coordinate that an int64 scalar is, where it is start + step * position."""
    return resolve(_known, n, lambda n: n.args if n.op in ("add", "subtract", "multiply") else (), _one_along)


def _one_along(n: Node) -> Coordinate | None:
    """`as_coordinate`, where those of the arguments are known."""
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
    """Coordinates in the array below a basic index."""
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
    """The axis below a basic index that an axis above it is all of."""
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
    """Coordinates in the array below a gather, and whether its element is there (None: it is, or does not matter).
    Extents are compared as `settled` writes them."""
    mode, entries = n.attr
    inner: list[Coordinate | ComputedIndex] = []
    for extent, (kind, k) in zip(n.args[0].type.shape, entries):
        if kind == "axis":
            inner.append(NOWHERE_ELSE if extent == 1 else at[k])
        else:
            inner.append(_gathered(mode, positions[k], extent, settled))
    there = [c.inside for c, (kind, _) in zip(inner, entries) if kind == "at" and isinstance(c, ComputedIndex)]
    return tuple(inner), all_of(there) if mode == CHECKED else None


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
    """Whether a coordinate is a position of an axis of this extent, which may have no elements, wherever it stands."""
    if c.axis is None:
        return isinstance(c.start, int) and isinstance(extent, int) and 0 <= c.start < extent
    return c == Coordinate(0, 1, Axis(extent, c.axis.tag))


# -- through reshapes


def through_reshape(n: Node, at: Coordinates) -> Coordinates:
    """Coordinates in the array below a reshape: axes that both sides share keep theirs, between them the position is
    counted in C order and split anew."""
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
        flat, rest = _divided(flat, old[a])
        inner[a] = ComputedIndex(rest, inside)
    if middle_old:
        plain = as_coordinate(flat) if inside is None else None
        inner[middle_old[0]] = plain or ComputedIndex(flat, inside)
    return tuple(inner)


def shared_ends(old: Sequence[Dim], new: Sequence[Dim]) -> tuple[int, int]:
    """How many leading and how many trailing axes, those of extent 1 not counted, two shapes have in common."""
    a, b = [d for d in old if d != 1], [d for d in new if d != 1]
    first = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    a, b = a[first:], b[first:]
    last = next((k for k, (x, y) in enumerate(zip(reversed(a), reversed(b))) if x != y), min(len(a), len(b)))
    return first, last


def unshared_axes(old: Sequence[Dim], new: Sequence[Dim]) -> tuple[list[int], list[int]]:
    """The axes below a reshape, and those above it, that it does not keep."""
    first, last = shared_ends(old, new)
    before, after = non_unit_axes(old), non_unit_axes(new)
    return before[first : len(before) - last], after[first : len(after) - last]


def non_unit_axes(shape: Sequence[Dim]) -> list[int]:
    """The axes whose extent is not 1."""
    return [k for k, d in enumerate(shape) if d != 1]


def _product(dims: Iterable[Dim]) -> Dim:
    found: Dim = 1
    for d in dims:
        found = expression("*", found, d)
    return found


def _divided(x: Node, d: Dim) -> tuple[Node, Node]:
    """(x // d, x % d) for x >= 0."""
    if isinstance(d, int) and d & (d - 1) == 0:
        shift, mask = constant(d.bit_length() - 1, INT64), constant(d - 1, INT64)
        return scalar("right_shift", x, shift), scalar("bitwise_and", x, mask)
    unsigned, divisor = (node("convert", (part,), None, Type(UINT64)) for part in (x, extent_scalar(d)))
    quotient = node("convert", (scalar("floor_divide", unsigned, divisor),), None, Type(INT64))
    return quotient, scalar("subtract", x, scalar("multiply", quotient, extent_scalar(d)))


def divides_by_literals(old: Sequence[Dim], new: Sequence[Dim]) -> bool:
    """Whether what `through_reshape` divides by is known when the kernel is compiled."""
    first, last = shared_ends(old, new)
    wide = [old[a] for a in non_unit_axes(old)]
    return all(isinstance(d, int) for d in wide[first : len(wide) - last][1:])
