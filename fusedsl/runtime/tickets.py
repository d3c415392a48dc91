"""Counters that the blocks of a launch count themselves with: zero before each launch and after it."""

from __future__ import annotations

import threading

from .driver import driver
from .transfer import Buffer

PER_THREAD = 2  # CU_STREAM_PER_THREAD: one handle that means another stream in each thread


class Tickets:
    """`count` uint32 counters for every stream that a prepared call runs on; a captured graph gets its own.

    Called with a stream, the address of its counters. Launches on one stream run after each other and each leaves the
    counters as it found them, so that they are set to zero once.
    """

    def __init__(self, count: int, device: int) -> None:
        self.count, self.device = count, device
        self._of: dict[tuple[int, int], Buffer] = {}
        self._captured: list[Buffer] = []

    def __call__(self, stream: int) -> int:
        key = (stream, threading.get_ident() if stream == PER_THREAD else 0)
        if driver().is_capturing(stream):
            buffer = self._new(stream)
            self._captured.append(buffer)
            return buffer.address
        found = self._of.get(key)
        if found is None:
            found = self._of.setdefault(key, self._new(stream))
        return found.address

    def _new(self, stream: int) -> Buffer:
        with driver().relaxed_capture():
            buffer = Buffer(4 * self.count, self.device)
            with driver().on(self.device):
                driver().zero(buffer.address, self.count, stream)
        return buffer
