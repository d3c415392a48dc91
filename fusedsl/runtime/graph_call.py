"""The launches of several bound calls as one CUDA graph, as Kernel.graph returns it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_void_p
from typing import Any

from ..errors import ArgumentError, DeviceError
from .bound_call import BoundCall, CapturableLaunch
from .check_outputs import version_counter
from .driver import driver
from .graph_capture import CapturedGraph, capture_graph
from .native_entry import NativeEntry, graph_launcher


class GraphCall:
    """Bound calls, one after another, launched together: `graph()`.

    A call returns `result`, that of the last bound call. It runs on the caller's current stream; on the CPU the calls
    are made in turn. Threads may call at once, and a graph may be captured into another library's.
    """

    def __init__(self, steps: Sequence[BoundCall]):
        self._steps = tuple(steps)
        self.result = self._steps[-1].result
        launches = [step.capturable for step in self._steps]
        devices = {launch.device for launch in launches}
        if len(devices) > 1:
            named = " and ".join("the CPU" if d is None else f"cuda:{d}" for d in sorted(devices, key=str))
            raise DeviceError(f"a graph runs in one place, and its calls are on {named}", "device.mixed",
                              help="record one graph for each device")  # fmt: skip
        on_device = devices != {None}
        self._run = _launcher(_InstantiatedGraph(launches)) if on_device else self._run_in_turn

    def then(self, kernel: Any, /, *args: Any, out: Any = None, **named: Any) -> GraphCall:
        """A graph with another kernel's call added; the arguments are those of `Kernel.bind`."""
        if not hasattr(kernel, "bind"):
            raise ArgumentError(f"a graph goes on with a kernel, not with {type(kernel).__name__}", "argument.kernel",
                                help='graph.then(fd.kernel("2 * y"), y, out=y)')  # fmt: skip
        return GraphCall((*self._steps, kernel.bind(*args, out=out, **named)))

    def __call__(self) -> Any:
        self._run()
        return self.result

    def _run_in_turn(self) -> None:
        for step in self._steps:
            step()

    def __len__(self) -> int:
        """The number of its bound calls."""
        return len(self._steps)

    def __repr__(self) -> str:
        return f"<fusedsl.GraphCall of {len(self)}>"


class _InstantiatedGraph:
    """An executable graph of the driver. It keeps alive what its launches use."""

    def __init__(self, calls: Sequence[CapturableLaunch]):
        if any(call.fire is None for call in calls):
            help = "bind it instead, or pass arrays that kernels can read and write as they are"
            raise ArgumentError("this call copies some of its arrays each time, and cannot be recorded",
                                "argument.graph", help=help)  # fmt: skip
        self.calls = tuple(calls)
        self.fires = [call.fire for call in calls if call.fire is not None]
        self.device = calls[0].device or 0
        with driver().on(self.device):
            self.handle = capture_graph(driver(), [call.record for call in calls if call.record is not None])
        self.graph = CapturedGraph(driver(), self.device, renewed=0)
        self.graph.publish(0, self.handle)


def _launcher(recorded: _InstantiatedGraph) -> Callable[[], None]:
    """A function that launches a graph on the caller's current stream.

    If that stream is captured, or another thread launches the graph at the same time, it launches the kernels one by
    one.
    """
    read_stream = recorded.calls[0].stream
    assert read_stream is not None
    written = tuple(tensor for call in recorded.calls for tensor in call.written)
    mark = version_counter() if written else None
    entry = graph_launcher(ctypes.addressof(driver().launch_address), recorded.graph.address)
    launch = entry if driver().launch_address.value and entry else _ctypes_launcher(recorded)

    def run(graph: _InstantiatedGraph = recorded) -> None:
        stream = read_stream()
        if launch(stream):
            for fire in graph.fires:
                fire(stream)
        if mark is not None:
            mark(written)

    return run


def _ctypes_launcher(recorded: _InstantiatedGraph) -> NativeEntry:
    """The launcher through ctypes, if builtins are not available."""

    def launch(stream: int) -> int:
        if driver().is_capturing(stream):
            return 1
        with driver().on(recorded.device):
            return driver().attempt("cuGraphLaunch", c_void_p(recorded.handle), c_void_p(stream))

    return launch
