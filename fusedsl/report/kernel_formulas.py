"""A kernel as formulas of its arrays: its folds, scores, sorts and results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ..ir.dims import Dim, evaluate
from ..ir.folds import SCAN_NAMES
from ..kernel_ir.attention import AttentionBody
from ..kernel_ir.phase import PANEL_COLUMNS, Body, Phase, Value
from ..kernel_ir.plan import ArrayUse, IterationIndex, KernelPlan
from ..program.resolve_call import ResolvedCall
from .body_formulas import Formulas, FormulaTerm
from .source_terms import FoldTerms, source_terms

LETTERS = "ijk"  # names of indices, for up to three axes


def array_name(call: ResolvedCall, use: ArrayUse) -> str:
    """The parameter's name, `result`, or `temporary 0`."""
    if use.kind == "argument":
        return call.plan.parameters[use.index].name
    only = use.kind == "result" and len(call.plan.results) == 1
    return use.kind if only else f"{use.kind} {use.index}"


def kernel_formulas(call: ResolvedCall, plan: KernelPlan) -> tuple[str, ...]:
    """The folds and results that the kernel computes, each with its formula."""
    names = _Names(call, plan)
    formulas = Formulas(names.leaves, lambda read: source_terms(call, read, _fold_terms(plan, read)))
    if plan.attention is not None and plan.attention.update_row_max is not None:
        _read_references(plan.attention, plan.attention.update_row_max, formulas)
    formulas.read(_bodies(plan))
    members = [] if plan.attention is None else _attention_members(plan.attention, names, formulas)
    for phase in plan.resident:
        members += _phase_members(phase, names, formulas)
    for store in plan.column_epilogue.stores if plan.column_epilogue else ():
        members.append(f"{names.array(store.operand)} = {formulas.text(store.value)}")
    return tuple(members)


def _fold_terms(plan: KernelPlan, formulas: Formulas) -> FoldTerms:
    """The terms of a kernel's folds and scans of one value, by what they reduce."""
    terms: dict[tuple[str, FormulaTerm], FormulaTerm] = {}
    for phase in plan.resident:
        folds = [(f.name, f.inputs, f.accumulators) for f in (*phase.folds, *phase.column_reductions)]
        folds += [(SCAN_NAMES[use.name], use.inputs, use.accumulators) for use in phase.scan_uses]
        for name, inputs, states in folds:
            if len(inputs) == len(states) == 1:
                terms[name, formulas.value(inputs[0].name)] = formulas.value(states[0].name)
    return terms


def _phase_members(phase: Phase, names: _Names, formulas: Formulas) -> list[str]:
    members = []
    for folds, along in ((phase.folds, ""), (phase.column_reductions, " over all rows")):
        members += [
            f"{names.fold(f.accumulators[0].name, f.name)}{along} of {formulas.argument(f.inputs[0].name)}"
            for f in folds
        ]
    for use in phase.scan_uses:
        members.append(
            f"{names.fold(use.accumulators[0].name, SCAN_NAMES[use.name])} of "
            f"{', '.join(formulas.argument(v.name) for v in use.inputs)}"
        )
    if phase.sort:
        members.append(f"sort of {formulas.text(phase.sort.key.name)}")
    for store in (*phase.stores, *phase.row_stores):
        members.append(f"{names.array(store.operand)} = {formulas.text(store.value)}")
    for part in phase.groups.phases if phase.groups else ():
        members += _phase_members(part, names, formulas)
    panels = phase.panel_folds
    for fold in [f for part in panels.phases for f in part.folds] if panels else ():
        name = names.fold(fold.accumulators[0].name, fold.name)
        members.append(f"{name} over each {PANEL_COLUMNS} columns of {formulas.argument(fold.inputs[0].name)}")
    for store in panels.stores if panels else ():
        members.append(f"{names.array(store.operand)} = {formulas.text(store.value)}")
    return members


def _attention_members(attention: AttentionBody, names: _Names, formulas: Formulas) -> list[str]:
    """The scores, folds, weighted sums and results of an attention kernel."""
    members = []
    for score in attention.scores:
        product = formulas.product(score.q.results[0].name, score.k.results[0].name)
        members.append(f"{names.leaves[score.value.name]} = sum of {product}")
    for phase in attention.tile_phases:
        members += [
            f"{names.fold(f.accumulators[0].name, f.name)} of {formulas.argument(f.inputs[0].name)}"
            for f in phase.folds
        ]
    for w in attention.weighted_sums:
        product = formulas.product(w.p.name, w.v.results[0].name)
        members.append(f"{names.leaves[w.state.name]} = sum of {product}")
    for stores in (attention.row_outputs, *(ending.stores for ending in attention.epilogues)):
        members += [f"{names.array(store.operand)} = {formulas.text(store.value)}" for store in stores]
    return members


def _read_references(attention: AttentionBody, join: Body, formulas: Formulas) -> None:
    """Name the tile's reference and the running reference alike, if both are an extremum of the scores."""
    formulas.read([join])
    for tile, state, joined in zip(attention.state.inputs, attention.state.accumulators, join.results):
        term = formulas.value(joined.name)
        if term.head in ("maximum", "minimum") and tile.name not in formulas.values:
            formulas.values[tile.name] = formulas.values[state.name] = term.args[1]


def _bodies(plan: KernelPlan) -> Iterator[Body]:
    """The bodies of a kernel, each before those that use its values."""
    stream, bodies = plan.attention, list[Body | None]()
    if stream is not None:
        bodies += [stream.paged.body] if stream.paged else []
        bodies += [*stream.mask_inputs, *stream.row_inputs]
        bodies += [body for score in stream.scores for body in (score.q, score.k)]
        bodies += [body for phase in stream.tile_phases for body in (phase.element, phase.row)]
        bodies += [*(w.v for w in stream.weighted_sums), stream.row_epilogue, *(e.body for e in stream.epilogues)]
    for phase in plan.resident:
        bodies += [body for part in phase.tile_phases for body in (part.element, part.row)]
        bodies += [phase.sort.ranks] if phase.sort else []
        bodies += [phase.element, *(step.element for step in phase.scans), phase.row]
        inner = phase.panel_folds.phases if phase.panel_folds else ()
        inner += phase.groups.phases if phase.groups else ()
        bodies += [body for part in inner for body in (part.element, part.row)]
    bodies += [plan.column_epilogue.body] if plan.column_epilogue else []
    return (body for body in bodies if body is not None)


class _Names:
    """The readable names of a kernel's inputs: `leaves` by name."""

    def __init__(self, call: ResolvedCall, plan: KernelPlan):
        self.call, self.plan = call, plan
        self.used_names: Counter[str] = Counter()
        self.axes = _letters(plan)
        self.leaves = {p.value.name: self.axes[p.axis] for p in plan.positions}
        for load in plan.loads:
            self.leaves[load.value.name] = self._load(load.operand)
        self.leaves |= {p.value.name: self.array(p.operand) for p in plan.pointers}
        for use in plan.scalars:
            known = {"argument": self._parameter, "extent": self._extent}.get(use.kind)
            self.leaves[use.value.name] = known(use.source) if known else use.kind
        self._name_folds()

    def fold(self, state: str, name: str) -> str:
        """The name of the fold with this state."""
        return self.leaves.get(state, name)

    def array(self, operand: int) -> str:
        return array_name(self.call, self.plan.arrays[operand])

    def _parameter(self, index: int) -> str:
        return self.call.plan.parameters[index].name

    def _extent(self, source: Dim) -> str:
        return str(evaluate(source, self.call.extents))

    def _name(self, value: str, name: str) -> None:
        """Give a value a name; repeated names are numbered from the second on."""
        self.used_names[name] += 1
        self.leaves[value] = name if self.used_names[name] == 1 else f"{name}_{self.used_names[name]}"

    def _name_folds(self) -> None:
        stream = self.plan.attention
        if stream is not None:
            for score in stream.scores:
                self._name(score.value.name, "score")
            self._name_states(stream.tile_phases)
            for tile, state in zip(stream.state.inputs, stream.state.accumulators):
                self._follow(tile, state)
            for w in stream.weighted_sums:
                self._name(w.state.name, "weighted")
        for phase in self.plan.resident:
            self._name_states(phase.tile_phases)
            if not phase.tile_phases:
                self._name_states([phase])
            self._name_states(phase.panel_folds.phases if phase.panel_folds else ())
            self._name_states(phase.groups.phases if phase.groups else ())
            for tile, state in zip(phase.folds[0].inputs, phase.folds[0].accumulators) if phase.tile_phases else ():
                self._follow(tile, state)
            if phase.sort:
                ordered = zip(
                    (phase.sort.values, phase.sort.positions), ("sorted values", "positions of the sorted values")
                )
                self.leaves |= {value.name: name for value, name in ordered if value is not None}

    def _name_states(self, phases: Iterable[Phase]) -> None:
        """Name folds of one value by their kind; a state of several values keeps its own names."""
        for phase in phases:
            for f in (*phase.folds, *phase.column_reductions):
                if len(f.accumulators) == 1:
                    self._name(f.accumulators[0].name, f.name)
            for use in phase.scan_uses:
                self._name(use.accumulators[0].name, SCAN_NAMES[use.name])

    def _follow(self, tile: Value, state: Value) -> None:
        """The state over all tiles has the name of a tile's state."""
        if tile.name in self.leaves:
            self.leaves[state.name] = self.leaves[tile.name]

    def _load(self, operand: int) -> str:
        """An array, with indices if these are not the kernel's own last axes, or not the only ones."""
        use, stream = self.plan.arrays[operand], self.plan.attention
        loaded = [self.plan.arrays[k] for k in {load.operand for load in self.plan.loads}]
        others = {a.at for a in loaded if (a.kind, a.index) == (use.kind, use.index)}
        plain = len(others) == 1 and all(self._is_plain(c) for c in use.at)
        if stream is not None:
            inner = {*(score.axis for score in stream.scores), *(w.axis for w in stream.weighted_sums)}
            plain = plain and any(c.axis in inner for c in use.at)
        name = array_name(self.call, use)
        return name if plain or not use.at else f"{name}[{', '.join(map(self._index, use.at))}]"

    def _is_plain(self, c: IterationIndex) -> bool:
        return c.axis is None or (c.step == 1 and self._extent(c.start) == "0")

    def _index(self, c: IterationIndex) -> str:
        start = self._extent(c.start)
        if c.axis is None:
            return start
        along = self.axes[c.axis] if abs(c.step) == 1 else f"{abs(c.step)} * {self.axes[c.axis]}"
        if c.step < 0:
            return f"{start} - {along}"
        return along if start == "0" else f"{along} + {start}"


def _letters(plan: KernelPlan) -> list[str]:
    """The names of indices: i along rows and j along the stream, or i, j, k, or if there are more i0, i1, …"""
    count = len(plan.rows) + len(plan.columns) + len(plan.ranks)
    letters = [f"i{k}" for k in range(count)]
    if plan.attention is not None:
        letters[plan.attention.query_axes[-1] if plan.attention.query_axes else len(plan.rows) - 1] = "i"
        letters[len(plan.rows)] = "j"
    elif count <= len(LETTERS):
        letters = list(LETTERS[:count])
    return letters
