"""Built-in data movement: gathers, concatenation, repetition, padding, rolls, diagonals."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, FusedslError, ShapeError, suggest
from ..ir import gathers, joins, shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import Dim, expression, product
from ..ir.graph import Node
from ..ir.types import DType
from .functions import function
from .parameter_kinds import CONSTANT_HELP, dim_of, not_constant, show_value

Axes = int | tuple[int, ...] | None


@function(axis="axis", mode="any")
def take(b: GraphBuilder, x: Node, indices: Node, axis: int | None = None, *, mode: Any = "raise"):
    """The elements at `indices` along an axis, or of the flattened array; NaN, 0 or False if out of range."""
    check_choice("mode of take", mode, TAKE_MODES, 3)
    if mode == "raise":
        return gathers.take(b, x, indices, axis)
    if axis is None:
        x, axis = _flat(b, x), 0
    n = x.type.shape[shapes.normalize_axis(b, x, axis)]
    if mode == "wrap":
        indices = b.elementwise("remainder", indices, b.extent(n))
    else:
        last = b.extent(expression("-", n, 1))
        indices = b.elementwise("maximum", b.elementwise("minimum", indices, last), b.literal(0))
    return gathers.take(b, x, indices, axis)


TORCH_MODES = {"circular": "write mode='wrap'", "replicate": "write mode='edge'"}  # of torch.nn.functional.pad
TAKE_MODES = ("raise", "wrap", "clip")  # of numpy.take, for indices out of range; "raise" does not raise here


def check_choice(what: str, value: Any, choices: tuple[str, ...], operand: int, otherwise: str | None = None) -> None:
    """ArgumentError if a string is none of the choices."""
    if value in choices:
        return
    near = suggest(value, choices) if isinstance(value, str) else None
    message = f"{what} is {' or '.join(map(repr, choices))}, not {show_value(value)}"
    help = f"did you mean {near!r}?" if near else otherwise
    raise fail(ArgumentError(message, "argument.choice", help=help), operand)


@function(axis="axis")
def take_along_axis(b: GraphBuilder, x: Node, indices: Node, axis: int | None = -1):
    """For each element of `indices`, the element at that index along the axis."""
    return gathers.take_along_axis(b, x, indices, axis)


@function(offset="int", axis1="int", axis2="int")
def diagonal(b: GraphBuilder, x: Node, offset: int = 0, axis1: int = 0, axis2: int = 1):
    """The elements whose position along axis2 is `offset` beyond that along axis1, along a new last axis."""
    if x.type.rank < 2:
        error = ShapeError("a diagonal needs two axes", "shape.axis", help="give it another axis: x[None]")
        raise fail(error, 0)
    first, second = (shapes.normalize_axis(b, x, axis) for axis in (axis1, axis2))
    if first == second:
        help = "a diagonal runs through two axes"
        raise fail(ArgumentError(f"axis {axis2} is given twice", "argument.axis", help=help), 3)
    return gathers.diagonal(b, x, first, second, offset)


@function(arrays="arrays", axis="plain axis")
def concat(b: GraphBuilder, arrays: tuple[Node, ...], axis: int | None = 0, *, dtype: DType | None = None):
    """Arrays one after another along an axis."""
    arrays = _cast_all(b, arrays, dtype)
    if axis is None:
        return joins.concat(b, [_flat(b, x) for x in arrays], 0)
    return joins.concat(b, arrays, axis)


@function(arrays="arrays", axis="plain axis")
def stack(b: GraphBuilder, arrays: tuple[Node, ...], axis: int = 0, *, dtype: DType | None = None):
    """Arrays side by side along a new axis."""
    return joins.stack(b, _cast_all(b, arrays, dtype), axis)


def _cast_all(b: GraphBuilder, arrays: tuple[Node, ...], dtype: DType | None) -> tuple[Node, ...]:
    return arrays if dtype is None else tuple(b.cast(x, dtype) for x in arrays)


@function()
def flip(b: GraphBuilder, x: Node, axis: Axes = None):
    """The order reversed along axes, all by default."""
    return joins.flip(b, x, shapes.normalize_axes(b, x, axis))


@function(shift="extents")
def roll(b: GraphBuilder, x: Node, shift: tuple[Dim, ...], axis: Axes = None):
    """Elements moved by `shift`; those beyond the end come in at the start."""
    if axis is None:
        flat = _flat(b, x)
        return shapes.reshape(b, joins.roll(b, flat, gathers.total(shift), 0), x.type.shape)
    axes = (axis,) if isinstance(axis, int) else axis
    shifts = shift * len(axes) if len(shift) == 1 else shift
    if len(shifts) != len(axes):
        message = f"roll has {len(shifts)} shifts for {len(axes)} axes"
        raise fail(ArgumentError(message, "argument.shift", help="give one for each axis, or one for all"), 1)
    for s, a in zip(shifts, axes):
        x = joins.roll(b, x, s, shapes.normalize_axis(b, x, a))
    return x


@function(repeats="extent", axis="axis")
def repeat(b: GraphBuilder, x: Node, repeats: Dim, axis: int | None = None):
    """Each element so many times."""
    _not_negative(repeats, "repeats", 1)
    if axis is None:
        x, axis = _flat(b, x), 0
    return joins.repeat(b, x, repeats, shapes.normalize_axis(b, x, axis))


@function(repetitions="shape")
def tile(b: GraphBuilder, x: Node, repetitions: tuple[Dim, ...]):
    """The whole array so many times along each axis."""
    for count in repetitions:
        _not_negative(count, "repetitions", 1)
    return joins.tile(b, x, repetitions)


@function(pad_width="any", mode="any", constant_values="any")
def pad(b: GraphBuilder, x: Node, pad_width: Any, mode: Any = "constant", constant_values: Any = None):
    """Elements added at the ends: constant, edge, reflect or wrap."""
    others = "others are made of slices, e.g. concat([flip(x), x])"
    check_choice("mode of pad", mode, joins.PADDINGS, 2, TORCH_MODES.get(mode, others))
    widths = [(_width(w[0]), _width(w[1])) for w in _ends(pad_width, x.type.rank, 1)]
    zero = b.literal(0)
    fills = _ends(zero if constant_values is None else constant_values, x.type.rank, 3)
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, fills)):
        if low is high:
            x = _padded(b, x, axis, joins.Padding(before, after, mode, low))
        else:
            x = _padded(b, x, axis, joins.Padding(before, 0, mode, low))
            x = _padded(b, x, axis, joins.Padding(0, after, mode, high))
    return x


def _padded(b: GraphBuilder, x: Node, axis: int, padding: joins.Padding) -> Node:
    if padding.before == 0 and padding.after == 0:
        return x
    if not isinstance(padding.fill, Node) or padding.fill.type.shape:
        message = f"constant_values are numbers, not {show_value(padding.fill)}"
        raise fail(
            ArgumentError(message, "argument.kind", help="pass a number, or a pair of them: before and after"), 3
        )
    return joins.pad(b, x, axis, padding)


def _ends(value: Any, rank: int, operand: int) -> list[tuple[Any, Any]]:
    """(before, after) for each axis, out of n, (before, after), ((before, after),) or one such pair an axis."""
    pair = _pair(value)
    if pair is not None:
        return [pair] * rank
    pairs = [_pair(part) for part in value] if isinstance(value, tuple) else []
    if any(p is None for p in pairs) or len(pairs) not in (1, rank):
        what = "pad_width" if operand == 1 else "constant_values"
        message = f"{what} of an array of {rank} axes is a number, a pair, or {rank} pairs"
        raise fail(ArgumentError(message, "argument.kind", help="e.g. ((0, 0), (1, 2))"), operand)
    return [p for p in pairs if p is not None] * (rank if len(pairs) == 1 else 1)


def _pair(value: Any) -> tuple[Any, Any] | None:
    if isinstance(value, Node):
        return value, value
    if isinstance(value, tuple) and all(isinstance(part, Node) for part in value) and len(value) in (1, 2):
        return value[0], value[-1]
    return None


def _width(value: Any) -> Dim:
    dim = dim_of(value)
    if dim is None:
        message = f"pad_width takes integers, not {show_value(value)}"
        raise fail(not_constant(ArgumentError(message, "argument.kind", help=CONSTANT_HELP), value), 1)
    _not_negative(dim, "pad_width", 1)
    return dim


def _not_negative(value: Dim, what: str, operand: int) -> None:
    if isinstance(value, int) and value < 0:
        help = "a slice takes elements away: x[1:-1]" if what == "pad_width" else "give 0 or more"
        error: FusedslError = ArgumentError(f"{what} cannot be negative: {value}", "argument.range", help=help)
        raise fail(error, operand)


@function()
def outer(b: GraphBuilder, x: Node, y: Node):
    """x[i] · y[j]"""
    left = shapes.expand_dims(b, _flat(b, x), 1)
    return b.elementwise("multiply", left, _flat(b, y))


def _flat(b: GraphBuilder, x: Node) -> Node:
    return x if x.type.rank == 1 else shapes.reshape(b, x, (product(x.type.shape),))
