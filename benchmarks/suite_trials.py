"""The programs that users timed, beside NumPy on one thread.

    python benchmarks/suite_trials.py --json trials.json
    python benchmarks/suite_trials.py --only heat --threads 1

No program is slower than NumPy but those that are sorts, scatters or powers. Every result is compared with NumPy's.
fusedsl runs on all threads that it takes by default; `--threads 1` asks for one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trials import EXEMPT, TRIALS, Trial

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ROOT = Path(__file__).resolve().parent.parent
ROUNDS, LEAST, BUDGET = 15, 1.0, 4.0  # timed calls of each peer, seconds in which there are more, and the most
TOLERANCE = {"float32": 2e-4, "float64": 1e-9}
SMALL = 0.01
WIDTHS = (36, 10, 10, 8, 8, 9)


def main() -> int:
    """Time every program; 1 if one is wrong, fails, or is slower than it may be."""
    given = arguments()
    if not ONE_THREAD.items() <= os.environ.items():  # which NumPy reads as it is loaded
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    sys.path.append(str(ROOT))
    if given.threads:
        os.environ["FUSEDSL_NUM_THREADS"] = str(given.threads)
    from fusedsl.bench.record import Report

    told: dict[str, Any] = {**Report(None).head, "threads": given.threads, "trials": []}
    print(line("program", "fusedsl", "peer", "times", "first s", "kernels"))
    with tempfile.TemporaryDirectory(prefix="fusedsl-trials-") as cache:
        os.environ["FUSEDSL_CACHE_DIR"] = cache  # nothing that an earlier run planned or compiled
        for trial in TRIALS:
            if not given.only or any(word in trial.name for word in given.only):
                told["trials"].append(measured(trial, SMALL if given.quick else 1.0))
                print(shown(told["trials"][-1]), flush=True)
                if given.json is not None:
                    given.json.write_text(json.dumps(told, indent=1) + "\n")
    slow = [t["program"] for t in told["trials"] if t.get("slower")]
    broken = [t["program"] for t in told["trials"] if "fault" in t]
    print(f"{len(told['trials'])} programs: {len(slow)} slower than NumPy, {len(broken)} wrong or failed")
    return int(bool(broken or (slow and not given.quick)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="a part of the names of programs")
    parser.add_argument("--threads", type=int, help="how many threads fusedsl takes")
    parser.add_argument("--quick", action="store_true", help="small arrays: does everything run?")
    parser.add_argument("--json", type=Path, help="where results go")
    return parser.parse_args()


def measured(trial: Trial, factor: float) -> dict[str, Any]:
    """What one program takes: least times, the first call, the kernels; a `fault` where it fails or is wrong."""
    found: dict[str, Any] = {"program": trial.name, "kind": trial.kind, "peer": trial.peer}
    try:
        ours, peer, kernels = prepared(trial, factor)
        begun = time.perf_counter()
        got = ours()
        found["first_seconds"] = round(time.perf_counter() - begun, 2)
        check(got, peer())
        found["kernels"] = kernels()
    except Exception as fault:  # a failure is a result, whatever its type
        return found | {"fault": f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"}
    mine, theirs = least(ours, peer)
    found |= {"fusedsl_ms": round(1e3 * mine, 3), "peer_ms": round(1e3 * theirs, 3), "times": round(theirs / mine, 2)}
    return found | {"slower": mine > theirs and trial.kind not in EXEMPT}


def prepared(trial: Trial, factor: float) -> tuple[Callable, Callable, Callable]:
    """(a call of fusedsl, a call of the peer, how many kernels the first launches)."""
    import fusedsl as fd

    arrays = trial.arrays(factor)
    values = list(arrays.values())
    if trial.peer == "torch":
        import torch

        torch.set_num_threads(1)
        values = [torch.from_numpy(v) for v in values]
    if trial.text is not None:
        kernel = fd.kernel(trial.text, fallback=False)
        ordered = [arrays[name] for name in kernel.params]
        ours, planned = (lambda: kernel(*ordered)), (lambda: kernel._program.plans)
    else:
        fused = fd.fuse(trial.function, fallback=False)
        ours, planned = (lambda: fused(*values)), (lambda: fused.program(*values)[0].plans)

    def kernels() -> int:
        return max(len(plan.kernels) for known in planned()._known.values() for plan in known)

    return ours, lambda: trial.function(*values), kernels


def check(got: Any, want: Any) -> None:
    """AssertionError where an element is off by more than rounding."""
    one, right = np.asarray(got), np.asarray(want)
    assert one.shape == right.shape, f"shape {one.shape}, not {right.shape}"
    size = float(np.abs(right).max(initial=0)) or 1.0
    error = float(np.abs(one.astype(np.float64) - right.astype(np.float64)).max(initial=0)) / size
    allowed = TOLERANCE.get(right.dtype.name, 0.0)
    assert error <= allowed, f"off by {error:.2g} of its size"


def least(ours: Callable, peer: Callable) -> tuple[float, float]:
    """The least seconds of each, the two taking turns, so that a busy machine is busy for both."""
    best, begun_at, rounds = [float("inf")] * 2, time.monotonic(), 0
    while time.monotonic() - begun_at < (LEAST if rounds >= ROUNDS else BUDGET) or rounds < 2:
        rounds += 1
        for k, call in enumerate((ours, peer)):
            begun = time.perf_counter()
            call()
            best[k] = min(best[k], time.perf_counter() - begun)
    return best[0], best[1]


def shown(found: dict[str, Any]) -> str:
    if "fault" in found:
        return f"{found['program'].ljust(WIDTHS[0])} {found['fault']}"
    times = [f"{found[key]:.2f}" for key in ("fusedsl_ms", "peer_ms", "times", "first_seconds")]
    verdict = "slower" if found["slower"] else f"({found['kind']})" if found["times"] < 1 else ""
    return line(found["program"], *times, found["kernels"], verdict)


def line(*words: object) -> str:
    """Milliseconds of both, how many times faster, seconds of the first call, kernels."""
    head = [str(w).ljust(n) if k == 0 else str(w).rjust(n) for k, (w, n) in enumerate(zip(words, WIDTHS))]
    return " ".join([*head, *map(str, words[len(WIDTHS) :])]).rstrip()


if __name__ == "__main__":
    raise SystemExit(main())
