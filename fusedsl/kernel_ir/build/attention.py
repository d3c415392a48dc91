"""The plan of a pass over scores: its products, a tile's elements, and the results, as bodies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ... import debug
from ...fusion.coordinates import Axis
from ...fusion.scalar_program import ScalarStore
from ...fusion.online.find_attention import Streaming
from ...ir.folds import FOLDS
from ...ir.graph import Node, node, rebuild
from ...rewrite.scalar_builder import free_axes, positive_factor, replace_nodes, scalar_op
from ...rewrite.online.online_reduction import TileReduction
from ...rewrite.online.printer import check, show
from ..phase import Body, Phase, Store
from ..plan import KernelPlan
from ..attention import Ending, Score, Stream
from .mask_inputs import computed, tile_inputs
from .hoisting import Leaves, early
from .fold_bodies import build_reduction
from .kernel_frame import position, stored
from .paged_operands import gather_of, gathered, places_of, weight_there
from .rematerialization import RECOMPUTE_BELOW, recompute_cost
from .attention_merge import StateCombiner, frontier
from .node_map import map_nodes, all_nodes
from .phases import PhaseBuilder
from .block_mask import Part, sieve


class AttentionBuilder(PhaseBuilder):
    """Writes the plan of a group that streams."""

    streaming: Streaming
    parts: list[Part]

    def plan(self, name: str, header: tuple[str, ...]) -> KernelPlan:
        check(self.streaming.fold)
        frame = self.frame(name, header)
        names = {(use.kind, use.index): use.name for use in frame.arrays}
        debug.say(debug.DECISIONS, "a pass over scores", show(self.streaming.fold, names))
        return dataclasses.replace(frame, stream=self._stream())

    # -- what is read

    def _row_axes(self) -> tuple[Axis, ...]:
        """The rows; where each has a stream of its own, each with an axis of one row, which a tile lies along."""
        assert self.group.attention is not None
        rows = self.group.rows
        self.lanes = self.group.attention.lanes or (Axis(1, 1 + max((a.tag for a in rows), default=0)),)
        return rows if self.group.attention.lanes else (*rows, *self.lanes)

    def _columns(self) -> tuple[Axis, ...]:
        assert self.group.attention is not None
        one = self.group.attention
        return tuple(dict.fromkeys((*self.group.columns, *one.own, *one.inner)))

    def _import(self) -> None:
        g, one = self.group, self.group.attention
        assert one is not None
        places = places_of(one)
        one, moved = gathered(one, places, [r.value for r in g.all_stores], g.imports)
        roots = [*one.folds, *one.values, *all_nodes(one), *places.nodes, *(moved[r.value] for r in g.all_stores)]
        new = rebuild(
            roots, lambda old, args: g.imports.get(old) or (node(old.op, args, old.attr, old.type) if args else old)
        )
        self.streaming, self.places_read = map_nodes(one, new.__getitem__), places.mapped(new)
        self.folds, self.cross = list(self.streaming.folds), []
        self.row_stores = [(r, stored(new[moved[r.value]], r)) for r in g.row_stores]
        self.own_stores = [(r, stored(new[moved[r.value]], r)) for r in g.value_axis_stores]
        self.stores = self.rank_stores = self.cross_stores = []
        self._state()

    def _state(self) -> None:
        """A tile's lifts, and what becomes of the state in the end."""
        stream = self.streaming.fold
        first, points, second, self.tile = stream.lift()
        slots = {stream.of_component(w.component, self.tile): w for w in self.streaming.weighted}
        kept = [[lift for lift in lifts if lift.slots[0] not in slots] for lifts in (first, second)]
        self.raised: dict[Node, Node] = {}
        self.lifts: tuple[list[TileReduction], list[TileReduction]] = (list(map(self._raw, kept[0])), kept[1])
        self.points = points
        weighted, places = self.streaming.weighted, self.places_read
        self.weights = {w: weight_there(w, stream.element(w.weight, self.tile), places) for w in weighted}
        done: dict[Node, Node] = {}
        for f, value in stream.finish:
            done[f] = replace_nodes([value], done)[value]
        values = [v for _, v in self.row_stores + self.own_stores]
        final = replace_nodes(values, done)
        self.row_stores = [(r, final[v]) for r, v in self.row_stores]
        self.own_stores = [(r, final[v]) for r, v in self.own_stores]

    def _raw(self, lift: TileReduction) -> TileReduction:
        """An extreme of products by a positive number is that number's product with the extreme."""
        factor, rest = positive_factor(lift.value)
        if not self.streaming.fold.running_reference or lift.fold not in ("max", "min") or factor is None:
            return lift
        (slot,) = lift.slots
        raw = node("state", (), ("raw", *slot.attr), slot.type)
        self.raised[slot] = scalar_op("multiply", raw, factor)
        return TileReduction(lift.fold, rest, (raw,))

    def _all_stores(self) -> list[tuple[ScalarStore, Node]]:
        return self.row_stores + self.own_stores

    def _roots(self) -> list[Node]:
        """What is computed, with scores as leaves: what they are made of is read by their products."""
        one = self.streaming
        found = [n for p in one.products for n in (p.left, p.right)] + [w.right for w in one.weighted]
        found += [lift.value for lifts in self.lifts for lift in lifts] + [*self.points, *self.weights.values()]
        found += [n for n in self.tile if n.op != "state"] + [v for _, v in self._all_stores()]
        found += [k for w in one.weighted if (k := w.weight.kept()) is not None] + self.places_read.nodes
        if any(FOLDS[f.attr[0]].positional for f in one.fold.folds):
            found.append(position(one.fold.stream[0]))
        self.values = found
        leaves = {p.fold: node("score", (), k, p.fold.type) for k, p in enumerate(one.products)}
        return list(replace_nodes(found, leaves).values())

    # -- the pass

    def _stream(self) -> Stream:
        one = self.streaming
        self.free = self.free | free_axes(self.values)
        self.inputs = tile_inputs(self)
        self._name_inputs()
        scores = tuple(self._score(k) for k in range(len(one.products)))
        tile = self._tile()
        merging = StateCombiner(self)
        state, weighings, parts = merging.states()
        row, endings = self._ending(merging)
        row_stores = tuple(Store(self.builder.names[v], self.places[r]) for r, v in self.row_stores)
        lanes = tuple(self.axes.index(a) for a in self.lanes)
        asked, told = sieve(self, self.parts)
        read = tuple(tuple(self.builder.body((), [n], self.known()) for n in found) for found in self.inputs)
        join, rise = (merging.join(), merging.rise()) if one.fold.running_reference else (None, None)
        inputs, row_inputs = read
        found = (lanes, scores, tile, state, weighings, row, row_stores, endings, asked)
        return Stream(*found, inputs, row_inputs, join, rise, parts, gather_of(self), told)

    def _name_inputs(self) -> None:
        for n in (*self.inputs[0], *self.inputs[1]):
            self.builder.name(n, "read" if n.op in ("load", "fetch") else "drawn", self.builder.comment(n))
        for n in self.places_read.there:
            self.builder.name(n, "there", "there")

    def _score(self, k: int) -> Score:
        p = self.streaming.products[k]
        value = self.builder.name(p.fold, "score", "score")
        left, right = (self.builder.body((), [n], self.known()) for n in (p.left, p.right))
        return Score(value, self.axes.index(p.axis), left, right)

    def _tile(self) -> tuple[Phase, ...]:
        """Folds over a tile, row values between them, folds measured from these, and weights."""
        first, second = self.lifts
        for lift in (*first, *second):
            for slot in lift.slots:
                self.builder.name(slot, f"tile_{lift.fold}", lift.fold)
        for slot in self.raised:
            self.builder.name(slot, "raised", "raised")
        slots = [*(slot for lift in first for slot in lift.slots), *self.raised]
        known = self.leaves
        weights = list(self.weights.values())
        self.parts = []
        made = self._early([*(lift.value for lift in (*first, *second)), *weights])
        if made is not None:
            self.parts.append(((), [made], known, self.elements((), [made], known)))
            known = [*known, made]
        if not second and not self.points:
            self.parts.append((first, weights, known, self.elements(first, weights, known)))
            return self._phases()
        masked = [x.value for x in first if x.slots[0] not in self.tile and x.value.op == "where"]
        held = masked + self._held_between(
            [lift.value for lift in first], [*(x.value for x in second), *weights], known
        )
        before = self.elements(first, held, known)
        measured = {slot for lift in second for slot in lift.slots} | set(slots) | set(self._own_slots())
        wanted = [n for n in dict.fromkeys([*self.points, *self.tile]) if n not in measured and n not in known]
        row = self.builder.body((), wanted, [*known, *slots]) if wanted else None
        before = dataclasses.replace(before, row=row)
        later = [*known, *held, *slots, *wanted]
        folded = [x.value for x in second]
        apart = [n for n in weights if n not in folded]  # made once the folds are: registers hold one of both
        if not folded or not apart:
            after = self.elements(second, weights, later)
            self.parts += [(first, held, known, before), (second, weights, later, after)]
            return self._phases()
        reused = [n for n in computed(apart, set(later)) if n in folded]
        left = list(dict.fromkeys([*reused, *(n for n in weights if n in folded)]))
        after = self.elements(second, left, later)
        last = self.elements((), apart, [*later, *reused])
        self.parts += [(first, held, known, before), (second, left, later, after)]
        self.parts.append(((), apart, [*later, *reused], last))
        return self._phases()

    def _phases(self) -> tuple[Phase, ...]:
        return tuple(phase for *_, phase in self.parts)

    def _early(self, roots: Sequence[Node]) -> Node | None:
        """What is computed of a tile's elements before anything else."""
        one = self.streaming
        scores = frozenset(p.fold for p in one.products)
        known = frozenset(self.leaves) - scores
        return early(roots, Leaves(scores, known, self.free, frozenset(one.fold.stream), frozenset(self.lanes)))

    @property
    def leaves(self) -> list[Node]:
        """What a tile's elements are computed of: what is fetched and drawn for them, and their scores, among these."""
        scores = [p.fold for p in self.streaming.products]
        return [*dict.fromkeys([*self.known(), *self.inputs[0], *self.inputs[1], *self.places_read.there]), *scores]

    def _own_slots(self) -> list[Node]:
        stream = self.streaming.fold
        return [stream.of_component(w.component, self.tile) for w in self.streaming.weighted]

    def _held_between(self, before: list[Node], after: list[Node], known: list[Node]) -> list[Node]:
        """Element values of the first phase that the second reads and that are dear to compute again: so are those made
        of what was read, which then need not be held beside them."""
        stop, stream, read_before = set(known), self.streaming.fold.stream[0], set(self.inputs[0])
        early = set(computed(before, stop))
        late = computed(after, stop)
        both = [n for n in late if n in early and stream in self.free.get(n, ())]
        dear = [n for n in both if recompute_cost(n, stop) >= RECOMPUTE_BELOW or not read_before.isdisjoint(n.args)]
        dear += [n for n in both if n in before and n not in dear and self._stands_for_scores(n, after, known)]
        read = {a for n in late if n not in dear for a in n.args} | set(after)
        return [n for n in dear if n in read]

    def _stands_for_scores(self, n: Node, after: list[Node], known: list[Node]) -> bool:
        """Whether scores are read through this value alone: registers that held them hold it."""
        scores = {p.fold for p in self.streaming.products}
        rest = [m for m in known if m not in scores]
        return self.streaming.fold.running_reference and scores.isdisjoint(computed(after, {*rest, n}))

    def elements(self, lifts: Sequence[TileReduction], others: Sequence[Node], known: Sequence[Node]) -> Phase:
        """Folds over a tile's elements, and other values of theirs."""
        lifted = [self.lifted(lift.fold, lift.value) for lift in lifts]
        results = list(dict.fromkeys([*(x for state in lifted for x in state), *others]))
        body = self.builder.body((), results, known)
        names = {n: value.name for n, value in zip(results, body.results)}
        self.builder.names |= {n: names[n] for n in others if n.op == "const"}  # a weight that all elements have
        uses = []
        for lift, state in zip(lifts, lifted):
            states = tuple(map(self.builder.value, lift.slots))
            uses.append(build_reduction(lift.fold, lift.value.type.dtype.compute, [names[x] for x in state], states))
        return Phase(body, (), tuple(uses))

    # -- results

    def _ending(self, merging: StateCombiner) -> tuple[Body | None, tuple[Ending, ...]]:
        stream, one = self.streaming.fold, self.streaming
        whole = stream.state()
        own_state = {whole[k] for k in merging.own}
        axes = set(one.own)

        def varies(n: Node) -> bool:
            return n in own_state or (n.op in ("load", "position") and bool(self.free.get(n, frozenset()) & axes))

        values = [v for _, v in self.own_stores]
        given = [*self.known(), *whole]
        rows = frontier(values, varies, given)
        wanted = [n for n in dict.fromkeys([*(v for _, v in self.row_stores), *rows]) if n not in given]
        row = None
        if wanted:
            row = self.builder.body((), wanted, given)
            for n, value in zip(wanted, row.results):
                self.builder.names[n] = value.name
        known, found = [*given, *wanted], []
        for axis in one.own:
            stores = [(r, v) for r, v in self.own_stores if axis in r.axes]
            if stores:
                results = list(dict.fromkeys(v for _, v in stores))
                body = self.builder.body((), results, known)
                names = {n: value.name for n, value in zip(results, body.results)}
                made = tuple(Store(names[v], self.places[r]) for r, v in stores)
                found.append(Ending(self.axes.index(axis), body, made))
        return row, tuple(found)
