"""Online reduction: dependent folds over one axis in one loop, with a joint state (online softmax, Welford).

A component is t = sum of weight * exp(scale (u - M)) * (v - R) ... over the elements. Each tile of the axis takes the
references M and R from its own elements. Moving a reference is linear in the components, so that tiles with different
references combine:

    t'[S] = exp(scale (M - M')) * sum over T in S of product(R - R' for S without T) * t[T]

Every reference gives the same result. An extremum keeps exponents from overflowing; a mean keeps powers from cancelling
(as in Welford's and Chan's updates). All of it is scalar nodes, which every target and the NumPy executor evaluate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import copysign, log

from ...ir.folds import FOLDS, pick
from ...ir.graph import Node, Type, constant, node
from ...ir.types import BOOL
from ..scalar_builder import scalar_op as op
from ..scalar_builder import total_of
from .components import (
    Component,
    Reference,
    as_exp2,
    exponential_is_nonzero,
    extrema,
    guarded,
    is_identity_unguarded,
)
from .reduction_state import ReductionState

FAR, NEAR = 2.0**40, 2.0**12  # distances from a reference: the cube of FAR is finite; within NEAR no exponential is 0
SLACK = 8  # powers of two: sums of exponentials this large do not overflow, nor do float16 weights


@dataclass(frozen=True)
class TileReduction:
    """Reduction of `value` over the elements of a tile into `slots`, the tile's accumulators."""

    fold: str
    value: Node
    slots: tuple[Node, ...]


@dataclass(frozen=True)
class OnlineReduction(ReductionState):
    """Dependent folds over `axes`, with one joint state for each of `rows`."""

    # -- lift

    def lift(self) -> tuple[tuple[TileReduction, ...], tuple[Node, ...], tuple[TileReduction, ...], tuple[Node, ...]]:
        """(reductions over a tile, its references, reductions measured from them, the state) of a tile."""
        tile = list(self.state("tile"))
        for factor in self.factors:
            tile[tile.index(self.of_factor(factor, tile))] = factor
        first = [TileReduction(f.attr[0], f.args[0], self.of_fold(f, tile)) for f in self.folds]
        plain = [c for c in self.components if c.plain]
        first += [TileReduction("sum", self.element(c, tile), (self.of_component(c, tile),)) for c in plain]
        points: list[Node] = []
        for r in self.means:
            total = self._total(r, first)
            count = self.of_component(self._count(r), tile)
            mean = op("divide", total, op("maximum", count, constant(1.0, count.type.dtype)))
            tile[tile.index(self.of_mean(r, tile))] = mean
        points += [self.point(r, tile) for r in self.references]
        points += [
            x
            for e in self._exponents()
            if self.running_reference
            for x in (self._exponent_reference(e, tile), *self._safe_scale(e, tile))
        ]
        measured = [c for c in self.components if not c.plain]
        second = [TileReduction("sum", self.element(c, tile), (self.of_component(c, tile),)) for c in measured]
        return tuple(first), tuple(dict.fromkeys(points)), tuple(second), tuple(tile)

    def derived(self, tile: Sequence[Node]) -> tuple[tuple[Node, Node], ...]:
        """(sum, its value) for sums over a tile that follow from its other accumulators.

        A sum of values is the sum of (value - mean), plus the mean times the count.
        """
        sums = []
        for f, r in product(self.folds, self.means):
            above = Component(r.value.type.dtype.compute, powers=(r,))
            if f.attr[0] == "sum" and f.args[0] is r.value and r.guard is None and above in self.components:
                shift = op("multiply", self.point(r, tile), self.of_component(self._count(r), tile))
                sums.append((self.of_fold(f, tile)[0], op("add", self.of_component(above, tile), shift)))
        return tuple(sums)

    def _total(self, r: Reference, lifts: list[TileReduction]) -> Node:
        """Sum of a mean's values over the tile, from an existing reduction or a new one."""
        value = guarded(r.value, r.guard)
        for lift in lifts:
            if lift.fold == "sum" and lift.value is value:
                return lift.slots[0]
        slot = node("state", (), ("total", len(lifts), self.number), Type(value.type.dtype.compute))
        lifts.append(TileReduction("sum", value, (slot,)))
        return slot

    def element(self, c: Component, state: Sequence[Node]) -> Node:
        """Contribution of an element to a component."""
        factors = [] if c.weight is None else [c.weight]
        if c.exponent is not None:
            r = c.exponent.reference
            if self.running_reference:
                moved = op(
                    "subtract",
                    self._as_exp2(c.exponent, r.value, state),
                    self._exponent_reference(c.exponent, state),
                )
                factors.append(op(as_exp2(c.exponent)[1], moved))
            else:
                moved = op("subtract", r.value, self.point(r, state))
                factors.append(self._exponential(c.exponent, moved, state))
        factors += [self._power(c, r, state) for r in c.powers]
        value = factors[0] if factors else constant(1.0, c.dtype)
        for factor in factors[1:]:
            value = op("multiply", value, factor)
        if c.vanishes and c.exponent is not None and not self._is_near(c):
            value = guarded(value, exponential_is_nonzero(c.exponent.reference.value, c.exponent.scale))
        return value if self._vanishes(c) else guarded(value, c.guard)

    def _power(self, c: Component, r: Reference, state: Sequence[Node]) -> Node:
        moved = op("subtract", r.value, self.point(r, state))
        if not c.vanishes or c.exponent is None or not self._is_near(c):
            return moved
        end = constant(copysign(FAR, -c.exponent.scale), moved.type.dtype)
        return op("maximum" if c.exponent.scale > 0 else "minimum", moved, end)

    def _is_near(self, c: Component) -> bool:
        """Whether the powers of a vanishing element may be clamped.

        They may if they are powers of its exponent: beyond FAR the exponential is 0, and so is the product.
        """
        e = c.exponent
        return e is not None and c.weight is None and set(c.powers) == {e.reference} and abs(e.scale) * FAR > NEAR

    def _vanishes(self, c: Component) -> bool:
        """Whether an element adds 0 without its guard too, as exp(-inf)."""
        e = c.exponent
        if e is None or e.factor is not None or c.weight is not None or c.powers:
            return False
        return is_identity_unguarded(c.guard, e.reference.value, "max" if e.scale > 0 else "min")

    # -- combine

    def combine(self, other: str = "b") -> tuple[Node, ...]:
        """The state of two parts, from `state("a")` and `state(other)`."""
        sides = [self.state("a"), self.state(other)]
        if self.running_reference:
            return self._combine_tile(*sides)
        combined: list[Node] = []
        for f in self.folds:
            combined += FOLDS[f.attr[0]].merge(self.of_fold(f, sides[0]), self.of_fold(f, sides[1]))
        for factor in self.factors:
            a, b = (self.of_factor(factor, side) for side in sides)
            combined.append(pick(op("equal", a, constant(0.0, a.type.dtype), dtype=BOOL), b, a))
        combined += [self._combined_mean(r, sides) for r in self.means]
        references = [*combined, *[sides[0][0]] * len(self.components)]  # references are read from it, not components
        for c in self.components:
            a, b = (self._rescaled(c, side, references) for side in sides)
            combined.append(op("add", a, b))
        return tuple(combined)

    def _combine_tile(self, before: Sequence[Node], tile: Sequence[Node]) -> tuple[Node, ...]:
        """The state after a tile whose folds include all earlier tiles."""
        assert not self.factors and not self.means
        count = len(self.identity) - len(self.components)
        sums = [op("add", self._rescaled(c, before, tile), self.of_component(c, tile)) for c in self.components]
        return (*tile[:count], *sums)

    def combine_folds(self) -> tuple[Node, ...]:
        """Values of the folds over all tiles so far and this one, before the tile is measured."""
        a, b = self.state("a"), self.state("b")
        parts = [(f.attr[0], self.of_fold(f, a), self.of_fold(f, b)) for f in self.folds]
        return tuple(x for name, before, own in parts for x in FOLDS[name].merge(before, own))

    def update_references(self) -> tuple[Node, ...]:
        """References of the next tile: those so far, `state("a")`, or the new extrema, `state("b")`.

        The references move only if an exponential would exceed 2**SLACK (FlashAttention's rescale threshold).
        """
        a, b = self.state("a"), self.state("b")
        references: list[Node] = []
        for f in self.folds:
            slack = self._slack(f)
            for before, new in zip(self.of_fold(f, a), self.of_fold(f, b)):
                if slack:
                    end = op("add", before, constant(slack, before.type.dtype))
                    beyond = op("greater" if slack > 0 else "less", new, end, dtype=BOOL)
                    new = pick(beyond, new, before)
                references.append(new)
        return tuple(references)

    def _slack(self, f: Node) -> float:
        """How far elements may exceed this reference (negative: fall below it) before it moves; 0 if it is no
        reference."""
        measured = [e for e in self._exponents() if f in extrema(e.reference, self.axes)]
        steepest = max((e.scale / (1 if e.base == "exp2" else log(2.0)) for e in measured), key=abs, default=0.0)
        return SLACK / steepest if steepest and f.attr[0] == ("max" if steepest > 0 else "min") else 0.0

    def rescaled(self, c: Component) -> Node:
        """A component of all earlier tiles, measured from the current references."""
        return self._rescaled(c, self.state("a"), self.state("b"))

    def _combined_mean(self, r: Reference, sides: Sequence[Sequence[Node]]) -> Node:
        """The mean of both parts, or a value near it: every reference gives the same result."""
        a, b = (self.of_mean(r, side) for side in sides)
        n, m = (self.of_component(self._count(r), side) for side in sides)
        share = op("divide", m, op("maximum", op("add", n, m), constant(1.0, n.type.dtype)))
        return op("add", a, op("multiply", op("subtract", b, a), share))

    def _rescaled(self, c: Component, side: Sequence[Node], target: Sequence[Node]) -> Node:
        """Component of one side, measured from the references of the target state."""
        total: Node | None = None
        for rest, below in c.below():
            value = self.of_component(below, side)
            for r in rest:
                value = op("multiply", op("subtract", self.point(r, side), self.point(r, target)), value)
            total = value if total is None else op("add", total, value)
        assert total is not None
        if c.exponent is None:
            return total
        r = c.exponent.reference
        extreme = self.extreme(r, side)
        if self.running_reference:
            distance = op(
                "subtract", self._exponent_reference(c.exponent, side), self._exponent_reference(c.exponent, target)
            )
            moved = op(as_exp2(c.exponent)[1], distance)
        else:
            moved = self._exponential(c.exponent, op("subtract", self.point(r, side), self.point(r, target)), target)
        none = op("equal", extreme, self._no_extreme(r, side), dtype=BOOL)
        return op("multiply", pick(none, constant(1.0, c.dtype), moved), total)

    # -- finish

    def value_of(self, c: Component, shifts: Sequence[Sequence[Node]], shift: Sequence[Node]) -> Node:
        """Sum of weight * exp(scale (u + shift)) * product of (v + its shift) over the whole axis."""
        state = self.state()
        total: Node | None = None
        for subset in range(1 << len(c.powers)):
            remaining = [r for k, r in enumerate(c.powers) if subset >> k & 1]
            value = self.of_component(c.with_powers(remaining), state)
            for k, r in enumerate(c.powers):
                if not subset >> k & 1:
                    value = op("multiply", total_of([self.point(r, state), *shifts[k]]), value)
            total = value if total is None else op("add", total, value)
        assert total is not None
        if c.exponent is None:
            return total
        moved = total_of([self.point(c.exponent.reference, state), *shift])
        return op("multiply", self._exponential(c.exponent, moved, state), total)

    def is_empty(self, c: Component) -> Node:
        """Whether no element contributed to the extremum of this exponent."""
        assert c.exponent is not None
        state, r = self.state(), c.exponent.reference
        return op("equal", self.extreme(r, state), self._no_extreme(r, state), dtype=BOOL)
