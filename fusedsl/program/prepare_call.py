"""Prepares a call with new shapes: chooses, compiles and loads its kernels, and returns a prepared call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from ..hardware import Hardware
from ..ir.types import UINT8
from ..kernel_ir.plan import KernelPlan, Plan
from ..runtime import array_copies
from ..runtime.arrays import CPU, ArrayFacts, Facts
from ..runtime.bind_shapes import BoundKernel
from ..runtime.compile import during_capture
from ..runtime.counters import BlockCounters
from ..runtime.cuda_streams import stream_reader
from ..runtime.driver import driver
from ..runtime.launch import LaunchRecord
from ..runtime.launch_records import (
    TEMPORARY_ALIGNMENT,
    PayloadLayout,
    combo_launch,
    cpu_launch,
    cuda_launch,
    workspace_size,
)
from ..runtime.memory_overlap import interleave, span
from ..runtime.outputs import mark_written
from ..runtime.prepared_call import PreparedCall
from ..runtime.specialize import combo_kernel, digests, specialized_or_generic
from . import call_steps
from .plans import Plans
from .resolve_call import ResolvedCall, require_memory, resolve_call, result_allocator


class EmptyRows(Exception):
    """Rows without elements are to be reduced on a device: no kernel runs over nothing, the interpreter does it."""


@dataclass
class Prepared:
    """A prepared call with the arguments of its first run."""

    plan: Plan
    call: PreparedCall
    payloads: list
    outs: list[Any] | None
    deferred_outputs: list[tuple[Any, int]]  # (out, result): copied from a new array after the launches
    library: str
    reusable: bool
    arguments: list  # facts of the arguments: copies must live until the call is over

    def run(self) -> list:
        """Run the call for the arguments that it was prepared with."""
        results = self.call(self.payloads, self.outs)
        for out, k in self.deferred_outputs:
            array_copies.assign(out, results[k], self.library)
            results[k] = out
            mark_written(out)
        return results


ScheduledKernel = tuple[Any, Any]  # (KernelIR, schedule)
Chooser = Callable[[int, KernelPlan, BoundKernel, Hardware], ScheduledKernel]


def first_choice(number: int, plan: KernelPlan, bound: BoundKernel, hardware: Hardware) -> ScheduledKernel:
    """The schedule of a kernel that is not tuned; its place in the quota is reserved."""
    return specialized_or_generic(plan, bound, hardware)


def likely_choice(number: int, plan: KernelPlan, bound: BoundKernel, hardware: Hardware) -> ScheduledKernel:
    """The schedule that a call would have now; later calls are not affected."""
    return specialized_or_generic(plan, bound, hardware, reserve=False)


def prepare(plans: Plans, facts: Facts, outs: Sequence[Any] | None, chooser: Chooser = first_choice) -> Prepared:
    """Everything that a call with these arguments needs; raises before anything is written.

    `chooser` gives the schedule of each kernel (by its number in the plan) on a CUDA device.
    """
    resolved = resolve_call(plans, facts, outs)
    require_memory([resolved])
    library, device, destinations = resolved.library, resolved.device, resolved.destinations
    stream = stream_reader(library, device)
    with _device_context(device, stream):
        launches, numbers, workspace, tickets, spilled = _launches(resolved, plans.names, chooser)
    if spilled and plans.replan_after_spill(resolved.plan, list(facts.values()), resolved.extents):
        return prepare(plans, facts, outs, chooser)
    written = [span(g) if g is not None else None for g in destinations]
    same, disjoint = frozenset(resolved.in_place), _disjoint_pairs(resolved)
    call = PreparedCall(
        launches, resolved.allocators, workspace, numbers, stream, resolved.spans, written, same, library, tickets,
        disjoint, resolved.foreign,
    )  # fmt: skip
    chosen = [o if g is not None else None for g, o in zip(destinations, outs)] if outs is not None else None
    return Prepared(
        resolved.plan,
        call,
        resolved.payloads,
        chosen,
        resolved.deferred_outputs,
        library,
        not resolved.not_repeatable,
        resolved.arguments,
    )


@contextmanager
def _device_context(device: Any, stream: Callable[[], int]) -> Iterator[None]:
    """Enter a CUDA device's context; under capture of the stream, compiling is an error."""
    with ExitStack() as stack:
        if device != CPU:
            stack.enter_context(driver().on(device[1]))
            if driver().is_capturing(stream()):
                stack.enter_context(during_capture())
        yield


def _disjoint_pairs(resolved: ResolvedCall) -> frozenset[tuple[int, int, int]]:
    """(output, argument or ~output, bytes between their addresses) of arrays that interleave and share no element."""
    arguments = [(k, a) for k, a in enumerate(resolved.arguments) if isinstance(a, ArrayFacts) and not a.by_value]
    given = [(r, g) for r, g in enumerate(resolved.destinations) if g is not None]
    pairs = [(r, g, k, a) for r, g in given for k, a in arguments]
    pairs += [(r, g, ~q, h) for r, g in given for q, h in given if q < r]
    return frozenset((r, k, g.pointer - a.pointer) for r, g, k, a in pairs if interleave(g, a))


def _launches(resolved: ResolvedCall, names: Sequence[str], chooser: Chooser):
    """(launch records, numbers, allocator of the workspace or None, counters or None, whether a kernel spills)."""
    plan, bounds, extents, device = resolved.plan, resolved.bounds, resolved.extents, resolved.device
    size, temporaries = workspace_size(plan, extents)
    payload_layout = PayloadLayout(len(plan.parameters), len(plan.results), size)
    numbers: list[int] = []
    launches: list[Any] = []
    spilled = False
    for together in plan.shared:
        members = [k for k in together if not bounds[k].empty]
        if device != CPU and any(0 in bounds[k].extents for k in members):
            raise EmptyRows
        if device == CPU:
            launches += [cpu_launch_record(resolved, k, payload_layout, temporaries, numbers, names) for k in members]
        elif members:
            records, spills = _cuda_launches(resolved, members, payload_layout, temporaries, numbers, names, chooser)
            launches += records
            spilled |= spills
    shared = [record.geometry for record in launches if isinstance(record, LaunchRecord)]
    size += max((g.workspace for g in shared), default=0)  # launches run one after another
    count = max((g.semaphores for g in shared), default=0)
    workspace = result_allocator(resolved.library, device, (size + TEMPORARY_ALIGNMENT,), UINT8) if size else None
    return launches, numbers, workspace, BlockCounters(count, device[1]) if count else None, spilled


def cpu_launch_record(resolved: ResolvedCall, k: int, payload_layout, temporaries, numbers, names):
    """The launch record of one kernel on the thread pool, compiled and loaded."""
    from ..runtime import object_loader

    kernel = resolved.plan.kernels[k]
    built, bound = resolved.kernel_compiler.on_cpu(kernel, resolved.bounds[k], resolved)
    functions = dict(zip(built.symbols, object_loader.load(built.code, built.symbols)))
    return cpu_launch(kernel, bound, built, functions, payload_layout, temporaries, numbers, resolved.extents, names)


def _cuda_launches(
    resolved: ResolvedCall, members: Sequence[int], payload_layout, temporaries, numbers, names, chooser: Chooser
) -> tuple[list[LaunchRecord], bool]:
    """(the launch records of kernels (by number) that are to share one: one, or one each; whether one spills)."""
    index, build = resolved.device[1], resolved.kernel_compiler.on_cuda
    device = driver().facts(index)
    given = (payload_layout, temporaries, numbers, resolved.extents, names)
    pairs = [(resolved.plan.kernels[k], resolved.bounds[k]) for k in members]
    chosen = [chooser(k, plan, bound, call_steps.hardware_of(device)) for k, (plan, bound) in zip(members, pairs)]
    joined = combo_kernel(pairs, chosen, call_steps.hardware_of(device)) if len(members) > 1 else None
    if joined is not None:
        built = build(*joined, digests(pairs), device.cc, resolved)
        return [combo_launch(pairs, built, load_function(built, index), *given)], built.spill_bytes > 0
    records, spills = [], False
    for (plan, bound), (kernel, schedule) in zip(pairs, chosen):
        built = build(kernel, schedule, plan.digest, device.cc, resolved)
        records.append(cuda_launch(plan, bound, built, load_function(built, index), *given))
        spills |= built.spill_bytes > 0
    return records, spills


def load_function(built: Any, device: int) -> Any:
    """The function of a compiled CUDA kernel on a device."""
    return driver().loaded(built.code, built.symbols[0], device)
