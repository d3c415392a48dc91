"""`bench`: the suites of benchmarks/run.py in a checkout, else the demo's workloads at three sizes."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from ..report.table import text_table
from .demo import HEAD, WORKLOADS, parse_count, row
from .measure import find_target, measure

SUITES = Path(__file__).parent.parent.parent / "benchmarks" / "run.py"
SIZES = (1 << 14, 1 << 18, 1 << 22)


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `bench`: those of benchmarks/run.py."""
    parser.add_argument(
        "--sizes", type=parse_count, nargs="+", default=SIZES, help="elements, for the built-in workloads"
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="for benchmarks/run.py in a checkout, e.g. cpu --quick")


def run(chosen: argparse.Namespace) -> int:
    """Run the named suites of a checkout, else measure the built-in workloads."""
    if chosen.rest and SUITES.exists():
        return subprocess.call([sys.executable, str(SUITES), *chosen.rest])
    if chosen.rest:
        print(f"{' '.join(chosen.rest)}: the suites are in a checkout of the repository only", file=sys.stderr)
        return 2
    target = find_target()
    print(f"on {target.name}; unfused: {target.unfused}; float32")
    for size in chosen.sizes:
        rows = [row(measure(w, size, target)) for w in WORKLOADS]
        print(f"\n{size:,} elements\n{text_table(HEAD, rows)}")
    return 0
