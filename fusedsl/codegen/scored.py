"""The plan of a pass over scores: its products, a tile's elements, how tiles merge, and the results, as bodies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from .. import debug
from ..fusion.coordinates import Axis
from ..fusion.lower import Root
from ..fusion.streams import Product, Streaming, Weighted
from ..ir.folds import FOLDS
from ..ir.graph import Node, node, rebuild, walk
from ..ir.types import BOOL
from ..rewrite.components import Component, Exponent, Reference
from ..rewrite.scalars import free_axes, positive_factor, scalar_op
from ..rewrite.stream import Lift, StreamFold
from ..rewrite.stream_text import check, show
from ..schedule.kernel import Body, Ending, FoldUse, Phase, Score, Store, Stream, Value, Weighing
from ..schedule.plan import KernelPlan
from .body import literal
from .folding import fold_use
from .frame import position, stored
from .holding import WORTH_HOLDING, dearness
from .phases import PhaseEmitter
from .sieve import Part, sieve
from .streamed import replaced

DEAR = 20  # instructions of a condition that is worth a loop of its own
PARTS = (Streaming, Product, Weighted, StreamFold, Component, Exponent, Reference)


class ScoreEmitter(PhaseEmitter):
    """Writes the plan of a group that streams."""

    streaming: Streaming
    parts: list[Part]

    def plan(self, name: str, header: tuple[str, ...]) -> KernelPlan:
        check(self.streaming.fold)
        debug.say(debug.DECISIONS, "a pass over scores", show(self.streaming.fold))
        frame = self.frame(name, header)
        return dataclasses.replace(frame, stream=self._stream())

    # -- what is read

    def _row_axes(self) -> tuple[Axis, ...]:
        """The rows; where each has a stream of its own, each with an axis of one row, which a tile lies along."""
        assert self.group.streaming is not None
        rows = self.group.rows
        self.lanes = self.group.streaming.lanes or (Axis(1, 1 + max((a.tag for a in rows), default=0)),)
        return rows if self.group.streaming.lanes else (*rows, *self.lanes)

    def _columns(self) -> tuple[Axis, ...]:
        assert self.group.streaming is not None
        one = self.group.streaming
        return tuple(dict.fromkeys((*self.group.columns, *one.own, *one.inner)))

    def _import(self) -> None:
        g, one = self.group, self.group.streaming
        assert one is not None
        roots = [*one.folds, *one.values, *_nodes(one), *(r.value for r in g.all_stores)]
        new = rebuild(
            roots, lambda old, args: g.imports.get(old) or (node(old.op, args, old.attr, old.type) if args else old)
        )
        self.streaming = _mapped(one, new.__getitem__)
        self.folds, self.cross = list(self.streaming.folds), []
        self.row_stores = [(r, stored(new[r.value], r)) for r in g.row_stores]
        self.own_stores = [(r, stored(new[r.value], r)) for r in g.own_stores]
        self.stores = self.rank_stores = self.cross_stores = []
        self._state()

    def _state(self) -> None:
        """A tile's lifts, and what becomes of the state in the end."""
        stream = self.streaming.fold
        first, points, second, self.tile = stream.lift()
        slots = {stream.of_component(w.component, self.tile): w for w in self.streaming.weighted}
        kept = [[lift for lift in lifts if lift.slots[0] not in slots] for lifts in (first, second)]
        self.raised: dict[Node, Node] = {}
        self.lifts: tuple[list[Lift], list[Lift]] = (list(map(self._raw, kept[0])), kept[1])
        self.points = points
        self.weights = {w: stream.element(w.weight, self.tile) for w in self.streaming.weighted}
        done: dict[Node, Node] = {}
        for f, value in stream.finish:
            done[f] = replaced([value], done)[value]
        values = [v for _, v in self.row_stores + self.own_stores]
        final = replaced(values, done)
        self.row_stores = [(r, final[v]) for r, v in self.row_stores]
        self.own_stores = [(r, final[v]) for r, v in self.own_stores]

    def _raw(self, lift: Lift) -> Lift:
        """An extreme of products by a positive number is that number's product with the extreme."""
        factor, rest = positive_factor(lift.value)
        if not self.streaming.fold.level or lift.fold not in ("max", "min") or factor is None:
            return lift
        (slot,) = lift.slots
        raw = node("state", (), ("raw", *slot.attr), slot.type)
        self.raised[slot] = scalar_op("multiply", raw, factor)
        return Lift(lift.fold, rest, (raw,))

    def _all_stores(self) -> list[tuple[Root, Node]]:
        return self.row_stores + self.own_stores

    def _roots(self) -> list[Node]:
        """What is computed, with scores as leaves: what they are made of is read by their products."""
        one = self.streaming
        found = [n for p in one.products for n in (p.left, p.right)] + [w.right for w in one.weighted]
        found += [lift.value for lifts in self.lifts for lift in lifts] + [*self.points, *self.weights.values()]
        found += [n for n in self.tile if n.op != "state"] + [v for _, v in self._all_stores()]
        found += [k for w in one.weighted if (k := w.weight.kept()) is not None]
        if any(FOLDS[f.attr[0]].positional for f in one.fold.folds):
            found.append(position(one.fold.stream[0]))
        self.values = found
        leaves = {p.fold: node("score", (), k, p.fold.type) for k, p in enumerate(one.products)}
        return list(replaced(found, leaves).values())

    # -- the pass

    def _stream(self) -> Stream:
        one = self.streaming
        self.free = self.free | free_axes(self.values)
        self._name_inputs()
        scores = tuple(self._score(k) for k in range(len(one.products)))
        tile = self._tile()
        state, weighings, parts = self._merging()
        row, endings = self._ending()
        row_stores = tuple(Store(self.scribe.names[v], self.places[r]) for r, v in self.row_stores)
        lanes = tuple(self.axes.index(a) for a in self.lanes)
        asked = sieve(self, self.parts)
        read = tuple(tuple(self.scribe.body((), [n], self.known()) for n in found) for found in self.inputs)
        join, rise = (self._join(), self._rise()) if one.fold.level else (None, None)
        inputs, row_inputs = read
        found = (lanes, scores, tile, state, weighings, row, row_stores, endings, asked)
        return Stream(*found, inputs, row_inputs, join, rise, parts)

    def _name_inputs(self) -> None:
        for n in (*self.inputs[0], *self.inputs[1]):
            self.scribe.name(n, "read" if n.op in ("load", "fetch") else "drawn", self.scribe.comment(n))

    def _score(self, k: int) -> Score:
        p = self.streaming.products[k]
        value = self.scribe.name(p.fold, "score", "score")
        left, right = (self.scribe.body((), [n], self.known()) for n in (p.left, p.right))
        return Score(value, self.axes.index(p.axis), left, right)

    def _tile(self) -> tuple[Phase, ...]:
        """Folds over a tile, row values between them, folds measured from these, and weights."""
        first, second = self.lifts
        for lift in (*first, *second):
            for slot in lift.slots:
                self.scribe.name(slot, f"tile_{lift.fold}", lift.fold)
        for slot in self.raised:
            self.scribe.name(slot, "raised", "raised")
        slots = [*(slot for lift in first for slot in lift.slots), *self.raised]
        known = [*self.elements_know, *(p.fold for p in self.streaming.products)]
        weights = list(self.weights.values())
        if not second and not self.points:
            only = self.elements(first, weights, known)
            self.parts = [(first, weights, known, only)]
            return (only,)
        masked = [x.value for x in first if x.slots[0] not in self.tile and x.value.op == "where"]
        held = masked + self._held_between(
            [lift.value for lift in first], [*(x.value for x in second), *weights], known
        )
        before = self.elements(first, held, known)
        measured = {slot for lift in second for slot in lift.slots} | set(slots) | set(self._own_slots())
        wanted = [n for n in dict.fromkeys([*self.points, *self.tile]) if n not in measured and n not in known]
        row = self.scribe.body((), wanted, [*known, *slots]) if wanted else None
        before = dataclasses.replace(before, row=row)
        later = [*known, *held, *slots, *wanted]
        folded = [x.value for x in second]
        apart = [n for n in weights if n not in folded]  # made once the folds are: registers hold one of both
        if not folded or not apart:
            after = self.elements(second, weights, later)
            self.parts = [(first, held, known, before), (second, weights, later, after)]
            return before, after
        reused = [n for n in _computed(apart, set(later)) if n in folded]
        after = self.elements(second, [n for n in weights if n in folded], later)
        last = self.elements((), apart, [*later, *reused])
        self.parts = [(first, held, known, before), (second, reused, later, after)]
        self.parts.append(((), apart, [*later, *reused], last))
        return before, after, last

    @property
    def elements_know(self) -> list[Node]:
        """The leaves of a tile's elements: what is fetched for them among these."""
        return list(dict.fromkeys([*self.known(), *self.inputs[0], *self.inputs[1]]))

    @cached_property
    def inputs(self) -> tuple[list[Node], list[Node]]:
        """What a tile's elements read of memory at a place of theirs, or is drawn for them, and what at a row's."""
        stream, lanes = set(self.streaming.fold.stream), set(self.lanes)
        lifts = [lift.value for lifts in self.lifts for lift in lifts]
        conditions = [k for w in self.streaming.weighted if (k := w.weight.kept()) is not None]
        ends = {p.fold for p in self.streaming.products}
        roots = [*lifts, *self.weights.values(), *conditions]
        found = [n for n in _computed(roots, ends) if n.op in ("load", "fetch")]
        varying = [n for n in found if self.free[n] & lanes]
        elements = [n for n in varying if self.free[n] & stream]
        return elements + self._drawn(roots, ends), [n for n in varying if not self.free[n] & stream]

    def _drawn(self, roots: list[Node], scores: set[Node]) -> list[Node]:
        """Dear conditions of places alone, as that a weight is dropped: a bit of each is held, while what they are
        computed of would fill registers."""
        stream, lanes, found = set(self.streaming.fold.stream), set(self.lanes), []
        stack, seen = list(roots), set(scores)
        while stack:
            n = stack.pop()
            if n in seen or n.op == "const":
                continue
            seen.add(n)
            axes = self.free.get(n, frozenset())
            if n.type.dtype is BOOL and axes & stream and axes & lanes and dearness(n, set(self.known())) >= DEAR:
                below = _computed([n], set())
                read = [m for m in below if m.op in ("load", "fetch") and self.free[m] & stream]
                if not read and scores.isdisjoint(below):
                    found.append(n)
                    continue
            stack += n.args
        return found

    def _own_slots(self) -> list[Node]:
        stream = self.streaming.fold
        return [stream.of_component(w.component, self.tile) for w in self.streaming.weighted]

    def _held_between(self, before: list[Node], after: list[Node], known: list[Node]) -> list[Node]:
        """Element values of the first phase that the second reads and that are dear to compute again: so are those made
        of what was read, which then need not be held beside them."""
        stop, stream, read_before = set(known), self.streaming.fold.stream[0], set(self.inputs[0])
        early = set(_computed(before, stop))
        late = _computed(after, stop)
        both = [n for n in late if n in early and stream in self.free.get(n, ())]
        dear = [n for n in both if dearness(n, stop) >= WORTH_HOLDING or not read_before.isdisjoint(n.args)]
        read = {a for n in late if n not in dear for a in n.args} | set(after)
        return [n for n in dear if n in read]

    def elements(self, lifts: Sequence[Lift], others: Sequence[Node], known: Sequence[Node]) -> Phase:
        """Folds over a tile's elements, and other values of theirs."""
        lifted = [self.lifted(lift.fold, lift.value) for lift in lifts]
        results = list(dict.fromkeys([*(x for state in lifted for x in state), *others]))
        body = self.scribe.body((), results, known)
        names = {n: value.name for n, value in zip(results, body.results)}
        uses = []
        for lift, state in zip(lifts, lifted):
            states = tuple(map(self.scribe.value, lift.slots))
            uses.append(fold_use(lift.fold, lift.value.type.dtype.compute, [names[x] for x in state], states))
        return Phase(body, (), tuple(uses))

    # -- merging tiles

    def _merging(self) -> tuple[FoldUse, tuple[Weighing, ...], FoldUse | None]:
        """How the state takes up a tile, and where tiles are level with it, how it takes up another state."""
        stream = self.streaming.fold
        a, b, whole = stream.state("a"), stream.state("b"), stream.state()
        own = self._own_places
        for k, (before, tile, after) in enumerate(zip(a, b, whole)):
            self.scribe.name(before, "weighed" if k in own else "stream", f"state {k}")
            if k in own:
                self.scribe.name(tile, "tile_weighed", f"state {k} of the tile")
            else:
                self.scribe.rename(tile, self.tile[k])
            self.scribe.rename(after, before)
        merged = list(stream.merge())
        if stream.level:
            for k, w in own.items():
                merged[k] = stream.moved(w.component)
        use, bodies = self._sides("stream", a, b, merged)
        if not stream.level:
            return use, tuple(self._weighing(k, bodies[k], None) for k in own), None
        other = stream.state("part")
        for k, n in enumerate(other):
            self.scribe.name(n, "part_weighed" if k in own else "part", f"state {k} of a part")
        parts, moving = self._sides("parts", a, other, dataclasses.replace(stream, level=False).merge("part"))
        return use, tuple(self._weighing(k, bodies[k], moving[k]) for k in own), parts

    @cached_property
    def _own_places(self) -> dict[int, Weighted]:
        """The states with an axis of their own, by their number."""
        one = self.streaming
        return {k: w for k in range(len(one.fold.identity)) for w in one.weighted if self._place(w) == k}

    def _sides(
        self, name: str, a: Sequence[Node], b: Sequence[Node], merged: Sequence[Node]
    ) -> tuple[FoldUse, dict[int, Body]]:
        """How row values of two states merge, with what those that have an axis of their own move by; their merging."""
        stream, own = self.streaming.fold, self._own_places
        plain = [k for k in range(len(a)) if k not in own]
        sides = {side for k in own for side in (a[k], b[k])}
        moving = _frontier([merged[k] for k in own], lambda n: n in sides, [*a, *b])
        rows = [a[k] for k in plain] + [b[k] for k in plain]
        results = list(dict.fromkeys([merged[k] for k in plain] + moving))
        body = self.scribe.body([x for x in rows if x.op == "state"], results, [*self.known(), *rows])
        use = FoldUse(
            name,
            tuple(self.scribe.value(b[k]) for k in plain),
            tuple(self.scribe.value(a[k]) for k in plain),
            tuple(literal(stream.identity[k]) for k in plain),
            dataclasses.replace(body, results=self._in_order(body, results, [merged[k] for k in plain], moving)),
        )
        known = [*self.known(), *rows, *moving, *a, *b]
        return use, {k: self.scribe.body((), [merged[k]], known) for k in own}

    def _join(self) -> Body:
        """A tile's folds with those of all so far."""
        stream = self.streaming.fold
        joined = stream.joined()
        before, tile = stream.state("a")[: len(joined)], stream.state("b")[: len(joined)]
        own = dict(zip(tile, self.tile))
        new = replaced(joined, own)
        folded = replaced([new[n] for n in joined], self.raised)
        results = [folded[new[n]] for n in joined]
        given = [lift.slots[0] if len(lift.slots) == 1 else None for lift in self.lifts[0]]
        known = [*self.known(), *before, *own.values(), *(n for n in given if n is not None)]
        return self.scribe.body([], results, known)

    def _rise(self) -> Body:
        """From where a tile is measured, of the references of all so far and the tile's folds, joined to theirs."""
        stream = self.streaming.fold
        before, tile = stream.state("a"), stream.state("b")
        own = dict(zip(tile, self.tile))
        results = [replaced([n], own)[n] for n in stream.risen()]
        return self.scribe.body([], results, [*self.known(), *before, *own.values()])

    def _in_order(self, body: Body, results: list[Node], states: list[Node], moving: list[Node]) -> tuple[Value, ...]:
        """The merged state in its order, then the row values that weighings move by."""
        names = dict(zip(results, body.results))
        return tuple(names[n] for n in [*states, *moving])

    def _place(self, w: Weighted) -> int:
        stream = self.streaming.fold
        return len(stream.identity) - len(stream.components) + stream.components.index(w.component)

    def _weighing(self, k: int, merge: Body, parts: Body | None) -> Weighing:
        w, stream = self._own_places[k], self.streaming.fold
        before, tile = stream.state("a")[k], stream.state("b")[k]
        kept = w.weight.kept()
        elements = [*self.elements_know, *(p.fold for p in self.streaming.products)]
        return Weighing(
            self.axes.index(w.axis),
            self.scribe.value(self.weights[w]),
            self.scribe.body((), [w.right], self.known()),
            self.scribe.value(before),
            (self.scribe.value(before), self.scribe.value(tile)),
            merge,
            None if kept is None else self.scribe.body((), [kept], elements),
            parts,
        )

    # -- results

    def _ending(self) -> tuple[Body | None, tuple[Ending, ...]]:
        stream, one = self.streaming.fold, self.streaming
        whole = stream.state()
        own_state = {whole[self._place(w)] for w in one.weighted}
        axes = set(one.own)

        def varies(n: Node) -> bool:
            return n in own_state or (n.op in ("load", "position") and bool(self.free.get(n, frozenset()) & axes))

        values = [v for _, v in self.own_stores]
        given = [*self.known(), *whole]
        rows = _frontier(values, varies, given)
        wanted = [n for n in dict.fromkeys([*(v for _, v in self.row_stores), *rows]) if n not in given]
        row = None
        if wanted:
            row = self.scribe.body((), wanted, given)
            for n, value in zip(wanted, row.results):
                self.scribe.names[n] = value.name
        known, found = [*given, *wanted], []
        for axis in one.own:
            stores = [(r, v) for r, v in self.own_stores if axis in r.axes]
            if stores:
                results = list(dict.fromkeys(v for _, v in stores))
                body = self.scribe.body((), results, known)
                names = {n: value.name for n, value in zip(results, body.results)}
                made = tuple(Store(names[v], self.places[r]) for r, v in stores)
                found.append(Ending(self.axes.index(axis), body, made))
        return row, tuple(found)


def _nodes(one: Streaming) -> list[Node]:
    """Every node that stands in a pass."""
    found: list[Node] = []

    def collect(n: Node) -> Node:
        found.append(n)
        return n

    _mapped(one, collect)
    return found


def _mapped(x: Any, change: Callable[[Node], Node]) -> Any:
    """Frozen data with its nodes replaced."""
    if isinstance(x, Node):
        return change(x)
    if isinstance(x, tuple):
        return tuple(_mapped(part, change) for part in x)
    if isinstance(x, PARTS):
        return dataclasses.replace(x, **{f.name: _mapped(getattr(x, f.name), change) for f in dataclasses.fields(x)})
    return x


def _computed(roots: Iterable[Node], stop: set[Node]) -> list[Node]:
    found: dict[Node, None] = {}
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n not in found and n not in stop and n.op != "const":
            found[n] = None
            stack += n.args
    return list(found)


def _frontier(roots: Sequence[Node], varies: Callable[[Node], bool], given: Iterable[Node]) -> list[Node]:
    """The values that do not vary and that others which do are computed from; the roots themselves included."""
    own, given = dict.fromkeys(walk(roots), False), set(given)
    for n in walk(roots):
        own[n] = varies(n) or any(own[a] for a in n.args)
    ends = [n for n in roots if not own[n]] + [a for n in own if own[n] for a in n.args if not own[a]]
    return [n for n in dict.fromkeys(ends) if n.op != "const" and n not in given]
