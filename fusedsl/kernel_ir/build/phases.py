"""Builds the phases of kernels over rows or elements: bodies, reductions, stores, and values held for later phases."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from ...fusion.contractions import matmul_factors
from ...fusion.coordinates import Axis
from ...fusion.fusion_group import FusionGroup
from ...ir.folds import FOLDS, State
from ...ir.graph import Node, Parameter, node, walk
from ...ir.types import INT64, DType
from ..kernel import ColumnEpilogue
from ..phase import Body, MatrixProduct, Phase, ScanStep, ScanUse, Scatter, Sort, Store, Value
from ..plan import KernelPlan
from .fold_bodies import build_reduction
from .kernel_frame import KernelFrame, position
from .rematerialization import READ, RECOMPUTE_BELOW, computed_below, recompute_cost
from .scans import lifted_scan, scan_uses


class PhaseBuilder(KernelFrame):
    """Builds the plan of a group that is not attention."""

    def __init__(self, group: FusionGroup, parameters: Sequence[Parameter]):
        super().__init__(group, parameters)
        self.depth = self.depths()

    def depths(self, passes: Mapping[Node, int] | None = None, before: int = 0) -> dict[Node, int]:
        """Number of phases that must be complete before each node can be computed.

        A fold's own phase (or its pass) counts, and everything before it; a sort comes after `before` phases.
        """
        depth: dict[Node, int] = {}
        for n in self.nodes:
            operand_depth = max((depth[a] for a in n.args), default=0)
            if n.op == "fold":
                depth[n] = passes[n] + 1 if passes is not None and n in passes else operand_depth + 1
            else:
                depth[n] = max(operand_depth, before) + 1 if n.op == "sort" else operand_depth
        return depth

    # -- the plan

    def plan(self, name: str, header: tuple[str, ...]) -> KernelPlan:
        """The plan, with the phases of rows in registers; `LoopedPhases` has those of looped rows."""
        plan = dataclasses.replace(self.frame(name, header), resident=self._phases())
        return dataclasses.replace(plan, column_epilogue=self._finish()) if self.cross else plan

    # -- phases

    def _phases(self) -> tuple[Phase, ...]:
        known = dict.fromkeys(self.known())
        rows: dict[Node, None] = {}
        phases: list[Phase] = []
        for p in range(self.count(self.depth)):
            stores = [s for s in self.stores if self.depth[s[1]] == p]
            new, held = self._phase(p, stores, known, rows)
            new += self.rank_phase(p, self.depth, [*known, *rows])
            folds = [f for f in self.folds if self.depth[f] == p + 1]
            row, values, row_stores = self._row(p, folds + self.picked(p, self.depth), rows)
            new[-1] = dataclasses.replace(new[-1], row=row, row_stores=row_stores)
            phases += new
            known.update(dict.fromkeys(held))
            rows.update(values)
        return tuple(phases)

    def count(self, depth: Mapping[Node, int]) -> int:
        """Number of phases."""
        ends = [depth[v] + 1 for _, v in self.stores + self.sorted_stores]
        return max([1, *ends, *(depth[f] for f in self.folds + self.cross), *(depth[n] for n in self.sorts)])

    def _phase(self, p: int, stores, known, rows) -> tuple[list[Phase], list[Node]]:
        """(the phase over the columns, if it has work; element values that later phases may read)."""
        available = [*known, *rows]
        folds = [f for f in self.folds if self.depth[f] == p + 1 and f.attr[1] != self.ranks]
        cross = [f for f in self.cross if self.depth[f] == p + 1]
        sorts = [n for n in self.sorts if self.depth[n] == p + 1]
        lifted = {f: self.lifted(f.attr[0], f.args[0]) for f in folds}
        lifted |= {f: self.lifted(f.attr[0], f.args[0], f.attr[1][0]) for f in cross}
        scattered = [(r, v) for r, v in stores if r.is_scatter]
        stores = [(r, v) for r, v in stores if not r.is_scatter]
        wanted = [*dict.fromkeys(x for state in lifted.values() for x in state), *(v for _, v in stores)]
        wanted += [a for _, v in scattered for a in v.args]
        wanted += [n.args[0] for n in sorts]
        held = self._held(p, wanted, available)
        if self.sorts and not (wanted or held):
            return [], []
        results = list(dict.fromkeys([*wanted, *held]))
        element, scans, names = self.element(results, available)
        uses, across = (
            tuple(
                build_reduction(f.attr[0], f.args[0].type.dtype.compute, [names[x] for x in lifted[f]], self.states(f))
                for f in some
            )
            for some in (folds, cross)
        )
        element_stores = tuple(Store(names[v], self.stored_at[r]) for r, v in stores)
        sort = self.sort_of(sorts[0], names[sorts[0].args[0]], available) if sorts else None
        products = self._products(folds) if p == 0 and not (stores or scans or sort or across or held) else ()
        scatters = tuple(
            Scatter(v.attr, names[v.args[0]], names[v.args[1]], self.stored_at[r], ordered=r.ordered)
            for r, v in scattered
        )
        phase = Phase(element, element_stores, uses, scans=scans, sort=sort, column_reductions=across)
        return [dataclasses.replace(phase, products=products, scatters=scatters)], held

    def _products(self, folds: list[Node]) -> tuple[MatrixProduct, ...]:
        """The factors of each fold, if all of them are matrix products."""
        products = []
        for f in folds:
            pair = matmul_factors(f, self.free, self.group.rows)
            if pair is None:
                return ()
            products.append(MatrixProduct(*(self._body([a], self.known())[0] for a in pair)))
        return tuple(products)

    # -- orders

    def sort_of(self, n: Node, lifted: str, available: list[Node]) -> Sort:
        """The sort of a row, and which of its values are read; `available` is what has a name before it."""
        descending, _, count = n.attr
        read = [m for m in self.nodes if m.op == "sorted" and m.args[0] is n]
        along = {m.attr[0]: self.builder.value(m) for m in read if isinstance(m.attr[1], Axis)}
        computed = list(dict.fromkeys(m.args[1] for m in read if len(m.args) > 1))
        ranks, names = self._body(computed, available) if computed else (None, {})
        rank_reads = tuple(
            (m.attr[0], Value(names[m.args[1]], INT64) if len(m.args) > 1 else m.attr[1], self.builder.value(m))
            for m in read
            if not isinstance(m.attr[1], Axis)
        )
        value, whole = Value(lifted, n.type.dtype.compute), count if isinstance(count, int) else None
        return Sort(
            value,
            _key_dtype(n.args[0]),
            descending,
            whole,
            along.get("values"),
            along.get("positions"),
            rank_reads,
            ranks,
        )

    def picked(self, p: int, depth: Mapping[Node, int]) -> list[Node]:
        """Elements that are read of the sort of phase p."""
        return [n for n in self.nodes if n.op == "sorted" and depth[n.args[0]] == p + 1]

    def rank_phase(self, p: int, depth: Mapping[Node, int], available: list[Node]) -> list[Phase]:
        """Phase over the sorted axis, if it has work."""
        folds = [f for f in self.folds if depth[f] == p + 1 and self.ranks and f.attr[1] == self.ranks]
        stores = [(r, v) for r, v in self.sorted_stores if depth[v] == p]
        if not folds and not stores:
            return []
        available = [*available, *(n for n in self.nodes if n.op == "sorted" and self.varies(n))]
        lifted = {f: self.lifted(f.attr[0], f.args[0]) for f in folds}
        wanted = [*(x for state in lifted.values() for x in state), *(v for _, v in stores)]
        element, names = self._body(list(dict.fromkeys(wanted)), available)
        uses = tuple(
            build_reduction(f.attr[0], f.args[0].type.dtype.compute, [names[x] for x in lifted[f]], self.states(f))
            for f in folds
        )
        return [Phase(element, tuple(Store(names[v], self.stored_at[r]) for r, v in stores), uses, ranks=True)]

    def lifted(self, name: str, value: Node, along: Axis | None = None) -> State:
        """State of one element for a fold along the columns, or `along` the rows."""
        fold = FOLDS[name]
        return fold.lift(value, position(along or self.group.columns[0]) if fold.positional else None)

    def _finish(self) -> ColumnEpilogue:
        """Epilogue of the folds over rows, per column."""
        results = [v for _, v in self.cross_stores if v not in self.cross]
        body, names = self._body(list(dict.fromkeys(results)), [*self.known(), *self.cross])
        stores = tuple(Store(names.get(v) or self.builder.names[v], self.stored_at[r]) for r, v in self.cross_stores)
        return ColumnEpilogue(body if results else None, stores)

    def element(self, results: list[Node], available: list[Node]):
        """(the first body, scans with the bodies between them, names of the results)."""
        level, known = self._levels(results, available), list(available)
        names: dict[Node, str] = {}
        bodies: list[Body] = []
        scans: list[tuple[ScanUse, ...]] = []
        for s in range(max(level.values(), default=0) + 1):
            here = [n for n in level if n.op == "scan" and level[n] == s]
            scans.append(scan_uses(self.builder, here, names))
            following = [n for n in level if n.op == "scan" and level[n] == s + 1]
            due = [x for n in following for x in lifted_scan(n)] + self._held_over_scans(level, s, known)
            wanted = list(dict.fromkeys(due + [n for n in results if level.get(n, 0) == s and n not in here]))
            known += here
            body, new = self._body(wanted, known)
            names |= new | {n: self.builder.names[n] for n in here}
            bodies.append(body)
            known += [n for n in wanted if n not in known]
        return bodies[0], tuple(map(ScanStep, scans[1:], bodies[1:])), names

    def _levels(self, results: list[Node], available: list[Node]) -> dict[Node, int]:
        """Nesting depth of scans below each node that is computed here."""
        needed = computed_below(results, set(available))
        level: dict[Node, int] = {}
        for n in walk(needed):
            if n in needed:
                level[n] = max((level.get(a, 0) for a in n.args), default=0) + (n.op == "scan")
        return level

    def _held_over_scans(self, level: dict[Node, int], s: int, known: list[Node]) -> list[Node]:
        """Values from before the next scans that are read after them and are expensive to recompute."""
        read = {a for n, above in level.items() if above > s and n.op != "scan" for a in n.args}
        stop = set(known)
        here = [n for n in level if level[n] == s and n in read and n.op != "scan"]
        return [n for n in here if recompute_cost(n, stop) >= RECOMPUTE_BELOW]

    def _body(self, results: list[Node], available: list[Node]) -> tuple[Body, dict[Node, str]]:
        body = self.builder.body((), results, available)
        return body, {n: value.name for n, value in zip(results, body.results)}

    def _held(self, p: int, wanted: Iterable[Node], available: Iterable[Node]) -> list[Node]:
        """Element values of this phase that later phases read and that are expensive to recompute."""
        stop = set(available)
        here = computed_below(wanted, stop)
        later_roots = [f.args[0] for f in self.folds + self.cross if self.depth[f] > p + 1]
        later_roots += [v for _, v in self.stores if self.depth[v] > p]
        later_roots += [n.args[0] for n in self.sorts if self.depth[n] > p + 1]
        later = computed_below(later_roots, stop)
        both = [n for n in self.nodes if n in here and n in later and self.is_element(n)]
        expensive = [n for n in both if recompute_cost(n, stop) >= RECOMPUTE_BELOW]
        needed = {a for n in later if n not in expensive for a in n.args} | set(later_roots)
        return [n for n in expensive if n in needed]

    def state_of(self, f: Node) -> State:
        """Accumulators of a fold: the fold itself for its result, extra nodes for the others."""
        state = []
        for k, x in enumerate(FOLDS[f.attr[0]].identity(f.args[0].type.dtype.compute)):
            side = f if k == FOLDS[f.attr[0]].finish else node("side", (f,), k, x.type)
            self.builder.name(side, f"{f.attr[0]}_state", f.attr[0])
            state.append(side)
        return tuple(state)

    def states(self, f: Node) -> tuple[Value, ...]:
        """Names of a fold's accumulators."""
        return tuple(map(self.builder.value, self.state_of(f)))

    def _row(self, p: int, folds: list[Node], rows: dict[Node, None]):
        """(row body, its row values, row stores) after the folds and sorts of phase p."""
        values = self.row_values(p, self.depth)
        due = [(r, v) for r, v in self.row_stores if max(self.depth[v] - 1, 0) == p]
        available = [*self.known(), *rows, *folds]
        results = [n for n in dict.fromkeys([*values, *(v for _, v in due)]) if n not in available]
        body, names = self._body(results, available) if results else (None, {})
        stores = tuple(Store(names.get(v) or self.builder.names[v], self.stored_at[r]) for r, v in due)
        return body, dict.fromkeys([*folds, *values]), stores

    def row_values(self, p: int, depth: Mapping[Node, int]) -> list[Node]:
        """Row values that become computable after phase p and that elements of later phases read."""
        live_ins: dict[Node, None] = {}
        later = [f.args[0] for f in self.folds + self.cross if depth[f] > p + 1]
        later += [v for _, v in self.stores + self.sorted_stores]
        later += [n.args[0] for n in self.sorts if depth[n] > p + 1]
        for n in computed_below(later, set()):
            if self.varies(n) and n.op not in READ:
                for a in n.args:
                    if not self.varies(a) and depth[a] == p + 1 and a.op not in READ:
                        live_ins[a] = None
        for v in later:
            if not self.varies(v) and depth[v] == p + 1 and v.op not in READ:
                live_ins[v] = None
        return list(live_ins)


def _key_dtype(key: Node) -> DType:
    """The narrowest dtype that is known to have all keys: floats of 8 bits are float32."""
    held = key.type.dtype.compute
    match key.op:
        case "cast":
            held = key.type.dtype
        case "load":
            held = key.attr[0].stored_dtype(key.type.dtype)
    return key.type.dtype.compute if held.storage else held
