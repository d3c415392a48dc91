"""The suites `map` and `rows`: every workload, shape and dtype, fusedsl beside its peers, in one run on one GPU."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fusedsl.bench.interleaved_timing import Subject, compare
from fusedsl.bench.record import Report, quantile, times_row
from fusedsl.bench.workloads import WORKLOADS, Workload, selected, shape_name

MAP_SHAPES = ((8192, 8192),)
ROW_SHAPES = ((131072, 512), (32768, 1024), (4096, 4096), (8192, 16384), (16384, 1000), (16384, 4097))
QUICK_SHAPES = ((64, 96),)
DTYPES = ("float32", "bfloat16")
OVER = "left out: the time for this run was used up"


@dataclass(frozen=True)
class Settings:
    """What the command line chose."""

    quick: bool = False
    only: str = ""
    dtype: str | None = None
    repetitions: int = 30
    instructions: bool = False
    compile_until: float = float("inf")  # on time.monotonic's clock; later cases go without torch.compile
    part: tuple[int, int] = (1, 1)
    limit_s: float = float("inf")  # products: for one case
    tuned: bool = False  # products: torch.compile's max-autotune too
    random: int = 0  # products: how many random shapes
    seed: int = 1
    own: bool = False  # products: no library computes any

    def share(self, cases: list) -> list:
        """Those of a suite's cases that this run takes: the first, second … of so many parts."""
        return cases[self.part[0] - 1 :: self.part[1]]


Case = tuple[Workload, tuple[int, int], str]


def cases(suite: str, settings: Settings) -> list[Case]:
    """What to run: float32 first, and within a dtype shape by shape."""
    shapes = QUICK_SHAPES if settings.quick else {"map": MAP_SHAPES, "rows": ROW_SHAPES}[suite]
    found = [
        (w, shape, dtype)
        for dtype in DTYPES
        if settings.dtype in (None, dtype)
        for shape in shapes
        for w in WORKLOADS
        if w.suite == suite and selected(settings.only, w.name, shape_name(shape), dtype)
    ]
    return settings.share(found)


def need_gpu(suite: str) -> None:
    """RuntimeError where there is no GPU or no torch to time with."""
    try:
        import torch
    except ImportError as fault:
        raise RuntimeError(f"the suite {suite} times with torch: {fault}") from fault
    if not torch.cuda.is_available():
        raise RuntimeError(f"the suite {suite} needs an NVIDIA GPU")


def run(suite: str, report: Report, settings: Settings) -> None:
    """Measure the suite. Raises RuntimeError where there is no GPU or no torch to time with."""
    need_gpu(suite)
    import warm
    from gpu import Card

    chosen = cases(suite, settings)
    if "torch.compile" in warm.compile_peers(suite, len(chosen), settings):
        settings = replace(settings, compile_until=float("inf"))
    card = Card()
    counted: dict = {}
    if settings.instructions:
        import instructions

        counted, reason = instructions.count([(w.name, shape_name(shape), dtype) for w, shape, dtype in chosen])
        if reason:
            print(f"  no instruction floor: {reason}", flush=True)
    for w, shape, dtype in chosen:
        begun = time.monotonic()
        _case(card, report, settings, w, shape, dtype, counted.get((w.name, shape_name(shape), dtype), 0))
        print(f"  {w.name} {shape_name(shape)} {dtype}: {time.monotonic() - begun:.1f} s", flush=True)


def compile_torch(case: Case) -> None:
    """Compile what torch.compile makes of a case."""
    from gpu import tensors
    from peers import Peers

    workload, shape, dtype = case
    Peers(workload, shape, tensors(workload, shape, dtype)).torch_compile()()


def _case(card, report: Report, settings: Settings, w: Workload, shape, dtype: str, instructions: float) -> None:
    from gpu import tensors
    from peers import Peers

    peers = Peers(w, shape, tensors(w, shape, dtype))
    itemsize = next(iter(peers.tensors.values())).element_size()
    case = (w.suite, w.name, shape_name(shape), dtype)
    facts = (w.bytes(shape, itemsize), w.flops * shape[0] * shape[1])
    copies = card.copy(facts[0], dtype, settings.repetitions)
    floor = round(max(quantile(copies, 0.5), card.issue_time(instructions)), 3)
    report.add(times_row(case, "copy", copies, facts, floor, 0.0))
    names, references = ("fusedsl", *peers.names), peers.reference()
    entrants: dict[str, Any] = {name: partial(_entrant, card, peers, name, references) for name in names}
    if time.monotonic() > settings.compile_until:
        entrants["torch.compile"] = OVER
    compare(report, Subject(case, facts, floor), entrants, settings.repetitions)


def _entrant(card, peers, name: str, references: tuple):
    """One peer's timer, once its results are checked against float64."""
    from gpu import max_error
    from peers import to_torch

    call = peers.build(name)
    return partial(card.times, call), max_error(to_torch(call()), references)
