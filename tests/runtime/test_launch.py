"""Launch records and the CUDA driver, against a stand-in for libcuda, and against a card where there is one."""

import ctypes
import dataclasses
import functools
import math
import os
import struct
import sys
import threading
import time
import timeit

import numpy as np
import pytest
from threads import at_once

from fusedsl.errors import CompileError, DeviceError, DTypeError, MemoryLimitError
from fusedsl.generated_code import FunctionBuilder
from fusedsl.ir.types import DTYPES
from fusedsl.kernel_ir.launch_config import LaunchConfig
from fusedsl.runtime import counters as tickets
from fusedsl.runtime import driver as driver_module
from fusedsl.runtime import driver_calls, graph_capture, host_device_copies, thread_pool
from fusedsl.runtime import launch as launch_module
from fusedsl.runtime.arrays import describe
from fusedsl.runtime.driver import Driver, cuda_available, driver
from fusedsl.runtime.driver_calls import CudaFunction
from fusedsl.runtime.launch import HostLaunchRecord, LaunchRecord
from fusedsl.runtime.native_entry import Pair, Watch
from fusedsl.runtime.parameter_packing import BLOCK_BYTES, FORMAT_OF, BlockLayout, PointerSlot, ScalarSlot

PRIMARY = {0: 1000, 1: 1001}  # contexts of the stand-in


class Libcuda:
    """A libcuda of two devices that keeps what it is asked to launch; `answers` overrides results by name."""

    def __init__(self, devices=2):
        self.devices, self.answers, self.called, self.launches = devices, {}, [], []
        self.resident = 2  # blocks that a multiprocessor holds
        self.stacks = threading.local()

    @property
    def stack(self):
        if not hasattr(self.stacks, "contexts"):
            self.stacks.contexts = [0]
        return self.stacks.contexts

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments):
            self.called.append(name)
            code = self.answers.get(name, 0)
            if code == 0 and hasattr(type(self), "_" + name):
                code = getattr(self, "_" + name)(*arguments)
            return code

        return call

    def _cuGetErrorName(self, code, out):
        out._obj.value = f"CUDA_ERROR_{code}".encode()
        return 0

    _cuGetErrorString = _cuGetErrorName

    def _cuDeviceGetCount(self, out):
        out._obj.value = self.devices
        return 0

    def _cuDeviceGet(self, out, device):
        out._obj.value = device
        return 0 if device < self.devices else 101

    def _cuDeviceGetName(self, out, size, device):
        out.value = b"Stand-in"
        return 0

    def _cuDeviceTotalMem_v2(self, out, device):
        out._obj.value = 1 << 37
        return 0

    def _cuDeviceGetAttribute(self, out, number, device):
        out._obj.value = {75: 9, 76: 0, 16: 132}.get(number, number)
        return 0

    def _cuDevicePrimaryCtxRetain(self, out, device):
        out._obj.value = PRIMARY[device]
        return 0

    def _cuCtxGetCurrent(self, out):
        out._obj.value = self.stack[-1] or None
        return 0

    def _cuCtxGetDevice(self, out):
        out._obj.value = self.stack[-1] - 1000
        return 0

    def _cuCtxSetCurrent(self, context):
        self.stack[-1] = context.value
        return 0

    def _cuCtxPushCurrent_v2(self, context):
        self.stack.append(context.value)
        return 0

    def _cuCtxPopCurrent_v2(self, out):
        self.stack.pop()
        return 0

    def _cuModuleLoadData(self, out, image):
        out._obj.value = 5
        return 0 if image.value.startswith(b"\x7fELF") else 200

    def _cuModuleGetFunction(self, out, module, name):
        out._obj.value = 50
        return 0 if name == b"k_1" else 500

    def _cuFuncGetAttribute(self, out, number, function):
        out._obj.value = {0: 1024, 1: 16, 3: 0, 4: 40}[number]
        return 0

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, out, function, threads, shared):
        out._obj.value = self.resident
        return 0

    def _cuOccupancyMaxActiveClusters(self, out, function, config):
        assert struct.unpack_from("<4xI", ctypes.string_at(config, 8))[0] == 1
        out._obj.value = self.resident
        return 0

    def _cuPointerGetAttribute(self, out, number, pointer):
        out._obj.value = 1
        return 0 if pointer.value == 0x7000 else 1

    def _cuLaunchKernelEx(self, config, function, params, extra):
        head = ctypes.string_at(config, 56)
        *numbers, stream, attributes, count = struct.unpack("<7I4xQQI4x", head)
        marks = (ctypes.c_uint64 * 5).from_address(extra)
        assert (marks[0], marks[2], marks[4], params) == (1, 2, 0, None)
        block = ctypes.string_at(marks[1], ctypes.c_uint64.from_address(marks[3]).value)
        found = ctypes.string_at(attributes, 72 * count) if count else b""
        if self.stack[-1] == 0:
            return 201
        if stream == 0 and self.stack[-1] != PRIMARY[function - 50]:  # as measured: another device's default stream
            return 400
        self.launches.append((numbers, stream, found, block, function, self.stack[-1]))
        return 0


@pytest.fixture
def library():
    return Libcuda()


@pytest.fixture
def cuda(library):
    library.stack[-1] = PRIMARY[0]
    return Driver(library)


FUNCTION = CudaFunction(50, "k_1", 0, 40, 0, 16, 1024)


def record(cuda, template=bytes(48), pointers=2, scalars="", grid=7, function=FUNCTION, **geometry):
    first = len(template) - 8 * len(scalars)
    slots = [PointerSlot(8 * k, k) for k in range(pointers)]
    numbers = [ScalarSlot(first + 8 * k, pointers + k, f) for k, f in enumerate(scalars)]
    layout = BlockLayout(template, slots, numbers, ["x", "y", "alpha", "beta"])
    return LaunchRecord(cuda, function, LaunchConfig(grid, 256, **geometry), layout)


# ---- what the kernel receives


def test_the_kernel_receives_grid_stream_and_block(cuda, library):
    template = struct.pack("<6q", -1, -1, 100, -3, 77, 88)
    record(cuda, template, shared=1024).fire([0x7F0000000010, 0x20], 99)
    (numbers, stream, attributes, block, function, _), *rest = library.launches
    assert not rest and numbers == [7, 1, 1, 256, 1, 1, 1024] and (stream, attributes, function) == (99, b"", 50)
    assert struct.unpack("<6q", block) == (0x7F0000000010, 0x20, 100, -3, 77, 88)


def test_pointers_come_from_any_argument_and_may_be_shifted(cuda, library):
    pointers = [PointerSlot(0, 2), PointerSlot(8, 0, 64), PointerSlot(16, 2, -8)]
    LaunchRecord(cuda, FUNCTION, LaunchConfig(1, 32), BlockLayout(bytes(24), pointers)).fire([1000, 2000, 3000], 0)
    assert struct.unpack("<3Q", library.launches[0][3]) == (3000, 1064, 2992)
    LaunchRecord(cuda, FUNCTION, LaunchConfig(1, 32), BlockLayout(bytes(8), [PointerSlot(0, 1)])).fire([1000, 2000], 0)
    assert struct.unpack("<Q", library.launches[1][3]) == (2000,)


@pytest.mark.parametrize("name", FORMAT_OF)
def test_scalars_fill_the_low_bytes_of_their_slots(cuda, library, name):
    value = 1 if name.startswith(("bool", "u")) else -1
    record(cuda, scalars=FORMAT_OF[name]).fire([1, 2, value], 0)
    slot = library.launches[0][3][-8:]
    kind = np.dtype(name)
    assert np.frombuffer(slot[: kind.itemsize], kind)[0] == value and not any(slot[kind.itemsize :])
    assert FORMAT_OF.keys() == {d.compute.name for d in DTYPES.values()}


def test_numbers_convert_as_numpy_would(cuda, library):
    launch = record(cuda, scalars="fd")
    for number in (1e300, -1e300, 3, True, math.nan, 2**60, 3.4028235677973366e38):
        launch.fire([1, 2, number, number], 0)
        single, double = struct.unpack("<f4xd", library.launches[-1][3][-16:])
        with np.errstate(over="ignore"):
            assert np.array_equal(single, np.float32(number), equal_nan=True)
        assert np.array_equal(double, np.float64(number), equal_nan=True)


@pytest.mark.parametrize("format, number", [("b", 128), ("B", -1), ("q", 2**63), ("i", -(2**31) - 1), ("f", 10**400)])
def test_a_number_that_does_not_fit_is_named(cuda, library, format, number):
    with pytest.raises(DTypeError, match=r"alpha = .* does not fit"):
        record(cuda, scalars=format).fire([1, 2, number], 0)
    assert not library.launches


def test_a_cluster_is_an_attribute(cuda, library):
    record(cuda, cluster=4).fire([1, 2], 0)
    attribute = library.launches[0][2]
    assert struct.unpack("<I4x3I", attribute[:20]) == (4, 4, 1, 1) and len(attribute) == 72


def test_a_launch_that_follows_another_may_say_so(cuda, library):
    launch = record(cuda, programmatic_launch=True)
    launch.fire([1, 2], 0), launch.fire_overlapped([1, 2], 0), record(cuda).fire_overlapped([1, 2], 0)
    attributes = [found for _, _, found, *_ in library.launches]
    assert attributes == [b"", struct.pack("<I4xI60x", 6, 1), b""]  # …_PROGRAMMATIC_STREAM_SERIALIZATION


def test_a_large_cluster_is_allowed_first_and_may_be_cooperative(cuda, library):
    record(cuda, cluster=16, cooperative=True).fire([1, 2], 0)
    attributes = library.launches[0][2]
    assert "cuFuncSetAttribute" in library.called
    assert struct.unpack("<I4x3I", attributes[:20]) == (4, 16, 1, 1)
    assert struct.unpack("<I4xI", attributes[72:84]) == (2, 1) and len(attributes) == 144


def test_tickets_belong_to_a_stream_and_a_captured_graph_gets_its_own(cuda, library, monkeypatch):
    memory = iter(range(1 << 20, 1 << 30, 1 << 20))
    monkeypatch.setattr(type(library), "_cuMemAlloc_v2", lambda _, out, size: _fill(out, next(memory)), raising=False)
    for module in (tickets, host_device_copies):
        monkeypatch.setattr(module, "driver", lambda: cuda)
    monkeypatch.setattr(type(library), "_cuStreamGetId", lambda self, s, out: _fill(out, ids[s.value]), raising=False)
    ids = {7: 70, 8: 80}
    counters = tickets.BlockCounters(3, 0)
    first = counters(7)
    assert counters(7) == first and counters(8) != first
    assert library.called.count("cuMemsetD32Async") == 2
    ids[7] = 90  # another stream, where the one before may still run
    second = counters(7)
    assert second not in (first, counters(8)) and counters(7) == second
    monkeypatch.setattr(type(library), "_cuStreamIsCapturing", lambda self, stream, out: _fill(out, 1), raising=False)
    kept = {counters(7), counters(7)}
    assert len({first, second, *kept}) == 4
    ours = counters(7, ours=True)
    del counters
    assert "cuMemFree_v2" not in library.called  # which waits for the device
    pieces = tickets._counter_pool(cuda, 0, 64)
    given = set(pieces._resting)
    assert {first, second, ours} <= given and not kept & given  # a captured graph may be launched at any time
    monkeypatch.setattr(tickets, "REUSE_DELAY", 2)
    assert pieces.acquire(7) == first


def _fill(out, value):
    out._obj.value = value
    return 0


def test_an_empty_grid_launches_nothing(cuda, library):
    record(cuda, grid=0).fire([1, 2], 0)
    assert not library.launches


def test_a_block_has_its_slots_in_order_and_a_limit(cuda):
    with pytest.raises(ValueError):
        BlockLayout(bytes(16), [PointerSlot(8, 0)])
    with pytest.raises(ValueError):
        BlockLayout(bytes(16), [], [ScalarSlot(0, 0, "f")])
    with pytest.raises(CompileError, match="parameters"):
        record(cuda, bytes(BLOCK_BYTES + 8))
    record(cuda, bytes(BLOCK_BYTES))


def test_large_shared_memory_is_asked_for(cuda, library):
    record(cuda, shared=100_000)
    assert "cuFuncSetAttribute" in library.called


def test_static_shared_memory_counts_towards_what_nobody_has_to_ask_for(cuda, library):
    record(cuda, shared=40_000)
    assert "cuFuncSetAttribute" not in library.called
    record(cuda, shared=40_000, function=dataclasses.replace(FUNCTION, shared=10_000))
    assert "cuFuncSetAttribute" in library.called


@pytest.mark.parametrize(("resident", "unit", "blocks"), [(2, 1, 264), (1, 7, 126), (3, 7, 300)])
def test_blocks_that_wait_for_each_other_are_no_more_than_the_device_holds(cuda, library, resident, unit, blocks):
    library.resident = resident
    record(cuda, grid=300, cooperative=True, grid_multiple=unit).fire([1, 2], 0)
    assert library.launches[0][0][0] == blocks


def test_clusters_that_stay_are_no_more_than_the_device_holds(cuda, library):
    library.resident = 15
    record(cuda, grid=4096, cluster=8, grid_multiple=8, persistent=True).fire([1, 2], 0)
    assert library.launches[0][0][0] == 15 * 8
    record(cuda, grid=80, cluster=8, grid_multiple=8, persistent=True).fire([1, 2], 0)
    assert library.launches[1][0][0] == 80


def test_a_device_that_does_not_hold_them_says_so(cuda, library):
    library.resident = 0
    with pytest.raises(DeviceError, match="does not hold 7 blocks"):
        record(cuda, grid=300, cooperative=True, grid_multiple=7)


def test_threads_never_see_each_others_arguments(cuda, library):
    launch = record(cuda, scalars="q")
    before = threading.active_count()

    def fire(seed):
        library.stack[-1] = PRIMARY[0]
        for n in range(300):
            launch.fire([seed, seed + n, seed * n], seed)

    at_once(fire, range(1, 7))
    assert len(library.launches) == 1800
    for _, stream, _, block, _, _ in library.launches:
        seed, shifted, product = struct.unpack("<QQ24xq", block)
        assert seed == stream and product == seed * (shifted - seed)
    assert threading.active_count() == before


def test_launches_inside_launches_and_failures_leave_nothing_behind(cuda, library, monkeypatch):
    launch = record(cuda)
    genuine, depth = Libcuda._cuLaunchKernelEx, []

    def nested(config, function, params, extra):  # as a finaliser or signal handler would
        if len(depth) < 3:
            depth.append(None)
            launch.fire([10 * len(depth), 0], 5)
        return genuine(library, config, function, params, extra)

    monkeypatch.setattr(type(library), "_cuLaunchKernelEx", lambda self, *arguments: nested(*arguments))
    launch.fire([1, 0], 4)
    assert sorted((s, struct.unpack("<Q", b[:8])[0]) for _, s, _, b, _, _ in library.launches) == [
        (4, 1), (5, 10), (5, 20), (5, 30),
    ]  # fmt: skip
    held = len(launch_module._free)
    library.answers["cuLaunchKernelEx"] = 700
    for _ in range(10):
        with pytest.raises(DeviceError, match="out of bounds"):
            launch.fire([1, 0], 4)
        with pytest.raises((TypeError, struct.error)):
            launch.fire([1, "not an address"], 4)
    assert len(launch_module._free) == held


# ---- contexts and devices


def test_a_thread_without_a_context_gets_the_primary_one(library):
    library.devices = 1
    cuda = Driver(library)
    launch = record(cuda)
    launch.fire([1, 2], 0)
    assert library.launches[0][-1] == PRIMARY[0] == library.stack[-1]


def test_a_launch_goes_to_its_own_device_and_leaves_the_current_one(cuda, library):
    launch = record(cuda, function=CudaFunction(51, "k_1", 1, 40, 0, 16, 1024))
    launch.fire([1, 2], 0)
    assert library.launches[0][-2:] == (51, PRIMARY[1]) and library.stack == [PRIMARY[0]]


@pytest.mark.parametrize("builtin", [False, True])
@pytest.mark.parametrize(
    "constants", [{}, {0: 0x7F0000000010}, {1: 0x20, 2: 0.5}, {0: 0x7F0000000010, 1: 0x20, 2: 0.5}]
)
def test_generated_lines_launch_what_would_be_fired(cuda, library, builtin, constants):
    kept = with_machine_code(cuda, library) if builtin else None
    for launch in (record(cuda, scalars="f"), record(cuda, function=CudaFunction(51, "k_1", 1, 40, 0, 16, 1024))):
        payloads = [0x7F0000000010, 0x20, 0.5]
        launch.fire(payloads, 99)
        lines = FunctionBuilder()
        words = [f"given[{k}]" for k in range(3)]
        packs, fires = launch.repeat_lines(words, constants, lines.name)
        assert len(packs) == (launch.layout.scalar_slots != () and 2 not in constants)
        lines.add(*packs, *fires)
        again = lines.function("again", "given, stream")
        again(payloads, 99)
        assert library.launches[0] == library.launches[1] and len(library.launches) == 2
        library.launches.clear()
        with pytest.raises((TypeError, struct.error)):
            again(["not an address", "nor this", 0.5], "no stream")
        library.answers["cuLaunchKernelEx"] = 700
        with pytest.raises(DeviceError, match="out of bounds"):
            again(payloads, 99)
        library.answers.clear()
        assert not library.launches
    assert record(cuda, grid=0).repeat_lines(["a", "b"], {}, FunctionBuilder().name) == ([], [])
    with pytest.raises(DTypeError, match="alpha"):
        record(cuda, scalars="b").repeat_lines(["a", "b", "c"], {2: 300}, FunctionBuilder().name)
    with pytest.raises(struct.error):
        lines = FunctionBuilder()
        lines.add(record(cuda, scalars="b").repeat_lines(["1", "2", "300"], {}, lines.name)[0][0])
        lines.function("again", "")()
    del kept


def test_the_builtin_that_launches_sees_what_is_wrong_with_addresses(cuda, library):
    kept = with_machine_code(cuda, library)
    launch, watch = record(cuda), Watch({0: 0, 1: 8}, [Pair(1, 0, 0, 64, 0, 64, (0x18,))])
    assert launch.watches(watch, {}) and not launch.watches(watch, {1: 8})
    lines = FunctionBuilder()
    lines.add(*launch.repeat_lines(["given[0]", "given[1]"], {}, lines.name, watch)[1], "return True")
    again = lines.function("again", "given, stream")
    for given, right in (
        ((0x1000, 0x2008), True),
        ((0x1000, 0x1018), True),
        ((0x1000, 0x1028), None),
        ((0x1000, 0x1048), True),
        ((0x1008, 0x2008), None),
        ((0x1000, 0x2000), None),
    ):
        assert again(given, 99) is right
        assert len(library.launches) == (right is True)
        library.launches.clear()
    del kept


def with_machine_code(cuda, library):
    """Let builtins call the stand-in's launch by an address, as they call the driver's; the result keeps it alive."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
    launch = kind(lambda *told: library.cuLaunchKernelEx(*told))
    cuda.initialise()
    cuda.launch_address.value = ctypes.cast(launch, ctypes.c_void_p).value
    return launch


class Graphs:
    """The stand-in's functions of graphs, by addresses: what was launched how, with which parameters."""

    def __init__(self, cuda, library):
        self.launched, self.block, self.capturing, self.broken, self.nested = [], b"", 0, 0, None
        kinds = {
            "cuGraphLaunch": ([ctypes.c_void_p] * 2, self.launch),
            "cuStreamIsCapturing": ([ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)], self.is_capturing),
            "cuGraphExecKernelNodeSetParams_v2": ([ctypes.c_void_p] * 3, self.update),
        }
        self.kept = {n: ctypes.CFUNCTYPE(ctypes.c_int, *kind)(call) for n, (kind, call) in kinds.items()}
        cuda.address = lambda name: ctypes.cast(self.kept[name], ctypes.c_void_p).value
        made = {"AddKernelNode_v2": self.add, "InstantiateWithFlags": self.instantiate}
        kind = {f"_cuGraph{name}": staticmethod(call) for name, call in made.items()}
        library.__class__ = type("LibcudaWithGraphs", (Libcuda,), kind)

    def take(self, told):
        """The block of struct CUDA_KERNEL_NODE_PARAMS at an address."""
        *_, kernel_parameters, extra, _, _ = struct.unpack("<Q28s4x4Q", ctypes.string_at(told, 72))
        marks = (ctypes.c_uint64 * 5).from_address(extra)
        assert (kernel_parameters, marks[0], marks[2], marks[4]) == (0, 1, 2, 0)
        self.block = ctypes.string_at(marks[1], ctypes.c_size_t.from_address(marks[3]).value)

    def add(self, node, graph, needed, count, told):
        node._obj.value = 66
        self.take(ctypes.addressof(told._obj))
        return 0

    def instantiate(self, made, graph, flags):
        made._obj.value = 77
        return 0

    def launch(self, graph, stream):
        assert graph == 77
        self.launched.append((stream or 0, self.block))
        if self.nested is not None:
            again, self.nested = self.nested, None
            again()
        return 0

    def is_capturing(self, stream, status):
        status[0] = self.capturing
        return 0

    def update(self, graph, node, told):
        assert (graph, node) == (77, 66)
        if not self.broken:
            self.take(told)
        return self.broken


def test_what_is_repeated_becomes_a_graph_that_is_launched_where_it_may(cuda, library):
    kept = with_machine_code(cuda, library)
    driven = Graphs(cuda, library)
    launch, lines = record(cuda, scalars="q"), FunctionBuilder()
    packs, fires = launch.repeat_lines(["x", "y", "n"], {}, lines.name)
    lines.add(*packs, *fires)
    call = lines.function("call", "x, y, n, stream")
    for _ in range(graph_capture.CALLS_BEFORE_CAPTURE):
        call(16, 32, 5, 9)
    plain = library.launches[-1]
    assert len(library.launches) == graph_capture.CALLS_BEFORE_CAPTURE and not driven.launched
    call(16, 32, 5, 9)  # as it was recorded
    call(48, 64, -6, 9)  # others
    assert driven.launched == [(9, plain[3]), (9, struct.pack("<2Q24xq", 48, 64, -6))]
    for other in (lambda: call(1, 2, 3, 8), lambda: [setattr(driven, "capturing", 1), call(1, 2, 3, 9)]):
        library.launches.clear()
        other()
        assert len(library.launches) == 1 and library.launches[0][3] == struct.pack("<2Q24xq", 1, 2, 3)
    driven.capturing, driven.nested = 0, lambda: call(7, 8, 9, 9)  # from within, or by another thread meanwhile
    library.launches.clear()
    call(1, 2, 3, 9)
    assert library.launches[0][3] == struct.pack("<2Q24xq", 7, 8, 9) and len(driven.launched) == 3
    driven.broken = 1
    call(1, 2, 4, 9), call(1, 2, 3, 9)  # no longer a graph
    assert [struct.unpack("<2Q24xq", one[3])[2] for one in library.launches] == [9, 4, 3] and len(driven.launched) == 3
    del kept


def test_graphs_are_few_and_go_with_what_they_repeat(cuda, library, monkeypatch):
    kept = with_machine_code(cuda, library)
    driven = Graphs(cuda, library)

    def repeated():
        lines = FunctionBuilder()
        lines.add(*record(cuda).repeat_lines(["1", "2"], {}, lines.name)[1])
        call = lines.function("call", "stream")
        for _ in range(graph_capture.CALLS_BEFORE_CAPTURE + 1):
            call(7)
        return call

    alive = graph_capture._live_graphs
    call = repeated()
    assert graph_capture._live_graphs == alive + 1 and library.called.count("cuGraphExecDestroy") == 0
    del call
    assert graph_capture._live_graphs == alive and library.called.count("cuGraphExecDestroy") == 1
    monkeypatch.setattr(graph_capture, "LAUNCHES_BEFORE_RENEWAL", 3)
    call = repeated()
    library.launches.clear(), driven.launched.clear()
    for _ in range(10):
        call(7)
    assert len(driven.launched) == 8 and len(library.launches) == 2  # after the one in `repeated`
    assert graph_capture._live_graphs == alive + 1
    del call
    for change in (
        lambda: monkeypatch.setenv("FUSEDSL_GRAPHS", "0"),
        lambda: monkeypatch.setattr(graph_capture, "MAX_GRAPHS", alive),
    ):
        change()
        library.launches.clear()
        repeated()
        assert len(library.launches) == graph_capture.CALLS_BEFORE_CAPTURE + 1 and graph_capture._live_graphs == alive
        monkeypatch.delenv("FUSEDSL_GRAPHS", raising=False)
    del kept


def test_on_restores_after_an_error(cuda, library):
    with pytest.raises(ZeroDivisionError), cuda.on(1):
        assert cuda.current_device() == 1
        raise ZeroDivisionError
    assert cuda.current_device() == 0
    library.stack[-1] = 0
    assert cuda.current_device() == 0


def test_loading_a_kernel(cuda, library):
    found = cuda.load(b"\x7fELF...", "k_1", device=1)
    assert found == CudaFunction(50, "k_1", 1, registers=40, local=0, shared=16, max_threads=1024)
    assert library.called.count("cuThreadExchangeStreamCaptureMode") == 2 and library.stack == [PRIMARY[0]]
    with pytest.raises(CompileError, match="clear the cache"):
        cuda.load(b"rubbish", "k_1")
    with pytest.raises(CompileError, match="no kernel of this name"):
        cuda.load(b"\x7fELF...", "k_2")
    assert library.stack == [PRIMARY[0]]


def test_facts_of_a_device(cuda):
    facts = cuda.facts(1)
    assert (facts.name, facts.cc, facts.sms, facts.memory, facts.index) == ("Stand-in", (9, 0), 132, 1 << 37, 1)
    assert cuda.facts(1) is facts and cuda.device_count() == 2
    with pytest.raises(DeviceError, match="CUDA_VISIBLE_DEVICES"):
        cuda.facts(7)


def test_addresses_and_streams(cuda, library):
    assert cuda.pointer_device(0x7000) == 1 and cuda.pointer_device(0x8000) is None
    library.called.clear()
    cuda.order(3, 3)
    assert not library.called
    cuda.order(3, 4)
    assert library.called == ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy_v2"]


@pytest.mark.parametrize(
    "code, kind", [(2, MemoryLimitError), (100, DeviceError), (209, CompileError), (999, DeviceError)]
)
def test_every_result_is_an_error_of_ours_with_the_drivers_words(cuda, library, code, kind):
    library.answers["cuStreamSynchronize"] = code
    with pytest.raises(kind, match=f"cuStreamSynchronize failed: CUDA_ERROR_{code}"):
        cuda.synchronize()


def test_without_a_driver_there_is_an_error_that_helps(monkeypatch):
    monkeypatch.setattr(driver_calls, "LIBRARY", "libcuda-that-is-not-there.so")
    monkeypatch.setattr(driver_module, "_driver", Driver())
    assert cuda_available() is False
    with pytest.raises(DeviceError, match=r'no CUDA driver[\s\S]*device="cpu"'):
        driver().facts()


def test_a_driver_that_fails_to_start_is_no_device(monkeypatch):
    library = Libcuda()
    library.answers["cuInit"] = 100
    monkeypatch.setattr(driver_module, "_driver", Driver(library))
    assert cuda_available() is False
    with pytest.raises(DeviceError, match="nvidia-smi"):
        driver().device_count()
    library.answers.clear()
    assert cuda_available() is True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_gets_our_error(cuda, library):
    launch = record(cuda)
    launch.fire([1, 2], 0)
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (lambda: launch.fire([1, 2], 0), cuda.current_device, lambda: cuda.load(b"\x7fELF", "k_1")):
            try:
                call()
            except DeviceError as fault:
                refused += "spawn" in str(fault)
        os._exit(refused if len(library.launches) == 1 else 99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    launch.fire([1, 2], 0)
    assert len(library.launches) == 2


# ---- the CPU


KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@KERNEL
def scaled_copy(slots, begin, end):
    """y[i] = alpha * x[i] over slots x, y, n, alpha."""
    x, y = ctypes.c_uint64.from_address(slots).value, ctypes.c_uint64.from_address(slots + 8).value
    alpha = ctypes.c_float.from_address(slots + 24).value
    source, target = ((ctypes.c_float * end).from_address(p) for p in (x, y))
    for i in range(begin, end):
        target[i] = alpha * source[i]


def host_record(units, grain):
    template = struct.pack("<4q", 0, 0, units, 0)
    pointers, scalars = [PointerSlot(0, 0), PointerSlot(8, 1)], [ScalarSlot(24, 2, "f")]
    run = functools.partial(thread_pool.run, scaled_copy)
    return HostLaunchRecord(
        lambda block: run(block, units, grain), BlockLayout(template, pointers, scalars, ["x", "y", "alpha"])
    )


@pytest.mark.parametrize("units, grain", [(0, 8), (5, 8), (100, 8), (64, 1)])
def test_cpu_records_run_to_completion(units, grain):
    x, y = np.arange(units, dtype=np.float32), np.zeros(units, np.float32)
    host_record(units, grain).fire([x.ctypes.data, y.ctypes.data, 2.5])
    assert np.array_equal(y, 2.5 * x)


def test_cpu_records_refuse_what_does_not_fit():
    x = np.zeros(4, np.float32)
    with pytest.raises(DTypeError, match="alpha"):
        host_record(4, 1).fire([x.ctypes.data, x.ctypes.data, 10**400])
    y = np.zeros(4, np.float32)
    host_record(4, 1).fire([x.ctypes.data, y.ctypes.data, 1e300])
    assert np.isnan(y).all()  # 0 * inf


def test_cpu_records_are_thread_safe():
    launch, wrong = host_record(50, 7), []

    def fire(seed):
        for n in range(20):
            x, y = np.full(50, n, np.float32), np.zeros(50, np.float32)
            launch.fire([x.ctypes.data, y.ctypes.data, float(seed)])
            wrong.extend(y[y != n * seed])

    at_once(fire, range(4))
    assert not wrong


# ---- on a card

needs_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cuda_available(), reason="no CUDA device: cuInit or libcuda failed"),
]
SOURCE = """
extern "C" __global__ void scaled_add(long long x, long long y, long long n, long long alpha) {
    const float a = __int_as_float((int)alpha);
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (long long)blockDim.x)
        ((float*)y)[i] = a * ((const float*)x)[i] + ((const float*)y)[i];
}
"""


def compiled(device=0):
    core = pytest.importorskip("cuda.core", reason="cuda.core is not installed")
    major, minor = driver().facts(device).cc
    program = core.Program(SOURCE, "c++", core.ProgramOptions(arch=f"sm_{major}{minor}"))
    return bytes(program.compile("cubin").code)


class Memory:
    """Device memory of float32, straight from the driver."""

    def __init__(self, values, device=0):
        self.size, self.device, self.address = len(values), device, ctypes.c_uint64()
        data = np.asarray(values, np.float32)
        with driver().on(device):
            driver().call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(4 * self.size))
            to, source = self.address, ctypes.c_void_p(data.ctypes.data)
            driver().call("cuMemcpyHtoD_v2", to, source, ctypes.c_size_t(data.nbytes))

    def read(self):
        data = np.empty(self.size, np.float32)
        with driver().on(self.device):
            to = ctypes.c_void_p(data.ctypes.data)
            driver().call("cuMemcpyDtoH_v2", to, self.address, ctypes.c_size_t(data.nbytes))
        return data

    def __del__(self):
        driver().attempt("cuMemFree_v2", self.address)


def gpu_record(n, device=0, shared=0):
    function = driver().load(compiled(device), "scaled_add", device)
    assert 0 < function.registers <= 64 and function.local == 0 and function.max_threads == 1024
    template, pointers = struct.pack("<4q", 0, 0, n, 0), [PointerSlot(0, 0), PointerSlot(8, 1)]
    scalars = [ScalarSlot(24, 2, "f")]
    layout = BlockLayout(template, pointers, scalars)
    return LaunchRecord(driver(), function, LaunchConfig(-(-n // 256), 256, shared), layout)


class TestOnCard:
    pytestmark = needs_gpu

    @pytest.mark.parametrize("shared", [0, 100 * 1024])
    def test_a_launch_computes(self, shared):
        x, y = Memory(np.arange(1000)), Memory(np.ones(1000))
        gpu_record(1000, shared=shared).fire([x.address.value, y.address.value, 2.5], 0)
        assert np.array_equal(y.read(), 2.5 * np.arange(1000) + 1)

    def test_a_new_thread_launches_without_a_context(self):
        x, y, launch = Memory(np.arange(100)), Memory(np.zeros(100)), gpu_record(100)
        worker = threading.Thread(target=launch.fire, args=([x.address.value, y.address.value, 3.0], 0))
        worker.start()
        worker.join()
        assert np.array_equal(y.read(), 3.0 * np.arange(100))

    def test_every_device_computes_whatever_is_current(self):
        for device in range(driver().device_count()):
            x, y = Memory(np.arange(100), device), Memory(np.zeros(100), device)
            gpu_record(100, device).fire([x.address.value, y.address.value, 3.0], 0)
            assert np.array_equal(y.read(), 3.0 * np.arange(100))
            assert driver().pointer_device(x.address.value) == device

    def test_facts_and_faults(self):
        facts = driver().facts()
        assert facts.sms > 0 and facts.shared_per_block >= 48 * 1024
        assert driver().pointer_device(np.zeros(3).ctypes.data) is None
        with pytest.raises(CompileError):
            driver().load(b"\x7fELF rubbish" + bytes(1000), "scaled_add")
        with pytest.raises(CompileError):
            driver().load(compiled(), "another")
        driver().synchronize()

    def test_a_forked_child_gets_our_error(self):
        launch = gpu_record(100)
        child = os.fork()
        if child == 0:
            try:
                launch.fire([0, 0, 1.0], 0)
            except DeviceError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

    def test_a_launch_costs_a_few_microseconds(self):
        x, y, launch = Memory(np.arange(100)), Memory(np.zeros(100)), gpu_record(100)
        payloads = [x.address.value, y.address.value, 0.0]
        times = []
        for _ in range(20):
            driver().synchronize()
            times.append(timeit.timeit(lambda: launch.fire(payloads, 0), number=200) / 200)
        driver().synchronize()
        print(f"launch: {min(times) * 1e6:.2f} us")
        assert min(times) < 20e-6

    def test_ordering_streams(self):
        streams = [ctypes.c_void_p(), ctypes.c_void_p()]
        for stream in streams:
            driver().call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))
        x, y, launch = Memory(np.ones(1 << 22)), Memory(np.zeros(1 << 22)), gpu_record(1 << 22)
        for _ in range(20):
            launch.fire([x.address.value, y.address.value, 1.0], streams[0].value)
        driver().order(streams[0].value, streams[1].value)
        launch.fire([y.address.value, x.address.value, 1.0], streams[1].value)
        driver().synchronize(streams[1].value)
        assert np.array_equal(x.read(), np.full(1 << 22, 21.0))


def test_importing_the_run_time_touches_no_driver():
    import subprocess

    code = (
        "import ctypes, sys\nreal = ctypes.CDLL\n"
        "ctypes.CDLL = lambda name, *more, **named: 1 / ('cuda' not in str(name)) and real(name, *more, **named)\n"
        "import fusedsl.runtime.launch, fusedsl.runtime.driver\n"
        "print([m for m in ('numba', 'cuda', 'cupy', 'torch') if m in sys.modules])"
    )
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]" and time.monotonic() - started < 20


# ---- NumPy arrays on a device


def there_and_back(x):
    facts = host_device_copies.upload(describe(x), 0)
    assert facts.device == ("cuda", 0) and facts.shape == x.shape
    back = host_device_copies.download(facts)
    assert np.array_equal(back, x) and back.dtype == x.dtype
    into = np.zeros_like(x)
    assert host_device_copies.download(facts, into) is into and np.array_equal(into, x)
    return back


SHAPES = [
    np.arange(24.0).reshape(2, 3, 4),
    np.arange(12, dtype="i2").reshape(3, 4).T,
    np.zeros((0, 3)),
    np.arange(9)[::-2],
]


@pytest.mark.parametrize("x", SHAPES, ids=["C", "F", "empty", "reversed"])
def test_numpy_arrays_travel_there_and_back(cuda, library, monkeypatch, x):
    monkeypatch.setattr(driver_module, "_driver", cuda)
    memory = []  # the stand-in's device memory is the host's

    def allocate(self, out, size):
        memory.append(ctypes.create_string_buffer(size.value))
        out._obj.value = ctypes.addressof(memory[-1])
        return 0

    def copy(self, target, source, size):
        ctypes.memmove(target.value, source.value, size.value)
        return 0

    for name, action in (("_cuMemAlloc_v2", allocate), ("_cuMemcpyHtoD_v2", copy), ("_cuMemcpyDtoH_v2", copy)):
        monkeypatch.setattr(Libcuda, name, action, raising=False)
    assert there_and_back(x).flags.c_contiguous == (x.flags.c_contiguous or x.ndim == 1)
    assert library.called.count("cuMemFree_v2") == len(memory) == bool(x.size)


@pytest.mark.gpu
@pytest.mark.skipif(not cuda_available(), reason="no CUDA device: cuInit or libcuda failed")
@pytest.mark.parametrize("x", SHAPES, ids=["C", "F", "empty", "reversed"])
def test_numpy_arrays_travel_to_a_card_and_back(x):
    there_and_back(x)


def test_temporaries_that_are_not_needed_together_share_memory():
    import fusedsl as fd
    from fusedsl.program import call_steps
    from fusedsl.runtime.arrays import describe_all
    from fusedsl.runtime.memory_planning import live_ranges, plan_workspace

    text = "a = cumsum(x, axis=0); b = cumsum(a, axis=1); c = cumsum(b, axis=0); d = cumsum(c, axis=1); return d + 1"
    x = np.random.default_rng(0).integers(-3, 4, (70, 90)).astype(np.float32)
    kernel = fd.kernel(text)
    facts = describe_all(kernel.params, [x])
    plan, _ = kernel._program.plans.checked_plan(facts)
    size, offsets = plan_workspace(plan, call_steps.extents_of(list(facts.values())))
    each = 4 * x.size + -4 * x.size % 256
    assert len(offsets) >= 3 and size == 2 * each
    lives = live_ranges(plan)
    for a in range(len(offsets)):
        for b in range(a):
            if lives[a][0] <= lives[b][1] and lives[b][0] <= lives[a][1]:
                assert abs(offsets[a] - offsets[b]) >= each
    right = x.cumsum(0).cumsum(1).cumsum(0).cumsum(1) + 1
    np.testing.assert_array_equal(kernel(x), right)
