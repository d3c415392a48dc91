"""How the state of a pass over scores takes up a tile, or another state: row values, and sums that these weigh."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ...fusion.cost_model import computed_nodes
from ...fusion.online.find_attention import Weighted
from ...ir.graph import Node, value_of, walk
from ...rewrite.scalar_builder import replace_nodes
from ..phase import Body, Reduction, Value
from ..attention import Weighing
from .instructions import literal
from .paged_operands import is_absence

if TYPE_CHECKING:
    from .attention import AttentionBuilder


class StateCombiner:
    """Writes the bodies that merge states, with the names of an emitter."""

    def __init__(self, emitter: AttentionBuilder):
        self.emitter = emitter
        self.builder = emitter.builder
        self.stream = emitter.streaming.fold
        places = {w: self._place(w) for w in emitter.streaming.weighted}
        self.own = {k: w for k in range(len(self.stream.identity)) for w, place in places.items() if place == k}
        """The states with an axis of their own, by their number."""

    def states(self) -> tuple[Reduction, tuple[Weighing, ...], Reduction | None]:
        """How the state takes up a tile, and where tiles are level with it, how it takes up another state."""
        stream, own = self.stream, self.own
        a, b, whole = stream.state("a"), stream.state("b"), stream.state()
        for k, (before, tile, after) in enumerate(zip(a, b, whole)):
            self.builder.name(before, "weighed" if k in own else "stream", f"state {k}")
            if k in own:
                self.builder.name(tile, "tile_weighed", f"state {k} of the tile")
            else:
                self.builder.rename(tile, self.emitter.tile[k])
            self.builder.rename(after, before)
        merged = list(stream.combine())
        if stream.running_reference:
            for k, w in own.items():
                merged[k] = stream.rescaled(w.component)
        use, bodies = self._sides("stream", a, b, merged)
        if not stream.running_reference:
            return use, tuple(self._weighing(k, bodies[k], None) for k in own), None
        other = stream.state("part")
        for k, n in enumerate(other):
            self.builder.name(n, "part_weighed" if k in own else "part", f"state {k} of a part")
        parts, moving = self._sides(
            "parts", a, other, dataclasses.replace(stream, running_reference=False).combine("part")
        )
        return use, tuple(self._weighing(k, bodies[k], moving[k]) for k in own), parts

    def _sides(
        self, name: str, a: Sequence[Node], b: Sequence[Node], merged: Sequence[Node]
    ) -> tuple[Reduction, dict[int, Body]]:
        """How row values of two states merge, with what those that have an axis of their own move by; their merging."""
        stream, own = self.stream, self.own
        plain = [k for k in range(len(a)) if k not in own]
        sides = {side for k in own for side in (a[k], b[k])}
        moving = frontier([merged[k] for k in own], lambda n: n in sides, [*a, *b])
        rows = [a[k] for k in plain] + [b[k] for k in plain]
        results = list(dict.fromkeys([merged[k] for k in plain] + moving))
        body = self.builder.body([x for x in rows if x.op == "state"], results, [*self.emitter.known(), *rows])
        use = Reduction(
            name,
            tuple(self.builder.value(b[k]) for k in plain),
            tuple(self.builder.value(a[k]) for k in plain),
            tuple(literal(stream.identity[k]) for k in plain),
            dataclasses.replace(body, results=self._in_order(body, results, [merged[k] for k in plain], moving)),
        )
        known = [*self.emitter.known(), *rows, *moving, *a, *b]
        return use, {k: self.builder.body((), [merged[k]], known) for k in own}

    def join(self) -> Body:
        """A tile's folds with those of all so far."""
        stream = self.stream
        joined = stream.combine_folds()
        before, tile = stream.state("a")[: len(joined)], stream.state("b")[: len(joined)]
        own = dict(zip(tile, self.emitter.tile))
        new = replace_nodes(joined, own)
        folded = replace_nodes([new[n] for n in joined], self.emitter.raised)
        results = [folded[new[n]] for n in joined]
        given = [lift.slots[0] if len(lift.slots) == 1 else None for lift in self.emitter.lifts[0]]
        known = [*self.emitter.known(), *before, *own.values(), *(n for n in given if n is not None)]
        return self.builder.body([], results, known)

    def rise(self) -> Body:
        """From where a tile is measured, of the references of all so far and the tile's folds, joined to theirs."""
        stream = self.stream
        before, tile = stream.state("a"), stream.state("b")
        own = dict(zip(tile, self.emitter.tile))
        results = [replace_nodes([n], own)[n] for n in stream.update_references()]
        return self.builder.body([], results, [*self.emitter.known(), *before, *own.values()])

    def _in_order(self, body: Body, results: list[Node], states: list[Node], moving: list[Node]) -> tuple[Value, ...]:
        """The merged state in its order, then the row values that weighings move by."""
        names = dict(zip(results, body.results))
        return tuple(names[n] for n in [*states, *moving])

    def _place(self, w: Weighted) -> int:
        """The number of the state of a weighted sum."""
        stream = self.stream
        return len(stream.identity) - len(stream.components) + stream.components.index(w.component)

    def _weighing(self, k: int, merge: Body, parts: Body | None) -> Weighing:
        w, stream, emitter = self.own[k], self.stream, self.emitter
        before, tile = stream.state("a")[k], stream.state("b")[k]
        return Weighing(
            emitter.axes.index(w.axis),
            self.builder.value(emitter.weights[w]),
            self.builder.body((), [w.right], emitter.known()),
            self.builder.value(before),
            (self.builder.value(before), self.builder.value(tile)),
            merge,
            self._kept(w),
            parts,
        )

    def _kept(self, w: Weighted) -> Body | None:
        """Which elements count, where a condition says it, and not an infinite score alone: 0 times NaN is NaN then."""
        kept = w.weight.kept()
        if kept is None or self._is_infinite_alone(kept):
            return None
        return self.builder.body((), [kept], self.emitter.leaves)

    def _is_infinite_alone(self, kept: Node) -> bool:
        """Whether elements count unless they are -inf, and no condition chooses what they are."""
        if kept.op != "not_equal" or kept.args[1].op != "const" or value_of(kept.args[1]) != float("-inf"):
            return False
        below = computed_nodes([kept], frozenset(self.emitter.leaves))
        return not any(n.op == "where" and not is_absence(n) for n in below)


def frontier(roots: Sequence[Node], varies: Callable[[Node], bool], given: Iterable[Node]) -> list[Node]:
    """The values that do not vary and that others which do are computed from; the roots themselves included."""
    own, given = dict.fromkeys(walk(roots), False), set(given)
    for n in walk(roots):
        own[n] = varies(n) or any(own[a] for a in n.args)
    ends = [n for n in roots if not own[n]] + [a for n in own if own[n] for a in n.args if not own[a]]
    return [n for n in dict.fromkeys(ends) if n.op != "const" and n not in given]
