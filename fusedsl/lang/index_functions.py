"""The table's functions that say where elements come from: gathers, joins, repetitions, padding."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, FusedslError, suggest
from ..ir import gathers, joins, shapes
from ..ir.builder import Builder, fail
from ..ir.dims import Dim, product
from ..ir.graph import Node
from .functions import dim_of, function, show_value

Axes = int | tuple[int, ...] | None


@function(axis="axis")
def take(b: Builder, x: Node, indices: Node, axis: int | None = None):
    return gathers.take(b, x, indices, axis)


@function(axis="axis")
def take_along_axis(b: Builder, x: Node, indices: Node, axis: int | None = -1):
    return gathers.take_along_axis(b, x, indices, axis)


@function(arrays="arrays", axis="plain axis")
def concat(b: Builder, arrays: tuple[Node, ...], axis: int | None = 0):
    if axis is None:
        return joins.concat(b, [_flat(b, x) for x in arrays], 0)
    return joins.concat(b, arrays, axis)


@function(arrays="arrays", axis="plain axis")
def stack(b: Builder, arrays: tuple[Node, ...], axis: int = 0):
    return joins.stack(b, arrays, axis)


@function()
def flip(b: Builder, x: Node, axis: Axes = None):
    return joins.flip(b, x, shapes.normalize_axes(b, x, axis))


@function(shift="extents")
def roll(b: Builder, x: Node, shift: tuple[Dim, ...], axis: Axes = None):
    if axis is None:
        flat = _flat(b, x)
        return shapes.reshape(b, joins.roll(b, flat, gathers.total(shift), 0), x.type.shape)
    axes = (axis,) if isinstance(axis, int) else axis
    shifts = shift * len(axes) if len(shift) == 1 else shift
    if len(shifts) != len(axes):
        message = f"roll has {len(shifts)} shifts for {len(axes)} axes"
        raise fail(ArgumentError(message, code="argument.shift", help="give one for each axis, or one for all"), 1)
    for s, a in zip(shifts, axes):
        x = joins.roll(b, x, s, shapes.normalize_axis(b, x, a))
    return x


@function(repeats="extent", axis="axis")
def repeat(b: Builder, x: Node, repeats: Dim, axis: int | None = None):
    _not_negative(repeats, "repeats", 1)
    if axis is None:
        x, axis = _flat(b, x), 0
    return joins.repeat(b, x, repeats, shapes.normalize_axis(b, x, axis))


@function(repetitions="shape")
def tile(b: Builder, x: Node, repetitions: tuple[Dim, ...]):
    for count in repetitions:
        _not_negative(count, "repetitions", 1)
    return joins.tile(b, x, repetitions)


@function(pad_width="any", mode="any", constant_values="any")
def pad(b: Builder, x: Node, pad_width: Any, mode: Any = "constant", constant_values: Any = None):
    if mode not in joins.PADDINGS:
        near = suggest(mode, joins.PADDINGS) if isinstance(mode, str) else None
        message = f"mode of pad is {' or '.join(map(repr, joins.PADDINGS))}, not {show_value(mode)}"
        raise fail(ArgumentError(message, code="argument.choice", help=f"did you mean {near!r}?" if near else None), 2)
    widths = [(_width(w[0]), _width(w[1])) for w in _ends(pad_width, x.type.rank, 1)]
    zero = b.literal(0)
    fills = _ends(zero if constant_values is None else constant_values, x.type.rank, 3)
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, fills)):
        if low is high:
            x = _padded(b, x, axis, before, after, mode, low)
        else:
            x = _padded(b, _padded(b, x, axis, before, 0, mode, low), axis, 0, after, mode, high)
    return x


def _padded(b: Builder, x: Node, axis: int, before: Dim, after: Dim, mode: str, fill: Any) -> Node:
    if before == 0 and after == 0:
        return x
    if not isinstance(fill, Node) or fill.type.shape:
        message = f"constant_values are numbers, not {show_value(fill)}"
        raise fail(ArgumentError(message, code="argument.kind"), 3)
    return joins.pad(b, x, axis, before, after, mode, fill)


def _ends(value: Any, rank: int, operand: int) -> list[tuple[Any, Any]]:
    """(before, after) for each axis, out of n, (before, after), ((before, after),) or one such pair an axis."""
    pair = _pair(value)
    if pair is not None:
        return [pair] * rank
    pairs = [_pair(part) for part in value] if isinstance(value, tuple) else []
    if any(p is None for p in pairs) or len(pairs) not in (1, rank):
        what = "pad_width" if operand == 1 else "constant_values"
        message = f"{what} of an array of {rank} axes is a number, a pair, or {rank} pairs"
        raise fail(ArgumentError(message, code="argument.kind", help="e.g. ((0, 0), (1, 2))"), operand)
    return [p for p in pairs if p is not None] * (rank if len(pairs) == 1 else 1)


def _pair(value: Any) -> tuple[Any, Any] | None:
    if isinstance(value, Node):
        return value, value
    if isinstance(value, tuple) and all(isinstance(part, Node) for part in value) and len(value) in (1, 2):
        return value[0], value[-1]
    return None


def _width(value: Any) -> Dim:
    found = dim_of(value)
    if found is None:
        message = f"pad_width takes integers, not {show_value(value)}"
        raise fail(ArgumentError(message, code="argument.kind", help="use literals, or arithmetic on size(x, axis)"), 1)
    _not_negative(found, "pad_width", 1)
    return found


def _not_negative(value: Dim, what: str, operand: int) -> None:
    if isinstance(value, int) and value < 0:
        error: FusedslError = ArgumentError(f"{what} cannot be negative: {value}", code="argument.range")
        raise fail(error, operand)


@function()
def outer(b: Builder, x: Node, y: Node):
    left = shapes.expand_dims(b, _flat(b, x), 1)
    return b.elementwise("multiply", left, _flat(b, y))


def _flat(b: Builder, x: Node) -> Node:
    return x if x.type.rank == 1 else shapes.reshape(b, x, (product(x.type.shape),))
