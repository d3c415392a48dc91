"""The text of scans: a state that runs along the row (or a strip of rows), and loops that start at a row's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...kernel_ir.phase import Phase, ScanUse
from . import reduce
from .roles import ScratchArray, is_extremum


def uses(phase: Phase) -> tuple[ScanUse, ...]:
    """The scans of a phase."""
    return tuple(use for step in phase.scans for use in step.scans)


def is_reverse(phase: Phase) -> bool:
    """Whether the phase walks from the end of the row: its scans all do, or none does."""
    return any(use.reverse for use in uses(phase))


def directed_loop(phase: Phase, name: str, first: str, last: str, inner: Sequence[str]) -> list[str]:
    """`inner` for `name` from `first` up to below `last`, or from there down to it."""
    if not is_reverse(phase):
        return [f"for {name} in range({first}, {last}):", *reduce.indented(inner)]
    back = f"{last} - 1 - {name}_back" + ("" if first == "0" else f" + {first}")
    return [f"for {name}_back in range({first}, {last}):", *reduce.indented([f"{name} = {back}", *inner])]


def init_row(phase: Phase) -> list[str]:
    """Nothing has been scanned of the row."""
    return [line for use in uses(phase) for line in reduce.identity(use, "before")]


def init_short_row(phase: Phase) -> list[str]:
    """Nothing has been scanned of a row that is one block."""
    return [line for use in uses(phase) for part in ("base", "block") for line in reduce.identity(use, part)]


def init_segment(phase: Phase) -> list[str]:
    """Nothing has been scanned of a segment."""
    return [line for use in uses(phase) for line in reduce.identity(use, "segment")]


def init_block(phase: Phase) -> list[str]:
    """What lies before a block: the segments before its own, and the blocks of its own."""
    found = []
    for use in uses(phase):
        sides = reduce.part_names(use, "before"), reduce.part_names(use, "segment")
        found += [*reduce.merge(use, *sides, reduce.part_names(use, "base")), *reduce.identity(use, "block")]
    return found


def finish_block(phase: Phase) -> list[str]:
    """A block joins those of its segment."""
    return [line for use in uses(phase) for line in reduce.merge_parts(use, "segment", "block")]


def finish_segment(phase: Phase, number: str) -> list[str]:
    """A segment joins the tree of those before, and what that comes to lies before the next."""
    found = uses(phase)
    if not found:
        return []
    return [*reduce.push_to_tree(found, number, "segment"), *reduce.reduce_tree(found, f"{number} + 1", "before")]


def in_log_steps(phase: Phase) -> bool:
    """Whether a block is scanned in vector registers: running maxima or minima of values that are loaded.

    These merges are exact, so that the order of a scan does not matter.
    """
    return len(phase.scans) == 1 and not phase.element.lines and all(map(is_extremum, uses(phase)))


def log_steps(phase: Phase) -> list[str]:
    """The inclusive scan of a block by log steps (Hillis and Steele): lanes 1, 2, 4, ... apart are merged.

    Elements are at LANES of one buffer, behind as many identities, and each step moves them to the other one.
    """
    steps = [1 << k for k in range(reduce.LANES.bit_length() - 1)]
    assert len(steps) % 2 == 0  # the result is in the first buffer again
    lines: list[str] = []
    for use in uses(phase):
        source, target = "scan", "scanned"
        for apart in steps:
            at = (f"lane + {reduce.LANES - apart}", f"lane + {reduce.LANES}")
            fresh = reduce.part_names(use, "next")
            first, second = (reduce.get_state(use, source, x) for x in at)
            merge = reduce.merge(use, first, second, fresh)
            lines += _all_lanes([*merge, *reduce.put_state(use, target, at[1], fresh)])
            source, target = target, source
        last = reduce.get_state(use, "scan", str(2 * reduce.LANES - 1))
        lines += [f"{name} = {text}" for name, text in zip(reduce.part_names(use, "block"), last)]
    return lines


def init_log_steps(phase: Phase) -> list[str]:
    """Both buffers begin with identities."""
    pairs = [(use, kind) for use in uses(phase) for kind in ("scan", "scanned")]
    return _all_lanes([x for use, kind in pairs for x in reduce.put_state(use, kind, "lane", list(use.identity))])


def reset_log_steps(phase: Phase) -> list[str]:
    """Lanes behind the last element of a block are identities."""
    at = f"lane + {reduce.LANES}"
    return _all_lanes([x for use in uses(phase) for x in reduce.put_state(use, "scan", at, list(use.identity))])


def to_log_steps(use: ScanUse) -> list[str]:
    """Store the element of a lane to the buffer."""
    return reduce.put_state(use, "scan", f"lane + {reduce.LANES}", [value.name for value in use.lifted])


def from_log_steps(use: ScanUse) -> list[str]:
    """The state up to an element of a block that has been scanned."""
    block = reduce.get_state(use, "scan", f"lane + {reduce.LANES}")
    return reduce.merge(use, reduce.part_names(use, "base"), block, reduce.state_names(use))


def _all_lanes(inner: Sequence[str]) -> list[str]:
    return [f"for lane in range({reduce.LANES}):", *reduce.indented(inner)]


def arrays(phase: Phase) -> list[ScratchArray]:
    """The trees of the scans of a row, and the buffers of log steps."""
    found = reduce.state_arrays(uses(phase), "tree", str(reduce.LEVELS))
    for kind in ("scan", "scanned") if phase.scans and in_log_steps(phase) else ():
        found += reduce.state_arrays(uses(phase), kind, str(2 * reduce.LANES))
    return found


def element_lines(phase: Phase, step: Callable[[ScanUse], list[str]]) -> list[str]:
    """What follows the first element body of an element: `step` writes the lines of one scan."""
    found = []
    for part in phase.scans:
        found += [line for use in part.scans for line in step(use)]
        found += part.element.lines
    return found


def in_row(use: ScanUse) -> list[str]:
    """The state up to an element: what lies before its block, and its block so far."""
    block = reduce.part_names(use, "block")
    lines = reduce.merge(use, block, [value.name for value in use.lifted], block)
    return lines + reduce.merge(use, reduce.part_names(use, "base"), block, reduce.state_names(use))


def in_strip(use: ScanUse) -> list[str]:
    """The same for a row of a strip, whose states are elements of arrays."""
    fresh = reduce.part_names(use, "next")
    lines = reduce.merge(use, reduce.get_state(use, "part", "lane"), [value.name for value in use.lifted], fresh)
    lines += reduce.put_state(use, "part", "lane", fresh)
    return lines + reduce.merge(use, reduce.get_state(use, "before", "lane"), fresh, reduce.state_names(use))


def init_strip(phase: Phase) -> list[str]:
    """Nothing has been scanned, for each row of a strip."""
    parts = ("before", "part")
    return [
        line
        for use in uses(phase)
        for part in parts
        for line in reduce.put_state(use, part, "lane", list(use.identity))
    ]


def init_strip_block(phase: Phase) -> list[str]:
    """Nothing has been scanned of a block, for each row of a strip."""
    return [line for use in uses(phase) for line in reduce.put_state(use, "part", "lane", list(use.identity))]


def strip_arrays(phase: Phase, count: str, levels: str) -> list[ScratchArray]:
    """The states of a strip."""
    found = [array for part in ("before", "part") for array in reduce.state_arrays(uses(phase), part, count)]
    return found + reduce.state_arrays(uses(phase), "tree", f"{count} * {levels}")
