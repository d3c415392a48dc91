"""Builds the bodies that combine attention states: running state with a tile, and two splits of the keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from ...fusion.cost_model import computed_nodes
from ...fusion.online.find_attention import ValueProduct
from ...ir.graph import Node, value_of, walk
from ...rewrite.scalar_builder import replace_nodes
from ..attention import WeightedSum
from ..phase import Body, Reduction, Value
from .attention_frame import AttentionFrame
from .body_builder import literal
from .paged_operands import is_nan_if_invalid


class StateCombiner:
    """Builds combine bodies with the names of an AttentionFrame."""

    def __init__(self, emitter: AttentionFrame):
        self.attention = emitter
        self.builder = emitter.builder
        self.online = emitter.pattern.reduction
        indices = {w: self._state_index(w) for w in emitter.pattern.value_products}
        self.outputs = {k: w for k in range(len(self.online.identity)) for w, index in indices.items() if index == k}
        """Weighted sums by their index in the state."""

    def states(self) -> tuple[Reduction, tuple[WeightedSum, ...], Reduction | None]:
        """(combines row states with a tile, the weighted sums, combines row states of splits: None without them)"""
        online, own = self.online, self.outputs
        a, b, whole = online.state("a"), online.state("b"), online.state()
        for k, (before, tile, after) in enumerate(zip(a, b, whole)):
            self.builder.name(before, "output" if k in own else "state", f"state {k}")
            if k in own:
                self.builder.name(tile, "tile_output", f"state {k} of the tile")
            else:
                self.builder.rename(tile, self.attention.tile_state[k])
            self.builder.rename(after, before)
        merged = list(online.combine())
        if online.running_reference:
            for k, w in own.items():
                merged[k] = online.rescaled(w.component)
        use, bodies = self._combine("state", a, b, merged)
        if not online.running_reference:
            return use, tuple(self._weighted_sum(k, bodies[k], None) for k in own), None
        other = online.state("part")
        for k, n in enumerate(other):
            self.builder.name(n, "split_output" if k in own else "split", f"state {k} of a split")
        by_own_references = dataclasses.replace(online, running_reference=False)
        splits, split_bodies = self._combine("parts", a, other, by_own_references.combine("part"))
        return use, tuple(self._weighted_sum(k, bodies[k], split_bodies[k]) for k in own), splits

    def _combine(
        self, name: str, a: Sequence[Node], b: Sequence[Node], merged: Sequence[Node]
    ) -> tuple[Reduction, dict[int, Body]]:
        """(reduction of the row states, bodies that combine the weighted sums by their index in the state)

        The reduction's body also results in the row values by which these bodies rescale a weighted sum.
        """
        online, own = self.online, self.outputs
        plain = [k for k in range(len(a)) if k not in own]
        sides = {side for k in own for side in (a[k], b[k])}
        rescaling = live_ins([merged[k] for k in own], lambda n: n in sides, [*a, *b])
        rows = [a[k] for k in plain] + [b[k] for k in plain]
        results = list(dict.fromkeys([merged[k] for k in plain] + rescaling))
        body = self.builder.body([x for x in rows if x.op == "state"], results, [*self.attention.known(), *rows])
        use = Reduction(
            name,
            tuple(self.builder.value(b[k]) for k in plain),
            tuple(self.builder.value(a[k]) for k in plain),
            tuple(str(literal(online.identity[k])) for k in plain),
            dataclasses.replace(body, results=self._in_order(body, results, [merged[k] for k in plain], rescaling)),
        )
        known = [*self.attention.known(), *rows, *rescaling, *a, *b]
        return use, {k: self.builder.body((), [merged[k]], known) for k in own}

    def update_row_max(self) -> Body:
        """The running row maximum, updated with that of a tile."""
        online = self.online
        joined = online.combine_folds()
        before, tile = online.state("a")[: len(joined)], online.state("b")[: len(joined)]
        own = dict(zip(tile, self.attention.tile_state))
        new = replace_nodes(joined, own)
        folded = replace_nodes([new[n] for n in joined], self.attention.scaled_extrema)
        results = [folded[new[n]] for n in joined]
        given = [lift.slots[0] if len(lift.slots) == 1 else None for lift in self.attention.lifts[0]]
        known = [*self.attention.known(), *before, *own.values(), *(n for n in given if n is not None)]
        return self.builder.body([], results, known)

    def choose_reference(self) -> Body:
        """The reference that a tile is measured from: the old one, unless the row maximum exceeds it by a threshold."""
        online = self.online
        before, tile = online.state("a"), online.state("b")
        own = dict(zip(tile, self.attention.tile_state))
        results = [replace_nodes([n], own)[n] for n in online.update_references()]
        return self.builder.body([], results, [*self.attention.known(), *before, *own.values()])

    def _in_order(
        self, body: Body, results: list[Node], states: list[Node], rescaling: list[Node]
    ) -> tuple[Value, ...]:
        """The combined state in its order, then the row values that weighted sums are rescaled by."""
        names = dict(zip(results, body.results))
        return tuple(names[n] for n in [*states, *rescaling])

    def _state_index(self, w: ValueProduct) -> int:
        """The index of a weighted sum in the state."""
        online = self.online
        return len(online.identity) - len(online.components) + online.components.index(w.component)

    def _weighted_sum(self, k: int, combine_tile: Body, combine_splits: Body | None) -> WeightedSum:
        w, online, emitter = self.outputs[k], self.online, self.attention
        before, tile = online.state("a")[k], online.state("b")[k]
        return WeightedSum(
            emitter.axes.index(w.axis),
            self.builder.value(emitter.weights[w]),
            self.builder.body((), [w.v], emitter.known()),
            self.builder.value(before),
            (self.builder.value(before), self.builder.value(tile)),
            combine_tile,
            self._is_active(w),
            combine_splits,
        )

    def _is_active(self, w: ValueProduct) -> Body | None:
        """The element mask of a weighted sum; None if a score of -inf alone masks elements (0 * NaN is NaN then)."""
        active = w.p.active_condition()
        if active is None or self._is_infinite_alone(active):
            return None
        return self.builder.body((), [active], self.attention.leaves)

    def _is_infinite_alone(self, active: Node) -> bool:
        """True if the mask is `score != -inf` and no select makes the score -inf."""
        if active.op != "not_equal" or active.args[1].op != "const" or value_of(active.args[1]) != float("-inf"):
            return False
        computed = computed_nodes([active], frozenset(self.attention.leaves))
        return not any(n.op == "where" and not is_nan_if_invalid(n) for n in computed)


def live_ins(roots: Sequence[Node], varies: Callable[[Node], bool], given: Iterable[Node]) -> list[Node]:
    """Live-ins of the varying part: invariant values that varying ones read; invariant roots included."""
    own, given = dict.fromkeys(walk(roots), False), set(given)
    for n in walk(roots):
        own[n] = varies(n) or any(own[a] for a in n.args)
    ends = [n for n in roots if not own[n]] + [a for n in own if own[n] for a in n.args if not own[a]]
    return [n for n in dict.fromkeys(ends) if n.op != "const" and n not in given]
