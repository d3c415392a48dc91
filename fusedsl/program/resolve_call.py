"""Resolves a call before any kernel is chosen: its plan, its arrays, and every check of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..errors import ArgumentError, DeviceError
from ..hardware import Hardware
from ..ir.dims import Symbol, evaluate
from ..kernel_ir.plan import KernelPlan, Plan
from ..runtime import array_copies
from ..runtime.argument_keys import owned_address
from ..runtime.arrays import CPU, ArrayFacts, Facts, describe
from ..runtime.bind_shapes import BoundKernel
from ..runtime.driver import driver
from ..runtime.free_memory import require
from ..runtime.host_device_copies import device_empty
from ..runtime.launch_records import workspace_size
from ..runtime.layout import ALIGNMENT, ArrayLayout, NeedsCopy, bound_strides, contiguous, view
from ..runtime.memory_overlap import overlap, same_elements, span
from ..runtime.outputs import Allocator, allocator, check_out, common_order, library_and_device, packed_strides
from . import call_steps
from .kernel_builder import KernelCompiler
from .plans import Plans


@dataclass
class ResolvedCall:
    """A call with its plan, arrays and bound kernels: all checks have passed, and no schedule is chosen."""

    plan: Plan
    extents: Mapping[Symbol, int]
    arguments: list  # facts; of copies, if a view of the plan or the memory needs one
    bounds: list[BoundKernel]  # every kernel of the plan with the numbers of the call
    destinations: list[ArrayFacts | None]  # the output of each result, or None for a new array
    deferred_outputs: list[tuple[Any, int]]  # (out, result): copied from a new array after the launches
    allocators: list[Callable[[], Any]]  # of the results
    library: str
    device: tuple[str, int]
    not_repeatable: bool  # it copies arrays: the prepared call serves these arguments alone
    layouts: Mapping[tuple[str, int], ArrayLayout]  # by kind and index of each array
    kernel_compiler: KernelCompiler

    @property
    def facts(self) -> list:
        """The facts of the arguments, as kernels take them."""
        return self.arguments

    @property
    def payloads(self) -> list:
        """Addresses and numbers of the arguments."""
        return [owned_address(a) if isinstance(a, ArrayFacts) and not a.by_value else a.value for a in self.arguments]

    @property
    def foreign(self) -> tuple[tuple[int, ...], int]:
        """The arguments on a device that are known through a protocol alone, and the device."""
        indices = [
            k
            for k, a in enumerate(self.arguments)
            if isinstance(a, ArrayFacts) and a.library in ("dlpack", "interface")
        ]
        return (tuple(indices), self.device[1]) if self.device != CPU else ((), 0)

    @property
    def spans(self) -> list[tuple[int, int] | None]:
        """The byte span of each argument, from its address."""
        return [span(a) if isinstance(a, ArrayFacts) and not a.by_value else None for a in self.arguments]

    @property
    def in_place(self) -> list[tuple[int, int]]:
        """(argument, result) pairs that may be the same memory."""
        return [
            (k, r)
            for k, a in enumerate(self.arguments)
            for r, g in enumerate(self.destinations)
            if g is not None and isinstance(a, ArrayFacts) and same_elements(a, g) and in_place(self.plan, k, r)
        ]


def resolve_call(
    plans: Plans, facts: Facts, outs: Sequence[Any] | None, place_in_lists: str = "", listed: bool = False
) -> ResolvedCall:
    """The plan and the arrays of a call; raises the errors of its arguments. `place_in_lists` follows names of `outs`.

    A `listed` call (of a foreach) uses the plan for arbitrary extents for extents of 1, if it may.
    """
    resolved = _resolve_schedulable(plans, facts, outs, place_in_lists)
    hardware, arguments = _hardware(resolved.device), list(facts.values())
    if hardware and plans.use_generic_plan(
        resolved.plan, resolved.bounds, arguments, resolved.extents, hardware, listed
    ):
        return _resolve_schedulable(plans, facts, outs, place_in_lists, True)
    return resolved


def _resolve_schedulable(
    plans: Plans, facts: Facts, outs, place_in_lists: str, symbolic_units: bool = False
) -> ResolvedCall:
    """A resolved call whose plan has a schedule for each of its kernels."""
    resolved = _resolve(plans, facts, outs, place_in_lists, symbolic_units=symbolic_units)
    while resolved.device != CPU and any(k.attention or k.column_epilogue for k in resolved.plan.kernels):
        other = call_steps.fallback_formulation(resolved.plan, resolved.bounds, _hardware(resolved.device))
        if other is None:
            break
        resolved = _resolve(plans, facts, outs, place_in_lists, *other, symbolic_units)
    return resolved


def _resolve(
    plans: Plans,
    facts: Facts,
    outs,
    place_in_lists: str,
    together: bool = True,
    scores: str | None = None,
    symbolic_units: bool = False,
) -> ResolvedCall:
    library, device = library_and_device(facts)
    scores = scores or ("apart" if device == CPU else "level")
    _check_device(plans, device)
    arguments = list(facts.values())
    extents = call_steps.extents_of(arguments)
    plan = plans.plan(arguments, extents, together, scores, symbolic_units)
    call_steps.check_call(plan, extents)
    shapes = call_steps.result_shapes(plan, extents)
    arguments, packed = _pack(plan, arguments, extents, library)
    layouts = {("argument", k): layout_of(a) for k, a in enumerate(arguments) if isinstance(a, ArrayFacts)}
    destinations, deferred_outputs = outputs(plan, outs, shapes, (library, device), facts, place_in_lists)
    allocators = []
    for k, (shape, t) in enumerate(zip(shapes, plan.results)):
        order = None if destinations[k] is not None else result_order(plan, k, layouts, extents)
        allocators.append(result_allocator(library, device, shape, t.dtype, order))
        out = destinations[k]
        layouts["result", k] = layout_of(out) if out is not None else ArrayLayout(shape, packed_strides(shape, order))
    layouts |= temporary_layouts(plan, extents)
    not_repeatable = packed or bool(deferred_outputs) or any(isinstance(a, ArrayFacts) and a.copied for a in arguments)
    bounds = call_steps.bind_kernels(
        plan, layouts, extents, call_steps.specialization_group(plans.program_key, plans.options, plan)
    )
    return ResolvedCall(
        plan,
        extents,
        arguments,
        bounds,
        destinations,
        deferred_outputs,
        allocators,
        library,
        device,
        not_repeatable,
        layouts,
        plans.kernel_compiler,
    )


def _check_device(plans: Plans, device: tuple[str, int]) -> None:
    wanted = plans.options.device
    if wanted == "cpu" and device != CPU:
        raise DeviceError(
            f"the arrays are on {device[0]}:{device[1]}, and device is 'cpu'",
            "device.option",
            help="copy them to the CPU, or leave the option out",
        )


def _hardware(device: tuple[str, int]) -> Hardware | None:
    return None if device == CPU else call_steps.hardware_of(driver().facts(device[1]))


# -- memory


def require_memory(calls: Sequence[ResolvedCall]) -> None:
    """MemoryLimitError if the new results and temporaries of calls exceed the CPU's free memory."""
    on_cpu = [call for call in calls if call.device == CPU]
    pairs = [pair for call in on_cpu for pair in zip(call.allocators, call.destinations)]
    new = [make for make, given in pairs if given is None and isinstance(make, Allocator)]
    temporaries = sum(workspace_size(call.plan, call.extents)[0] for call in on_cpu)
    arrays = [make.description for make in new[:3]] + ["others"] * (len(new) > 3) + ["temporaries"] * (temporaries > 0)
    require(sum(make.size for make in new) + temporaries, " and ".join(arrays))


def result_allocator(library: str, device: tuple[str, int], shape, dtype, order=None) -> Callable[[], Any]:
    """The allocator of a result; for NumPy arrays computed on a device, of device memory."""
    if library == "numpy" and device != CPU:
        return lambda: device_empty(shape, dtype, device[1], order)
    return allocator(library, device, shape, dtype, order)


def layout_of(a: ArrayFacts) -> ArrayLayout:
    """The layout of a described array."""
    return ArrayLayout(a.shape, a.strides, 0, a.pointer % ALIGNMENT)


def temporary_layouts(plan: Plan, extents: Mapping[Symbol, int]) -> dict[tuple[str, int], ArrayLayout]:
    """The layouts of a call's temporaries: packed, in C order."""
    shapes = [tuple(evaluate(d, extents) for d in t.shape) for t in plan.temporaries]
    return {("temporary", k): contiguous(shape) for k, shape in enumerate(shapes)}


def _pack(plan: Plan, arguments: list, extents, library: str) -> tuple[list, bool]:
    """The arguments, with those made contiguous that a view of the plan needs so; whether there are any."""
    packed = False
    for use in (u for k in plan.kernels for u in k.arrays if u.kind == "argument" and u.views):
        a = arguments[use.index]
        try:
            view(layout_of(a), use.views, extents)
        except NeedsCopy:
            if a.device == CPU:
                require(prod(a.shape) * a.dtype.itemsize, f"a contiguous copy of {a.dtype}{list(a.shape)}")
            arguments[use.index] = describe(array_copies.packed(a.owner, library))
            packed = True
    return arguments, packed


# -- out


def outputs(
    plan: Plan, outs, shapes, where, facts, place_in_lists: str = ""
) -> tuple[list[ArrayFacts | None], list[tuple[Any, int]]]:
    """(the array that each result is written to, or None for a new one; the outputs to fill after the launches).

    Raises ArgumentError or DeviceError if one of `outs` may not be written by this call.
    """
    destinations: list[ArrayFacts | None] = [None] * len(shapes)
    deferred_outputs: list[tuple[Any, int]] = []
    if outs is None:
        return destinations, deferred_outputs
    if len(outs) != len(shapes):
        raise ArgumentError(
            f"{len(outs)} outputs for {len(shapes)} results",
            "argument.out",
            help="out= takes an array, or a tuple with an array or None per result",
        )
    others: list[ArrayFacts] = []
    for k, out in enumerate(outs):
        if out is None:
            continue
        name = ("out" if len(outs) == 1 else f"out[{k}]") + place_in_lists
        library, device = where
        checked = check_out(out, shapes[k], plan.results[k].dtype, device, facts, others, name, library)
        others.append(checked)
        same = [i for i, a in enumerate(facts.values()) if isinstance(a, ArrayFacts) and _same_memory(checked, a)]
        if not checked.copied and all(in_place(plan, i, k) for i in same) and _storable(plan, k, checked, facts):
            destinations[k] = checked
        else:
            deferred_outputs.append((out, k))
    return destinations, deferred_outputs


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
    stores = (
        (k, u)
        for k, kernel in enumerate(plan.kernels)
        for u in kernel.arrays
        if (u.kind, u.index) == ("result", result)
    )
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


def result_order(plan: Plan, result: int, layouts, extents) -> tuple[int, ...] | None:
    """The memory order (axes from far to near) that a new result shares with its operands; None is C order."""
    for kernel in plan.kernels:
        store = next((u for u in kernel.arrays if (u.kind, u.index) == ("result", result)), None)
        if store is None:
            continue
        if store.views or len(store.at) < 2:
            return None
        axes = (*kernel.rows, *kernel.columns, *kernel.ranks)
        shape = tuple(1 if c.axis is None else evaluate(axes[c.axis], extents) for c in store.at)
        operands = []
        for use in (u for u in kernel.arrays[: kernel.inputs] if u.gathered is None):
            strides, _ = bound_strides(use, layouts, extents, len(axes)) if use.kind == "argument" else (None, 0)
            if strides is not None:
                operands.append((shape, tuple(0 if c.axis is None else strides[c.axis] for c in store.at)))
        return common_order(operands, len(shape)) if operands else None
    return None
