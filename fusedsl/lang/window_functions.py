"""Built-in functions of neighbours: sliding windows, convolutions and correlations of few taps."""

from __future__ import annotations

from ..errors import ArgumentError, FusedslError
from ..ir import shapes, windows
from ..ir.builder import GraphBuilder, fail
from ..ir.graph import Node
from .functions import function


@function(n="places", axis="places")
def sliding_window(b: GraphBuilder, x: Node, n: int | tuple[int, ...], axis: int | tuple[int, ...] = -1):
    """All windows of `n` neighbours along an axis, as a new last axis that a fold consumes: nothing of it is stored.

    A fold over windows of up to 32 elements merges them one by one. Over longer ones it is two scans, whatever their
    length. `n` and `axis` may be tuples: windows along several axes.
    """
    lengths = n if isinstance(n, tuple) else (n,)
    axes = axis if isinstance(axis, tuple) else tuple(range(-len(lengths), 0)) if axis == -1 else (axis,)
    if len(axes) != len(lengths):
        help = "sliding_window(x, (3, 3), axis=(0, 1))"
        message = f"{len(lengths)} windows along {len(axes)} axes"
        raise fail(ArgumentError(message, "argument.axis", help=help), 2)
    try:
        order = [shapes.normalize_axis(b, x, a) for a in axes]
        shapes.normalize_axes(b, x, axes)  # no axis twice
    except FusedslError as error:
        raise fail(error, 2) from None
    for length, a in zip(lengths, order):
        x = windows.sliding_window(b, x, length, a)
    return x
