"""Counters that the blocks of a launch count themselves with: zero before each launch and after it."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import deque
from weakref import WeakKeyDictionary

from .driver import Driver, driver
from .host_device_copies import DeviceBuffer

PER_THREAD = 2  # CU_STREAM_PER_THREAD: one handle that means another stream in each thread
MIN_COUNTERS = 64  # counters of a piece
CHUNK = 1 << 16  # counters that are allocated at once
REUSE_DELAY = 4096  # pieces that come back are left alone until so many have followed: a launch may still count in them


class BlockCounters:
    """`count` uint32 counters for every stream that a prepared call runs on; a captured graph gets its own.

    Called with a stream, the address of its counters. Launches on one stream run after each other and each leaves the
    counters as it found them, so that they are set to zero once. A graph that the caller captures may be launched for
    as long as the process lives, and so long it keeps its counters; one of `ours` gives them back with this object.
    """

    def __init__(self, count: int, device: int) -> None:
        self.count = count
        self._pieces = _counter_pool(driver(), device, max(MIN_COUNTERS, 1 << (count - 1).bit_length()))
        self._of: dict[tuple[int, int], tuple[int, int]] = {}  # by handle and thread: the stream's id, the address
        self._ours: list[int] = []

    def __call__(self, stream: int, ours: bool = False) -> int:
        d = driver()
        if d.is_capturing(stream):
            piece = self._pieces.take(stream)
            if ours:
                self._ours.append(piece)
            return piece
        key = (stream, threading.get_ident() if stream == PER_THREAD else 0)
        number, found = d.stream_id(stream), self._of.get(key)
        if found is None or found[0] != number:  # another stream may have the handle of one that still runs
            if found is not None:
                self._pieces.give(found[1])
            found = self._of[key] = number, self._pieces.take(stream)
        return found[1]

    def __del__(self) -> None:
        if not sys.is_finalizing() and hasattr(self, "_ours"):
            for piece in (*self._ours, *(piece for _, piece in self._of.values())):
                self._pieces.give(piece)


class _CounterPool:
    """Pieces of so many counters on a device. Their memory is never freed: cuMemFree waits for all that the device
    does."""

    def __init__(self, words: int, device: int) -> None:
        self.words, self.device = words, device
        self._lock = threading.Lock()
        self._new: list[int] = []
        self._resting: deque[int] = deque()
        self._chunks: list[DeviceBuffer] = []

    def take(self, stream: int) -> int:
        """The address of a piece that is zero for what comes next on the stream."""
        with driver().relaxed_capture(), driver().on(self.device):
            piece = self._next()
            driver().zero(piece, self.words, stream)
        return piece

    def give(self, piece: int) -> None:
        """Take back what no further launch will use."""
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
