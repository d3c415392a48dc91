"""A call with its arguments fixed: what Kernel.bind returns. Its parameter blocks are filled in once for a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .call import Call
from .keys import address_of
from .results import version_counter

Run = Callable[[], None]


@dataclass(frozen=True)
class Fixed:
    """A call as a function of nothing. On a CUDA `device`, `on(stream)` gives its launches on one stream alone, and
    `stream()` is the caller's current one; `written` are torch's tensors that it writes.
    """

    run: Run
    on: Callable[[int], Run] | None = None
    stream: Callable[[], int] | None = None
    device: int | None = None
    written: tuple = ()


class BoundCall:
    """Computes the same results from the same arrays again, whatever these hold by then: `bound()`.

    `result` is where they go (a tuple of several), and what a call returns. Runs on the caller's current stream. Python
    numbers keep the value that they had. Threads may call at once, as long as they do not write the same results.
    """

    __slots__ = ("_run", "fixed", "result")

    def __init__(self, fixed: Fixed, result: Any):
        self.fixed, self._run, self.result = fixed, fixed.run, result

    def __call__(self) -> Any:
        self._run()
        return self.result

    def __repr__(self) -> str:
        return "<fusedsl.BoundCall>"


def fix(call: Call, payloads: Sequence[Any], results: Sequence[Any], kept: Any, device: int | None) -> Fixed:
    """A prepared call that writes `results`, on a CUDA `device` or (None) the CPU; `kept` stays alive with it.

    DTypeError for a number that does not fit its parameter.
    """
    memory = None if call.workspace is None else call.workspace()
    filled = [*payloads, *map(address_of, results), 0 if memory is None else address_of(memory)]
    read_stream, tickets = call.stream, call.tickets
    where: Callable[[], Any] = read_stream
    if tickets is not None:
        where = lambda: (stream := read_stream(), tickets(stream))  # noqa: E731
    written = tuple(results) if call.library == "torch" else ()
    mark = version_counter() if written else None
    known: dict[Any, Run] = {}  # by stream, and tickets if there are any

    def launches(stream: int, counters: int) -> Run:
        every = [*filled, counters, *call.numbers]
        return in_turn([record.fixed(every, stream) for record in call.records])

    def fill(key: Any) -> Run:
        return known.setdefault(key, launches(*((key, 0) if tickets is None else key)))

    def run(owners: tuple = (memory, kept, results)) -> None:
        key = where()
        (known.get(key) or fill(key))()
        if mark is not None:
            mark(written)

    def on(stream: int, owners: tuple = (memory, kept, results)) -> Run:
        return launches(stream, 0 if tickets is None else tickets(stream))

    fill(where())
    return Fixed(run) if device is None else Fixed(run, on, read_stream, device, written)


def in_turn(runs: Sequence[Run]) -> Run:
    """All of them as one function."""
    if len(runs) == 1:
        return runs[0]

    def run_all() -> None:
        for run in runs:
            run()

    return run_all
