"""Measure fusedsl beside its peers: python benchmarks/run.py SUITE --json FILE [--quick] [--only WORDS] [--dtype D]."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROBLEMS = ("expressions", "wide", "reductions", "backward")
SUITES = ("map", "rows", *PROBLEMS, "attention", "products", "language", "time", "tune", "first_call", "cpu")
SUITES = (*SUITES, "language_cpu", "launch", "start")
MINUTES = "after so long torch.compile is left out; of language and random products the cases that are left (8)"
QUICK = "tiny shapes and few repetitions: does everything run? Of products: fusedsl and cuBLAS alone, ten calls each"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=(*SUITES, "all"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the rows go; written after every row")
    parser.add_argument("--quick", action="store_true", help=QUICK)
    parser.add_argument("--only", default="", metavar="WORDS", help='words a case must hold, e.g. "softmax 4096x4096"')
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), help="map and rows: this dtype alone")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="the K-th of N parts of the cases")
    parser.add_argument("--repetitions", type=int, default=30, help="timed calls of each peer on the GPU (30)")
    parser.add_argument("--instructions", action="store_true", help="count instructions with ncu first, for the floor")
    parser.add_argument("--minutes", type=float, default=8.0, help=MINUTES)
    parser.add_argument("--limit-s", type=float, default=60.0, help="products and language: seconds for one case (60)")
    parser.add_argument("--tuned", action="store_true", help="products: torch.compile's max-autotune too")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="products: so many random shapes too (0)")
    parser.add_argument("--seed", type=int, default=1, help="products: of the random shapes (1)")
    parser.add_argument("--own", action="store_true", help="products: by our own kernels, never by the arrays' library")
    return parser.parse_args()


def main() -> int:
    begun = time.monotonic()
    chosen = arguments()
    if ROOT not in map(Path, sys.path):
        sys.path.append(str(ROOT))
    import fusedsl  # noqa: F401  (so that the report finds its version)
    import suite_attention
    import suite_cpu
    import suite_gpu
    import suite_language
    import suite_launch
    import suite_problems
    import suite_products
    import suite_start
    import suite_time
    import suite_tune
    import summary
    from fusedsl.bench.record import Report

    settings = suite_gpu.Settings(
        chosen.quick,
        chosen.only,
        chosen.dtype,
        5 if chosen.quick else chosen.repetitions,
        chosen.instructions,
        begun + 60 * chosen.minutes,
        tuple(map(int, chosen.part.split("/"))),
        *(chosen.limit_s, chosen.tuned, chosen.random, chosen.seed, chosen.own),
    )
    suites = {
        "map": lambda: suite_gpu.run("map", report, settings),
        "rows": lambda: suite_gpu.run("rows", report, settings),
        **{name: lambda name=name: suite_problems.run(name, report, settings) for name in PROBLEMS},
        "attention": lambda: suite_attention.run(report, settings),
        "products": lambda: suite_products.run(report, settings),
        "time": lambda: suite_time.run(report, settings),
        "tune": lambda: suite_tune.run(report, settings),
        "first_call": lambda: suite_start.run_first_call(report, settings),
        **{name: lambda name=name: suite_language.run(name, report, settings) for name in suite_language.DEVICES},
        "cpu": lambda: suite_cpu.run(report, settings),
        "launch": lambda: suite_launch.run(report, settings),
        "start": lambda: suite_start.run_start(report, settings),
    }
    report = Report(chosen.json)
    left_out = 0
    with tempfile.TemporaryDirectory(prefix="fusedsl-benchmark-") as cache:
        os.environ["FUSEDSL_CACHE_DIR"] = cache  # nothing that an earlier run compiled, and nothing left behind
        for suite in SUITES if chosen.suite == "all" else (chosen.suite,):
            print(f"-- {suite}", flush=True)
            try:
                suites[suite]()
            except RuntimeError as fault:
                print(f"  left out: {fault}", flush=True)
                left_out += 1
    print("\n".join(summary.lines(report.rows, gated=not chosen.quick)), flush=True)
    where = f", in {chosen.json}" if chosen.json else ""
    print(f"{len(report.rows)} rows in {time.monotonic() - begun:.0f} s{where}")
    return 2 if left_out and not report.rows else 0


if __name__ == "__main__":
    sys.exit(main())
