"""All suites side by side, one process to a GPU: python benchmarks/everything.py FOLDER [--gpus N] [--minutes M].

Each job writes FOLDER/NAME.json and FOLDER/NAME.txt (what it printed). A suite in parts becomes several files. What is
not done when the minutes are over is stopped, and said. `--archive FILE` packs the folder into one .tar.gz.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

HERE = Path(__file__).resolve().parent
PARTS = {"expressions": 2, "products": 2} | dict.fromkeys(("rows", "wide", "reductions", "backward", "map"), 1)
PARTS["language"] = 1
RUN = (sys.executable, str(HERE / "run.py"))


@dataclass(frozen=True)
class Job:
    """One process: a part of a suite, or the tests that need a GPU."""

    name: str
    command: tuple[str, ...]


def jobs(folder: Path, chosen: argparse.Namespace) -> Iterator[Job]:
    """The longest first, so that the GPUs end together."""
    common = ("--repetitions", str(chosen.repetitions), "--minutes", str(chosen.compile_minutes))
    if chosen.tests:
        tests = ("-m", "gpu", str(HERE.parent / "tests"), "-p", "no:cacheprovider")
        yield Job("tests", (sys.executable, "-m", "pytest", *tests, *chosen.tests.split()))
    for suite, parts in PARTS.items():
        for part in range(1, parts + 1):
            if suite not in chosen.suites.split(","):
                continue
            name = suite if parts == 1 else f"{suite}_{part}"
            yield Job(name, (*RUN, suite, "--part", f"{part}/{parts}", "--json", str(folder / f"{name}.json"), *common))


def work(gpu: int, waiting: SimpleQueue[Job], folder: Path, end: float) -> None:
    """Run jobs on one GPU until none waits or the time is over."""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": str(gpu), "PYTHONUNBUFFERED": "1"}
    while True:
        try:
            job = waiting.get_nowait()
        except Empty:
            return
        begun = time.monotonic()
        if begun >= end:
            print(f"{job.name}: not begun", flush=True)
            continue
        with open(folder / f"{job.name}.txt", "w") as log:
            try:
                code = subprocess.run(
                    job.command, stdout=log, stderr=subprocess.STDOUT, env=environment, timeout=end - begun
                ).returncode
                found = f"exit code {code}"
            except subprocess.TimeoutExpired:
                found = "stopped: the time is over"
        print(f"{job.name}: {found} after {time.monotonic() - begun:.0f} s on GPU {gpu}", flush=True)


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--gpus", type=int, default=1, help="GPUs to use, from number 0 on (1)")
    options.add_argument("--minutes", type=float, default=30.0, help="for all of it (30)")
    options.add_argument("--suites", default=",".join(PARTS), help="which, with commas")
    options.add_argument("--tests", nargs="?", const="-q", metavar="OPTIONS", help="the tests that need a GPU, too")
    options.add_argument("--repetitions", type=int, default=15, help="timed calls of each peer (15)")
    options.add_argument("--compile-minutes", type=float, default=3.0, help="of a suite, with torch.compile (3)")
    options.add_argument("--archive", type=Path, metavar="FILE", help="pack the folder into this .tar.gz at the end")
    return options


def main() -> int:
    chosen = parser().parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    waiting: SimpleQueue[Job] = SimpleQueue()
    for job in jobs(chosen.folder, chosen):
        waiting.put(job)
    end = time.monotonic() + 60 * chosen.minutes
    workers = [threading.Thread(target=work, args=(k, waiting, chosen.folder, end)) for k in range(chosen.gpus)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if chosen.archive:
        with tarfile.open(chosen.archive, "w:gz") as packed:
            packed.add(chosen.folder, arcname=chosen.folder.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
