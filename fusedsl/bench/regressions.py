"""A regression check of two result files: what of ours became slower beyond the noise of both runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ..errors import ArgumentError
from .ratios import OURS
from .record import Row

TOLERANCE = 0.05  # slower by less is none, however steady the times
Key = tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """One of our times in both files. `drift`: by what factor the other peers of the case became slower, at least 1."""

    key: Key
    old: Row
    new: Row
    drift: float

    @property
    def ratio(self) -> float:
        """The new median over the old one."""
        assert self.old.median_us and self.new.median_us
        return self.new.median_us / self.old.median_us

    @property
    def slower(self) -> bool:
        """Whether the fast fifth of the new times is slower than the slow fifth of the old ones, drift and all."""
        assert self.old.p80_us and self.new.p20_us
        return self.new.p20_us > self.old.p80_us * self.drift and self.ratio > self.drift * (1 + TOLERANCE)

    @property
    def faster(self) -> bool:
        """The same the other way around."""
        assert self.old.p20_us and self.new.p80_us
        return self.new.p80_us < self.old.p20_us and self.ratio < 1 / (1 + TOLERANCE)


@dataclass(frozen=True)
class Comparison:
    """What a comparison of two files found."""

    changes: tuple[Change, ...]  # of the cases that both have
    broken: tuple[str, ...]  # cases that ran before and fail now
    missing: tuple[str, ...]  # cases that the new file lacks
    other_machine: str | None  # what differs between the machines
    busy: bool  # whether other processes ran during one of the runs

    @property
    def regressions(self) -> list[Change]:
        return sorted((c for c in self.changes if c.slower), key=lambda c: -c.ratio / c.drift)

    @property
    def failed(self) -> bool:
        return bool(self.regressions or self.broken)


def load(path: Path) -> dict[str, Any]:
    """A result file, with its rows as records. Raises ArgumentError for what is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {**data, "rows": [Row(**row) for row in data["rows"]]}
    except (OSError, ValueError, KeyError, TypeError) as fault:
        help = "use a file that `python -m fusedsl bench --json FILE` has written"
        raise ArgumentError(f"{path} is no result file: {fault}", "argument.file", help=help) from None


def check(old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare two files that `load` has read."""
    before, after = _by_key(old["rows"]), _by_key(new["rows"])
    changes, broken, missing = [], [], []
    for key, peers in before.items():
        ours = peers.get(OURS)
        if ours is None or ours.median_us is None:
            continue
        now = after.get(key, {}).get(OURS)
        if now is None:
            missing.append(" ".join(key))
        elif now.median_us is None:
            broken.append(f"{' '.join(key)}: {now.error}")
        else:
            changes.append(Change(key, ours, now, _drift(peers, after[key])))
    return Comparison(
        tuple(changes),
        tuple(broken),
        tuple(missing),
        _difference(old["machine"], new["machine"]),
        busy(old) or busy(new),
    )


def busy(head: dict[str, Any]) -> bool:
    """Whether the load before a run was more than half a process for each thread."""
    return head.get("load", 0.0) > (head["machine"]["threads"] or 1) / 2


def busy_warning(head: dict[str, Any]) -> str | None:
    """What a reader of the times of a busy machine must know; None for those of an idle one."""
    if not busy(head):
        return None
    load, threads = head["load"], head["machine"]["threads"]
    return (
        f"this machine was busy: a load of {load} on {threads} threads. Libraries whose threads wait for each other "
        "slow down many times then: such speed-ups are no property of the kernels. Repeat the run idle."
    )


def _by_key(rows: Sequence[Row]) -> dict[Key, dict[str, Row]]:
    cases: dict[Key, dict[str, Row]] = {}
    for row in rows:
        cases.setdefault((*row.case, row.measure), {})[row.peer] = row
    return cases


def _drift(before: dict[str, Row], after: dict[str, Row]) -> float:
    """The median factor by which the other peers of a case became slower: a busy machine slows them all."""
    pairs = [(before[p].median_us, after[p].median_us) for p in before if p != OURS and p in after]
    factors = [now / then for then, now in pairs if now and then]
    return max(1.0, median(factors)) if factors else 1.0


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    for name in ("gpu", "cpu", "threads"):
        if old.get(name) != new.get(name):
            return f"{name}: {old.get(name, 'none')} before, {new.get(name, 'none')} now"
    return None
