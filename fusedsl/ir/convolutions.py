"""Convolutions along one to three axes: windows of a padded array times weights, summed over taps and channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as points
from math import prod

from ..errors import ShapeError
from . import contraction, index_keys, joins, shapes, windows
from .builder import GraphBuilder, fail
from .contraction import Subscripts
from .dims import Dim, evaluate, expression
from .gathers import INSIDE, gather
from .graph import Node

MOST_AXES = 3  # besides those of samples and channels
MOST_TAPS = 256  # of one channel, whose products are added one by one
OUTPUT_AXES, TAPS = "hwd", "ijk"  # letters of the axes of windows, and of the axes along which a window lies


@dataclass(frozen=True)
class Convolution:
    """How windows lie: steps between them and between their taps along each axis, and what is padded there.

    `groups` of channels are convolved by themselves. Channels are the second axis, or the last one.
    """

    stride: tuple[int, ...]
    padding: tuple[tuple[Dim, Dim], ...] | str  # zeros before and behind, "same" or "valid"
    dilation: tuple[int, ...]
    groups: int = 1
    channels_last: bool = False

    @property
    def axes(self) -> int:
        return len(self.stride)

    @property
    def channel_axis(self) -> int:
        return self.axes + 1 if self.channels_last else 1


def convolve(b: GraphBuilder, x: Node, w: Node, how: Convolution) -> Node:
    """Σ over taps and channels of windows of x times w, one result channel for each leading element of w."""
    _require_shapes(b, x, w, how)
    first_tap = 1 if how.channels_last else 2
    lengths = w.type.shape[first_tap : first_tap + how.axes]
    shapes.require_elements(b, "conv", w, tuple(range(first_tap, first_tap + how.axes)))
    depthwise = _is_depthwise(w, lengths, how)
    grouped = depthwise or how.groups > 1
    if grouped:  # before anything is computed: a view of the array
        x, w = _grouped(b, x, how.channel_axis, how.groups), _grouped(b, w, 0, how.groups)
    x = x if depthwise else contraction.rounded_operand(b, x)  # before it is padded: products read it where it is
    first = 1 if how.channels_last else x.type.rank - how.axes  # axis along which windows move
    reaches = [expression("*", expression("-", n, 1), d) for n, d in zip(lengths, how.dilation)]
    for k, reach in enumerate(reaches):
        x = _padded(b, x, first + k, _padding(how, k, reach))
    for k, reach in enumerate(reaches):
        x = _windows(b, x, first + k, reach, (how.stride[k], how.dilation[k]))
    if depthwise:
        return _ungrouped(b, _depthwise(b, x, w, lengths, how.channels_last), how.channel_axis)
    total = contraction.contract(b, x, w, _subscripts(how, grouped), "conv")
    return _ungrouped(b, total, how.channel_axis) if grouped else total


def _subscripts(how: Convolution, grouped: bool) -> Subscripts:
    """Samples n, groups g, channels c and o, windows h, w, d, taps i, j, k."""
    outputs, taps, group = OUTPUT_AXES[: how.axes], TAPS[: how.axes], "g" if grouped else ""
    if how.channels_last:
        return Subscripts(f"n{outputs}{group}c{taps}", f"{group}o{taps}c", f"n{outputs}{group}o")
    return Subscripts(f"n{group}c{outputs}{taps}", f"{group}oc{taps}", f"n{group}o{outputs}")


def _require_shapes(b: GraphBuilder, x: Node, w: Node, how: Convolution) -> None:
    """Refuse arrays of other ranks, or of channels that do not fit."""
    if x.type.rank != how.axes + 2 or w.type.rank != x.type.rank:
        form = "(out, k, in)" if how.channels_last else "(out, in, k)"
        message = f"conv takes arrays of samples and channels, and weights of the same rank: not {b.describe(x.type)} "
        help = f"x of rank 3 to {MOST_AXES + 2} and weights {form}, with a k for each further axis"
        raise fail(ShapeError(f"{message}and {b.describe(w.type)}", "shape.conv", help=help), 1)
    dims = x.type.shape[how.channel_axis], w.type.shape[-1 if how.channels_last else 1], w.type.shape[0]
    have, take, out = (evaluate(d, b.extents) for d in dims)
    if have != take * how.groups:
        of = f"{how.groups} groups of {take}" if how.groups > 1 else take
        message = f"the array has {have} channels, and the weights take {of}"
        raise fail(ShapeError(message, "shape.conv", help=_channels_help(how)), 1)
    if out % how.groups:
        message = f"{out} channels of the result are no {how.groups} groups"
        raise fail(ShapeError(message, "shape.conv", help="groups divides both numbers of channels"), 1)


def _channels_help(how: Convolution) -> str:
    if how.channels_last:
        return "channels are the last axis of the array and of the weights"
    return "channels are the second axis of both; layout='NHWC' has them last"


def _padded(b: GraphBuilder, x: Node, axis: int, zeros: tuple[Dim, Dim]) -> Node:
    """Zeros before and behind along an axis."""
    if zeros == (0, 0):
        return x
    return joins.pad(b, x, axis, joins.Padding(*zeros, "constant", b.literal(0)))


def _windows(b: GraphBuilder, x: Node, axis: int, reach: Dim, steps: tuple[int, int]) -> Node:
    """Windows along an axis as a new last axis, with steps between them and between their taps."""
    span = expression("+", reach, 1)
    windows.require_windows(b, x, axis, span, "conv")
    return windows.sliding_window(b, x, span, axis) if steps == (1, 1) else _stepped(b, x, span, axis, steps)


def _stepped(b: GraphBuilder, x: Node, n: Dim, axis: int, steps: tuple[int, int]) -> Node:
    """Windows over `n` neighbours along an axis, with steps between them and between their taps: one gather."""
    size, (step, tap_step) = x.type.shape[axis], steps
    count, taps = _every(step, expression("-", size, expression("-", n, 1))), _every(tap_step, n)
    starts = shapes.expand_dims(b, b.iota(count), tuple(range(1, 1 + x.type.rank - axis)))
    place, offset = (
        b.elementwise("multiply", *pair) for pair in ((starts, b.literal(step)), (b.iota(taps), b.literal(tap_step)))
    )
    position = b.strong(b.elementwise("add", place, offset))
    shape = (*x.type.shape[:axis], count, *x.type.shape[axis + 1 :], taps)
    return gather(x, {axis: position}, [None if k == axis else k for k in range(x.type.rank)], shape, INSIDE)


def _every(step: int, count: Dim) -> Dim:
    """The elements of an axis of which one in `step` is taken."""
    return count if step == 1 else expression("slice", count, None, None, step)


def _padding(how: Convolution, k: int, reach: Dim) -> tuple[Dim, Dim]:
    if how.padding == "same":
        before = expression("//", reach, 2)
        return before, expression("-", reach, before)
    return (0, 0) if isinstance(how.padding, str) else how.padding[k]


def _is_depthwise(w: Node, lengths: Sequence[Dim], how: Convolution) -> bool:
    """Whether each channel is convolved by itself, with so few taps that their products are added one by one."""
    alone = w.type.shape[-1 if how.channels_last else 1] == 1
    return alone and all(isinstance(n, int) for n in lengths) and 0 < prod(map(int, lengths)) <= MOST_TAPS  # type: ignore[arg-type]


def _depthwise(b: GraphBuilder, x: Node, w: Node, lengths: Sequence[Dim], channels_last: bool) -> Node:
    """Products of each tap of (group, out, …) weights with its elements of all windows, added in pairs."""
    products = []
    for tap in points(*(range(n) for n in lengths if isinstance(n, int))):
        channel = (*tap, 0) if channels_last else (0, *tap)
        weight = index_keys.index(b, w, (slice(None), slice(None), *channel))
        if not channels_last:
            weight = shapes.expand_dims(b, weight, tuple(range(-len(lengths), 0)))
        products.append(b.elementwise("multiply", index_keys.index(b, x, (Ellipsis, *tap)), weight))
    while len(products) > 1:
        pairs = [b.elementwise("add", p, q) for p, q in zip(products[::2], products[1::2])]
        products = pairs + products[2 * len(pairs) :]
    return products[0]


def _grouped(b: GraphBuilder, x: Node, axis: int, groups: int) -> Node:
    """An axis of channels as two: groups, and channels of a group."""
    dims = x.type.shape
    return shapes.reshape(b, x, (*dims[:axis], groups, expression("//", dims[axis], groups), *dims[axis + 1 :]))


def _ungrouped(b: GraphBuilder, x: Node, axis: int) -> Node:
    """Groups and their channels as one axis."""
    dims: Sequence[Dim] = x.type.shape
    return shapes.reshape(b, x, (*dims[:axis], expression("*", dims[axis], dims[axis + 1]), *dims[axis + 2 :]))
