"""The text of scans: a state that runs along the row (or a strip of rows), and loops that start at a row's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...kernel_ir.phase import Phase, ScanUse
from . import reduce
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
        return [f"for {name} in range({first}, {last}):", *reduce.indented(inner)]
    back = f"{last} - 1 - {name}_back" + ("" if first == "0" else f" + {first}")
    return [f"for {name}_back in range({first}, {last}):", *reduce.indented([f"{name} = {back}", *inner])]


def starts(phase: Phase) -> list[str]:
    """Nothing has been scanned of the row."""
    return [line for use in uses(phase) for line in reduce.identity(use, "before")]


def short_starts(phase: Phase) -> list[str]:
    """Nothing has been scanned of a row that is one block."""
    return [line for use in uses(phase) for part in ("base", "block") for line in reduce.identity(use, part)]


def segment_starts(phase: Phase) -> list[str]:
    """Nothing has been scanned of a segment."""
    return [line for use in uses(phase) for line in reduce.identity(use, "segment")]


def block_starts(phase: Phase) -> list[str]:
    """What lies before a block: the segments before its own, and the blocks of its own."""
    found = []
    for use in uses(phase):
        sides = reduce.named(use, "before"), reduce.named(use, "segment")
        found += [*reduce.merged(use, *sides, reduce.named(use, "base")), *reduce.identity(use, "block")]
    return found


def block_ends(phase: Phase) -> list[str]:
    """A block joins those of its segment."""
    return [line for use in uses(phase) for line in reduce.appended(use, "segment", "block")]


def segment_ends(phase: Phase, number: str) -> list[str]:
    """A segment joins the tree of those before, and what that comes to lies before the next."""
    found = uses(phase)
    if not found:
        return []
    return [*reduce.push(found, number, "segment"), *reduce.join_tree(found, f"{number} + 1", "before")]


def arrays(phase: Phase) -> list[Array]:
    """The trees of the scans of a row."""
    return reduce.state_arrays(uses(phase), "tree", str(reduce.LEVELS))


def lines(phase: Phase, step: Callable[[ScanUse], list[str]]) -> list[str]:
    """What follows the first element body of an element: `step` writes the lines of one scan."""
    found = []
    for part in phase.scans:
        found += [line for use in part.scans for line in step(use)]
        found += part.element.instructions
    return found


def in_row(use: ScanUse) -> list[str]:
    """The state up to an element: what lies before its block, and its block so far."""
    block = reduce.named(use, "block")
    lines = reduce.merged(use, block, [value.name for value in use.inputs], block)
    return lines + reduce.merged(use, reduce.named(use, "base"), block, reduce.states(use))


def in_strip(use: ScanUse) -> list[str]:
    """The same for a row of a strip, whose states are elements of arrays."""
    fresh = reduce.named(use, "next")
    lines = reduce.merged(use, reduce.got(use, "part", "lane"), [value.name for value in use.inputs], fresh)
    lines += reduce.kept(use, "part", "lane", fresh)
    return lines + reduce.merged(use, reduce.got(use, "before", "lane"), fresh, reduce.states(use))


def strip_starts(phase: Phase) -> list[str]:
    """Nothing has been scanned, for each row of a strip."""
    parts = ("before", "part")
    return [
        line for use in uses(phase) for part in parts for line in reduce.kept(use, part, "lane", list(use.identity))
    ]


def strip_part_starts(phase: Phase) -> list[str]:
    """Nothing has been scanned of a block, for each row of a strip."""
    return [line for use in uses(phase) for line in reduce.kept(use, "part", "lane", list(use.identity))]


def strip_arrays(phase: Phase, count: str, levels: str) -> list[Array]:
    """The states of a strip."""
    found = [array for part in ("before", "part") for array in reduce.state_arrays(uses(phase), part, count)]
    return found + reduce.state_arrays(uses(phase), "tree", f"{count} * {levels}")
