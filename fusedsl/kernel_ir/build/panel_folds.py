"""Folds of products where they are computed: states of panels of columns, which the kernel that folded them merges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...ir.dims import Dim, expression
from ...ir.graph import Type
from ..folded_products import FoldedProduct, folded_product, names_read_of, panel_phases
from ..kernel import Load, Position
from ..phase import PANEL_COLUMNS, Body, PanelFolds, Phase, Reduction, Store, Value
from ..plan import ArrayUse, IterationIndex, KernelPlan
from .build_plan import digest_of


def fold_in_panels(
    kernels: Sequence[KernelPlan], temporaries: Sequence[Type], results: Sequence[Type]
) -> tuple[tuple[KernelPlan, ...], tuple[Type, ...]]:
    """The kernels with such folds in the kernels of the products, and the types of the temporaries between them.

    A temporary that nothing else reads makes room for states.
    """
    changed, types = list(kernels), list(temporaries)
    for number in range(len(kernels)):
        one = folded_product(changed, number)
        if one is not None:
            _fold(changed, types, one, results)
    return tuple(changed), tuple(types)


def _fold(kernels: list[KernelPlan], temporaries: list[Type], one: FoldedProduct, results: Sequence[Type]) -> None:
    """Move the folds of a reader to the kernel of the products."""
    products, reader = kernels[one.products], kernels[one.reader]
    use = reader.arrays[one.load.operand]
    place = [c.axis for c in use.at].index(len(reader.rows))
    shape = (results if use.kind == "result" else temporaries)[use.index].shape
    panels = expression("//", expression("+", shape[place], PANEL_COLUMNS - 1), PANEL_COLUMNS)
    others = [k for k in kernels if k is not reader and any(u.index == use.index for u in _temporaries_read(k))]
    kept = use.kind == "result" or bool(others)
    states = _states(reader)
    numbers = list(range(len(temporaries), len(temporaries) + len(states)))
    numbers = numbers if kept else [use.index, *numbers[:-1]]
    for number, value in zip(numbers, states):
        temporaries[number : number + 1] = [Type(value.dtype, (*shape[:place], *shape[place + 1 :], panels))]
    along = [c.axis for c in use.at if c.axis != len(reader.rows)]
    parts = [(number, value) for number, value in zip(numbers, states)]
    kernels[one.reader] = _merging(reader, along, parts, panels)
    kernels[one.products] = _with_panels(products, reader, one, (along, parts, panels), kept)


def _temporaries_read(kernel: KernelPlan) -> Iterator[ArrayUse]:
    return (use for use in kernel.arrays[: kernel.inputs] if use.kind == "temporary")


def _states(reader: KernelPlan) -> list[Value]:
    """The values of a panel that the reader merges."""
    (phase,) = reader.looped
    return [v for use in phase.folds for v in (use.inputs if phase.tile_phases else use.accumulators)]


def _merging(
    reader: KernelPlan, along: Sequence[int | None], parts: Sequence[tuple[int, Value]], panels: Dim
) -> KernelPlan:
    """The reader, which merges states of panels instead of folding elements."""
    (phase,) = reader.looped
    stored = [store.value for store in phase.row_stores]
    wanted = {v.name for v in phase.row.args} | set(stored) if phase.row else set(stored)
    needed = [load for load in reader.loads if load.value.name in wanted]
    used = _names(reader)
    at = (*(IterationIndex(0, 1, a) for a in along), IterationIndex(0, 1, len(reader.rows)))
    arrays, loads = [reader.arrays[x.operand] for x in needed], [replace(x, operand=k) for k, x in enumerate(needed)]
    for number, value in parts:
        name = _fresh("part", used)
        loads.append(Load(Value(name, value.dtype), len(arrays)))
        arrays.append(ArrayUse(name, value.dtype, "temporary", number, (), at))
    states = iter([load.value for load in loads[len(needed) :]])
    folds = [replace(use, inputs=tuple(next(states) for _ in use.accumulators)) for use in phase.folds]
    values = tuple(load.value for load in loads[len(needed) :])
    moved = len(arrays) - reader.inputs
    merged = Phase(
        Body(values, values, ()),
        folds=tuple(folds),
        row=phase.row,
        row_stores=tuple(replace(store, operand=store.operand + moved) for store in phase.row_stores),
    )
    changed = replace(
        reader,
        columns=(panels,),
        inputs=len(arrays),
        arrays=(*arrays, *reader.arrays[reader.inputs :]),
        loads=tuple(loads),
        positions=tuple(p for p in reader.positions if p.value.name in wanted),
        scalars=tuple(s for s in reader.scalars if s.value.name in wanted),
        resident=(merged,),
        looped=(merged,),
        rereads=(),
    )
    return replace(changed, digest=digest_of(changed))


def _with_panels(
    products: KernelPlan,
    reader: KernelPlan,
    one: FoldedProduct,
    parts: tuple[Sequence[int | None], Sequence[tuple[int, Value]], Dim],
    read_elsewhere: bool,
) -> KernelPlan:
    """The kernel of the products, which stores states of panels, and the elements only if they are `read_elsewhere`."""
    (phase,), (along, states, panels) = products.resident, parts
    moved = _Moved(products, reader, one)
    outputs = [k for k in range(products.inputs, len(products.arrays)) if read_elsewhere or k != one.store.operand]
    arrays = [*products.arrays[: products.inputs], *moved.arrays]
    place = {k: len(arrays) + n for n, k in enumerate(outputs)}
    arrays += [products.arrays[k] for k in outputs]
    ranks = len(products.rows) + len(products.columns)
    at = (*(IterationIndex(0, 1, one.axes[a]) for a in along if a is not None), IterationIndex(0, 1, ranks))
    stores = []
    for number, value in states:
        stores.append(Store(moved.name(value.name), len(arrays)))
        arrays.append(ArrayUse(_fresh("part", moved.used), value.dtype, "temporary", number, (), at))
    inner = tuple(moved.phase(part) for part in panel_phases(reader))
    before = phase.panel_folds
    if before is not None:
        inner = (*before.phases, *inner)
        stores = [*(replace(s, operand=place[s.operand]) for s in before.stores), *stores]
    stored_rows = tuple(replace(s, operand=place[s.operand]) for s in phase.row_stores if s.operand in place)
    folded = PanelFolds(one.axes[len(reader.rows)], inner, tuple(stores))
    changed = replace(
        products,
        inputs=products.inputs + len(moved.arrays),
        arrays=tuple(arrays),
        loads=(*products.loads, *moved.loads),
        positions=(*products.positions, *moved.positions),
        scalars=(*products.scalars, *moved.scalars),
        resident=(replace(phase, row_stores=stored_rows, panel_folds=folded),),
        looped=(),
        ranks=(panels,),
    )
    return replace(changed, digest=digest_of(changed))


class _Moved:
    """What a reader's panels read and define, under names that the kernel of the products does not have."""

    def __init__(self, products: KernelPlan, reader: KernelPlan, one: FoldedProduct):
        self.products, self.reader, self.axes = products, reader, one.axes
        self.used = _names(products)
        self.names = {one.load.value.name: one.store.value}
        self.arrays: list[ArrayUse] = []
        self.loads: list[Load] = []
        self.positions: list[Position] = []
        wanted = names_read_of(panel_phases(reader))
        for load in reader.loads:
            if load.value.name in wanted and load is not one.load:
                self._load(load)
        for p in reader.positions:
            if p.value.name in wanted:
                self.positions.append(Position(self.value(p.value), one.axes[p.axis]))
        scalars = [s for s in reader.scalars if s.value.name in wanted]
        self.scalars = [replace(s, value=self.value(s.value)) for s in scalars]

    def _load(self, load: Load) -> None:
        """Load what the products' kernel does not load yet."""
        use = self.reader.arrays[load.operand]
        at = tuple(replace(c, axis=None if c.axis is None else self.axes[c.axis]) for c in use.at)
        for known in self.products.loads:
            own = self.products.arrays[known.operand]
            if (own.kind, own.index, own.views, own.at) == (use.kind, use.index, use.views, at):
                self.names[load.value.name] = known.value.name
                return
        value = self.value(load.value)
        self.loads.append(Load(value, self.products.inputs + len(self.arrays)))
        self.arrays.append(replace(use, name=value.name, at=at))

    def name(self, name: str) -> str:
        if name not in self.names:
            self.names[name] = _fresh(name, self.used)
        return self.names[name]

    def value(self, v: Value) -> Value:
        return replace(v, name=self.name(v.name))

    def values(self, values: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(map(self.value, values))

    def body(self, body: Body) -> Body:
        for i in body.instructions:
            self.name(i.target)
        instructions = tuple(i.renamed(self.names) for i in body.instructions)
        return Body(self.values(body.args), self.values(body.results), instructions)

    def reduction(self, use: Reduction) -> Reduction:
        return replace(use, inputs=self.values(use.inputs), accumulators=self.values(use.accumulators))

    def phase(self, phase: Phase) -> Phase:
        folds = tuple(map(self.reduction, phase.folds))
        return Phase(self.body(phase.element), folds=folds, row=None if phase.row is None else self.body(phase.row))


def _names(kernel: KernelPlan) -> set[str]:
    """The names of a kernel: of what it reads and defines."""
    names = {use.name for use in kernel.arrays}
    names |= {x.value.name for part in (kernel.loads, kernel.positions, kernel.scalars) for x in part}
    for phase in (*kernel.resident, *kernel.looped):
        inner = phase.panel_folds.phases if phase.panel_folds else ()
        for part in (phase, *phase.tile_phases, *inner):
            names |= {v.name for use in part.folds for v in (*use.inputs, *use.accumulators)}
            for body in (*part.bodies, *([part.row] if part.row else [])):
                names |= body.targets | {v.name for v in (*body.args, *body.results)}
    return names


def _fresh(name: str, used: set[str]) -> str:
    """A stem and a number, like all names of values, that are not taken; they are afterwards."""
    head, _, number = name.rpartition("_")
    stem = head if number.isdigit() else name
    fresh = next(f for f in (name, *(f"{stem}_{k}" for k in range(len(used) + 1))) if f not in used and f != stem)
    used.add(fresh)
    return fresh
