"""Forms of elements: affine values, and sums of product terms with their conditions."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.graph import Node, search, value_of
from ...ir.types import BOOL
from ..scalar_builder import scalar_op as op
from ..scalar_builder import times, total_of


@dataclass(frozen=True)
class AffineForm:
    """scale * factor * (element + rows), where None stands for an absent part.

    Rows are added one by one, because the first ones may cancel the element.
    """

    element: Node | None  # reads no fold of the pass
    rows: tuple[Node, ...] = ()  # row values
    scale: float = 1.0
    factor: Node | None = None  # a row value


@dataclass(frozen=True)
class Exponential:
    """base(scale * factor * (element + rows))"""

    element: Node
    rows: tuple[Node, ...] = ()
    scale: float = 1.0
    base: str = "exp"
    factor: Node | None = None  # known before the pass


@dataclass(frozen=True)
class ProductTerm:
    """scale * factor * weight * exponential * product of (element + rows)."""

    scale: float = 1.0
    factor: Node | None = None
    weight: Node | None = None
    exponential: Exponential | None = None
    powers: tuple[tuple[Node, tuple[Node, ...]], ...] = ()
    guard: Node | None = None  # condition of an element; the term is 0 where it is false
    row_guard: Node | None = None  # condition of a row; the sum over the row is 0 if it is false
    nonzero: Node | None = None  # false where the exponential is 0: the term is then 0, even if a factor is infinite


Terms = tuple[ProductTerm, ...]
Form = AffineForm | Terms


def unwidened(n: Node) -> Node:
    """The value below dtype changes: values that differ only in these share a reference."""
    while n.op == "convert" and n.type.dtype.kind == "f" and n.args[0].type.dtype.compute is n.type.dtype.compute:
        (n,) = n.args
    return n


def terms_of(form: Form) -> Terms:
    """A form as a sum of terms."""
    if not isinstance(form, AffineForm):
        return form
    if form.element is None:
        return (ProductTerm(form.scale, times(form.factor, total_of(form.rows))),)
    if not form.rows:
        return (ProductTerm(form.scale, form.factor, form.element),)
    return (ProductTerm(form.scale, form.factor, powers=((form.element, form.rows),)),)


def both(a: Node | None, b: Node | None) -> Node | None:
    """Conjunction; None is always true."""
    if a is None or b is None or a is b:
        return a if b is None else b
    return op("logical_and", a, b, dtype=BOOL)


def opposite(condition: Node) -> Node:
    """The opposite condition."""
    return condition.args[0] if condition.op == "logical_not" else op("logical_not", condition, dtype=BOOL)


def implies(guard: Node | None, condition: Node) -> bool:
    """Whether a guard is the condition or a conjunction with it."""
    guards = [] if guard is None else [guard]
    return any(n is condition for n in search(guards, lambda n: n.args if n.op == "logical_and" else ()))


def not_negative(root: Node) -> bool:
    """Whether a value is at least 0 (or NaN) by its operation."""
    positive = ("absolute", "exp", "exp2", "sqrt", "rsqrt", "logistic")
    for n in search([root], lambda n: () if n.op in positive else n.args[n.op == "where" :]):
        known = n.op in (*positive, "where", "multiply", "divide", "add") or (n.op == "const" and value_of(n) >= 0)
        if not known and not (n.op == "fold" and n.attr[0] in ("sum", "max", "min")):
            return False
    return True
