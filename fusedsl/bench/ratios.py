"""The rows of one case side by side: the share of roofline that is reached, and ratios to other peers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import geometric_mean

from .record import Row

OURS, FLOOR = "fusedsl", "copy"
UNSTEADY = 1.5  # 80 % quantile over 20 % quantile, beyond which times vary


def by_case(rows: Iterable[Row]) -> dict[tuple, dict[str, Row]]:
    """Rows of one suite, workload, shape and dtype together, by peer."""
    cases: dict[tuple, dict[str, Row]] = {}
    for row in rows:
        cases.setdefault(row.case, {})[row.peer] = row
    return cases


def share(row: Row) -> float | None:
    """Roofline time over time."""
    return row.floor_us / row.median_us if row.floor_us and row.median_us else None


def ratio(peers: dict[str, Row], peer: str) -> float | None:
    """How many times faster than this peer."""
    ours, other = peers[OURS].median_us, peers[peer].median_us if peer in peers else None
    return other / ours if ours and other else None


def varies(row: Row) -> bool:
    """Whether the slow fifth of the times is far from the fast fifth, as on a busy machine."""
    return bool(row.p20_us and row.p80_us and row.p80_us > UNSTEADY * row.p20_us)


def shortfall(peers: dict[str, Row]) -> float:
    """The lesser of the share of roofline and the ratio to the fastest other peer; 0 where ours has no time."""
    ours = peers.get(OURS)
    if ours is None or not ours.median_us:
        return 0.0
    reached = [ratio(peers, name) for name in peers if name not in (OURS, FLOOR)]
    return min([part for part in (share(ours), *reached) if part], default=0.0)


@dataclass(frozen=True)
class Speedups:
    """Over one peer: the geometric mean and the minimum of so many cases."""

    mean: float
    least: float
    cases: int


def speedups(rows: Iterable[Row]) -> dict[str, Speedups]:
    """How many times faster ours is than each peer, over all cases of one measure."""
    by_peer: dict[str, list[float]] = {}
    for peers in by_case(rows).values():
        for name in peers.keys() - {OURS, FLOOR} if OURS in peers else ():
            if reached := ratio(peers, name):
                by_peer.setdefault(name, []).append(reached)
    return {name: Speedups(geometric_mean(x), min(x), len(x)) for name, x in sorted(by_peer.items())}


def timed_peers(rows: Iterable[Row]) -> list[str]:
    """The peers that have times, in the order of the rows."""
    return list(dict.fromkeys(r.peer for r in rows if r.peer not in (OURS, FLOOR) and r.median_us))
