"""A call with its arguments fixed: what Kernel.bind returns. Its parameter blocks are filled in once for a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .call import Call
from .keys import address_of
from .results import version_counter


class BoundCall:
    """Computes the same results from the same arrays again, whatever these hold by then: `bound()`.

    `result` is where they go (a tuple of several), and what a call returns. Runs on the caller's current stream. Python
    numbers keep the value that they had. Threads may call at once, as long as they do not write the same results.
    """

    __slots__ = ("_run", "result")

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
    read_stream, tickets = call.stream, call.tickets
    where: Callable[[], Any] = read_stream
    if tickets is not None:
        where = lambda: (stream := read_stream(), tickets(stream))  # noqa: E731
    marked = tuple(results) if call.library == "torch" else ()
    mark = version_counter() if marked else None
    known: dict[Any, Callable[[], None]] = {}  # by stream, and tickets if there are any

    def fill(key: Any) -> Callable[[], None]:
        stream, counters = (key, 0) if tickets is None else key
        every = [*filled, counters, *call.numbers]
        return known.setdefault(key, _in_turn([record.fixed(every, stream) for record in call.records]))

    def run(owners: tuple = (memory, kept, results)) -> None:
        key = where()
        (known.get(key) or fill(key))()
        if mark is not None:
            mark(marked)

    fill(where())
    return run


def _in_turn(launches: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """All launches as one function."""
    if len(launches) == 1:
        return launches[0]

    def fire_all() -> None:
        for fire in launches:
            fire()

    return fire_all
