"""Emits the main loop of products on sm_90: what a warpgroup multiplies of each K-slice, as stages become full."""

from __future__ import annotations

from ...emit.intrinsic import Function
from ...mma.tile_sizes import ROWS, SWIZZLE_BYTES, WARPGROUP
from ...tile import (
    bar_arrive,
    k_major_descriptor,
    mbarrier_arrive,
    mbarrier_wait_parity,
    mn_major_descriptor,
    wgmma_wait,
)
from .. import mbarrier_arrive_cluster, register_operand, wgmma_registers, wgmma_slice, wgmma_wait_group
from .layout import Sm90MatmulSchedule
from .work_tiles import Sm90WorkTiles

SMEM_ADDRESSES = (1 << 18) - 1
ROW_BYTES = SWIZZLE_BYTES  # of a swizzled row


class Sm90MatmulMainloop:
    """Emits the products of a tile."""

    def __init__(self, tiles: Sm90WorkTiles, schedule: Sm90MatmulSchedule):
        self.tiles, self.src, self.schedule = tiles, tiles.src, schedule
        self.form = "narrow_" if schedule.widest else ""  # of names of what depends on the columns of a tile
        self.accumulators = f"{self.form}accumulators"
        self.loads: dict[int, Function] = {}  # of the rows' operands, by number

    def multiply(self) -> None:
        """Emit the accumulators of a tile: products of a K-slice run while the next one is awaited."""
        src, s = self.src, self.schedule
        start = self.bind_products()
        src.emit("k, before = int32(0), int32(0)")
        with src.while_("k < slices"):
            src.emit(mbarrier_wait_parity("full + 8 * stage", "parity"))
            self.find_slice()
            given = self.multiplied()
            src.assign(self.accumulators, start(self.accumulators, *given))
            if s.by_registers:  # which the next K-slice writes: another warpgroup multiplies meanwhile
                src.emit(src.bind("wait_slice", wgmma_wait_group(0))())
                with src.if_("elected"):
                    self.release("stage")
            else:
                src.emit(src.bind("wait_slice", wgmma_wait_group(1))())
                with src.if_("elected & (k > 0)"):
                    self.release("before")
                src.assign("before", "stage")
            self.tiles.advance_stage()
            src.emit("k = int32(k + 1)")
        if s.pingpong > 1:
            src.emit(bar_arrive("2 - warpgroup", 2 * WARPGROUP))

    def find_slice(self) -> None:
        """Emit the address of a K-slice as descriptors have it: 18 bits. In a cluster addresses have more bits, which
        name the block."""
        at = f"smem_slices + stage * {self.schedule.stage_bytes}"
        self.src.assign("slice_at", f"int32(({at}) & {SMEM_ADDRESSES})")

    def await_products(self) -> None:
        """Emit the wait for the last K-slice of a tile."""
        src, s = self.src, self.schedule
        src.assign(self.accumulators, src.bind("wait_products", wgmma_wait(0))(self.accumulators))
        if not s.by_registers:
            with src.if_("elected"):
                self.release("before")

    def bind_products(self) -> Function:
        """Bind the products of a K-slice, and the loads of the rows' operands if these are in registers."""
        src, s = self.src, self.schedule
        if not s.by_registers:
            return src.bind(f"start_{self.form}products", wgmma_slice(s.kind.ptx, s.columns, s.pairs, s.majors))
        for number in range(s.lefts):
            form = (s.pairs_rows, s.parts) if s.parts == 2 else ()
            load = register_operand(s.kind.itemsize, s.majors[number], *form)
            self.loads[number] = src.bind(f"load_{s.majors[number]}_major", load)
        parts = (s.parts,) if s.parts == 2 else ()
        return src.bind(f"start_{self.form}products", wgmma_registers(s.kind.ptx, s.columns, s.pairs, *parts))

    def multiplied(self) -> list[str]:
        """What a warpgroup multiplies of a K-slice, for each operand: its descriptor, or its words in registers."""
        src, s, at, given = self.src, self.schedule, 0, list[str]()
        own = "warpgroup" if s.pingpong == 1 else "int32(0)"
        for number, major in enumerate(s.majors):
            if s.by_registers and number < s.lefts:
                src.assign(f"left{number}", self.loads[number](f"int32(slice_at + {at})", own))
                given.append(f"left{number}")
            else:
                rows = f" + warpgroup * {ROWS * ROW_BYTES}" if number < s.lefts and s.pingpong == 1 else ""
                descriptor = k_major_descriptor
                if major == "mn":
                    descriptor = src.bind("mn_descriptor", mn_major_descriptor(self.tiles.slice))
                given.append(descriptor(f"int32(slice_at + {at}{rows})"))
            if s.parts == 2 and number >= s.lefts:
                small = at - sum(map(s.operand_bytes, range(s.lefts)))
                given.append(k_major_descriptor(f"int32({self.small_at('k')} + {small})"))
            at += s.operand_bytes(number)
        return given

    def small_at(self, k: str) -> str:
        """The smaller parts of the columns' operands in a K-slice."""
        return f"(small_slices + ({k} & 1) * {self.schedule.small_bytes} & {SMEM_ADDRESSES})"

    def release(self, stage: str) -> None:
        """Emit the arrival of a warpgroup that has read a stage, at all blocks that load into it."""
        cluster = self.schedule.cluster
        for block in range(cluster):
            at = f"int32(empty + 8 * {stage})"
            self.src.emit(mbarrier_arrive(at) if cluster == 1 else mbarrier_arrive_cluster(at, block))
