"""Emits products for sm_90: one producer warp loads K-slices by TMA, consumer warpgroups of 64 rows multiply by wgmma.

Blocks are persistent: while the consumers finish a tile, the producer loads the K-slices of the next one. Blocks of a
cluster work on neighbouring rows: each loads a part of the columns' operands for all of them.
"""

from __future__ import annotations

from .....kernel_ir.kernel import MatmulKernel, TmaBox
from .....kernel_ir.parameter_layout import kernel_params
from ...emit.intrinsic import Function
from ...emit.source_builder import header
from ...mma import Fragment
from ...mma.tile_sizes import ALIGNMENT, ROWS, WARPGROUP
from ...tile import (
    bar_sync,
    barrier,
    dynamic_smem,
    fence_mbarrier_init,
    launch_dependents,
    mbarrier_init,
    param_address,
    setmaxnreg_dec,
    setmaxnreg_inc,
    thread_idx,
    wait_for_launches,
    warp_uniform,
)
from .. import (
    add_partial_sums,
    cluster_rank,
    cluster_sync,
    is_last_warpgroup,
    store_partial_sums,
    take_panel,
)
from .emit_epilogue import PanelEpilogue
from .emit_groups import GroupEpilogue
from .emit_mainloop import Sm90MatmulMainloop
from .emit_producer import Sm90MatmulProducer
from .emit_tf32_parts import Tf32PartsMainloop
from .layout import CONSUMER_REGISTERS, Sm90MatmulSchedule
from .work_tiles import Sm90WorkTiles

PRODUCER_REGISTERS = 40
# of a consumer, beside accumulators and what its epilogue loads; and for stores that threads issue, or folds
OTHER_REGISTERS, ADDRESS_REGISTERS = 40, 16
GROUP_REGISTERS = 40  # of what a panel's values are computed from, while those of other panels are held


def emit_sm90(kernel: MatmulKernel, schedule: Sm90MatmulSchedule) -> str:
    """The generated file of a kernel of products on sm_90."""
    return Sm90MatmulEmitter(kernel, schedule).source()


class Sm90MatmulEmitter:
    """Emitter of a generated file: shared memory, work tiles, the producer, the consumers."""

    def __init__(self, kernel: MatmulKernel, schedule: Sm90MatmulSchedule):
        self.tiles = Sm90WorkTiles(kernel, schedule)
        self.kernel, self.schedule, self.src = kernel, schedule, self.tiles.src
        self.mainloop = Sm90MatmulMainloop(self.tiles, schedule)
        self.parts = Tf32PartsMainloop(self.mainloop) if schedule.parts == 2 else None
        self.narrow = Sm90MatmulMainloop(self.tiles, schedule.narrow) if schedule.narrow else None

    def source(self) -> str:
        src, s = self.src, self.schedule
        if self.tiles.starts_early:
            src.waits_first = False
            src.emit(launch_dependents())
        src.read_scalars()
        self._bind_maps()
        self._init_smem()
        self.tiles.count_tiles()
        with src.if_else("warpgroup < 0") as (producer, consumer):
            with producer:
                src.emit(src.bind("lower_registers", setmaxnreg_dec(PRODUCER_REGISTERS))())
                with src.if_(f"{thread_idx()} == 0"):
                    Sm90MatmulProducer(self.tiles, self.schedule, self.maps).produce()
            with consumer:
                src.emit(src.bind("raise_registers", setmaxnreg_inc(CONSUMER_REGISTERS))())
                if self.tiles.starts_early:
                    src.emit(wait_for_launches())
                self._consume()
        if s.cluster > 1:  # shared memory stays until the other block has sent and arrived
            src.emit(cluster_sync())
        opening = header(self.kernel, s.reason.partition(":")[0], "")
        return src.text(opening, f"Tiles of {s.rows} x {s.columns}, K-slices of {self.tiles.slice}.")

    # -- shared memory

    def _bind_maps(self) -> None:
        """Bind the tensor maps and their loads and stores."""
        slots = [(slot.kind, slot.index) for slot in kernel_params(self.kernel)]
        self.maps = [
            self.src.bind(f"map{n}", param_address(slots.index(("window", n))))
            for n in range(len(self.kernel.tma_boxes))
        ]

    def _init_smem(self) -> None:
        """Emit the shared memory layout and the mbarriers: full and empty for each stage."""
        src, s = self.src, self.schedule
        memory = src.bind("memory", dynamic_smem(ALIGNMENT))
        src.assign("smem_slices", memory())
        at = s.stages * s.stage_bytes
        if s.parts == 2:
            src.assign("small_slices", f"int32(smem_slices + {at})")
            at += 2 * s.small_bytes
        src.assign("staging_at", f"int32(smem_slices + {at})")
        at += s.consumers * s.staging_bytes
        src.assign("full", f"int32(smem_slices + {at})")
        src.assign("empty", f"int32(smem_slices + {at + 8 * s.stages})")
        src.assign("flags_at", f"int32(smem_slices + {at + 16 * s.stages})")
        src.assign("warpgroup", f"int32({warp_uniform(f'{thread_idx()} >> 7')} - 1)")
        if s.cluster > 1:
            src.assign("rank", cluster_rank())
        with src.if_(f"{thread_idx()} == 0"):
            src.emit(f"for k in range({s.stages}):")
            src.emit(f"    {mbarrier_init('full + 8 * k', 1)}")
            src.emit(f"    {mbarrier_init('empty + 8 * k', s.warpgroups * s.cluster)}")
            src.emit(fence_mbarrier_init())
        src.emit(cluster_sync() if s.cluster > 1 else barrier())

    # -- consumers

    def _consume(self) -> None:
        """Emit the loop of a consumer warpgroup over its tiles: products of all K-slices, then the epilogue."""
        src, s = self.src, self.schedule
        src.assign("elected", f"{thread_idx()} & {WARPGROUP - 1} == 0")
        src.emit("tile, stage, parity = first_tile, int32(0), int32(0)")
        if s.pingpong > 1:
            src.assign("tile", "int32(tile + warpgroup * tile_step)")
            with src.if_("warpgroup == 1"):
                self.tiles.skip_stages()
        epilogue = self._consume_tiles(self.mainloop)
        if self.narrow is not None:
            src.emit("tile = first_tile")
            self._consume_tiles(self.narrow)
        epilogue.end()

    def _epilogue(self, s: Sm90MatmulSchedule) -> PanelEpilogue:
        """The epilogue of tiles of one width."""
        count = self.schedule.columns * len(s.pairs) // 2
        epilogue = PanelEpilogue(self.src, self.tiles.operands.axes, s.panel, s.multiple, self._room(count))
        if s.pairs_rows:
            epilogue.pair_rows(s.kind.itemsize, s.even_rows)
        maps = self.maps[len(self.tiles.multiplied) :]
        panels = s.columns // s.panel
        boxes = [box for box in self.kernel.tma_boxes if isinstance(box, TmaBox)]
        epilogue.staged_rows = s.staged_stores
        epilogue.store_by_tma(s.tma_stores, maps, boxes, 1 if s.widest else panels)
        return epilogue

    def _consume_tiles(self, mainloop: Sm90MatmulMainloop) -> PanelEpilogue:
        """Emit the loop over all tiles of one width."""
        src, s = self.src, mainloop.schedule
        count, form = s.columns * len(s.pairs) // 2, mainloop.form
        fragment = src.bind(f"{form}sum_fragment", Fragment(2 * count))
        floats = s.kind.accumulator == "float32"
        zeros = src.bind(f"{form}zeros", fragment.zeros() if floats else fragment.zeros("int32"))
        epilogue = self._epilogue(s)
        with src.while_("tile < narrow_tiles" if s.widest else "tile < tiles"):
            self.tiles.decode_tile(bool(s.widest))
            src.assign(mainloop.accumulators, zeros())
            if s.pingpong > 1:  # in turn: else a warpgroup takes an earlier phase of an mbarrier for its own
                with src.if_("(warpgroup == 1) | (tile != first_tile)"):
                    src.emit(bar_sync("1 + warpgroup", 2 * WARPGROUP))
            (self.parts or mainloop).multiply()
            if s.pingpong == 1:
                src.assign("row_from", f"int32(row_from + warpgroup * {ROWS})")
            if s.splits == 1:
                self._begin(epilogue)
            mainloop.await_products()
            if s.pingpong > 1:
                self.tiles.skip_stages()
            last = self._add_parts(count, zeros)
            with src.if_(last):
                if s.splits > 1:
                    self._begin(epilogue)
                if self.parts is not None:
                    self.parts.repair(epilogue, fragment)
                self._finish(epilogue, mainloop)
            src.emit(f"tile = int32(tile + {s.pingpong} * tile_step)")
        return epilogue

    def _room(self, accumulators: int) -> int:
        """The registers of a consumer for what its epilogue loads."""
        phase = self.kernel.phases[0]
        by_threads = len(phase.stores_of_rows) > len(self.schedule.tma_stores) or phase.panel_folds is not None
        others = OTHER_REGISTERS + (ADDRESS_REGISTERS if by_threads else 0) + (GROUP_REGISTERS if phase.groups else 0)
        return CONSUMER_REGISTERS - accumulators - others

    def _begin(self, epilogue: PanelEpilogue) -> None:
        epilogue.begin()
        epilogue.load_ahead(0)

    def _finish(self, epilogue: PanelEpilogue, mainloop: Sm90MatmulMainloop) -> None:
        """Emit the epilogue of a tile, panel by panel."""
        src, s, form = self.src, mainloop.schedule, mainloop.form
        count = self.schedule.columns * len(s.pairs) // 2
        groups = GroupEpilogue(epilogue, self._room(count)) if s.group else None
        for first in range(0, s.columns, s.panel):
            accumulators = {}
            for product, use in enumerate(self.kernel.phases[0].folds):
                take = take_panel(product * s.columns + first, s.panel)
                panel = src.bind(f"{form}accumulators{product}_{first}", take)
                accumulators[use.accumulators[0].name] = panel(mainloop.accumulators)
            following = first + s.panel
            epilogue.finish(first, accumulators, following if following < s.columns else None)
            if groups is not None:
                groups.hold(first)
        if groups is not None:
            groups.finish(s.columns)

    def _add_parts(self, count: int, zeros: Function) -> str:
        """Emit the sum of a tile's parts by the warpgroup that is the last to have one; the condition that it is."""
        src, s = self.src, self.schedule
        if s.splits == 1:
            return ""
        part = f"warpgroup * {s.part_bytes // s.warpgroups}"
        store = src.bind("store_part", store_partial_sums(count))
        src.emit(store(f"workspace + int64(tile) * {s.part_bytes} + {part}", "accumulators"))
        semaphore = f"semaphores + int64(whole * {s.warpgroups} + warpgroup) * 4"
        src.assign(
            "is_last", is_last_warpgroup(semaphore, s.splits, "int32(flags_at + warpgroup * 4)", "int32(1 + warpgroup)")
        )
        with src.if_("is_last"):
            add = src.bind("add_part", add_partial_sums(count))
            src.assign("parts_at", f"workspace + int64(whole) * {s.part_bytes * s.splits} + {part}")
            src.assign("accumulators", zeros())
            for number in range(s.splits):
                src.assign("accumulators", add(f"parts_at + {number * s.part_bytes}", "accumulators"))
        return "is_last"
