"""The state of an attention pattern while its plan is built: score products, lifts, the tile's state, its inputs."""

from __future__ import annotations

from collections.abc import Sequence

from ...fusion.coordinates import Axis
from ...fusion.online.find_attention import AttentionPattern
from ...fusion.scalar_program import ScalarStore
from ...ir.folds import FOLDS
from ...ir.graph import Node, node, rebuild
from ...rewrite.online.online_reduction import TileReduction
from ...rewrite.scalar_builder import positive_factor, replace_nodes, scalar_op
from ..phase import Phase
from .fold_bodies import build_reduction
from .kernel_frame import position, stored
from .node_map import all_nodes, map_nodes
from .paged_operands import find_paged_loads, weight_if_valid, with_paged_operands
from .phases import PhaseBuilder


class AttentionFrame(PhaseBuilder):
    """A group with an attention pattern: what the parts of its plan are built from."""

    pattern: AttentionPattern
    inputs: tuple[list[Node], list[Node]]  # loads and index masks of each element of a tile, loads of each row

    def _row_axes(self) -> tuple[Axis, ...]:
        """The row axes. If each row has keys of its own, an axis of extent 1 is added for query tiles."""
        assert self.group.attention is not None
        rows = self.group.rows
        self.query_axes = self.group.attention.query_axes or (Axis(1, 1 + max((a.tag for a in rows), default=0)),)
        return rows if self.group.attention.query_axes else (*rows, *self.query_axes)

    def _columns(self) -> tuple[Axis, ...]:
        assert self.group.attention is not None
        pattern = self.group.attention
        return tuple(dict.fromkeys((*self.group.columns, *pattern.value_axes, *pattern.qk_axes)))

    def _import(self) -> None:
        g, pattern = self.group, self.group.attention
        assert pattern is not None
        places = find_paged_loads(pattern)
        pattern, moved = with_paged_operands(pattern, places, [r.value for r in g.all_stores], g.imports)
        values = [*pattern.values, *all_nodes(pattern), *places.nodes, *(moved[r.value] for r in g.all_stores)]
        roots = [*pattern.folds, *values]
        new = rebuild(
            roots, lambda old, args: g.imports.get(old) or (node(old.op, args, old.attr, old.type) if args else old)
        )
        self.pattern, self.paged = map_nodes(pattern, new.__getitem__), places.mapped(new)
        self.folds, self.cross = list(self.pattern.folds), []
        self.row_stores = [(r, stored(new[moved[r.value]], r)) for r in g.row_stores]
        self.own_stores = [(r, stored(new[moved[r.value]], r)) for r in g.value_axis_stores]
        self.stores = self.sorted_stores = self.cross_stores = []
        self._state()

    def _state(self) -> None:
        """Set the reductions of a tile, and replace the results of the pattern by the final state."""
        online = self.pattern.reduction
        first, points, second, self.tile_state = online.lift()
        slots = {online.of_component(w.component, self.tile_state): w for w in self.pattern.value_products}
        kept = [[lift for lift in lifts if lift.slots[0] not in slots] for lifts in (first, second)]
        self.scaled_extrema: dict[Node, Node] = {}
        self.lifts: tuple[list[TileReduction], list[TileReduction]] = (list(map(self._unscaled_lift, kept[0])), kept[1])
        self.points = points
        weighted, places = self.pattern.value_products, self.paged
        self.weights = {w: weight_if_valid(w, online.element(w.p, self.tile_state), places) for w in weighted}
        done: dict[Node, Node] = {}
        for f, value in online.finish:
            done[f] = replace_nodes([value], done)[value]
        values = [v for _, v in self.row_stores + self.own_stores]
        final = replace_nodes(values, done)
        self.row_stores = [(r, final[v]) for r, v in self.row_stores]
        self.own_stores = [(r, final[v]) for r, v in self.own_stores]

    def _unscaled_lift(self, lift: TileReduction) -> TileReduction:
        """Extremum of products with a positive number: reduce without the factor, multiply the result by it."""
        factor, rest = positive_factor(lift.value)
        if not self.pattern.reduction.running_reference or lift.fold not in ("max", "min") or factor is None:
            return lift
        (slot,) = lift.slots
        raw = node("state", (), ("raw", *slot.attr), slot.type)
        self.scaled_extrema[slot] = scalar_op("multiply", raw, factor)
        return TileReduction(lift.fold, rest, (raw,))

    def _all_stores(self) -> list[tuple[ScalarStore, Node]]:
        return self.row_stores + self.own_stores

    def _roots(self) -> list[Node]:
        """All computed values, with the scores as leaves: their operands are read by the products."""
        pattern = self.pattern
        values = [n for p in pattern.score_products for n in (p.q, p.k)] + [w.v for w in pattern.value_products]
        values += [lift.value for lifts in self.lifts for lift in lifts] + [*self.points, *self.weights.values()]
        values += [n for n in self.tile_state if n.op != "state"] + [v for _, v in self._all_stores()]
        values += [k for w in pattern.value_products if (k := w.p.active_condition()) is not None] + self.paged.nodes
        if any(FOLDS[f.attr[0]].positional for f in pattern.reduction.folds):
            values.append(position(pattern.reduction.axes[0]))
        self.values = values
        leaves = {p.fold: node("score", (), k, p.fold.type) for k, p in enumerate(pattern.score_products)}
        return list(replace_nodes(values, leaves).values())

    @property
    def leaves(self) -> list[Node]:
        """Leaves of a tile's elements: loads, index masks, validity of paged rows, and scores."""
        scores = [p.fold for p in self.pattern.score_products]
        return [*dict.fromkeys([*self.known(), *self.inputs[0], *self.inputs[1], *self.paged.valid]), *scores]

    def elements(self, lifts: Sequence[TileReduction], others: Sequence[Node], known: Sequence[Node]) -> Phase:
        """A phase with reductions over a tile's elements, and with other element values as results."""
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
