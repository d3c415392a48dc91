"""The thread pool that runs ranges of a kernel's work units; small work runs in the calling thread."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from .. import config
from ..backends.cpu.launch_stages import ROW_SORT, CpuLaunch
from .free_memory import exhausted
from .interruptible_calls import is_abandoned
from .row_sort import sort_stage
from .work_sharing import SharedUnits, can_share

PIECES_PER_THREAD = 8  # at most, of short work: enough to balance the threads
FIRST_PIECE_GRAINS = 32  # of the first piece, before one is timed: some tenths of a second at most
SHORT, LONG = 0.02, 0.1  # seconds that a piece should take: an interrupt waits for one
_lock = threading.Lock()
_pool: Pool | None = None


class Pool:
    """Daemon threads that wait for jobs. The caller works too, so the pool has `threads` - 1 of them."""

    def __init__(self, threads: int):
        self.threads = threads
        self.queue: SimpleQueue = SimpleQueue()
        for _ in range(threads - 1):
            threading.Thread(target=self._work, daemon=True, name="fusedsl").start()

    def _work(self) -> None:
        while (job := self.queue.get()) is not None:
            job.work()
            job = None  # hold no reference while waiting

    def close(self) -> None:
        """Let the threads end, once the queued jobs are done."""
        for _ in range(self.threads - 1):
            self.queue.put(None)

    def run(self, function, slots: int, count: int, grain: int) -> None:
        """function(slots, begin, end) over [0, count) in pieces of `grain` units or more; returns when all is done.

        Python handles signals between the pieces of the calling thread. If a handler raises, as that of Ctrl-C does, no
        further piece starts, and the kernel's outputs are left half written.
        """
        if self.threads == 1 and count <= FIRST_PIECE_GRAINS * grain:  # an interrupt can wait for it
            function(slots, 0, count)
            return
        job: Job | SharedJob
        if count <= FIRST_PIECE_GRAINS * grain * self.threads and can_share(function):
            job = SharedJob(SharedUnits(function, slots, count, grain))
        else:  # few pieces: a thread that comes for its next one may have to wait for the GIL
            job = Job(function, slots, count, grain, -(-count // (PIECES_PER_THREAD * self.threads)))
        try:
            for _ in range(min(self.threads, -(-count // job.step)) - 1):
                self.queue.put(job)
            job.run()
        finally:
            job.join()


class ThreadedJob:
    """A launch whose units several threads compute: the caller, and those of the pool that find some left."""

    __slots__ = ("ended", "faults", "owner", "started")

    def __init__(self) -> None:
        self.owner = threading.current_thread()
        self.started: list[None] = []
        self.faults: list[BaseException | None] = []  # an entry for each thread that has ended
        self.ended: SimpleQueue = SimpleQueue()  # wakes the caller after each of them

    def run(self) -> None:
        """Compute units until none are left."""
        raise NotImplementedError

    def close(self) -> None:
        """Let no thread take a further unit."""
        raise NotImplementedError

    def work(self) -> None:
        """`run` on a thread of the pool; the caller waits for the threads that started before the units ran out.

        What a stage in Python raises, as where memory is exhausted, is the caller's: this thread goes on to other jobs.
        """
        self.started.append(None)
        fault = None
        try:
            self.run()
        except BaseException as error:
            fault = error
            self.close()  # no one needs the rest
        finally:
            self.faults.append(fault)
            self.ended.put(None)

    def join(self) -> None:
        """Wait for all threads, after an interrupt too, since they write to the caller's arrays; raise their faults."""
        closed, raised = False, None
        while not closed or len(self.faults) < len(self.started):  # a thread that starts late may end early
            try:
                if closed:
                    self.ended.get()
                else:
                    self.close()
                    closed = True
            except BaseException as interrupt:  # between any two operations
                raised = raised or interrupt
        if fault := raised or next(filter(None, self.faults), None):
            raise fault


class SharedJob(ThreadedJob):
    """Short work: each thread computes in one call."""

    __slots__ = ("step", "units")

    def __init__(self, units: SharedUnits):
        super().__init__()
        self.units, self.step = units, units.grain

    def run(self) -> None:
        if not is_abandoned(self.owner):
            self.units.take()

    def close(self) -> None:
        self.units.close()


class Job(ThreadedJob):
    """The pieces of one launch, taken by any free thread.

    The length of the next piece follows from the time of the last one: at most `largest` units, or `grain` if that is
    more.
    """

    __slots__ = ("begun", "count", "function", "grain", "largest", "lock", "slots", "step")

    def __init__(self, function, slots: int, count: int, grain: int, largest: int):
        super().__init__()
        self.function, self.slots, self.count, self.grain = function, slots, count, grain
        self.largest = max(grain, largest)
        self.step = min(self.largest, FIRST_PIECE_GRAINS * grain)
        self.begun = 0  # units that are taken by threads, or done
        self.lock = threading.Lock()

    def take_piece(self) -> tuple[int, int] | None:
        """The next piece; None if none is left, or no one waits for the rest."""
        if is_abandoned(self.owner):
            return None
        with self.lock:
            begin = self.begun
            if begin >= self.count:
                return None
            self.begun = end = min(begin + self.step, self.count)
        return begin, end

    def run(self) -> None:
        """Compute pieces until none is left."""
        while (piece := self.take_piece()) is not None:
            start = perf_counter()
            self.function(self.slots, *piece)
            self.adapt(perf_counter() - start)

    def adapt(self, seconds: float) -> None:
        """Choose the length of the next pieces, given the seconds of the last one."""
        if seconds > LONG and self.step > self.grain:
            self.step = max(self.grain, self.step // 2)
        elif seconds < SHORT and self.step < self.largest:
            self.step = min(self.largest, self.step * 2)

    def close(self) -> None:
        with self.lock:
            self.begun = self.count


def set_num_threads(threads: int | None) -> None:
    """Run on so many threads from now on; None for the default of `config.num_threads`."""
    global _pool
    config.choose("FUSEDSL_NUM_THREADS", threads)
    with _lock:
        old, _pool = _pool, None
    if old is not None:
        old.close()


def run(function, slots: int, count: int, grain: int) -> None:
    """Run a C kernel over `count` units, split at multiples of `grain`; inline if that is a single piece."""
    global _pool
    if count <= grain:
        if count > 0:
            function(slots, 0, count)
        return
    pool = _pool
    if pool is None:
        with _lock:
            pool = _pool = _pool or Pool(config.num_threads())
    pool.run(function, slots, count, grain)


def single_call(functions: Mapping[str, Callable], launch: CpuLaunch) -> tuple[int, int] | None:
    """(address of the C function, units) if a launch is one call of it in the calling thread; else None."""
    if len(launch.stages) != 1 or launch.workspace:
        return None
    stage = launch.stages[0]
    most = stage.grain if config.num_threads() > 1 else FIRST_PIECE_GRAINS * stage.grain
    if not stage.count or stage.count > most:
        return None
    function: Any = functions[stage.symbol]
    return ctypes.c_void_p.from_buffer(function).value or 0, stage.count  # ctypes.cast would leave a cycle behind


def runner(functions: Mapping[str, Callable], launch: CpuLaunch, slots: int) -> Callable[[int], None]:
    """f(address of a parameter block of `slots` slots): runs all stages of a launch and returns when they are done.

    `functions` are the loaded C functions by symbol. Threads may call f at once.
    """
    if launch.row_sort is not None:
        functions = {**functions, ROW_SORT: sort_stage(launch.row_sort, slots)}
    stages = [(functions[stage.symbol], stage.count, stage.grain) for stage in launch.stages]
    if len(stages) == 1 and not launch.workspace:
        function, count, grain = stages[0]
        return lambda block: run(function, block, count, grain)

    def run_stages(block: int) -> None:
        import numpy as np

        try:
            workspace = np.empty(launch.workspace + 64, np.uint8)
        except MemoryError as fault:
            raise exhausted(launch.workspace, "working memory") from fault
        own = (ctypes.c_int64 * (slots + 2))()
        ctypes.memmove(own, block, 8 * slots)
        own[slots] = -(-workspace.ctypes.data // 64) * 64
        own[slots + 1] = launch.parts
        for function, count, grain in stages:
            run(function, ctypes.addressof(own), count, grain)

    return run_stages


def _forget() -> None:
    """In a forked child the threads are gone: make a new pool at the first launch."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
