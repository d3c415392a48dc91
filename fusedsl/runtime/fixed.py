"""A call with its arguments fixed: what Kernel.bind returns. Its parameter blocks are filled in once for a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..generated import Lines
from .call import Call
from .keys import address_of
from .results import version_counter


class BoundCall(Protocol):
    """Computes the same results from the same arrays again, whatever these hold by then: `bound()`.

    `result` is where they go (a tuple of several), and what a call returns. Runs on the caller's current stream. Python
    numbers keep the value that they had. Threads may call at once, as long as they do not write the same results.
    """

    result: Any
    fixed: Fixed

    def __call__(self) -> Any: ...


@dataclass(frozen=True)
class Fixed:
    """What a bound call is for a graph. On a CUDA `device`, `fire(stream)` launches it once on that stream, `stream()`
    is the caller's current one, and `written` are torch's tensors that it writes.
    """

    device: int | None = None
    fire: Callable[[int], None] | None = None
    stream: Callable[[], int] | None = None
    written: tuple = ()


def bind_results(bound: Any, result: Any, fixed: Fixed) -> BoundCall:
    """A function of nothing as a bound call."""
    bound.result, bound.fixed = result, fixed
    return bound


def fix(call: Call, payloads: Sequence[Any], results: Sequence[Any], kept: Any, device: int | None) -> BoundCall:
    """A prepared call that writes `results`, on a CUDA `device` or (None) the CPU; `kept` stays alive with it.

    DTypeError for a number that does not fit its parameter.
    """
    memory = None if call.workspace is None else call.workspace()
    filled = [*payloads, *map(address_of, results), 0 if memory is None else address_of(memory)]
    result = results[0] if len(results) == 1 else tuple(results)
    written = tuple(results) if call.library == "torch" else ()
    tickets = call.tickets

    def area(stream: int, counters: int = 0) -> list:
        every = [*filled, counters, *call.numbers]
        return [part for record in call.records if record.width for part in record.filled(every, stream)]

    known: dict[Any, list] = {}  # areas by stream, and tickets if there are any

    def new_area(key: Any) -> list:
        if known and memory is not None and hasattr(memory, "record_stream"):  # of another stream than this one
            _record_stream(memory, key if tickets is None else key[0])
        return known.setdefault(key, area(key) if tickets is None else area(*key))

    lines = Lines()
    key = f"{lines.name(call.stream)}()"
    if tickets is not None:
        key = f"({key}, {lines.name(lambda: tickets(call.stream()))}())"
    lines.add(f"key = {key}", f"area = {lines.name(known.get)}(key)")
    lines.add("if area is None:", f"    area = {lines.name(new_area)}(key)", *_fire(call, lines))
    if written:
        lines.add(f"{lines.name(version_counter())}({lines.name(written)})")
    lines.add(f"return {lines.name(result)}")
    lines.name((memory, kept))  # which live as long as the function
    bound = lines.function("bound", "")
    bound_to = call.stream()
    new_area(bound_to if tickets is None else (bound_to, tickets(bound_to)))
    if device is None:
        return bind_results(bound, result, Fixed())
    once = Lines()
    once.add(*_fire(call, once) or ["pass"])
    fire = once.function("fire", "area")

    def fire_on(stream: int, owners: tuple = (memory, kept, results)) -> None:
        fire(area(stream, 0 if tickets is None else tickets(stream)))

    return bind_results(bound, result, Fixed(device, fire_on, call.stream, written))


def _record_stream(memory: Any, stream: int) -> None:
    """Tell torch that its memory is used on a further stream, so that it is reused after that work too."""
    import torch

    memory.record_stream(torch.cuda.ExternalStream(stream, device=memory.device))


def _fire(call: Call, lines: Lines) -> list[str]:
    """The lines that launch a call whose parameters are in `area`."""
    found: list[str] = []
    first = 0
    for record in call.records:
        found += record.fire_lines(first, lines.name) if record.width else []
        first += record.width
    return found
