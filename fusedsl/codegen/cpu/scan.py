"""The text of scans: a state that runs along the row (or a strip of rows), and loops that start at a row's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...schedule.phase import Phase, ScanUse
from . import fold
from .roles import Array


def uses(phase: Phase) -> tuple[ScanUse, ...]:
    """The scans of a phase."""
    return tuple(use for step in phase.scans for use in step.scans)


def is_reverse(phase: Phase) -> bool:
    """Whether the phase walks from the end of the row: its scans all do, or none does."""
    return any(use.reverse for use in uses(phase))


def counted(phase: Phase, name: str, first: str, last: str, inner: Sequence[str]) -> list[str]:
    """`inner` for `name` from `first` up to below `last`, or from there down to it."""
    if not is_reverse(phase):
        return [f"for {name} in range({first}, {last}):", *fold.indented(inner)]
    back = f"{last} - 1 - {name}_back" + ("" if first == "0" else f" + {first}")
    return [f"for {name}_back in range({first}, {last}):", *fold.indented([f"{name} = {back}", *inner])]


def starts(phase: Phase) -> list[str]:
    """Nothing has been scanned of the row."""
    return [f"{name} = {text}" for use in uses(phase) for name, text in zip(named(use, "before"), use.identity)]


def part_starts(phase: Phase) -> list[str]:
    """Nothing has been scanned of a segment."""
    return [f"{name} = {text}" for use in uses(phase) for name, text in zip(named(use, "part"), use.identity)]


def part_ends(phase: Phase) -> list[str]:
    """A segment joins what lies before the next: sums of many elements are sums of segments' sums."""
    found = []
    for use in uses(phase):
        before = named(use, "before")
        found += fold.merged(use, before, named(use, "part"), before)
    return found


def named(use: ScanUse, part: str) -> list[str]:
    """The variables (or arrays) of a part of a scan's state."""
    return [f"{name}_{part}" for name in fold.states(use)]


def lines(phase: Phase, step: Callable[[ScanUse], list[str]]) -> list[str]:
    """What follows the first element body of an element: `step` writes the lines of one scan."""
    found = []
    for part in phase.scans:
        found += [line for use in part.scans for line in step(use)]
        found += part.element.lines
    return found


def in_row(use: ScanUse) -> list[str]:
    """The state up to an element: what lies before its segment, and its segment so far."""
    part = named(use, "part")
    lines = fold.merged(use, part, [value.name for value in use.lifted], part)
    return lines + fold.merged(use, named(use, "before"), part, fold.states(use))


def in_strip(use: ScanUse) -> list[str]:
    """The same for a row of a strip, whose states are elements of arrays."""
    fresh = named(use, "next")
    lines = fold.merged(use, fold.got(use, "part", "lane"), [value.name for value in use.lifted], fresh)
    lines += fold.kept(use, "part", "lane", fresh)
    return lines + fold.merged(use, fold.got(use, "before", "lane"), fresh, fold.states(use))


def strip_starts(phase: Phase) -> list[str]:
    """Nothing has been scanned, for each row of a strip."""
    parts = ("before", "part")
    return [line for use in uses(phase) for part in parts for line in fold.kept(use, part, "lane", list(use.identity))]


def strip_part_ends(phase: Phase) -> list[str]:
    """A block of columns joins what lies before the next."""
    found = []
    for use in uses(phase):
        fresh = named(use, "next")
        found += fold.merged(use, fold.got(use, "before", "lane"), fold.got(use, "part", "lane"), fresh)
        found += fold.kept(use, "before", "lane", fresh) + fold.kept(use, "part", "lane", list(use.identity))
    return found


def strip_arrays(phase: Phase, count: str) -> list[Array]:
    """The states of a strip."""
    return [array for part in ("before", "part") for array in fold.state_arrays(uses(phase), part, count)]
