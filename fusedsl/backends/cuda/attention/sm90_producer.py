"""The group of the attend skeleton that copies: it knows what comes next, asks the copy engine for it, leaves notes.

One warp finds where the block's next item is, and which tiles of the stream count for it; another asks for these, one
after another. The groups that compute read what these found from shared memory: no register of theirs holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..emit.source_text import indented
from .sm90_schedule import SWIZZLE_ELEMENTS, WORK_INFOS
from .sm90_tile_scheduler import count_kv_blocks, decode_work_tile, first_kv_word, next_kv_block

if TYPE_CHECKING:
    from .sm90_emit import Sm90Emitter

Q_BOX, K_BOX, V_BOX, BIAS_BOX = range(4)  # windows
WORK_INFO_SLOT = f"(taken & {WORK_INFOS - 1})"  # of the notes on items, that on this one


def emit_producer(w: Sm90Emitter) -> list[str]:
    """The lines of the warps that copy."""
    scout = ["elif thread() < 64:", *indented(_scheduler_warp(w))] if w.schedule.persistent_blocks else []
    return ["if thread() < 32:", *indented(_load_warp(w)), *scout]


def _scheduler_warp(w: Sm90Emitter) -> list[str]:
    """Lines that leave word of one item after another, once the last one is being copied."""
    item = [
        *decode_work_tile(w),
        *count_kv_blocks(w),
        "item = int32(item + blocks())",
        "counted = count << 1 | int32(item >= items)",
        "await_phase(place_empty, (taken & 1) ^ 1)",
        "if lead:",
        *indented(_store_work_info(w)),
        "    arrive(place_full)",
        "taken = int32(taken + 1)",
    ]
    start = ["lead = thread() == 32", "item, taken = block(), int32(0)"]
    return [*start, "while item < kept_word(order_at):", *indented(item)]


def _load_warp(w: Sm90Emitter) -> list[str]:
    """Lines that bring the tiles of the block's items.

    The note of a tile has, from the lowest bit: whether it is the item's last, whether it counts whole, whether the
    item is the block's last, how many items came before (two bits), how many tiles did (three), and the tile's number.
    """
    s = w.schedule
    panels, out_panels = -(-s.head_dim // SWIZZLE_ELEMENTS), -(-s.head_dim_v // SWIZZLE_ELEMENTS)
    rows, keys, values = w.q_bytes(), *w.kv_bytes()
    bits = [
        "tile << 8",
        "(moved & 7) << 5",
        f"(taken & {WORK_INFOS - 1}) << 3",
        "(counted & 1) << 2",
        "int32(k == (counted >> 1) - 1)",
    ]
    bits += ["(whole >> bit & 1) << 1"] if w.has_block_mask else []
    tile = [
        *next_kv_block(w),
        f"column_from = tile * {s.columns}",
        f"await_phase(right_empty + {w.kv_slot()} * 8, {w.kv_parity()} ^ 1)",
        "if lead:",
        f"    keep_word(tiles_at + (moved & 7) * 4, {' | '.join(bits)})",
        *indented(_load_tile(w, K_BOX, "right", w.kv_slot(), keys, panels)),
        "if k == 0:",
        f"    await_phase(left_empty + {w.q_slot()} * 8, {w.q_parity()} ^ 1)",
        "    if lead:",
        *indented(_load_tile(w, Q_BOX, "left", w.q_slot(), rows, panels), 2),
        *(["        arrive(place_empty)"] if s.persistent_blocks else []),
        *_load_bias(w),
        f"await_phase(weighed_empty + {w.kv_slot()} * 8, {w.kv_parity()} ^ 1)",
        "if lead:",
        *indented(_load_tile(w, V_BOX, "weighed", w.kv_slot(), values, out_panels)),
        "moved, k = int32(moved + 1), int32(k + 1)",
    ]
    if s.persistent_blocks:  # LLVM does not know it, and unrolls no such loop: registers are few here
        tile.append(f"counted = kept_word({work_info_at(w, WORK_INFO_SLOT)} + {4 * len(w.outer) + 8})")
    item = [*first_kv_word(w), "k = int32(0)", "while k < counted >> 1:", *indented(tile)]
    start = ["lead = thread() == 0", "moved, taken = int32(0), int32(0)"]
    if not s.persistent_blocks:
        place = [*decode_work_tile(w), *count_kv_blocks(w), "counted = count << 1 | 1"]
        return [*start, "item = block()", *place, "if lead:", *indented(_store_work_info(w)), *item]
    place = ["await_phase(place_full, taken & 1)", *load_work_info(w, WORK_INFO_SLOT)]
    loop = [*place, *item, "more, taken = counted & 1 == 0, int32(taken + 1)"]
    return [*start, "more = True", "while more:", *indented(loop)]


def _load_bias(w: Sm90Emitter) -> list[str]:
    """Lines that bring what is beside a tile's scores."""
    if not w.bias:
        return []
    return [
        f"await_phase(beside_empty + {w.bias_slot()} * 8, {w.bias_parity()} ^ 1)",
        "if lead:",
        *indented(
            _load_tile(w, BIAS_BOX, "beside", w.bias_slot(), w.bias_bytes(), -(-w.schedule.columns // SWIZZLE_ELEMENTS))
        ),
    ]


def _load_tile(w: Sm90Emitter, number: int, name: str, slot: str, size: int, panels: int) -> list[str]:
    """Lines that ask for a tile of an operand, panel by panel."""
    full, to = f"{name}_full + {slot} * 8", f"{name}_at + {slot} * {size} + panel * {size // panels}"
    call = f"copy{number}({to}, map{number}(), {full}, {_box_coordinates(w, number)})"
    return [f"expect_bytes({full}, {size})", f"for panel in range({panels}):", f"    {call}"]


def _box_coordinates(w: Sm90Emitter, number: int) -> str:
    """Where a box of an operand begins."""
    places = {w.query_axis: "row_from"} if number in (Q_BOX, BIAS_BOX) else {w.kv_axis: "column_from"}
    inner = f"column_from + panel * {SWIZZLE_ELEMENTS}" if number == BIAS_BOX else f"panel * {SWIZZLE_ELEMENTS}"
    return ", ".join([inner, *(places.get(a, f"c{a}") for a in w.kernel.tma_boxes[number].axes[1:])])


def work_info_words(w: Sm90Emitter) -> list[str]:
    """What says where an item is, twice how many tiles of the stream count for it, and 1 more if it is the last."""
    return ["row_from", *(f"c{a}" for a in w.outer), "row_end", "counted"]


def work_info_at(w: Sm90Emitter, taken: str) -> str:
    """Where it stands what the place of an item is: its first row comes first."""
    return f"places_at + {taken} * {4 * len(work_info_words(w))}"


def _store_work_info(w: Sm90Emitter) -> list[str]:
    return [
        f"keep_word({work_info_at(w, WORK_INFO_SLOT)} + {4 * k}, {word})" for k, word in enumerate(work_info_words(w))
    ]


def load_work_info(w: Sm90Emitter, taken: str) -> list[str]:
    """Lines that read where an item is, of so many that were taken before it."""
    return [f"{word} = kept_word({work_info_at(w, taken)} + {4 * k})" for k, word in enumerate(work_info_words(w))]
