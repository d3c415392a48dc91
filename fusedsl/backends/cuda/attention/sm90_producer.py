"""Producer warpgroup of sm_90 attention: one warp schedules work tiles, one issues TMA loads.

The scheduler warp decodes the block's next work tile and its active key blocks; the load warp loads them in order.
Both publish infos in shared memory, so that no register of a consumer holds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..emit.source_text import indented
from .sm90_schedule import SWIZZLE_ELEMENTS, WORK_INFOS
from .sm90_tile_scheduler import count_kv_blocks, decode_work_tile, first_kv_word, next_kv_block

if TYPE_CHECKING:
    from .sm90_emit import Sm90Emitter

Q_BOX, K_BOX, V_BOX, BIAS_BOX = range(4)  # TMA boxes
WORK_INFO_SLOT = f"(work_iter & {WORK_INFOS - 1})"  # slot of this work tile's info


def emit_producer(w: Sm90Emitter) -> list[str]:
    """The lines of the producer warps."""
    scout = ["elif thread_idx() < 64:", *indented(_scheduler_warp(w))] if w.schedule.persistent_blocks else []
    return ["if thread_idx() < 32:", *indented(_load_warp(w)), *scout]


def _scheduler_warp(w: Sm90Emitter) -> list[str]:
    """Lines of the scheduler warp: publish the info of each work tile while the previous one is loaded."""
    work_tile = [
        *decode_work_tile(w),
        *count_kv_blocks(w),
        "work_tile = int32(work_tile + grid_dim())",
        "counted = count << 1 | int32(work_tile >= work_tiles)",
        "mbarrier_wait_parity(work_empty, (work_iter & 1) ^ 1)",
        "if elected:",
        *indented(_store_work_info(w)),
        "    mbarrier_arrive(work_full)",
        "work_iter = int32(work_iter + 1)",
    ]
    start = ["elected = thread_idx() == 32", "work_tile, work_iter = block_idx(), int32(0)"]
    return [*start, "while work_tile < ld_shared(scheduler_at):", *indented(work_tile)]


def _load_warp(w: Sm90Emitter) -> list[str]:
    """Lines of the load warp: q, and k and v of each active key block.

    Bits of a tile info from the lowest: last key tile of the work tile; full tile; last work tile of the block; work
    tiles so far (two bits); key tiles so far (three); index of the key tile.
    """
    s = w.schedule
    panels, out_panels = -(-s.head_dim // SWIZZLE_ELEMENTS), -(-s.head_dim_v // SWIZZLE_ELEMENTS)
    rows, keys, values = w.q_bytes(), *w.kv_bytes()
    bits = [
        "tile << 8",
        "(kv_iter & 7) << 5",
        f"(work_iter & {WORK_INFOS - 1}) << 3",
        "(counted & 1) << 2",
        "int32(k == (counted >> 1) - 1)",
    ]
    bits += ["(full >> bit & 1) << 1"] if w.has_block_mask else []
    tile = [
        *next_kv_block(w),
        f"column_from = tile * {s.columns}",
        f"mbarrier_wait_parity(k_empty + {w.kv_slot()} * 8, {w.kv_parity()} ^ 1)",
        "if elected:",
        f"    st_shared(tile_infos_at + (kv_iter & 7) * 4, {' | '.join(bits)})",
        *indented(_load_tile(w, K_BOX, "k", w.kv_slot(), keys, panels)),
        "if k == 0:",
        f"    mbarrier_wait_parity(q_empty + {w.q_slot()} * 8, {w.q_parity()} ^ 1)",
        "    if elected:",
        *indented(_load_tile(w, Q_BOX, "q", w.q_slot(), rows, panels), 2),
        *(["        mbarrier_arrive(work_empty)"] if s.persistent_blocks else []),
        *_load_bias(w),
        f"mbarrier_wait_parity(v_empty + {w.kv_slot()} * 8, {w.kv_parity()} ^ 1)",
        "if elected:",
        *indented(_load_tile(w, V_BOX, "v", w.kv_slot(), values, out_panels)),
        "kv_iter, k = int32(kv_iter + 1), int32(k + 1)",
    ]
    if s.persistent_blocks:  # reloaded, so that LLVM does not unroll the loop: registers are few here
        tile.append(f"counted = ld_shared({work_info_at(w, WORK_INFO_SLOT)} + {4 * len(w.outer) + 8})")
    work_tile = [*first_kv_word(w), "k = int32(0)", "while k < counted >> 1:", *indented(tile)]
    start = ["elected = thread_idx() == 0", "kv_iter, work_iter = int32(0), int32(0)"]
    if not s.persistent_blocks:
        place = [*decode_work_tile(w), *count_kv_blocks(w), "counted = count << 1 | 1"]
        return [*start, "work_tile = block_idx()", *place, "if elected:", *indented(_store_work_info(w)), *work_tile]
    place = ["mbarrier_wait_parity(work_full, work_iter & 1)", *load_work_info(w, WORK_INFO_SLOT)]
    loop = [*place, *work_tile, "more, work_iter = counted & 1 == 0, int32(work_iter + 1)"]
    return [*start, "more = True", "while more:", *indented(loop)]


def _load_bias(w: Sm90Emitter) -> list[str]:
    """Lines that load the bias of a tile."""
    if not w.bias:
        return []
    return [
        f"mbarrier_wait_parity(bias_empty + {w.bias_slot()} * 8, {w.bias_parity()} ^ 1)",
        "if elected:",
        *indented(
            _load_tile(w, BIAS_BOX, "bias", w.bias_slot(), w.bias_bytes(), -(-w.schedule.columns // SWIZZLE_ELEMENTS))
        ),
    ]


def _load_tile(w: Sm90Emitter, number: int, name: str, slot: str, size: int, panels: int) -> list[str]:
    """Lines that load a tile of an operand, one 128-byte wide box at a time."""
    full, to = f"{name}_full + {slot} * 8", f"{name}_at + {slot} * {size} + panel * {size // panels}"
    call = f"tma_load{number}({to}, map{number}(), {full}, {_box_coordinates(w, number)})"
    return [f"mbarrier_expect_tx({full}, {size})", f"for panel in range({panels}):", f"    {call}"]


def _box_coordinates(w: Sm90Emitter, number: int) -> str:
    """The coordinates of an operand's box."""
    places = {w.query_axis: "row_from"} if number in (Q_BOX, BIAS_BOX) else {w.kv_axis: "column_from"}
    inner = f"column_from + panel * {SWIZZLE_ELEMENTS}" if number == BIAS_BOX else f"panel * {SWIZZLE_ELEMENTS}"
    return ", ".join([inner, *(places.get(a, f"c{a}") for a in w.kernel.tma_boxes[number].axes[1:])])


def work_info_words(w: Sm90Emitter) -> list[str]:
    """The words of a work info: rows, outer coordinates, and `counted`: twice the key blocks, plus 1 for the last."""
    return ["row_from", *(f"c{a}" for a in w.outer), "row_end", "counted"]


def work_info_at(w: Sm90Emitter, work_iter: str) -> str:
    """The address of a work info; its first row comes first."""
    return f"work_infos_at + {work_iter} * {4 * len(work_info_words(w))}"


def _store_work_info(w: Sm90Emitter) -> list[str]:
    return [
        f"st_shared({work_info_at(w, WORK_INFO_SLOT)} + {4 * k}, {word})" for k, word in enumerate(work_info_words(w))
    ]


def load_work_info(w: Sm90Emitter, work_iter: str) -> list[str]:
    """Lines that load the info of work tile number `work_iter`."""
    return [f"{word} = ld_shared({work_info_at(w, work_iter)} + {4 * k})" for k, word in enumerate(work_info_words(w))]
