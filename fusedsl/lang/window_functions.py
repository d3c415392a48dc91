"""Built-in functions of neighbours: sliding windows, convolutions and correlations of few taps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..errors import ArgumentError, FusedslError, ShapeError
from ..ir import index_keys, joins, shapes, windows
from ..ir.builder import GraphBuilder, fail
from ..ir.dims import Dim, expression
from ..ir.graph import Node
from .data_movement_functions import check_choice
from .functions import function
from .parameter_kinds import array

MOST_TAPS = 32  # of a vector, that are unrolled, as a window's elements are
MODES = ("full", "same", "valid")


@function(n="ints", axis="ints")
def sliding_window(b: GraphBuilder, x: Node, n: int | tuple[int, ...], axis: int | tuple[int, ...] = -1):
    """All windows of `n` neighbours along an axis, as a new last axis that a fold consumes: nothing of it is stored.

    A fold over windows of up to 32 elements merges them one by one, over longer ones folds of neighbours; over the
    longest it is two scans, whatever their length. `n` and `axis` may be tuples: windows along several axes.
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


@function(v="any", mode="any")
def convolve(b: GraphBuilder, a: Node, v: Any, mode: Any = "full"):
    """Σ a[i - j] v[j] along the last axis of `a`, of few taps `v`, no longer than it; mode full, same or valid.

    Leading axes of `a` are batches. Taps that the program gives, as in (0.25, 0.5, 0.25), are unrolled.
    """
    a, taps = _operands(b, "convolve", a, v)
    return _correlated(b, "convolve", a, taps[::-1], mode)


@function(v="any", mode="any")
def correlate(b: GraphBuilder, a: Node, v: Any, mode: Any = "valid"):
    """Σ a[i + j] v[j] along the last axis of `a`, of few taps `v`, no longer than it; mode full, same or valid.

    Leading axes of `a` are batches. Taps that the program gives, as in (0.25, 0.5, 0.25), are unrolled.
    """
    return _correlated(b, "correlate", *_operands(b, "correlate", a, v), mode)


@dataclass(frozen=True)
class Taps:
    """Weights of neighbours: numbers of the program, or a vector."""

    b: GraphBuilder
    parts: tuple[Node, ...]
    given: bool  # as numbers

    @property
    def count(self) -> Dim:
        return len(self.parts) if self.given else self.parts[0].type.shape[0]

    def __getitem__(self, order: slice) -> Taps:
        if self.given:
            return replace(self, parts=self.parts[order])
        return replace(self, parts=(index_keys.index(self.b, self.parts[0], (order,)),))

    @property
    def unrolled(self) -> tuple[Node, ...]:
        """Each of few taps; none of many."""
        if self.given:
            return self.parts
        count = self.b.short(self.count, MOST_TAPS)
        return tuple(index_keys.index(self.b, self.parts[0], (k,)) for k in range(count or 0))


def _operands(b: GraphBuilder, name: str, a: Node, v: Any) -> tuple[Node, Taps]:
    """The array and its taps in their common dtype."""
    given = isinstance(v, tuple)
    parts = [array(b, "v", part) for part in v] if given else [array(b, "v", v)]
    wrong = None if a.type.rank else (0, "an array", a)
    wrong = wrong or next(((1, "a vector", x) for x in parts if x.type.rank != (not given)), None)
    if wrong or not parts:
        operand, wanted, x = wrong or (1, "a vector", a)
        message = f"{name} takes {wanted} here, not {b.describe(x.type) if wrong else 'nothing'}"
        help = "for taps along several axes: sum(sliding_window(x, (3, 3)) * w, axis=(-2, -1))"
        raise fail(ShapeError(message, "shape.convolve", help=help), operand)
    a, *parts = joins.promoted(b, [a, *parts])
    return a, Taps(b, tuple(parts), given)


def _correlated(b: GraphBuilder, name: str, a: Node, taps: Taps, mode: Any) -> Node:
    """The sum of windows times taps, in the operands' dtype."""
    check_choice(f"mode of {name}", mode, MODES, 2)
    kind, n, last = a.type.dtype, taps.count, a.type.rank - 1
    if not taps.given:
        shapes.require_elements(b, name, taps.parts[0], (0,))
    windows.require_windows(b, a, last, n, name)
    each = taps.unrolled
    n = len(each) or n
    less = expression("-", n, 1)
    before = {"full": less, "same": expression("//", n, 2), "valid": 0}[mode]
    after = {"full": less, "same": expression("//", less, 2), "valid": 0}[mode]
    if each and mode != "valid" and n != 1:
        size = expression("-", expression("+", expression("+", before, a.type.shape[last]), after), less)
        total = windows.weighted_neighbours(b, a, each, before, size)
    elif each:
        total = windows.weighted_sum(b, windows.sliding_window(b, a, n, last), each)
    else:
        total = _folded(b, a, taps.parts[0], before, after)
    return total if total.type.dtype is kind or total.type.weak else b.cast(total, kind)


def _folded(b: GraphBuilder, a: Node, taps: Node, before: Dim, after: Dim) -> Node:
    """The sum of windows times many taps, as a fold; of elements inside of the array."""
    last, n, inside = a.type.rank - 1, taps.type.shape[0], None
    if before != 0 or after != 0:  # what is beside the array is no zero, which a tap of NaN would multiply
        everywhere = shapes.broadcast_to(b, b.literal(True), (a.type.shape[last],))
        inside = joins.pad(b, everywhere, 0, joins.Padding(before, after, "constant", b.literal(False)))
        inside = windows.sliding_window(b, inside, n, 0)
        a = joins.pad(b, a, last, joins.Padding(before, after, "constant", b.literal(0)))
    windowed = windows.sliding_window(b, a, n, last)
    return shapes.reduce(b, "sum", windows.weighted(b, windowed, taps, inside), -1)
