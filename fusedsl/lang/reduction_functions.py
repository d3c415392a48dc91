"""Built-in reductions: sum, prod, max, min, argmax, argmin, any, all (mean, var, norm … are in the prelude).

The signature of each function is its signature in a program; `@function` gives the kinds that KIND_OF does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import ArgumentError, ShapeError
from ..ir import shapes
from ..ir.builder import GraphBuilder, fail
from ..ir.folds import highest, lowest
from ..ir.graph import Node, constant, value_of
from ..ir.types import BOOL, FLOAT64, DType
from .array_functions import exact
from .data_movement_functions import diagonal
from .declared_signatures import declared
from .functions import function

Axes = int | tuple[int, ...] | None


def _masked(b: GraphBuilder, x: Node, where: Node | None, identity: Node) -> Node:
    """`x` with elements outside `where` replaced by the reduction's identity."""
    if where is None:
        return x
    shapes.require_mask(b, x, where)
    same = not identity.type.weak or x.type.weak
    return b.elementwise("where", where, x, identity if same else b.coerce(identity, x.type.dtype))


def _lowest(b: GraphBuilder, x: Node, extreme: Node, initial: Node | None) -> Node:
    """The identity of max or min for masked elements. No weak integer is the least of every dtype that it may be
    promoted to: for weak integers it is `initial`, or the dtype is fixed first."""
    if not x.type.weak:
        return extreme
    if x.type.dtype.kind == "f":
        return b.literal(value_of(extreme))
    return initial if initial is not None and initial.type.weak and initial.type.dtype.kind != "f" else extreme


class _Total(NamedTuple):
    """A sum or a product: its fold, the identity, and the operation that adds `initial`."""

    fold: str
    identity: int
    operation: str


def _total(b: GraphBuilder, kind: _Total, x: Node, dtype: DType | None, initial, where, **how: Any) -> Node:
    """The fold of elements, `how` along axes."""
    if dtype is not None and x.type.dtype is not dtype:
        x = b.cast(x, dtype)
    identity = b.literal(bool(kind.identity) if x.type.dtype is BOOL else kind.identity)
    total = shapes.reduce(b, kind.fold, _masked(b, x, where, identity), **how)
    total = total if dtype is None else b.cast(total, dtype)
    return _with_initial(b, kind.operation, total, initial)


def _with_initial(b: GraphBuilder, operation: str, total: Node, initial: Node | None) -> Node:
    """A reduction combined with `initial`, which is cast to the result's dtype, as in NumPy."""
    if initial is None:
        return total
    if initial.type.rank:
        error = ArgumentError(
            f"initial is one number, not {b.describe(initial.type)}",
            "argument.initial",
            help="add an array to the result",
        )
        raise fail(error, _INITIAL)
    to = total.type.dtype
    if not total.type.weak:
        initial = b.coerce(initial, to) if exact(initial, to) else b.cast(initial, to)
    return b.elementwise(operation, total, initial)


_INITIAL = 4  # the operand


def _is_identity(initial: Node | None, identity: Node) -> bool:
    """True if `initial` is the reduction's own identity, which only matters for empty reductions."""
    if initial is None or initial.op != "const" or identity.type.dtype.kind != "f":
        return False
    return value_of(initial) == value_of(identity)


@function()
@declared("b, x, axis=None, *, dtype=None, keepdims=False, initial=None, where=None")
def sum_(b: GraphBuilder, x: Node, **how: Any):
    """Σ x"""
    return _total(b, _Total("sum", 0, "add"), x, **how)


@function(offset="int", axis1="int", axis2="int")
def trace(b: GraphBuilder, x: Node, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dtype: DType | None = None):
    """Σ of a diagonal"""
    return sum_(b, diagonal(b, x, offset, axis1, axis2), -1, dtype=dtype)


@function()
@declared("b, x, axis=None, *, dtype=None, keepdims=False, initial=None, where=None")
def prod(b: GraphBuilder, x: Node, **how: Any):
    """Π x"""
    return _total(b, _Total("prod", 1, "multiply"), x, **how)


@function()
def max_(b: GraphBuilder, x: Node, *, axis: Axes = None, keepdims: bool = False, initial: Node | None = None,
         where: Node | None = None):  # fmt: skip
    """The largest element; NaN if there is one."""
    masked = _masked(b, x, where, _lowest(b, x, lowest(x.type.dtype), initial))
    result = shapes.reduce(b, "max", masked, axis, keepdims, initial is not None)
    return result if _is_identity(initial, lowest(x.type.dtype)) else _with_initial(b, "maximum", result, initial)


@function()
def min_(b: GraphBuilder, x: Node, *, axis: Axes = None, keepdims: bool = False, initial: Node | None = None,
         where: Node | None = None):  # fmt: skip
    """The smallest element; NaN if there is one."""
    masked = _masked(b, x, where, _lowest(b, x, highest(x.type.dtype), initial))
    result = shapes.reduce(b, "min", masked, axis, keepdims, initial is not None)
    return result if _is_identity(initial, highest(x.type.dtype)) else _with_initial(b, "minimum", result, initial)


@function()
def nanmax(b: GraphBuilder, x: Node, axis: Axes = None, *, keepdims: bool = False, where: Node | None = None):
    """The largest element that is not NaN; NaN if all are."""
    return _ignoring_nan(b, max_, x, axis, keepdims, where)


@function()
def nanmin(b: GraphBuilder, x: Node, axis: Axes = None, *, keepdims: bool = False, where: Node | None = None):
    """The smallest element that is not NaN; NaN if all are."""
    return _ignoring_nan(b, min_, x, axis, keepdims, where)


def _ignoring_nan(
    b: GraphBuilder, extreme: Callable[..., Node], x: Node, axis: Axes, keepdims: bool, where: Node | None
):
    if x.type.dtype.kind != "f":
        return extreme(b, x, axis=axis, keepdims=keepdims, where=where)
    counts = b.elementwise("logical_not", b.elementwise("isnan", x))
    counts = counts if where is None else b.elementwise("logical_and", counts, where)
    result = extreme(b, x, axis=axis, keepdims=keepdims, where=counts)
    some = shapes.reduce(b, "any", counts, axis, keepdims)
    return b.elementwise("where", some, result, b.literal(float("nan")))


@function(weights="array | None")
def average(b: GraphBuilder, x: Node, axis: Axes = None, weights: Node | None = None, *, keepdims: bool = False):
    """Σ weights · x / Σ weights, the mean without weights; these are of the shape of `x`, or of one axis of it."""
    if x.type.dtype.kind != "f" and not x.type.weak:
        x = b.convert(x, FLOAT64)
    if weights is None:
        weights = b.literal(1.0)
    elif weights.type.rank != x.type.rank:
        if not isinstance(axis, int) or weights.type.rank != 1:
            message = f"weights of {b.describe(weights.type)} do not fit {b.describe(x.type)}"
            help = "give weights the shape of x, or one axis and the axis: average(x, axis=0, weights=w)"
            raise fail(ShapeError(message, "shape.weights", help=help), 2)
        behind = x.type.rank - shapes.normalize_axis(b, x, axis) - 1
        weights = shapes.expand_dims(b, weights, list(range(1, behind + 1))) if behind else weights
    weighted = b.elementwise("multiply", x, weights)
    if not weighted.type.weak:
        weights = (
            b.coerce(weights, weighted.type.dtype) if weights.type.weak else b.convert(weights, weighted.type.dtype)
        )
    all_weights = shapes.broadcast_to(b, weights, weighted.type.shape)
    total, total_weight = (sum_(b, part, axis, keepdims=keepdims) for part in (weighted, all_weights))
    return b.elementwise("divide", total, total_weight)


@function()
def any_(b: GraphBuilder, x: Node, axis: Axes = None, *, keepdims: bool = False, where: Node | None = None):
    """Whether some element is not 0."""
    return shapes.reduce(b, "any", _masked(b, b.truth(x), where, constant(False, BOOL)), axis, keepdims)


@function()
def all_(b: GraphBuilder, x: Node, axis: Axes = None, *, keepdims: bool = False, where: Node | None = None):
    """Whether no element is 0."""
    return shapes.reduce(b, "all", _masked(b, b.truth(x), where, constant(True, BOOL)), axis, keepdims)


@function(axis="axis")
def argmax(b: GraphBuilder, x: Node, axis: int | None = None, *, keepdims: bool = False, where: Node | None = None):
    """The index of the largest element, the first among equals; that of the first NaN if there is one."""
    return _arg_reduce(b, "argmax", x, axis, keepdims, where)


@function(axis="axis")
def argmin(b: GraphBuilder, x: Node, axis: int | None = None, *, keepdims: bool = False, where: Node | None = None):
    """The index of the smallest element, the first among equals; that of the first NaN if there is one."""
    return _arg_reduce(b, "argmin", x, axis, keepdims, where)


def _arg_reduce(b: GraphBuilder, fold: str, x: Node, axis: int | None, keepdims: bool, where: Node | None) -> Node:
    result = (
        shapes.reduce(b, fold, x, axis, keepdims) if where is None else _masked_index(b, fold, x, axis, keepdims, where)
    )
    if axis is None and keepdims and x.type.rank != 1:
        return shapes.reshape(b, result, (1,) * x.type.rank)
    return result


def _masked_index(b: GraphBuilder, fold: str, x: Node, axis: int | None, keepdims: bool, where: Node) -> Node:
    """The position that a fold finds of the elements inside a mask.

    Along the last axis of several that of the first which is equal to the extreme: rows are held between two folds.
    Otherwise in one reading: elements outside count as the identity, which is the extreme only where every element
    inside is equal to it; then the first inside is the first of the extremes.
    """
    extreme, bound = (max_, lowest) if fold == "argmax" else (min_, highest)
    if axis is not None and x.type.rank > 1 and axis % x.type.rank == x.type.rank - 1:
        same = _attains(b, x, extreme(b, x, axis=axis, keepdims=True, where=where), where)
        return shapes.reduce(b, "argmax", same, axis, keepdims)
    none = _lowest(b, x, bound(x.type.dtype), None)
    masked, inside = _masked(b, x, where, none), shapes.broadcast_to(b, b.truth(where), x.type.shape)
    if axis is None and x.type.rank != 1:
        masked, inside, keepdims = _flat(b, masked), _flat(b, inside), False
    position = shapes.reduce(b, fold, masked, axis, keepdims)
    first = shapes.reduce(b, "argmax", inside, axis, keepdims)
    only = b.elementwise("equal", extreme(b, masked, axis=axis, keepdims=keepdims), none)
    return b.elementwise("where", only, first, position)


def _attains(b: GraphBuilder, x: Node, extreme: Node, where: Node) -> Node:
    """The unmasked elements equal to the extreme: an infinite element must not match a masked one."""
    same = b.elementwise("equal", x, extreme)
    both = b.elementwise("logical_and", b.elementwise("isnan", x), b.elementwise("isnan", extreme))
    return b.elementwise("logical_and", where, b.elementwise("logical_or", same, both))


def _flat(b: GraphBuilder, x: Node) -> Node:
    return shapes.reshape(b, x, (-1,))
