"""Laws of elements that are one exponential, such as softmax weights: logarithm, roots, reciprocal, test for 0."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import log, sqrt

from ...ir.graph import Node, constant, is_literal, search, value_of, walk
from ...ir.ops import MIRRORED
from ...ir.types import BOOL
from ..intervals.three_valued_logic import AND, NOT
from ..scalar_builder import scalar_op as op
from ..scalar_builder import scaled, total_of
from .components import exponential_is_nonzero
from .forms import AffineForm, Exponential, Form, ProductTerm, Terms, both, not_negative, terms_of, unwidened

NATURAL = {"exp": 1.0, "exp2": log(2.0)}
LOGARITHMS = {"log": 1.0, "log2": 1 / log(2.0), "log10": 1 / log(10.0)}  # scale relative to the natural logarithm
RESULT_FOR_ZERO = {"greater": False, "not_equal": False, "equal": True, "less_equal": True}


def alone(form: Form | str | None) -> tuple[ProductTerm, Exponential] | None:
    """The only term of a form, scale * factor * exponential, if it is positive wherever the exponential is not
    exp(-inf)."""
    if not isinstance(form, tuple) or len(form) != 1:
        return None
    (t,) = form
    e = t.exponential
    if e is None or e.factor is not None or t != ProductTerm(t.scale, t.factor, exponential=e) or t.scale <= 0:
        return None
    return (t, e) if t.factor is None or not_negative(t.factor) else None


def logarithm(n: Node, a: Form) -> AffineForm | None:
    """log(c f exp(s (u + r))) = s (u + r) + log(c f); the logarithm of a row value is a row value."""
    if isinstance(a, AffineForm) and a.element is None:
        return AffineForm(None, (op(n.op, scaled(total_of(a.rows), a.scale, a.factor)),))
    single = alone(a)
    if single is None:
        return None
    t, e = single
    scale = e.scale * NATURAL[e.base] * LOGARITHMS[n.op]
    rows = e.rows
    if t.scale != 1.0:
        rows += (constant(log(t.scale) * LOGARITHMS[n.op] / scale, e.element.type.dtype.compute),)
    if t.factor is not None:
        rows += (_share(_logarithm_of(t.factor, n.op), 1 / scale),)
    return AffineForm(e.element, rows, scale)


def _logarithm_of(factor: Node, name: str) -> Node:
    """log(1 / l) = -log(l)"""
    if factor.op == "divide" and factor.args[0].op == "const" and value_of(factor.args[0]) == 1:
        return op("negative", op(name, factor.args[1]))
    return op(name, factor)


def _share(x: Node, scale: float) -> Node:
    return x if scale == 1.0 else op("multiply", x, constant(scale, x.type.dtype.compute))


def root(n: Node, a: Form) -> Form | None:
    """sqrt(c f exp(x)) = sqrt(c) sqrt(f) exp(x / 2)"""
    single = alone(a)
    if single is None:
        return None
    t, e = single
    factor = None if t.factor is None else op("sqrt", t.factor)
    return (ProductTerm(sqrt(t.scale), factor, exponential=replace(e, scale=e.scale / 2)),)


def reciprocal(a: Form) -> ProductTerm | None:
    """1 / (c f exp(x)) = 1 / c / f exp(-x)"""
    single = alone(a)
    if single is None:
        return None
    t, e = single
    factor = t.factor
    if factor is not None:
        factor = op("divide", constant(1.0, factor.type.dtype.compute), factor)
    return ProductTerm(1 / t.scale, factor, exponential=replace(e, scale=-e.scale))


# -- tests for 0


def compared_value(condition: Node) -> Iterator[Node]:
    """The value that a condition compares with 0, or tests for NaN."""
    for n in search([condition], lambda n: n.args if n.op in (*NOT, *AND) else ()):
        if n.op == "isnan":
            yield n.args[0]
        elif (compared := _with_zero(n)) is not None:
            yield compared[0]


def _with_zero(n: Node) -> tuple[Node, bool, bool] | None:
    """(x, result for 0, result for NaN), if a condition compares x with 0 and is constant for positive x."""
    name, args = n.op, n.args
    if len(args) == 2 and is_literal(args[0], 0):
        name, args = MIRRORED.get(name, name), args[::-1]
    if name not in RESULT_FOR_ZERO or not is_literal(args[1], 0):
        return None
    return args[0], RESULT_FOR_ZERO[name], name == "not_equal"


def select_of_exponentials(
    condition: Node, yes: Form | None, no: Form | None, forms: dict[Node, Form | str]
) -> Terms | None:
    """where(condition, yes, no), if the condition tests whether an exponential is 0.

    None stands for 0; the side selected for zero exponentials must be 0.
    """
    test = _zero_test(condition, forms)
    if test is None:
        return None
    (t, e), of_zero, of_nan = test
    nonzero_side, zero_side = (no, yes) if of_zero else (yes, no)
    if zero_side is not None or nonzero_side is None:
        return None
    nonzero = exponential_is_nonzero(unwidened(e.element), e.scale)
    row_guard = None if of_nan != of_zero else _row_guard(t, e)
    terms = terms_of(nonzero_side)
    if any(k.nonzero is not None for k in terms) or not _added_rows(terms) >= _rows_tested_for_nan(condition, forms):
        return None
    return tuple(
        replace(k, nonzero=nonzero, row_guard=both(row_guard, k.row_guard) if k.exponential else k.row_guard)
        for k in terms
    )


def _added_rows(terms: Terms) -> set[Node]:
    """Row values that terms add to their elements."""
    added = [t.exponential.rows for t in terms if t.exponential] + [rows for t in terms for _, rows in t.powers]
    return {row for rows in added for row in rows}


def _rows_tested_for_nan(condition: Node, forms: dict[Node, Form | str]) -> set[Node]:
    """Row values that make an operand of isnan in the condition NaN."""
    asked = [n.args[0] for n in walk([condition]) if n.op == "isnan"]
    return {row for n in asked if (single := alone(forms.get(n))) is not None for row in single[1].rows}


def _zero_test(
    condition: Node, forms: dict[Node, Form | str]
) -> tuple[tuple[ProductTerm, Exponential], bool, bool] | None:
    """(exponential, result for 0, result for NaN) of a condition that is constant for all other values."""
    if condition.op in NOT:
        operand = _zero_test(condition.args[0], forms)
        return None if operand is None else (operand[0], not operand[1], not operand[2])
    if condition.op in AND:
        for test, other in (condition.args, condition.args[::-1]):
            if _is_nan_test(other, forms):
                operand = _zero_test(test, forms)
                return operand if operand is not None and operand[1] and not operand[2] else None
        return None
    compares = _with_zero(condition)
    exponential = None if compares is None else alone(forms.get(compares[0]))
    return None if exponential is None or compares is None else (exponential, *compares[1:])


def _is_nan_test(condition: Node, forms: dict[Node, Form | str]) -> bool:
    """Whether a condition excludes NaN of an exponential only: the sums are NaN then in any case."""
    if condition.op not in NOT or condition.args[0].op != "isnan":
        return False
    return alone(forms.get(condition.args[0].args[0])) is not None


def _row_guard(t: ProductTerm, e: Exponential) -> Node | None:
    """Condition that an exponential is not NaN in a row, and not 0 in all of it."""
    finite = None if not e.rows else op("isfinite", total_of(e.rows), dtype=BOOL)
    if t.factor is None:
        return finite
    return both(finite, op("greater", t.factor, constant(0.0, t.factor.type.dtype.compute), dtype=BOOL))
