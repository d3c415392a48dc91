"""The joint state of an online reduction: extrema, factors, means and sums, and the references that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import copysign

from ...ir.folds import FOLDS, pick
from ...ir.graph import Node, Type, constant, node
from ...ir.types import BOOL, FLOAT32
from ..scalar_builder import scalar_op as op
from ..scalar_builder import scaled, scaled_factor
from .components import (
    OPPOSITE,
    Component,
    Exponent,
    Reference,
    as_exp2,
    by_sign,
    extrema,
    extremum_identity,
    may_be_huge,
)

HUGE = 2.0**30  # float32 beyond this is spaced by 128: powers of two are off by 64 after rounding


@dataclass(frozen=True)
class ReductionState:
    """State of dependent folds over `axes`, for each of `rows`."""

    rows: frozenset
    axes: tuple  # the reduced axes
    folds: tuple[Node, ...]  # folds with a state of their own: extrema of references, independent folds
    components: tuple[Component, ...]  # sums measured from references; a weight with other axes is a contraction
    finish: tuple[tuple[Node, Node], ...]  # (fold, its value), computed from `state()`, row values, earlier results
    number: int = 0  # of the pass: distinguishes its state from that of another one
    running_reference: bool = False  # tiles are measured from the running extrema (FlashAttention's row_max)

    # -- the state

    @cached_property
    def references(self) -> tuple[Reference, ...]:
        return tuple(dict.fromkeys(r for c in self.components for r in c.references()))

    @cached_property
    def means(self) -> tuple[Reference, ...]:
        return tuple(r for r in self.references if r.kind == "mean")

    @cached_property
    def factors(self) -> tuple[Node, ...]:
        """Row values that scale exponents, kept in the state because combining two states needs them."""
        exponents = [c.exponent for c in self.components if c.exponent is not None]
        return tuple(dict.fromkeys(e.factor for e in exponents if e.factor is not None))

    @cached_property
    def identity(self) -> tuple[Node, ...]:
        """The state of no elements: folds, factors, means, components."""
        values = [x for f in self.folds for x in FOLDS[f.attr[0]].identity(f.args[0].type.dtype.compute)]
        values += [constant(0.0, n.type.dtype.compute) for n in (*self.factors, *(r.value for r in self.means))]
        return tuple(values + [constant(0.0, c.dtype) for c in self.components])

    def state(self, side: str = "whole") -> tuple[Node, ...]:
        """Nodes of the state's values: of the "whole", of sides "a" and "b" of a combine, of a "tile"."""
        return tuple(node("state", (), (side, k, self.number), Type(x.type.dtype)) for k, x in enumerate(self.identity))

    def of_fold(self, f: Node, state: Sequence[Node]) -> tuple[Node, ...]:
        """Values of a fold in a state."""
        start = 0
        for other in self.folds:
            count = len(FOLDS[other.attr[0]].identity(other.args[0].type.dtype.compute))
            if other is f:
                return tuple(state[start : start + count])
            start += count
        raise KeyError(f)

    def of_mean(self, r: Reference, state: Sequence[Node]) -> Node:
        return state[len(state) - len(self.components) - len(self.means) + self.means.index(r)]

    def of_factor(self, factor: Node, state: Sequence[Node]) -> Node:
        after = len(self.factors) + len(self.means) + len(self.components)
        return state[len(state) - after + self.factors.index(factor)]

    def of_component(self, c: Component, state: Sequence[Node]) -> Node:
        return state[len(state) - len(self.components) + self.components.index(c)]

    def extreme(self, r: Reference, state: Sequence[Node]) -> Node:
        """The extremum behind a reference, in a state."""
        values = [self.of_fold(f, state)[0] for f in extrema(r, self.axes)]
        return values[0] if r.sign is None else by_sign(self.of_factor(r.sign, state), *values)

    def point(self, r: Reference, state: Sequence[Node]) -> Node:
        """Value of a reference in a state; 0 if it is not finite."""
        value = self.of_mean(r, state) if r.kind == "mean" else self.extreme(r, state)
        return pick(op("isfinite", value, dtype=BOOL), value, constant(0.0, value.type.dtype.compute))

    @property
    def reuses_reference(self) -> bool:
        """Whether later tiles may be measured from the first tile's reference.

        They may from a mean of all elements, which is near enough. They may not from an extremum: exponentials could
        overflow.
        """
        return all(r.kind == "mean" and r.guard is None for r in self.references)

    def _count(self, r: Reference) -> Component:
        return Component(r.value.type.dtype.compute, guard=r.guard)

    def _exponents(self) -> list[Exponent]:
        return list(dict.fromkeys(c.exponent for c in self.components if c.exponent is not None))

    def _exponent_reference(self, e: Exponent, state: Sequence[Node]) -> Node:
        """Reference of an exponent, as a power of two for the hardware's exp2."""
        return self._as_exp2(e, self.point(e.reference, state), state)

    def _as_exp2(self, e: Exponent, value: Node, state: Sequence[Node]) -> Node:
        steep = self._safe_scale(e, state)
        return op("multiply", value, steep[0]) if steep else scaled_factor(value, as_exp2(e)[0])

    def _safe_scale(self, e: Exponent, state: Sequence[Node]) -> tuple[Node, ...]:
        """Scale of a row whose reference is so large that reference * scale is inexact or infinite.

        Values of such a row are equal, or too far apart for the scale to matter; times one half they are exact.
        """
        scale, point = as_exp2(e)[0], self.point(e.reference, state)
        d = point.type.dtype.compute
        if d is not FLOAT32 or not may_be_huge(e.reference.value):
            return ()
        huge = op("greater", op("absolute", point), constant(HUGE / abs(scale), d), dtype=BOOL)
        return (pick(huge, constant(copysign(0.5, scale), d), constant(scale, d)),)

    def _exponential(self, e: Exponent, moved: Node, state: Sequence[Node]) -> Node:
        factor = None if e.factor is None else self.of_factor(e.factor, state)
        return op(e.base, scaled(moved, e.scale, factor))

    def _no_extreme(self, r: Reference, state: Sequence[Node]) -> Node:
        """The extremum of no elements."""
        d = r.value.type.dtype
        own = extremum_identity(r.kind, d)
        if r.sign is None:
            return own
        return by_sign(self.of_factor(r.sign, state), own, extremum_identity(OPPOSITE[r.kind], d))
