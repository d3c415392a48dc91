"""Elements of a stream as sums of terms, in which everything that depends on the whole stream is a row value.

An element that reads a fold of its own pass cannot be computed before the pass is over. Written as a sum of
coefficient * weight * exp(scale (u + r)) * (v + s) ..., with row values r, s and coefficients, the rest can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..ir.graph import Node, constant, value_of
from ..ir.types import BOOL
from .scalars import scalar_op as op
from .scalars import times, total_of

MOST_TERMS = 8
MOST_POWERS = 3


@dataclass(frozen=True)
class Affine:
    """scale * factor * (element + rows): `scale` is a literal, `factor` and `rows` are row values, `element` holds no
    fold of the pass; what is None is not there. The rows are added one by one: the first ones may cancel the element.
    """

    element: Node | None
    rows: tuple[Node, ...] = ()
    scale: float = 1.0
    factor: Node | None = None


@dataclass(frozen=True)
class Exponential:
    """base(scale * factor * (element + rows))"""

    element: Node
    rows: tuple[Node, ...] = ()
    scale: float = 1.0
    base: str = "exp"
    factor: Node | None = None  # known before the pass


@dataclass(frozen=True)
class Term:
    """scale * factor * weight * exponential * product of (element + rows), where `guard` holds, else 0: of an element.
    Of the whole row, 0 unless `when` does, a row value.
    """

    scale: float = 1.0
    factor: Node | None = None
    weight: Node | None = None
    exponential: Exponential | None = None
    powers: tuple[tuple[Node, tuple[Node, ...]], ...] = ()
    guard: Node | None = None
    when: Node | None = None


Terms = tuple[Term, ...]
Form = Affine | Terms


class Algebra:
    """The forms of elements; `varies(n)` says that n has a value per element, `depends(n)` that it reads a fold of
    the pass."""

    def __init__(self, varies: Callable[[Node], bool], depends: Callable[[Node], bool]):
        self.varies, self.depends = varies, depends
        self.forms: dict[Node, Form | str] = {}

    def form(self, root: Node) -> Form | str:
        """The form of an element, or the name of the operation that has none."""
        stack = [root]
        while stack:
            n = stack[-1]
            if n in self.forms:
                stack.pop()
            elif not self.varies(n):
                self.forms[n] = Affine(None, (n,))
            elif not self.depends(n):
                self.forms[n] = Affine(n)
            elif missing := [a for a in _operands(n) if a not in self.forms]:
                stack += missing
            else:
                self.forms[n] = self._made(n)
        return self.forms[root]

    def _made(self, n: Node) -> Form | str:
        if n.op == "where" and self.depends(n.args[0]):
            return "a condition that reads it"
        of_rows = n.op == "where" and not self.varies(n.args[0])
        args = []
        for a in _operands(n):
            form = self.forms[a]
            if isinstance(form, str):
                return form
            args.append(form)
        rule = _where_rows if of_rows else RULES.get(n.op)
        made = rule(n, *args) if rule is not None and n.type.dtype.kind == "f" else None
        if made is None or (not isinstance(made, Affine) and not self._allowed(made)):
            return n.op
        return made

    def _allowed(self, terms: Terms) -> bool:
        """Whether there are few terms, and no exponent has a factor that the pass does not know beforehand."""
        factors = [t.exponential.factor for t in terms if t.exponential and t.exponential.factor]
        few = len(terms) <= MOST_TERMS and all(len(t.powers) <= MOST_POWERS for t in terms)
        return few and not any(map(self.depends, factors))


def _operands(n: Node) -> tuple[Node, ...]:
    """What the form of a node is made of."""
    if n.op == "quotient":  # see codegen/quotient.py: the divisor is the attribute, the rest is how it is divided by
        return (n.args[0], n.attr)
    if n.op == "where":
        return n.args[1:]
    return n.args


def terms_of(form: Form) -> Terms:
    """A form as a sum of terms."""
    if not isinstance(form, Affine):
        return form
    if form.element is None:
        return (Term(form.scale, times(form.factor, total_of(form.rows))),)
    if not form.rows:
        return (Term(form.scale, form.factor, form.element),)
    return (Term(form.scale, form.factor, powers=((form.element, form.rows),)),)


# -- one rule for each operation


def _add(n: Node, a: Form, b: Form) -> Form:
    if isinstance(a, Affine) and isinstance(b, Affine):
        if a.factor is None and b.factor is None:
            return _sum(a, b)
        if a.factor is b.factor:
            return replace(_sum(replace(a, factor=None), replace(b, factor=None)), factor=a.factor)
    return terms_of(a) + terms_of(b)


def _sum(a: Affine, b: Affine) -> Affine:
    """The sum of two without factors; a common scale stays outside."""
    scale = a.scale if a.element is not None else b.scale
    elements = [_share(x.element, x.scale / scale) for x in (a, b) if x.element is not None]
    rows = tuple(_share(row, x.scale / scale) for x in (a, b) for row in x.rows)
    return Affine(total_of(elements) if elements else None, rows, scale)


def _share(x: Node, scale: float) -> Node:
    if scale == 1.0:
        return x
    return op("negative", x) if scale == -1.0 else op("multiply", x, constant(scale, x.type.dtype.compute))


def _fma(n: Node, a: Form, b: Form, c: Form) -> Form | None:
    product = _multiply(n, a, b)
    return None if product is None else _add(n, product, c)


def _negative(n: Node, a: Form) -> Form:
    return _times_number(a, -1.0)


def _times_number(a: Form, number: float) -> Form:
    if isinstance(a, Affine):
        return replace(a, scale=a.scale * number)
    return tuple(replace(t, scale=t.scale * number) for t in a)


def _subtract(n: Node, a: Form, b: Form) -> Form:
    return _add(n, a, _times_number(b, -1.0))


def _multiply(n: Node, a: Form, b: Form) -> Form | None:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Affine) and x.element is None:
            row = total_of(x.rows)
            if row.op == "const" and x.factor is None:
                return _times_number(y, x.scale * float(value_of(row)))
            return _times_row(y, row, x.scale, x.factor)
    if isinstance(a, Affine) and isinstance(b, Affine) and not a.rows and not b.rows:
        assert a.element is not None and b.element is not None
        element = op("multiply", a.element, b.element)
        return Affine(element, (), a.scale * b.scale, times(a.factor, b.factor))
    found = [_product(s, t) for s in terms_of(a) for t in terms_of(b)]
    return None if None in found else tuple(t for t in found if t is not None)


def _times_row(a: Form, row: Node, scale: float = 1.0, factor: Node | None = None) -> Form:
    row = row if factor is None else op("multiply", factor, row)
    scaled = _times_number(a, scale)
    if isinstance(scaled, Affine):
        if scaled.element is None:
            return replace(scaled, rows=(op("multiply", total_of(scaled.rows), row),))
        return replace(scaled, factor=times(scaled.factor, row))
    return tuple(replace(t, factor=times(t.factor, row)) for t in scaled)


def _product(s: Term, t: Term) -> Term | None:
    if s.exponential is not None and t.exponential is not None:
        e = _exponentials(s.exponential, t.exponential)
        if e is None:
            return None
    else:
        e = s.exponential or t.exponential
    guard, when = _both(s.guard, t.guard), _both(s.when, t.when)
    factor, weight = times(s.factor, t.factor), times(s.weight, t.weight)
    return Term(s.scale * t.scale, factor, weight, e, s.powers + t.powers, guard, when)


def _both(a: Node | None, b: Node | None) -> Node | None:
    """Where both conditions hold; None always does."""
    if a is None or b is None or a is b:
        return a if b is None else b
    return op("logical_and", a, b, dtype=BOOL)


def _exponentials(a: Exponential, b: Exponential) -> Exponential | None:
    if a.base != b.base or a.factor is not b.factor:
        return None
    both = _sum(Affine(a.element, a.rows, a.scale), Affine(b.element, b.rows, b.scale))
    assert both.element is not None
    return Exponential(both.element, both.rows, both.scale, a.base, a.factor)


def _square(n: Node, a: Form) -> Form | None:
    return _multiply(n, a, a)


def _divide(n: Node, a: Form, b: Form) -> Form | None:
    if not isinstance(b, Affine) or (b.element is not None and b.rows):
        return None
    under = total_of(b.rows) if b.element is None else b.element
    if b.element is None:
        return _times_row(a, _inverse(times(b.factor, under)), 1.0 / b.scale)
    if isinstance(a, Affine) and not a.rows and a.element is not None:
        made: Form = replace(a, element=op("divide", a.element, under))
    else:
        made = tuple(replace(t, weight=times(t.weight, _inverse(under))) for t in terms_of(a))
    made = _times_number(made, 1.0 / b.scale)
    return made if b.factor is None else _times_row(made, _inverse(b.factor))


def _inverse(x: Node | None) -> Node:
    assert x is not None
    return op("divide", constant(1.0, x.type.dtype.compute), x)


def _exponential(n: Node, a: Form) -> Form | None:
    if not isinstance(a, Affine) or a.element is None:
        return None
    return (Term(exponential=Exponential(a.element, a.rows, a.scale, n.op, a.factor)),)


def _absolute(n: Node, a: Form) -> Form | None:
    if not isinstance(a, Affine) or a.element is None or a.rows:
        return None
    factor = None if a.factor is None else op("absolute", a.factor)
    return Affine(op("absolute", a.element), (), abs(a.scale), factor)


def _where(n: Node, a: Form, b: Form) -> Form | None:
    """Each branch where its condition holds; a branch that is 0 is no term."""
    return tuple(replace(t, guard=_both(condition, t.guard)) for condition, t in _branches(n, a, b))


def _where_rows(n: Node, a: Form, b: Form) -> Form | None:
    """Each branch in the rows in which its condition holds."""
    return tuple(replace(t, when=_both(condition, t.when)) for condition, t in _branches(n, a, b))


def _branches(n: Node, a: Form, b: Form) -> Iterator[tuple[Node, Term]]:
    """The terms of both branches, with the condition of each."""
    condition = n.args[0]
    for branch, form, holds in zip(n.args[1:], (a, b), (condition, opposite(condition))):
        if branch.op != "const" or value_of(branch) != 0:
            yield from ((holds, t) for t in terms_of(form))


def opposite(condition: Node) -> Node:
    """Where a condition does not hold."""
    return condition.args[0] if condition.op == "logical_not" else op("logical_not", condition, dtype=BOOL)


def implies(guard: Node | None, condition: Node) -> bool:
    """Whether a guard is a condition, alone or with others."""
    if guard is None or guard is condition:
        return guard is condition
    return guard.op == "logical_and" and any(implies(part, condition) for part in guard.args)


def _convert(n: Node, a: Form) -> Form | None:
    same = n.args[0].type.dtype.compute is n.type.dtype.compute
    return a if same and (n.op == "convert" or n.type.dtype is n.type.dtype.compute) else None


RULES: dict[str, Callable[..., Form | None]] = {
    "add": _add,
    "subtract": _subtract,
    "negative": _negative,
    "multiply": _multiply,
    "fma": _fma,
    "square": _square,
    "divide": _divide,
    "quotient": _divide,
    "exp": _exponential,
    "exp2": _exponential,
    "absolute": _absolute,
    "where": _where,
    "convert": _convert,
    "cast": _convert,
}


def not_negative(n: Node) -> bool:
    """Whether a row value is at least 0 (or NaN) by its operation."""
    if n.op in ("absolute", "exp", "exp2", "sqrt", "rsqrt", "logistic"):
        return True
    if n.op == "const":
        return value_of(n) >= 0
    return n.op in ("multiply", "divide", "add") and all(map(not_negative, n.args))
