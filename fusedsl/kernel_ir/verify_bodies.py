"""Rules of names in bodies: each is defined once, before it is read, and read in its own dtype.

A kernel computes elements, rows and, for column reductions, columns. Row bodies read no value that varies by element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..ir.types import INT64, DType
from ..ir.verify import require
from .phase import Body, GroupPhases, PanelFolds, Phase, Reduction, ScanStep, Store, Value
from .plan import KernelPlan

Known = dict[str, DType]


def verify_bodies(kernel: KernelPlan) -> None:
    """VerifyError if a name is read before it is defined."""
    given = body_inputs(kernel)
    scope = DefinedNames(dict(given.elements), dict(given.rows))
    for phase in kernel.resident:
        scope.phase(phase)
        if phase.panel_folds is not None:
            _panels(phase.panel_folds, scope, kernel)
        if phase.groups is not None:
            _groups(phase.groups, scope, kernel)
    if kernel.column_epilogue is not None:
        columns = DefinedNames(given.columns | scope.columns, {})
        if kernel.column_epilogue.body is not None:
            columns.elements |= body(kernel.column_epilogue.body, columns.elements)
        columns.stores(kernel.column_epilogue.stores, columns.elements)
    streamed = DefinedNames({}, dict(given.rows))
    for phase in kernel.looped:
        streamed.elements = dict(given.elements)  # element values do not survive a loop
        streamed.phase(phase)


def _panels(panels: PanelFolds, scope: DefinedNames, kernel: KernelPlan) -> None:
    """Phases over panels: their elements are values of rows, and their rows have none along the panels' axis."""
    across = frozenset(range(len(kernel.rows))) - {panels.axis}
    require(0 <= panels.axis < len(kernel.rows) and len(kernel.ranks) == 1, "panels lie along a row axis", kernel.name)
    inner = DefinedNames(dict(scope.rows), body_inputs(kernel, across).rows)
    for phase in panels.phases:
        inner.phase(phase)
    inner.stores(panels.stores, inner.rows)


def _groups(groups: GroupPhases, scope: DefinedNames, kernel: KernelPlan) -> None:
    """Phases on groups: their elements are values of rows, and their rows have none along the groups' axis."""
    require(0 <= groups.axis < len(kernel.rows), "groups lie along a row axis", kernel.name)
    inner = DefinedNames(dict(scope.rows), body_inputs(kernel, frozenset(range(len(kernel.rows))) - {groups.axis}).rows)
    for phase in groups.phases:
        plain = not (phase.row_stores or phase.scans or phase.sort or phase.column_reductions or phase.scatters)
        require(plain and not phase.tile_phases, "phases on groups fold, and store elements", kernel.name)
        inner.phase(phase)


def bodies_of(kernel: KernelPlan) -> list[Body]:
    """Bodies of a kernel's phases."""
    phases = [*kernel.resident, *kernel.looped, *(kernel.attention.tile_phases if kernel.attention else ())]
    parts = [part for phase in phases for part in (phase, *phase.tile_phases)]
    parts += [part for phase in phases if phase.panel_folds for part in phase.panel_folds.phases]
    parts += [part for phase in phases if phase.groups for part in phase.groups.phases]
    orders = [part.sort.ranks for part in parts if part.sort]
    bodies = (*orders, *(work for part in parts for work in (*part.bodies, part.row)))
    return [work for work in bodies if work is not None]


# -- what is given


@dataclass(frozen=True)
class BodyInputs:
    """Names that bodies may read from the start: of elements, rows and columns."""

    elements: Known
    rows: Known
    columns: Known


def body_inputs(kernel: KernelPlan, rows: frozenset[int] | None = None) -> BodyInputs:
    """Loads, indices, addresses and numbers of a kernel, whose `rows` are its row axes unless they are given."""
    axes: list[tuple[Value, Iterable[int]]] = [(p.value, (p.axis,)) for p in kernel.positions]
    axes += [(x.value, [c.axis for c in kernel.arrays[x.operand].at if c.axis is not None]) for x in kernel.loads]
    axes += [(value, ()) for value in (*(x.value for x in kernel.pointers), *(x.value for x in kernel.scalars))]
    names = [value.name for value, _ in axes]
    require(len(names) == len(set(names)), "what is read has names of its own", kernel.name, names)
    rows = frozenset(range(len(kernel.rows))) if rows is None else rows
    columns = frozenset(range(len(kernel.rows), len(kernel.rows) + len(kernel.columns)))
    return BodyInputs(*(_along(axes, inside) for inside in (None, rows, columns)))


def _along(axes: Sequence[tuple[Value, Iterable[int]]], inside: frozenset[int] | None) -> Known:
    return {v.name: v.dtype for v, own in axes if inside is None or inside.issuperset(own)}


# -- bodies


def body(checked: Body, known: Mapping[str, DType]) -> Known:
    """Names that a body defines; VerifyError if it reads an unknown name."""
    for v in checked.args:
        are_known([v], known, checked)
    defined = {v.name for v in checked.args}
    for i in checked.instructions:
        missing = [name for name in i.names if name not in defined]
        require(not missing, "an instruction reads what is defined before it", i, missing)
        require(i.target not in defined, "a name is defined once", i)
        defined.add(i.target)
    for v in checked.results:
        require(v.name in defined, "a result is defined by its body", v, checked)
    return {v.name: v.dtype for v in checked.results}


def are_known(values: Iterable[Value], known: Mapping[str, DType], what: object) -> None:
    """Values are defined, with these dtypes."""
    for v in values:
        require(v.name in known, "a name is defined before it is read", v, what)
        require(known[v.name] is v.dtype, "a name is read in the dtype that it has", v, known[v.name], what)


def fold(use: Reduction, known: Mapping[str, DType]) -> Known:
    """State of a reduction, after checking its inputs."""
    are_known(use.inputs, known, use.name)
    count = len(use.accumulators)
    require(len(use.inputs) == len(use.identity) == count, "a fold lifts elements to its state", use)
    for merge in (use.combine, use.combine_in_order):
        if merge is not None:
            require(len(merge.args) == 2 * count and len(merge.results) == count, "a fold merges two states", use)
            body(merge, {v.name: v.dtype for v in merge.args})
    return {v.name: v.dtype for v in use.accumulators}


@dataclass
class DefinedNames:
    """Names defined so far: of elements, rows (which elements may read too), columns and sorted elements."""

    elements: Known
    rows: Known
    columns: Known = field(default_factory=dict)
    ranks: Known = field(default_factory=dict)

    def phase(self, phase: Phase) -> None:
        """A phase, after those before it."""
        self.folded(phase)
        self.finished(phase)

    def folded(self, phase: Phase) -> None:
        """Element work or tile phases, and their reductions."""
        for part in phase.tile_phases:
            self.phase(part)
        lifted = self.rows if phase.tile_phases else self.work(phase)
        for use in phase.folds:
            self.rows |= fold(use, lifted)

    def finished(self, phase: Phase) -> None:
        """Row body, after the reductions."""
        if phase.derived is not None:
            own = {v.name for use in phase.folds for v in use.inputs}
            require(
                own.issuperset(v.name for v in phase.derived.accumulators), "what is implied is a state", phase.derived
            )
            body(phase.derived.body, self.rows)
        if phase.row is not None:
            self.rows |= body(phase.row, self.rows)
        self.stores(phase.row_stores, self.rows)

    def work(self, phase: Phase) -> Known:
        """Element work of a phase: inputs of its reductions."""
        known = {**self.elements, **self.rows, **(self.ranks if phase.ranks else {})}
        results = body(phase.element, known)
        for step in phase.scans:
            results |= self.scanned(step, known | results)
        for product in phase.products:
            body(product.left, self.elements)
            body(product.right, self.elements)
        known |= results
        if phase.sort is not None:
            are_known([phase.sort.key], known, phase.sort)
            ranks = body(phase.sort.ranks, self.rows) if phase.sort.ranks else {}
            are_known([rank for _, rank, _ in phase.sort.rank_reads if isinstance(rank, Value)], ranks, phase.sort)
            along = (phase.sort.values, phase.sort.positions)
            self.ranks |= {v.name: v.dtype for v in along if v is not None}
            self.rows |= {v.name: v.dtype for _, _, v in phase.sort.rank_reads}
        self.stores(phase.stores, known)
        for scatter in phase.scatters:
            require(known.get(scatter.flat_index) is INT64, "an index is an int64", scatter)
            require(scatter.value in known, "a name is defined before it is read", scatter)
        for use in phase.column_reductions:
            self.columns |= fold(use, known)
        if not phase.ranks:
            self.elements |= results
        return known

    def scanned(self, step: ScanStep, known: Known) -> Known:
        """States of scans, and bodies after them."""
        results: Known = {}
        for use in step.scans:
            results |= fold(use, known)
        return results | body(step.element, known | results)

    def stores(self, stores: Iterable[Store], known: Mapping[str, DType]) -> None:
        """Stored values are defined."""
        for store in stores:
            require(store.value in known, "what is stored is defined", store)
