"""Built-in convolutions of images, volumes and sequences with channels."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError
from ..ir import convolutions
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import Dim
from ..ir.graph import Node
from .data_movement_functions import check_choice
from .functions import function
from .parameter_kinds import extent

CHANNELS_FIRST, CHANNELS_LAST = ("NCHW", "NCW", "NCL", "NCDHW"), ("NHWC", "NWC", "NLC", "NDHWC")
Counts = int | tuple[int, ...]


@function(stride="ints", padding="any", dilation="ints", groups="int", layout="any")
def conv(
    b: GraphBuilder,
    x: Node,
    w: Node,
    stride: Counts = 1,
    padding: Any = 0,
    dilation: Counts = 1,
    groups: int = 1,
    layout: Any = "NCHW",
):
    """Σ over taps and channels of windows of x, along one to three axes, times weights (out, in, k, …).

    `padding` is a number of zeros, one for each axis, a pair of them for each, "same" or "valid". With layout "NHWC"
    channels are last, and weights (out, k, …, in).
    """
    check_choice("layout of conv", layout, CHANNELS_FIRST + CHANNELS_LAST, 6)
    axes = max(1, min(x.type.rank - 2, convolutions.MOST_AXES))
    if groups < 1:
        raise fail(ArgumentError(f"groups is 1 or more, not {groups}", "argument.range"), 5)
    how = convolutions.Convolution(
        _counts("stride", stride, axes, 2),
        _padding(b, padding, axes),
        _counts("dilation", dilation, axes, 4),
        groups,
        layout in CHANNELS_LAST,
    )
    return convolutions.convolve(b, x, w, how)


def _counts(name: str, given: Counts, axes: int, operand: int) -> tuple[int, ...]:
    """A number for each axis, at least 1."""
    counts = given if isinstance(given, tuple) else (given,) * axes
    if len(counts) != axes:
        message = f"{name} has {len(counts)} numbers, for {_axes(axes)}"
        raise fail(ArgumentError(message, "argument.kind", help="one number, or one for each axis"), operand)
    if min(counts) < 1:
        raise fail(ArgumentError(f"{name} is 1 or more, not {min(counts)}", "argument.range"), operand)
    return counts


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def _padding(b: GraphBuilder, given: Any, axes: int) -> tuple[tuple[Dim, Dim], ...] | str:
    """Zeros before and behind on each axis, or "same" or "valid"."""
    if isinstance(given, str):
        check_choice("padding of conv", given, ("same", "valid"), 3)
        return given
    parts = given if isinstance(given, tuple) else (given,) * axes
    if len(parts) != axes:
        message = f"padding has {len(parts)} numbers, for {_axes(axes)}"
        help = "one number, one for each axis, or a pair for each: ((0, 1), (0, 1))"
        raise fail(ArgumentError(message, "argument.kind", help=help), 3)
    pairs = [part if isinstance(part, tuple) else (part, part) for part in parts]
    wanted = [tuple(extent(b, "padding", n) for n in pair) for pair in pairs]
    if any(len(pair) != 2 or any(isinstance(n, int) and n < 0 for n in pair) for pair in wanted):
        raise fail(ArgumentError("padding is 0 or more, before and behind", "argument.range"), 3)
    return tuple((before, after) for before, after in wanted)
