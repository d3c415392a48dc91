"""The suite `launch`: µs of host time of a warm call of `a*b + c` on 1,024 elements, beside what others take for it.

Peers take turns, a batch of calls each, with the GPU idle before a batch: its queue never fills, so that nobody waits.
The driver's own launches, of the kernel and of a graph of it, are called again and again by machine code; the lesser
is the floor, and what is left is the caller's share. Our own calls are also measured with a function of nothing in
the driver's place: what they then take is Python and our machine code, and nothing else.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import numpy as np

from fusedsl.bench.record import Report, failed_row, quantile, times_row
from suite_gpu import Settings

Call = Callable[[], Any]
Maker = Callable[[], Call]

N = 1024
FACTS = (16 * N, 2 * N)  # bytes and operations
RAW = """
extern "C" __global__ void multiply_add(const float* a, const float* b, const float* c, float* y, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[i]*b[i] + c[i];
}
"""
VARIANTS = ("out=", "bound", "graph", "new result")
_kept: list = []  # machine code that is called
DRIVER, GRAPH = "the driver's launch alone", "the driver's launch of a graph alone"


def run(report: Report, settings: Settings) -> None:
    """Each variant of the call on arrays of each library that is here, against every peer."""
    _measure(report, settings, "numpy", "out=", _numpy("out="), lambda: None)
    _measure(report, settings, "numpy", "new result", _numpy("new result"), lambda: None)
    for library, ours in _on_device().items():
        for variant in VARIANTS:
            import torch

            peers = {
                "fusedsl": lambda ours=ours, variant=variant: ours(variant),
                DRIVER: _driver,
                GRAPH: _graph,
            } | _peers(variant)
            _measure(report, settings, library, variant, peers, torch.cuda.synchronize)
        for variant in ("out=", "bound"):
            alone = {"fusedsl": lambda ours=ours, variant=variant: _without_driver(lambda: ours(variant))}
            _measure(report, settings, library, f"{variant} without the driver", alone, torch.cuda.synchronize)


def _measure(
    report: Report, settings: Settings, library: str, variant: str, makers: Mapping[str, Maker], wait: Call
) -> None:
    case = ("launch", f"{variant}, {library}", str(N), "float32")
    calls: dict[str, Call] = {}
    for peer, make in makers.items():
        try:
            calls[peer] = make()
            for _ in range(5):
                calls[peer]()
        except Exception as fault:  # a peer's failure is a result, whatever its type
            calls.pop(peer, None)
            report.add(failed_row(case, peer, FACTS, fault))
    rounds, size = (3, 10) if settings.quick else (40, 100)
    times: dict[str, list[float]] = {peer: [] for peer in calls}
    for _ in range(rounds):
        for peer, call in calls.items():
            wait()
            begun = time.perf_counter()
            if isinstance(call, _Driver):
                call.repeat(size)
            else:
                for _ in range(size):
                    call()
            times[peer].append(1e6 * (time.perf_counter() - begun) / size)
    wait()
    floor = min((quantile(times[peer], 0.5) for peer in (DRIVER, GRAPH) if peer in times), default=None)
    for peer in calls:
        report.add(times_row(case, peer, times[peer], FACTS, floor, None))


def _ours(arrays: list, variant: str) -> Call:
    import fusedsl as fd

    *given, out = arrays
    kernel = fd.kernel("a*b + c")
    if variant in ("bound", "graph"):
        return (kernel.bind if variant == "bound" else kernel.graph)(*given, out=out)
    return (lambda: kernel(*given, out=out)) if variant == "out=" else (lambda: kernel(*given))


def _without_driver(make: Maker) -> Call:
    """A call of ours whose graph, once it has one, is launched by a function that does nothing."""
    from numba import cfunc

    from fusedsl.runtime.driver import driver

    @cfunc("int32(voidptr, voidptr)")
    def nothing(graph, stream):
        return 0

    real = driver().address
    with patch.object(driver(), "address", lambda name: nothing.address if name == "cuGraphLaunch" else real(name)):
        call = make()
        for _ in range(200):
            call()
    _kept.append(nothing)
    return call


def _numpy(variant: str) -> dict[str, Maker]:
    a, b, c, y = (np.ones(N, np.float32) for _ in range(4))
    theirs: Call = (lambda: np.multiply(a, b, out=y)) if variant == "out=" else (lambda: a * b)
    return {"fusedsl": lambda: _ours([a, b, c, y], variant), "numpy, a*b alone": lambda: theirs}


def _on_device() -> dict[str, Callable[[str], Call]]:
    found: dict[str, Callable[[str], Call]] = {}
    try:
        import torch
    except ImportError:
        return found
    if torch.cuda.is_available():
        found["torch"] = lambda variant: _ours(_torch_arrays(), variant)
        try:
            import cupy

            found["cupy"] = lambda variant: _ours([cupy.asarray(x) for x in _torch_arrays()], variant)
        except ImportError:
            pass
    return found


def _torch_arrays() -> list:
    import torch

    return [torch.rand(N, device="cuda") for _ in range(4)]


def _peers(variant: str) -> dict[str, Maker]:
    """What others call, each on arrays of its own library; what cannot be bound is called with out=."""
    new = variant == "new result"
    made = [_torch_multiply, _torch_addcmul, _cupy_ufunc, _cupy_elementwise, _cupy_raw, _triton, _torch_compile, _numba]
    names = ["torch.mul alone", "torch.addcmul", "cupy ufunc", "cupy ElementwiseKernel", "cupy RawKernel"]
    names += ["triton", "torch.compile", "numba"]
    return {name: lambda make=make: make(new) for name, make in zip(names, made)}


def _torch_multiply(new: bool) -> Call:
    import torch

    a, b, _, y = _torch_arrays()
    return (lambda: torch.mul(a, b)) if new else (lambda: torch.mul(a, b, out=y))


def _torch_addcmul(new: bool) -> Call:
    import torch

    a, b, c, y = _torch_arrays()
    return (lambda: torch.addcmul(c, a, b)) if new else (lambda: torch.addcmul(c, a, b, out=y))


def _torch_compile(new: bool) -> Call:
    import torch

    a, b, c, _ = _torch_arrays()
    compiled = torch.compile(lambda a, b, c: a * b + c)
    return lambda: compiled(a, b, c)


def _cupy_arrays() -> list:
    import cupy

    return [cupy.asarray(x) for x in _torch_arrays()]


def _cupy_ufunc(new: bool) -> Call:
    import cupy

    a, b, _, y = _cupy_arrays()
    return (lambda: cupy.multiply(a, b)) if new else (lambda: cupy.multiply(a, b, out=y))


def _cupy_elementwise(new: bool) -> Call:
    import cupy

    a, b, c, y = _cupy_arrays()
    kernel = cupy.ElementwiseKernel("float32 a, float32 b, float32 c", "float32 y", "y = a*b + c", "multiply_add")
    return (lambda: kernel(a, b, c)) if new else (lambda: kernel(a, b, c, y))


def _cupy_raw(new: bool) -> Call:
    import cupy

    a, b, c, y = _cupy_arrays()
    kernel = cupy.RawKernel(RAW, "multiply_add")

    def with_new() -> Any:
        y = cupy.empty(N, cupy.float32)
        kernel((4,), (256,), (a, b, c, y, N))
        return y

    return with_new if new else lambda: kernel((4,), (256,), (a, b, c, y, N))


def _triton(new: bool) -> Call:
    import torch

    from triton_launch import fma

    a, b, c, y = _torch_arrays()

    def with_new() -> Any:
        y = torch.empty_like(a)
        fma[(1,)](a, b, c, y, N, size=N)
        return y

    return with_new if new else lambda: fma[(1,)](a, b, c, y, N, size=N)


class _Driver:
    """A launch of the driver's, many times in a row without any Python: `repeat(times)` is compiled."""

    def __init__(self, repeat: Callable[[int], int], kept: Any):
        self.repeat, self.kept = repeat, kept

    def __call__(self) -> None:
        if self.repeat(1):
            raise RuntimeError("the driver does not launch")


def _driver() -> Call:
    """cuLaunchKernel of the same kernel on the default stream."""
    import cupy
    from numba import njit

    arrays, pointer = _cupy_arrays(), ctypes.c_void_p
    kernel = cupy.RawKernel(RAW, "multiply_add")
    kernel((4,), (256,), (*arrays, N))
    values = np.array([*(x.data.ptr for x in arrays), N], np.uint64)
    held = np.array([values.ctypes.data + 8 * k for k in range(5)], np.uint64)
    handle, places = kernel.kernel.ptr, held.ctypes.data
    kind = ctypes.CFUNCTYPE(ctypes.c_int, pointer, *[ctypes.c_uint] * 7, pointer, pointer, pointer)
    launch = kind(ctypes.cast(ctypes.CDLL("libcuda.so.1").cuLaunchKernel, pointer).value)

    @njit
    def repeat(times):
        wrong = 0
        for _ in range(times):
            wrong |= launch(handle, 4, 1, 1, 256, 1, 1, 0, 0, places, 0)
        return wrong

    return _Driver(repeat, (kernel, arrays, values, held))


def _graph() -> Call:
    """cuGraphLaunch of a graph that holds the same kernel alone."""
    import cupy
    from numba import njit

    arrays, pointer = _cupy_arrays(), ctypes.c_void_p
    kernel, stream = cupy.RawKernel(RAW, "multiply_add"), cupy.cuda.Stream(non_blocking=True)
    kernel((4,), (256,), (*arrays, N))
    with stream:
        stream.begin_capture()
        kernel((4,), (256,), (*arrays, N))
        graph = stream.end_capture()
    handle = graph.graphExec
    launch = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(
        ctypes.cast(ctypes.CDLL("libcuda.so.1").cuGraphLaunch, pointer).value
    )

    @njit
    def repeat(times):
        wrong = 0
        for _ in range(times):
            wrong |= launch(handle, 0)
        return wrong

    return _Driver(repeat, (graph, arrays))


def _numba(new: bool) -> Call:
    import cupy
    from numba import cuda

    @cuda.jit
    def fma(a, b, c, y):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = a[i] * b[i] + c[i]

    a, b, c, y = _cupy_arrays()
    launched = fma[4, 256]

    def with_new() -> Any:
        y = cupy.empty(N, cupy.float32)
        launched(a, b, c, y)
        return y

    return with_new if new else lambda: launched(a, b, c, y)
