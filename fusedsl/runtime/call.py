"""One program at one set of shapes: what every further call with these shapes does, with nothing left to decide."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from ..ir.dims import Symbol, evaluate
from ..schedule import magic_divisors
from ..schedule.bundle import bundle_geometries
from ..schedule.division import magic
from ..schedule.kernel import Kernel, Operand, Window
from ..schedule.plan import KernelPlan, Plan
from ..schedule.slots import slots
from . import entry
from .bind import ALIGNMENT, Bound
from .block import FORMAT_OF, PointerSlot, ScalarSlot
from .compile import Built, launch_geometry
from .keys import address_of
from .launch import HostLaunch, Launch
from .results import mark_written
from .retain import retain

TEMPORARY_ALIGNMENT = 256  # bytes
PATIENCE = 16  # calls before LLVM is loaded, which takes 40 ms, to save 8 µs on each of those that follow


@dataclass(frozen=True)
class Payloads:
    """Where each thing stands in the list of addresses and numbers that launches read.

    Arguments, then results, then the workspace (one allocation that holds the temporaries, each at its shift, and at
    `scratch` what the blocks of one launch leave for each other), then the tickets, then extents that kernels take as
    numbers.
    """

    arguments: int
    results: int
    scratch: int = 0

    def argument(self, k: int) -> int:
        return k

    def result(self, k: int) -> int:
        return self.arguments + k

    @property
    def workspace(self) -> int:
        return self.arguments + self.results

    @property
    def tickets(self) -> int:
        return self.workspace + 1

    def number(self, k: int) -> int:
        return self.tickets + 1 + k


class Call:
    """A prepared call: allocate, fill in addresses, launch each kernel in order."""

    def __init__(
        self,
        launches: Sequence[Any],
        makers: Sequence[Callable[[], Any]],
        workspace: Callable[[], Any] | None,
        numbers: Sequence[int],
        stream: Callable[[], int],
        spans: Sequence[tuple[int, int] | None] = (),
        out_spans: Sequence[tuple[int, int] | None] = (),
        in_place: frozenset[tuple[int, int]] = frozenset(),
        library: str = "numpy",
        tickets: Callable[[int], int] | None = None,
        apart: frozenset[tuple[int, int, int]] = frozenset(),
        foreign: tuple[tuple[int, ...], int] = ((), 0),
    ):
        self.foreign = foreign  # arguments on a device whose library does not know of our launches, and the device
        self.records = tuple(launches)
        self.on_device = any(isinstance(launch, Launch) for launch in launches)
        self.launches = tuple(launch.fire for launch in launches)
        given = [s for s in launches[1:] if any(slot.argument < len(spans) for slot in s.layout.slots)]
        self.checks = tuple(launch.layout.check for launch in given)
        self.makers = tuple(makers)
        self.workspace = workspace
        self.numbers = tuple(numbers)
        self.stream = stream
        self.spans = tuple((k, *span) for k, span in enumerate(spans) if span is not None)
        self.out_spans = tuple(out_spans)
        self.in_place = in_place
        self.library = library
        self.tickets = tickets
        self.apart = apart
        self.replay: Any = None  # the same as generated lines, made when it is first repeated
        self.replays = 0  # how often they were written
        self._repeated = 0

    def __call__(self, payloads: list, outs: Sequence[Any] | None = None) -> list:
        """Run for these arguments' payloads. `outs` are arrays to write, or None for new ones. Returns the results."""
        if outs is None:
            results = [make() for make in self.makers]
        else:
            results = [make() if given is None else given for make, given in zip(self.makers, outs)]
        payloads = payloads + [address_of(r) for r in results]
        memory = None if self.workspace is None else self.workspace()
        payloads.append(0 if memory is None else address_of(memory))
        stream = self.stream()
        payloads.append(0 if self.tickets is None else self.tickets(stream))
        payloads += self.numbers
        for check in self.checks:  # a number that does not fit is refused before anything is written
            check(payloads)
        for fire in self.launches:
            fire(payloads, stream)
        if self.foreign[0]:
            retain([payloads[k] for k in self.foreign[0]], stream, self.foreign[1])
        if outs is not None and self.library == "torch":
            for out in outs:
                mark_written(out)
        return results

    def worth_replaying(self) -> bool:
        """Whether generated lines are to be made: at once, or where LLVM must be loaded for them, a few calls later."""
        self._repeated += 1
        return entry.ready() or not self.on_device or self._repeated > PATIENCE

    def repeatable(self, payloads: list, results: list | None = None) -> tuple[list[Callable[[], None]], int]:
        """(each launch as a function of nothing, the stream), to be timed again and again.

        They write to memory of their own, or to `results`, alike to those that a call would make.
        """
        results = [make() for make in self.makers] if results is None else results
        memory = None if self.workspace is None else self.workspace()
        stream = self.stream()
        filled = [*payloads, *map(address_of, results), 0 if memory is None else address_of(memory)]
        filled += [0 if self.tickets is None else self.tickets(stream), *self.numbers]

        def repeated(fire: Callable, kept: tuple = (results, memory)) -> Callable[[], None]:
            return lambda: (fire(filled, stream), kept)[0]

        return [repeated(fire) for fire in self.launches], stream

    def may_write(self, payloads: Sequence[Any], outs: Sequence[Any]) -> bool:
        """Whether these outputs, alike in layout to those prepared for, may be written: they overlap no input but where
        the same memory may be.

        Those whose bytes interleave with an input's (or, by ~number, another output's) are known to be `apart` by how
        far they begin from each other.
        """
        ends: list[tuple[int, int, int, int]] = []
        for r, (out, span) in enumerate(zip(outs, self.out_spans)):
            if span is None:
                continue
            if self.library == "numpy" and not (isinstance(out, np.ndarray) and out.flags.writeable):
                return False
            start, (low, high) = address_of(out), span
            for k, first, end in self.spans:
                meets = start + low < payloads[k] + end and payloads[k] + first < start + high
                same = payloads[k] == start and (k, r) in self.in_place
                if meets and not same and (r, k, start - payloads[k]) not in self.apart:
                    return False
            for first, end, other, begin in ends:
                if start + low < end and first < start + high and (r, ~other, start - begin) not in self.apart:
                    return False
            ends.append((start + low, start + high, r, start))
        return True


def workspace_size(plan: Plan, extents: Mapping[Symbol, int]) -> tuple[int, list[int]]:
    """(bytes, offset of each temporary) of a call's one allocation.

    Those that no launch needs at the same time share memory: the largest are placed first, each as low as it fits.
    """
    lives = _lives(plan)
    sizes = [math.prod(evaluate(d, extents) for d in t.shape) * t.dtype.compute.itemsize for t in plan.temporaries]
    sizes = [-(-size // TEMPORARY_ALIGNMENT) * TEMPORARY_ALIGNMENT for size in sizes]
    offsets = [0] * len(sizes)
    placed: list[int] = []
    for t in sorted(range(len(sizes)), key=lambda t: -sizes[t]):
        beside = [p for p in placed if lives[p][0] <= lives[t][1] and lives[t][0] <= lives[p][1]]
        for p in sorted(beside, key=lambda p: offsets[p]):
            if offsets[p] < offsets[t] + sizes[t]:
                offsets[t] = max(offsets[t], offsets[p] + sizes[p])
        placed.append(t)
    return max((offset + size for offset, size in zip(offsets, sizes)), default=0), offsets


def _lives(plan: Plan) -> list[tuple[int, int]]:
    """The first and the last launch that use each temporary."""
    found: dict[int, tuple[int, int]] = {}
    for number, launch in enumerate(plan.shared):
        for use in (use for k in launch for use in plan.kernels[k].arrays if use.kind == "temporary"):
            found[use.index] = (found.get(use.index, (number, number))[0], number)
    return [found.get(t, (0, len(plan.shared))) for t in range(len(plan.temporaries))]


def pointer_slots(
    plan: KernelPlan, bound: Bound, kernel: Kernel, where: Payloads, temporaries: Sequence[int]
) -> list[PointerSlot]:
    """The pointer slots of one kernel: which payload, and how many bytes further."""
    found = []
    for k, (use, offset) in enumerate(zip(plan.arrays, bound.offsets)):
        shift = offset * bound.kernel.operands[k].dtype.itemsize
        if use.kind == "argument":
            index = where.argument(use.index)
        elif use.kind == "result":
            index = where.result(use.index)
        else:
            index, shift = where.workspace, shift + temporaries[use.index]
        found.append(PointerSlot(8 * k, index, shift))
    if kernel.workspace:
        found.append(PointerSlot(8 * len(found), where.workspace, where.scratch))
    if kernel.tickets:
        found.append(PointerSlot(8 * len(found), where.tickets))
    for at, slot in enumerate(slots(kernel)):
        if slot.kind == "window" and slot.axis == 0:
            found.append(found[kernel.windows[slot.index].operand]._replace(offset=8 * at))
    return found


def window_words(window: Window, operand: Operand, bound: Bound) -> tuple[int, ...]:
    """The tensor map of a window but for its address, which a call fills in: the first of its words."""
    from .driver import driver
    from .tensor_map import tensor_map

    extents = [bound.extents[a] for a in window.axes]
    steps = [bound.strides[window.operand][a] * operand.dtype.itemsize or ALIGNMENT for a in window.axes[1:]]
    return tensor_map(driver(), operand.dtype.name, extents, steps, window.box)


def template(kernel: Kernel, bound: Bound, schedule: Any) -> bytes:
    """The parameter block with extents, strides and magics filled in."""
    magics = [magic(d) for d in magic_divisors(schedule, kernel, bound.extents)]
    maps = [window_words(w, kernel.operands[w.operand], bound) for w in kernel.windows]
    values = []
    for slot in slots(kernel):
        if slot.kind == "extent":
            values.append(bound.extents[slot.index])
        elif slot.kind == "stride":
            values.append(bound.strides[slot.index][slot.axis])
        elif slot.kind == "magic":
            values.append(magics[slot.index - 1])
        elif slot.kind == "window":
            values.append(maps[slot.index][slot.axis])
        else:
            values.append(0)
    return b"".join(struct.pack("<q" if v < 1 << 63 else "<Q", v) for v in values)


def scalar_slots(plan: KernelPlan, kernel: Kernel, bound: Bound, where: Payloads, numbers: list[int], extents):
    """The scalar slots of one kernel; extents and strides that it takes as numbers are appended to `numbers`."""
    first = 8 * (len(slots(kernel)) - len(plan.scalars))
    found = []
    for k, use in enumerate(plan.scalars):
        if use.kind == "argument":
            index = where.argument(use.source)  # type: ignore[arg-type]
        else:
            index = where.number(len(numbers))
            array, axis = use.source if use.kind == "stride" else (0, 0)
            numbers.append(bound.steps[array][axis] if use.kind == "stride" else evaluate(use.source, extents))
        found.append(ScalarSlot(first + 8 * k, index, FORMAT_OF[use.value.dtype.name]))  # type: ignore[arg-type]
    return found


def cuda_launch(
    plan: KernelPlan, bound: Bound, built: Built, function: Any, where: Payloads, temporaries, numbers, extents, names
) -> Launch:
    """The launch record of one kernel on one CUDA device."""
    from .driver import driver

    needs = launch_geometry(built, bound.extents)
    block = template(built.kernel, bound, built.schedule)
    pointers = pointer_slots(plan, bound, built.kernel, where, temporaries)
    scalars = scalar_slots(plan, built.kernel, bound, where, numbers, extents)
    return Launch(driver(), function, needs, block, pointers, scalars, names)


def bundle_launch(
    members: Sequence[tuple[KernelPlan, Bound]],
    built: Built,
    function: Any,
    where: Payloads,
    temporaries: Sequence[int],
    numbers: list[int],
    extents: Mapping[Symbol, int],
    names: Sequence[str],
) -> Launch:
    """The launch record of kernels that share one: the parts of their parameter blocks, and their first blocks."""
    from .driver import driver

    bundle, schedule = built.kernel, built.schedule
    launch, each = bundle_geometries(bundle, schedule, [bound.extents for _, bound in members])
    first = list(accumulate((one.blocks for one in each), initial=0))
    words: list[dict] = []
    pointers: list[PointerSlot] = []
    scalars: list[ScalarSlot] = []
    for kernel, one, (plan, bound) in zip(bundle.kernels, schedule.members, members):
        block = struct.iter_unpack("<q", template(kernel, bound, one))
        words.append({slot: value for slot, (value,) in zip(slots(kernel), block)})
        pointers += pointer_slots(plan, bound, kernel, where, temporaries)
        scalars += scalar_slots(plan, kernel, bound, where, numbers, extents)
    filled = [first[k] if slot.kind == "first" else words[k][slot] for k, slot in bundle.slots]
    begin = len(filled) - len(scalars)
    return Launch(
        driver(),
        function,
        launch,
        struct.pack(f"<{len(filled)}q", *filled),
        [slot._replace(offset=8 * k) for k, slot in enumerate(pointers)],
        [slot._replace(offset=8 * (begin + k)) for k, slot in enumerate(scalars)],
        names,
    )


def cpu_launch(
    plan: KernelPlan, bound: Bound, built: Built, functions: dict[str, Any], where, temporaries, numbers, extents, names
) -> HostLaunch:
    """The launch record of one kernel on the pool."""
    from ..codegen.cpu import variant
    from . import pool

    work = variant.launch(built.kernel, built.schedule, bound.extents)
    run = pool.runner(functions, work, len(slots(built.kernel)))
    block = template(built.kernel, bound, built.schedule)
    pointers = pointer_slots(plan, bound, built.kernel, where, temporaries)
    scalars = scalar_slots(plan, built.kernel, bound, where, numbers, extents)
    return HostLaunch(run, block, pointers, scalars, names, pool.single(functions, work))
