"""The text of scans: a state that runs along the row (or a strip of rows), and loops that start at a row's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...schedule.kernel import Phase, ScanUse
from . import fold


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
    """The states of no elements."""
    return [line for use in uses(phase) for line in fold.identity(use)]


def lines(phase: Phase, step: Callable[[ScanUse], list[str]]) -> list[str]:
    """What follows the first element body of an element: `step` writes the lines of one scan."""
    found = []
    for part in phase.scans:
        found += [line for use in part.scans for line in step(use)]
        found += part.element.lines
    return found


def in_row(use: ScanUse) -> list[str]:
    """state = merge(state, element), where the state is a variable of the loop."""
    return fold.merged(use, fold.states(use), [value.name for value in use.lifted], fold.states(use))


def in_strip(use: ScanUse) -> list[str]:
    """The same for a row of a strip, whose state is an element of an array."""
    old = fold.got(use, "scan", "lane")
    values = fold.merged(use, old, [value.name for value in use.lifted], fold.states(use))
    return [*values, *fold.kept(use, "scan", "lane", fold.states(use))]


def reset_strip(phase: Phase) -> list[str]:
    """The states of no elements, for each row of a strip."""
    return [line for use in uses(phase) for line in fold.kept(use, "scan", "lane", list(use.identity))]
