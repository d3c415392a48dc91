"""How cold a flush leaves the L2, whose lines that were loaded with evict_last may stay: python benchmarks/l2_flush.py.

Times torch's map before and after ours on the same arrays, with each way to flush. What ours left in the cache shows as
torch's gain. Needs a GPU and torch.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median

from fusedsl.bench.timers import reset_persisting_lines

REPETITIONS, SPIN = 15, 300_000  # timed calls; clocks that the GPU spins while the host enqueues
SIZES = (1 << 22, 1 << 24, 1 << 25, 1 << 26)  # float32 elements


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    rows = [row for size in SIZES for row in measure(size)]
    for row in rows:
        print(row)
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def measure(size: int) -> list[dict]:
    """µs of torch's map, of ours, and of torch's again, by flush; each flush begins with lines that none retains."""
    import torch

    import fusedsl as fd

    x = torch.randn(size, device="cuda")
    y, kernel, rows = torch.empty_like(x), fd.kernel("relu(x)"), []
    calls: list[tuple[str, Callable]] = [
        ("torch", lambda: torch.clamp_min(x, 0, out=y)),
        ("fusedsl", lambda: kernel(x, out=y)),
        ("torch after fusedsl", lambda: torch.clamp_min(x, 0, out=y)),
    ]
    for flush, empty in flushes().items():
        reset_persisting_lines()
        row: dict = {"elements": size, "flush": flush}
        for name, call in calls:
            row[name] = round(timed(call, empty), 2)
        rows.append(row)
    return rows


def flushes() -> dict[str, Callable]:
    import torch

    read, written = torch.randn(64 << 20, device="cuda"), torch.empty(64 << 20, device="cuda")  # 256 MB each
    sink = torch.empty((), device="cuda")

    def by_reading() -> None:
        torch.amax(read, dim=0, out=sink)

    def by_both() -> None:
        written.zero_()
        by_reading()

    def by_reset() -> None:
        reset_persisting_lines()
        by_reading()

    return {"reading": by_reading, "writing": written.zero_, "both": by_both, "reset, then reading": by_reset}


def timed(call: Callable, flush: Callable) -> float:
    import torch

    for _ in range(3):
        call()
    times = []
    for _ in range(REPETITIONS):
        flush()
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(SPIN)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * start.elapsed_time(end))
    return median(times)


if __name__ == "__main__":
    main()
