"""The limits of a CPU for a roofline: measured, or those of the time model, with a core for each thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import perf_counter

import numpy as np

from ..config import num_threads
from ..fusion.roofline import Work
from ..hardware import CPU, Hardware
from ..runtime.vector_units import multiply_add_rate
from .units import plural

COPIED = 64 << 20  # bytes that a copy reads: more than the caches of most processors
ROUNDS = 5


def cpu_limits(measured: bool) -> Hardware:
    """The bandwidth and instruction rate of all threads: measured on this machine, or those of the time model."""
    threads = num_threads()
    cores = replace(CPU, multiprocessors=threads, bandwidth=threads * CPU.bandwidth / CPU.multiprocessors)
    if not measured:
        return replace(cores, card=f"a CPU of {plural(threads, 'core')}, as the time model has it,")
    rate = threads * multiply_add_rate()
    clock = rate / (threads * 32 * cores.warp_issue)
    card = f"this CPU on {plural(threads, 'thread')}"
    return replace(cores, card=card, bandwidth=_copy_rate(threads), clock=clock, tensor=round(32 * cores.warp_issue))


def cpu_seconds(work: Work, limits: Hardware) -> float:
    """The time of a launch by the roofline alone: memory or instructions, whichever takes longer."""
    return max((work.read + work.written) / limits.bandwidth, work.instructions / limits.issue_rate)


def _copy_rate(threads: int) -> float:
    """Bytes a second that a copy on all threads reads and writes, at best."""
    source = np.ones(COPIED, np.uint8)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))
    best = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(ROUNDS):
            begun = perf_counter()
            list(pool.map(lambda pair: np.copyto(*pair), parts))
            best = min(best, perf_counter() - begun)
    return 2 * COPIED / best
