"""A libcuda of one device without a GPU: its memory is an arena, its modules are PTX, its launches are interpreted.

`fusedsl.runtime.driver.Driver(Libcuda(...))` is a driver over it; only what fusedsl calls is here.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from fusedsl.hardware import Hardware

from .bulk import encode_image_map, encode_map
from .machine import Grid, run
from .memory import Arena
from .program import Program, load

CONTEXT, NO_CONTEXT = 1000, 201
_COOPERATIVE, _CLUSTER, _ATTRIBUTE_BYTES = 2, 4, 72
_MAX_DYNAMIC_SHARED = 8


def in_context(function: Callable[..., int]) -> Callable[..., int]:
    """A function of the driver that a thread without a context may not call."""

    @functools.wraps(function)
    def call(self: Libcuda, *given: Any) -> int:
        return function(self, *given) if self.contexts[-1] else NO_CONTEXT

    return call


class Libcuda:
    """The driver's functions, with its calling convention: a CUresult of 0, answers through pointers."""

    def __init__(self, hardware: Hardware, arena: Arena, seed: int = 0) -> None:
        self.hardware, self.arena, self.seed = hardware, arena, seed
        self.modules: list[dict[str, Program]] = []
        self.functions: list[Program] = []
        self.launches: list[tuple[str, Grid]] = []
        self.allowed: dict[int, int] = {}  # dynamic shared memory of functions for which it was set
        self.contexts = [CONTEXT]  # as libraries of arrays leave it; [0]: a thread that never called one
        self.recording: dict[int, list] = {}  # what streams capture
        self.graphs: dict[int, list] = {}
        self.made = 0  # streams and graphs

    def __getattr__(self, name: str) -> Any:
        """Functions that change nothing here: streams, events, contexts, attributes that are set."""
        quiet = ("cuInit", "cuThreadExchangeStreamCaptureMode", "cuStreamSynchronize", "cuEventCreate", "cuEventRecord",
                 "cuStreamWaitEvent", "cuEventDestroy_v2", "cuEventQuery", "cuStreamDestroy_v2")  # fmt: skip
        if name not in quiet:
            raise AttributeError(name)
        return lambda *arguments: 0

    # ---- the device

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 1
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 13000
        return 0

    def cuDeviceGet(self, handle: Any, number: int) -> int:
        handle._obj.value = number
        return 0

    def cuDeviceGetName(self, name: Any, size: int, device: int) -> int:
        name.value = b"PTX interpreter"
        return 0

    def cuDeviceTotalMem_v2(self, size: Any, device: int) -> int:
        size._obj.value = len(self.arena.bytes)
        return 0

    @in_context
    def cuMemGetInfo_v2(self, free: Any, total: Any) -> int:
        free._obj.value, total._obj.value = len(self.arena.bytes) - self.arena.top, len(self.arena.bytes)
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, device: int) -> int:
        h = self.hardware
        value._obj.value = {
            75: h.cc[0], 76: h.cc[1], 16: h.multiprocessors, 97: h.block_shared, 81: h.shared,
            82: h.registers, 39: h.threads, 38: h.l2,
        }[number]  # fmt: skip
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> int:
        context._obj.value = CONTEXT
        return 0

    def cuCtxGetCurrent(self, context: Any) -> int:
        context._obj.value = self.contexts[-1] or None
        return 0

    def cuCtxSetCurrent(self, context: Any) -> int:
        self.contexts[-1] = context.value
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        self.contexts.append(context.value)
        return 0

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        self.contexts.pop()
        return 0

    def cuCtxGetDevice(self, device: Any) -> int:
        device._obj.value = 0
        return 0

    # ---- memory

    @in_context
    def cuMemAlloc_v2(self, address: Any, size: Any) -> int:
        address._obj.value = self.arena.allocate(size.value)
        return 0

    @in_context
    def cuMemFree_v2(self, address: Any) -> int:
        if self.arena.base <= address.value < self.arena.base + len(self.arena.bytes):  # not an earlier device's
            self.arena.free(address.value)
        return 0

    @in_context
    def cuMemcpyHtoD_v2(self, to: Any, source: Any, size: Any) -> int:
        self.arena.write(to.value, ctypes.string_at(source.value, size.value))
        return 0

    @in_context
    def cuMemcpyDtoH_v2(self, to: Any, source: Any, size: Any) -> int:
        ctypes.memmove(to.value, self.arena.place(source.value, size.value).tobytes(), size.value)
        return 0

    @in_context
    def cuMemsetD32Async(self, to: Any, word: int, count: Any, stream: Any) -> int:
        zeros = np.full(count.value, word, np.uint32).tobytes()
        return self._queue(stream.value or 0, lambda: self.arena.write(to.value, zeros))

    def cuPointerGetAttribute(self, device: Any, number: int, pointer: Any) -> int:
        device._obj.value = 0
        return 0

    @in_context
    def cuTensorMapEncodeTiled(self, to: Any, kind: int, rank: int, base: Any, *told: Any) -> int:
        *arrays, interleave, swizzle, _, _ = told
        counts = (rank, rank - 1, rank, rank)
        shape, strides, box, steps = ([int(array[k]) for k in range(n)] for array, n in zip(arrays, counts))
        data = encode_map(kind, rank, base.value, shape, strides, box, steps, interleave, swizzle)
        ctypes.memmove(to, data, len(data))
        return 0

    @in_context
    def cuTensorMapEncodeIm2col(self, to: Any, kind: int, rank: int, base: Any, *told: Any) -> int:
        shape, strides, lower, upper, channels, pixels, steps, interleave, swizzle, _, _ = told
        assert interleave == 0
        counts = ((shape, rank), (strides, rank - 1), (lower, rank - 2), (upper, rank - 2), (steps, rank))
        arrays = tuple([int(array[k]) for k in range(n)] for array, n in counts)
        data = encode_image_map(kind, base.value, arrays, channels.value, pixels.value, swizzle)
        ctypes.memmove(to, data, len(data))
        return 0

    # ---- kernels

    @in_context
    def cuModuleLoadData(self, module: Any, image: Any) -> int:
        self.modules.append(load(image.value.decode()))
        module._obj.value = len(self.modules)
        return 0

    @in_context
    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        self.functions.append(self.modules[module.value - 1][name.decode()])
        function._obj.value = len(self.functions)
        return 0

    @in_context
    def cuFuncGetAttribute(self, value: Any, number: int, function: Any) -> int:
        program = self.functions[function.value - 1]
        value._obj.value = {0: program.threads or 1024, 1: program.shared_bytes, 3: program.local_bytes, 4: 32}[number]
        return 0

    @in_context
    def cuFuncSetAttribute(self, function: Any, number: int, value: int) -> int:
        if number == _MAX_DYNAMIC_SHARED:
            self.allowed[function.value] = value
        return 0

    @in_context
    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, blocks: Any, function: Any, threads: int, shared: Any) -> int:
        taken = self.functions[function.value - 1].shared_bytes + shared.value + 1024
        fits = min(max(self.hardware.threads // threads, 1), self.hardware.shared // taken)
        blocks._obj.value = fits if shared.value <= self._most_shared(function.value) else 0
        return 0

    @in_context
    def cuOccupancyMaxActiveClusters(self, found: Any, function: Any, config: Any) -> int:
        *numbers, _, attributes, _ = struct.unpack("<7I4xQQI4x", ctypes.string_at(config, 56))
        _, cluster = struct.unpack("<I4xI", ctypes.string_at(attributes, 12))
        blocks = ctypes.c_int()
        shared = ctypes.c_size_t(numbers[6])
        self.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(blocks), function, numbers[3], shared)
        found._obj.value = blocks.value * self.hardware.multiprocessors // cluster
        return 0

    def _most_shared(self, function: int) -> int:
        """Dynamic shared memory of a launch, at most."""
        return self.allowed.get(function, 48 * 1024 - self.functions[function - 1].shared_bytes)

    @in_context
    def cuLaunchKernelEx(self, config: int, function: int, parameters: None, extra: int) -> int:
        *numbers, stream, attributes, count = struct.unpack("<7I4xQQI4x", ctypes.string_at(config, 56))
        marks = (ctypes.c_uint64 * 5).from_address(extra)
        block = ctypes.string_at(marks[1], ctypes.c_uint64.from_address(marks[3]).value)
        cluster, cooperative = 1, False
        for k in range(count):
            kind, value = struct.unpack("<I4xI", ctypes.string_at(attributes + k * _ATTRIBUTE_BYTES, 12))
            cluster = value if kind == _CLUSTER else cluster
            cooperative = cooperative or kind == _COOPERATIVE
        grid = Grid(numbers[0], numbers[3] * numbers[4], cluster, numbers[6], cooperative, numbers[4])
        program = self.functions[function - 1]
        if program.shared_bytes + grid.shared > self.hardware.block_shared:
            return 701
        if grid.shared > self._most_shared(function):
            return 1

        def work() -> None:
            self.launches.append((program.kernel.name, grid))
            run(program, self.arena, grid, block, self.seed)

        return self._queue(stream, work)

    def _queue(self, stream: int, work: Callable[[], Any]) -> int:
        """Do it now, or when the graph is launched that the stream is recorded into."""
        if stream in self.recording:
            self.recording[stream].append(work)
        else:
            work()
        return 0

    # ---- streams and graphs

    @in_context
    def cuStreamCreate(self, stream: Any, flags: Any) -> int:
        self.made += 1
        stream._obj.value = self.made
        return 0

    @in_context
    def cuStreamBeginCapture_v2(self, stream: Any, mode: Any) -> int:
        self.recording[stream.value] = []
        return 0

    def cuStreamEndCapture(self, stream: Any, graph: Any) -> int:
        self.made += 1
        graph._obj.value = self.made
        self.graphs[self.made] = self.recording.pop(stream.value)
        return 0

    def cuGraphInstantiateWithFlags(self, made: Any, graph: Any, flags: Any) -> int:
        self.made += 1
        made._obj.value = self.made
        self.graphs[self.made] = self.graphs[graph.value]
        return 0

    def cuGraphLaunch(self, graph: Any, stream: Any) -> int:
        for work in list(self.graphs[graph.value]):
            self._queue(stream.value or 0, work)
        return 0

    def cuGraphDestroy(self, graph: Any) -> int:
        del self.graphs[graph.value]
        return 0

    cuGraphExecDestroy = cuGraphDestroy

    @in_context
    def cuStreamIsCapturing(self, stream: Any, status: Any) -> int:
        status._obj.value = int((stream.value or 0) in self.recording)
        return 0

    def cuGetErrorName(self, code: int, name: Any) -> int:
        name._obj.value = f"CUDA_ERROR_{code}".encode()
        return 0

    cuGetErrorString = cuGetErrorName
