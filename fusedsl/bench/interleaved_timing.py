"""Interleaved timing: peers of a case are prepared and checked, then timed in turns, each in every round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .record import CaseKey, Report, Row, failed_row, times_row

ROUNDS = 3  # the card's clock falls while it draws most, for whoever comes next: each round begins with another peer

Timer = Callable[[int], list[float]]
"""Times so many calls of a peer, in µs."""

Entrant = Callable[[], "tuple[Timer, float | None]"]
"""Prepares a peer: its timer, and the error of its results (see `times_row`)."""


@dataclass(frozen=True)
class Subject:
    """What peers compute: the case of its rows, bytes and flops, the least time in µs, and which time is measured."""

    case: CaseKey
    facts: tuple[int, int]
    floor: float | None
    measure: str = "kernel"


def compare(
    report: Report,
    subject: Subject,
    entrants: Mapping[str, Entrant | str],
    repetitions: int,
    once: Collection[str] = (),
) -> dict[str, list[float]]:
    """Times of `repetitions` calls by peer, in rounds; peers in `once` are timed in the first round alone.

    The report gets a row for each peer, in their order. A peer that raises, or whose entrant is a text that says why it
    is left out, has a row with that text instead of times.
    """
    timers: dict[str, Timer] = {}
    errors: dict[str, float | None] = {}
    failed: dict[str, Row] = {}
    for name, entrant in entrants.items():
        if isinstance(entrant, str):
            failed[name] = failed_row(subject.case, name, subject.facts, entrant)
            continue
        try:
            timers[name], errors[name] = entrant()
        except Exception as fault:  # a peer's failure is a result, whatever its type
            failed[name] = failed_row(subject.case, name, subject.facts, fault)
    times: dict[str, list[float]] = {name: [] for name in timers}
    for name, count in turns(list(timers), repetitions, once):
        if name not in times:
            continue
        try:
            times[name] += timers[name](count)
        except Exception as fault:
            failed[name] = failed_row(subject.case, name, subject.facts, fault)
            del times[name]
    for name in entrants:
        report.add(replace(failed.get(name) or _row(subject, name, times[name], errors[name]), measure=subject.measure))
    return times


def _row(subject: Subject, name: str, times: list[float], error: float | None) -> Row:
    return times_row(subject.case, name, times, subject.facts, subject.floor, error)


def turns(names: Sequence[str], repetitions: int, once: Collection[str] = ()) -> Iterator[tuple[str, int]]:
    """(peer, calls to time), one after the other: each peer's calls are spread over the rounds.

    Each round begins with another peer, so that every peer is early in one round and late in another.
    """
    for turn in range(ROUNDS):
        count = -(-repetitions * (turn + 1) // ROUNDS) - -(-repetitions * turn // ROUNDS)
        first = len(names) * turn // ROUNDS
        for name in (*names[first:], *names[:first]):
            if count and (turn == 0 or name not in once):
                yield name, count
