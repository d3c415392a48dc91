"""Executed warp instructions of fusedsl's kernels, counted by Nsight Compute in a run of their own.

`count` starts this file under ncu; started so, it launches every selected case once, each behind a marker kernel.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

METRIC = "smsp__inst_executed.sum"
MARKER = "FillFunctor"
TIMEOUT = 240  # seconds

Case = tuple[str, ...]  # workload, shape, dtype; or of the map of the language its place in it


def count(cases: Sequence[Case]) -> tuple[dict[Case, float], str | None]:
    """(warp instructions of each case, None), or ({}, the reason why they are unknown)."""
    if not cases:
        return {}, "there are no cases"
    ncu = shutil.which("ncu") or next(iter(sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"))), None)
    if ncu is None:
        return {}, "there is no ncu on this machine"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "ncu.csv")
        command = [str(ncu), "--clock-control", "none", "--profile-from-start", "off", "--metrics", METRIC, "--csv"]
        command += ["--log-file", str(log), sys.executable, __file__, *(" ".join(case) for case in cases)]
        try:
            told = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env=dict(os.environ))
        except (OSError, subprocess.TimeoutExpired) as fault:
            return {}, f"ncu: {fault}"
        if told.returncode != 0 or not log.exists():
            return {}, f"ncu ended with {told.returncode}: {(told.stderr or told.stdout).strip()[-200:]}"
        counted = list(sums(log.read_text().splitlines()))
    launched = told.stdout.count("launched ")
    if len(counted) != len(cases) or launched != len(cases):
        return {}, f"ncu saw {len(counted)} of {len(cases)} cases"
    return {case: n for case, n in zip(cases, counted, strict=True) if n}, None


def sums(lines: Sequence[str]) -> Iterator[float]:
    """The metric's sum over the kernels behind each marker, in order, from ncu's CSV log."""
    begin = next((k for k, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return
    total: float | None = None
    for row in csv.DictReader(lines[begin:]):
        if row.get("Metric Name") != METRIC:
            continue
        if MARKER in row["Kernel Name"]:
            if total is not None:
                yield total
            total = 0.0
        elif total is not None:
            total += float(row["Metric Value"].replace(",", ""))
    if total is not None:
        yield total


def launch(cases: Sequence[Case]) -> None:
    """Run each case once between the profiler's start and stop, behind a marker. A case that fails counts nothing."""
    import torch

    mark = torch.empty(1, device="cuda")
    for case in cases:
        try:
            call = workload_call(*case) if len(case) > 1 else language_call(*case)
            call()
        except Exception as fault:
            print(f"{' '.join(case)}: {fault}", file=sys.stderr)
            call = None
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        mark.fill_(1.0)
        if call is not None:
            call()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        print(f"launched {' '.join(case)}")


def workload_call(name: str, shape: str, dtype: str) -> Callable[[], Any]:
    """A case of the suites `map` and `rows`."""
    from fusedsl.bench.workloads import BY_NAME
    from gpu import tensors
    from peers import Peers

    wide, long = (int(n) for n in shape.split("x"))
    return Peers(BY_NAME[name], (wide, long), tensors(BY_NAME[name], (wide, long), dtype)).build("fusedsl")


def language_call(place: str) -> Callable[[], Any]:
    """A case of the suite `language`, by its place in the map."""
    from language_cases import cases
    from language_peers import Arrays, free, ours

    free("cuda")
    case = cases()[int(place)]
    return ours(case, Arrays(case, "cuda", "cuda"))


if __name__ == "__main__":
    sys.path.insert(1, str(Path(__file__).resolve().parent.parent))
    launch([tuple(argument.split()) for argument in sys.argv[1:]])
