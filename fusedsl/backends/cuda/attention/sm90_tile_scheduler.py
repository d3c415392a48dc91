"""Persistent tile scheduler of sm_90 attention: order of (batch, head, query tile) work tiles, and their key blocks.

Work tiles are in L2 groups: as many outer coordinates as have k and v that fit in the L2. Within a warpgroup, the
coordinates of one query tile are neighbours. Groups go through the query tiles downwards and upwards in turn, so that
blocks which take every n-th work tile have equal work. An incomplete query tile is the first, not the last: under
causal masks it has the least work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..emit.source_text import indented
from .emit_block_mask import emit_warp_block_mask, emit_work_tile_bounds
from .sm90_schedule import L2_GROUP_BYTES, WORK_INFOS

if TYPE_CHECKING:
    from .sm90_emit import Sm90Emitter


def init_scheduler(w: Sm90Emitter) -> list[str]:
    """Lines of one thread that store the scheduler's state in shared memory: registers are scarce in the loops."""
    s, outer = w.schedule, [f"n{a}" for a in w.outer]
    streamed = [w.kernel.operands[k].strides for k in w.operands.multiplied[1:]]
    apart = [f"n{a}" for a in w.outer if any(letters[a] != "0" for letters in streamed)]
    bytes_each = f"n{w.kv_axis} * {2 * (s.head_dim + s.head_dim_v)}"
    lines = [
        f"row_tiles = (n{w.query_axis} + {s.rows - 1}) // {s.rows}",
        f"others = int64({' * '.join(outer) or '1'})",
        f"near = {L2_GROUP_BYTES} // ({bytes_each}) * (others // ({' * '.join(apart) or '1'}))",
        "l2_group = minimum(others, maximum(near, 1))",
        "l2_groups = (others + l2_group - 1) // l2_group",
        "l2_group = (others + l2_groups - 1) // l2_groups",
    ]
    if not w.has_block_mask:  # one outer coordinate at a time, if all work tiles are equal
        lines += [f"if row_tiles * {s.rows} == n{w.query_axis}:", "    l2_group = int64(1)"]
    words = ["row_tiles * others", "row_tiles", "l2_group"]
    words += [f"(n{w.kv_axis} + {32 * s.columns - 1}) // {32 * s.columns}"] if w.has_block_mask else []
    return [*lines, *(f"st_shared(scheduler_at + {4 * k}, {word})" for k, word in enumerate(words))]


def decode_work_tile(w: Sm90Emitter) -> list[str]:
    """Lines that decode a work tile: its rows from `row_from` to `row_end`, and its outer coordinates."""
    lines = [
        "work_tiles, row_tiles = ld_shared(scheduler_at), ld_shared(scheduler_at + 4)",
        "l2_group = ld_shared(scheduler_at + 8)",
        "turn = udiv(work_tile, l2_group * row_tiles)",
        "passed = int32(turn * l2_group)",
        "onward = int32(udiv(work_tiles, row_tiles) - passed)",
        "near = minimum(l2_group, onward)",
        "inner = int32(work_tile - passed * row_tiles)",
        "rest = udiv(inner, near)",
        "other = int32(passed + inner - rest * near)",
    ]
    if w.has_block_mask:  # the last warpgroup begins with the longest
        lines += ["if udiv(onward - 1, l2_group) & 1 == 0:", "    rest = int32(row_tiles - 1 - rest)"]
    n, rows = f"n{w.query_axis}", w.schedule.rows
    lines.append(f"row_end = int32({n} - (row_tiles - 1 - rest) * {rows})")
    lines.append(f"row_from = maximum(int32(row_end - {rows}), int32(0))")
    return lines + w.outer_coordinates()


def count_kv_blocks(w: Sm90Emitter) -> list[str]:
    """Lines that count the active key blocks of a work tile, and find the first to process.

    If none is active, the first is processed fully masked. The block mask bits stay in shared memory.
    """
    columns, n = w.schedule.columns, f"n{w.kv_axis}"
    if not w.has_block_mask:
        return [f"count = int32(({n} + {columns - 1}) // {columns})", "tile = int32(count - 1)"]
    before: list[str] = []
    if w.schedule.persistent_blocks:
        before = emit_work_tile_bounds(w, w.schedule) if w.stream.block_mask and w.stream.block_mask.bounds else []
        asked = emit_warp_block_mask(w, w.schedule, known=True).format(word="word")
        found = [f"any_active, full = {asked}", "if elected:"]
        found += [f"    st_shared({_mask_word(k)}, {word})" for k, word in enumerate(("any_active", "full"))]
    else:
        found = [f"any_active = ld_shared({_mask_word(0)})"]
    return [
        *before,
        "count, word, tile = int32(0), int32(0), int32(0)",
        f"while word * {32 * columns} < {n}:",
        *indented(found),
        "    if any_active != 0:",
        "        tile = int32(word * 32 + find_leading_one(any_active))",
        "    count, word = int32(count + popc(any_active)), int32(word + 1)",
        "count = maximum(count, 1)",
    ]


def _mask_word(part: int) -> str:
    """The address of the block mask bits of 32 key blocks: any active (0) or all active (1)."""
    return f"block_mask_at + ((work_iter & {WORK_INFOS - 1}) * ld_shared(scheduler_at + 12) + word) * 8 + {4 * part}"


def first_kv_word(w: Sm90Emitter) -> list[str]:
    """Lines that reset the iteration over key blocks."""
    return ["word, left, full = ld_shared(scheduler_at + 12), int32(0), int32(0)"] if w.has_block_mask else []


def next_kv_block(w: Sm90Emitter) -> list[str]:
    """Lines that find the next active key block, from the last one on: the first alone may reach beyond the keys."""
    if not w.has_block_mask:
        return ["tile = int32((counted >> 1) - 1 - k)"]
    return [
        "while (left == 0) & (word > 0):",
        "    word = int32(word - 1)",
        f"    left, full = ld_shared({_mask_word(0)}), ld_shared({_mask_word(1)})",
        "left = left | int32(left == 0)",
        "bit = find_leading_one(left)",
        "tile, left = int32(word * 32 + bit), int32(left ^ (1 << bit))",
    ]
