"""The table's functions that sum products over shared axes: matmul, dot and their kin, einsum.

The signature of each function here is its signature in a text; `function` names the kinds that KIND_OF does not.
"""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, FusedslError, ShapeError, Unsupported
from ..ir import contraction, shapes
from ..ir.builder import Builder, fail
from ..ir.graph import Node
from .functions import function, integer, show_value

Axes = int | tuple[int, ...] | None


@function()
def matmul(b: Builder, x: Node, y: Node):
    """x @ y: Σ over the last axis of x and the last but one of y."""
    return contraction.matmul(b, x, y)


@function()
def dot(b: Builder, x: Node, y: Node):
    """As matmul for vectors and matrices; more axes do not broadcast but come one after another."""
    return contraction.dot(b, x, y)


@function()
def inner(b: Builder, x: Node, y: Node):
    """Σ over the last axis of both."""
    return contraction.inner(b, x, y)


@function()
def vdot(b: Builder, x: Node, y: Node):
    """Σ of the products of all elements."""
    return contraction.vdot(b, x, y)


@function(axis="int")
def vecdot(b: Builder, x: Node, y: Node, *, axis: int = -1):
    """Σ of products along one axis; the others broadcast."""
    if not x.type.shape or not y.type.shape:
        error = ShapeError("vecdot needs arrays, not numbers", code="shape.vecdot", help="use * to scale")
        raise fail(error, 0 if not x.type.shape else 1)
    shortest = min(x.type.rank, y.type.rank)
    if x.type.rank != y.type.rank and axis >= 0:
        axis -= max(x.type.rank, y.type.rank)
    try:
        shapes.normalize_axis(b, x if x.type.rank == shortest else y, axis)
    except ShapeError as error:
        raise fail(error, 2) from None
    return contraction.vecdot(b, x, y, axis if axis < 0 else axis - shortest)


@function(axes="any")
def tensordot(b: Builder, x: Node, y: Node, axes: Any = 2):
    """Σ over so many axes, or over pairs of them."""
    try:
        left, right = _pairs(b, x, y, axes)
    except FusedslError as error:
        raise fail(error, 2) from None
    return contraction.tensordot(b, x, y, left, right)


def _pairs(b: Builder, x: Node, y: Node, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of x and of y that meet: the last `axes` of x and the first of y, or two lists of them."""
    if not isinstance(axes, tuple):
        count = integer(b, "axes", axes)
        if not 0 <= count <= min(x.type.rank, y.type.rank):
            message = f"{count} axes of {b.describe(x.type)} and {b.describe(y.type)} cannot meet"
            raise ShapeError(message, code="shape.tensordot", help="axes=1 is the product of matrices")
        return tuple(range(x.type.rank - count, x.type.rank)), tuple(range(count))
    sides = [tuple(integer(b, "axes", a) for a in (side if isinstance(side, tuple) else (side,))) for side in axes]
    if len(sides) != 2 or len(sides[0]) != len(sides[1]):
        help = "axes=((1, 2), (0, 1)): those of x, then those of y, as many"
        raise ArgumentError("axes takes two lists of one length", code="argument.axes", help=help)
    left, right = (tuple(shapes.normalize_axis(b, z, a) for a in side) for z, side in zip((x, y), sides))
    for side in (left, right):
        if len(set(side)) < len(side):
            raise ArgumentError("an axis is given twice", code="argument.axis", help="name each axis once")
    return left, right


@function(subscripts="any", y="array | None")
def einsum(b: Builder, subscripts: Any, x: Node, y: Node | None = None):
    """Σ of products by the letters of its axes."""
    arrays = (x,) if y is None else (x, y)
    operands, result = _subscripts(b, subscripts, arrays)
    if y is not None:
        return contraction.contract(b, x, y, operands[0], operands[1], result, "einsum")
    alone = operands[0]
    summed = tuple(a for a, c in enumerate(alone) if c not in result)
    if summed:
        x = contraction.added(b, x, summed)
        alone = "".join(c for c in alone if c in result)
    return shapes.transpose(b, x, [alone.index(c) for c in result])


def _subscripts(b: Builder, text: Any, arrays: tuple[Node, ...]) -> tuple[tuple[str, ...], str]:
    """The letters of each operand and of the result; without "->" the result has what is there once, in order."""
    if not isinstance(text, str):
        error = ArgumentError(f"einsum takes subscripts first, not {show_value(text)}", code="argument.kind",
                              help='einsum("ij,jk->ik", x, y)')  # fmt: skip
        raise fail(error, 0)
    given, arrow, result = text.replace(" ", "").partition("->")
    operands = tuple(given.split(","))
    if "..." in given + result:
        raise fail(_later("einsum with ...", "name every axis; @ broadcasts the axes before the last two"), 0)
    if len(operands) > 2:
        raise fail(many_operands(), 0)
    for part in (*operands, result):
        wrong = next((c for c in part if not (c.isascii() and c.isalpha())), None)
        if wrong is not None:
            raise fail(ArgumentError(f"{wrong!r} names no axis", code="argument.einsum", help="axes are letters"), 0)
    if not arrow:
        result = "".join(sorted(c for c in set(given) - {","} if given.count(c) == 1))
    _check_letters(b, operands, result, arrays)
    return operands, result


def _check_letters(b: Builder, operands: tuple[str, ...], result: str, arrays: tuple[Node, ...]) -> None:
    """A letter for each axis, none twice in an operand, none in the result alone."""
    if len(operands) != len(arrays):
        message = f"{len(operands)} operand{'s' * (len(operands) != 1)} in the subscripts, {len(arrays)} given"
        raise fail(ArgumentError(message, code="argument.einsum", help='einsum("ij,jk->ik", x, y)'), 0)
    for k, (letters, x) in enumerate(zip(operands, arrays)):
        if len(set(letters)) < len(letters):
            raise fail(_later("einsum with a letter twice in one operand", "take the diagonal by indexing first"), 0)
        if len(letters) != x.type.rank:
            count = f"{len(letters)} {'axis' if len(letters) == 1 else 'axes'}"
            message = f"{letters!r} names {count} of {b.describe(x.type)}"
            raise fail(ShapeError(message, code="shape.einsum", help=f"it has {x.type.rank}"), k + 1)
    alone = next((c for c in result if all(c not in letters for letters in operands)), None)
    if alone is not None or len(set(result)) < len(result):
        what = f"no operand has an axis {alone}" if alone is not None else "a letter is twice in the result"
        raise fail(ArgumentError(what, code="argument.einsum", help="the result's letters are those of operands"), 0)


def many_operands() -> FusedslError:
    """einsum of three arrays or more."""
    return _later("einsum over more than two operands", "multiply two at a time, in the order that you want")


def _later(what: str, instead: str) -> FusedslError:
    return Unsupported(f"{what} is not there yet", code="unsupported.einsum", help=instead)
