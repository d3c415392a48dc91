"""One pool of threads that runs ranges of a kernel's work units; small work runs in the calling thread."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

from .. import config
from ..codegen.cpu.work import Launch

PIECES = 8  # for each thread, at most: enough to even out their speeds
_lock = threading.Lock()
_pool: Pool | None = None


class Pool:
    """Daemon threads that wait for jobs. The caller works too, so there is one thread less than `threads`."""

    def __init__(self, threads: int):
        self.threads = threads
        self.queue: SimpleQueue = SimpleQueue()
        for _ in range(threads - 1):
            threading.Thread(target=self._work, daemon=True, name="fusedsl").start()

    def _work(self) -> None:
        while True:
            job = self.queue.get()
            job.help()
            job = None  # while waiting, hold on to nothing

    def run(self, function, slots: int, count: int, grain: int) -> None:
        """function(slots, begin, end) over [0, count) in pieces of `grain` units or more; returns when all is done."""
        # few pieces: a thread that comes for its next one may have to wait for the GIL
        grain = max(grain, -(-count // (PIECES * self.threads)))
        job = Job(function, slots, count, grain)
        for _ in range(min(self.threads, -(-count // grain)) - 1):
            self.queue.put(job)
        try:
            job.run()
        finally:
            job.settle()


class Job:
    """Pieces of one launch, claimed by whichever thread is free."""

    __slots__ = ("claims", "count", "ended", "function", "grain", "slots", "started")

    def __init__(self, function, slots: int, count: int, grain: int):
        self.function, self.slots, self.count, self.grain = function, slots, count, grain
        self.claims = iter(range(0, count, grain))  # next() is atomic under the GIL
        self.started: list[None] = []
        self.ended: SimpleQueue = SimpleQueue()

    def run(self) -> None:
        """Compute pieces until none is left."""
        for begin in self.claims:
            self.function(self.slots, begin, min(begin + self.grain, self.count))

    def help(self) -> None:
        """The same on a thread of the pool; the caller waits for those that started before the pieces ran out."""
        self.started.append(None)
        try:
            self.run()
        finally:
            self.ended.put(None)

    def settle(self) -> None:
        """Leave nothing running: after an interrupt, too, since the threads write to the caller's arrays."""
        for _ in self.claims:
            pass
        ended, interrupt = 0, None
        while ended < len(self.started):  # counted anew: one that started late may end before one that computes
            try:
                self.ended.get()
                ended += 1
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


def run(function, slots: int, count: int, grain: int) -> None:
    """Run a C kernel over `count` units, split at multiples of `grain`; inline where that is a single piece."""
    global _pool
    if count <= grain:
        if count > 0:
            function(slots, 0, count)
        return
    pool = _pool
    if pool is None:
        with _lock:
            pool = _pool = _pool or Pool(config.num_threads())
    if pool.threads == 1:
        function(slots, 0, count)
    else:
        pool.run(function, slots, count, grain)


def single(functions: Mapping[str, Callable], launch: Launch) -> tuple[int, int] | None:
    """(address of the C function, units) where a launch is one call of it in the calling thread; else None."""
    if len(launch.stages) != 1 or launch.workspace:
        return None
    stage = launch.stages[0]
    if not stage.count or (stage.count > stage.grain and config.num_threads() > 1):
        return None
    function: Any = functions[stage.symbol]
    return ctypes.c_void_p.from_buffer(function).value or 0, stage.count  # ctypes.cast would leave a cycle behind


def runner(functions: Mapping[str, Callable], launch: Launch, slots: int) -> Callable[[int], None]:
    """f(address of a parameter block of `slots` slots): runs all stages of a launch and returns when they are done.

    `functions` are the loaded C functions by symbol. Threads may call f at once.
    """
    stages = [(functions[stage.symbol], stage.count, stage.grain) for stage in launch.stages]
    if len(stages) == 1 and not launch.workspace:
        function, count, grain = stages[0]
        return lambda block: run(function, block, count, grain)

    def run_stages(block: int) -> None:
        import numpy as np

        workspace = np.empty(launch.workspace + 64, np.uint8)
        own = (ctypes.c_int64 * (slots + 2))()
        ctypes.memmove(own, block, 8 * slots)
        own[slots] = -(-workspace.ctypes.data // 64) * 64
        own[slots + 1] = launch.parts
        for function, count, grain in stages:
            run(function, ctypes.addressof(own), count, grain)

    return run_stages


def _forget() -> None:
    """In a forked child the threads are gone: start anew at the first launch."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
