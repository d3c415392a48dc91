"""Builds the kernel plan of an attention pattern: score products, softmax phases of a key tile, output epilogues."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ... import debug
from ...ir.graph import Node
from ...rewrite.online.printer import check, show
from ...rewrite.scalar_builder import free_axes
from ..attention import AttentionBody, OutputEpilogue, PagedOperands, PagedRow, Score
from ..phase import Body, Phase, Store
from ..plan import KernelPlan
from .attention_frame import AttentionFrame
from .attention_merge import StateCombiner, live_ins
from .block_mask import PhaseNodes, block_mask
from .hoisting import TileLeaves, hoistable
from .mask_inputs import computed, mask_inputs
from .paged_operands import PagedLoad, PagedLoads
from .rematerialization import RECOMPUTE_BELOW, recompute_cost


class AttentionBuilder(AttentionFrame):
    """Builds the plan of a group with an attention pattern."""

    phase_nodes: list[PhaseNodes]

    def plan(self, name: str, header: tuple[str, ...]) -> KernelPlan:
        check(self.pattern.reduction)
        frame = self.frame(name, header)
        names: dict[tuple[str, int], str] = {(use.kind, use.index): use.name for use in frame.arrays}
        debug.say(debug.DECISIONS, "attention", show(self.pattern.reduction, names))
        return dataclasses.replace(frame, attention=self._attention_body())

    # -- attention body

    def _attention_body(self) -> AttentionBody:
        pattern = self.pattern
        self.free = self.free | free_axes(self.values)
        self.inputs = mask_inputs(self)
        self._name_inputs()
        scores = tuple(self._score(k) for k in range(len(pattern.score_products)))
        tile = self._tile()
        merging = StateCombiner(self)
        state, weighings, parts = merging.states()
        row, endings = self._epilogue(merging)
        row_stores = tuple(Store(self.builder.names[v], self.stored_at[r]) for r, v in self.row_stores)
        lanes = tuple(self.axes.index(a) for a in self.query_axes)
        mask, mask_words = block_mask(self, self.phase_nodes)
        read = tuple(tuple(self.builder.body((), [n], self.known()) for n in nodes) for nodes in self.inputs)
        runs = pattern.reduction.running_reference
        join, rise = (merging.update_row_max(), merging.choose_reference()) if runs else (None, None)
        inputs, row_inputs = read
        fields = (lanes, scores, tile, state, weighings, row, row_stores, endings, mask)
        return AttentionBody(*fields, inputs, row_inputs, join, rise, parts, self._paged_operands(), mask_words)

    def _name_inputs(self) -> None:
        for n in (*self.inputs[0], *self.inputs[1]):
            self.builder.name(n, "read" if n.op in ("load", "fetch") else "mask", self.builder.comment(n))
        for n in self.paged.valid:
            self.builder.name(n, "has_page", "has page")

    def _score(self, k: int) -> Score:
        p = self.pattern.score_products[k]
        value = self.builder.name(p.fold, "score", "score")
        left, right = (self.builder.body((), [n], self.known()) for n in (p.q, p.k))
        return Score(value, self.axes.index(p.axis), left, right)

    def _tile(self) -> tuple[Phase, ...]:
        """Phases of a tile: first reductions (row maximum), row values, second reductions (sums), and p."""
        first, second = self.lifts
        for lift in (*first, *second):
            for slot in lift.slots:
                self.builder.name(slot, f"tile_{lift.fold}", lift.fold)
        for slot in self.scaled_extrema:
            self.builder.name(slot, "reference", "reference")
        slots = [*(slot for lift in first for slot in lift.slots), *self.scaled_extrema]
        known = self.leaves
        weights = list(self.weights.values())
        self.phase_nodes = []
        hoisted = self._hoistable([*(lift.value for lift in (*first, *second)), *weights])
        if hoisted is not None:
            self.phase_nodes.append(((), [hoisted], known, self.elements((), [hoisted], known)))
            known = [*known, hoisted]
        if not second and not self.points:
            self.phase_nodes.append((first, weights, known, self.elements(first, weights, known)))
            return self._phases()
        masked = [x.value for x in first if x.slots[0] not in self.tile_state and x.value.op == "where"]
        held = masked + self._held_between([x.value for x in first], [*(x.value for x in second), *weights], known)
        before = self.elements(first, held, known)
        measured = {slot for lift in second for slot in lift.slots} | set(slots) | set(self._output_slots())
        wanted = [n for n in dict.fromkeys([*self.points, *self.tile_state]) if n not in measured and n not in known]
        row = self.builder.body((), wanted, [*known, *slots]) if wanted else None
        before = dataclasses.replace(before, row=row)
        later = [*known, *held, *slots, *wanted]
        folded = [x.value for x in second]
        unfolded = [n for n in weights if n not in folded]  # after the reductions: registers hold one of both
        if not folded or not unfolded:
            after = self.elements(second, weights, later)
            self.phase_nodes += [(first, held, known, before), (second, weights, later, after)]
            return self._phases()
        reused = [n for n in computed(unfolded, set(later)) if n in folded]
        left = list(dict.fromkeys([*reused, *(n for n in weights if n in folded)]))
        after = self.elements(second, left, later)
        last = self.elements((), unfolded, [*later, *reused])
        self.phase_nodes += [(first, held, known, before), (second, left, later, after)]
        self.phase_nodes.append(((), unfolded, [*later, *reused], last))
        return self._phases()

    def _phases(self) -> tuple[Phase, ...]:
        return tuple(phase for *_, phase in self.phase_nodes)

    def _hoistable(self, roots: Sequence[Node]) -> Node | None:
        """The element value that is computed before tiles branch into masked and unmasked."""
        pattern = self.pattern
        scores = frozenset(p.fold for p in pattern.score_products)
        known = frozenset(self.leaves) - scores
        return hoistable(
            roots, TileLeaves(scores, known, self.free, frozenset(pattern.reduction.axes), frozenset(self.query_axes))
        )

    def _output_slots(self) -> list[Node]:
        online = self.pattern.reduction
        return [online.of_component(w.component, self.tile_state) for w in self.pattern.value_products]

    def _held_between(self, before: list[Node], after: list[Node], known: list[Node]) -> list[Node]:
        """Element values that the first phase passes to the second: those that cost more to recompute than a register,
        and those made of loads, which then need no register of their own."""
        stop, kv_axis, read_before = set(known), self.pattern.reduction.axes[0], set(self.inputs[0])
        early = set(computed(before, stop))
        late = computed(after, stop)
        both = [n for n in late if n in early and kv_axis in self.free.get(n, ())]
        expensive = [
            n for n in both if recompute_cost(n, stop) >= RECOMPUTE_BELOW or not read_before.isdisjoint(n.args)
        ]
        expensive += [
            n for n in both if n in before and n not in expensive and self._stands_for_scores(n, after, known)
        ]
        read = {a for n in late if n not in expensive for a in n.args} | set(after)
        return [n for n in expensive if n in read]

    def _stands_for_scores(self, n: Node, after: list[Node], known: list[Node]) -> bool:
        """True if later phases read scores through this value alone: it is stored in the registers of the scores."""
        scores = {p.fold for p in self.pattern.score_products}
        rest = [m for m in known if m not in scores]
        return self.pattern.reduction.running_reference and scores.isdisjoint(computed(after, {*rest, n}))

    def _paged_operands(self) -> PagedOperands | None:
        """The body that computes addresses, predicates and validity of paged rows; None without paged operands."""
        loads, builder = self.paged, self.builder
        if loads == PagedLoads():
            return None
        results = [n for load in (loads.k, loads.v) if load for n in (load.address, load.predicate)]
        results = list(dict.fromkeys([*results, *loads.valid]))
        body = builder.body((), results, self.known())
        values = dict(zip(results, body.results))

        def line(load: PagedLoad | None) -> PagedRow | None:
            if load is None:
                return None
            number = next(k for k, p in enumerate(self.pointers) if p.attr[0] == load.fetch.attr[0])
            return PagedRow(len(self.loads) + number, load.inner_axis, values[load.address], values[load.predicate])

        return PagedOperands(body, line(loads.k), line(loads.v), tuple(values[n] for n in loads.valid))

    # -- results

    def _epilogue(self, merging: StateCombiner) -> tuple[Body | None, tuple[OutputEpilogue, ...]]:
        online, pattern = self.pattern.reduction, self.pattern
        whole = online.state()
        own_state = {whole[k] for k in merging.outputs}
        axes = set(pattern.value_axes)

        def varies(n: Node) -> bool:
            return n in own_state or (n.op in ("load", "position") and bool(self.free.get(n, frozenset()) & axes))

        values = [v for _, v in self.own_stores]
        given = [*self.known(), *whole]
        rows = live_ins(values, varies, given)
        wanted = [n for n in dict.fromkeys([*(v for _, v in self.row_stores), *rows]) if n not in given]
        row = None
        if wanted:
            row = self.builder.body((), wanted, given)
            for n, value in zip(wanted, row.results):
                self.builder.names[n] = value.name
        known, epilogues = [*given, *wanted], []
        for axis in pattern.value_axes:
            stores = [(r, v) for r, v in self.own_stores if axis in r.axes]
            if stores:
                results = list(dict.fromkeys(v for _, v in stores))
                body = self.builder.body((), results, known)
                names = {n: value.name for n, value in zip(results, body.results)}
                output_stores = tuple(Store(names[v], self.stored_at[r]) for r, v in stores)
                epilogues.append(OutputEpilogue(self.axes.index(axis), body, output_stores))
        return row, tuple(epilogues)
