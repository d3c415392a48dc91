"""Extrema of elements that read folds of their own pass: computed from the extremum of a value known before it."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.folds import FOLDS, pick
from ...ir.graph import Node, constant, node
from ...ir.types import BOOL
from ..scalar_builder import scalar_op as op
from ..scalar_builder import scaled, total_of
from .components import Reference, extrema
from .exponentials import alone
from .forms import AffineForm, Form, ProductTerm, both, not_negative, unwidened
from .online_reduction import OnlineReduction

Maker = Callable[[OnlineReduction], Node]
TURNED = {"max": "min", "min": "max", "argmax": "argmin", "argmin": "argmax"}


def extreme(f: Node, form: Form) -> tuple[Node, Maker] | str:
    """(fold that an extremum follows from, function of its value), or what prevents it."""
    monotone, kind = _rising(form), f.attr[0]
    if isinstance(monotone, str):
        return monotone
    if monotone is None:
        return kind
    inner, above = monotone
    kind = kind if inner.scale > 0 else TURNED[kind]
    assert inner.element is not None
    if kind in ("argmax", "argmin"):
        whole = node("fold", (inner.element,), (kind, f.attr[1]), f.type)
        return whole, lambda stream: _place(whole, inner, above, stream)
    (whole,) = extrema(Reference(inner.element, kind), f.attr[1])
    return whole, lambda stream: _value(whole, inner, above, stream)


def _rising(form: Form) -> tuple[AffineForm, ProductTerm | None] | str | None:
    """(affine value that an element is monotone in, its exponential), or what prevents it."""
    single = alone(form)
    if single is not None:
        t, e = single
        return AffineForm(unwidened(e.element), e.rows, e.scale), t
    if not isinstance(form, AffineForm) or form.element is None or not form.scale:
        return None
    if form.factor is not None and not not_negative(form.factor):
        return "a factor whose sign is not known"
    return form, None


def _value(whole: Node, inner: AffineForm, above: ProductTerm | None, stream: OnlineReduction) -> Node:
    (value,) = stream.of_fold(whole, stream.state())
    value = scaled(total_of([value, *inner.rows]), inner.scale, inner.factor)
    if above is None or above.exponential is None:
        return value
    return scaled(op(above.exponential.base, value), above.scale, above.factor)


def _place(whole: Node, inner: AffineForm, above: ProductTerm | None, stream: OnlineReduction) -> Node:
    """Index of the extremum; if all elements are NaN, because of the row or a factor, the first index."""
    place = stream.of_fold(whole, stream.state())[FOLDS[whole.attr[0]].finish]
    known: Node | None = None
    for factor in (inner.factor, None if above is None else above.factor):
        if factor is not None:
            known = both(known, op("greater", factor, constant(0.0, factor.type.dtype.compute), dtype=BOOL))
    if inner.rows:
        row = total_of(inner.rows)
        known = both(known, op("equal", row, row, dtype=BOOL))
    return place if known is None else pick(known, place, constant(0, place.type.dtype))
