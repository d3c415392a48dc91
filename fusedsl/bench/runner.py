"""A run of the suites: each case checked against float64, then its peers timed in turns, cold and warm."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import Any

from ..errors import ArgumentError, DeviceError
from .interleaved_timing import Subject, compare
from .peers import PEERS, UNFUSED, Peers, Unusable, installed, largest_error, results_of
from .ratios import FLOOR, OURS
from .record import Report, times_row
from .regressions import busy_warning
from .suites import BenchmarkCase
from .timers import Clock, CpuClock, CudaClock, gemm_rate
from .workloads import draw, shape_name

TOLERANCE = {
    "float16": 5e-3,
    "float32": 2e-5,
    "float64": 1e-7,
}  # relative to the largest magnitude; NumPy's erf here is 1.5e-7
MEASURES = ("kernel", "call")

Step = Callable[[str], AbstractContextManager]
"""The context in which a case of this name is measured: it shows the name."""


class WrongResult(ValueError):
    """A peer's results differ from those in float64 by more than rounding: it is not timed."""


@dataclass(frozen=True)
class BenchmarkSettings:
    """Settings of a run, from the command line."""

    dtype: str = "float32"
    repetitions: int = 21
    peers: tuple[str, ...] = ()  # these alone, if any
    compile_seconds: float = 60.0  # for torch.compile, in all
    measures: tuple[str, ...] = MEASURES


def find_clock(device: str | None) -> Clock:
    """The clock of the GPU if there is one and CuPy is installed, else of the CPU; `device` asks for one of them."""
    from ..runtime.driver import cuda_available

    usable = device != "cpu" and cuda_available() and find_spec("cupy") is not None
    if device == "cuda" and not usable:
        help = "install fusedsl[cu13] or fusedsl[cu12] on a machine with an NVIDIA GPU"
        raise DeviceError("bench on a GPU needs an NVIDIA GPU and CuPy", "device.cuda", help=help)
    return CudaClock() if usable else CpuClock()


class BenchmarkRun:
    """One run: the clock, the report, the peers, and the rates that floors are made of."""

    def __init__(self, clock: Clock, report: Report, settings: BenchmarkSettings) -> None:
        self.clock, self.report, self.settings = clock, report, settings
        unknown = [p for p in settings.peers if p not in PEERS[clock.kind]]
        if unknown:
            help = f"peers are {', '.join(PEERS[clock.kind])}"
            raise ArgumentError(f"{unknown[0]!r} is no peer", "argument.peers", help=help)
        self.names = tuple(p for p in PEERS[clock.kind] if not settings.peers or p in settings.peers)
        self.unusable = Unusable([p for p in self.names if not installed(p)], settings.compile_seconds)
        self._gemm_rate: float | None = None
        report.head |= {
            "target": clock.kind,
            "unfused": UNFUSED[clock.kind],
            "absent": sorted({p.partition(".")[0] for p in self.names if not installed(p)}),
            "floors": {},
            "load": _load(),
        }
        if warning := busy_warning(report.head):
            report.say(warning)

    def measure(self, cases: Sequence[BenchmarkCase], step: Step) -> None:
        """Add the rows of all cases to the report."""
        for case in cases:
            name = f"{case.workload.name} {shape_name(case.shape)}"
            with step(name):
                try:
                    self._case(case)
                except MemoryError:  # of CuPy too; what peers raise is in their rows
                    self.report.say(f"    {name} is left out: it is too large for the memory")

    def _case(self, case: BenchmarkCase) -> None:
        dtype, workload, xp = self.settings.dtype, case.workload, self.clock.xp
        arrays = {name: xp.asarray(x) for name, x in draw(workload, case.shape, dtype).items()}
        size = workload.bytes(case.shape, next(iter(arrays.values())).itemsize)
        key = (case.suite, workload.name, shape_name(case.shape), dtype)
        facts = (size, workload.operations(case.shape))
        copies = min((self.clock.cold(c, self.settings.repetitions) for c in self.clock.copies(size)), key=median)
        floor = self._floor(case, size, median(copies))
        self.report.add(times_row(key, FLOOR, copies, facts, floor, None))
        peers = Peers(workload, arrays, xp)
        reference = peers.reference()
        for measure in self.settings.measures:
            entrants: dict[str, Any] = {}
            for name in (OURS, *self.names):
                prepare = partial(self._entrant, peers, name, measure, reference)
                reason = self.unusable.reason(name) or peers.lacks(name)
                entrants[name] = reason or partial(self.unusable.prepared, name, prepare)
            subject = Subject(key, facts, floor if measure == "kernel" else None, measure)
            compare(self.report, subject, entrants, self.settings.repetitions)
        if self.clock.kind == "cuda":
            xp.get_default_memory_pool().free_all_blocks()

    def _floor(self, case: BenchmarkCase, size: int, copy: float) -> float:
        """The µs of a copy of the same bytes, or of the matrix products alone where those take longer."""
        floors = self.report.head["floors"]
        floors["copy_gb_s"] = max(floors.get("copy_gb_s", 0.0), round(1e-3 * size / copy, 1))
        if case.workload.products is None:
            return round(copy, 3)
        if self._gemm_rate is None:
            self._gemm_rate = gemm_rate(self.clock, self.settings.dtype)
            floors["matmul_gflop_s"] = round(1e-3 * self._gemm_rate, 1)
        return round(max(copy, case.workload.products(case.shape) / self._gemm_rate), 3)

    def _entrant(self, peers: Peers, name: str, measure: str, reference: tuple) -> tuple[Any, float]:
        """A peer's timer, once its results are checked."""
        call = peers.build(name, bound=measure == "kernel")
        error = largest_error(results_of(call(), self.clock.xp), reference)
        if not error <= TOLERANCE[self.settings.dtype]:
            raise WrongResult(f"the error is {error:.3g} of the largest magnitude")
        return partial(self.clock.cold if measure == "kernel" else self.clock.warm, call), error


def _load() -> float:
    """The processes that ran or waited to run in the last minute; 0 where the system does not tell."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0


def wrong(report: Report) -> list[str]:
    """The cases that fusedsl did not compute, or not as in float64."""
    return [f"{r.workload} {r.shape}: {r.error}" for r in report.rows if r.peer == OURS and r.error]
