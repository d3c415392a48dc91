"""The time of launches: medians between CUDA events with a cold L2 on a GPU, wall time on the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from ctypes import byref, c_float, c_size_t, c_uint, c_uint64, c_void_p
from statistics import median

from .arrays import CPU
from .driver import driver
from .host_device_copies import DeviceBuffer

REPETITIONS = 21
CHUNK = 4 << 20  # bytes of each copy that replaces the L2's content; all copies write the same bytes
LEAST_FLUSH = 64 << 20
AHEAD = 8  # fills of the flush buffer, some 30 µs each, by which the host is ahead when it queues a launch

Fire = Callable[[], None]


class Clock:
    """Times launches on one device and stream."""

    def __init__(self, device: tuple[str, int], stream: int = 0) -> None:
        self.device, self.stream = device, stream
        self._flush: DeviceBuffer | None = None

    def seconds(self, fires: Sequence[Fire], repetitions: int = REPETITIONS) -> list[float]:
        """The median seconds of each launch; launches are timed in turns, so that a busy machine slows all equally."""
        for fire in fires:
            fire()
        samples: list[list[float]] = [[] for _ in fires]
        for _ in range(repetitions):
            for fire, times in zip(fires, samples):
                times.append(self._once(fire))
        return [median(times) for times in samples]

    def _once(self, fire: Fire) -> float:
        if self.device == CPU:
            begun = time.perf_counter()
            fire()
            return time.perf_counter() - begun
        with driver().on(self.device[1]):
            return self._between_events(fire)

    def _between_events(self, fire: Fire) -> float:
        """Seconds between two events; the GPU is kept busy meanwhile, so that they enclose the launch alone."""
        events = [c_void_p(), c_void_p()]
        try:
            for event in events:
                driver().call("cuEventCreate", byref(event), c_uint(0))
            self._empty_l2()
            driver().call("cuEventRecord", events[0], c_void_p(self.stream))
            fire()
            driver().call("cuEventRecord", events[1], c_void_p(self.stream))
            driver().call("cuEventSynchronize", events[1])
            elapsed = c_float()
            driver().call("cuEventElapsedTime", byref(elapsed), *events)
        finally:
            for event in events:
                if event:
                    driver().call("cuEventDestroy_v2", event)
        return elapsed.value * 1e-3

    def _empty_l2(self) -> None:
        """Write, then read twice the L2's size, into one small buffer, so that little is left to be written back."""
        index = self.device[1]
        size = max(LEAST_FLUSH, -(-2 * driver().facts(index).l2 // CHUNK) * CHUNK)
        if self._flush is None:
            self._flush = DeviceBuffer(size + CHUNK, index)
        for _ in range(AHEAD):
            driver().zero(self._flush.address, (size + CHUNK) // 4, self.stream)
        for begin in range(CHUNK, size + CHUNK, CHUNK):
            destination, source = c_uint64(self._flush.address), c_uint64(self._flush.address + begin)
            driver().call("cuMemcpyDtoDAsync_v2", destination, source, c_size_t(CHUNK), c_void_p(self.stream))
