"""A prepared call: everything that further calls with the same shapes do, with no decision left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from threading import current_thread
from typing import TYPE_CHECKING, Any, NamedTuple

from . import native_entry
from .argument_keys import address_of
from .arrays import ArrayFacts, describe
from .check_outputs import mark_written
from .interruptible_calls import is_abandoned, run_interruptibly
from .keep_alive import keep_alive
from .private_copy import PrivateCopy

if TYPE_CHECKING:
    from .counters import BlockCounters

CALLS_BEFORE_LLVM = 16  # measured: loading LLVM takes 40 ms and saves 8 µs a call


class CallMemory(NamedTuple):
    """What a call allocates, in which library and on which stream."""

    allocators: Sequence[Callable[[], Any]]  # of the results
    workspace: Callable[[], Any] | None
    tickets: BlockCounters | None
    stream: Callable[[], int]
    library: str = "numpy"


class Aliasing(NamedTuple):
    """The byte spans of arguments and outputs from their addresses (None: no array), and which may share memory.

    (argument, output) in `in_place` may be the same memory. `disjoint` has (output, argument or ~output, bytes between
    their addresses) of arrays that interleave and share no element.
    """

    spans: Sequence[tuple[int, int] | None] = ()
    out_spans: Sequence[tuple[int, int] | None] = ()
    in_place: frozenset[tuple[int, int]] = frozenset()
    disjoint: frozenset[tuple[int, int, int]] = frozenset()


class PreparedCall:
    """One program at one set of shapes: allocate results, fill in addresses, launch each kernel in order."""

    def __init__(
        self,
        launches: Sequence[Any],
        numbers: Sequence[int],
        memory: CallMemory,
        aliasing: Aliasing,
        foreign: tuple[tuple[int, ...], int] = ((), 0),
    ):
        self.foreign = foreign  # arguments known through a protocol alone, which must be kept alive, and their device
        self.records = tuple(launches)
        self.on_device = any(launch.on_device for launch in launches)
        self.is_long = any(getattr(launch, "is_long", False) for launch in launches)
        self.launches = tuple(launch.fire for launch in launches)
        self.all_spans, self.out_spans, self.in_place, self.disjoint = aliasing
        given = [s for s in launches[1:] if any(n.argument < len(self.all_spans) for n in s.layout.scalar_slots)]
        self.checks = tuple(launch.layout.check for launch in given)
        self.spans = tuple((k, *span) for k, span in enumerate(self.all_spans) if span is not None)
        self.allocators, self.workspace, self.tickets, self.stream, self.library = memory
        self.numbers = tuple(numbers)
        self.warm_call: Any = None  # generated code that repeats the call, made at the first repetition
        self.rewrites = 0  # warm calls generated so far
        self._repeated = 0

    def __call__(self, payloads: list, outs: Sequence[Any] | None = None) -> list:
        """Run for these arguments' payloads. `outs` are arrays to write, or None for new ones. Returns the results."""
        if self.is_long:
            return self.run_long(payloads, outs)
        if outs is None:
            results = [make() for make in self.allocators]
        else:
            results = [make() if given is None else given for make, given in zip(self.allocators, outs)]
        self._launch([*payloads, *map(address_of, results)], outs)
        return results

    def run_long(self, payloads: list, outs: Sequence[Any] | None) -> list:
        """`__call__` for a call that an interrupt may end: it writes memory that no one else sees until it is done."""
        given: Sequence[Any] = outs or [None] * len(self.allocators)
        results = [make() if out is None else out for make, out in zip(self.allocators, given)]
        facts = [None if out is None else describe(out, "out") for out in given]
        own = [PrivateCopy(out) if isinstance(out, ArrayFacts) else None for out in facts]
        addresses = [address_of(r) if copy is None else copy.address for r, copy in zip(results, own)]
        run_interruptibly(lambda: self._launch([*payloads, *addresses], None))
        for copy in own:
            if copy is not None:
                copy.publish()
        if outs is not None and self.library == "torch":
            mark_written([out for out in outs if out is not None])
        return results

    def _launch(self, payloads: list, outs: Sequence[Any] | None) -> None:
        """Launch every kernel for these addresses and numbers, of arguments and results."""
        filled, stream, _memory = self._filled(payloads)  # the workspace lives until all are launched
        for check in self.checks:  # raises for a number that does not fit, before anything is written
            check(filled)
        for fire in self.launches:
            if self.is_long and is_abandoned(current_thread()):
                return
            fire(filled, stream)
        if self.foreign[0]:
            keep_alive([filled[k] for k in self.foreign[0]], stream, self.foreign[1])
        if outs is not None and self.library == "torch":
            mark_written([out for out in outs if out is not None])

    def _filled(self, payloads: list) -> tuple[list, int, Any]:
        """(the payloads of the launches, the stream, the workspace)."""
        memory, stream = None if self.workspace is None else self.workspace(), self.stream()
        shared = 0 if memory is None else address_of(memory), 0 if self.tickets is None else self.tickets(stream)
        return [*payloads, *shared, *self.numbers], stream, memory

    def worth_a_warm_call(self) -> bool:
        """Whether to generate a warm call: at once, or after CALLS_BEFORE_LLVM calls if LLVM must be loaded for it.

        Long calls gain nothing from one, and have to run here.
        """
        self._repeated += 1
        if self.is_long:
            return False
        return native_entry.ready() or not self.on_device or self._repeated > CALLS_BEFORE_LLVM

    def repeatable(self, payloads: list, results: list | None = None) -> tuple[list[Callable[[], None]], int]:
        """(each launch as a function without arguments, the stream): for timing.

        The launches write to `results`, or to arrays of their own like those that a call would make.
        """
        results = [make() for make in self.allocators] if results is None else results
        filled, stream, memory = self._filled([*payloads, *map(address_of, results)])

        def repeated(fire: Callable, owners: tuple = (results, memory)) -> Callable[[], None]:
            return lambda: (fire(filled, stream), owners)[0]

        return [repeated(fire) for fire in self.launches], stream

    def may_write(self, payloads: Sequence[Any], outs: Sequence[Any]) -> bool:
        """Whether these outputs, of the layouts prepared for, may be written: none overlaps an input, except in place.

        Those that interleave with another array and share no element with it are in `disjoint` (see Aliasing).
        """
        ends: list[tuple[int, int, int, int]] = []
        for r, (out, span) in enumerate(zip(outs, self.out_spans)):
            if span is None:
                continue
            if self.library == "numpy" and not (isinstance(out, sys.modules["numpy"].ndarray) and out.flags.writeable):
                return False
            start, (low, high) = address_of(out), span
            for k, first, end in self.spans:
                meets = start + low < payloads[k] + end and payloads[k] + first < start + high
                same = payloads[k] == start and (k, r) in self.in_place
                if meets and not same and (r, k, start - payloads[k]) not in self.disjoint:
                    return False
            for first, end, other, begin in ends:
                if start + low < end and first < start + high and (r, ~other, start - begin) not in self.disjoint:
                    return False
            ends.append((start + low, start + high, r, start))
        return True
