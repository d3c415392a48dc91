"""Algebra of online reductions: elements as sums of terms. What is constant along a row is a row value of a term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...ir.graph import Node, constant, is_literal, value_of
from ..scalar_builder import scalar_op as op
from ..scalar_builder import times, total_of
from .exponentials import LOGARITHMS, compared_value, logarithm, reciprocal, root, select_of_exponentials
from .forms import AffineForm, Exponential, Form, ProductTerm, Terms, both, opposite, terms_of

MOST_TERMS = 8
MOST_POWERS = 3
MOST_ROWS = 16  # row values added to an element; squares of squares have no end


class Algebra:
    """Forms of elements: `varies(n)` if n has a value per element, `depends(n)` if n reads a fold of the pass."""

    def __init__(self, varies: Callable[[Node], bool], depends: Callable[[Node], bool]):
        self.varies, self.depends = varies, depends
        self.forms: dict[Node, Form | str] = {}

    def form(self, root: Node) -> Form | str:
        """Form of an element, or the name of the operation that has none."""
        stack = [root]
        while stack:
            n = stack[-1]
            if n in self.forms:
                stack.pop()
            elif not self.varies(n):
                self.forms[n] = AffineForm(None, (n,))
            elif not self.depends(n):
                self.forms[n] = AffineForm(n)
            elif missing := [a for a in self._needed(n) if a not in self.forms]:
                stack += missing
            else:
                self.forms[n] = self._derive(n)
        return self.forms[root]

    def _needed(self, n: Node) -> list[Node]:
        """Operands of a node's form."""
        choice = _select(n)
        if choice is None:
            return list(_operands(n))
        condition, *sides = choice.args
        return [*sides, *compared_value(condition)] if self.depends(condition) else sides

    def _derive(self, n: Node) -> Form | str:
        if n.type.dtype.kind != "f":
            return n.op
        choice = _select(n)
        args = []
        for a in choice.args[1:] if choice is not None else _operands(n):
            form = self.forms[a]
            if isinstance(form, str):
                return form
            args.append(form)
        if choice is not None:
            return self._select_form(n, choice, args)
        rule = RULES.get(n.op)
        result = rule(n, *args) if rule is not None else None
        return n.op if result is None or not self._allowed(result) else result

    def _select_form(self, n: Node, choice: Node, forms: list[Form]) -> Form | str:
        """Form of a select, or of its logarithm: the terms of both sides, each under its condition."""
        condition, *branches = choice.args
        sides: list[Form | None] = []
        for branch, form in zip(branches, forms):
            side: Form | None = form if n is choice else logarithm(n, form)
            if side is None:
                return n.op
            nothing = is_literal(branch, 0 if n is choice else 1)
            sides.append(None if nothing else side)
        if not self.depends(condition):
            terms = _guarded(condition, self.varies(condition), sides)
            return terms if self._allowed(terms) else n.op
        yes, no = sides
        terms_of_select = select_of_exponentials(condition, yes, no, self.forms)
        if terms_of_select is None or not self._allowed(terms_of_select):
            return "a condition that reads it"
        return terms_of_select

    def _allowed(self, terms: Form) -> bool:
        """Whether a form has few terms and few row values, and no exponent has a factor that depends on the pass."""
        if isinstance(terms, AffineForm):
            return len(terms.rows) <= MOST_ROWS
        if any(t.exponential is not None and len(t.exponential.rows) > MOST_ROWS for t in terms):
            return False
        factors = [t.exponential.factor for t in terms if t.exponential and t.exponential.factor]
        few = len(terms) <= MOST_TERMS and all(len(t.powers) <= MOST_POWERS for t in terms)
        return few and not any(map(self.depends, factors))


def _operands(n: Node) -> tuple[Node, ...]:
    # a quotient holds its divisor as an attribute (kernel_ir/build/division.py)
    return (n.args[0], n.attr) if n.op == "quotient" else n.args


def _select(n: Node) -> Node | None:
    """The select that a node is, or whose logarithm it is."""
    inner = n.args[0] if n.op in LOGARITHMS else n
    return inner if inner.op == "where" else None


def _guarded(condition: Node, varies: bool, sides: list[Form | None]) -> Terms:
    """Each side under its condition: a guard if it varies along the row, else a row guard. A side of 0 has no term."""
    terms: list[ProductTerm] = []
    for form, holds in zip(sides, (condition, opposite(condition))):
        for t in () if form is None else terms_of(form):
            terms.append(
                replace(t, guard=both(holds, t.guard)) if varies else replace(t, row_guard=both(holds, t.row_guard))
            )
    return tuple(terms)


# -- one rule for each operation


def _add(n: Node, a: Form, b: Form) -> Form:
    if isinstance(a, AffineForm) and isinstance(b, AffineForm):
        if a.factor is None and b.factor is None:
            return _sum(a, b)
        if a.factor is b.factor:
            return replace(_sum(replace(a, factor=None), replace(b, factor=None)), factor=a.factor)
    return terms_of(a) + terms_of(b)


def _sum(a: AffineForm, b: AffineForm) -> AffineForm:
    """Sum of two terms without factors; a common scale is factored out."""
    scale = a.scale if a.element is not None else b.scale
    elements = [_share(x.element, x.scale / scale) for x in (a, b) if x.element is not None]
    rows = tuple(_share(row, x.scale / scale) for x in (a, b) for row in x.rows)
    return AffineForm(total_of(elements) if elements else None, rows, scale)


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
    if isinstance(a, AffineForm):
        return replace(a, scale=a.scale * number)
    return tuple(replace(t, scale=t.scale * number) for t in a)


def _subtract(n: Node, a: Form, b: Form) -> Form:
    return _add(n, a, _times_number(b, -1.0))


def _multiply(n: Node, a: Form, b: Form) -> Form | None:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, AffineForm) and x.element is None:
            row = total_of(x.rows)
            if row.op == "const" and x.factor is None:
                return _times_number(y, x.scale * float(value_of(row)))
            return _times_row(y, row, x.scale, x.factor)
    if isinstance(a, AffineForm) and isinstance(b, AffineForm) and not a.rows and not b.rows:
        assert a.element is not None and b.element is not None
        element = op("multiply", a.element, b.element)
        return AffineForm(element, (), a.scale * b.scale, times(a.factor, b.factor))
    terms = [_product(s, t) for s in terms_of(a) for t in terms_of(b)]
    return None if None in terms else tuple(t for t in terms if t is not None)


def _times_row(a: Form, row: Node, scale: float = 1.0, factor: Node | None = None) -> Form:
    row = row if factor is None else op("multiply", factor, row)
    scaled = _times_number(a, scale)
    if isinstance(scaled, AffineForm):
        if scaled.element is None:
            return replace(scaled, rows=(op("multiply", total_of(scaled.rows), row),))
        return replace(scaled, factor=times(scaled.factor, row))
    return tuple(replace(t, factor=times(t.factor, row)) for t in scaled)


def _product(s: ProductTerm, t: ProductTerm) -> ProductTerm | None:
    if s.exponential is not None and t.exponential is not None:
        e = _exponentials(s.exponential, t.exponential)
        if e is None:
            return None
    else:
        e = s.exponential or t.exponential
    guard, row_guard = both(s.guard, t.guard), both(s.row_guard, t.row_guard)
    if None not in (s.nonzero, t.nonzero) and s.nonzero is not t.nonzero:
        return None
    factor, weight = times(s.factor, t.factor), times(s.weight, t.weight)
    return ProductTerm(
        s.scale * t.scale, factor, weight, e, s.powers + t.powers, guard, row_guard, s.nonzero or t.nonzero
    )


def _exponentials(a: Exponential, b: Exponential) -> Exponential | None:
    if a.base != b.base or a.factor is not b.factor:
        return None
    both = _sum(AffineForm(a.element, a.rows, a.scale), AffineForm(b.element, b.rows, b.scale))
    assert both.element is not None
    return Exponential(both.element, both.rows, both.scale, a.base, a.factor)


def _square(n: Node, a: Form) -> Form | None:
    return _multiply(n, a, a)


def _divide(n: Node, a: Form, b: Form) -> Form | None:
    inverse = reciprocal(b)
    if inverse is not None:
        return _multiply(n, a, (inverse,))
    if not isinstance(b, AffineForm) or (b.element is not None and b.rows):
        return None
    under = total_of(b.rows) if b.element is None else b.element
    if b.element is None:
        return _times_row(a, _inverse(times(b.factor, under)), 1.0 / b.scale)
    if isinstance(a, AffineForm) and not a.rows and a.element is not None:
        form: Form = replace(a, element=op("divide", a.element, under))
    else:
        form = tuple(replace(t, weight=times(t.weight, _inverse(under))) for t in terms_of(a))
    form = _times_number(form, 1.0 / b.scale)
    return form if b.factor is None else _times_row(form, _inverse(b.factor))


def _inverse(x: Node | None) -> Node:
    assert x is not None
    return op("divide", constant(1.0, x.type.dtype.compute), x)


def _exponential(n: Node, a: Form) -> Form | None:
    if not isinstance(a, AffineForm) or a.element is None:
        return None
    return (ProductTerm(exponential=Exponential(a.element, a.rows, a.scale, n.op, a.factor)),)


def _absolute(n: Node, a: Form) -> Form | None:
    if not isinstance(a, AffineForm) or a.element is None or a.rows:
        return None
    factor = None if a.factor is None else op("absolute", a.factor)
    return AffineForm(op("absolute", a.element), (), abs(a.scale), factor)


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
    "sqrt": root,
    **dict.fromkeys(LOGARITHMS, logarithm),
    "absolute": _absolute,
    "convert": _convert,
    "cast": _convert,
}
