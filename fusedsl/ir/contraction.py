"""Builder of contractions: sums of products of two arrays over shared axes, with einsum subscripts."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..errors import FusedslError, LimitError, ShapeError
from . import shapes
from .builder import GraphBuilder, fail
from .checks import shape_error
from .dims import Dim, product
from .graph import Check, Node, Type, node
from .joins import promoted
from .ops import VIEWS
from .rounded_values import is_rounded
from .types import FLOAT32, DType, promote

LETTERS = string.ascii_letters + "".join(map(chr, range(0x3B1, 0x3CA)))  # one letter per axis


@dataclass(frozen=True)
class Subscripts:
    """Einsum subscripts of two operands: "abc,acd->abd" is a batched matrix product."""

    left: str
    right: str
    result: str

    @classmethod
    def parse(cls, text: str) -> Subscripts:
        """The subscripts that `str` prints."""
        operands, result = text.split("->")
        left, right = operands.split(",")
        return cls(left, right, result)

    def __str__(self) -> str:
        return f"{self.left},{self.right}->{self.result}"

    @cached_property
    def summed(self) -> str:
        """The letters that the products are summed over, in the left operand's order."""
        return "".join(c for c in self.left if c not in self.result)

    @cached_property
    def batch(self) -> str:
        """The letters of both operands and the result."""
        return "".join(c for c in self.result if c in self.left and c in self.right)

    @cached_property
    def rows(self) -> str:
        """The letters of the left operand and the result alone."""
        return "".join(c for c in self.result if c not in self.right)

    @cached_property
    def columns(self) -> str:
        """The letters of the right operand and the result alone."""
        return "".join(c for c in self.result if c not in self.left)


def contract(b: GraphBuilder, x: Node, y: Node, subscripts: Subscripts, what: str) -> Node:
    """Sum of x * y over the letters that the result lacks, one letter per axis."""
    left, right, result = subscripts.left, subscripts.right, subscripts.result
    _unify(b, (x, y), (left, right), what)
    summed = set(left + right) - set(result)
    x, left = _without_units(b, x, left)
    y, right = _without_units(b, y, right)
    x, y = promoted(b, (x, y))
    d, gone = promote(x.type.dtype, y.type.dtype), set(left + right) - set(result)
    meet = set(left) & set(right) & gone
    if (d.storage and not meet) or (d.compute is not d and gone - meet):
        x, y = (b.convert(rounded_operand(b, z), FLOAT32) for z in (x, y))
    x, left = _alone_summed(b, x, left, right + result)
    y, right = _alone_summed(b, y, right, left + result)
    remaining = "".join(c for c in result if c in left + right)
    if meet:
        product = _sum_of_products(b, x, y, Subscripts(left, right, remaining))
    else:
        product = b.elementwise("multiply", _arranged(b, x, left, remaining), _arranged(b, y, right, remaining))
        if summed and product.type.dtype.kind == "f":  # over unit axes: the sum of -0.0 is 0.0
            product = b.elementwise("add", product, b.literal(0.0))
    return _arranged(b, product if d.storage or product.type.weak else b.convert(product, d), remaining, result)


def _sum_of_products(b: GraphBuilder, x: Node, y: Node, subscripts: Subscripts) -> Node:
    letters: dict[str, str] = {}
    for c in subscripts.left + subscripts.right:
        letters.setdefault(c, LETTERS[len(letters)])
    canonical = Subscripts(*("".join(letters[c] for c in part)
                             for part in (subscripts.left, subscripts.right, subscripts.result)))  # fmt: skip
    extent = dict(zip(canonical.right, y.type.shape)) | dict(zip(canonical.left, x.type.shape))
    dtype = FLOAT32 if x.type.dtype.storage else promote(x.type.dtype, y.type.dtype)
    shape, weak = tuple(extent[c] for c in canonical.result), x.type.weak and y.type.weak
    product = node("contract", (rounded_operand(b, x), rounded_operand(b, y)), str(canonical), Type(dtype, shape, weak))
    return b.cast(product, dtype) if b.rounding == "op" and dtype.compute is not dtype else product


def rounded_operand(b: GraphBuilder, x: Node) -> Node:
    """A narrow float rounded to its dtype, if it was computed in float32."""
    d, source = x.type.dtype, x
    if d.compute is d:
        return x
    while (
        source.op in VIEWS or source.op == "gather" or (source.op == "convert" and source.args[0].type.dtype is not d)
    ):
        source = source.args[0]
    exact = source.type.dtype.kind != "f" or is_rounded(source)
    return x if exact and source.type.dtype.bits <= d.bits else _cast(b, x, d)


def _cast(b: GraphBuilder, x: Node, d: DType) -> Node:
    """The cast of a stored array, moved below views, which so remain views.

    A slice is cast itself, unless it is one of a matrix product, which is stored as a whole.
    """
    if x.op not in VIEWS or (x.op == "index" and not _keeps_all(x) and not _is_product_view(x)):
        return b.cast(x, d)
    return node(x.op, (_cast(b, x.args[0], d),), x.attr, Type(d, x.type.shape))


def _keeps_all(x: Node) -> bool:
    """Whether an index only adds and removes axes of one element."""
    kept = [key for key in x.attr if key[0] != "new"]
    return all(key == (("int", 0) if key[0] == "int" and n == 1 else ("slice", 0, 1, n))
               for key, n in zip(kept, x.args[0].type.shape))  # fmt: skip


def _is_product_view(x: Node) -> bool:
    while x.op in VIEWS:
        x = x.args[0]
    return x.op == "contract"


# -- extents


def _unify(b: GraphBuilder, operands: Sequence[Node], letters: Sequence[str], what: str) -> None:
    """Unify the extents of shared letters; one of them may be 1."""
    extents: dict[str, Dim] = {}
    for x, own in zip(operands, letters):
        for c, d in zip(own, x.type.shape):
            if c not in extents or b.is_unit(extents[c]):
                extents[c] = b.canonical(d)
            elif not b.is_unit(d):
                names = (c if c.isascii() else "...",) if what == "einsum" else ()
                _require_same(b, extents[c], d, Check("contract", (), what, tuple(o.type for o in operands), names))


def _require_same(b: GraphBuilder, d: Dim, e: Dim, check: Check) -> None:
    """Unify two extents; a call checks that they are equal."""
    if b.canonical(d) == b.canonical(e):
        return
    b.checks.append(Check(check.kind, (d, e), check.what, check.operands, check.names, b.site))
    b.unify(d, e)


def require_summed(b: GraphBuilder, x: Node, y: Node, axis: int, other: int, what: str) -> None:
    """Unify the extents of two summed axes; an extent of 1 does not broadcast."""
    left, right = x.type.shape[axis], y.type.shape[other]
    _require_same(b, left, right, Check("contract", (), what, (x.type, y.type)))


def require_one(b: GraphBuilder, x: Node, axis: int, other: int, letter: str) -> None:
    """Unify the extents of two axes of `x` that have the same letter."""
    first, second = x.type.shape[axis], x.type.shape[other]
    check = Check("contract", (first, second), "einsum", (x.type,), (letter,), b.site)
    if b.is_unit(first) != b.is_unit(second):
        raise shape_error(check, b.extents)
    _require_same(b, first, second, check)


def _without_units(b: GraphBuilder, x: Node, letters: str) -> tuple[Node, str]:
    """`x` without axes of extent 1; letters that no other operand has are restored in the result."""
    units = [a for a, d in enumerate(x.type.shape) if b.is_unit(d)]
    return shapes.squeeze(b, x, units) if units else x, "".join(c for a, c in enumerate(letters) if a not in units)


def _alone_summed(b: GraphBuilder, x: Node, letters: str, others: str) -> tuple[Node, str]:
    """`x` summed over letters that only it has."""
    axes = tuple(a for a, c in enumerate(letters) if c not in others)
    if not axes:
        return x, letters
    return added(b, x, axes), "".join(c for c in letters if c in others)


def added(b: GraphBuilder, x: Node, axes: tuple[int, ...]) -> Node:
    """Sum over axes, accumulated as products are: integers in their own width, bools by or."""
    total = shapes.reduce(b, "any" if x.type.dtype.kind == "b" else "sum", x, axes)
    return total if total.type.dtype is x.type.dtype else b.cast(total, x.type.dtype)


def _arranged(b: GraphBuilder, x: Node, letters: str, result: str) -> Node:
    """`x` with axes in the result's order, and unit axes for letters that it lacks."""
    order = sorted(range(len(letters)), key=lambda a: result.index(letters[a]))
    x = shapes.transpose(b, x, order)
    missing = [k for k, c in enumerate(result) if c not in letters]
    return shapes.expand_dims(b, x, missing) if missing else x


# -- NumPy's products


def matmul(b: GraphBuilder, x: Node, y: Node) -> Node:
    """`x @ y`: summed over the last axis of x and the last but one of y; the axes before these broadcast."""
    for k, z in enumerate((x, y)):
        if not z.type.shape:
            error = ShapeError("@ needs arrays, not numbers", "shape.matmul", help="use * to scale")
            raise fail(error, k)
    require_summed(b, x, y, -1, max(y.type.rank - 2, 0) - y.type.rank, "matmul")
    batch = max(x.type.rank, y.type.rank, 2) - 2
    _require_letters(batch + 3)
    outer, rows, columns, met = LETTERS[:batch], LETTERS[batch], LETTERS[batch + 1], LETTERS[batch + 2]
    left = met if x.type.rank == 1 else outer[batch - (x.type.rank - 2) :] + rows + met
    right = met if y.type.rank == 1 else outer[batch - (y.type.rank - 2) :] + met + columns
    letters = outer + rows * (x.type.rank > 1) + columns * (y.type.rank > 1)
    _check_batch(b, x, y)
    return contract(b, x, y, Subscripts(left, right, letters), "matmul")


def _check_batch(b: GraphBuilder, x: Node, y: Node) -> None:
    """Check that the axes before the last two broadcast."""
    check = Check("equal", (), "@", (x.type, y.type), b.names)
    b.broadcast([(*z.type.shape[:-2], 1, 1) for z in (x, y) if z.type.rank > 2], check)


def tensordot(
    b: GraphBuilder, x: Node, y: Node, left: Sequence[int], right: Sequence[int], what: str = "tensordot"
) -> Node:
    """Summed over pairs of axes; the result has the other axes of x, then those of y."""
    for axis, other in zip(left, right):
        require_summed(b, x, y, axis, other, what)
    _require_letters(x.type.rank + y.type.rank)
    left_letters = LETTERS[: x.type.rank]
    right_letters = list(LETTERS[x.type.rank : x.type.rank + y.type.rank])
    for axis, other in zip(left, right):
        right_letters[other] = left_letters[axis]
    free = [c for a, c in enumerate(left_letters) if a not in left] + [
        c for a, c in enumerate(right_letters) if a not in right
    ]
    return contract(b, x, y, Subscripts(left_letters, "".join(right_letters), "".join(free)), what)


def vecdot(b: GraphBuilder, x: Node, y: Node, axis: int) -> Node:
    """Summed over one axis, counted from the end; the others broadcast."""
    require_summed(b, x, y, axis, axis, "vecdot")
    rank = max(x.type.rank, y.type.rank)
    _require_letters(rank)
    left, right = (LETTERS[rank - z.type.rank : rank] for z in (x, y))
    letters = LETTERS[:rank].replace(LETTERS[rank + axis], "")
    return contract(b, x, y, Subscripts(left, right, letters), "vecdot")


def dot(b: GraphBuilder, x: Node, y: Node) -> Node:
    """NumPy's dot: a product with a number, or summed over the last axis of x and the last but one of y."""
    if not x.type.shape or not y.type.shape:
        return b.elementwise("multiply", x, y)
    return tensordot(b, x, y, (x.type.rank - 1,), (max(y.type.rank - 2, 0),), "dot")


def inner(b: GraphBuilder, x: Node, y: Node) -> Node:
    """Summed over the last axis of both."""
    if not x.type.shape or not y.type.shape:
        return b.elementwise("multiply", x, y)
    return tensordot(b, x, y, (x.type.rank - 1,), (y.type.rank - 1,), "inner")


def vdot(b: GraphBuilder, x: Node, y: Node) -> Node:
    """The sum of the products of all elements."""
    x, y = (shapes.reshape(b, z, (product(z.type.shape),)) for z in (x, y))
    return tensordot(b, x, y, (0,), (0,), "vdot")


def _require_letters(count: int) -> None:
    if count > len(LETTERS):
        raise too_many_axes(count)


def too_many_axes(count: int) -> FusedslError:
    """The error for a product of arrays with so many axes in total."""
    message = f"a product over {count} axes is more than {len(LETTERS)}"
    return LimitError(message, "limit.dimensions", help="reshape some axes into one")
