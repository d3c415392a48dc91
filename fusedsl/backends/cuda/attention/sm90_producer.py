"""The group of the attend skeleton that copies: it knows what comes next, asks the copy engine for it, leaves notes.

One warp finds where the block's next item is, and which tiles of the stream count for it; another asks for these, one
after another. The groups that compute read what these found from shared memory: no register of theirs holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..emit.source_text import indented
from .sm90_schedule import NOTES, PANEL
from .sm90_tile_scheduler import count_lines, next_tile, place_lines, rewind_lines

if TYPE_CHECKING:
    from .sm90_emit import AttendWriter

LEFT, RIGHT, WEIGHED, BESIDE = range(4)  # windows
TAKEN = f"(taken & {NOTES - 1})"  # of the notes on items, that on this one


def copy_lines(w: AttendWriter) -> list[str]:
    """The lines of the warps that copy."""
    scout = ["elif thread_idx() < 64:", *indented(_scout(w))] if w.schedule.resident else []
    return ["if thread_idx() < 32:", *indented(_copying(w)), *scout]


def _scout(w: AttendWriter) -> list[str]:
    """Lines that leave word of one item after another, once the last one is being copied."""
    item = [
        *place_lines(w),
        *count_lines(w),
        "item = int32(item + grid_dim())",
        "counted = count << 1 | int32(item >= items)",
        "await_phase(place_empty, (taken & 1) ^ 1)",
        "if lead:",
        *indented(_keep_place(w)),
        "    arrive(place_full)",
        "taken = int32(taken + 1)",
    ]
    start = ["lead = thread_idx() == 32", "item, taken = block_idx(), int32(0)"]
    return [*start, "while item < kept_word(order_at):", *indented(item)]


def _copying(w: AttendWriter) -> list[str]:
    """Lines that bring the tiles of the block's items.

    The note of a tile has, from the lowest bit: whether it is the item's last, whether it counts whole, whether the
    item is the block's last, how many items came before (two bits), how many tiles did (three), and the tile's number.
    """
    s = w.schedule
    panels, out_panels = -(-s.width // PANEL), -(-s.out_width // PANEL)
    rows, keys, values = w.row_bytes(), *w.tile_bytes()
    bits = [
        "tile << 8",
        "(moved & 7) << 5",
        f"(taken & {NOTES - 1}) << 3",
        "(counted & 1) << 2",
        "int32(k == (counted >> 1) - 1)",
    ]
    bits += ["(whole >> bit & 1) << 1"] if w.sieved else []
    tile = [
        *next_tile(w),
        f"column_from = tile * {s.columns}",
        f"await_phase(right_empty + {w.slot()} * 8, {w.phase()} ^ 1)",
        "if lead:",
        f"    keep_word(tiles_at + (moved & 7) * 4, {' | '.join(bits)})",
        *indented(_boxes(w, RIGHT, "right", w.slot(), keys, panels)),
        "if k == 0:",
        f"    await_phase(left_empty + {w.left_slot()} * 8, {w.left_phase()} ^ 1)",
        "    if lead:",
        *indented(_boxes(w, LEFT, "left", w.left_slot(), rows, panels), 2),
        *(["        arrive(place_empty)"] if s.resident else []),
        *_beside(w),
        f"await_phase(weighed_empty + {w.slot()} * 8, {w.phase()} ^ 1)",
        "if lead:",
        *indented(_boxes(w, WEIGHED, "weighed", w.slot(), values, out_panels)),
        "moved, k = int32(moved + 1), int32(k + 1)",
    ]
    if s.resident:  # LLVM does not know it, and unrolls no such loop: registers are few here
        tile.append(f"counted = kept_word({place_at(w, TAKEN)} + {4 * len(w.outer) + 8})")
    item = [*rewind_lines(w), "k = int32(0)", "while k < counted >> 1:", *indented(tile)]
    start = ["lead = thread_idx() == 0", "moved, taken = int32(0), int32(0)"]
    if not s.resident:
        place = [*place_lines(w), *count_lines(w), "counted = count << 1 | 1"]
        return [*start, "item = block_idx()", *place, "if lead:", *indented(_keep_place(w)), *item]
    place = ["await_phase(place_full, taken & 1)", *kept_place(w, TAKEN)]
    loop = [*place, *item, "more, taken = counted & 1 == 0, int32(taken + 1)"]
    return [*start, "more = True", "while more:", *indented(loop)]


def _beside(w: AttendWriter) -> list[str]:
    """Lines that bring what is beside a tile's scores."""
    if not w.beside:
        return []
    return [
        f"await_phase(beside_empty + {w.beside_slot()} * 8, {w.beside_phase()} ^ 1)",
        "if lead:",
        *indented(_boxes(w, BESIDE, "beside", w.beside_slot(), w.beside_bytes(), -(-w.schedule.columns // PANEL))),
    ]


def _boxes(w: AttendWriter, number: int, name: str, slot: str, size: int, panels: int) -> list[str]:
    """Lines that ask for a tile of an operand, panel by panel."""
    full, to = f"{name}_full + {slot} * 8", f"{name}_at + {slot} * {size} + panel * {size // panels}"
    call = f"copy{number}({to}, map{number}(), {full}, {_corner(w, number)})"
    return [f"expect_bytes({full}, {size})", f"for panel in range({panels}):", f"    {call}"]


def _corner(w: AttendWriter, number: int) -> str:
    """Where a box of an operand begins."""
    places = {w.lane: "row_from"} if number in (LEFT, BESIDE) else {w.along: "column_from"}
    inner = f"column_from + panel * {PANEL}" if number == BESIDE else f"panel * {PANEL}"
    return ", ".join([inner, *(places.get(a, f"c{a}") for a in w.kernel.windows[number].axes[1:])])


def place_words(w: AttendWriter) -> list[str]:
    """What says where an item is, twice how many tiles of the stream count for it, and 1 more if it is the last."""
    return ["row_from", *(f"c{a}" for a in w.outer), "row_end", "counted"]


def place_at(w: AttendWriter, taken: str) -> str:
    """Where it stands what the place of an item is: its first row comes first."""
    return f"places_at + {taken} * {4 * len(place_words(w))}"


def _keep_place(w: AttendWriter) -> list[str]:
    return [f"keep_word({place_at(w, TAKEN)} + {4 * k}, {word})" for k, word in enumerate(place_words(w))]


def kept_place(w: AttendWriter, taken: str) -> list[str]:
    """Lines that read where an item is, of so many that were taken before it."""
    return [f"{word} = kept_word({place_at(w, taken)} + {4 * k})" for k, word in enumerate(place_words(w))]
