"""Calls with fixed arguments, as Kernel.bind returns them: their parameter blocks are filled in once."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import FusedslError
from ..generated_code import FunctionBuilder
from .argument_keys import address_of
from .check_outputs import version_counter
from .cuda_streams import stream_expression
from .driver import driver
from .graph_capture import CapturedGraph
from .native_entry import NativeEntry, graph_launcher
from .prepared_call import PreparedCall

CALLS_BEFORE_GRAPH = 4  # calls on a stream until a graph is recorded for it


class BoundCall(Protocol):
    """Recomputes the same results from the same arrays, whatever these hold by then: `bound()`.

    `result` is the output array (a tuple of several) that a call writes and returns. A call runs on the caller's
    current stream. Python numbers keep the value that they had. Threads may call at once, as long as they write other
    results.
    """

    result: Any
    capturable: CapturableLaunch

    def __call__(self) -> Any: ...


@dataclass(frozen=True)
class CapturableLaunch:
    """The launches of a bound call, as a CUDA graph records them; without fields if they cannot be recorded."""

    device: int | None = None  # of the CUDA device; None on the CPU
    fire: Callable[[int], None] | None = None  # launches once on this stream
    stream: Callable[[], int] | None = None  # the caller's current stream
    written: tuple = ()  # torch tensors that the call writes
    record: Callable[[int], None] | None = None  # launches on a stream that we capture


def bind_results(bound: Any, result: Any, fixed: CapturableLaunch) -> BoundCall:
    """A function without arguments as a bound call."""
    bound.result, bound.capturable = result, fixed
    bound.__qualname__ = "Kernel.bind.<locals>.bound"  # pickle names it in its error
    return bound


def fix_arguments(
    call: PreparedCall, payloads: Sequence[Any], results: Sequence[Any], owners: Any, device: int | None
) -> BoundCall:
    """A prepared call that writes `results`, on a CUDA `device` or (None) the CPU; `owners` stays alive with it.

    DTypeError for a number that does not fit its parameter.
    """
    if call.is_long:
        return _bind_long(call, payloads, results, owners)
    memory = None if call.workspace is None else call.workspace()
    values = [*payloads, *map(address_of, results), 0 if memory is None else address_of(memory), 0, *call.numbers]
    result = results[0] if len(results) == 1 else tuple(results)
    written = tuple(results) if call.library == "torch" else ()
    once = FunctionBuilder()
    _fire(call, values, once)
    once.name((memory, owners, results))  # which live as long as the function
    once.add("return None")
    fire = once.function("fire", "stream")
    lines = FunctionBuilder()
    lines.add(f"stream = {stream_expression(call.stream, lines.name)}")
    if hasattr(memory, "record_stream"):  # torch's allocator must know all streams that use the memory
        known = {call.stream()}
        lines.add(f"if stream not in {lines.name(known)}:", f"    {lines.name(known.add)}(stream)")
        lines.add(f"    {lines.name(_record_stream)}({lines.name(memory)}, stream)")
    if device is not None and driver().launch_address.value:
        graphs = _StreamGraphs(fire, overlapped_launches(call, values), device)
        lines.add(f"if {lines.name(graphs.get)}(stream, {lines.name(graphs.fire)})(stream):")
        lines.add(f"    {lines.name(graphs.relaunch)}(stream)")
    else:
        _fire(call, values, lines)
    if written:
        lines.add(f"{lines.name(version_counter())}({lines.name(written)})")
    lines.add(f"return {lines.name(result)}")
    lines.name((memory, owners))
    bound = lines.function("bound", "")
    if device is None:
        return bind_results(bound, result, CapturableLaunch())
    return bind_results(
        bound, result, CapturableLaunch(device, fire, call.stream, written, overlapped_launches(call, values))
    )


def _bind_long(call: PreparedCall, payloads: Sequence[Any], results: Sequence[Any], owners: Any) -> BoundCall:
    """`fix_arguments` for a call on the CPU that an interrupt may end."""
    result = results[0] if len(results) == 1 else tuple(results)
    held = (list(payloads), results, owners)  # which live as long as the function

    def bound() -> Any:
        call.run_long(*held[:2])
        return result

    values = [*payloads, *map(address_of, results), 0, 0, *call.numbers]
    for record in call.records:
        if record.layout.scalar_slots:
            record.layout.check(values)  # DTypeError
    return bind_results(bound, result, CapturableLaunch())


def overlapped_launches(call: PreparedCall, values: Sequence[Any]) -> Callable[[int], None]:
    """A function that launches a call with these payloads on a stream under capture; its launches overlap.

    Only graphs overlap launches (programmatic dependent launch): on a plain stream, blocks that wait early are placed
    badly.
    """
    # measured: up to 1.8 times the time on a plain stream
    index, tickets = len(values) - len(call.numbers) - 1, call.tickets

    def launch(stream: int) -> None:
        payloads = list(values)
        payloads[index] = 0 if tickets is None else tickets(stream, ours=True)
        for number, record in enumerate(call.records):
            (record.fire_overlapped if number else record.fire)(payloads, stream)

    return launch


class _StreamGraphs:
    """The graphs of a bound call by stream. `get(stream, fire)(stream)` launches; if it returns 1, call `again`."""

    def __init__(self, fire: Callable[[int], None], record: Callable[[int], None], device: int):
        self.launch, self.record, self.device = fire, record, device
        self.calls: dict[int, int] = {}
        self.graphs: dict[int, CapturedGraph] = {}
        self.builtins: dict[int, NativeEntry] = {}
        self.get = self.builtins.get

    def fire(self, stream: int) -> int:
        """Launch on a stream without a graph; after CALLS_BEFORE_GRAPH calls, record one."""
        self.launch(stream)
        self.calls[stream] = calls = self.calls.get(stream, 0) + 1
        if calls >= CALLS_BEFORE_GRAPH and not driver().is_capturing(stream):
            self.graphs[stream] = graph = CapturedGraph(driver(), self.device)
            entry = graph_launcher(ctypes.addressof(driver().launch_address), graph.address)
            self._record(graph, stream)
            self.builtins[stream] = entry or self.fire
        return 0

    def relaunch(self, stream: int) -> None:
        """Launch after the graph could not be launched; a retired graph is recorded again."""
        self.launch(stream)
        graph = self.graphs.get(stream)
        if graph is not None and graph.is_retired and not driver().is_capturing(stream):
            self._record(graph, stream)

    def _record(self, graph: CapturedGraph, stream: int) -> None:
        with contextlib.suppress(FusedslError):
            graph.capture(self.record, stream)


def _record_stream(memory: Any, stream: int) -> None:
    """Make torch wait for a further stream before it reuses the memory."""
    import torch

    memory.record_stream(torch.cuda.ExternalStream(stream, device=memory.device))


def _fire(call: PreparedCall, values: Sequence[Any], lines: FunctionBuilder) -> None:
    """Generated lines that launch a call with these payloads on `stream`."""
    words, counters = [lines.name(value) for value in values], len(values) - len(call.numbers) - 1
    constants = dict(enumerate(values))
    if call.tickets is not None:
        lines.add(f"tickets = {lines.name(call.tickets)}(stream)")
        words[counters] = "tickets"
        del constants[counters]
    for record in call.records:
        lines.add(*record.repeat_lines(words, constants, lines.name)[1])
