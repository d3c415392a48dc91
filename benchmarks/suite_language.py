"""The suites `language` and `language_cpu`: every function of the language beside its peers, and its floor.

Another process measures; where a case ends it, or says nothing for `--limit-s`, that is the case's result, and a new
process goes on with the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import language_worker
import warm
from fusedsl.bench.record import Report, Row, failed_row
from fusedsl.bench.workloads import selected
from language_cases import Case, cases
from suite_gpu import OVER, Settings, need_gpu

DEVICES = {suite: device for device, suite in language_worker.SUITES.items()}
WARMING, START = 180.0, 180.0  # seconds that others may compile, and that a process may take to begin
FEWEST = 4  # cores for which other processes compile first


def target(suite: str, settings: Settings) -> str:
    """Whose sizes the arrays have."""
    return "quick" if settings.quick else DEVICES[suite]


def chosen(suite: str, settings: Settings) -> list[tuple[int, Case]]:
    """The cases that the command line lets through, with their places in the map."""
    found = []
    for place, case in enumerate(cases()):
        _, text, shape, dtype = case.key(suite, target(suite, settings))
        if selected(settings.only, f"{case.function}: {text}", shape, dtype):
            found.append((place, case))
    return settings.share(found)


def run(suite: str, report: Report, settings: Settings) -> None:
    """Measure the suite. Raises RuntimeError where there is no torch, or no GPU to measure."""
    if DEVICES[suite] == "cuda":
        need_gpu(suite)
    try:
        import torch  # noqa: F401
    except ImportError as fault:
        raise RuntimeError(f"the suite {suite} compares with torch: {fault}") from fault
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    waiting = dict(chosen(suite, settings))
    if DEVICES[suite] == "cuda" or len(os.sched_getaffinity(0)) >= FEWEST:
        until = min(settings.compile_until, time.monotonic() + WARMING)
        warm.compile_peers(suite, len(waiting), replace(settings, compile_until=until))
    counted = instructions_of(waiting) if settings.instructions and DEVICES[suite] == "cuda" else {}
    while waiting and time.monotonic() < settings.compile_until:
        one_process(suite, report, settings, waiting, counted, environment)
    for case in waiting.values():
        report.add(failed_row(case.key(suite, target(suite, settings)), "fusedsl", (0, 0), OVER))


def instructions_of(waiting: dict[int, Case]) -> dict[int, float]:
    """The warp instructions of our kernels, by the places of their cases."""
    import instructions

    counted, reason = instructions.count([(str(place),) for place in waiting])
    if reason:
        print(f"  no instruction floor: {reason}", flush=True)
    return {int(case[0]): number for case, number in counted.items()}


def compilers(suite: str, settings: Settings) -> dict[str, Callable[[tuple[int, Case]], None]]:
    """What compiles a case, for all peers."""
    return {"all": lambda pair: language_worker.warmed(target(suite, settings), DEVICES[suite], pair[1])}


def one_process(
    suite: str,
    report: Report,
    settings: Settings,
    waiting: dict[int, Case],
    counted: dict[int, float],
    environment: dict,
) -> None:
    """Measure until the process ends, or has to be ended; takes what it is done with from `waiting`. Raises
    RuntimeError where it does not begin."""
    words = [sys.executable, language_worker.__file__, target(suite, settings), DEVICES[suite]]
    words += [str(settings.repetitions), *(f"{place}={counted.get(place, '')}".rstrip("=") for place in waiting)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment, cwd=Path(__file__).parent)
    lines: SimpleQueue[str | None] = SimpleQueue()
    Thread(target=listen, args=(process, lines), daemon=True).start()
    place, limit, fault = -1, START, ""
    while (left := settings.compile_until - time.monotonic()) > 0:
        begun = time.monotonic()
        try:
            line = lines.get(timeout=min(limit, left))
        except Empty:
            fault = f"no result in {limit:.0f} s" if left > limit else ""
            break
        if line is None:
            fault = "the process ended"
            break
        told = json.loads(line)
        place, limit = told.get("begun", place), settings.limit_s
        if "rows" in told:
            report.add(*(Row(**row) for row in told["rows"]))
            _, text, shape, dtype = waiting.pop(place).key(suite, target(suite, settings))
            print(f"  {text} {shape} {dtype}: {time.monotonic() - begun:.1f} s", flush=True)
    process.kill()
    fault = f"{fault}, exit code {process.wait()}" if fault else ""
    if fault and place == -1:
        raise RuntimeError(fault)
    if fault and place in waiting:
        report.add(failed_row(waiting.pop(place).key(suite, target(suite, settings)), "fusedsl", (0, 0), fault))


def listen(process: subprocess.Popen, lines: SimpleQueue[str | None]) -> None:
    """Pass the process's messages on, and None at its end."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(language_worker.MARK):
            lines.put(line.removeprefix(language_worker.MARK))
    lines.put(None)
