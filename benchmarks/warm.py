"""Compiles torch.compile's kernels of a suite in several processes, so that the measuring run only loads them."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

from suite_gpu import Settings

JOBS = 8


def compile_peers(suite: str, count: int, settings: Settings) -> None:
    """Fill torch.compile's cache on disk with the `count` cases of a suite that the settings choose."""
    left = settings.compile_until - time.monotonic()
    if settings.quick or left <= 0 or not count:
        return
    jobs = min(JOBS, count)
    part = "/".join(map(str, settings.part))
    words = [sys.executable, __file__, suite, settings.only, settings.dtype or "", part, str(jobs)]
    quiet = os.environ | {"OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen([*words, str(k)], env=quiet, stderr=subprocess.DEVNULL) for k in range(jobs)]
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
    for case in cases[int(k) :: int(jobs)]:
        try:
            compile_one(case)
        except Exception as fault:
            print(f"    {case}: torch.compile: {type(fault).__name__}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
