"""Extrema of elements that read folds of their own pass, computed from an extremum known before the pass."""

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
    """(fold that determines an extremum, function that computes the extremum from it), or what prevents it."""
    monotone, kind = _rising(form), f.attr[0]
    if isinstance(monotone, str):
        return monotone
    if monotone is None:
        return kind
    affine, exponential = monotone
    kind = kind if affine.scale > 0 else TURNED[kind]
    assert affine.element is not None
    if kind in ("argmax", "argmin"):
        fold = node("fold", (affine.element,), (kind, f.attr[1]), f.type)
        return fold, lambda reduction: _index(fold, affine, exponential, reduction)
    (fold,) = extrema(Reference(affine.element, kind), f.attr[1])
    return fold, lambda reduction: _value(fold, affine, exponential, reduction)


def _rising(form: Form) -> tuple[AffineForm, ProductTerm | None] | str | None:
    """(affine value in which an element is monotone, its exponential), or what prevents it."""
    single = alone(form)
    if single is not None:
        t, e = single
        return AffineForm(unwidened(e.element), e.rows, e.scale), t
    if not isinstance(form, AffineForm) or form.element is None or not form.scale:
        return None
    if form.factor is not None and not not_negative(form.factor):
        return "a factor whose sign is not known"
    return form, None


def _value(fold: Node, affine: AffineForm, exponential: ProductTerm | None, reduction: OnlineReduction) -> Node:
    (value,) = reduction.of_fold(fold, reduction.state())
    value = scaled(total_of([value, *affine.rows]), affine.scale, affine.factor)
    if exponential is None or exponential.exponential is None:
        return value
    return scaled(op(exponential.exponential.base, value), exponential.scale, exponential.factor)


def _index(fold: Node, affine: AffineForm, exponential: ProductTerm | None, reduction: OnlineReduction) -> Node:
    """Index of the extremum: the first index if a row value or factor makes all elements NaN."""
    index = reduction.of_fold(fold, reduction.state())[FOLDS[fold.attr[0]].finish]
    known: Node | None = None
    for factor in (affine.factor, None if exponential is None else exponential.factor):
        if factor is not None:
            known = both(known, op("greater", factor, constant(0.0, factor.type.dtype.compute), dtype=BOOL))
    if affine.rows:
        row = total_of(affine.rows)
        known = both(known, op("equal", row, row, dtype=BOOL))
    return index if known is None else pick(known, index, constant(0, index.type.dtype))
