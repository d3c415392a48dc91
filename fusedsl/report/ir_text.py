"""Scalar programs, fusion groups and planned kernels as text, one value a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..fusion.coordinates import Axis, ComputedIndex, Coordinate
from ..fusion.fusion_group import FusionGroup, Partition
from ..fusion.scalar_program import ArraySource, ScalarProgram, ScalarStore
from ..ir.graph import Node, walk
from ..ir.printer import show_literal, show_type
from ..kernel_ir.phase import Body, Phase, Reduction
from ..kernel_ir.plan import ArrayUse, KernelPlan


class ScalarText:
    """Names of values and axes while scalars are printed; `names` are those of the program's parameters."""

    def __init__(self, names: Sequence[str]):
        self.names = names
        self.axes: dict[Axis, str] = {}
        self.values: dict[Node, str] = {}

    def program(self, program: ScalarProgram) -> list[str]:
        """The lines of a scalar program: its values, its stores, and then its axes."""
        return self._with_axes([*self.define(s.value for s in program.stores), *map(self.store, program.stores)])

    def partition(self, cut: Partition) -> list[str]:
        """The lines of a partition: what each group reduces and stores."""
        lines: list[str] = []
        for k, group in enumerate(cut.groups):
            lines += [f"kernel {k}:", *(f"  {line}" for line in self._group(group))]
        return self._with_axes(lines)

    def _group(self, group: FusionGroup) -> Iterator[str]:
        yield f"rows ({self._axes(group.rows)}), columns ({self._axes(group.columns)})"
        if group.attention is not None:
            yield "attention: its folds are one pass over keys"
        imported = (f"{self._value(fold)} = {self._operation(load)}" for fold, load in group.imports.items())
        yield from imported
        yield from self.define(group.values, group.imports)
        yield from self.define(group.folds + group.column_folds, group.imports)
        for way, folds in (("rows", group.folds), ("columns", group.column_folds)):
            if folds:
                yield f"reduces {way}: {', '.join(map(self._value, folds))}"
        yield from map(self.store, group.all_stores)

    def define(self, roots: Iterable[Node], known: Iterable[Node] = ()) -> list[str]:
        """A line for each value that has none yet, operands first."""
        lines = []
        for n in walk(roots, {*self.values, *known}):
            if n.op != "const":
                text = self._operation(n)
                lines.append(f"{self._value(n)}: {show_type(n).removesuffix('[]')} = {text}")
        return lines

    def store(self, store: ScalarStore) -> str:
        at = ", ".join("0" if a is None else self._axis(a) for a in store.axes)
        return f"store {store.kind} {store.index}[{at}] = {self._value(store.value)}"

    # -- parts of a line

    def _value(self, n: Node) -> str:
        if n.op == "const":
            return show_literal(n)
        return self.values.setdefault(n, f"%{len(self.values)}")

    def _operation(self, n: Node) -> str:
        parts = [self._value(a) for a in n.args]
        if n.op in ("scalar", "param"):
            return self.names[n.attr]
        if n.attr is not None:
            parts += self._attributes(n.attr)
        return f"{n.op} {', '.join(parts)}".rstrip()

    def _attributes(self, attr: Any) -> list[str]:
        """An operation's attribute; an array and its coordinates are an element."""
        match attr:
            case (ArraySource() as source, tuple() as at, *_):
                return [f"{self._array(source)}[{', '.join(map(self._index, at))}]"]
            case (ArraySource() as source, *_):
                return [self._array(source)]
            case Axis():
                return [self._axis(attr)]
            case tuple():
                return [part for x in attr for part in self._attributes(x)]
        return [str(attr)]

    def _array(self, source: ArraySource) -> str:
        name = self.names[source.index] if source.kind == "argument" else f"temporary {source.index}"
        return name + "".join(f".{how}" for how, _ in source.views)

    def _index(self, c: Coordinate | ComputedIndex) -> str:
        if isinstance(c, ComputedIndex):
            return self._value(c.value)
        if c.axis is None:
            return str(c.start)
        along = self._axis(c.axis) if c.step == 1 else f"{c.step} * {self._axis(c.axis)}"
        return along if c.start == 0 else f"{along} + {c.start}"

    def _axis(self, axis: Axis) -> str:
        return self.axes.setdefault(axis, f"i{len(self.axes)}")

    def _axes(self, axes: Iterable[Axis]) -> str:
        return ", ".join(map(self._axis, axes))

    def _with_axes(self, lines: list[str]) -> list[str]:
        return [*(f"axis {name} < {axis.extent}" for axis, name in self.axes.items()), *lines]


def kernel_text(kernel: KernelPlan) -> list[str]:
    """The lines of a planned kernel: its arrays, and its phases or attention body."""
    lines = [f"{kernel.name}: rows ({_listed(kernel.rows)}), columns ({_listed(kernel.columns)})"]
    for k, use in enumerate(kernel.arrays):
        lines.append(f"  {'reads' if k < kernel.inputs else 'writes'} {_use(use)}")
    if kernel.attention is not None:
        parts = [("score q", s.q) for s in kernel.attention.scores] + [
            ("score k", s.k) for s in kernel.attention.scores
        ]
        lines += [line for name, body in parts for line in _body(name, body)]
    phases = kernel.attention.tile_phases if kernel.attention is not None else kernel.resident
    for k, phase in enumerate(phases):
        lines += [f"  {line}" for line in _phase(f"phase {k}", phase)]
    if kernel.attention is not None:
        sums = [(f"weighted sum {w.state.name}", w.v) for w in kernel.attention.weighted_sums]
        lines += [line for name, body in sums for line in _body(name, body)]
        lines += _body("row epilogue", kernel.attention.row_epilogue)
    if kernel.column_epilogue is not None:
        lines += _body("column epilogue", kernel.column_epilogue.body)
    return lines


def _phase(name: str, phase: Phase) -> list[str]:
    lines = [
        f"{name}:",
        *(f"  {line}" for k, p in enumerate(phase.tile_phases) for line in _phase(f"tile phase {k}", p)),
    ]
    lines += _body("element", phase.element)
    lines += [line for step in phase.scans for line in [*map(_reduction, step.scans), *_body("element", step.element)]]
    lines += [*map(_reduction, phase.folds), *map(_reduction, phase.column_reductions)]
    lines += _body("ranks", phase.sort.ranks if phase.sort else None)
    lines += _body("row", phase.row)
    stores = [*phase.stores, *phase.row_stores]
    if phase.panel_folds is not None:
        panels = enumerate(phase.panel_folds.phases)
        lines += [f"  {line}" for k, p in panels for line in _phase(f"panel phase {k}", p)]
        stores += phase.panel_folds.stores
    if phase.groups is not None:
        parts = enumerate(phase.groups.phases)
        lines += [f"  {line}" for k, p in parts for line in _phase(f"group phase {k}", p)]
    return lines + [f"  store {s.value} to operand {s.operand}" for s in stores]


def _body(name: str, body: Body | None) -> list[str]:
    if body is None or not body.instructions:
        return []
    given = ", ".join(v.name for v in body.args)
    return [f"  {name}({given}):", *(f"    {line}" for line in body.lines)]


def _reduction(use: Reduction) -> str:
    states, inputs = (", ".join(v.name for v in values) for values in (use.accumulators, use.inputs))
    return f"  {states} = {use.name} of {inputs}"


def _use(use: ArrayUse) -> str:
    return f"{use.kind} {use.index} as {use.name}: {use.dtype}" + "".join(f".{how}" for how, _ in use.views)


def _listed(dims: Iterable[Any]) -> str:
    return ", ".join(map(str, dims))
