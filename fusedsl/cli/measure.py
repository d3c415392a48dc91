"""Measurement of workloads on the GPU or CPU: median times, and errors against the same formula in float64."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np

from .. import config
from ..api import kernel
from ..bench.formulas import erf_of
from ..bench.record import cpu_name
from ..bench.workloads import Workload, draw
from ..errors import CompileError
from ..report.explain import Explanation
from ..runtime.driver import cuda_available, driver

TOLERANCE = 2e-5  # of the largest magnitude, for float32 results


@dataclass(frozen=True)
class BenchmarkTarget:
    """The device and array library that workloads run on."""

    name: str
    unfused: str  # name of the library of the unfused code
    module: Any  # that library
    seconds: Callable[[Callable[[], Any]], float]  # times one call
    elements: int  # default size of a workload


@dataclass(frozen=True)
class Measured:
    """The measurements of one workload."""

    name: str
    explanation: Explanation
    seconds: float  # of a call
    unfused_seconds: float
    error: float  # as a share of the largest true magnitude
    unfused_error: float
    first_call: float  # seconds, with compilation

    @property
    def correct(self) -> bool:
        return self.error <= TOLERANCE


def find_target() -> BenchmarkTarget:
    """The GPU if there is one and CuPy is installed, else the CPU."""
    if cuda_available() and find_spec("cupy") is not None:
        import cupy

        facts = driver().facts(0)
        name = f"{facts.name} (compute capability {facts.cc[0]}.{facts.cc[1]})"
        return BenchmarkTarget(name, f"CuPy {cupy.__version__}", cupy, _gpu_seconds, 1 << 24)
    name = f"{cpu_name()}, {config.num_threads()} threads"
    return BenchmarkTarget(name, f"NumPy {np.__version__}, one thread", np, _cpu_seconds, 1 << 21)


def _cpu_seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _gpu_seconds(call: Callable[[], Any], together: int = 8) -> float:
    """Seconds of a call: the mean of several between two CUDA events, so that launches are queued ahead of the GPU."""
    import cupy

    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for _ in range(together):
        call()
    end.record()
    end.synchronize()
    return cupy.cuda.get_elapsed_time(start, end) * 1e-3 / together


def medians(target: BenchmarkTarget, *calls: Callable[[], Any], budget: float = 1.0) -> list[float]:
    """The median seconds of each call, interleaved so that other load affects all equally."""
    times: list[list[float]] = [[] for _ in calls]
    start = time.perf_counter()
    while len(times[0]) < 3 or (time.perf_counter() - start < budget and len(times[0]) < 200):
        for call, seconds in zip(calls, times):
            seconds.append(target.seconds(call))
    return [median(seconds) for seconds in times]


def measure(workload: Workload, elements: int, target: BenchmarkTarget) -> Measured:
    """Compile, check and time one workload of about `elements` elements."""
    columns = max(8, min(1024, elements))
    arrays = draw(workload, (max(1, elements // columns), columns), "float32")
    values = {**dict(workload.scalars), **{name: target.module.asarray(x) for name, x in arrays.items()}}
    compiled = kernel(workload.text)
    function = workload.plain(target.module, erf_of(target.module))

    def fused() -> Any:
        return compiled(**values)

    def unfused() -> Any:
        return function(*values.values())

    start = time.perf_counter()
    results = _on_host(fused())
    first_call = time.perf_counter() - start
    truth = _truth(workload, arrays)
    errors = _error(results, truth), _error(_on_host(unfused()), truth)
    explanation = _explained(compiled, values)
    seconds, unfused_seconds = medians(target, fused, unfused)
    return Measured(workload.name, explanation, seconds, unfused_seconds, *errors, first_call)


def _explained(compiled: Any, values: Mapping[str, Any]) -> Explanation:
    """The explanation for CUDA, with the compiler's register counts if numba-cuda is installed, else predicted ones."""
    try:
        return compiled.explain(**values, device="cuda", compile=find_spec("numba_cuda") is not None)
    except CompileError:
        return compiled.explain(**values, device="cuda", compile=False)


def _truth(workload: Workload, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """The results in float64."""
    function = workload.plain(np, erf_of(np))
    return _tuple(function(*dict(workload.scalars).values(), *(x.astype(np.float64) for x in arrays.values())))


def _on_host(results: Any) -> tuple[np.ndarray, ...]:
    return tuple(r if isinstance(r, np.ndarray) else sys.modules["cupy"].asnumpy(r) for r in _tuple(results))


def _tuple(results: Any) -> tuple:
    return results if isinstance(results, tuple) else (results,)


def _error(results: tuple[np.ndarray, ...], truth: tuple[np.ndarray, ...]) -> float:
    """The largest difference, as a share of the largest true magnitude; infinite if a result is not finite."""
    worst = max(float(np.abs(r - t).max() / np.abs(t).max()) for r, t in zip(results, truth))
    return worst if np.isfinite(worst) else float("inf")
