"""Random attention formulas on a card: how many agree with a float64 reference, and how many are one kernel.

A formula that no kernel computes, but the interpreter, counts as one that differs.

    python benchmarks/random_attention.py --formulas 300 --processes 8 --json benchmarks/results/random_attention.json

The formulas are those of tests/attention_programs.py. `--way warps` leaves out Hopper's own kernel.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests"), str(ROOT)]


def main() -> int:
    """Run the formulas; 1 if one differs."""
    from fusedsl.bench.record import Report

    given = arguments()
    started = time.monotonic()
    found: dict[str, Any] = {**Report(None).head, "way": given.way, "formulas": 0, "one_kernel": 0, "worst_share": 0.0}
    found["differed"] = []
    seeds = range(given.seed, given.seed + given.formulas)
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        results = pool.imap_unordered(partial(judged, given.way), seeds)
        while time.monotonic() < started + given.seconds:
            try:
                add(found, results.next(timeout=max(0.1, started + given.seconds - time.monotonic())))
            except (StopIteration, multiprocessing.TimeoutError):
                break
        pool.terminate()
    found["seconds"] = round(time.monotonic() - started, 1)
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({k: v for k, v in found.items() if k not in ("machine", "versions")}, indent=1))
    return int(bool(found["differed"]))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formulas", type=int, default=300)
    parser.add_argument("--way", choices=("first", "warps"), default="first")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1e9, help="when to stop, at the latest")
    parser.add_argument("--seed", type=int, default=0, help="of the first formula")
    parser.add_argument("--json", type=Path, help="where results go")
    return parser.parse_args()


def judged(way: str, seed: int) -> dict[str, Any]:
    """What became of one formula."""
    import cupy
    from attention_programs import draw, laid_out, on_device, worst

    import fusedsl as fd
    from fusedsl.backends.cuda.attention import schedule

    if way == "warps":
        schedule.SCHEDULERS = schedule.SCHEDULERS[-1:]
    program = draw(seed)
    told: dict[str, Any] = {"seed": seed, "what": program.words, "layouts": program.layouts, "text": program.text}
    try:
        kernel = fd.kernel(program.text, fallback=False)
        given = [laid_out(x, program.layouts.get(name, "")) for name, x in program.arrays.items()]
        moved = [on_device(cupy, x) for x in given]
        found = kernel(*moved)
        results = [cupy.asnumpy(x) for x in (found if isinstance(found, tuple) else (found,))]
        told["kernels"] = int(str(kernel.explain(*moved, compile=False)).split()[0])
        told["share"] = worst(program, results)
    except Exception as fault:
        told["fault"] = f"{type(fault).__name__}: {fault}"
    return told


def add(found: dict[str, Any], told: dict[str, Any]) -> None:
    """Count in one formula."""
    found["formulas"] += 1
    found["one_kernel"] += told.get("kernels") == 1
    if "fault" in told or told["share"] > 1:
        found["differed"].append(told)
    else:
        found["worst_share"] = max(found["worst_share"], told["share"])


if __name__ == "__main__":
    sys.exit(main())
