"""The rows of one case side by side: the share of the floor that is reached, and ratios to other peers."""

from __future__ import annotations

from collections.abc import Iterable

from .record import Row

OURS, FLOOR = "fusedsl", "copy"


def by_case(rows: Iterable[Row]) -> dict[tuple, dict[str, Row]]:
    """Rows of one suite, workload, shape and dtype together, by peer."""
    found: dict[tuple, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row.case, {})[row.peer] = row
    return found


def share(row: Row) -> float | None:
    """Floor over time."""
    return row.floor_us / row.median_us if row.floor_us and row.median_us else None


def ratio(peers: dict[str, Row], peer: str) -> float | None:
    """How many times faster than this peer."""
    ours, other = peers[OURS].median_us, peers[peer].median_us if peer in peers else None
    return other / ours if ours and other else None
