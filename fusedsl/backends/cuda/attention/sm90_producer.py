"""Producer warpgroup of sm_90 attention: one warp schedules work tiles, one issues TMA loads.

The scheduler warp decodes the block's next work tile and its active key blocks; the load warp loads them in order.
Both publish infos in shared memory, so that no register of a consumer holds them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..emit.source_builder import indented
from ..mma.tile_sizes import SWIZZLE_ELEMENTS
from .emit_facts import AttentionFacts
from .sm90_schedule import Sm90AttentionSchedule
from .sm90_tile_scheduler import WORK_INFO_SLOT, Sm90TileScheduler


@dataclass(frozen=True)
class TmaPipeline:
    """Tiles of operand `name` in a ring of shared memory stages, with a full and an empty mbarrier each.

    Stage and parity follow from the number of tiles so far; `stages` is a power of 2, and 0 without such an operand.
    """

    name: str
    box: int  # number of the TMA box
    stages: int
    stage_bytes: int
    panels: int  # 128-byte wide boxes of a tile

    def slot(self, iteration: str) -> str:
        return f"({iteration} & {self.stages - 1})"

    def parity(self, iteration: str) -> str:
        return f"({iteration} >> {self.stages.bit_length() - 1} & 1)"

    def tile(self, iteration: str) -> str:
        """The address of a tile."""
        return f"{self.name}_at + {self.slot(iteration)} * {self.stage_bytes}"

    def full_barrier(self, iteration: str) -> str:
        return f"{self.name}_full + {self.slot(iteration)} * 8"

    def empty_barrier(self, iteration: str) -> str:
        return f"{self.name}_empty + {self.slot(iteration)} * 8"

    def wait_full(self, iteration: str) -> str:
        return f"mbarrier_wait_parity({self.full_barrier(iteration)}, {self.parity(iteration)})"

    def wait_empty(self, iteration: str) -> str:
        return f"mbarrier_wait_parity({self.empty_barrier(iteration)}, {self.parity(iteration)} ^ 1)"

    def consumer_release(self, iteration: str) -> str:
        """The arrival of a consumer that has read a tile."""
        return f"mbarrier_arrive({self.empty_barrier(iteration)})"


class TmaPipelines:
    """The pipelines of q, k, v and bias."""

    def __init__(self, s: Sm90AttentionSchedule):
        def pipeline(name: str, stages: int, rows: int, width: int) -> TmaPipeline:
            box = ("q", "k", "v", "bias").index(name)
            return TmaPipeline(name, box, stages, s.tile_bytes(rows, width), -(-width // SWIZZLE_ELEMENTS))

        self.q = pipeline("q", s.q_stages, s.rows, s.head_dim)
        self.k = pipeline("k", s.kv_stages, s.columns, s.head_dim)
        self.v = pipeline("v", s.kv_stages, s.columns, s.head_dim_v)
        self.bias = pipeline("bias", s.bias_stages, s.rows, s.columns)


class Sm90Producer:
    """The warps of the producer warpgroup.

    `packed_count` of a work tile is its number of active key blocks << 1 | whether it is the block's last work tile.
    """

    def __init__(self, facts: AttentionFacts, schedule: Sm90AttentionSchedule, scheduler: Sm90TileScheduler):
        self.facts, self.schedule, self.scheduler = facts, schedule, scheduler
        self.pipelines = TmaPipelines(schedule)

    def warps(self) -> list[str]:
        """The lines of the warps."""
        persistent = self.schedule.persistent_blocks
        scheduler = ["elif thread_idx() < 64:", *indented(self._scheduler_warp())] if persistent else []
        return ["if thread_idx() < 32:", *indented(self._load_warp()), *scheduler]

    def _scheduler_warp(self) -> list[str]:
        """Lines of the scheduler warp: publish the info of each work tile while the previous one is loaded."""
        work_tile = [
            *self.scheduler.decode_work_tile(),
            *self.scheduler.count_kv_blocks(),
            "work_tile = int32(work_tile + grid_dim())",
            "packed_count = count << 1 | int32(work_tile >= work_tiles)",
            "mbarrier_wait_parity(work_empty, (work_iter & 1) ^ 1)",
            "if elected:",
            *indented(self.scheduler.store_info()),
            "    mbarrier_arrive(work_full)",
            "work_iter = int32(work_iter + 1)",
        ]
        start = ["elected = thread_idx() == 32", "work_tile, work_iter = block_idx(), int32(0)"]
        return [*start, "while work_tile < ld_shared(scheduler_at):", *indented(work_tile)]

    def _load_warp(self) -> list[str]:
        """Lines of the load warp: q, and k and v of each active key block of one work tile after another."""
        scheduler = self.scheduler
        kv_loop = ["while k < packed_count >> 1:", *indented(self._load_kv_block())]
        loads = [*scheduler.first_kv_block(), "k = int32(0)", *kv_loop]
        start = ["elected = thread_idx() == 0", "kv_iter, work_iter = int32(0), int32(0)"]
        if not self.schedule.persistent_blocks:
            info = [*scheduler.decode_work_tile(), *scheduler.count_kv_blocks(), "packed_count = count << 1 | 1"]
            info += ["if elected:", *indented(scheduler.store_info())]
            return [*start, "work_tile = block_idx()", *info, *loads]
        info = ["mbarrier_wait_parity(work_full, work_iter & 1)", *scheduler.load_info(WORK_INFO_SLOT)]
        loop = [*info, *loads, "more, work_iter = packed_count & 1 == 0, int32(work_iter + 1)"]
        return [*start, "more = True", "while more:", *indented(loop)]

    def _load_kv_block(self) -> list[str]:
        """Lines that load a key block, q before the first, and publish its tile info.

        Bits of a tile info from the lowest: last key tile of the work tile; full tile; last work tile of the block;
        slot of the work tile's info, WORK_INFO_SLOT (two bits); key tiles so far (three); index of the key tile.
        """
        p, scheduler, persistent = self.pipelines, self.scheduler, self.schedule.persistent_blocks
        bits = [
            "tile << 8",
            "(kv_iter & 7) << 5",
            f"{WORK_INFO_SLOT} << 3",
            "(packed_count & 1) << 2",
            "int32(k == (packed_count >> 1) - 1)",
            *(["(full >> bit & 1) << 1"] if self.facts.has_block_mask else []),
        ]
        # reloaded, so that LLVM does not unroll the loop: registers are few here
        reload_count = (
            f"ld_shared({scheduler.info_address(WORK_INFO_SLOT)} + {4 * scheduler.info_words.index('packed_count')})"
        )
        return [
            *scheduler.next_kv_block(),
            f"column_from = tile * {self.schedule.columns}",
            p.k.wait_empty("kv_iter"),
            "if elected:",
            f"    st_shared(tile_infos_at + (kv_iter & 7) * 4, {' | '.join(bits)})",
            *indented(self._load_tile(p.k, "kv_iter")),
            "if k == 0:",
            f"    {p.q.wait_empty('work_iter')}",
            "    if elected:",
            *indented(self._load_tile(p.q, "work_iter"), 2),
            *(["        mbarrier_arrive(work_empty)"] if persistent else []),
            *(self._load_elected(p.bias) if p.bias.stages else []),
            *self._load_elected(p.v),
            "kv_iter, k = int32(kv_iter + 1), int32(k + 1)",
            *([f"packed_count = {reload_count}"] if persistent else []),
        ]

    def _load_elected(self, pipeline: TmaPipeline) -> list[str]:
        """Lines that load the next tile of a pipeline into the stage that is free next."""
        return [pipeline.wait_empty("kv_iter"), "if elected:", *indented(self._load_tile(pipeline, "kv_iter"))]

    def _load_tile(self, pipeline: TmaPipeline, iteration: str) -> list[str]:
        """Lines that load a tile, one 128-byte wide box at a time."""
        facts, box, full = self.facts, pipeline.box, pipeline.full_barrier(iteration)
        first = {facts.query_axis: "row_from"} if pipeline.name in ("q", "bias") else {facts.kv_axis: "column_from"}
        inner = f"{'column_from + ' * (pipeline.name == 'bias')}panel * {SWIZZLE_ELEMENTS}"
        corner = ", ".join([inner, *(first.get(a, f"c{a}") for a in facts.kernel.tma_boxes[box].axes[1:])])
        to = f"{pipeline.tile(iteration)} + panel * {pipeline.stage_bytes // pipeline.panels}"
        return [
            f"mbarrier_expect_tx({full}, {pipeline.stage_bytes})",
            f"for panel in range({pipeline.panels}):",
            f"    tma_load{box}({to}, map{box}(), {full}, {corner})",
        ]
