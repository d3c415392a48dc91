"""What `bench` prints: a progress bar where a terminal watches, tables of times, and the verdict of a comparison."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from ..report.table import text_table
from ..report.units import plural, seconds_text
from .ratios import FLOOR, OURS, UNSTEADY, by_case, ratio, share, speedups, timed_peers, varies
from .record import Row
from .regressions import Comparison, busy_warning


@contextmanager
def progress(total: int) -> Iterator[tuple[Callable[[str], Any], Callable[[str], None]]]:
    """(tell the name of a case while it runs, print a line): a bar by rich if it is installed, else a line a case."""
    if sys.stderr.isatty() and find_spec("rich") is not None:
        with _bar(total) as bar:
            yield bar
        return
    done = 0

    @contextmanager
    def step(label: str) -> Iterator[None]:
        nonlocal done
        done += 1
        begun = time.monotonic()
        yield
        print(f"[{done}/{total}] {label}: {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)

    yield step, lambda line: print(line.strip(), file=sys.stderr, flush=True)


@contextmanager
def _bar(total: int) -> Iterator[tuple[Callable[[str], Any], Callable[[str], None]]]:
    from rich import progress as bars
    from rich.console import Console

    columns = (bars.TextColumn("{task.description:<32}"), bars.BarColumn(), bars.MofNCompleteColumn())
    times = (bars.TimeElapsedColumn(), bars.TextColumn("left"), bars.TimeRemainingColumn())
    console = Console(stderr=True)
    with bars.Progress(*columns, *times, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)

        @contextmanager
        def step(label: str) -> Iterator[None]:
            bar.update(task, description=label)
            yield
            bar.advance(task)

        yield step, lambda line: console.print(line.strip(), markup=False, highlight=False, soft_wrap=True)


def tables(head: dict[str, Any], rows: list[Row]) -> str:
    """A table for each suite and measure: our time, the share of roofline, and the speed-up over each peer."""
    parts = []
    for suite in dict.fromkeys(row.suite for row in rows):
        for measure in ("kernel", "call"):
            chosen = [r for r in rows if r.suite == suite and (r.measure == measure or r.peer == FLOOR)]
            parts.append(f"{suite.capitalize()}. {title(measure, head['target'])}\n{_table(chosen, measure)}")
    return "\n\n".join(parts)


def summary(head: dict[str, Any], rows: list[Row]) -> str:
    """The machine, its roofline, and for each peer the geometric mean and the minimum of the speed-ups over it."""
    machine, floors = head["machine"], head["floors"]
    lines = [f"on {machine.get('gpu') or machine['cpu']}, {machine['threads']} threads; unfused: {head['unfused']}"]
    rates = [("copies", "copy_gb_s", "GB/s"), ("matrix products", "matmul_gflop_s", "GFLOP/s")]
    shown = [f"{what} {floors[name]:g} {unit}" for what, name, unit in rates if name in floors]
    lines.append(f"roofline of this run: {', '.join(shown)}")
    if head["absent"]:
        lines.append(f"not installed: {', '.join(head['absent'])}")
    for measure in ("kernel", "call"):
        means = speedups([r for r in rows if r.measure == measure])
        ratios = [f"{name} {s.mean:.2f}x (min {s.least:.2f}, {plural(s.cases, 'case')})" for name, s in means.items()]
        if ratios:
            lines.append(f"{measure} time, geometric mean of the speed-ups: {', '.join(ratios)}")
    if any(map(varies, rows)):
        lines.append(f"~: a time whose 80 % quantile is more than {UNSTEADY} times its 20 % quantile is in this ratio")
    if any(r.peer == "numpy" for r in rows):
        lines.append("NumPy computes on one thread, but for matrix products, which use the threads of its BLAS")
    return "\n".join([*lines, *filter(None, [busy_warning(head)])])


def title(measure: str, target: str) -> str:
    """What a measure times."""
    if measure == "call":
        return "Call time: from a warm call to its result, by the host's clock"
    if target == "cuda":
        return "Kernel time: of the GPU, with a cold L2"
    return "Kernel time: with cold caches, ours of a bound call"


def _table(rows: list[Row], measure: str) -> str:
    cases = by_case(rows)
    names = timed_peers(rows)
    head = [
        "workload",
        "shape",
        "time",
        *(["share of roofline"] if measure == "kernel" else []),
        *(f"vs {n}" for n in names),
    ]
    body = []
    for (_, workload, shape, _), peers in cases.items():
        ours = peers.get(OURS)
        if ours is None:
            continue
        cells = [workload, shape, seconds_text(1e-6 * ours.median_us) if ours.median_us else "failed"]
        if measure == "kernel":
            cells.append(f"{part:.2f}" if (part := share(ours)) else "")
        body.append([*cells, *(_speedup(peers, name) for name in names)])
    return text_table(head, body)


def _speedup(peers: dict[str, Row], name: str) -> str:
    """The ratio to a peer, marked where times of one of the two vary."""
    r = ratio(peers, name)
    unsteady = r is not None and any(varies(peers[peer]) for peer in (OURS, name))
    return "–" if r is None else f"{r:.2f}x{' ~' * unsteady}"


def comparison_text(comparison: Comparison) -> str:
    """The comparison in words, the worst first."""
    lines = []
    for change in comparison.regressions:
        lines.append(f"slower  {' '.join(change.key)}: {_times(change.old)} before, {_times(change.new)} now: ")
        lines[-1] += f"{change.ratio:.2f} times the time"
        if change.drift > 1.005:
            lines[-1] += f", of the other peers {change.drift:.2f}"
    lines += [f"fails   {what}" for what in comparison.broken]
    lines += [f"faster  {' '.join(c.key)}: {1 / c.ratio:.2f} times as fast" for c in comparison.changes if c.faster]
    lines += [f"missing {what}" for what in comparison.missing]
    if comparison.other_machine:
        lines.append(f"the files are of different machines, so that no time says anything: {comparison.other_machine}")
    if comparison.busy:
        lines.append("the machine was busy in one of the runs: repeat them before believing a regression")
    count = f"{len(comparison.regressions) + len(comparison.broken)} regressions in {len(comparison.changes)} cases"
    return "\n".join([*lines, count + ". slower: p20 is above the old p80, and the median by more than 5 %"])


def _times(row: Row) -> str:
    low, middle, high = (seconds_text(1e-6 * t) for t in (row.p20_us or 0, row.median_us or 0, row.p80_us or 0))
    return f"{middle} ({low} to {high})"
