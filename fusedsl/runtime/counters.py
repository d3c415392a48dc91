"""Counters in global memory by which the blocks of a launch synchronise: zero before and after each launch."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import deque
from weakref import WeakKeyDictionary

from .driver import Driver, driver
from .host_device_copies import DeviceBuffer

PER_THREAD = 2  # CU_STREAM_PER_THREAD: one handle for a different stream in each thread
MIN_COUNTERS = 64  # counters per piece, at least
CHUNK = 1 << 16  # counters that are allocated at once
REUSE_DELAY = 4096  # a released piece is reused after so many others: a launch may still use it


class BlockCounters:
    """`count` uint32 counters for every stream that a prepared call runs on; a captured graph gets its own.

    Called with a stream, returns the address of its counters. Launches on one stream run in order and each resets the
    counters, so that they are zeroed once. A graph captured by the caller may be launched as long as the process lives,
    and keeps its counters; a graph of `ours` returns them with this object.
    """

    def __init__(self, count: int, device: int) -> None:
        self.count = count
        self._pieces = _counter_pool(driver(), device, max(MIN_COUNTERS, 1 << (count - 1).bit_length()))
        self._of: dict[tuple[int, int], tuple[int, int]] = {}  # by handle and thread: the stream's id, the address
        self._ours: list[int] = []

    def __call__(self, stream: int, ours: bool = False) -> int:
        d = driver()
        if d.is_capturing(stream):
            piece = self._pieces.acquire(stream)
            if ours:
                self._ours.append(piece)
            return piece
        key = (stream, threading.get_ident() if stream == PER_THREAD else 0)
        number, known = d.stream_id(stream), self._of.get(key)
        if known is None or known[0] != number:  # a new stream may reuse the handle of one that still runs
            if known is not None:
                self._pieces.release(known[1])
            known = self._of[key] = number, self._pieces.acquire(stream)
        return known[1]

    def __del__(self) -> None:
        if not sys.is_finalizing() and hasattr(self, "_ours"):
            for piece in (*self._ours, *(piece for _, piece in self._of.values())):
                self._pieces.release(piece)


class _CounterPool:
    """Pieces of so many counters on a device. Their memory is never freed: cuMemFree would synchronise the device."""

    def __init__(self, words: int, device: int) -> None:
        self.words, self.device = words, device
        self._lock = threading.Lock()
        self._new: list[int] = []
        self._resting: deque[int] = deque()
        self._chunks: list[DeviceBuffer] = []

    def acquire(self, stream: int) -> int:
        """The address of a piece that is zeroed in stream order."""
        with driver().relaxed_capture(), driver().on(self.device):
            piece = self._next()
            driver().zero(piece, self.words, stream)
        return piece

    def release(self, piece: int) -> None:
        """Take back a piece that no further launch will use."""
        self._resting.append(piece)

    def _next(self) -> int:
        if len(self._resting) > REUSE_DELAY:
            with contextlib.suppress(IndexError):
                return self._resting.popleft()
        with self._lock:
            if not self._new:
                count = max(CHUNK // self.words, 1)
                chunk = DeviceBuffer(4 * count * self.words, self.device)
                self._chunks.append(chunk)
                self._new = [chunk.address + 4 * k * self.words for k in reversed(range(count))]
            return self._new.pop()


_known: WeakKeyDictionary[Driver, dict[tuple[int, int], _CounterPool]] = WeakKeyDictionary()


def _counter_pool(d: Driver, device: int, words: int) -> _CounterPool:
    return _known.setdefault(d, {}).setdefault((device, words), _CounterPool(words, device))
