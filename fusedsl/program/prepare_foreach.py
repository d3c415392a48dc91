"""Prepares foreach: resolves every call, and gathers kernels with the same binary into one launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any

from .. import debug
from ..errors import ArgumentError, FusedslError
from ..hardware import Hardware
from ..kernel_ir.kernel import KernelIR
from ..kernel_ir.launch_config import LaunchConfig
from ..runtime import compile as compiler
from ..runtime.arrays import CPU, ArrayFacts, Facts
from ..runtime.batched_call import (
    AddressRange,
    BatchedCall,
    BatchedPayloads,
    BatchMember,
    batched_launch,
    chunks,
    max_table_words,
    overlapping_ranges,
    parameter_table,
)
from ..runtime.launch_records import PayloadLayout, cuda_launch
from ..runtime.memory_overlap import overlap, span
from ..runtime.memory_planning import plan_workspace
from ..runtime.outputs import library_and_device
from ..runtime.prepared_call import Aliasing
from ..runtime.specialize import acquire_for_lists, generic_for_lists
from . import call_steps
from .call_arrays import CallArrays, call_arrays, call_memory, require_memory
from .call_outputs import named_outputs
from .call_target import array_target
from .plans import Plans
from .prepare_call import EmptyRows, cpu_launch_record, cublas_record, fill_outputs, load_function
from .resolve_call import ResolvedCall, resolve


@dataclass(frozen=True)
class ForeachCall:
    """One call of many: its program's plans, its arguments under their names in messages, and its outputs."""

    plans: Plans
    facts: Facts
    outs: Sequence[Any] | None
    arguments: tuple[int, ...]  # the index of each argument among those of all calls


@dataclass
class PreparedForeach:
    """A prepared call over lists with the arguments of its first run."""

    call: BatchedCall
    payloads: list
    outs: list[Any] | None
    deferred_outputs: list[tuple[Any, int]]  # (out, result): copied from a new array after the launches
    arrays: Sequence[CallArrays]  # copies among them must live until the call is over

    @property
    def reusable(self) -> bool:
        """Whether the call serves other arguments."""
        return all(call.repeatable for call in self.arrays)

    def run(self) -> list:
        """The results of all calls, list after list."""
        results = self.call(self.payloads, self.outs)
        fill_outputs(self.deferred_outputs, results, self.call.library)
        return results


def resolve_lists(items: Sequence[ForeachCall]) -> list[ResolvedCall]:
    """The plan and the layouts of every call; raises the errors of one of them, or of their combination."""
    library_and_device({name: fact for item in items for name, fact in item.facts.items()})
    resolved = [_resolve(item, k) for k, item in enumerate(items)]
    _check_overlaps(items, resolved)
    return resolved


def prepare_foreach(
    items: Sequence[ForeachCall], resolved: Sequence[ResolvedCall], names: Sequence[str], shared: frozenset[int]
) -> PreparedForeach:
    """The prepared call of these resolved calls: their kernels, in as few launches as hold them.

    `names` name the arguments of all calls; `shared` are those that are the same array or number for all. All calls
    have the same number of results.
    """
    arrays = [call_arrays(call) for call in resolved]
    require_memory(arrays)
    kernels = _BatchedKernels(items, resolved, names, shared)
    records = kernels.records()
    calls, results = range(len(items)), range(len(resolved[0].outputs.destinations))
    payloads: list[Any] = [0] * len(names)
    spans: list[tuple[int, int] | None] = [None] * len(names)
    in_place = set()
    aliasing = [own.aliasing for own in arrays]
    for k, (item, own, alias) in enumerate(zip(items, arrays, aliasing)):
        for index, payload, bytes_ in zip(item.arguments, own.payloads, alias.spans):
            payloads[index], spans[index] = payload, bytes_
        in_place |= {(item.arguments[argument], r * len(items) + k) for argument, r in alias.in_place}
    written = Aliasing(spans, [aliasing[k].out_spans[r] for r in results for k in calls], frozenset(in_place))
    allocators = [arrays[k].allocators[r] for r in results for k in calls]
    memory = call_memory(resolved[0], allocators, records, kernels.layout.scratch)
    outs = None
    if any(item.outs is not None for item in items):
        outs = [(item.outs or [None] * len(results))[r] if call.outputs.destinations[r] is not None else None
                for r in results for item, call in zip(items, resolved)]  # fmt: skip
    deferred = [(out, r * len(items) + k) for k in calls for out, r in resolved[k].outputs.deferred]
    return PreparedForeach(
        BatchedCall(records, kernels.layout.numbers, memory, written), payloads, outs, deferred, arrays
    )


def _resolve(item: ForeachCall, k: int) -> ResolvedCall:
    try:
        target = replace(array_target(item.plans, item.facts), listed=True)
        return resolve(item.plans, item.facts, target, named_outputs(item.outs, f"[{k}]"))
    except FusedslError as error:
        where = f"for the arrays at place {k} of the lists"
        if error.note is None:
            error.note = where
        else:
            error.help = f"{where}: {error.help}" if error.help else where
        raise


def _check_overlaps(items: Sequence[ForeachCall], resolved: Sequence[ResolvedCall]) -> None:
    """ArgumentError if an output of one call overlaps an array of another: they run at the same time."""
    arrays: list[tuple[int, str, ArrayFacts]] = []
    for k, (item, call) in enumerate(zip(items, resolved)):
        arrays += [(k, name, a) for name, a in item.facts.items() if isinstance(a, ArrayFacts) and not a.by_value]
        many_results = len(call.outputs.destinations) > 1
        outs = [(r, out) for r, out in enumerate(call.outputs.destinations) if out is not None]
        arrays += [(k, f"out[{r}][{k}]" if many_results else f"out[{k}]", out) for r, out in outs]
    stretches = [
        AddressRange(a.pointer + low, a.pointer + high, n, name.startswith("out["))
        for n, (_, name, a) in enumerate(arrays)
        for low, high in [span(a)]
    ]
    for first, second in overlapping_ranges(stretches):
        written, touched = (first, second) if first.output else (second, first)
        (k, name, a), (j, label, b) = arrays[written.index], arrays[touched.index]
        if k != j and overlap(a, b):
            raise ArgumentError(
                f"{name} overlaps {label}",
                "argument.overlap",
                help="the calls run at the same time: none may write what another reads or writes",
            )


def group_by_binary(
    members: Sequence[BatchMember], shared: Set[int], hardware: Hardware, largest: int
) -> Iterator[tuple[KernelIR, Any, list[BatchMember]]]:
    """(kernel, schedule, members) for the members that share a binary; the kernel has a table if they share a launch.

    The first few binaries of a kernel are for classes of lengths; members of further classes use generic ones.
    Arguments at `shared` indices are the same in all calls. Tables have `largest` words at most.
    """
    others: list[tuple[BatchMember, KernelIR, Any]] = []
    first = [(m, *compiler.scheduled_cuda(m.bound, hardware, False)) for m in members]
    for kernel, schedule, alike in _share_launches(first, shared, hardware, largest):
        plan, bound = alike[0].plan, alike[0].bound
        general = [generic_for_lists(m.plan, m.bound, hardware) for m in alike]
        if None in general or acquire_for_lists(plan, bound, kernel, schedule, hardware):
            yield kernel, schedule, alike
        else:
            others += [(m, *pair) for m, pair in zip(alike, general) if pair is not None]
    yield from _share_launches(others, shared, hardware, largest, least=1)


def _share_launches(
    chosen: Sequence[tuple[BatchMember, KernelIR, Any]],
    shared: Set[int],
    hardware: Hardware,
    largest: int,
    least: int = 2,
) -> Iterator[tuple[KernelIR, Any, list[BatchMember]]]:
    """Members with the same kernel and schedule; if there are at least `least`, they share launches."""
    groups: dict[tuple, tuple[KernelIR, Any, list[BatchMember]]] = {}
    for m, kernel, schedule in chosen:
        key = compiler.cuda_key(kernel, schedule, m.plan.digest, hardware.cc)
        needs = schedule.launch(kernel, m.bound.extents)
        groups.setdefault(key, (kernel, schedule, []))[2].append(replace(m, geometry=needs))
    for kernel, schedule, alike in groups.values():
        if len(alike) >= least and all(m.geometry.independent for m in alike):
            indices = {k for k, at in enumerate(alike[0].payload_layout.argument_indices) if at in shared}
            table = parameter_table(alike[0].plan, kernel, len(alike), indices, largest)
            kernel = replace(kernel, is_subkernel=True, batched=table)
        yield kernel, schedule, alike


class _BatchedKernels:
    """The kernels of all calls; those with one binary share a launch."""

    def __init__(
        self,
        items: Sequence[ForeachCall],
        resolved: Sequence[ResolvedCall],
        names: Sequence[str],
        shared: frozenset[int],
    ):
        self.items, self.resolved, self.shared = items, resolved, shared
        self.device = resolved[0].device
        sizes = [plan_workspace(call.plan, call.extents) for call in resolved]
        starts = accumulate((size for size, _ in sizes), initial=0)
        self.temporaries = [[start + t for t in numbers] for start, (_, numbers) in zip(starts, sizes)]
        results = len(items) * len(resolved[0].outputs.destinations)
        self.layout = PayloadLayout(len(names), results, sum(size for size, _ in sizes), names=names)

    def records(self) -> list[Any]:
        """The launch records in order."""
        steps = max(len(call.bounds) for call in self.resolved)
        return [record for step in range(steps) for record in self._step(step)]

    def _step(self, step: int) -> Iterator[Any]:
        """The records of every call's kernel number `step`: the kernels before it have run by then."""
        members: list[BatchMember] = []
        launches: list[Any] = []
        for k, call in enumerate(self.resolved):
            if step >= len(call.bounds) or call.bounds[step].empty:
                continue
            bound, layout = call.bounds[step], self._layout_of(k)
            if self.device == CPU:
                launches.append(cpu_launch_record(call, step, layout))
            elif 0 in bound.extents:
                raise EmptyRows
            elif (by_library := cublas_record(call, *call.kernels[step], layout)) is not None:
                launches.append(by_library)
            else:
                members.append(BatchMember(call.plan.kernels[step], bound, LaunchConfig(0, 0), layout))
        yield from launches
        if members:
            yield from self._cuda(members)

    def _layout_of(self, k: int) -> BatchedPayloads:
        """The payload indices of one call."""
        whole = {f.name: getattr(self.layout, f.name) for f in fields(self.layout)}
        own = {"temporaries": self.temporaries[k], "extents": self.resolved[k].extents}
        return BatchedPayloads(**whole | own, argument_indices=self.items[k].arguments, call=k, calls=len(self.items))

    def _cuda(self, members: Sequence[BatchMember]) -> Iterator[Any]:
        from ..runtime.driver import driver

        device = driver().facts(self.device[1])
        hardware, largest = call_steps.hardware_of(device), max_table_words(driver().version())
        for kernel, schedule, alike in group_by_binary(members, self.shared, hardware, largest):
            built = compiler.build_scheduled(kernel, schedule, alike[0].plan.digest, device.cc)
            function = load_function(built, self.device[1])
            if kernel.batched is None:
                single = replace(built, kernel=kernel)
                for m in alike:
                    yield cuda_launch(m.plan, m.bound, single, function, m.payload_layout)
                continue
            for chunk in chunks(alike, kernel.batched.capacity):
                words = f"{kernel.batched.words} words"
                debug.say(debug.KERNELS, f"{len(chunk)} calls of {kernel.name} in one launch", words)
                yield batched_launch(driver(), function, built, chunk)
