"""Folds of products where they are computed: states of panels of columns, which the kernel that folded them merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...ir.dims import Dim, expression
from ...ir.graph import Type
from ..folded_products import FoldedProduct, folded_product, is_read_elsewhere, panel_phases
from ..kernel import Load
from ..phase import PANEL_COLUMNS, Body, PanelFolds, Phase, Store, Value
from ..plan import ArrayUse, IterationIndex, KernelPlan
from .build_plan import digest_of
from .moved_phases import MovedPhases, fresh_name, names_of


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
    read_elsewhere = is_read_elsewhere(kernels, one)
    states = _states(reader)
    numbers = list(range(len(temporaries), len(temporaries) + len(states)))
    numbers = numbers if read_elsewhere else [use.index, *numbers[:-1]]
    for number, value in zip(numbers, states):
        temporaries[number : number + 1] = [Type(value.dtype, (*shape[:place], *shape[place + 1 :], panels))]
    along = [c.axis for c in use.at if c.axis != len(reader.rows)]
    parts = [(number, value) for number, value in zip(numbers, states)]
    kernels[one.reader] = _merging(reader, along, parts, panels)
    kernels[one.products] = _with_panels(products, reader, one, (along, parts, panels), read_elsewhere)


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
    used = names_of(reader)
    at = (*(IterationIndex(0, 1, a) for a in along), IterationIndex(0, 1, len(reader.rows)))
    arrays, loads = [reader.arrays[x.operand] for x in needed], [replace(x, operand=k) for k, x in enumerate(needed)]
    for number, value in parts:
        name = fresh_name("part", used)
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
    inner = panel_phases(reader)
    moved = MovedPhases(products, reader, one, inner)
    arrays, new_operand = moved.operands(read_elsewhere)
    ranks = len(products.rows) + len(products.columns)
    at = (*(IterationIndex(0, 1, one.axes[a]) for a in along if a is not None), IterationIndex(0, 1, ranks))
    stores = []
    for number, value in states:
        stores.append(Store(moved.name(value.name), len(arrays)))
        arrays.append(ArrayUse(fresh_name("part", moved.used), value.dtype, "temporary", number, (), at))
    inner = tuple(map(moved.phase, inner))
    before = phase.panel_folds
    if before is not None:
        inner = (*before.phases, *inner)
        stores = [*(replace(s, operand=new_operand[s.operand]) for s in before.stores), *stores]
    row_stores = tuple(replace(s, operand=new_operand[s.operand]) for s in phase.row_stores if s.operand in new_operand)
    folded = PanelFolds(one.axes[len(reader.rows)], inner, tuple(stores))
    resident = (replace(phase, row_stores=row_stores, panel_folds=folded),)
    changed = replace(moved.joined(arrays), resident=resident, ranks=(panels,))
    return replace(changed, digest=digest_of(changed))
