"""Random expressions on a target: how many agree with the reference interpreter within their derived bounds.

    python benchmarks/random_expressions.py --expressions 20000 --json benchmarks/results/random_cpu.json
    python benchmarks/random_expressions.py --target cuda --expressions 5000 --processes 8

The programs are those of tests/draw.py, the laws that each has to keep those of tests/laws.py. A run writes what it has
as it goes; the same command later goes on from there. `--target ahead` compiles the kernels of `cuda` into the cache,
without a GPU; `--target emulated` runs them on tests/ptx.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests"), str(ROOT)]

CHUNK = 2  # programs that a process is given at once
TASKS = 20  # chunks of a process, which keeps all that it compiles


def main() -> int:
    """Run what is missing, as far as time allows; 1 if an expression differs."""
    given = arguments()
    found = begun(given)
    end = time.monotonic() + given.seconds
    while found["expressions"] < given.expressions and time.monotonic() < end:
        with multiprocessing.Pool(given.processes, maxtasksperchild=TASKS) as pool:
            run(given, found, pool.imap(partial(chunk, given.target), starts(found["seeds"], given.processes)), end)
    print(json.dumps({k: v for k, v in found.items() if k not in ("machine", "versions")}, indent=1))
    return int(bool(found["differed"]))


def run(given: argparse.Namespace, found: dict[str, Any], chunks: Any, end: float) -> None:
    """Count in what comes until there is enough, time is up, or nothing more comes."""
    while found["expressions"] < given.expressions:
        try:
            told = chunks.next(timeout=max(end - time.monotonic(), 0.0))
        except (StopIteration, multiprocessing.TimeoutError):
            return
        add(found, told)
        write(given.json, found)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--expressions", type=int, default=500)
    parser.add_argument("--target", choices=("cpu", "cuda", "emulated", "ahead"), default="cpu")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="when to stop, at the latest")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--json", type=Path, help="where results go")
    return parser.parse_args()


def begun(given: argparse.Namespace) -> dict[str, Any]:
    """What an earlier run of this file has, or nothing."""
    from record import Report

    if given.json is not None and given.json.exists():
        return json.loads(given.json.read_text())
    counts = {"programs": 0, "expressions": 0, "elements": 0, "judged": 0, "worst_share": 0.0, "seconds": 0.0}
    return {**Report(None).head, "target": given.target, "seeds": [given.seed, given.seed], **counts, "differed": []}


def starts(seeds: list[int], processes: int) -> Iterator[int]:
    """First seeds of chunks, a few rounds of them: what is drawn in vain is small."""
    return iter(range(seeds[1], seeds[1] + 200 * processes * CHUNK, CHUNK))


def chunk(target: str, first: int) -> dict[str, Any]:
    """The programs of a few seeds."""
    from draw import draw
    from laws import Case

    np.seterr(all="ignore")
    told: dict[str, Any] = {"last": first + CHUNK, "differed": []}
    sums = dict.fromkeys(("programs", "expressions", "elements", "judged", "worst_share"), 0)
    start = time.perf_counter()
    for seed in range(first, first + CHUNK):
        try:
            program = draw(seed)
            found = held(target, Case(program))
            sums["elements"] += found.elements
            sums["judged"] += found.judged
            sums["worst_share"] = max(sums["worst_share"], found.share)
            sums["programs"] += 1
            sums["expressions"] += len(program.results)
        except Exception as fault:  # whatever it is, it is a difference to be told
            told["differed"].append(
                {"seed": seed, "fault": f"{type(fault).__name__}: {str(fault)[:300]}", **where(fault)}
            )
    return {**told, **sums, "seconds": time.perf_counter() - start}


def where(fault: Exception) -> dict[str, str]:
    """The law that was being held, and the line that raised."""
    frames = [f for f in traceback.extract_tb(fault.__traceback__) if Path(f.filename).is_relative_to(ROOT)]
    laws = [f for f in frames if Path(f.filename).name in ("laws.py", Path(__file__).name)]
    return {
        part: f"{Path(f.filename).relative_to(ROOT)}:{f.lineno}: {f.line}"
        for part, f in (("law", laws[-1]), ("raised", frames[-1]))
    }


def held(target: str, case: Any) -> Any:
    """What a target says to a program, or (ahead) its kernels compiled for it."""
    import laws

    if target == "ahead":
        case.tighten()
        case.kernel.compile(*case.arguments, device="cuda", cc=90)
        return laws.Told()
    if target == "cpu":
        return laws.hold(case)
    import devices

    if target == "cuda":
        return laws.hold(case, devices.card)
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4):
        return laws.hold(case, devices.on(devices.Emulated()))


def add(found: dict[str, Any], told: dict[str, Any]) -> None:
    """Count a chunk in."""
    for key in ("programs", "expressions", "elements", "judged", "seconds"):
        found[key] += told[key]
    found["worst_share"] = max(found["worst_share"], told["worst_share"])
    found["seeds"][1] = told["last"]
    found["differed"] += told["differed"]


def write(path: Path | None, found: dict[str, Any]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
