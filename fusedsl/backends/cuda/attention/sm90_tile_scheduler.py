"""Persistent tile scheduler of sm_90 attention: order of (batch, head, query tile) work tiles, and their key blocks.

Work tiles are in L2 groups: as many outer coordinates as have k and v that fit in the L2. Within a group, the
coordinates of one query tile are neighbours. Groups go through the query tiles downwards and upwards in turn, so that
blocks which take every n-th work tile have equal work. An incomplete query tile is the first, not the last: under
causal masks it has the least work.
"""

from __future__ import annotations

from ..emit.source_builder import indented
from .emit_block_mask import BlockMaskBits
from .emit_facts import AttentionFacts
from .sm90_schedule import L2_GROUP_BYTES, WORK_INFOS, Sm90AttentionSchedule

WORK_INFO_SLOT = f"(work_iter & {WORK_INFOS - 1})"  # slot of this work tile's info


class Sm90TileScheduler:
    """The order of work tiles and of their key blocks; its state and the infos of work tiles are in shared memory."""

    def __init__(self, facts: AttentionFacts, schedule: Sm90AttentionSchedule, block_mask: BlockMaskBits | None):
        self.facts, self.schedule, self.block_mask = facts, schedule, block_mask
        # the words of a work info: rows, outer coordinates, twice the key blocks plus 1 for the last work tile
        self.info_words = ["row_from", *(f"c{a}" for a in facts.outer), "row_end", "packed_count"]

    def init(self) -> list[str]:
        """Lines of one thread that store the scheduler's state: registers are scarce in the loops."""
        s, facts, columns = self.schedule, self.facts, 32 * self.schedule.columns
        kv_strides = [facts.kernel.operands[k].strides for k in (facts.operands.k, facts.operands.v)]
        outer = " * ".join(f"n{a}" for a in facts.outer) or "1"
        kv_outer = " * ".join(f"n{a}" for a in facts.outer if any(strides[a] != "0" for strides in kv_strides)) or "1"
        bytes_each = f"n{facts.kv_axis} * {2 * (s.head_dim + s.head_dim_v)}"
        words = ["row_tiles * outer_size", "row_tiles", "l2_group"]
        words += [f"(n{facts.kv_axis} + {columns - 1}) // {columns}"] if self.block_mask else []
        # one outer coordinate at a time, if all work tiles are equal
        single = [f"if row_tiles * {s.rows} == n{facts.query_axis}:", "    l2_group = int64(1)"]
        return [
            f"row_tiles = (n{facts.query_axis} + {s.rows - 1}) // {s.rows}",
            f"outer_size = int64({outer})",
            f"group_size = {L2_GROUP_BYTES} // ({bytes_each}) * (outer_size // ({kv_outer}))",
            "l2_group = minimum(outer_size, maximum(group_size, 1))",
            "l2_groups = (outer_size + l2_group - 1) // l2_group",
            "l2_group = (outer_size + l2_groups - 1) // l2_groups",
            *([] if self.block_mask else single),
            *(f"st_shared(scheduler_at + {4 * k}, {word})" for k, word in enumerate(words)),
        ]

    # -- work tiles

    def decode_work_tile(self) -> list[str]:
        """Lines that decode a work tile: its rows from `row_from` to `row_end`, and its outer coordinates."""
        rows = self.schedule.rows
        # the last group begins with the longest
        downwards = [
            "if udiv(outer_left - 1, l2_group) & 1 == 0:",
            "    query_tile = int32(row_tiles - 1 - query_tile)",
        ]
        return [
            "work_tiles, row_tiles = ld_shared(scheduler_at), ld_shared(scheduler_at + 4)",
            "l2_group = ld_shared(scheduler_at + 8)",
            "group = udiv(work_tile, l2_group * row_tiles)",
            "group_from = int32(group * l2_group)",
            "outer_left = int32(udiv(work_tiles, row_tiles) - group_from)",
            "group_size = minimum(l2_group, outer_left)",
            "index_in_group = int32(work_tile - group_from * row_tiles)",
            "query_tile = udiv(index_in_group, group_size)",
            "outer = int32(group_from + index_in_group - query_tile * group_size)",
            *(downwards if self.block_mask else []),
            f"row_end = int32(n{self.facts.query_axis} - (row_tiles - 1 - query_tile) * {rows})",
            f"row_from = maximum(int32(row_end - {rows}), int32(0))",
            *self.facts.outer_coordinates(),
        ]

    def info_address(self, slot: str) -> str:
        """The address of a work info; its first row comes first."""
        return f"work_infos_at + {slot} * {4 * len(self.info_words)}"

    def store_info(self) -> list[str]:
        """Lines that store the info of this work tile."""
        at = self.info_address(WORK_INFO_SLOT)
        return [f"st_shared({at} + {4 * k}, {word})" for k, word in enumerate(self.info_words)]

    def load_info(self, slot: str) -> list[str]:
        """Lines that load a work info."""
        at = self.info_address(slot)
        return [f"{word} = ld_shared({at} + {4 * k})" for k, word in enumerate(self.info_words)]

    # -- key blocks

    def count_kv_blocks(self) -> list[str]:
        """Lines that count the active key blocks of a work tile, and find the first to process.

        If none is active, the first is processed fully masked. The block mask bits stay in shared memory.
        """
        columns, n, bounds = self.schedule.columns, f"n{self.facts.kv_axis}", list[str]()
        if not self.block_mask:
            return [f"count = int32(({n} + {columns - 1}) // {columns})", "tile = int32(count - 1)"]
        bits = [f"any_active = ld_shared({_mask_word(0)})"]
        if self.schedule.persistent_blocks:
            bounds = self.block_mask.work_tile_bounds()
            bits = [f"any_active, full = {self.block_mask.warp_bits('word', in_smem=True)}", "if elected:"]
            bits += [f"    st_shared({_mask_word(k)}, {word})" for k, word in enumerate(("any_active", "full"))]
        return [
            *bounds,
            "count, word, tile = int32(0), int32(0), int32(0)",
            f"while word * {32 * columns} < {n}:",
            *indented(bits),
            "    if any_active != 0:",
            "        tile = int32(word * 32 + find_leading_one(any_active))",
            "    count, word = int32(count + popc(any_active)), int32(word + 1)",
            "count = maximum(count, 1)",
        ]

    def first_kv_block(self) -> list[str]:
        """Lines that begin the iteration over key blocks."""
        return ["word, left, full = ld_shared(scheduler_at + 12), int32(0), int32(0)"] if self.block_mask else []

    def next_kv_block(self) -> list[str]:
        """Lines that find the next active key block, from the last one on: the first may reach beyond the keys."""
        if not self.block_mask:
            return ["tile = int32((packed_count >> 1) - 1 - k)"]
        return [
            "while (left == 0) & (word > 0):",
            "    word = int32(word - 1)",
            f"    left, full = ld_shared({_mask_word(0)}), ld_shared({_mask_word(1)})",
            "left = left | int32(left == 0)",
            "bit = find_leading_one(left)",
            "tile, left = int32(word * 32 + bit), int32(left ^ (1 << bit))",
        ]


def _mask_word(part: int) -> str:
    """The address of the block mask bits of 32 key blocks: any active (0) or all active (1)."""
    return f"block_mask_at + ({WORK_INFO_SLOT} * ld_shared(scheduler_at + 12) + word) * 8 + {4 * part}"
