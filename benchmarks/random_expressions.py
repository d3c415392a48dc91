"""Random expressions on a target: how many agree with the reference interpreter within their derived bounds.

    python benchmarks/random_expressions.py --expressions 30000 --json benchmarks/results/random_cpu.json
    python benchmarks/random_expressions.py --target cuda --expressions 5000 --processes 8

The programs are those of tests/draw.py and, as many as `--products` says, of tests/draw_products.py; with
`--kind matmul` single products of tests/draw_matmul.py, on a card half of them of large extents. The laws that each has
to keep are those of tests/laws.py. Counts are also told by kind. A run writes what it has as it goes; the same command
later goes on from there. `--target ahead` compiles the kernels of `cuda` into the cache,
without a GPU; `--target emulated` runs them on tests/ptx.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
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
KINDS = ("any", "products", "matmul")
RESULTS = {"any": 7.15, "products": 4.3}  # of a program, on average
COUNTED = ("programs", "expressions", "elements", "judged", "seconds")


def main() -> int:
    """Run what is missing, as far as time allows; 1 if an expression differs."""
    given = arguments()
    found = begun(given)
    end = time.monotonic() + given.seconds
    while found["expressions"] < given.expressions and time.monotonic() < end:
        with multiprocessing.Pool(given.processes, maxtasksperchild=TASKS) as pool:
            work = partial(chunk, given.target, given.products, given.kind)
            run(given, found, pool.imap_unordered(work, starts(found, given.processes)), end)
    print(json.dumps({k: v for k, v in found.items() if k not in ("machine", "versions")}, indent=1))
    if missing := unfinished(found):
        print(f"not finished in time: seeds from {missing}, {CHUNK} each")
    return int(bool(found["differed"]))


def run(given: argparse.Namespace, found: dict[str, Any], chunks: Any, end: float) -> None:
    """Count in what comes, in any order, until there is enough, time is up, or nothing more comes."""
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
    parser.add_argument("--products", type=float, default=1 / 3, help="the share of expressions of several products")
    parser.add_argument("--kind", choices=KINDS, help="this kind alone")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9, help="when to stop, at the latest")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--json", type=Path, help="where results go")
    return parser.parse_args()


def begun(given: argparse.Namespace) -> dict[str, Any]:
    """What an earlier run of this file has, or nothing."""
    from fusedsl.bench.record import Report

    if given.json is not None and given.json.exists():
        found = json.loads(given.json.read_text())
        if "kinds" in found:
            return {"ahead": [], **found}
    kinds = {kind: dict.fromkeys((*COUNTED, "differed"), 0) for kind in KINDS}
    counts = {**dict.fromkeys(COUNTED, 0), "worst_share": 0.0, "kinds": kinds}
    seeds: dict[str, Any] = {"seeds": [given.seed, given.seed], "ahead": []}  # from, until; chunks behind those
    return {**Report(None).head, "target": given.target, **seeds, **counts, "differed": []}


def starts(found: dict[str, Any], processes: int) -> Iterator[int]:
    """First seeds of chunks that are missing, a few rounds of them: what is drawn in vain is small."""
    first, ahead = found["seeds"][1], set(found["ahead"])
    return iter([seed for seed in range(first, first + 200 * processes * CHUNK, CHUNK) if seed not in ahead])


def unfinished(found: dict[str, Any]) -> list[int]:
    """First seeds of the chunks before the last one that has ended which have not."""
    ahead = found["ahead"]
    return [seed for seed in range(found["seeds"][1], max(ahead, default=0), CHUNK) if seed not in ahead]


def chunk(target: str, products: float, alone: str | None, first: int) -> dict[str, Any]:
    """The programs of a few seeds."""
    np.seterr(all="ignore")
    told: dict[str, Any] = {"first": first, "worst_share": 0.0, "differed": [], "kinds": {}}
    for seed in range(first, first + CHUNK):
        kind = alone or kind_of(seed, products)
        sums = told["kinds"].setdefault(kind, dict.fromkeys((*COUNTED, "differed"), 0))
        start = time.perf_counter()
        try:
            expressions, found = one(target, kind, seed)
            told["worst_share"] = max(told["worst_share"], found.share)
            for key, count in zip(COUNTED, (1, expressions, found.elements, found.judged)):
                sums[key] += count
        except Exception as fault:  # whatever it is, it is a difference to be told
            sums["differed"] += 1
            words = f"{type(fault).__name__}: {str(fault)[:300]}"
            told["differed"].append({"seed": seed, "kind": kind, "fault": words, **where(fault)})
        sums["seconds"] += time.perf_counter() - start
    return told


def kind_of(seed: int, products: float) -> str:
    """The kind of the program of a seed, so that this share of expressions is of products."""
    programs = products / RESULTS["products"]
    programs /= programs + (1 - products) / RESULTS["any"]
    return KINDS[random.Random(f"kind {seed}").random() < programs]


def one(target: str, kind: str, seed: int) -> tuple[int, Any]:
    """How many expressions the program of a seed has, and what was compared; raises where a law is broken."""
    from draw import draw
    from draw_matmul import draw_matmul
    from draw_products import draw_products
    from laws import Case

    large = target in ("cuda", "ahead") and seed % 2 == 1
    makers = {"any": draw, "products": draw_products, "matmul": lambda seed: draw_matmul(seed, large)}
    program = makers[kind](seed)
    return len(program.results), held(target, Case(program))


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
    for kind, sums in told["kinds"].items():
        for key, count in sums.items():
            found["kinds"][kind][key] += count
            if key in COUNTED:
                found[key] += count
    found["worst_share"] = max(found["worst_share"], told["worst_share"])
    found["ahead"] = sorted([*found["ahead"], told["first"]])
    while found["seeds"][1] in found["ahead"]:
        found["ahead"].remove(found["seeds"][1])
        found["seeds"][1] += CHUNK
    found["differed"] += told["differed"]


def write(path: Path | None, found: dict[str, Any]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
