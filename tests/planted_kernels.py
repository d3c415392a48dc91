"""Faults of plans: kernels that run too early, arrays that are read or written elsewhere, names without a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planted_plans import SLICED, mutations

from fusedsl.ir.dims import Symbol
from fusedsl.ir.types import INT32
from fusedsl.kernel_ir.phase import Body, Reduction
from fusedsl.kernel_ir.plan import ArrayUse, IterationIndex, KernelPlan, Plan

Change = Callable[[Plan], Plan | None]
OTHER = Symbol(7, 3)


def in_kernels(change: Callable[[KernelPlan], KernelPlan | None]) -> Change:
    """Changes the first kernel that can be changed."""

    def planted(plan: Plan) -> Plan | None:
        for k, kernel in enumerate(plan.kernels):
            made = change(kernel)
            if made is not None and made != kernel:
                return replace(plan, kernels=(*plan.kernels[:k], made, *plan.kernels[k + 1 :]))
        return None

    return planted


def in_arrays(change: Callable[[ArrayUse], ArrayUse | None], written: bool | None = None) -> Change:
    """Changes the first array that can be changed, of those that are written or read where that matters."""

    def changed(kernel: KernelPlan) -> KernelPlan | None:
        for k, use in enumerate(kernel.arrays):
            if written is None or written == (k >= kernel.inputs):
                made = change(use)
                if made is not None and made != use:
                    return replace(kernel, arrays=(*kernel.arrays[:k], made, *kernel.arrays[k + 1 :]))
        return None

    return in_kernels(changed)


def _dependent(plan: Plan) -> bool:
    """Whether a kernel reads what another one writes."""
    return any(use.kind == "temporary" for kernel in plan.kernels for use in kernel.arrays[: kernel.inputs])


def _reversed(plan: Plan) -> Plan | None:
    if not _dependent(plan):
        return None
    return replace(plan, kernels=plan.kernels[::-1], launches=plan.launches[::-1])


def _in_one_launch(plan: Plan) -> Plan | None:
    return replace(plan, launches=(len(plan.kernels),)) if _dependent(plan) else None


def _scatter_too_early(plan: Plan) -> Plan | None:
    """A scatter in the launch before the one that stores what it merges into."""
    for k, kernel in enumerate(plan.kernels[1:], 1):
        if kernel.scatters and plan.launches[k - 1 : k + 1] == (1, 1):
            return replace(plan, kernels=(*plan.kernels[: k - 1], kernel, plan.kernels[k - 1], *plan.kernels[k + 1 :]))
    return None


def _scatters_at_once(plan: Plan) -> Plan | None:
    """Two scatters into one array in one launch."""
    for k, kernel in enumerate(plan.kernels):
        if kernel.scatters and len(plan.launches) == len(plan.kernels):
            launches = (*plan.launches[:k], 2, *plan.launches[k + 1 :])
            return replace(plan, kernels=(*plan.kernels[:k], kernel, *plan.kernels[k:]), launches=launches)
    return None


def _without(which: int) -> Change:
    def planted(plan: Plan) -> Plan:
        kernels = tuple(k for n, k in enumerate(plan.kernels) if n != which % len(plan.kernels))
        return replace(plan, kernels=kernels, launches=(1,) * len(kernels))

    return planted


def _twice(plan: Plan) -> Plan:
    return replace(plan, kernels=(*plan.kernels, plan.kernels[-1]), launches=(*plan.launches, 1))


def in_axes(change: Callable[[tuple], tuple], written: bool) -> Change:
    """Changes the first two coordinates of an array, where they follow axes of unlike extents."""

    def changed(kernel: KernelPlan) -> KernelPlan | None:
        extents = (*kernel.rows, *kernel.columns)
        for k, use in enumerate(kernel.arrays):
            axes = [c.axis for c in use.at[:2]]
            inside = len(axes) == 2 and all(a is not None and a < len(extents) for a in axes)
            if written == (k >= kernel.inputs) and inside and extents[axes[0]] != extents[axes[1]]:
                made = replace(use, at=(*change(use.at[:2]), *use.at[2:]))
                return replace(kernel, arrays=(*kernel.arrays[:k], made, *kernel.arrays[k + 1 :]))
        return None

    return in_kernels(changed)


def _exchanged(at: tuple) -> tuple:
    return at[1], at[0]


def _merged(at: tuple) -> tuple:
    return at[0], replace(at[1], axis=at[0].axis)


def _at(change: Callable[[IterationIndex], IterationIndex]) -> Callable[[ArrayUse], ArrayUse | None]:
    """Changes the first coordinate that runs over a whole axis."""

    def changed(use: ArrayUse) -> ArrayUse | None:
        for k, c in enumerate(use.at):
            if c.axis is not None and (c.start, c.step) == (0, 1):
                return replace(use, at=(*use.at[:k], change(c), *use.at[k + 1 :]))
        return None

    return changed


def _of_kind(kind: str, change: Callable[[ArrayUse], ArrayUse]) -> Callable[[ArrayUse], ArrayUse | None]:
    return lambda use: change(use) if use.kind == kind else None


def _temporaries(**changes) -> Change:
    def planted(plan: Plan) -> Plan | None:
        if not plan.temporaries:
            return None
        first, *rest = plan.temporaries
        made = {name: change(first) for name, change in changes.items()}
        return replace(plan, temporaries=(replace(first, **made), *rest))

    return planted


def _results(**changes) -> Change:
    def planted(plan: Plan) -> Plan:
        first, *rest = plan.results
        return replace(plan, results=(replace(first, **{n: change(first) for n, change in changes.items()}), *rest))

    return planted


def _exchanged_results(plan: Plan) -> Plan | None:
    if len(plan.results) < 2 or plan.results[0].shape == plan.results[1].shape:
        return None
    return replace(plan, results=plan.results[::-1])


def _loads(operand: Callable[[KernelPlan], int]) -> Change:
    def changed(kernel: KernelPlan) -> KernelPlan | None:
        if not kernel.loads:
            return None
        first, *rest = kernel.loads
        return replace(kernel, loads=(replace(first, operand=operand(kernel)), *rest))

    return in_kernels(changed)


def _without_loads(kernel: KernelPlan) -> KernelPlan | None:
    """A body reads a value that nothing gives."""
    return replace(kernel, loads=kernel.loads[1:]) if kernel.loads else None


def _stores(change: Callable[[KernelPlan, int], int]) -> Change:
    """Another operand for the first store of the phases of a resident row."""

    def changed(kernel: KernelPlan) -> KernelPlan | None:
        for p, phase in enumerate(kernel.resident):
            if phase.stores:
                first, *rest = phase.stores
                moved = replace(phase, stores=(replace(first, operand=change(kernel, first.operand)), *rest))
                return replace(kernel, resident=(*kernel.resident[:p], moved, *kernel.resident[p + 1 :]))
        return None

    return in_kernels(changed)


def _stored_name(kernel: KernelPlan) -> KernelPlan | None:
    """A store of a value that no body defines."""
    for p, phase in enumerate(kernel.resident):
        if phase.stores:
            first, *rest = phase.stores
            named = replace(phase, stores=(replace(first, value="nothing_9"), *rest))
            return replace(kernel, resident=(*kernel.resident[:p], named, *kernel.resident[p + 1 :]))
    return None


def _without_stores(kernel: KernelPlan) -> KernelPlan | None:
    """A result that no phase stores."""
    for p, phase in enumerate(kernel.resident):
        if phase.stores:
            phases = (*kernel.resident[:p], replace(phase, stores=()), *kernel.resident[p + 1 :])
            return replace(kernel, resident=phases)
    return None


def _without_bodies(kernel: KernelPlan) -> KernelPlan | None:
    """A body that leaves out the line that defines its result."""
    for p, phase in enumerate(kernel.resident):
        if phase.element.instructions:
            body = replace(phase.element, instructions=phase.element.instructions[:-1])
            phases = (*kernel.resident[:p], replace(phase, element=body), *kernel.resident[p + 1 :])
            return replace(kernel, resident=phases)
    return None


def _extents(change: Callable[[tuple], tuple], name: str) -> Change:
    def changed(kernel: KernelPlan) -> KernelPlan | None:
        extents = getattr(kernel, name)
        return replace(kernel, **{name: change(extents)}) if extents else None

    return in_kernels(changed)


def _positions(kernel: KernelPlan) -> KernelPlan | None:
    first, *rest = kernel.positions or (None,)
    return None if first is None else replace(kernel, positions=(replace(first, axis=9), *rest))


def _scalars(kernel: KernelPlan) -> KernelPlan | None:
    first, *rest = kernel.scalars or (None,)
    return None if first is None else replace(kernel, scalars=(replace(first, kind="extent", source=OTHER), *rest))


# -- what is well formed, and means something else


def _turned(use: ArrayUse) -> ArrayUse | None:
    """Two axes of what is read exchanged, though they are as long as one another."""
    if len(use.at) < 2 or None in (use.at[0].axis, use.at[1].axis):
        return None
    return replace(use, at=(*_exchanged(use.at[:2]), *use.at[2:]))


def _strides(kernel: KernelPlan) -> KernelPlan | None:
    """The strides along two axes of an array whose addresses are computed exchanged."""
    strides = [s for s in kernel.scalars if s.kind == "stride"]
    if len(strides) < 2:
        return None
    a, b = strides[:2]
    other = {a: replace(a, source=b.source), b: replace(b, source=a.source)}
    return replace(kernel, scalars=tuple(other.get(s, s) for s in kernel.scalars))


def _in_bodies(change: Callable[[Body], Body | None]) -> Change:
    """Changes the element or the row body of a resident phase, the first that can be changed."""

    def changed(kernel: KernelPlan) -> KernelPlan | None:
        for p, phase in enumerate(kernel.resident):
            for name in ("element", "row"):
                body = getattr(phase, name)
                made = None if body is None else change(body)
                if made is not None:
                    phases = (*kernel.resident[:p], replace(phase, **{name: made}), *kernel.resident[p + 1 :])
                    return replace(kernel, resident=phases)
        return None

    return in_kernels(changed)


def _line(body: Body) -> Body | None:
    """The operands of a difference or a quotient exchanged."""
    for k, i in enumerate(body.instructions):
        if i.op in ("subtract", "divide") and i.reads_names_only and i.args[0] != i.args[1]:
            made = replace(i, args=i.args[::-1])
            return replace(body, instructions=(*body.instructions[:k], made, *body.instructions[k + 1 :]))
    return None


def _in_folds(change: Callable[[Reduction], Reduction | None]) -> Change:
    def changed(kernel: KernelPlan) -> KernelPlan | None:
        for p, phase in enumerate(kernel.resident):
            for f, use in enumerate(phase.folds):
                made = change(use)
                if made is not None:
                    new = replace(phase, folds=(*phase.folds[:f], made, *phase.folds[f + 1 :]))
                    return replace(kernel, resident=(*kernel.resident[:p], new, *kernel.resident[p + 1 :]))
        return None

    return in_kernels(changed)


def _identity(use: Reduction) -> Reduction | None:
    return replace(use, identity=("float32(0.25)",)) if use.identity == ("float32(0.0)",) else None


def _merge(use: Reduction) -> Reduction | None:
    """A sum that keeps its first part alone."""
    if use.name != "sum":
        return None
    first, *_ = use.combine.args
    return replace(use, combine=replace(use.combine, instructions=(), results=(first,)))


SHIFTED = frozenset({"weights over columns", "attention received", "two norms in turn"})  # a shift is taken away there

MEANINGS = mutations(
    {
        "two axes of what is read exchanged, though alike": in_arrays(_turned, written=False),
        "the strides along two axes exchanged": in_kernels(_strides),
        "the operands of a line exchanged": _in_bodies(_line),
        "the identity of a sum": _in_folds(_identity),
        "a sum of one part": _in_folds(_merge),
    },
    {"the identity of a sum": SHIFTED},
)

PLANS = mutations(
    {
        "the order of kernels reversed": _reversed,
        "what is read in the launch that writes it": _in_one_launch,
        "a scatter before what it merges into": _scatter_too_early,
        "two scatters into one array in one launch": _scatters_at_once,
        "launches of more kernels than there are": lambda plan: replace(plan, launches=(*plan.launches, 1)),
        "the first kernel left out": _without(0),
        "the last kernel left out": _without(-1),
        "a kernel twice": _twice,
        "the axes of what is read exchanged": in_axes(_exchanged, written=False),
        "the axes of what is written exchanged": in_axes(_exchanged, written=True),
        "two axes of what is read merged": in_axes(_merged, written=False),
        "two axes of what is written merged": in_axes(_merged, written=True),
        "a read along an axis that the kernel has not": in_arrays(_at(lambda c: replace(c, axis=9)), written=False),
        "a write along an axis that the kernel has not": in_arrays(_at(lambda c: replace(c, axis=9)), written=True),
        "a read one further": in_arrays(_at(lambda c: replace(c, start=1)), written=False),
        "a write one further": in_arrays(_at(lambda c: replace(c, start=1)), written=True),
        "a read before the first element": in_arrays(_at(lambda c: replace(c, start=-1)), written=False),
        "a read of every second element": in_arrays(_at(lambda c: replace(c, step=2)), written=False),
        "a write backwards from 0": in_arrays(_at(lambda c: replace(c, step=-1)), written=True),
        "a write at one place": in_arrays(_at(lambda c: replace(c, axis=None)), written=True),
        "a read with a coordinate too few": in_arrays(
            lambda use: replace(use, at=use.at[:-1]) if use.at else None, written=False
        ),
        "a read of an argument that there is not": in_arrays(_of_kind("argument", lambda use: replace(use, index=40))),
        "a read of a temporary that nothing writes": in_arrays(
            _of_kind("temporary", lambda use: replace(use, index=40)), written=False
        ),
        "a write to a result that there is not": in_arrays(_of_kind("result", lambda use: replace(use, index=40))),
        "a write to an argument": in_arrays(_of_kind("result", lambda use: replace(use, kind="argument"))),
        "a read of another dtype": in_arrays(lambda use: replace(use, dtype=INT32), written=False),
        "a write of another dtype": in_arrays(lambda use: replace(use, dtype=INT32), written=True),
        "a temporary of another dtype": _temporaries(dtype=lambda t: INT32),
        "a temporary that is too small": _temporaries(shape=lambda t: (1,) * len(t.shape)),
        "a temporary without an axis": _temporaries(shape=lambda t: t.shape[1:]),
        "a temporary that is left out": lambda plan: replace(plan, temporaries=()) if plan.temporaries else None,
        "a result of another dtype": _results(dtype=lambda t: INT32),
        "a result of another extent": _results(shape=lambda t: (OTHER, *t.shape[1:])),
        "two results exchanged": _exchanged_results,
        "a load of an array that is written": _loads(lambda kernel: kernel.inputs),
        "a load of an array that there is not": _loads(lambda kernel: len(kernel.arrays) + 3),
        "a value that nothing loads": in_kernels(_without_loads),
        "a store to an array that is read": _stores(lambda kernel, operand: 0),
        "a store to an array that there is not": _stores(lambda kernel, operand: len(kernel.arrays) + 3),
        "a store of a name without a value": in_kernels(_stored_name),
        "an array that no phase stores": in_kernels(_without_stores),
        "a result that no line defines": in_kernels(_without_bodies),
        "another extent of the rows": _extents(lambda extents: (OTHER, *extents[1:]), "rows"),
        "another extent of the columns": _extents(lambda extents: (OTHER, *extents[1:]), "columns"),
        "an axis of the columns left out": _extents(lambda extents: extents[1:], "columns"),
        "the position on an axis that there is not": in_kernels(_positions),
        "the extent of an argument that there is not": in_kernels(_scalars),
        "fewer inputs than are read": in_kernels(lambda kernel: replace(kernel, inputs=kernel.inputs - 1)),
    },
    {"a read one further": SLICED},
)
