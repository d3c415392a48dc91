"""Measures cases of the map of the language in this process, and prints a line of JSON for each step of each case."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from fusedsl.bench.interleaved_timing import Subject, Timer, compare
from fusedsl.bench.record import Report, failed_row, quantile, times_row
from language_cases import Case, cases

BUDGET = 0.3  # seconds of timed calls of one peer, beyond the first of each round
SUITES = {"cuda": "language", "cpu": "language_cpu"}
FLOOR_SHARE = 0.2  # of the times of a copy lie below the floor: others may use the machine
MARK = "@ "  # begins a line that is ours
BROKEN = 3  # the exit code after an error of the device, which no later call survives


def main() -> None:
    """The cases whose places in the map are told, of which some have a number of warp instructions:
    python language_worker.py TARGET DEVICE REPETITIONS PLACE[=INSTRUCTIONS]…"""
    target, device, repetitions, *told = sys.argv[1:]
    made, card = cases(), clock(device)
    gc.freeze()  # what is imported is no garbage
    tell(ready=True)
    for place, _, instructions in (word.partition("=") for word in told):
        tell(begun=int(place))
        issue = card.issue_time(float(instructions)) if instructions else 0.0
        found = measured(card, made[int(place)], target, device, int(repetitions), issue)
        tell(rows=[asdict(row) for row in found.rows])
        survive(device)


def tell(**message: Any) -> None:
    """A line for the process that waits."""
    print(MARK + json.dumps(message), flush=True)


def clock(device: str) -> Any:
    """What times calls on this device."""
    if device == "cuda":
        from gpu import Card

        return Card()
    from processor import Processor

    return Processor()


def survive(device: str) -> None:
    """End the process if an error of the device would be that of every later call."""
    import torch

    from language_peers import free

    if device == "cuda":
        try:
            torch.cuda.synchronize()
        except Exception:  # another process goes on with the next case
            os._exit(BROKEN)
    free(device)


def measured(card: Any, case: Case, target: str, device: str, repetitions: int, issue: float) -> Report:
    """All peers of one case beside its floor, which is at least the time to issue its instructions; results are
    compared with those of the first other library."""
    from language_peers import Arrays, ours, peers, tensors

    report, key = Report(None, say=lambda line: None), case.key(SUITES[device], target)
    try:
        arrays = Arrays(case, target, device)
        written = sum(x.nbytes for x in tensors(ours(case, arrays)()))
        floors = card.transfer(arrays.read, written, repetitions)
    except Exception as fault:  # a text that does not run is a result
        report.add(failed_row(key, "fusedsl", (0, 0), fault))
        return report
    facts, floor = (arrays.read + written, 0), round(max(quantile(floors, FLOOR_SHARE), issue), 3)
    report.add(times_row(key, "copy", floors, facts, floor, 0.0))
    others = peers(case, device)
    right = reference(case, arrays, others)
    entrants = {name: partial(entrant, card, make, case, arrays, right) for name, make in others.items()}
    compare(report, Subject(key, facts, floor), entrants, repetitions)
    return report


def reference(case: Case, arrays: Any, others: dict[str, Callable]) -> tuple | None:
    """The results of the first other library that has them; None where they need not be ours."""
    from language_peers import tensors

    for name in ("torch", "numpy", "cupy") if case.same else ():
        with contextlib.suppress(Exception):  # it says so when it is timed
            return tensors(others[name](case, arrays)())
    return None


def entrant(
    card: Any, make: Callable, case: Case, arrays: Any, reference: Sequence | None
) -> tuple[Timer, float | None]:
    """One peer's timer, whose calls are fewer where they take long, once its results are compared."""
    from language_peers import tensors

    call = make(case, arrays)
    results = tensors(call())
    error = None if reference is None else difference(results, reference)
    del results
    if arrays.device == "cuda":
        import torch

        torch.cuda.synchronize()
    begun = time.perf_counter()
    call()
    if arrays.device == "cuda":
        torch.cuda.synchronize()
    most = max(1, int(BUDGET / 3 / max(1e-6, time.perf_counter() - begun)))
    return lambda count: card.times(call, min(count, most)), error


def difference(results: Sequence, reference: Sequence) -> float:
    """The largest difference over the largest number, of the worst result; of integers and bools the share that
    differs. NaN and infinities are equal to themselves."""
    import torch

    found = 0.0
    for result, expected in zip(results, reference, strict=True):
        if result.shape != expected.shape:
            raise ValueError(f"the shape is {tuple(result.shape)} instead of {tuple(expected.shape)}")
        x, y = result.double(), expected.double()
        same = (x == y) | (x.isnan() & y.isnan())
        if result.is_floating_point():
            scale = y.abs().nan_to_num(0, 0).max().clamp(min=1e-30) if y.numel() else 1.0
            error = torch.where(same, 0.0, (x - y).abs() / scale)
            found = max(found, float(error.max()) if error.numel() else 0.0)
        else:
            found = max(found, float((~same).double().mean()))
    return found


def warmed(target: str, device: str, case: Case) -> None:
    """Compile what the peers of a case need on this device; those that fail say so when they are timed."""
    from language_peers import Arrays, free, peers

    arrays = Arrays(case, target, device)
    for make in peers(case, device).values():
        with contextlib.suppress(Exception):
            make(case, arrays)()
    free(device, everything=True)


if __name__ == "__main__":
    main()
