"""The outputs of a call: which results are written straight to the arrays of `out=`, and which are copied there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError
from ..kernel_ir.plan import KernelPlan, Plan
from ..runtime.arrays import ArrayFacts, Facts
from ..runtime.check_outputs import OutputType, check_out
from ..runtime.layout import NeedsCopy, view
from ..runtime.memory_overlap import overlap
from ..runtime.outputs import library_and_device
from . import call_steps
from .call_layouts import layout_of


@dataclass(frozen=True)
class CallOutputs:
    """The array that each result is written to, or None for a new one; what is filled after the launches."""

    destinations: list[ArrayFacts | None]
    deferred: list[tuple[Any, int]]  # (out, result): copied from a new array


def named_outputs(outs: Sequence[Any] | None, in_lists: str = "") -> dict[str, Any] | None:
    """The outputs by their names in messages; `in_lists` is that in the lists of a foreach."""
    return None if outs is None else {
        ("out" if len(outs) == 1 else f"out[{k}]") + in_lists: out for k, out in enumerate(outs)
    }  # fmt: skip


def check_outputs(
    plan: Plan, shapes: Sequence[tuple[int, ...]], outs: Mapping[str, Any] | None, facts: Facts
) -> CallOutputs:
    """The outputs of a call; ArgumentError or DeviceError if it may not write one of `outs`."""
    chosen = CallOutputs([None] * len(shapes), [])
    if outs is None:
        return chosen
    if len(outs) != len(shapes):
        raise ArgumentError(
            f"{len(outs)} outputs for {len(shapes)} results",
            "argument.out",
            help="out= takes an array, or a tuple with an array or None per result",
        )
    library, device = library_and_device(facts)
    others: list[ArrayFacts] = []
    for k, (name, out) in enumerate(outs.items()):
        if out is None:
            continue
        result = OutputType(shapes[k], plan.results[k].dtype, device, library)
        checked = check_out(out, result, facts, others, name)
        others.append(checked)
        same = [i for i, a in enumerate(facts.values()) if isinstance(a, ArrayFacts) and _same_memory(checked, a)]
        if not checked.copied and all(in_place(plan, i, k) for i in same) and _storable(plan, k, checked, facts):
            chosen.destinations[k] = checked
        else:
            chosen.deferred.append((out, k))
    return chosen


def _same_memory(out: ArrayFacts, a: ArrayFacts) -> bool:
    return not a.by_value and overlap(out, a) is not None


def _storable(plan: Plan, k: int, out: ArrayFacts, facts: Facts) -> bool:
    """Whether kernels can write a result there: a result with views at the end is written through them."""
    uses = [u for kernel in plan.kernels for u in kernel.arrays if u.kind == "result" and u.index == k and u.views]
    extents = call_steps.extents_of(list(facts.values())) if uses else {}
    try:
        for use in uses:
            view(layout_of(out), use.views, extents)
    except NeedsCopy:
        return False
    return True


def in_place(plan: Plan, argument: int, result: int) -> bool:
    """Whether a result may be written over an argument.

    The argument must be read at the same positions only, and never later, neither in another kernel nor in the one that
    writes. Kernels that share the writer's launch run at the same time.
    """
    uses = ((k, u) for k, kernel in enumerate(plan.kernels) for u in kernel.arrays)
    stores = ((k, u) for k, u in uses if (u.kind, u.index) == ("result", result))
    writer, store = next(stores, (None, None))
    if writer is None or store is None:  # a plan without kernels
        return False
    beside = next(launch for launch in plan.shared if writer in launch)
    for k, kernel in enumerate(plan.kernels):
        for number, use in enumerate(kernel.arrays):
            if k < beside[0] or (use.kind, use.index) != ("argument", argument):
                continue
            if k != writer or use.gathered is not None or use.views != store.views or use.at != store.at:
                return False
            if _read_after(kernel, number, kernel.arrays.index(store)):
                return False
    return True


def _read_after(kernel: KernelPlan, read: int, written: int) -> bool:
    """Whether a phase of a kernel loads one array after an earlier phase has stored the other.

    Resident rows are read at the first phase that uses them, looped rows at each.
    """
    names = {x.value.name for x in kernel.loads if x.operand == read}
    for phases, first in ((kernel.resident, min), (kernel.looped, max)):
        reading = [k for k, phase in enumerate(phases) if not names.isdisjoint(phase.names_read)]
        writing = [k for k, phase in enumerate(phases) if written in phase.written]
        if reading and writing and first(reading) > min(writing):
            return True
    return False
