"""How long first calls of growing programs take: the families of tests/growing*.py, each size in a process of its own.

    python benchmarks/growth.py --json growth.json
    python benchmarks/growth.py --device cuda --only softmax --only pads

A first call plans and compiles for small arrays, with an empty cache folder, after a call of another text, and without
verification, which is for tests; for CUDA, without a GPU, it is compiled. Seconds are those of the clock or, where
other processes take turns, of the processor; megabytes the most that the process held. The exponent is that of time in
size, where a call takes long enough to tell.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests"), str(ROOT)]

PATIENCE = 4  # times the limit, after which a process is ended
LARGEST = 4 << 30  # bytes of data that a process may hold
WARM_UP = "tanh(x) @ x + softmax(x * 2)"
WIDTHS = (42, 6, 9, 7, 9, 8)


def main() -> int:
    """Measure every family; 1 if one breaks a limit."""
    given = arguments()
    if given.one is not None:
        name, n, device = given.one
        print(json.dumps(first_call(name, int(n), device)))
        return 0
    from fusedsl.bench.record import Report

    told: dict[str, Any] = {**Report(None).head, "device": given.device, "families": []}
    print(line("family", "n", "seconds", "MB", "exponent", "kernels"))
    for name in chosen(given.only):
        found = family(name, given.device, families()[name].sizes[: given.sizes])
        told["families"].append(found)
        for row in rows(found):
            print(line(*row), flush=True)
        if given.json is not None:
            given.json.write_text(json.dumps(told, indent=1) + "\n")
    broken = [f["family"] for f in told["families"] if f["faults"]]
    print(f"{len(told['families'])} families, {len(broken)} of them beyond a limit")
    return int(bool(broken))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", action="append", default=[], help="a part of the names of families")
    parser.add_argument("--sizes", type=int, help="how many sizes of each family, the smallest first (all)")
    parser.add_argument("--json", type=Path, help="where results go")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def families() -> dict[str, Any]:
    from growing import FAMILIES
    from growing_functions import FUNCTIONS
    from growing_mixtures import MIXTURES
    from growing_steps import STEPS

    return {f.name: f for f in (*FAMILIES, *FUNCTIONS, *MIXTURES, *STEPS)}


def chosen(only: list[str]) -> list[str]:
    return [name for name in families() if not only or any(part in name for part in only)]


# -- one family


def family(name: str, device: str, sizes: tuple[int, ...] | None = None) -> dict[str, Any]:
    """Its calls by size, the exponent of their growth, and which limits they break. It ends where a process did."""
    from growing import EXPONENT, MEGABYTES, SECONDS

    calls: list[dict[str, Any]] = []
    for n in sizes or families()[name].sizes:
        calls.append({"n": n, **measured(name, n, device)})
        if "fault" in calls[-1] or "refused" in calls[-1]:
            break
    last, grown = calls[-1], exponent(calls)
    faults = [last["fault"]] if "fault" in last else []
    if not faults and last.get("seconds", 0) > SECONDS[device]:
        faults.append(f"{last['seconds']:.1f} s are more than {SECONDS[device]:.0f}")
    if not faults and last.get("megabytes", 0) > MEGABYTES:
        faults.append(f"{last['megabytes']} MB are more than {MEGABYTES}")
    if grown is not None and grown > EXPONENT:
        faults.append(f"time grows as size to {grown:.2f}, which is more than {EXPONENT}")
    return {"family": name, "device": device, "calls": calls, "exponent": grown, "faults": faults}


def exponent(calls: list[dict[str, Any]]) -> float | None:
    """The slope of log time over log size, of the calls above the floor; None where there are less than two."""
    from growing import FLOOR

    points = [(math.log(c["n"]), math.log(c["seconds"])) for c in calls if c.get("seconds", 0) > FLOOR]
    if len(points) < 2:
        return None
    x, y = (sum(values) / len(points) for values in zip(*points))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def measured(name: str, n: int, device: str) -> dict[str, Any]:
    """A first call in a process of its own: `refused` with a LimitError where the program is beyond a stated limit, a
    `fault` where it did not end well, or in time."""
    from growing import SECONDS

    limit = PATIENCE * SECONDS[device]
    with tempfile.TemporaryDirectory(prefix="fusedsl-growth-") as folder:
        environment = os.environ | {"FUSEDSL_CACHE_DIR": folder, "FUSEDSL_NUM_THREADS": "2", "FUSEDSL_VERIFY": "0"}
        command = [sys.executable, __file__, "--one", name, str(n), device]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            said, complaint = process.communicate(timeout=limit + 30)  # … for the start and the warm-up
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return {"fault": f"not done after {limit:.0f} s"}
    if process.returncode == 0:
        return json.loads(said.splitlines()[-1])
    words = complaint.strip().splitlines()[-1:] or [f"it ended with {process.returncode}"]
    return {"fault": words[0][:200]}


# -- one call, in the process itself


def first_call(name: str, n: int, device: str) -> dict[str, Any]:
    """The first call of a program; raises what it raises."""
    import numpy as np

    import fusedsl as fd

    resource.setrlimit(resource.RLIMIT_DATA, (LARGEST, LARGEST))
    np.seterr(all="ignore")
    program, arrays = families()[name].make(n)
    run(fd.kernel(WARM_UP), {"x": np.ones((8, 8), np.float32)}, device)
    clock, processor = time.perf_counter(), time.process_time()
    try:
        plans = run(fd.kernel(program) if isinstance(program, str) else fd.fuse(program), arrays, device)
    except fd.LimitError as refused:
        return {"refused": str(refused).splitlines()[0]}
    seconds = min(time.perf_counter() - clock, time.process_time() - processor)
    megabytes = _most_memory() // 1024
    kernels = max((len(plan.kernels) for known in plans._known.values() for plan in known), default=None)
    return {"seconds": round(seconds, 3), "megabytes": megabytes, "kernels": kernels}


def _most_memory() -> int:
    """The most kB that the process held. On Linux getrusage counts what the process held that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(called: Any, arrays: dict[str, Any], device: str) -> Any:
    """A first call, on the CPU itself, for CUDA up to machine code; what was planned."""
    import fusedsl as fd
    from fusedsl.report.resources import compile_ahead

    if isinstance(called, fd.Kernel):
        program, given = called._program, [arrays[name] for name in called.params]
    else:
        given = list(arrays.values())
        program = called.program(*given)[0]
    if device == "cpu":
        called(*given)
    else:
        compile_ahead(program, given, "cuda", 90)
    return program.plans


# -- the table


def rows(found: dict[str, Any]) -> Iterator[tuple]:
    """A line for each call, the exponent in the last."""
    for k, call in enumerate(found["calls"]):
        last = k == len(found["calls"]) - 1
        grown = f"{found['exponent']:.2f}" if last and found["exponent"] is not None else ""
        seconds = f"{call['seconds']:.2f}" if "seconds" in call else ""
        told = "; ".join([*found["faults"], *(["refused"] if "refused" in call else [])]) if last else ""
        name = found["family"] if k == 0 else ""
        yield name, call["n"], seconds, call.get("megabytes", ""), grown, call.get("kernels", ""), told


def line(*words: object) -> str:
    head = [str(w).ljust(n) if k == 0 else str(w).rjust(n) for k, (w, n) in enumerate(zip(words, WIDTHS))]
    return " ".join([*head, *map(str, words[len(WIDTHS) :])]).rstrip()


if __name__ == "__main__":
    raise SystemExit(main())
