"""Results: one row a measurement, written to the JSON file as they come, with the machine and the versions."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    *("numpy", "numba", "numba-cuda", "llvmlite", "cuda-core", "cuda-bindings", "lark", "ml_dtypes"),
    *("torch", "triton", "cupy-cuda12x", "cupy-cuda13x", "numexpr", "pykeops", "jax", "liger-kernel", "quack-kernels"),
)
OPTIONAL = {"error": None, "plan": None, "first_s": None, "measure": "kernel"}  # left out of the file if they are these


CaseKey = tuple[str, str, str, str]
"""Suite, workload, shape and dtype."""


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
    measure: str = "kernel"  # or "call": what the host's clock says of a warm call

    @property
    def case(self) -> CaseKey:
        return (self.suite, self.workload, self.shape, self.dtype)

    @property
    def absent(self) -> bool:
        """Whether the peer's package is not installed."""
        return self.error is not None and self.error.startswith("ModuleNotFoundError")


def tell(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


@dataclass
class Report:
    """The rows so far; `add` writes the file anew, so a run that is stopped leaves what it had."""

    path: Path | None
    say: Callable[[str], None] = tell
    rows: list[Row] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.head = {"machine": machine(), "versions": versions(), "date": now()}

    def add(self, *rows: Row) -> None:
        """These rows, of which those without a time are said."""
        for row in rows:
            self._say(row)
            self.rows.append(row)
        self.write()

    def _say(self, row: Row) -> None:
        earlier = [r for r in self.rows if r.peer == row.peer and r.error == row.error]
        if row.absent or (row.error or "").startswith("left out"):
            if not earlier:
                self.say(f"    {row.peer}: {row.error}")
        elif row.error and (row.case, row.peer) not in [(r.case, r.peer) for r in earlier]:
            self.say(f"    {row.workload} {row.shape} {row.dtype}: {row.peer}: {row.error}")

    def write(self) -> None:
        """The file anew, if there is one."""
        if self.path is not None:
            rows = [{k: v for k, v in asdict(r).items() if k not in OPTIONAL or v != OPTIONAL[k]} for r in self.rows]
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps({**self.head, "rows": rows}, indent=1, allow_nan=False) + "\n")
            os.replace(part, self.path)


def now() -> str:
    """The date and time, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def quantile(times: Sequence[float], share: float) -> float:
    """The value below which `share` of the times lie, interpolated."""
    ordered = sorted(times)
    rank = share * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


def times_row(
    case: CaseKey, peer: str, times: Sequence[float], facts: tuple[int, int], floor: float | None, error: float | None
) -> Row:
    """A row from repeated times in µs; `facts` are bytes and flops. An error that is no number is a failure."""
    middle, low, high = (round(quantile(times, share), 3) for share in (0.5, 0.2, 0.8))
    if error is None:
        return Row(*case, peer, middle, low, high, *facts, floor, None)
    known = math.isfinite(error)
    wrong = None if known else "the result is not finite where the reference is"
    return Row(*case, peer, middle, low, high, *facts, floor, float(f"{error:.3g}") if known else None, wrong)


def failed_row(case: CaseKey, peer: str, facts: tuple[int, int], fault: BaseException | str) -> Row:
    """A row for a peer that could not run."""
    reason = fault if isinstance(fault, str) else f"{type(fault).__name__}: {fault}"
    return Row(*case, peer, None, None, None, *facts, None, None, " ".join(reason.split())[:300] or "failed")


# ---- where and with what


def machine() -> dict[str, Any]:
    """The processor, its threads, and the GPU with its driver where there is one."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    facts: dict[str, Any] = {"cpu": cpu_name(), "threads": threads, "system": system_name()}
    gpu = nvidia_smi("name,driver_version,clocks.max.sm,clocks.max.mem,power.limit")
    if gpu:
        facts["gpu"] = gpu
    return facts


def nvidia_smi(fields: str) -> str | None:
    """These fields of the first GPU, separated by commas; None without one."""
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", "--id=0"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None if answer.returncode == 0 else None


def system_name() -> str:
    """The operating system, its version and the architecture: "Linux 6.18 x86_64"."""
    version = ".".join(re.split(r"[.-]", platform.release())[:2])
    return f"{platform.system()} {version} {platform.machine()}"


def cpu_name() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def versions() -> dict[str, str]:
    known = {"python": platform.python_version()}
    fusedsl = sys.modules.get("fusedsl")
    if fusedsl is not None:
        known["fusedsl"] = fusedsl.__version__
    for name in PACKAGES:
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return known
