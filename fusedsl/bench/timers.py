"""Timers of the benchmarks: calls with cold caches and warm ones; copies and matrix products that set the floor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..config import num_threads

Call = Callable[[], Any]

CACHE, LARGEST_CACHE = 32 << 20, 128 << 20  # bytes of the last level where unknown; of a larger one part stays warm
BATCH_US = 50.0  # a warm sample is the mean of so many calls that it takes about this long
BUDGET = 0.15  # seconds after which a peer's turn ends
PARALLEL_COPY = 1 << 17  # bytes from which a copy by several threads may be faster
GEMM = {"cpu": 1024, "cuda": 4096}  # extent of the matrix product that sets the rate

SPIN = r"""
extern "C" __global__ void spin(long long cycles) {
  long long begun = clock64();
  while (clock64() - begun < cycles) {}
}
"""


class CpuClock:
    """Times calls by the processor's clock."""

    kind = "cpu"
    xp: Any = np

    def __init__(self) -> None:
        self._flushed = np.random.default_rng(0).integers(0, 255, 2 * _last_level_cache(), np.uint8).view(np.int64)
        self._pool = ThreadPoolExecutor(num_threads())

    def cold(self, call: Call, repetitions: int) -> list[float]:
        """µs of each of these calls, after reading twice the size of the last-level cache; fewer if time runs out."""
        call()
        return _within(BUDGET, repetitions, lambda: self._cold_once(call))

    def _cold_once(self, call: Call) -> float:
        np.bitwise_or.reduce(self._flushed)
        return _once(call)

    def warm(self, call: Call, repetitions: int) -> list[float]:
        """µs of a call, each the mean of a batch of calls after each other."""
        return _within(BUDGET, repetitions, _batches(call))

    def copies(self, size: int) -> list[Call]:
        """Calls that read and write `size` bytes in total: by one thread, and by the threads that kernels have."""
        source = np.random.default_rng(0).integers(0, 255, max(1, size // 2), np.uint8)
        target = np.zeros_like(source)
        parts = list(zip(*(np.array_split(a, num_threads()) for a in (target, source))))
        alone: Call = lambda: np.copyto(target, source)  # noqa: E731
        together: Call = lambda: list(self._pool.map(lambda pair: np.copyto(*pair), parts))  # noqa: E731
        return [alone, together] if size >= PARALLEL_COPY and len(parts) > 1 else [alone]


def reset_persisting_lines() -> None:
    """Lines of the L2 that were loaded with evict_last become normal ones; reading other data alone leaves them."""
    from cuda.bindings import driver

    (status,) = driver.cuCtxResetPersistingL2Cache()
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"cuCtxResetPersistingL2Cache: {status}")


class CudaClock:
    """Times calls on the current GPU: between events with a cold L2, and to the synchronised result by the host."""

    kind = "cuda"

    def __init__(self) -> None:
        import cupy

        self.xp = cupy
        device = cupy.cuda.Device()
        size = max(128 << 20, 2 * device.attributes["L2CacheSize"])
        self._flushed = cupy.random.default_rng(0).random(size // 4, dtype=cupy.float32)
        self._sink = cupy.empty((), cupy.float32)
        self._kilohertz = device.attributes.get("ClockRate", 2_000_000)
        self._spin = cupy.RawKernel(SPIN, "spin")

    def cold(self, call: Call, repetitions: int) -> list[float]:
        """µs between events around each of these calls, after the L2 is emptied by reading.

        The GPU spins while the host enqueues the call, so that the events enclose the GPU's work alone.
        """
        cuda = self.xp.cuda
        call()
        cuda.Device().synchronize()
        host = 1e-6 * _once(call)
        cuda.Device().synchronize()
        cycles = self.xp.int64((2 * host + 100e-6) * 1e3 * self._kilohertz)

        def once() -> float:
            start, end = cuda.Event(), cuda.Event()
            cuda.Device().synchronize()
            reset_persisting_lines()
            self._flushed.max(out=self._sink)
            self._spin((1,), (1,), (cycles,))
            start.record()
            call()
            end.record()
            end.synchronize()
            return 1e3 * cuda.get_elapsed_time(start, end)

        return _within(BUDGET, repetitions, once)

    def warm(self, call: Call, repetitions: int) -> list[float]:
        """µs by the host's clock from a call to its synchronised result."""
        synchronize = self.xp.cuda.Device().synchronize

        def synchronised() -> None:
            call()
            synchronize()

        return _within(BUDGET, repetitions, _batches(synchronised))

    def copies(self, size: int) -> list[Call]:
        """A call that reads and writes `size` bytes in total."""
        source = self.xp.zeros(max(1, size // 2), np.uint8)
        target = self.xp.zeros_like(source)
        return [lambda: self.xp.copyto(target, source)]


Clock = CpuClock | CudaClock


def gemm_rate(clock: Clock, dtype: str) -> float:
    """Floating-point operations a µs of a large matrix product by the library of this processor or GPU."""
    extent = GEMM[clock.kind]
    random = clock.xp.random.default_rng(0).random((extent, extent), dtype=np.float32).astype(dtype)
    times = clock.cold(lambda: clock.xp.matmul(random, random), 5)
    return 2 * extent**3 / sorted(times)[len(times) // 2]


def _last_level_cache() -> int:
    try:
        size = os.sysconf("SC_LEVEL3_CACHE_SIZE") or os.sysconf("SC_LEVEL2_CACHE_SIZE")
    except (AttributeError, ValueError, OSError):  # not Linux, or a C library that does not know
        size = 0
    return min(size if size > 0 else CACHE, LARGEST_CACHE)


def _once(call: Call) -> float:
    begun = time.perf_counter()
    call()
    return 1e6 * (time.perf_counter() - begun)


def _batches(call: Call) -> Callable[[], float]:
    """A sample: the mean µs of calls that together take about BATCH_US."""
    call()
    count = max(1, round(BATCH_US / max(min(_once(call), _once(call)), 1e-3)))

    def sample() -> float:
        begun = time.perf_counter()
        for _ in range(count):
            call()
        return 1e6 * (time.perf_counter() - begun) / count

    return sample


def _within(seconds: float, repetitions: int, sample: Callable[[], float]) -> list[float]:
    """So many samples, or as many as the seconds allow, at least two."""
    end, samples = time.perf_counter() + seconds, [sample()]
    while len(samples) < repetitions and (len(samples) < 2 or time.perf_counter() < end):
        samples.append(sample())
    return samples
