"""Prepares foreach: resolves every call, and gathers kernels with the same binary into one launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from .. import debug
from ..errors import ArgumentError, FusedslError
from ..hardware import Hardware
from ..ir.types import UINT8
from ..kernel_ir.kernel import KernelIR
from ..kernel_ir.launch_config import LaunchConfig
from ..runtime import array_copies
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
from ..runtime.counters import BlockCounters
from ..runtime.cuda_streams import stream_reader
from ..runtime.launch import LaunchRecord
from ..runtime.launch_records import TEMPORARY_ALIGNMENT, PayloadLayout, cuda_launch, workspace_size
from ..runtime.memory_overlap import overlap, span
from ..runtime.outputs import library_and_device, mark_written
from ..runtime.specialize import acquire_for_lists, generic_for_lists
from . import call_steps
from .plans import Plans
from .prepare_call import EmptyRows, cpu_launch_record, load_function
from .resolve_call import ResolvedCall, require_memory, resolve_call, result_allocator


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
    reusable: bool
    resolved: Sequence[ResolvedCall]  # keeps copies of arguments alive

    def run(self) -> list:
        """The results of all calls, list after list."""
        results = self.call(self.payloads, self.outs)
        for out, k in self.deferred_outputs:
            array_copies.assign(out, results[k], self.call.library)
            results[k] = out
            mark_written(out)
        return results


def resolve_lists(items: Sequence[ForeachCall]) -> list[ResolvedCall]:
    """The plan and the arrays of every call; raises the errors of one of them, or of their combination."""
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
    require_memory(resolved)
    first = resolved[0]
    library, device = first.library, first.device
    payloads: list[Any] = [0] * len(names)
    spans: list[tuple[int, int] | None] = [None] * len(names)
    for item, call_ in zip(items, resolved):
        for index, payload, bytes_ in zip(item.arguments, call_.payloads, call_.spans):
            payloads[index], spans[index] = payload, bytes_
    gathered = _BatchedKernels(items, resolved, names, shared)
    launches, numbers, workspace, tickets = gathered.launches()
    calls, results = range(len(items)), range(len(first.destinations))
    destinations = [resolved[k].destinations[r] for r in results for k in calls]
    same = frozenset(
        (items[k].arguments[argument], r * len(items) + k) for k in calls for argument, r in resolved[k].in_place
    )
    call = BatchedCall(
        launches,
        [resolved[k].allocators[r] for r in results for k in calls],
        workspace,
        numbers,
        stream_reader(library, device),
        spans,
        [span(g) if g is not None else None for g in destinations],
        same,
        library,
        tickets,
    )
    outs = None
    if any(item.outs is not None for item in items):
        requested = [item.outs or [None] * len(results) for item in items]
        outs = [requested[k][r] if resolved[k].destinations[r] is not None else None for r in results for k in calls]
    deferred_outputs = [(out, r * len(items) + k) for k in calls for out, r in resolved[k].deferred_outputs]
    return PreparedForeach(
        call, payloads, outs, deferred_outputs, not any(call_.not_repeatable for call_ in resolved), resolved
    )


def _resolve(item: ForeachCall, k: int) -> ResolvedCall:
    try:
        return resolve_call(item.plans, item.facts, item.outs, f"[{k}]", listed=True)
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
        several = len(call.destinations) > 1
        outs = [(r, out) for r, out in enumerate(call.destinations) if out is not None]
        arrays += [(k, f"out[{r}][{k}]" if several else f"out[{k}]", out) for r, out in outs]
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
        self.items, self.resolved, self.names, self.shared = items, resolved, names, shared
        self.device = resolved[0].device
        sizes = [workspace_size(call.plan, call.extents) for call in resolved]
        starts = accumulate((size for size, _ in sizes), initial=0)
        self.temporaries = [[start + t for t in places] for start, (_, places) in zip(starts, sizes)]
        self.size = sum(size for size, _ in sizes)
        self.payload_layout = PayloadLayout(len(names), len(items) * len(resolved[0].destinations), self.size)
        self.numbers: list[int] = []

    def launches(self):
        """(launch records in order, numbers that they take, allocator of the workspace or None, counters or None)."""
        bounds = [call.bounds for call in self.resolved]
        records: list[Any] = []
        for step in range(max(map(len, bounds))):
            records += self._step(step, bounds)
        launched = [record.geometry for record in records if isinstance(record, LaunchRecord)]
        size = self.size + max((g.workspace for g in launched), default=0)
        count = max((g.semaphores for g in launched), default=0)
        library = self.resolved[0].library
        workspace = result_allocator(library, self.device, (size + TEMPORARY_ALIGNMENT,), UINT8) if size else None
        return records, self.numbers, workspace, BlockCounters(count, self.device[1]) if count else None

    def _step(self, step: int, bounds: Sequence[Sequence[Any]]) -> Iterator[Any]:
        """The records of every call's kernel number `step`: the kernels before it have run by then."""
        members, launches = [], []
        for k, (call, kernels) in enumerate(zip(self.resolved, bounds)):
            if step >= len(kernels) or kernels[step].empty:
                continue
            if self.device != CPU and 0 in kernels[step].extents:
                raise EmptyRows
            whole, indices = self.payload_layout, self.items[k].arguments
            layout = BatchedPayloads(whole.arguments, whole.results, whole.scratch, indices, k, len(self.items))
            plan = call.plan.kernels[step]
            if self.device == CPU:
                launches.append(cpu_launch_record(call, step, layout, self.temporaries[k], self.numbers, self.names))
            else:
                members.append(
                    BatchMember(plan, kernels[step], LaunchConfig(0, 0), layout, self.temporaries[k], call.extents)
                )
        return iter(launches) if self.device == CPU else self._cuda(members)

    def _cuda(self, members: Sequence[BatchMember]) -> Iterator[Any]:
        from ..runtime.driver import driver

        device = driver().facts(self.device[1])
        hardware, largest = call_steps.hardware_of(device), max_table_words(driver().version())
        for kernel, schedule, alike in group_by_binary(members, self.shared, hardware, largest):
            launched = self._together if kernel.batched is not None else self._apart
            yield from launched(kernel, schedule, alike, device.cc)

    def _together(self, kernel, schedule, members: list[BatchMember], cc) -> Iterator[Any]:
        from ..runtime.driver import driver

        built = compiler.build_scheduled(kernel, schedule, members[0].plan.digest, cc)
        function, words = load_function(built, self.device[1]), f"{kernel.batched.words} words"
        for chunk in chunks(members, kernel.batched.capacity):
            debug.say(debug.KERNELS, f"{len(chunk)} calls of {kernel.name} in one launch", words)
            yield batched_launch(driver(), function, built, chunk, self.numbers, self.names)

    def _apart(self, kernel, schedule, members: list[BatchMember], cc) -> Iterator[Any]:
        built = compiler.build_scheduled(kernel, schedule, members[0].plan.digest, cc)
        function = load_function(built, self.device[1])
        for m in members:
            one = replace(built, kernel=kernel)
            yield cuda_launch(
                m.plan, m.bound, one, function, m.payload_layout, m.temporaries, self.numbers, m.extents, self.names
            )
