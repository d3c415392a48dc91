"""Phases of rows that exceed the chip: as few loops over the columns as the laws of online reductions allow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ... import debug
from ...ir.graph import Node, walk
from ...rewrite.online.discover import OnlinePass, find_passes
from ...rewrite.online.online_reduction import OnlineReduction, TileReduction
from ...rewrite.online.printer import check, show
from ...rewrite.scalar_builder import replace_nodes
from ..phase import Body, DerivedAccumulators, Phase, Reduction, Store
from .body_builder import literal
from .fold_bodies import build_reduction, combine_body
from .phases import PhaseBuilder

NO_WORK = Body((), (), ())


class LoopedPhases:
    """Builds the looped phases of one kernel with the names of its builder.

    Element stores wait for the last phase: a store may overwrite an array that earlier phases read.
    """

    def __init__(self, owner: PhaseBuilder):
        self.owner = owner
        self.builder = owner.builder
        self.passes, self.reasons = _online_passes(owner)
        pass_of = {f: p for p, online_pass in enumerate(self.passes) for f in online_pass.folds}
        self.depth = owner.depths(pass_of, 0 if _after_order(owner) else len(self.passes))
        self.count = max(len(self.passes), owner.count(self.depth))

    def phases(self) -> tuple[Phase, ...]:
        """One phase per pass, and one for element stores that need the last pass."""
        phases: list[Phase] = []
        row_values: dict[Node, None] = {}
        for p in range(self.count):
            online_pass = self.passes[p] if p < len(self.passes) else OnlinePass(())
            stores = self.owner.stores if p == self.count - 1 else []
            if online_pass.reduction is None:
                phases += self._plain_phases(p, online_pass, stores, row_values)
            else:
                phases.append(self._online_phase(p, online_pass.reduction, stores, row_values))
        return tuple(phases)

    def _plain_phases(self, p: int, online_pass: OnlinePass, stores, row_values: dict[Node, None]) -> list[Phase]:
        """Phase of independent folds, and the phase over the sorted axis."""
        owner = self.owner
        lifts = [TileReduction(f.attr[0], f.args[0], owner.state_of(f)) for f in online_pass.folds]
        sorts = [n for n in owner.sorts if self.depth[n] == p + 1]
        phases = [self._elements(lifts, stores, row_values, sorts)] if lifts or stores or sorts else []
        phases += owner.rank_phase(p, self.depth, [*owner.known(), *row_values])
        phases = phases or [Phase(NO_WORK)]
        folds = [f for f in owner.folds if self.depth[f] == p + 1]
        row, row_stores = self._row_work(p, folds + owner.picked(p, self.depth), {}, row_values)
        phases[-1] = replace(phases[-1], row=row, row_stores=row_stores)
        return phases

    # -- a pass with a joint state

    def _online_phase(self, p: int, online: OnlineReduction, stores, row_values: dict[Node, None]) -> Phase:
        """Phase of an online reduction: each tile runs the tile phases, then its state is combined into the row's."""
        check(online)
        debug.say(debug.DECISIONS, "folds in one pass", show(online))
        first, points, second, state = online.lift()
        for lift in (*first, *second):
            for slot in lift.slots:
                self.builder.name(slot, f"tile_{lift.fold}", lift.fold)
        slots = [slot for lift in first for slot in lift.slots]
        tile = [self._elements(first, stores, row_values)]
        held = {slot for lift in second for slot in lift.slots} | set(slots)
        wanted = [n for n in dict.fromkeys([*points, *state]) if n not in held]
        row = self._body(wanted, [*row_values, *slots]) if wanted else None
        tile[0] = replace(tile[0], row=row)
        if second:
            tile.append(self._elements(second, [], [*row_values, *slots, *wanted]))
        values = dict(online.derived(state)) if online.reuses_reference else {}
        derived = self._derived(values, [*row_values, *slots, *held, *wanted]) if values else None
        whole = online.state()
        for k, s in enumerate(whole):
            self.builder.name(s, "state", f"state {k}")
        use = Reduction(
            "online",
            tuple(map(self.builder.value, state)),
            tuple(map(self.builder.value, whole)),
            tuple(str(literal(x)) for x in online.identity),
            combine_body(online.state("a"), online.state("b"), online.combine()),
        )
        folds = [f for f, _ in online.finish]
        row, row_stores = self._row_work(p, folds, dict(online.finish), row_values, whole)
        return Phase(
            NO_WORK, (), (use,), row, row_stores, tuple(tile), reuses_reference=online.reuses_reference, derived=derived
        )

    def _derived(self, values: dict[Node, Node], row_values: Iterable[Node]) -> DerivedAccumulators:
        return DerivedAccumulators(
            tuple(map(self.builder.value, values)), self._body(list(values.values()), row_values)
        )

    # -- elements and row values

    def _elements(
        self, lifts: Sequence[TileReduction], stores, row_values: Iterable[Node], sorts: Sequence[Node] = ()
    ) -> Phase:
        """Element work: reductions, stores and sorts."""
        lifted = [self.owner.lifted(lift.fold, lift.value) for lift in lifts]
        results = dict.fromkeys([*(x for state in lifted for x in state), *(v for _, v in stores)])
        results.update(dict.fromkeys(n.args[0] for n in sorts))
        available = [*self.owner.known(), *row_values]
        element, scans, names = self.owner.element(list(results), available)
        uses = []
        for lift, state in zip(lifts, lifted):
            states = tuple(map(self.builder.value, lift.slots))
            uses.append(build_reduction(lift.fold, lift.value.type.dtype.compute, [names[x] for x in state], states))
        element_stores = tuple(Store(names[v], self.owner.stored_at[r]) for r, v in stores)
        sort = self.owner.sort_of(sorts[0], names[sorts[0].args[0]], available) if sorts else None
        return Phase(element, element_stores, tuple(uses), scans=scans, sort=sort)

    def _body(self, results: Sequence[Node], row_values: Iterable[Node]) -> Body:
        return self.builder.body((), list(results), [*self.owner.known(), *row_values])

    def _row_work(
        self, p: int, folds: Sequence[Node], finish: dict[Node, Node], row_values: dict[Node, None], state=()
    ):
        """(row body, row stores) after pass p; `finish` gives folds from a joint `state`."""
        due = [(r, v) for r, v in self.owner.row_stores if max(self.depth[v] - 1, 0) == p]
        wanted = [*folds, *self._later_values(p), *(v for _, v in due)]
        final = self._finished(wanted, finish)
        available = [*self.owner.known(), *row_values, *state, *(f for f in folds if f not in finish)]
        results = [n for n in dict.fromkeys(final[w] for w in wanted) if n not in available]
        body = self.builder.body((), results, available) if results else None
        names = {n: value.name for n, value in zip(results, body.results)} if body else {}
        for n in wanted:
            if final[n] is not n:
                self.builder.rename(n, final[n])
        stores = tuple(Store(names.get(final[v]) or self.builder.names[v], self.owner.stored_at[r]) for r, v in due)
        row_values.update(dict.fromkeys([*folds, *self._later_values(p)]))
        return body, stores

    def _finished(self, wanted: Sequence[Node], finish: dict[Node, Node]) -> dict[Node, Node]:
        """Row values with the folds of an online reduction replaced by expressions of its state."""
        done: dict[Node, Node] = {}

        for f, value in finish.items():
            done[f] = replace_nodes([value], done)[value]
        return replace_nodes(wanted, done)

    def _later_values(self, p: int) -> list[Node]:
        """Row values that become computable after pass p and that elements of later passes read."""
        return self.owner.row_values(p, self.depth)


def _online_passes(owner: PhaseBuilder) -> tuple[tuple[OnlinePass, ...], tuple[str, ...]]:
    """Passes of a kernel's folds over its columns, and why there are not fewer.

    Scans prevent online reductions, and so do sorts that a fold depends on.
    """
    folds = [f for f in owner.folds if f.attr[1] != owner.ranks]
    if not any(n.op == "scan" for n in owner.nodes) and not _after_order(owner):
        passes, obstacles = find_passes(folds)
        return passes, tuple(dict.fromkeys(r.reason for r in obstacles))
    count = max((owner.depth[f] for f in folds), default=0)
    layers = [tuple(f for f in folds if owner.depth[f] == p + 1) for p in range(count)]
    where = "behind sorts" if owner.sorts else "beside scans"
    return tuple(map(OnlinePass, layers)), (f"folds do not share passes {where}",) if count > 1 else ()


def _after_order(owner: PhaseBuilder) -> bool:
    """Whether a fold over the columns depends on a sort of them."""
    folds = [f for f in owner.folds if f.attr[1] != owner.ranks]
    return any(n.op == "sorted" for n in walk(folds))
