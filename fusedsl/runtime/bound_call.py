"""A call with its arguments fixed: what Kernel.bind returns. Its parameter blocks are filled in once."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import FusedslError
from ..generated_code import FunctionWriter
from .argument_keys import address_of
from .captured_graphs import CapturedGraph
from .cuda_streams import stream_expression
from .driver import driver
from .native_entry import NativeEntry, graph_launcher
from .outputs import version_counter
from .prepared_call import PreparedCall

CALLS_BEFORE_GRAPH = 4  # on a stream until it has a graph there


class BoundCall(Protocol):
    """Computes the same results from the same arrays again, whatever these hold by then: `bound()`.

    `result` is where they go (a tuple of several), and what a call returns. Runs on the caller's current stream. Python
    numbers keep the value that they had. Threads may call at once, as long as they do not write the same results.
    """

    result: Any
    fixed: CapturableLaunch

    def __call__(self) -> Any: ...


@dataclass(frozen=True)
class CapturableLaunch:
    """What a bound call is for a graph. On a CUDA `device`, `fire(stream)` launches it once on that stream, and so does
    `record(stream)` in a capture of ours; `stream()` is the caller's current one, and `written` are torch's tensors
    that it writes.
    """

    device: int | None = None
    fire: Callable[[int], None] | None = None
    stream: Callable[[], int] | None = None
    written: tuple = ()
    record: Callable[[int], None] | None = None


def bind_results(bound: Any, result: Any, fixed: CapturableLaunch) -> BoundCall:
    """A function of nothing as a bound call."""
    bound.result, bound.fixed = result, fixed
    bound.__qualname__ = "Kernel.bind.<locals>.bound"  # by which pickle says why it cannot take it along
    return bound


def fix_arguments(
    call: PreparedCall, payloads: Sequence[Any], results: Sequence[Any], kept: Any, device: int | None
) -> BoundCall:
    """A prepared call that writes `results`, on a CUDA `device` or (None) the CPU; `kept` stays alive with it.

    DTypeError for a number that does not fit its parameter.
    """
    memory = None if call.workspace is None else call.workspace()
    values = [*payloads, *map(address_of, results), 0 if memory is None else address_of(memory), 0, *call.numbers]
    result = results[0] if len(results) == 1 else tuple(results)
    written = tuple(results) if call.library == "torch" else ()
    once = FunctionWriter()
    _fire(call, values, once)
    once.name((memory, kept, results))  # which live as long as the function
    once.add("return None")
    fire = once.function("fire", "stream")
    lines = FunctionWriter()
    lines.add(f"stream = {stream_expression(call.stream, lines.name)}")
    if hasattr(memory, "record_stream"):  # torch's, which is to know of all streams that use it
        known = {call.stream()}
        lines.add(f"if stream not in {lines.name(known)}:", f"    {lines.name(known.add)}(stream)")
        lines.add(f"    {lines.name(_record_stream)}({lines.name(memory)}, stream)")
    if device is not None and driver().entry.value:
        graphs = _StreamGraphs(fire, overlapped_launches(call, values), device)
        lines.add(f"if {lines.name(graphs.get)}(stream, {lines.name(graphs.fire)})(stream):")
        lines.add(f"    {lines.name(graphs.again)}(stream)")
    else:
        _fire(call, values, lines)
    if written:
        lines.add(f"{lines.name(version_counter())}({lines.name(written)})")
    lines.add(f"return {lines.name(result)}")
    lines.name((memory, kept))
    bound = lines.function("bound", "")
    if device is None:
        return bind_results(bound, result, CapturableLaunch())
    return bind_results(
        bound, result, CapturableLaunch(device, fire, call.stream, written, overlapped_launches(call, values))
    )


def overlapped_launches(call: PreparedCall, values: Sequence[Any]) -> Callable[[int], None]:
    """What launches a call with these payloads on a stream that is captured: the launches overlap in starting.

    In graphs alone: on a stream, blocks that wait early are placed badly (measured: up to 1.8 times the time).
    """
    place, tickets = len(values) - len(call.numbers) - 1, call.tickets

    def launch(stream: int) -> None:
        payloads = list(values)
        payloads[place] = 0 if tickets is None else tickets(stream, ours=True)
        for number, record in enumerate(call.records):
            (record.follow if number else record.fire)(payloads, stream)

    return launch


class _StreamGraphs:
    """The graphs of a bound call by stream: `get(stream, fire)(stream)` launches; if it gives 1, `again` is to."""

    def __init__(self, fire: Callable[[int], None], record: Callable[[int], None], device: int):
        self.launch, self.record, self.device = fire, record, device
        self.calls: dict[int, int] = {}
        self.graphs: dict[int, CapturedGraph] = {}
        self.builtins: dict[int, NativeEntry] = {}
        self.get = self.builtins.get

    def fire(self, stream: int) -> int:
        """Launch on a stream that has no graph, and record one where it will be used."""
        self.launch(stream)
        self.calls[stream] = calls = self.calls.get(stream, 0) + 1
        if calls >= CALLS_BEFORE_GRAPH and not driver().is_capturing(stream):
            self.graphs[stream] = graph = CapturedGraph(driver(), self.device)
            entry = graph_launcher(ctypes.addressof(driver().entry), graph.address)
            self._record(graph, stream)
            self.builtins[stream] = entry or self.fire
        return 0

    def again(self, stream: int) -> None:
        """Launch where the graph could not be; one that is to be made anew, is."""
        self.launch(stream)
        graph = self.graphs.get(stream)
        if graph is not None and graph.retired and not driver().is_capturing(stream):
            self._record(graph, stream)

    def _record(self, graph: CapturedGraph, stream: int) -> None:
        with contextlib.suppress(FusedslError):
            graph.adopt(self.record, stream)


def _record_stream(memory: Any, stream: int) -> None:
    """Tell torch that its memory is used on a further stream, so that it is reused after that work too."""
    import torch

    memory.record_stream(torch.cuda.ExternalStream(stream, device=memory.device))


def _fire(call: PreparedCall, values: Sequence[Any], lines: FunctionWriter) -> None:
    """Lines that launch a call with these payloads on `stream`."""
    words, place = [lines.name(value) for value in values], len(values) - len(call.numbers) - 1
    constants = dict(enumerate(values))
    if call.tickets is not None:
        lines.add(f"tickets = {lines.name(call.tickets)}(stream)")
        words[place] = "tickets"
        del constants[place]
    for record in call.records:
        lines.add(*record.repeat_lines(words, constants, lines.name)[1])
