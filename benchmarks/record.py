"""Results: one row a measurement, written to the JSON file as they come, with the machine and the versions."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    *("numpy", "numba", "numba-cuda", "llvmlite", "cuda-core", "cuda-bindings", "lark", "ml_dtypes"),
    *("torch", "triton", "cupy-cuda12x", "cupy-cuda13x", "numexpr", "jax", "liger-kernel", "quack-kernels"),
)
OPTIONAL = ("error", "plan", "first_s")  # of a row: what is left out of the file where there is none


@dataclass(frozen=True)
class Row:
    """One peer at one workload. A peer that could not run has no times, and says why in `error`."""

    suite: str
    workload: str
    shape: str
    dtype: str
    peer: str
    median_us: float | None
    p20_us: float | None
    p80_us: float | None
    bytes: int
    flops: int
    floor_us: float | None
    max_error: float | None
    error: str | None = None
    plan: str | None = None  # of fusedsl, where a suite tells the kernels of the call
    first_s: float | None = None  # of fusedsl, where a suite times the first call

    @property
    def case(self) -> tuple[str, str, str, str]:
        return (self.suite, self.workload, self.shape, self.dtype)

    @property
    def absent(self) -> bool:
        """Whether the peer's package is not installed."""
        return self.error is not None and self.error.startswith("ModuleNotFoundError")


@dataclass
class Report:
    """The rows so far; `add` writes the file anew, so a run that is stopped leaves what it had."""

    path: Path | None
    rows: list[Row] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.head = {"machine": machine(), "versions": versions(), "date": now()}

    def add(self, row: Row) -> None:
        if row.absent:
            if not any(r.absent and r.peer == row.peer for r in self.rows):
                print(f"    {row.peer} is left out: {row.error}", flush=True)
        elif row.error:
            print(f"    {row.workload} {row.shape} {row.dtype}: {row.peer}: {row.error}", flush=True)
        self.rows.append(row)
        self.write()

    def write(self) -> None:
        """The file anew, if there is one."""
        if self.path is not None:
            rows = [{k: v for k, v in asdict(r).items() if k not in OPTIONAL or v} for r in self.rows]
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps({**self.head, "rows": rows}, indent=1, allow_nan=False) + "\n")
            os.replace(part, self.path)


def now() -> str:
    """The date and time, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def quantile(times: Sequence[float], share: float) -> float:
    """The value below which `share` of the times lie, interpolated."""
    ordered = sorted(times)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def times_row(
    case: tuple, peer: str, times: Sequence[float], facts: tuple, floor: float | None, error: float | None
) -> Row:
    """A row from repeated times in µs; `facts` are bytes and flops. An error that is no number is a failure."""
    spread = [round(quantile(times, share), 3) for share in (0.5, 0.2, 0.8)]
    if error is None:
        return Row(*case, peer, *spread, *facts, floor, None)
    known = math.isfinite(error)
    wrong = None if known else "the result is not finite where the reference is"
    return Row(*case, peer, *spread, *facts, floor, float(f"{error:.3g}") if known else None, wrong)


def failed_row(case: tuple, peer: str, facts: tuple, fault: BaseException | str) -> Row:
    """A row for a peer that could not run."""
    told = fault if isinstance(fault, str) else f"{type(fault).__name__}: {fault}"
    return Row(*case, peer, None, None, None, *facts, None, None, " ".join(told.split())[:300] or "failed")


# ---- where and with what


def machine() -> dict[str, Any]:
    """The processor, its threads, and the GPU with its driver where there is one."""
    found: dict[str, Any] = {"cpu": _cpu(), "threads": len(os.sched_getaffinity(0)), "system": platform.platform()}
    gpu = nvidia_smi("name,driver_version,clocks.max.sm,clocks.max.mem,power.limit")
    if gpu:
        found["gpu"] = gpu
    return found


def nvidia_smi(fields: str) -> str | None:
    """These fields of the first GPU, separated by commas; None without one."""
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", "--id=0"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return told.stdout.strip() or None if told.returncode == 0 else None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    fusedsl = sys.modules.get("fusedsl")
    if fusedsl is not None:
        found["fusedsl"] = fusedsl.__version__
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
