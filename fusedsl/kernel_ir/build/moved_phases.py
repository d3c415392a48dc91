"""Phases of one kernel that run in another one: their loads, positions and numbers, under names that are free there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..folded_products import FoldedProduct, names_read_of
from ..kernel import Load, Position
from ..phase import Body, Phase, Reduction, Value
from ..plan import ArrayUse, KernelPlan


class MovedPhases:
    """What a reader's phases read and define, under names that the kernel of the products does not have."""

    def __init__(self, products: KernelPlan, reader: KernelPlan, one: FoldedProduct, phases: Sequence[Phase]):
        self.products, self.reader, self.one, self.axes = products, reader, one, one.axes
        self.used = names_of(products)
        self.names = {one.load.value.name: one.store.value}
        self.arrays: list[ArrayUse] = []
        self.loads: list[Load] = []
        self.positions: list[Position] = []
        wanted = names_read_of(phases)
        for load in reader.loads:
            if load.value.name in wanted and load is not one.load:
                self._load(load)
        for p in reader.positions:
            if p.value.name in wanted:
                self.positions.append(Position(self.value(p.value), one.axes[p.axis]))
        scalars = [s for s in reader.scalars if s.value.name in wanted]
        self.scalars = [replace(s, value=self.value(s.value)) for s in scalars]

    def _load(self, load: Load) -> None:
        """Load what is not loaded yet."""
        use = self.array(load.operand)
        arrays = [*self.products.arrays[: self.products.inputs], *self.arrays]
        for known in (*self.products.loads, *self.loads):
            if _element(arrays[known.operand]) == _element(use):
                self.names[load.value.name] = known.value.name
                return
        value = self.value(load.value)
        self.loads.append(Load(value, self.products.inputs + len(self.arrays)))
        self.arrays.append(replace(use, name=value.name))

    def operands(self, read_elsewhere: bool) -> tuple[list[ArrayUse], dict[int, int]]:
        """The operands of both kernels, and the new number of each output of the products' kernel.

        The products themselves are one of them only if they are `read_elsewhere`.
        """
        products, dropped = self.products, None if read_elsewhere else self.one.store.operand
        outputs = [k for k in range(products.inputs, len(products.arrays)) if k != dropped]
        inputs = [*products.arrays[: products.inputs], *self.arrays]
        new_operand = {k: len(inputs) + n for n, k in enumerate(outputs)}
        return [*inputs, *(products.arrays[k] for k in outputs)], new_operand

    def joined(self, arrays: Sequence[ArrayUse]) -> KernelPlan:
        """The kernel of the products, with these operands and what is read of the reader."""
        products = self.products
        return replace(
            products,
            inputs=products.inputs + len(self.arrays),
            arrays=tuple(arrays),
            loads=(*products.loads, *self.loads),
            positions=(*products.positions, *self.positions),
            scalars=(*products.scalars, *self.scalars),
            looped=(),
        )

    def array(self, operand: int) -> ArrayUse:
        """An array of the reader, along the axes of the products."""
        use = self.reader.arrays[operand]
        return replace(use, at=tuple(replace(c, axis=None if c.axis is None else self.axes[c.axis]) for c in use.at))

    def name(self, name: str) -> str:
        if name not in self.names:
            self.names[name] = fresh_name(name, self.used)
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
        """A phase without its stores."""
        folds = tuple(map(self.reduction, phase.folds))
        return Phase(self.body(phase.element), folds=folds, row=None if phase.row is None else self.body(phase.row))


def _element(use: ArrayUse) -> tuple:
    """What tells which element of an array is read, in whatever shape with axes of extent 1."""
    views, at = use.views, use.at
    if len(views) == 1 and views[0][0] == "reshape" and use.gathered is None:
        shape = [(n, c) for n, c in zip(views[0][1], at) if n != 1 or c.axis is not None or c.start != 0]
        views, at = (("reshape", tuple(n for n, _ in shape)),), tuple(c for _, c in shape)
    return use.kind, use.index, views, at, use.gathered


def names_of(kernel: KernelPlan) -> set[str]:
    """The names of a kernel: of what it reads and defines."""
    names = {use.name for use in kernel.arrays}
    names |= {x.value.name for part in (kernel.loads, kernel.positions, kernel.scalars) for x in part}
    for phase in (*kernel.resident, *kernel.looped):
        inner = phase.panel_folds.phases if phase.panel_folds else ()
        inner += phase.groups.phases if phase.groups else ()
        for part in (phase, *phase.tile_phases, *inner):
            names |= {v.name for use in part.folds for v in (*use.inputs, *use.accumulators)}
            for body in (*part.bodies, *([part.row] if part.row else [])):
                names |= body.targets | {v.name for v in (*body.args, *body.results)}
    return names


def fresh_name(name: str, used: set[str]) -> str:
    """A stem and a number, like all names of values, that are not taken; they are afterwards."""
    head, _, number = name.rpartition("_")
    stem = head if number.isdigit() else name
    fresh = next(f for f in (name, *(f"{stem}_{k}" for k in range(len(used) + 1))) if f not in used and f != stem)
    used.add(fresh)
    return fresh
