"""Timing on a CPU: the host's clock, and what reading and writing bytes take on as many threads as fusedsl has."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np


class Processor:
    """What stands for the card on a CPU: the clock of the host, and floors of as many threads as fusedsl takes."""

    def __init__(self) -> None:
        from fusedsl.config import num_threads

        self.threads = num_threads()
        self.pool = ThreadPoolExecutor(self.threads)

    def times(self, call: Callable[[], Any], repetitions: int) -> list[float]:
        """µs of each of these calls, after one to warm up."""
        call()
        found = []
        for _ in range(repetitions):
            begun = time.perf_counter()
            call()
            found.append(1e6 * (time.perf_counter() - begun))
        return found

    def transfer(self, read: int, written: int, repetitions: int) -> list[float]:
        """µs that so many bytes take: a copy of the smaller, and reading or filling the rest."""
        jobs: list[tuple[Callable, tuple]] = []
        if both := min(read, written) // 4:
            source, copied = self._parts(both), self._parts(both)
            jobs += [(np.copyto, pair) for pair in zip(copied, source, strict=True)]
        rest = self._parts(abs(read - written) // 4)
        jobs += [(np.dot, (part, part)) if read > written else (np.ndarray.fill, (part, 2)) for part in rest]
        return self.times(partial(self._all, jobs), repetitions)

    def _all(self, jobs: list[tuple[Callable, tuple]]) -> None:
        """Run these, on the threads if there are several."""
        if self.threads == 1:
            for function, arguments in jobs:
                function(*arguments)
        else:
            list(self.pool.map(lambda job: job[0](*job[1]), jobs))

    def _parts(self, size: int) -> list[np.ndarray]:
        """An array of so many numbers in a part for each thread."""
        return np.array_split(np.ones(size, np.float32), self.threads)
