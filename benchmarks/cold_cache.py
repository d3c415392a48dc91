"""Processes that compile the same kernels into one empty cache at once, some of them killed: python cold_cache.py."""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

USER = """
import numpy as np
import {library}
x = {library}.asarray(np.random.default_rng(7).standard_normal((30, 500)).astype(np.float32))
import fusedsl as fd
host = x.get() if hasattr(x, "get") else np.asarray(x)
for k in range(3):
    y = fd.evaluate(f"softmax(x * {{k + 2}}) + {{k}}", x=x)
    found = y.get() if hasattr(y, "get") else y
    e = np.exp((host - host.max(-1, keepdims=True)) * (k + 2))
    np.testing.assert_allclose(found, e / e.sum(-1, keepdims=True) + k, 1e-4, 1e-5)
print("right")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=1, help="rounds, each on a folder of its own")
    parser.add_argument("--library", choices=("numpy", "cupy"), default="numpy")
    chosen = parser.parse_args()
    begun = time.monotonic()
    with ThreadPoolExecutor(chosen.at_once) as rounds:
        told = list(rounds.map(lambda k: _round(k, chosen.processes, chosen.library), range(chosen.rounds)))
    failures, killed = (sum(counts) for counts in zip(*told))
    spent = time.monotonic() - begun
    print(f"{chosen.rounds} rounds of {chosen.processes}: {failures} failures, {killed} killed, {spent:.0f} s")
    return 1 if failures else 0


def _round(number: int, processes: int, library: str) -> tuple[int, int]:
    """How many processes failed, and how many were killed on purpose: a quarter of them in every other round."""
    draw, failures = random.Random(number), 0
    with tempfile.TemporaryDirectory(prefix="fusedsl-cold-") as folder:
        users = [_user(library, folder) for _ in range(processes)]
        victims = users[: processes // 4] if number % 2 else []
        for victim in victims:
            time.sleep(draw.uniform(0.3, 1.0))
            victim.send_signal(signal.SIGKILL)
        failures += sum(_failed(user, f"round {number}") for user in users if user not in victims)
        for victim in victims:
            victim.communicate()
        failures += _failed(_user(library, folder), f"round {number}, afterwards")
    return failures, len(victims)


def _failed(user: subprocess.Popen, name: str) -> bool:
    """Whether a process did not end well, which is printed."""
    said, faults = user.communicate()
    wrong = user.returncode != 0 or said.strip() != "right"
    if wrong:
        print(f"{name}: {faults.strip()[-300:]}", flush=True)
    return wrong


def _user(library: str, folder: str) -> subprocess.Popen:
    root = str(Path(__file__).resolve().parent.parent)
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"FUSEDSL_CACHE_DIR": str(Path(folder) / "kernels"), "PYTHONPATH": paths}
    command = [sys.executable, "-c", USER.format(library=library)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


if __name__ == "__main__":
    sys.exit(main())
