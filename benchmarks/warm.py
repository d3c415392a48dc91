"""Compiles the kernels of a suite, torch.compile's and ours, in several processes: the measuring run loads them."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from suite_gpu import Settings

JOBS, DONE = 16, "all compiled: "
ALONE = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}  # each process compiles by itself
LIBRARIES = ("torch._inductor.compile_fx", "cupy", "liger_kernel.ops.rms_norm", "fusedsl.program.prepare_call")


def compile_peers(suite: str, count: int, settings: Settings) -> frozenset[str]:
    """Fill the caches on disk with the `count` cases that the settings choose; import libraries meanwhile. Returns the
    peers of which every case was compiled in time."""
    left = settings.compile_until - time.monotonic()
    if settings.quick or left <= 0 or not count:
        return frozenset()
    os.environ |= ALONE  # before anything of torch's compiler is imported
    jobs = min(JOBS, count, max(1, len(os.sched_getaffinity(0)) - 1))
    told = {name: getattr(settings, name) for name in ("only", "dtype", "part", "tuned", "random", "seed", "own")}
    words = [sys.executable, __file__, suite, json.dumps(told), str(jobs)]
    pipes: dict = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    pipes["env"] = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    started = [subprocess.Popen([*words, str(k)], **pipes) for k in range(jobs)]
    for name in LIBRARIES:
        with contextlib.suppress(Exception):  # what does not import is a peer's result when it is timed
            importlib.import_module(name)
    limit = time.monotonic() + min(left, 600.0)
    ready = []
    for process in started:
        try:
            told, _ = process.communicate(timeout=max(0.1, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            told, _ = process.communicate()
        lines = told.splitlines()
        ready.append({line.removeprefix(DONE) for line in lines if line.startswith(DONE)})
        print("".join(f"{line}\n" for line in lines if not line.startswith(DONE)), end="", flush=True)
    return frozenset.intersection(*map(frozenset, ready))


def main() -> None:
    """Compile every `jobs`-th case, from the k-th. A case that fails here fails again, with its reason, when timed."""
    suite, told, jobs, k = sys.argv[1:]
    import suite_gpu
    import suite_problems

    settings = Settings(**json.loads(told))
    if suite == "products":
        import suite_products

        cases, rounds = suite_products.chosen(settings), suite_products.compilers(settings)
    elif suite in ("language", "language_cpu"):
        import suite_language

        cases, rounds = suite_language.chosen(suite, settings), suite_language.compilers(suite, settings)
    elif suite in ("map", "rows"):
        cases, rounds = suite_gpu.cases(suite, settings), {"torch.compile": suite_gpu.compile_torch}
    else:
        cases, rounds = suite_problems.chosen(suite, settings), suite_problems.compilers(suite)
    for peer, compile_one in rounds.items():  # the first peer's cases, then the next one's, as far as time allows
        compile_all(peer, cases[int(k) :: int(jobs)], compile_one)
        print(f"{DONE}{peer}", flush=True)


def compile_all(peer: str, cases: Sequence, compile_one: Callable) -> None:
    """One peer's share of the cases."""
    import torch

    waiting = [(case, True) for case in cases]
    while waiting:
        case, again = waiting.pop(0)
        try:
            compile_one(case)
        except torch.OutOfMemoryError:  # others have it now
            waiting += [(case, False)] if again else []
        except Exception as fault:
            print(f"    {case}: {peer}: {type(fault).__name__}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
