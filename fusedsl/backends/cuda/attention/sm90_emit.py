"""Emits attention for sm_90: one producer warpgroup loads by TMA, consumer warpgroups of 64 rows compute by wgmma.

Scores, p and the output accumulator stay in registers. q·k of a key tile overlaps p·v of the tile before; reductions
run along the rows of fragments (mma/fragment.py). Blocks are persistent: they process one work tile after
another, and the loads run ahead of the epilogue.
"""

from __future__ import annotations

from contextlib import nullcontext

from ....kernel_ir.kernel import AttentionKernel
from ....kernel_ir.parameter_layout import kernel_params
from ..emit.source_builder import header
from ..mma import Fragment, row_positions, store_rows
from ..mma.tile_sizes import ALIGNMENT, ROWS, SWIZZLE_ELEMENTS, WARP_ROWS, WARPGROUP
from ..tile import (
    dynamic_smem,
    mn_major_descriptor,
    param_address,
    setmaxnreg_dec,
    setmaxnreg_inc,
    tma_load,
    tma_store,
    wgmma_wait,
)
from .emit_block_mask import BlockMaskBits
from .emit_element_mask import ElementMask
from .emit_epilogue import Epilogue
from .emit_fragment import APPROX, OUTPUT, SCORE, FragmentEmitter
from .emit_nonfinite_fallback import NonfiniteFallback
from .emit_softmax import OnlineSoftmax
from .intrinsics import approx, wgmma_pv, wgmma_qk
from .sm90_mainloop import NEXT_SCORES, WORK_ITER, Sm90Mainloop, sm90_facts
from .sm90_producer import Sm90Producer, TmaPipelines
from .sm90_schedule import Sm90AttentionSchedule, smem_offsets
from .sm90_tile_scheduler import Sm90TileScheduler
from .sm90_tile_shape import warpgroup_registers

SM90_PTX_TYPES = {"bfloat16": "bf16", "float16": "f16"}
SM90_APPROX = (*APPROX, "tanh")
SWIZZLE_ROW_BYTES = 2 * SWIZZLE_ELEMENTS


def emit_sm90(kernel: AttentionKernel, schedule: Sm90AttentionSchedule) -> str:
    """The generated file of an attention kernel on sm_90."""
    return Sm90Emitter(kernel, schedule).emit()


class Sm90Emitter:
    """Emitter of a generated file: its definitions, shared memory, and the roles of its warpgroups."""

    def __init__(self, kernel: AttentionKernel, schedule: Sm90AttentionSchedule):
        self.facts, self.schedule = sm90_facts(kernel, schedule), schedule
        self.values = FragmentEmitter(self.facts)
        self.source, self.pipelines = self.values.source, TmaPipelines(schedule)
        mask = self.facts.body.block_mask
        self.block_mask = BlockMaskBits(self.values, mask) if mask else None
        self.scheduler = Sm90TileScheduler(self.facts, schedule, self.block_mask)
        self.producer = Sm90Producer(self.facts, schedule, self.scheduler)
        self.softmax = OnlineSoftmax(self.values, ElementMask(self.values))
        self.mainloop = Sm90Mainloop(self.softmax, schedule, self.scheduler)
        stores = {kernel.tma_boxes[-1].operand: self._store_output_tma} if schedule.tma_store else {}
        self.epilogue = Epilogue(self.values, self.softmax, stores)

    # -- file

    def emit(self) -> str:
        s, source = self.schedule, self.source
        self._define_intrinsics()
        self.values.load_scalars()
        self._init_smem()
        with source.if_else("warpgroup < 0") as (producer, consumer):
            with consumer, self.values.scope():
                self._emit_consumer()
            with producer:
                source.emit("lower_registers()", *self.producer.warps())
        comment = f"Query tiles of {s.rows} rows, key tiles of {s.columns}."
        return source.text(header(self.facts.kernel, s.reason.partition(":")[0], ""), comment)

    def _define_intrinsics(self) -> None:
        s, kernel = self.schedule, self.facts.kernel
        dtype = kernel.operands[self.facts.operands.q].dtype.name
        ptx_type, columns = SM90_PTX_TYPES[dtype], s.columns
        width, out = (-(-n // 16) * 16 for n in (s.head_dim, s.head_dim_v))
        producer, consumer = warpgroup_registers(kernel, s.consumer_warpgroups, s.after_spill)
        bind, bind_several = self.source.bind, self.source.bind_several
        bind_several({"score_fragment": Fragment(columns), "output_fragment": Fragment(out)})
        bind_several({name: approx(name) for name in SM90_APPROX})
        bind("start_qk", wgmma_qk(ptx_type, s.rows, columns, width))
        bind("start_pv", wgmma_pv(ptx_type, columns, out))
        bind_several({"v_descriptor": mn_major_descriptor(columns), "pack": SCORE.pack(dtype)})
        bind_several({"wait_qk": wgmma_wait(1), "wait_all": wgmma_wait(0), "zero_output": OUTPUT.zeros()})
        bind_several({"rows_from": row_positions("int64"), "columns_from": SCORE.column_index("int64")})
        bind("in_bounds", SCORE.in_bounds())
        bind_several({"raise_registers": setmaxnreg_inc(consumer), "lower_registers": setmaxnreg_dec(producer)})
        if self.mainloop.bias:
            dtype = kernel.operands[kernel.tma_boxes[self.pipelines.bias.box].operand].dtype.name
            bind_several({"load_bias": SCORE.load_smem(s.rows), "widen_bias": SCORE.unpack(dtype)})
        slots = [(slot.kind, slot.index) for slot in kernel_params(kernel)]
        for number, box in enumerate(kernel.tma_boxes):
            how = tma_store if box.operand in self.epilogue.stores else tma_load
            slot = slots.index(("window", number))
            bind_several({f"map{number}": param_address(slot), f"{how}{number}": how(len(box.axes))})

    # -- shared memory and scheduler

    def _init_smem(self) -> None:
        """Emit the shared memory layout, the mbarriers and the scheduler's state."""
        s, source, kernel = self.schedule, self.source, self.facts.kernel
        source.bind("memory", dynamic_smem(ALIGNMENT))
        offsets = smem_offsets(s, kernel)
        source.emit("q_at = memory()", *(f"{name} = int32(q_at + {at})" for name, at in offsets.items() if at))
        source.emit("warpgroup = int32(warp_uniform(thread_idx() >> 7) - 1)")
        with source.if_("thread_idx() == 0"):
            source.emit("mbarrier_init(work_full, 1)", "mbarrier_init(work_empty, 1)", *self._init_mbarriers())
            source.emit("fence_mbarrier_init()", *self.scheduler.init())
        if self.block_mask and s.persistent_blocks and kernel.kv_bounds:
            source.emit(*self.block_mask.store_bounds())
        source.emit("barrier()")
        if self.block_mask and not s.persistent_blocks:
            source.emit("work_tile = block_idx()", *self.scheduler.decode_work_tile())
            source.emit(*self.block_mask.store_bits(), "barrier()")

    def _init_mbarriers(self) -> list[str]:
        """Lines that initialise the mbarriers of the pipelines: a thread of each consumer warpgroup arrives at an empty
        barrier, and one of each warp at that of the bias."""
        p, groups = self.pipelines, self.schedule.consumer_warpgroups
        lines = [
            f"for k in range({p.q.stages}):",
            "    mbarrier_init(q_full + 8 * k, 1)",
            f"    mbarrier_init(q_empty + 8 * k, {groups})",
            f"for k in range({p.k.stages}):",
            "    mbarrier_init(k_full + 8 * k, 1)",
            "    mbarrier_init(v_full + 8 * k, 1)",
            f"    mbarrier_init(k_empty + 8 * k, {groups})",
            f"    mbarrier_init(v_empty + 8 * k, {groups})",
        ]
        if p.bias.stages:
            lines += [
                f"for k in range({p.bias.stages}):",
                "    mbarrier_init(bias_full + 8 * k, 1)",
                f"    mbarrier_init(bias_empty + 8 * k, {groups * WARPGROUP // 32})",
            ]
        return lines

    # -- consumer warpgroups

    def _emit_consumer(self) -> None:
        s, source = self.schedule, self.source
        source.emit("raise_registers()", f"elected = (thread_idx() & {WARPGROUP - 1}) == 0", "tile_info = int32(-32)")
        if s.pingpong:
            source.emit(f"if warpgroup == {s.consumer_warpgroups - 1}:", "    bar_arrive(1, 256)")
        source.emit("work_iter = int32(0)", *self.mainloop.wait_work_tile())
        source.emit(self.mainloop.start_qk(NEXT_SCORES), f"{NEXT_SCORES} = wait_all({NEXT_SCORES})")
        if s.persistent_blocks:
            source.emit("more = True")
        with source.while_("more") if s.persistent_blocks else nullcontext(), self.values.scope():
            self._emit_work_tile()
        source.emit(*(["if warpgroup == 0:", "    bar_sync(1, 256)"] if s.pingpong else []))
        source.emit(*(["tma_store_wait()"] if s.tma_store else []))

    def _emit_work_tile(self) -> None:
        """One work tile, whose first scores are done: main loop, the next work tile's first q·k, and the epilogue."""
        load_info = self.scheduler.load_info(WORK_ITER)  # again before each use: no register holds it between uses
        self.source.emit(*load_info)
        self.softmax.emit_state()
        self.mainloop.emit()
        self.softmax.emit_final_rescale()
        NonfiniteFallback(self.values, self.softmax).emit(load_info)
        self.source.emit(*load_info)
        self.values.emit_row_indices()
        if self.schedule.persistent_blocks:
            self._start_next_work_tile()
        self.epilogue.emit()
        if self.schedule.persistent_blocks:
            self.source.emit(f"{NEXT_SCORES} = wait_all({NEXT_SCORES})")

    def _start_next_work_tile(self) -> None:
        """Start the next work tile's first q·k: it overlaps the epilogue. After the last work tile it recomputes that
        tile's own scores, which are not used."""
        self.source.emit("more = tile_info & 4 == 0")
        with self.source.if_("more"):
            self.source.emit(f"work_iter = int32({WORK_ITER} + 1)", *self.mainloop.wait_work_tile())
        self.source.emit(self.mainloop.start_qk(NEXT_SCORES))

    def _store_output_tma(self, shown: str) -> None:
        """Store output elements by TMA: each warp writes its 16 rows to swizzled shared memory and stores them box by
        box, after the TMA unit has read its previous rows. In a query tile that is not full, the 16 rows where the
        array ends are stored row by row."""
        s, facts, number = self.schedule, self.facts, len(self.facts.kernel.tma_boxes) - 1
        box = facts.kernel.tma_boxes[number]
        dtype, step = facts.kernel.operands[box.operand].dtype, facts.byte_step(box.operand, facts.query_axis)
        self.source.bind("stage_output", OUTPUT.store_smem(dtype.name, s.rows))
        self.source.bind("store_tail", store_rows(s.rows, 2 * s.head_dim_v))
        outer = ["row_from + warp_offset" if a == facts.query_axis else f"c{a}" for a in box.axes[1:]]
        corner = ", ".join([f"panel * {SWIZZLE_ELEMENTS}", *outer])
        smem = f"output_at + panel * {s.rows * SWIZZLE_ROW_BYTES} + warp_offset * {SWIZZLE_ROW_BYTES}"
        to = f"{facts.base_address(box.operand)} + int64(row_from + warp_offset) * {step}"
        warp = f"(reread_thread_idx() >> 5 & {ROWS // WARP_ROWS - 1})"
        self.source.emit(
            "tma_store_wait()",
            f"stage_output(output_at + warpgroup * {ROWS * SWIZZLE_ROW_BYTES}, {shown})",
            "fence_proxy_async()",
            f"warp_offset = warp_uniform(warpgroup * {ROWS} + {warp} * {WARP_ROWS})",
            f"if row_from + warp_offset + {WARP_ROWS} <= row_end:",
            "    if (reread_thread_idx() & 31) == 0:",
            f"        for panel in range({self.pipelines.v.panels}):",
            f"            tma_store{number}({smem}, map{number}(), {corner})",
            "        tma_store_commit()",
            "else:",
            f"    store_tail(output_at, warp_offset, {to}, {step}, row_end - row_from - warp_offset)",
        )
