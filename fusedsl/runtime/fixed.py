"""A call with its arguments fixed: what Kernel.bind returns. Its parameter blocks are filled in once for a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .call import Call
from .keys import address_of
from .results import mark_written


class BoundCall:
    """Computes the same results from the same arrays again, whatever these hold by then: `bound()`.

    `result` is where they go (a tuple of several), and what a call returns. Runs on the caller's current stream. Python
    numbers keep the value that they had. Threads may call at once, as long as they do not write the same results.
    """

    def __init__(self, run: Callable[[], Any], result: Any):
        self._run = run
        self.result = result

    def __call__(self) -> Any:
        self._run()
        return self.result

    def __repr__(self) -> str:
        return "<fusedsl.BoundCall>"


def fix(call: Call, payloads: Sequence[Any], results: Sequence[Any], kept: Any) -> Callable[[], None]:
    """A prepared call as a function of nothing that writes `results`; `kept` stays alive with it.

    DTypeError for a number that does not fit its parameter.
    """
    memory = None if call.workspace is None else call.workspace()
    filled = [*payloads, *map(address_of, results), 0 if memory is None else address_of(memory)]
    read_stream, tickets, fixers = call.stream, call.tickets, call.fixers
    written = list(results) if call.library == "torch" else []
    launches: dict[Any, tuple[Callable[[], None], ...]] = {}

    def fill(stream: int, counters: int) -> tuple[Callable[[], None], ...]:
        every = [*filled, counters, *call.numbers]
        return launches.setdefault((stream, counters), tuple(fixed(every, stream) for fixed in fixers))

    def run(owners: tuple = (memory, kept, results)) -> None:
        stream = read_stream()
        counters = 0 if tickets is None else tickets(stream)
        for fire in launches.get((stream, counters)) or fill(stream, counters):
            fire()
        for out in written:
            mark_written(out)

    first = read_stream()
    fill(first, 0 if tickets is None else tickets(first))
    return run
