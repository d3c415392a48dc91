"""Launch records: one kernel at one set of shapes, prepared so that a call only fills in pointers and scalars.

A record is immutable and many threads may fire it at once. Each launch writes its configuration and parameter block to
a scratch buffer from a free list, and returns the buffer after the call. A signal handler or finaliser that calls in
the middle of another call takes its own buffer. Generated code that repeats a call uses a builtin per record instead
(native_entry.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..errors import DeviceError, FusedslError, LimitError
from ..kernel_ir.launch_config import LaunchConfig
from .driver import Driver
from .driver_calls import CudaFunction, pointer
from .graph_capture import CapturedGraph
from .interruptible_calls import LONG_PIECE
from .native_entry import GUARD_FAILED, NO_WATCH, AddressSlot, Watch, available, launcher, runner
from .parameter_packing import BLOCK_BYTES, BlockLayout, Namer

# measured: on CPython 3.11, two cloud cores, around a driver function that does nothing, for four pointers: 0.8 µs
# by `fire`, 0.1 µs by a builtin.

MAX_GRID_BLOCKS = 2**31 - 1  # along x, on every architecture
_CONFIG, _SIZE, _BLOCK = 0, 56, 64  # offsets in a scratch area: CUlaunchConfig, the block's size, the block
# CU_LAUNCH_ATTRIBUTE_COOPERATIVE, _CLUSTER_DIMENSION and _PROGRAMMATIC_STREAM_SERIALIZATION of the driver API
_COOPERATIVE, _CLUSTER, _PROGRAMMATIC_STREAM_SERIALIZATION = 2, 4, 6
DEFAULT_SHARED_LIMIT = 48 << 10  # bytes of shared memory of a block, static and dynamic, without opt-in
DEPENDENT_LAUNCH_CC = (9, 0)  # the first with programmatic dependent launch
PORTABLE_CLUSTER = 8  # blocks of a cluster that every device with clusters takes


class _Scratch(NamedTuple):
    """The buffer of one launch: CUlaunchConfig, block size, block, and the `extra` array that points to them."""

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

    cache_key: str
    digest: str
    symbols: tuple[str, ...]


class LaunchRecord:
    """One kernel on one CUDA device with its grid and block fixed.

    `layout` is the parameter block (kernel_ir/parameter_layout.py) with extents, strides and magic numbers filled in.
    `fire(payloads, stream)` launches without waiting; payloads are, by argument, an address or a Python number.
    `fire_overlapped` launches so that the kernel may start before the call's last launch has ended (programmatic
    dependent launch).
    """

    on_device = True
    library = ""  # that computes it instead of machine code of ours

    def __init__(
        self,
        driver: Driver,
        function: CudaFunction,
        geometry: LaunchConfig,
        layout: BlockLayout,
        code_identity: CodeIdentity | None = None,
    ) -> None:
        self.layout, self.requested_geometry, self.code_identity = layout, geometry, code_identity
        shared, cluster = geometry.shared, geometry.cluster
        if geometry.blocks > MAX_GRID_BLOCKS:
            help = "compute in parts, or reduce inside the expression"
            raise LimitError(f"a launch of {geometry.blocks:,} blocks", "limit.elements", help=help)
        if shared and shared + function.shared > DEFAULT_SHARED_LIMIT:
            driver.allow_shared(function, shared)
        if cluster > PORTABLE_CLUSTER:
            driver.allow_cluster(function)
        if (geometry.cooperative or geometry.persistent) and geometry.blocks:
            geometry = _fit_resident_blocks(driver, function, geometry)
        self.geometry = geometry
        # struct CUlaunchConfig: grid, block, shared bytes, stream, attributes, their number; then the block's size
        lines = geometry.block_dim_y
        head = struct.pack("<7I4x", geometry.blocks, 1, 1, geometry.threads // lines, lines, 1, shared)
        driver.initialise()
        self.driver, self.device, self.number = driver, function.device, function.handle
        programmatic = geometry.programmatic_launch and driver.facts(self.device).cc >= DEPENDENT_LAUNCH_CC
        follows = programmatic and geometry.starts_early
        attributes = [_attributes(cluster, geometry.cooperative, early) for early in (follows, programmatic)]
        tails = [_tail(some, len(layout.template)) for some in attributes]
        self.head, self.tail = head, tails[0]
        self.plain = cluster == 1 and not geometry.cooperative and not follows  # a graph's node needs no attributes
        self.fire = self.fire_overlapped = _nothing
        if geometry.blocks:
            target = (driver, pointer(self.number), self.device, layout, head)
            self.fire, self.fire_overlapped = (_launcher(*target, tail) for tail in tails)

    def watches(self, watch: Watch, constants: Mapping[int, Any]) -> bool:
        """Whether the builtin of `repeat_lines` can check this watch, by payload."""
        builtin = self.geometry.blocks and self.driver.launch_address.value and available()
        return bool(builtin) and self.layout.entry_layout(b"", constants).watches(watch)

    def repeat_lines(
        self, words: Sequence[str], constants: Mapping[int, Any], name: Namer, watch: Watch = NO_WATCH
    ) -> tuple[list[str], list[str]]:
        """(lines that pack numbers, lines that launch), given the expression of each payload and `stream`.

        Packing raises struct.error or OverflowError for a number that does not fit. The launch lines return None if
        `watch` is violated. `constants` are payloads that never change; DTypeError for one that does not fit its
        parameter.
        """
        if not self.geometry.blocks:
            return [], []
        payloads = f"({', '.join(words)},), stream"
        entry_layout = self.layout.entry_layout(self.head + bytes(8) + self.tail, constants)
        entry, graph = None, CapturedGraph(self.driver, self.device, len(self.layout.template)) if self.plain else None
        if self.driver.launch_address.value:
            stream_slot, at = AddressSlot(len(self.head) // 8), graph.address if graph else 0
            memory = entry_layout.memory._replace(slots=[*entry_layout.memory.slots, stream_slot])
            cell = ctypes.addressof(self.driver.launch_address)
            entry = launcher(cell, self.number, memory, at, entry_layout.watch(watch))
        if entry is None:
            return self.layout.pack_lines(entry_layout, words, name), [f"{name(self.fire)}({payloads})"]
        entry_layout = entry_layout._replace(pointer_payloads=(*entry_layout.pointer_payloads, len(words)))
        packs, call = self.layout.call_lines(name(entry), entry_layout, [*words, "stream"], name)
        judged = [f"    if code == {GUARD_FAILED}:", "        return None"] if watch.remainders else []
        return packs, [
            f"if code := {call}:",
            *judged,
            f"    {name(self.launch_or_raise)}(code, {payloads}, {name(graph)})",
        ]

    def launch_or_raise(self, code: int, payloads: Sequence[Any], stream: int, graph: CapturedGraph | None) -> None:
        """Handle the nonzero result `code` of a builtin: launch in the right context, or raise the error.

        -1 asks for a graph to be recorded.
        """
        if code == -1 and graph is not None:
            self.fire(payloads, stream)
            if not self.driver.is_capturing(stream):
                with contextlib.suppress(FusedslError):
                    graph.capture_kernel(self.number, self.head, self.layout.block(payloads), stream)
        elif self.driver.launch_in_context(code, self.device, lambda: self.fire(payloads, stream)):
            raise self.driver.fault(code, "cuLaunchKernelEx")


def _fit_resident_blocks(driver: Driver, function: CudaFunction, geometry: LaunchConfig) -> LaunchConfig:
    """A launch with no more blocks than the device holds at once, as the driver reports it."""
    threads, shared, cluster = geometry.threads, geometry.shared, geometry.cluster
    if geometry.persistent and cluster > 1:
        attributes = _attributes(cluster, False)
        config = (geometry.blocks, 1, 1, threads, 1, 1, shared, 0, ctypes.addressof(attributes), 1)
        room = driver.clusters(function, struct.pack("<7I4xQQI4x", *config)) * cluster
    else:
        room = driver.occupancy(function, threads, shared) * driver.facts(function.device).sms
    fitted = geometry.clamped(room)
    if not fitted.blocks:
        message = f"the device does not hold {geometry.grid_multiple} blocks of kernel {function.name} at once"
        raise DeviceError(message, "device.resident", help='compute on another device, or on the CPU: device="cpu"')
    return fitted


def _launcher(driver: Driver, handle: Any, device: int, layout: BlockLayout, head: bytes, tail: bytes) -> Callable:
    """LaunchRecord.fire as a closure: local variables are faster than attributes."""
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
                code = driver.launch_in_context(code, device, lambda: driver.launch(config, handle, None, extra))
        finally:
            put(scratch)
        if code:
            raise driver.fault(code, "cuLaunchKernelEx")

    return fire


def _nothing(payloads: Sequence[Any], stream: int) -> None:
    """The launch of an empty grid: nothing happens."""


_ATTRIBUTE_BYTES = 72


@cache
def _attributes(cluster: int, cooperative: bool, follows: bool = False) -> ctypes.Array:
    """struct CUlaunchAttribute: number, padding to 8, 64 bytes of value. There are few, and each is cached."""
    attributes = struct.pack("<I4x3I52x", _CLUSTER, cluster, 1, 1) if cluster > 1 else b""
    attributes += struct.pack("<I4xI60x", _COOPERATIVE, 1) if cooperative else b""
    attributes += struct.pack("<I4xI60x", _PROGRAMMATIC_STREAM_SERIALIZATION, 1) if follows else b""
    return (ctypes.c_char * len(attributes)).from_buffer_copy(attributes)


def _tail(attributes: ctypes.Array, block: int) -> bytes:
    """The end of struct CUlaunchConfig, and the size of the block."""
    address = ctypes.addressof(attributes) if attributes else 0
    return struct.pack("<QI4xQ", address, len(attributes) // _ATTRIBUTE_BYTES, block)


class HostLaunchRecord:
    """One compiled CPU kernel with its work divided: `run(address of a parameter block)` returns when it is done.

    `fire(payloads, stream=0)` does the same for payloads (see runtime/thread_pool.py for `run`). `single` is (address
    of a C function that `run` holds, units of work) if the launch is one call of it; `work` are the stages that `run`
    runs.
    """

    on_device = False
    library = ""

    def __init__(
        self,
        run: Callable[[int], Any],
        layout: BlockLayout,
        single: tuple[int, int] | None = None,
        code_identity: CodeIdentity | None = None,
        work: Any = None,
    ) -> None:
        self.run, self.single, self.code_identity, self.work = run, single, code_identity, work
        self.layout = layout
        self.is_long = work is not None and work.unit_seconds > LONG_PIECE
        self.pack = struct.Struct("<" + layout.format).pack_into

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
        """See `LaunchRecord.watches`."""
        return self.single is not None and available() and self.layout.entry_layout(b"", constants).watches(watch)

    def repeat_lines(
        self, words: Sequence[str], constants: Mapping[int, Any], name: Namer, watch: Watch = NO_WATCH
    ) -> tuple[list[str], list[str]]:
        """See `LaunchRecord.repeat_lines`."""
        entry_layout = self.layout.entry_layout(b"", constants)
        entry = None
        if self.single is not None:
            entry = runner(*self.single, entry_layout.memory, entry_layout.watch(watch))
        if entry is None:
            return self.layout.pack_lines(entry_layout, words, name), [f"{name(self.fire)}(({', '.join(words)},))"]
        name(self.run)  # keeps alive the machine code that the entry calls by address
        packs, call = self.layout.call_lines(name(entry), entry_layout, words, name)
        return packs, [f"if {call}:", "    return None"] if watch.remainders else [call]


def host_launch(functions: dict[str, Any], work: Any, layout: BlockLayout, identity: CodeIdentity) -> HostLaunchRecord:
    """The launch record of a kernel's functions and their work on the thread pool."""
    from . import thread_pool

    run = thread_pool.runner(functions, work, len(layout.template) // 8)
    return HostLaunchRecord(run, layout, thread_pool.single_call(functions, work), identity, work)
