"""The first call over lists of new shapes: every call settled, kernels that are alike gathered into one launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from .. import debug
from ..backends.cuda.schedule import KernelIR, geometry
from ..errors import ArgumentError, FusedslError
from ..hardware import Hardware
from ..ir.types import UINT8
from ..kernel_ir.launch_config import Geometry
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
from .prepare_call import EmptyRows, launch_on_cpu, loaded
from .resolve_call import Settled, require_memory, result_allocator, settle


@dataclass(frozen=True)
class Item:
    """One call of many: its program's plans, its arguments under their names in messages, and its outputs."""

    plans: Plans
    facts: Facts
    outs: Sequence[Any] | None
    arguments: tuple[int, ...]  # the place of each argument in the lists of all calls


@dataclass
class PreparedLists:
    """A prepared call over lists with the arguments of this first run."""

    call: BatchedCall
    payloads: list
    outs: list[Any] | None
    late: list[tuple[Any, int]]  # (out, result) that are filled from a new array after the launches
    reusable: bool
    settled: Sequence[Settled]  # keeps copies of arguments alive

    def run(self) -> list:
        """Run it: the results of all calls, list after list."""
        results = self.call(self.payloads, self.outs)
        for out, k in self.late:
            array_copies.assign(out, results[k], self.call.library)
            results[k] = out
            mark_written(out)
        return results


def settle_lists(items: Sequence[Item]) -> list[Settled]:
    """The plan and the arrays of every call; raises what is wrong with one of them, or with them together."""
    library_and_device({name: fact for item in items for name, fact in item.facts.items()})
    settled = [_settle(item, k) for k, item in enumerate(items)]
    _check_overlaps(items, settled)
    return settled


def prepare_lists(
    items: Sequence[Item], settled: Sequence[Settled], names: Sequence[str], shared: frozenset[int]
) -> PreparedLists:
    """What repeats these settled calls: their kernels, in as few launches as hold them.

    `names` name the arguments of all calls; `shared` are those that are the same array or number for all. All calls
    have the same number of results.
    """
    require_memory(settled)
    first = settled[0]
    library, device = first.library, first.device
    payloads: list[Any] = [0] * len(names)
    spans: list[tuple[int, int] | None] = [None] * len(names)
    for item, found in zip(items, settled):
        for place_, payload, bytes_ in zip(item.arguments, found.payloads, found.spans):
            payloads[place_], spans[place_] = payload, bytes_
    gathered = _Gathered(items, settled, names, shared)
    launches, numbers, workspace, tickets = gathered.launches()
    calls, results = range(len(items)), range(len(first.given))
    given = [settled[k].given[r] for r in results for k in calls]
    same = frozenset(
        (items[k].arguments[argument], r * len(items) + k) for k in calls for argument, r in settled[k].in_place
    )
    call = BatchedCall(
        launches,
        [settled[k].makers[r] for r in results for k in calls],
        workspace,
        numbers,
        stream_reader(library, device),
        spans,
        [span(g) if g is not None else None for g in given],
        same,
        library,
        tickets,
    )
    outs = None
    if any(item.outs is not None for item in items):
        asked = [item.outs or [None] * len(results) for item in items]
        outs = [asked[k][r] if settled[k].given[r] is not None else None for r in results for k in calls]
    late = [(out, r * len(items) + k) for k in calls for out, r in settled[k].late]
    return PreparedLists(call, payloads, outs, late, not any(found.once for found in settled), settled)


def _settle(item: Item, k: int) -> Settled:
    try:
        return settle(item.plans, item.facts, item.outs, f"[{k}]", listed=True)
    except FusedslError as error:
        place_ = f"for the arrays at place {k} of the lists"
        if error.note is None:
            error.note = place_
        else:
            error.help = f"{place_}: {error.help}" if error.help else place_
        raise


def _check_overlaps(items: Sequence[Item], settled: Sequence[Settled]) -> None:
    """ArgumentError where what one call writes is read or written by another: they run at the same time."""
    arrays: list[tuple[int, str, ArrayFacts]] = []
    for k, (item, found) in enumerate(zip(items, settled)):
        arrays += [(k, name, a) for name, a in item.facts.items() if isinstance(a, ArrayFacts) and not a.by_value]
        outs = [r for r, g in enumerate(found.given) if g is not None]
        arrays += [(k, f"out[{r}][{k}]" if len(found.given) > 1 else f"out[{k}]", found.given[r]) for r in outs]  # type: ignore[misc]
    stretches = [
        AddressRange(a.pointer + low, a.pointer + high, n, name.startswith("out["))
        for n, (_, name, a) in enumerate(arrays)
        for low, high in [span(a)]
    ]
    for one, other in overlapping_ranges(stretches):
        written, touched = (one, other) if one.output else (other, one)
        (k, name, a), (j, label, b) = arrays[written.index], arrays[touched.index]
        if k != j and overlap(a, b):
            raise ArgumentError(
                f"{name} overlaps {label}",
                "argument.overlap",
                help="the calls run at the same time: none may write what another reads or writes",
            )


def alike(
    members: Sequence[BatchMember], shared: Set[int], hardware: Hardware, largest: int
) -> Iterator[tuple[KernelIR, Any, list[BatchMember]]]:
    """The kernel, with a table where calls share its launch, and the schedule of members that have a binary in common.

    The first few binaries of a kernel are for classes of lengths; members of further classes share general ones. Those
    of the places that are `shared` are the same in all calls. Tables have `largest` words at most.
    """
    others: list[tuple[BatchMember, KernelIR, Any]] = []
    first = [(m, *compiler.scheduled_cuda(m.bound, hardware, False)) for m in members]
    for kernel, schedule, found in _gathered(first, shared, hardware, largest):
        plan, bound = found[0].plan, found[0].bound
        general = [generic_for_lists(m.plan, m.bound, hardware) for m in found]
        if None in general or acquire_for_lists(plan, bound, kernel, schedule, hardware):
            yield kernel, schedule, found
        else:
            others += [(m, *made) for m, made in zip(found, general) if made is not None]
    yield from _gathered(others, shared, hardware, largest, least=1)


def _gathered(
    chosen: Sequence[tuple[BatchMember, KernelIR, Any]],
    shared: Set[int],
    hardware: Hardware,
    largest: int,
    least: int = 2,
) -> Iterator[tuple[KernelIR, Any, list[BatchMember]]]:
    """Members whose kernels and schedules are the same; where there are so many at least, they share launches."""
    groups: dict[tuple, tuple[KernelIR, Any, list[BatchMember]]] = {}
    for m, kernel, schedule in chosen:
        key = compiler.cuda_key(kernel, schedule, m.plan.digest, hardware.cc)
        needs = geometry(schedule, kernel, m.bound.extents)
        groups.setdefault(key, (kernel, schedule, []))[2].append(replace(m, geometry=needs))
    for kernel, schedule, found in groups.values():
        if len(found) >= least and all(m.geometry.independent for m in found):
            indices = {k for k, at in enumerate(found[0].where.places) if at in shared}
            table = parameter_table(found[0].plan, kernel, len(found), indices, largest)
            kernel = replace(kernel, part=True, table=table)
        yield kernel, schedule, found


class _Gathered:
    """The kernels of all calls, those alike in one launch."""

    def __init__(self, items: Sequence[Item], settled: Sequence[Settled], names: Sequence[str], shared: frozenset[int]):
        self.items, self.settled, self.names, self.shared = items, settled, names, shared
        self.device = settled[0].device
        sizes = [workspace_size(found.plan, found.extents) for found in settled]
        starts = accumulate((size for size, _ in sizes), initial=0)
        self.temporaries = [[start + t for t in places] for start, (_, places) in zip(starts, sizes)]
        self.size = sum(size for size, _ in sizes)
        self.where = PayloadLayout(len(names), len(items) * len(settled[0].given), self.size)
        self.numbers: list[int] = []

    def launches(self):
        """(launch records in order, numbers that they take, what allocates the workspace or None, tickets or None)."""
        bounds = [found.bounds for found in self.settled]
        records: list[Any] = []
        for step in range(max(map(len, bounds))):
            records += self._step(step, bounds)
        launched = [record.geometry for record in records if isinstance(record, LaunchRecord)]
        size = self.size + max((g.workspace for g in launched), default=0)
        count = max((g.tickets for g in launched), default=0)
        library = self.settled[0].library
        workspace = result_allocator(library, self.device, (size + TEMPORARY_ALIGNMENT,), UINT8) if size else None
        return records, self.numbers, workspace, BlockCounters(count, self.device[1]) if count else None

    def _step(self, step: int, bounds: Sequence[Sequence[Any]]) -> Iterator[Any]:
        """The records of every call's kernel number `step`: what one call computes before, it has stored by then."""
        members, launches = [], []
        for k, (found, kernels) in enumerate(zip(self.settled, bounds)):
            if step >= len(kernels) or kernels[step].empty:
                continue
            if self.device != CPU and 0 in kernels[step].extents:
                raise EmptyRows
            all_ = self.where
            places = self.items[k].arguments
            where = BatchedPayloads(all_.arguments, all_.results, all_.scratch, places, k, len(self.items))
            plan = found.plan.kernels[step]
            if self.device == CPU:
                launches.append(launch_on_cpu(found, step, where, self.temporaries[k], self.numbers, self.names))
            else:
                members.append(
                    BatchMember(plan, kernels[step], Geometry(0, 0), where, self.temporaries[k], found.extents)
                )
        return iter(launches) if self.device == CPU else self._cuda(members)

    def _cuda(self, members: Sequence[BatchMember]) -> Iterator[Any]:
        from ..runtime.driver import driver

        told = driver().facts(self.device[1])
        hardware, largest = call_steps.hardware_of(told), max_table_words(driver().version())
        for kernel, schedule, found in alike(members, self.shared, hardware, largest):
            launched = self._together if kernel.table is not None else self._apart
            yield from launched(kernel, schedule, found, told.cc)

    def _together(self, kernel, schedule, members: list[BatchMember], cc) -> Iterator[Any]:
        from ..runtime.driver import driver

        built = compiler.build_scheduled(kernel, schedule, members[0].plan.digest, cc)
        function, words = loaded(built, self.device[1]), f"{kernel.table.words} words"
        for chunk in chunks(members, kernel.table.capacity):
            debug.say(debug.KERNELS, f"{len(chunk)} calls of {kernel.name} in one launch", words)
            yield batched_launch(driver(), function, built, chunk, self.numbers, self.names)

    def _apart(self, kernel, schedule, members: list[BatchMember], cc) -> Iterator[Any]:
        built = compiler.build_scheduled(kernel, schedule, members[0].plan.digest, cc)
        function = loaded(built, self.device[1])
        for m in members:
            one = replace(built, kernel=kernel)
            yield cuda_launch(
                m.plan, m.bound, one, function, m.where, m.temporaries, self.numbers, m.extents, self.names
            )
