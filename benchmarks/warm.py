"""Compiles the kernels of a suite, torch.compile's and ours, in several processes: the measuring run loads them."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

from suite_gpu import Settings

JOBS = 16
ALONE = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}  # each process compiles by itself
LIBRARIES = ("torch._inductor.compile_fx", "cupy", "liger_kernel.ops.rms_norm", "fusedsl.program.prepare")


def compile_peers(suite: str, count: int, settings: Settings) -> None:
    """Fill the caches on disk with the `count` cases that the settings choose; import libraries meanwhile."""
    left = settings.compile_until - time.monotonic()
    if settings.quick or left <= 0 or not count:
        return
    os.environ |= ALONE  # before anything of torch's compiler is imported
    jobs = min(JOBS, count, max(1, len(os.sched_getaffinity(0)) - 1))
    part = "/".join(map(str, settings.part))
    words = [sys.executable, __file__, suite, settings.only, settings.dtype or "", part, str(jobs)]
    started = [subprocess.Popen([*words, str(k)], stderr=subprocess.DEVNULL) for k in range(jobs)]
    for name in LIBRARIES:
        with contextlib.suppress(Exception):  # what does not import is a peer's result when it is timed
            importlib.import_module(name)
    limit = time.monotonic() + min(left, 600.0)
    for process in started:
        try:
            process.wait(max(0.1, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> None:
    """Compile every `jobs`-th case, from the k-th. A case that fails here fails again, with its reason, when timed."""
    suite, only, dtype, part, jobs, k = sys.argv[1:]
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    import torch

    import suite_gpu
    import suite_problems

    settings = Settings(only=only, dtype=dtype or None, part=tuple(map(int, part.split("/"))))
    if suite in ("map", "rows"):
        cases, compile_one = suite_gpu.cases(suite, settings), suite_gpu.compile_torch
    else:
        cases, compile_one = suite_problems.chosen(suite, settings), suite_problems.compile_torch
    waiting = [(case, True) for case in cases[int(k) :: int(jobs)]]
    while waiting:
        case, again = waiting.pop(0)
        try:
            compile_one(case)
        except torch.OutOfMemoryError:  # others have it now
            waiting += [(case, False)] if again else []
        except Exception as fault:
            print(f"    {case}: torch.compile: {type(fault).__name__}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
