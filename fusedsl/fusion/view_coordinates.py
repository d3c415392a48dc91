"""Coordinates through views, gathers and reshapes: those of an element to those of the operand that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..ir.dims import Dim, expression
from ..ir.folds import scalar
from ..ir.gathers import CHECKED, GUARDED, INSIDE
from ..ir.graph import Node, Type, constant, is_literal, node
from ..ir.types import BOOL, INT64, UINT64
from .coordinates import (
    UNIT_AXIS_COORDINATE,
    Axis,
    ComputedIndex,
    Coordinate,
    Coordinates,
    all_of,
    as_coordinate,
    extent_scalar,
    in_range,
    plus,
    position_of,
    times,
)


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
    operand_axis = result_axis = 0
    for entry in n.attr:
        if result_axis == axis and entry[0] == "slice":
            return operand_axis if entry[1:] == (0, 1, n.args[0].type.shape[operand_axis]) else None
        operand_axis += entry[0] != "new"
        result_axis += entry[0] != "int"
    return None


def _moved(c: Coordinate | ComputedIndex, start: Dim, step: int) -> Coordinate | ComputedIndex:
    """start + step * c"""
    if isinstance(c, ComputedIndex):
        return ComputedIndex(plus(times(c.value, step), start), c.inside, c.sure)
    moved = c.start * step if isinstance(c.start, int) else expression("*", c.start, step)
    return Coordinate(expression("+", start, moved), c.step * step, c.axis)


def through_gather(
    n: Node, at: Coordinates, positions: Sequence[Node], canonical_dim: Callable[[Dim], Dim] = lambda d: d
) -> tuple[Coordinates, Node | None]:
    """Coordinates in the operand of a gather, and whether the element is in range (None: it is, or need not be).

    Extents are compared in the form that `canonical_dim` gives them.
    """
    mode, entries = n.attr
    guarded = any(isinstance(c, ComputedIndex) and c.inside is not None for c in at)
    inner: list[Coordinate | ComputedIndex] = []
    for extent, (kind, k) in zip(n.args[0].type.shape, entries):
        if kind == "axis":
            inner.append(UNIT_AXIS_COORDINATE if extent == 1 else at[k])
        else:
            inner.append(_gathered(mode, guarded, positions[k], extent, canonical_dim))
    inside = [c.inside for c, (kind, _) in zip(inner, entries) if kind == "at" and isinstance(c, ComputedIndex)]
    return tuple(inner), all_of(inside) if mode == CHECKED else None


def _gathered(
    mode: str, guarded: bool, position: Node, extent: Dim, canonical_dim: Callable[[Dim], Dim]
) -> Coordinate | ComputedIndex:
    """The index at a position. An element that is read under a guard may be out of range in any mode."""
    plain = as_coordinate(position)
    if plain is not None:
        plain = Coordinate(canonical_dim(plain.start), plain.step, plain.axis)
        if (mode == INSIDE and not guarded) or _always_in_range(plain, canonical_dim(extent)):
            return plain
    if mode == INSIDE:
        if guarded:  # the guard of another index does not reach what a view below reads by this one
            return ComputedIndex(position, in_range(position, extent), sure=True)
        return ComputedIndex(position, within=True)
    if mode == GUARDED:
        return ComputedIndex(position, in_range(position, extent), sure=True)
    negative = scalar("less", position, constant(0, INT64), dtype=BOOL)
    counted = scalar("where", negative, plus(position, extent), position)
    checked = mode == CHECKED or guarded
    return ComputedIndex(counted, in_range(counted, extent), sure=True) if checked else ComputedIndex(counted)


def _always_in_range(c: Coordinate, extent: Dim) -> bool:
    """Whether a coordinate is in range on an axis of this extent for every iteration, even if the extent may be 0."""
    if c.axis is None:
        return isinstance(c.start, int) and isinstance(extent, int) and 0 <= c.start < extent
    return c == Coordinate(0, 1, Axis(extent, c.axis.tag))


def through_reshape(n: Node, at: Coordinates) -> Coordinates:
    """Coordinates in the operand of a reshape.

    Axes that both sides share keep their coordinates; the others are linearised in C order and divided again.
    """
    old, new = n.args[0].type.shape, n.type.shape
    first, last = shared_ends(old, new)
    inner = [UNIT_AXIS_COORDINATE] * len(old)  # type: list[Coordinate | ComputedIndex]
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
