"""Emits attention for sm_90: one producer warpgroup loads by TMA, consumer warpgroups of 64 rows compute by wgmma.

Scores, p and the output accumulator stay in registers. q·k of a key tile overlaps p·v of the tile before; reductions
run along the rows of fragments (intrinsics/fragment.py). Blocks are persistent: they process one work tile after
another, and the loads run ahead of the epilogue.
"""

from __future__ import annotations

from ....kernel_ir.kernel import AttentionKernel
from ....kernel_ir.parameters import WINDOW_WORDS, kernel_params
from ....kernel_ir.phase import Store
from ..emit.source_text import header, indented
from .block_mask_inputs import mask_reads_memory
from .emit_block_mask import emit_smem_block_mask, emit_smem_bounds
from .emit_fragment import APPROX, ROW
from .sm90_mainloop import KV_ITER, NEXT_SCORES, WORK_ITER, Sm90Mainloop
from .sm90_producer import BIAS_BOX, emit_producer, load_work_info
from .sm90_schedule import (
    ALIGNMENT,
    SCHEDULER_BYTES,
    TILE_INFOS,
    WARPGROUP,
    Sm90AttentionSchedule,
    info_bytes,
    tma_store_operand,
)
from .sm90_skip_tiles import skip_inactive_tiles
from .sm90_tile_scheduler import decode_work_tile, init_scheduler
from .sm90_tile_shape import warpgroup_registers
from .sm90_tma_store import store_output_tma

SM90_PTX_TYPES = {"bfloat16": "bf16", "float16": "f16"}


def emit_sm90(kernel: AttentionKernel, schedule: Sm90AttentionSchedule) -> str:
    """The generated file of an attention kernel on sm_90."""
    return Sm90Emitter(kernel, schedule).source()


class Sm90Emitter(Sm90Mainloop):
    def __init__(self, kernel: AttentionKernel, schedule: Sm90AttentionSchedule):
        super().__init__(kernel, schedule)
        self.dtype_name = kernel.operands[self.operands.q].dtype.name
        results = tma_store_operand(kernel, self.query_axis) if schedule.tma_store else None
        self.tma_output = results[0] if results else None  # the output operand that is stored by TMA

    # -- file

    def source(self) -> str:
        s, short = self.schedule, SM90_PTX_TYPES[self.dtype_name]
        columns, width, out = s.columns, _round_up(s.head_dim, 16), _round_up(s.head_dim_v, 16)
        approx_names, (copying, computing) = (
            (*APPROX, "tanh"),
            warpgroup_registers(self.kernel, s.consumer_warpgroups, s.after_spill),
        )
        self.top += [
            f"score_fragment, output_fragment = Fragment({columns}), Fragment({out})",
            f"{', '.join(approx_names)} = {', '.join(f'approx({name!r})' for name in approx_names)}",
            f'start_qk = wgmma_qk("{short}", {s.rows}, {columns}, {width})',
            f'start_pv = wgmma_pv("{short}", {columns}, {out})',
            f"v_descriptor, pack = mn_major_descriptor({columns}), score_fragment.pack({self.dtype_name!r})",
            "wait_qk, wait_all, zero_output = wgmma_wait(1), wgmma_wait(0), output_fragment.zeros()",
            'rows_from, columns_from = row_positions("int64"), score_fragment.column_index("int64")',
            "in_bounds = score_fragment.in_bounds()",
            f"raise_registers, lower_registers = setmaxnreg_inc({computing}), setmaxnreg_dec({copying})",
        ]
        if self.bias:
            kind = self.kernel.operands[self.kernel.tma_boxes[BIAS_BOX].operand].dtype.name
            self.top.append(
                f'load_bias, widen_bias = score_fragment.load_smem({s.rows}), score_fragment.unpack("{kind}")'
            )
        for number, window in enumerate(self.kernel.tma_boxes):
            place = next(
                k for k, slot in enumerate(kernel_params(self.kernel)) if (slot.kind, slot.index) == ("window", number)
            )
            verb = "store" if window.operand == self.tma_output else "load"
            self.top.append(f"map{number}, tma_{verb}{number} = param_address({place}), tma_{verb}({len(window.axes)})")
        self.load_scalars()
        self._init_smem()
        working = self.lines_of(self._consumer)
        self.code += ["if warpgroup < 0:", "    lower_registers()", *indented(emit_producer(self))]
        self.code += ["else:", *indented(working)]
        opening = header(self.kernel, self.schedule.reason.partition(":")[0], "")
        comment = f"Tiles of {s.rows} rows; scores of {columns} of the stream at a time."
        kernel = [*self._signature(), *indented([f'"""{comment}"""', *self.code])]
        return "\n".join([*opening, "", *self.top, *self.functions, "", "", *kernel]) + "\n"

    def _signature(self) -> list[str]:
        """The parameters; a TMA descriptor has a line of its own."""
        lines, maps = [], len(self.kernel.tma_boxes) * WINDOW_WORDS
        for line in self.names.signature():
            names = line.strip().rstrip(",").split(", ")
            if names[0].startswith("map0_") and len(names) == maps:
                lines += [f"    {', '.join(names[k : k + WINDOW_WORDS])}," for k in range(0, maps, WINDOW_WORDS)]
            else:
                lines.append(line)
        return lines

    # -- shared memory and scheduler

    def _init_smem(self) -> None:
        """Emit the shared memory layout, the mbarriers and the scheduler's state."""
        s, b = self.schedule, self.schedule.kv_stages
        keys, values = self.kv_bytes()
        sizes = {"q_at": s.q_stages * self.q_bytes(), "k_at": b * keys, "v_at": b * values}
        sizes |= {"bias_at": s.bias_stages * self.bias_bytes()}
        sizes |= {"results_at": s.tile_bytes(s.rows, s.head_dim_v) if s.tma_store else 0}
        sizes |= dict.fromkeys(("q_full", "q_empty"), 8 * s.q_stages)
        sizes |= dict.fromkeys(("bias_full", "bias_empty"), 8 * s.bias_stages)
        sizes |= dict.fromkeys(("work_full", "work_empty"), 8)
        sizes |= dict.fromkeys(("k_full", "k_empty", "v_full", "v_empty"), 8 * b)
        self.top.append(f"memory = dynamic_smem({ALIGNMENT})")
        self.code.append("q_at = memory()")
        at = 0
        for name, size in sizes.items():
            self.code += [f"{name} = int32(q_at + {at})"] if at and size else []
            at += size
        self.code += [
            f"scheduler_at = int32(q_at + {at})",
            f"tile_infos_at = int32(q_at + {at + SCHEDULER_BYTES})",
            f"work_infos_at = int32(q_at + {at + SCHEDULER_BYTES + 4 * TILE_INFOS})",
            f"block_mask_at = int32(q_at + {at + info_bytes(self.kernel)})",
            "warpgroup = int32(warp_uniform(thread_idx() >> 7) - 1)",
            "if thread_idx() == 0:",
            "    mbarrier_init(work_full, 1)",
            "    mbarrier_init(work_empty, 1)",
            f"    for k in range({s.q_stages}):",
            "        mbarrier_init(q_full + 8 * k, 1)",
            f"        mbarrier_init(q_empty + 8 * k, {s.consumer_warpgroups})",
            f"    for k in range({b}):",
            "        mbarrier_init(k_full + 8 * k, 1)",
            "        mbarrier_init(v_full + 8 * k, 1)",
            f"        mbarrier_init(k_empty + 8 * k, {s.consumer_warpgroups})",
            f"        mbarrier_init(v_empty + 8 * k, {s.consumer_warpgroups})",
            *(f"    {line}" for line in self._init_bias_barriers()),
            "    fence_mbarrier_init()",
            *indented(init_scheduler(self)),
            *(emit_smem_bounds(self, s) if s.persistent_blocks and mask_reads_memory(self.kernel) else []),
            "barrier()",
        ]
        if self.has_block_mask and not s.persistent_blocks:
            self.code += [
                "work_tile = block_idx()",
                *decode_work_tile(self),
                *emit_smem_block_mask(self, s),
                "barrier()",
            ]

    def _init_bias_barriers(self) -> list[str]:
        """Lines that initialise the mbarriers of the bias: each consumer warp arrives at `empty`."""
        s = self.schedule
        if not self.bias:
            return []
        return [
            f"for k in range({s.bias_stages}):",
            "    mbarrier_init(bias_full + 8 * k, 1)",
            f"    mbarrier_init(bias_empty + 8 * k, {s.consumer_warpgroups * WARPGROUP // 32})",
        ]

    # -- consumer warpgroups

    def _consumer(self) -> None:
        s = self.schedule
        self.code += ["raise_registers()", f"elected = (thread_idx() & {WARPGROUP - 1}) == 0", "tile_info = int32(-32)"]
        if s.pingpong:
            self.code += [f"if warpgroup == {s.consumer_warpgroups - 1}:", "    bar_arrive(1, 256)"]
        self.code += [
            "work_iter = int32(0)",
            *self._wait_work_tile(),
            *self._start_qk(NEXT_SCORES),
            f"{NEXT_SCORES} = wait_all({NEXT_SCORES})",
        ]
        work = self.lines_of(self._work_tile)
        self.code += ["more = True", "while more:", *indented(work)] if s.persistent_blocks else work
        if s.pingpong:
            self.code += ["if warpgroup == 0:", "    bar_sync(1, 256)"]
        self.code += ["tma_store_wait()"] if s.tma_store else []

    def _wait_work_tile(self) -> list[str]:
        """Lines that wait for a work tile's q and first k tile."""
        return [
            f"mbarrier_wait_parity(q_full + {self.q_slot()} * 8, {self.q_parity()})",
            *self.wait_tile(),
            *skip_inactive_tiles(self, WORK_ITER, KV_ITER),
        ]

    def _work_tile(self) -> None:
        """One work tile, whose first scores are done: main loop, the next work tile's first q·k, and the epilogue."""
        self.code += load_work_info(self, WORK_ITER)
        self.init_state()
        self.code += [*self._mainloop(), *self._last_pv(), *self.final_rescale()]
        self.nonfinite_fallback()
        self.code += [*load_work_info(self, WORK_ITER), *self._row_indices()]
        if self.schedule.persistent_blocks:
            self.code += self._next_work_tile()
        self.store_outputs()
        if self.schedule.persistent_blocks:
            self.code.append(f"{NEXT_SCORES} = wait_all({NEXT_SCORES})")

    def store(self, store: Store, axis: int) -> None:
        if store.operand == self.tma_output:
            store_output_tma(self, store.value)
        else:
            super().store(store, axis)

    @property
    def loads_epilogue_late(self) -> bool:
        """Threads of three consumer warpgroups have the fewest registers."""
        return self.schedule.consumer_warpgroups > 2

    @property
    def row_limit(self) -> str:
        return "row_end"

    def reload_work_info(self) -> list[str]:
        """Reload the work tile's coordinates: no register holds them between uses."""
        return load_work_info(self, WORK_ITER)

    def _row_indices(self) -> list[str]:
        """Row indices of a thread in 32 bits, so that masks compare 32 bits."""
        clamp = "return int64(minimum(int32(i), int32(n - 1)))"
        self.define("clamp_rows", ROW, "int64, int64 -> int64", "i, n", [clamp])
        return super()._row_indices()

    def _next_work_tile(self) -> list[str]:
        """Start the next work tile's first q·k: it overlaps the epilogue. After the last work tile it recomputes that
        tile's own scores, which are not used."""
        ahead = [f"work_iter = int32({WORK_ITER} + 1)", *self._wait_work_tile()]
        return ["more = tile_info & 4 == 0", "if more:", *indented(ahead), *self._start_qk(NEXT_SCORES)]


def _round_up(n: int, step: int) -> int:
    return -(-n // step) * step
