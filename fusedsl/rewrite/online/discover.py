"""Which folds over one stream share a pass, though some depend on others: the laws that make a OnlineReduction.

A sum of elements that read the value of another fold of the same pass is brought to a sum of terms (algebra.py)
whose inner sums are components (components.py). Extremes move with a row value that is added, and scale with one
that is not negative. What has no such form starts a pass of its own, and says why.
"""

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
WEIGHED = "a pass on a GPU weighs one operand by one weight: what else is weighed has a pass of its own"
MOST_STATE = 20  # values of a joint state: beyond, it would not stay in registers


@dataclass(frozen=True)
class OnlinePass:
    """Folds of one pass over the columns: each by itself or, where some depend on others, by a stream fold."""

    folds: tuple[Node, ...]
    stream: OnlineReduction | None = None


@dataclass(frozen=True)
class PassObstacle:
    """A fold that does not share a pass with another, which it depends on as a rule, and what stands between them."""

    fold: Node
    other: Node
    obstacle: str

    @property
    def reason(self) -> str:
        if self.obstacle == WEIGHED:
            return WEIGHED
        a, b = self.fold.attr[0], self.other.attr[0]
        return f"{a} is not streamed with the {b} that it depends on, because of {self.obstacle} between them"


def find_passes(
    folds: Sequence[Node], own: frozenset = frozenset(), level: bool = False
) -> tuple[tuple[OnlinePass, ...], tuple[PassObstacle, ...]]:
    """The fewest passes for folds over the same columns, and why they are not fewer.

    Sums for each of some axes `own`, beside the rows, are contractions: always components of a stream fold. References
    of `level` passes are those of all elements so far: extrema.
    """
    return _Passes(folds, own, level).find()


class _Passes:
    def __init__(self, folds: Sequence[Node], own: frozenset, level: bool):
        wanted = set(folds)
        self.own, self.level = own, level
        self.folds = [n for n in walk(folds) if n in wanted]
        self.stream = self.folds[0].attr[1] if self.folds else ()
        self.free = free_axes(self.folds)
        self.stage: dict[Node, int] = {}
        self.below: dict[Node, frozenset[Node]] = {}
        for n in walk(folds):
            parts = [self.below[a] | ({a} & wanted) for a in n.args]
            self.below[n] = frozenset().union(*parts) if parts else frozenset()

    def find(self) -> tuple[tuple[OnlinePass, ...], tuple[PassObstacle, ...]]:
        streams: list[_Stream] = []
        refusals: list[PassObstacle] = []
        for f in self.folds:
            first = stage = max((self.stage[g] for g in self.below[f]), default=0)
            while True:
                if stage == len(streams):
                    streams.append(_Stream(self, stage))
                obstacle = streams[stage].take(f)
                if obstacle is not None and stage == first:
                    refusals.append(PassObstacle(f, self._other(f, stage), obstacle))
                elif obstacle != WEIGHED:
                    streams[stage].plain += [] if obstacle is None else [f]
                    break
                stage += 1
            self.stage[f] = stage
        return tuple(s.made() for s in streams), tuple(refusals)

    def _other(self, f: Node, stage: int) -> Node:
        """The fold of a pass that another one does not join: one that it depends on, if there is one."""
        earlier = [g for g in reversed(self.folds) if self.stage.get(g) == stage]
        return next((g for g in earlier if g in self.below[f]), earlier[0] if earlier else f)

    def depends(self, n: Node, stage: int) -> bool:
        """Whether a node reads a fold of this pass, or is one."""
        below = self.below[n] if n in self.below else {g for g in walk([n]) if g in self.stage}
        return self.stage.get(n) == stage or any(self.stage[g] == stage for g in below)

    def varies(self, n: Node) -> bool:
        """Whether a node has a value per element of the stream."""
        return bool(self.free[n] & set(self.stream))


class _Stream:
    """One pass in the making."""

    def __init__(self, owner: _Passes, stage: int):
        self.owner, self.stage = owner, stage
        self.plain: list[Node] = []
        self.folds: dict[Node, None] = {}  # that references are read from
        self.references: dict[Reference, int] = {}
        self.components: dict[Component, None] = {}
        self.makers: dict[Node, Callable[[OnlineReduction], Node]] = {}
        self.algebra = Algebra(owner.varies, lambda n: owner.depends(n, stage))

    def made(self) -> OnlinePass:
        """The pass; the folds that depend on none of it keep their own state."""
        order = [f for f in self.owner.folds if f in self.makers or f in self.plain]
        if not self.makers:
            return OnlinePass(tuple(order))
        folds = tuple(dict.fromkeys([*self.plain, *self.folds]))
        rows = frozenset().union(*(free_axes([f])[f] for f in folds or order)) - self.owner.own
        stream = OnlineReduction(rows, self.owner.stream, folds, tuple(self.components), (), self.stage)
        finish = []
        for f in order:
            own = f in self.plain
            value = stream.of_fold(f, stream.state())[FOLDS[f.attr[0]].finish] if own else self.makers[f](stream)
            finish.append((f, value))
        return OnlinePass(tuple(order), replace(stream, finish=tuple(finish)))

    def take(self, f: Node) -> str | None:
        """Take a fold, or say what is in the way."""
        if not self.owner.depends(f, self.stage) and not self.owner.free[f] & self.owner.own:
            self.plain.append(f)
            return None
        form = self.algebra.form(f.args[0])
        if isinstance(form, str):
            return form
        if f.attr[0] in TURNED:
            found = extreme(f, form)
            if isinstance(found, str):
                return found
            whole, self.makers[f] = found
            self.folds[whole] = None
            return None
        return self._add_sum(f, terms_of(form)) if f.attr[0] == "sum" else f.attr[0]

    def _add_sum(self, f: Node, terms: Terms) -> str | None:
        references, made = dict(self.references), []
        if self.owner.level:
            found = measure_from_running_reference(terms, self.owner.stream)
            if found is None:
                return "powers of a value that no extremum is taken of"
            terms = found
        if self.owner.free[f] & self.owner.own and any(t.powers for t in terms):
            return "powers in what weighs another axis"
        if any(t.there not in (None, _there(t)) for t in terms):
            return "a condition that reads it"
        for t in terms:
            made.append(_component(t, f.type.dtype.compute, references, self.owner.stream, self.owner.level))
        components, folds = dict(self.components), dict(self.folds)
        if any(c.exponent and sum(r.kind == "mean" for r in c.powers) > 1 for c, _, _ in made):
            return "squares beside an exponential"
        for c, _, _ in made:
            read = (c.weight, c.guard, *(r.value for r in c.references()))
            if any(x is not None and self.owner.depends(x, self.stage) for x in read):
                return "a condition that reads it"
            components |= dict.fromkeys(below for _, below in c.below())
        for r in references:
            if r.kind == "mean":
                components[Component(r.value.type.dtype.compute, guard=r.guard)] = None
            else:
                folds |= dict.fromkeys(extrema(r, self.owner.stream))
        if self.owner.level and sum(self._weighs(c) for c in components) > 1:
            return WEIGHED
        if len(components) + len(folds) + len(references) > MOST_STATE:
            return f"a state of more than {MOST_STATE} values"
        self.components, self.folds, self.references = components, folds, references

        def make(stream: OnlineReduction) -> Node:
            total: Node | None = None
            for t, (c, shifts, shift) in zip(terms, made):
                value = scaled(stream.value_of(c, shifts, shift), t.scale, t.factor)
                if t.guard is not None and _is_of_those_there(c):
                    value = pick(stream.is_empty(c), constant(0.0, value.type.dtype), value)
                if t.when is not None:
                    value = pick(t.when, value, constant(0.0, value.type.dtype))
                total = value if total is None else op("add", total, value)
            assert total is not None
            return total

        self.makers[f] = make
        return None

    def _weighs(self, c: Component) -> bool:
        """Whether a component is a contraction."""
        return c.weight is not None and bool(free_axes([c.weight])[c.weight] & self.owner.own)


def _there(t: ProductTerm) -> Node | None:
    """Where the exponential of a term is not exp(-inf)."""
    e = t.exponential
    return None if e is None or e.factor is not None else exponential_is_nonzero(unwidened(e.element), e.scale)


def _component(
    t: ProductTerm, dtype, references: dict[Reference, int], stream: tuple, level: bool
) -> tuple[Component, list[Rows], Rows]:
    """The component of a term, the row values that its powers are shifted by, and that of its exponential."""

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
        measured = _measured_from(of_all, e.rows, stream)
        weight = weight if e.factor else unmasked(weight, value, kind)
        if guard is None and not measured:  # elements that weigh nothing may be far above the others
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
        other = Reference(element, "max") if level else Reference(element, "mean", t.guard)
        r = exponent.reference if exponent and alike else known(other)
        powers.append((r, rows))
    powers.sort(key=lambda pair: references[pair[0]])
    vanishes = t.there is not None and bool(powers or weight is not None)
    made = Component(dtype, weight, exponent, tuple(r for r, _ in powers), guard, vanishes)
    return made, [rows for _, rows in powers], shift


def _is_of_those_there(c: Component) -> bool:
    """Whether the guard of a sum leaves out all that its extremum does: a row without any has a sum of 0, whatever it
    is multiplied by."""
    if c.guard is None or c.exponent is None or c.exponent.reference.sign is not None:
        return False
    r = c.exponent.reference
    if r.guard is c.guard:
        return True
    end = float("-inf") if r.kind == "max" else float("inf")
    if r.value.op != "where":
        return False
    condition, yes, no = r.value.args
    ways = ((condition, no), (opposite(condition), yes))
    return any(is_literal(x, end) and implies(c.guard, holds) for holds, x in ways)


def _measured_from(r: Reference, rows: Rows, stream: tuple) -> bool:
    """Whether row values that are added to an exponent are made of a reference: it is of elements too that the sum
    leaves out, as where weights are dropped after they were divided by the sum of all."""
    return set(extrema(r, stream)) <= set(walk(rows))
