"""Scans as text: prefix states along a row (or a strip of rows), blocked, and reverse scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...kernel_ir.phase import Phase, ScanUse
from . import reduce
from .roles import ScratchArray, is_extremum


def is_reverse(phase: Phase) -> bool:
    """True if the phase runs from the end of the row: either all its scans are reverse or none is."""
    return any(use.reverse for use in phase.scan_uses)


def directed_loop(phase: Phase, name: str, first: str, last: str, inner: Sequence[str]) -> list[str]:
    """A loop over `name` in [first, last), or downwards for reverse scans."""
    if not is_reverse(phase):
        return [f"for {name} in range({first}, {last}):", *reduce.indented(inner)]
    back = f"{last} - 1 - {name}_back" + ("" if first == "0" else f" + {first}")
    return [f"for {name}_back in range({first}, {last}):", *reduce.indented([f"{name} = {back}", *inner])]


def init_row(phase: Phase, origin: str = "") -> list[str]:
    """Reset the prefix of the row: to nothing, or to the part `origin` of the state."""
    if not origin:
        return [line for use in phase.scan_uses for line in reduce.identity(use, "before")]
    lines = []
    for use in phase.scan_uses:
        names = zip(reduce.part_names(use, "before"), reduce.part_names(use, origin))
        lines += [f"{before} = {start}" for before, start in names]
    return lines


def init_short_row(phase: Phase) -> list[str]:
    """Reset the prefix of a row that is one block."""
    return [line for use in phase.scan_uses for part in ("base", "block") for line in reduce.identity(use, part)]


def init_segment(phase: Phase) -> list[str]:
    """Reset the prefix of a segment."""
    return [line for use in phase.scan_uses for line in reduce.identity(use, "segment")]


def init_block(phase: Phase) -> list[str]:
    """The exclusive prefix of a block: earlier segments merged with earlier blocks of its segment."""
    lines = []
    for use in phase.scan_uses:
        sides = reduce.part_names(use, "before"), reduce.part_names(use, "segment")
        lines += [*reduce.merge(use, *sides, reduce.part_names(use, "base")), *reduce.identity(use, "block")]
    return lines


def finish_block(phase: Phase) -> list[str]:
    """Merge the aggregate of a block into its segment's."""
    return [line for use in phase.scan_uses for line in reduce.merge_parts(use, "segment", "block")]


def finish_segment(phase: Phase, number: str, origin: str = "") -> list[str]:
    """Push the aggregate of a segment to the tree; the tree's total, behind `origin`, is the prefix of the next one."""
    scans = phase.scan_uses
    if not scans:
        return []
    lines = [*reduce.push_to_tree(scans, number, "segment"), *reduce.reduce_tree(scans, f"{number} + 1", "before")]
    for use in scans if origin else ():
        before = reduce.part_names(use, "before")
        lines += reduce.merge(use, reduce.part_names(use, origin), before, before)
    return lines


def in_log_steps(phase: Phase) -> bool:
    """True if blocks are scanned by log steps: running maxima or minima of loaded values.

    These merges are exact, so that the order does not matter.
    measured: float64 rows of 1000, with a division and a maximum: 0.3 of the time of a serial scan (Zen 5, 2026-11).
    """
    return len(phase.scans) == 1 and not phase.element.instructions and all(map(is_extremum, phase.scan_uses))


def log_steps(phase: Phase) -> list[str]:
    """Inclusive Hillis-Steele scan of a block: step k merges lanes that are 2^k apart.

    A buffer is LANES identities, then LANES elements; each step reads one buffer and writes the other.
    """
    steps = [1 << k for k in range(reduce.LANES.bit_length() - 1)]
    assert len(steps) % 2 == 0  # the result is in the first buffer again
    lines: list[str] = []
    for use in phase.scan_uses:
        source, target = "scan", "scanned"
        for distance in steps:
            at = (f"lane + {reduce.LANES - distance}", f"lane + {reduce.LANES}")
            fresh = reduce.part_names(use, "next")
            first, second = (reduce.get_state(use, source, x) for x in at)
            merge = reduce.merge(use, first, second, fresh)
            lines += _all_lanes([*merge, *reduce.put_state(use, target, at[1], fresh)])
            source, target = target, source
        last = reduce.get_state(use, "scan", str(2 * reduce.LANES - 1))
        lines += [f"{name} = {text}" for name, text in zip(reduce.part_names(use, "block"), last)]
    return lines


def init_log_steps(phase: Phase) -> list[str]:
    """Fill the padding of both buffers with identities."""
    pairs = [(use, kind) for use in phase.scan_uses for kind in ("scan", "scanned")]
    return _all_lanes([x for use, kind in pairs for x in reduce.put_state(use, kind, "lane", list(use.identity))])


def reset_log_steps(phase: Phase) -> list[str]:
    """Reset the elements of a block, for blocks with fewer than LANES elements."""
    at = f"lane + {reduce.LANES}"
    return _all_lanes([x for use in phase.scan_uses for x in reduce.put_state(use, "scan", at, list(use.identity))])


def to_log_steps(use: ScanUse) -> list[str]:
    """Store the lifted element of a lane to the buffer."""
    return reduce.put_state(use, "scan", f"lane + {reduce.LANES}", [value.name for value in use.inputs])


def from_log_steps(use: ScanUse) -> list[str]:
    """The prefix of an element, after the scan of its block."""
    block = reduce.get_state(use, "scan", f"lane + {reduce.LANES - use.exclusive}")
    return reduce.merge(use, reduce.part_names(use, "base"), block, reduce.state_names(use))


def _all_lanes(inner: Sequence[str]) -> list[str]:
    return [f"for lane in range({reduce.LANES}):", *reduce.indented(inner)]


def arrays(phase: Phase) -> list[ScratchArray]:
    """The trees of a row's scans, and the buffers of log-step scans."""
    scratch = reduce.state_arrays(phase.scan_uses, "tree", str(reduce.LEVELS))
    for kind in ("scan", "scanned") if phase.scans and in_log_steps(phase) else ():
        scratch += reduce.state_arrays(phase.scan_uses, kind, str(2 * reduce.LANES))
    return scratch


def element_lines(phase: Phase, step: Callable[[ScanUse], list[str]]) -> list[str]:
    """The scans of an element and the bodies after them; `step` emits the lines of one scan."""
    lines = []
    for part in phase.scans:
        lines += [line for use in part.scans for line in step(use)]
        lines += part.element.lines
    return lines


def in_row(use: ScanUse) -> list[str]:
    """The prefix of an element: the prefix of its block merged with the block so far."""
    block = reduce.part_names(use, "block")
    lines = reduce.merge(use, block, [value.name for value in use.inputs], block)
    prefix = reduce.merge(use, reduce.part_names(use, "base"), block, reduce.state_names(use))
    return prefix + lines if use.exclusive else lines + prefix


def in_strip(use: ScanUse) -> list[str]:
    """The prefix for a row of a strip, whose states are in scratch arrays."""
    fresh, part = reduce.part_names(use, "next"), reduce.get_state(use, "part", "lane")
    lines = reduce.merge(use, part, [value.name for value in use.inputs], fresh)
    put, before = reduce.put_state(use, "part", "lane", fresh), reduce.get_state(use, "before", "lane")
    if use.exclusive:
        return [*reduce.merge(use, before, part, reduce.state_names(use)), *lines, *put]
    return [*lines, *put, *reduce.merge(use, before, fresh, reduce.state_names(use))]


def init_strip(phase: Phase) -> list[str]:
    """Reset the prefixes of the rows of a strip."""
    parts = ("before", "part")
    return [
        line
        for use in phase.scan_uses
        for part in parts
        for line in reduce.put_state(use, part, "lane", list(use.identity))
    ]


def init_strip_block(phase: Phase) -> list[str]:
    """Reset the block prefixes of the rows of a strip."""
    return [line for use in phase.scan_uses for line in reduce.put_state(use, "part", "lane", list(use.identity))]


def strip_arrays(phase: Phase, count: str, levels: str) -> list[ScratchArray]:
    """The scratch arrays of a strip's scans."""
    scratch = [array for part in ("before", "part") for array in reduce.state_arrays(phase.scan_uses, part, count)]
    return scratch + reduce.state_arrays(phase.scan_uses, "tree", f"{count} * {levels}")
