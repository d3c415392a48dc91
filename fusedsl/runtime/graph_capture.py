"""CUDA graphs of repeated calls: the driver launches a graph in a third of the time that a kernel takes.

A call that is repeated on one stream gets a graph, whose parameters are updated in place if they differ. Machine code
(native_entry.py) launches it if the stream is the graph's own and is not captured, and no other thread launches it at
the same time. Any other call launches its kernels, as before.

Sources: CUDA driver API, "Graph Management" and "Stream Management" (capture).
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p

from ..config import launch_graphs
from ..errors import FusedslError
from .driver import Driver

CALLS_BEFORE_CAPTURE = 64  # calls on one stream until a graph is made
MAX_GRAPHS = 128  # graphs per process; each takes 110 KB of device memory
LAUNCHES_BEFORE_RENEWAL = 1 << 14  # the driver's memory of a graph's launches is freed with the graph
_HEAD = 12  # words before the block; see %graph in native_entry_ir.py
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
_FUNCTIONS = ("cuGraphLaunch", "cuStreamIsCapturing", "cuGraphExecKernelNodeSetParams_v2")
_lock = threading.Lock()
_live_graphs = 0


class CapturedGraph:
    """A CUDA graph and the memory by whose `address` machine code launches it; `capture_kernel` or `capture` makes it.

    `block` is the size in bytes of the parameters that may differ from call to call. After `renewed` launches the graph
    is retired (0: never, None: LAUNCHES_BEFORE_RENEWAL).
    """

    def __init__(self, driver: Driver, device: int, block: int = 0, renewed: int | None = None):
        self.driver, self.device = driver, device
        self.words = (c_uint64 * (_HEAD + block // 8))()
        self.address = ctypes.addressof(self.words)
        self.words[4], self.words[10], self.words[11] = (
            CALLS_BEFORE_CAPTURE,
            LAUNCHES_BEFORE_RENEWAL if renewed is None else renewed,
            block,
        )
        self._graph = self._executable = 0
        self._counted = False

    def capture_kernel(self, function: int, head: bytes, block: bytes, stream: int) -> None:
        """Make the graph of one kernel with this launch configuration and parameter block, for a stream."""
        at, d = self.address + 8 * _HEAD, self.driver
        self._destroy()
        if not self._count():
            return
        ctypes.memmove(at, block, len(block))
        self._size = c_size_t(len(block))
        self._extra = (c_uint64 * 5)(1, at, 2, ctypes.addressof(self._size), 0)
        # struct CUDA_KERNEL_NODE_PARAMS: function, grid, block, shared bytes, kernelParams, extra, kernel, context
        parameters = struct.pack("<Q28s4x4Q", function, head[:28], 0, ctypes.addressof(self._extra), 0, 0)
        self._parameters = (ctypes.c_char * len(parameters)).from_buffer_copy(parameters)
        graph, node, executable = c_void_p(), c_void_p(), c_void_p()
        with d.on(self.device), d.relaxed_capture():
            d.call("cuGraphCreate", byref(graph), c_uint(0))
            self._graph = graph.value or 0
            d.call("cuGraphAddKernelNode_v2", byref(node), graph, None, c_size_t(0), byref(self._parameters))
            d.call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
        self.words[8], self.words[9] = node.value or 0, ctypes.addressof(self._parameters)
        self.publish(stream, executable.value or 0)

    def capture(self, fire: Callable[[int], None], stream: int) -> None:
        """Make the graph of what `fire` launches, for a stream."""
        self._destroy()
        if self._count():
            with self.driver.on(self.device):
                self.publish(stream, capture_graph(self.driver, [fire]))

    @property
    def is_retired(self) -> bool:
        """Whether there was a graph that is not launched any more."""
        return self._executable != 0 and not self.words[2]

    def publish(self, stream: int, executable: int) -> None:
        """Launch this executable graph from now on; it belongs to this object."""
        self._executable = executable
        self.words[1], self.words[3] = stream, 0
        for word, name in enumerate(_FUNCTIONS, 5):
            self.words[word] = self.driver.address(name) if self.driver.launch_address.value else 0
        self.words[2] = executable  # last

    def _count(self) -> bool:
        """Whether the process may have one more graph; it is counted."""
        global _live_graphs
        with _lock:
            self._counted = _live_graphs < MAX_GRAPHS and launch_graphs()
            _live_graphs += self._counted
        return self._counted

    def _destroy(self) -> None:
        """Destroy the graph; the driver does so once it has run."""
        global _live_graphs
        with _lock:
            _live_graphs -= self._counted
        executable, graph, self._executable, self._graph, self._counted = self._executable, self._graph, 0, 0, False
        if not (executable or graph):
            return
        self.words[2] = 0
        with contextlib.suppress(FusedslError), self.driver.on(self.device), self.driver.relaxed_capture():
            if executable:
                self.driver.attempt("cuGraphExecDestroy", c_void_p(executable))
            if graph:
                self.driver.attempt("cuGraphDestroy", c_void_p(graph))

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._destroy()


def capture_graph(d: Driver, calls: Sequence[Callable[[int], None]]) -> int:
    """The handle of an executable graph of these launches, each after the one before it."""
    stream, graph, executable = c_void_p(), c_void_p(), c_void_p()
    with d.relaxed_capture():  # the caller may be capturing: nothing here is part of that
        d.call("cuStreamCreate", byref(stream), c_uint(_NON_BLOCKING))
    try:
        d.call("cuStreamBeginCapture_v2", stream, c_uint(_THREAD_LOCAL))
        try:
            for fire in calls:
                fire(stream.value or 0)
        finally:
            ended = d.attempt("cuStreamEndCapture", stream, byref(graph))
        if ended:
            raise d.fault(ended, "cuStreamEndCapture")
        with d.relaxed_capture():
            d.call("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
    finally:
        if graph.value:
            d.attempt("cuGraphDestroy", graph)
        with d.relaxed_capture():
            d.attempt("cuStreamDestroy_v2", stream)
    return executable.value or 0
