"""One program at one set of shapes: what every further call with these shapes does, with nothing left to decide."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import native_entry
from .argument_keys import address_of
from .keep_alive import keep_alive
from .launch import LaunchRecord
from .outputs import mark_written

if TYPE_CHECKING:
    from .counters import BlockCounters

CALLS_BEFORE_LLVM = 16  # calls before LLVM is loaded, which takes 40 ms, to save 8 µs on each of those that follow


class PreparedCall:
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
        tickets: BlockCounters | None = None,
        apart: frozenset[tuple[int, int, int]] = frozenset(),
        foreign: tuple[tuple[int, ...], int] = ((), 0),
    ):
        self.foreign = foreign  # arguments on a device whose library does not know of our launches, and the device
        self.records = tuple(launches)
        self.on_device = any(isinstance(launch, LaunchRecord) for launch in launches)
        self.launches = tuple(launch.fire for launch in launches)
        given = [s for s in launches[1:] if any(slot.argument < len(spans) for slot in s.layout.slots)]
        self.checks = tuple(launch.layout.check for launch in given)
        self.makers = tuple(makers)
        self.workspace = workspace
        self.numbers = tuple(numbers)
        self.stream = stream
        self.all_spans = tuple(spans)
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
            keep_alive([payloads[k] for k in self.foreign[0]], stream, self.foreign[1])
        if outs is not None and self.library == "torch":
            for out in outs:
                mark_written(out)
        return results

    def worth_replaying(self) -> bool:
        """Whether generated lines are to be made: at once, or where LLVM must be loaded for them, a few calls later."""
        self._repeated += 1
        return native_entry.ready() or not self.on_device or self._repeated > CALLS_BEFORE_LLVM

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
            if self.library == "numpy" and not (isinstance(out, sys.modules["numpy"].ndarray) and out.flags.writeable):
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
