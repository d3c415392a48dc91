"""Launch records: everything about one kernel at one set of shapes, so that a call only fills in pointers and scalars.

A record is immutable and may be fired by many threads at once. What a launch writes (configuration and parameter
block) goes to a scratch area taken from a free list and put back after the call: nothing grows with calls, and a
call made by a signal handler or finaliser in the middle of another finds its own area. Generated lines, which repeat a
call, use a builtin of its own for each record instead (entry.py).

Measured on CPython 3.11, two cloud cores, around a driver function that does nothing, for four pointers: 0.8 µs fired,
0.1 by a builtin.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..errors import DeviceError, FusedslError, LimitError
from ..kernel_ir.launch_config import Geometry
from .captured_graphs import CapturedGraph
from .driver import CudaFunction, Driver, pointer
from .native_entry import GUARD_FAILED, NO_WATCH, AddressSlot, Watch, available, launcher, runner
from .parameter_block import BLOCK_BYTES, BlockLayout, Namer, PointerSlot, ScalarSlot

MAX_GRID_BLOCKS = 2**31 - 1  # of a launch along its first axis, on every architecture
_CONFIG, _SIZE, _BLOCK = 0, 56, 64  # offsets in a scratch area: CUlaunchConfig, the block's size, the block
_COOPERATIVE, _CLUSTER, _PROGRAMMATIC_STREAM_SERIALIZATION = (
    2,
    4,
    6,
)  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE, …_CLUSTER_DIMENSION,
# …_PROGRAMMATIC_STREAM_SERIALIZATION
DEFAULT_SHARED_LIMIT = 48 << 10  # bytes of shared memory of a block, static and dynamic, for which nobody has to ask
DEPENDENT_LAUNCH_CC = (9, 0)  # from here on a kernel can begin while the one before it ends
PORTABLE_CLUSTER = 8  # blocks of a cluster that every device with clusters takes


class _Scratch(NamedTuple):
    """Where one launch is assembled: CUlaunchConfig, block size, block, and the `extra` array that names them."""

    buffer: ctypes.Array
    address: int  # of the buffer
    config: Any  # the buffer and the array as the driver takes them
    extra: Any

    @classmethod
    def new(cls) -> _Scratch:
        buffer = (ctypes.c_uint64 * ((_BLOCK + BLOCK_BYTES) // 8 + 1))()
        address = ctypes.addressof(buffer)
        # CU_LAUNCH_PARAM_BUFFER_POINTER, address, CU_LAUNCH_PARAM_BUFFER_SIZE, address of size, CU_LAUNCH_PARAM_END
        named = (ctypes.c_uint64 * 5)(1, address + _BLOCK, 2, address + _SIZE, 0)
        return cls(buffer, address, ctypes.byref(buffer), ctypes.byref(named))


_free: list[_Scratch] = []


class CodeIdentity(NamedTuple):
    """The machine code of a record: its key in the cache, its sha256, its functions."""

    entry: str
    digest: str
    symbols: tuple[str, ...]


class LaunchRecord:
    """One kernel on one CUDA device with its grid and block fixed.

    `template` is the parameter block (kernel_ir/parameters.py) with extents, strides and magics filled in.
    `names` are the arguments' names, for the message about a number that does not fit.
    `fire(payloads, stream)` launches and does not wait: payloads are, by argument, an address or a Python number.
    `follow` does the same right behind another launch of the call, whose end it may overlap.
    """

    def __init__(
        self,
        driver: Driver,
        function: CudaFunction,
        geometry: Geometry,
        template: bytes,
        pointers: Sequence[PointerSlot],
        scalars: Sequence[ScalarSlot] = (),
        names: Sequence[str] = (),
        made_of: CodeIdentity | None = None,
    ) -> None:
        self.layout = layout = BlockLayout(template, pointers, scalars, names)
        self.asked, self.made_of = geometry, made_of
        shared, cluster = geometry.shared, geometry.cluster
        if geometry.blocks > MAX_GRID_BLOCKS:
            help = "compute in parts, or reduce inside the expression"
            raise LimitError(f"a launch of {geometry.blocks:,} blocks", "limit.elements", help=help)
        if shared and shared + function.shared > DEFAULT_SHARED_LIMIT:
            driver.allow_shared(function, shared)
        if cluster > PORTABLE_CLUSTER:
            driver.allow_cluster(function)
        if (geometry.cooperative or geometry.lasting) and geometry.blocks:
            geometry = _fit_resident_blocks(driver, function, geometry)
        self.geometry = geometry
        # struct CUlaunchConfig: grid, block, shared bytes, stream, attributes, their number; then the block's size
        side = geometry.threads // geometry.lines
        head = struct.pack("<7I4x", geometry.blocks, 1, 1, side, geometry.lines, 1, shared)
        tail = _tail(_attributes(cluster, geometry.cooperative), len(template))
        driver.initialise()
        self.driver, self.device, self.number = driver, function.device, function.handle
        self.head, self.tail = head, tail
        self.plain = cluster == 1 and not geometry.cooperative  # what a graph's node says without attributes
        self.fire = self.follow = _nothing
        if geometry.blocks:
            self.fire = self.follow = _launcher(driver, pointer(self.number), self.device, layout, head, tail)
        if geometry.blocks and geometry.follows and driver.facts(self.device).cc >= DEPENDENT_LAUNCH_CC:
            tail = _tail(_attributes(cluster, geometry.cooperative, True), len(template))
            self.follow = _launcher(driver, pointer(self.number), self.device, layout, head, tail)

    def watches(self, watch: Watch, constants: Mapping[int, Any]) -> bool:
        """Whether `repeat_lines` can look at what is watched, by payload."""
        builtin = self.geometry.blocks and self.driver.entry.value and available()
        return bool(builtin) and self.layout.told(b"", constants).watches(watch)

    def repeat_lines(
        self, words: Sequence[str], constants: Mapping[int, Any], name: Namer, watch: Watch = NO_WATCH
    ) -> tuple[list[str], list[str]]:
        """Lines that pack numbers, where struct.error and OverflowError say that one does not fit, and lines that
        launch, given the text of each payload and `stream`; they return None where `watch` finds something.

        `constants` are payloads that are always the same; DTypeError for one that does not fit its parameter.
        """
        if not self.geometry.blocks:
            return [], []
        payloads = f"({', '.join(words)},), stream"
        told = self.layout.told(self.head + bytes(8) + self.tail, constants)
        entry, graph = None, CapturedGraph(self.driver, self.device, len(self.layout.template)) if self.plain else None
        if self.driver.entry.value:
            places, at = [*told.places, AddressSlot(len(self.head) // 8)], graph.address if graph else 0
            cell = ctypes.addressof(self.driver.entry)
            entry = launcher(cell, self.number, told.memory, places, told.start, at, told.watch(watch))
        if entry is None:
            return self.layout.pack_lines(told, words, name), [f"{name(self.fire)}({payloads})"]
        told = told._replace(given=(*told.given, len(words)))
        packs, call = self.layout.call_lines(name(entry), told, [*words, "stream"], name)
        judged = [f"    if code == {GUARD_FAILED}:", "        return None"] if watch.remainders else []
        return packs, [f"if code := {call}:", *judged, f"    {name(self.again)}(code, {payloads}, {name(graph)})"]

    def again(self, code: int, payloads: Sequence[Any], stream: int, graph: CapturedGraph | None) -> None:
        """After a launch that failed with `code`: once more, where the context was at fault; else raises its error.

        -1 asks for a graph to be recorded.
        """
        if code == -1 and graph is not None:
            self.fire(payloads, stream)
            if not self.driver.is_capturing(stream):
                with contextlib.suppress(FusedslError):
                    graph.record(self.number, self.head, self.layout.block(payloads), stream)
        elif self.driver.launch_elsewhere(code, self.device, lambda: self.fire(payloads, stream)):
            raise self.driver.fault(code, "cuLaunchKernelEx")


def _fit_resident_blocks(driver: Driver, function: CudaFunction, geometry: Geometry) -> Geometry:
    """A launch with no more blocks than the device holds at once, whatever was expected of it."""
    threads, shared, cluster = geometry.threads, geometry.shared, geometry.cluster
    if geometry.lasting:
        attributes = _attributes(cluster, False)
        told = (geometry.blocks, 1, 1, threads, 1, 1, shared, 0, ctypes.addressof(attributes), 1)
        room = driver.clusters(function, struct.pack("<7I4xQQI4x", *told)) * cluster
    else:
        room = driver.occupancy(function, threads, shared) * driver.facts(function.device).sms
    found = geometry.within(room)
    if not found.blocks:
        message = f"the device does not hold {geometry.unit} blocks of kernel {function.name} at once"
        raise DeviceError(message, "device.resident", help='compute on another device, or on the CPU: device="cpu"')
    return found


def _launcher(driver: Driver, handle: Any, device: int, layout: BlockLayout, head: bytes, tail: bytes) -> Callable:
    """Launch.fire, as a closure: local variables instead of attributes, for a microsecond matters here."""
    pack = struct.Struct(f"<32sQ24s{layout.format}").pack_into
    read, numbers, fixed, fit = layout.pointers, layout.scalars, layout.fixed, layout.fit
    take, put = _free.pop, _free.append

    def fire(payloads: Sequence[Any], stream: int) -> None:
        try:
            scratch = take()
        except IndexError:
            scratch = _Scratch.new()
        buffer, _, config, extra = scratch
        try:
            if numbers is None:
                pack(buffer, 0, head, stream, tail, *read(payloads), fixed)
            else:
                try:
                    pack(buffer, 0, head, stream, tail, *read(payloads), fixed, *numbers(payloads))
                except (struct.error, OverflowError):
                    pack(buffer, 0, head, stream, tail, *read(payloads), fixed, *fit(payloads))
            code = driver.launch(config, handle, None, extra)
            if code:
                code = driver.launch_elsewhere(code, device, lambda: driver.launch(config, handle, None, extra))
        finally:
            put(scratch)
        if code:
            raise driver.fault(code, "cuLaunchKernelEx")

    return fire


def _nothing(payloads: Sequence[Any], stream: int) -> None:
    """Launch nothing: the grid is empty."""


_ATTRIBUTE_BYTES = 72


@cache
def _attributes(cluster: int, cooperative: bool, follows: bool = False) -> ctypes.Array:
    """struct CUlaunchAttribute: number, padding to 8, 64 bytes of value. There are few, and each is kept."""
    told = struct.pack("<I4x3I52x", _CLUSTER, cluster, 1, 1) if cluster > 1 else b""
    told += struct.pack("<I4xI60x", _COOPERATIVE, 1) if cooperative else b""
    told += struct.pack("<I4xI60x", _PROGRAMMATIC_STREAM_SERIALIZATION, 1) if follows else b""
    return (ctypes.c_char * len(told)).from_buffer_copy(told)


def _tail(attributes: ctypes.Array, block: int) -> bytes:
    """The end of struct CUlaunchConfig, and the size of the block."""
    address = ctypes.addressof(attributes) if attributes else 0
    return struct.pack("<QI4xQ", address, len(attributes) // _ATTRIBUTE_BYTES, block)


class HostLaunchRecord:
    """One compiled CPU kernel with its work divided: `run(address of a parameter block)` returns when all is done
    (runtime/pool.py), and so does `fire(payloads, stream=0)`.

    `single` is (address of a C function that `run` holds, units of work) where that is one call of it; `work` are the
    stages (backends/cpu/schedule.py) that `run` runs.
    """

    def __init__(
        self,
        run: Callable[[int], Any],
        template: bytes,
        pointers: Sequence[PointerSlot],
        scalars: Sequence[ScalarSlot] = (),
        names: Sequence[str] = (),
        single: tuple[int, int] | None = None,
        made_of: CodeIdentity | None = None,
        work: Any = None,
    ) -> None:
        self.run, self.single, self.made_of, self.work = run, single, made_of, work
        self.layout = BlockLayout(template, pointers, scalars, names)
        self.pack = struct.Struct("<" + self.layout.format).pack_into

    def fire(self, payloads: Sequence[Any], stream: int = 0) -> None:
        """Run to completion: payloads are, by argument, an address or a Python number."""
        try:
            scratch = _free.pop()
        except IndexError:
            scratch = _Scratch.new()
        layout = self.layout
        pointers = layout.pointers(payloads)
        numbers = layout.scalars(payloads) if layout.scalars else ()
        try:
            try:
                self.pack(scratch.buffer, _BLOCK, *pointers, layout.fixed, *numbers)
            except (struct.error, OverflowError):
                self.pack(scratch.buffer, _BLOCK, *pointers, layout.fixed, *layout.fit(payloads))
            self.run(scratch.address + _BLOCK)
        finally:
            _free.append(scratch)

    def watches(self, watch: Watch, constants: Mapping[int, Any]) -> bool:
        """As that of `LaunchRecord`."""
        return self.single is not None and available() and self.layout.told(b"", constants).watches(watch)

    def repeat_lines(
        self, words: Sequence[str], constants: Mapping[int, Any], name: Namer, watch: Watch = NO_WATCH
    ) -> tuple[list[str], list[str]]:
        """As those of `LaunchRecord`."""
        told = self.layout.told(b"", constants)
        entry = None
        if self.single is not None:
            entry = runner(*self.single, told.memory, told.places, told.start, told.watch(watch))
        if entry is None:
            return self.layout.pack_lines(told, words, name), [f"{name(self.fire)}(({', '.join(words)},))"]
        name(self.run)  # which keeps the machine code that the entry calls by its address
        packs, call = self.layout.call_lines(name(entry), told, words, name)
        return packs, [f"if {call}:", "    return None"] if watch.remainders else [call]
