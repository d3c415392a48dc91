"""Discovers online reductions: which dependent folds over one axis share a pass, and what separates the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...ir.folds import FOLDS, pick
from ...ir.graph import Node, constant, is_literal, walk
from ..scalar_builder import free_axes, scaled
from ..scalar_builder import scalar_op as op
from .algebra import Algebra
from .components import (
    Component,
    Exponent,
    Reference,
    exponential_is_nonzero,
    extrema,
    is_identity_unguarded,
    masked,
    unguarded,
    unmasked,
)
from .extrema import TURNED, extreme
from .forms import ProductTerm, Terms, implies, not_negative, opposite, terms_of, unwidened
from .online_reduction import OnlineReduction
from .running_reference import measure_from_running_reference

Rows = tuple[Node, ...]
ONE_VALUE_OPERAND = "a GPU kernel multiplies one value operand by the weights: another one needs a pass of its own"
MOST_STATE = 20  # values of a joint state that stay in registers


@dataclass(frozen=True)
class OnlinePass:
    """Folds of one loop over the columns: independent ones, or an online reduction of dependent ones."""

    folds: tuple[Node, ...]
    reduction: OnlineReduction | None = None


@dataclass(frozen=True)
class PassObstacle:
    """Why a fold does not share a pass with another one, which it usually depends on."""

    fold: Node
    other: Node
    obstacle: str

    @property
    def reason(self) -> str:
        if self.obstacle == ONE_VALUE_OPERAND:
            return ONE_VALUE_OPERAND
        a, b = self.fold.attr[0], self.other.attr[0]
        return f"{a} does not share a pass with the {b} that it depends on, because of {self.obstacle} between them"


def find_passes(
    folds: Sequence[Node], own: frozenset = frozenset(), running_reference: bool = False
) -> tuple[tuple[OnlinePass, ...], tuple[PassObstacle, ...]]:
    """The fewest passes for folds over the same axes, and the obstacles to fewer.

    A sum with axes `own` besides the rows is a contraction, and so a component of an online reduction. With a
    `running_reference`, references are the extrema of all elements so far.
    """
    return _Passes(folds, own, running_reference).find()


class _Passes:
    """Assigns folds to passes greedily, in dependency order."""

    def __init__(self, folds: Sequence[Node], own: frozenset, running_reference: bool):
        wanted = set(folds)
        self.own, self.running_reference = own, running_reference
        self.folds = [n for n in walk(folds) if n in wanted]
        self.axes = self.folds[0].attr[1] if self.folds else ()
        self.free = free_axes(self.folds)
        self.stage: dict[Node, int] = {}
        self.below: dict[Node, frozenset[Node]] = {}
        for n in walk(folds):
            parts = [self.below[a] | ({a} & wanted) for a in n.args]
            self.below[n] = frozenset().union(*parts) if parts else frozenset()

    def find(self) -> tuple[tuple[OnlinePass, ...], tuple[PassObstacle, ...]]:
        builders: list[_PassBuilder] = []
        obstacles: list[PassObstacle] = []
        for f in self.folds:
            first = stage = max((self.stage[g] for g in self.below[f]), default=0)
            while True:
                if stage == len(builders):
                    builders.append(_PassBuilder(self, stage))
                obstacle = builders[stage].add(f)
                if obstacle is not None and stage == first:
                    obstacles.append(PassObstacle(f, self._other(f, stage), obstacle))
                elif obstacle != ONE_VALUE_OPERAND:
                    builders[stage].plain += [] if obstacle is None else [f]
                    break
                stage += 1
            self.stage[f] = stage
        return tuple(b.build() for b in builders), tuple(obstacles)

    def _other(self, f: Node, stage: int) -> Node:
        """The fold that keeps `f` out of a pass: one that `f` depends on, if any."""
        earlier = [g for g in reversed(self.folds) if self.stage.get(g) == stage]
        return next((g for g in earlier if g in self.below[f]), earlier[0] if earlier else f)

    def depends(self, n: Node, stage: int) -> bool:
        """Whether a node is a fold of this pass, or reads one."""
        below = self.below[n] if n in self.below else {g for g in walk([n]) if g in self.stage}
        return self.stage.get(n) == stage or any(self.stage[g] == stage for g in below)

    def varies(self, n: Node) -> bool:
        """Whether a node has a value per element of the reduced axes."""
        return bool(self.free[n] & set(self.axes))


class _PassBuilder:
    """Online pass under construction."""

    def __init__(self, owner: _Passes, stage: int):
        self.owner, self.stage = owner, stage
        self.plain: list[Node] = []
        self.folds: dict[Node, None] = {}  # folds that references are read from
        self.references: dict[Reference, int] = {}
        self.components: dict[Component, None] = {}
        self.makers: dict[Node, Callable[[OnlineReduction], Node]] = {}
        self.algebra = Algebra(owner.varies, lambda n: owner.depends(n, stage))

    def build(self) -> OnlinePass:
        """The finished pass; independent folds keep their own state."""
        order = [f for f in self.owner.folds if f in self.makers or f in self.plain]
        if not self.makers:
            return OnlinePass(tuple(order))
        folds = tuple(dict.fromkeys([*self.plain, *self.folds]))
        rows = frozenset().union(*(free_axes([f])[f] for f in folds or order)) - self.owner.own
        reduction = OnlineReduction(rows, self.owner.axes, folds, tuple(self.components), (), self.stage)
        finish = []
        for f in order:
            own = f in self.plain
            value = (
                reduction.of_fold(f, reduction.state())[FOLDS[f.attr[0]].finish] if own else self.makers[f](reduction)
            )
            finish.append((f, value))
        return OnlinePass(tuple(order), replace(reduction, finish=tuple(finish)))

    def add(self, f: Node) -> str | None:
        """Add a fold to the pass, or return what prevents it."""
        if not self.owner.depends(f, self.stage) and not self.owner.free[f] & self.owner.own:
            self.plain.append(f)
            return None
        form = self.algebra.form(f.args[0])
        if isinstance(form, str):
            return form
        if f.attr[0] in TURNED:
            extremum = extreme(f, form)
            if isinstance(extremum, str):
                return extremum
            known_fold, self.makers[f] = extremum
            self.folds[known_fold] = None
            return None
        return self._add_sum(f, terms_of(form)) if f.attr[0] == "sum" else f.attr[0]

    def _add_sum(self, f: Node, terms: Terms) -> str | None:
        references, parts = dict(self.references), []
        if self.owner.running_reference:
            measured = measure_from_running_reference(terms, self.owner.axes)
            if measured is None:
                return "powers of a value that has no extremum"
            terms = measured
        if self.owner.free[f] & self.owner.own and any(t.powers for t in terms):
            return "powers in what weighs another axis"
        if any(t.nonzero not in (None, _is_nonzero(t)) for t in terms):
            return "a condition that reads it"
        for t in terms:
            parts.append(_component(t, f.type.dtype.compute, references, self.owner.axes, self.owner.running_reference))
        components, folds = dict(self.components), dict(self.folds)
        if any(c.exponent and sum(r.kind == "mean" for r in c.powers) > 1 for c, _, _ in parts):
            return "squares beside an exponential"
        for c, _, _ in parts:
            read = (c.weight, c.guard, *(r.value for r in c.references()))
            if any(x is not None and self.owner.depends(x, self.stage) for x in read):
                return "a condition that reads it"
            components |= dict.fromkeys(below for _, below in c.below())
        for r in references:
            if r.kind == "mean":
                components[Component(r.value.type.dtype.compute, guard=r.guard)] = None
            else:
                folds |= dict.fromkeys(extrema(r, self.owner.axes))
        if self.owner.running_reference and sum(self._weighs(c) for c in components) > 1:
            return ONE_VALUE_OPERAND
        if len(components) + len(folds) + len(references) > MOST_STATE:
            return f"a state of more than {MOST_STATE} values"
        self.components, self.folds, self.references = components, folds, references

        def make(reduction: OnlineReduction) -> Node:
            total: Node | None = None
            for t, (c, shifts, shift) in zip(terms, parts):
                value = scaled(reduction.value_of(c, shifts, shift), t.scale, t.factor)
                if t.guard is not None and _guard_covers_extremum(c):
                    value = pick(reduction.is_empty(c), constant(0.0, value.type.dtype), value)
                if t.row_guard is not None:
                    value = pick(t.row_guard, value, constant(0.0, value.type.dtype))
                total = value if total is None else op("add", total, value)
            assert total is not None
            return total

        self.makers[f] = make
        return None

    def _weighs(self, c: Component) -> bool:
        """Whether a component is a contraction."""
        return c.weight is not None and bool(free_axes([c.weight])[c.weight] & self.owner.own)


def _is_nonzero(t: ProductTerm) -> Node | None:
    """Condition that the exponential of a term is not exp(-inf)."""
    e = t.exponential
    return None if e is None or e.factor is not None else exponential_is_nonzero(unwidened(e.element), e.scale)


def _component(
    t: ProductTerm, dtype, references: dict[Reference, int], axes: tuple, running_reference: bool
) -> tuple[Component, list[Rows], Rows]:
    """(component of a term, row values that shift its powers, row values that shift its exponent)."""

    def known(r: Reference) -> Reference:
        references.setdefault(r, len(references))
        return r

    exponent: Exponent | None = None
    shift: Rows = ()
    weight, guard = t.weight, t.guard
    e = t.exponential
    if e is not None:
        sign = None if e.factor is None or not_negative(e.factor) else e.factor
        kind = "max" if e.scale > 0 else "min"
        value = unwidened(e.element)
        of_all = Reference(value, kind, None, sign)
        measured = _measured_from(of_all, e.rows, axes)
        weight = weight if e.factor else unmasked(weight, value, kind)
        if guard is None and not measured:  # excluded elements may be far above the others
            weight, guard, truths = unguarded(weight)
            if guard is not None and truths and e.factor is None and not t.powers:
                value, guard = masked(guard, value, kind), None
                of_all = Reference(value, kind)
        alone = is_identity_unguarded(guard, value, kind) or measured
        r = known(of_all if alone else replace(of_all, guard=guard))
        exponent = Exponent(r, e.scale, e.base, e.factor)
        shift = e.rows
    powers = []
    for element, rows in t.powers:
        element = unwidened(element)
        alike = exponent and exponent.reference.value is element
        other = Reference(element, "max") if running_reference else Reference(element, "mean", t.guard)
        r = exponent.reference if exponent and alike else known(other)
        powers.append((r, rows))
    powers.sort(key=lambda pair: references[pair[0]])
    vanishes = t.nonzero is not None and bool(powers or weight is not None)
    component = Component(dtype, weight, exponent, tuple(r for r, _ in powers), guard, vanishes)
    return component, [rows for _, rows in powers], shift


def _guard_covers_extremum(c: Component) -> bool:
    """Whether the guard of a sum excludes the same elements as its extremum.

    A row without elements then has a sum of 0, whatever its factors are.
    """
    if c.guard is None or c.exponent is None or c.exponent.reference.sign is not None:
        return False
    r = c.exponent.reference
    if r.guard is c.guard:
        return True
    end = float("-inf") if r.kind == "max" else float("inf")
    if r.value.op != "where":
        return False
    condition, yes, no = r.value.args
    selects = ((condition, no), (opposite(condition), yes))
    return any(is_literal(x, end) and implies(c.guard, holds) for holds, x in selects)


def _measured_from(r: Reference, rows: Rows, axes: tuple) -> bool:
    """Whether row values added to an exponent contain its reference.

    The reference then includes elements that the sum excludes, as in dropout after softmax.
    """
    return set(extrema(r, axes)) <= set(walk(rows))
