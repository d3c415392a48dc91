"""Emits attention with mma.sync or fused multiply-adds: each warp computes 16 query rows.

One k tile and one v tile are in shared memory: v is loaded by cp.async while q·k is computed, the next k while the
softmax is. With fused multiply-adds, p goes through shared memory, because a thread has a quarter of a row's elements.
"""

from __future__ import annotations

from ....kernel_ir.attention_operands import scheduled_operands
from ....kernel_ir.kernel import AttentionKernel
from ..emit.intrinsic import Binding, Function
from ..emit.source_builder import header, indented
from ..mma import Fragment, row_positions
from ..mma.tile_sizes import COPY_BYTES, SWIZZLE_BYTES
from ..tile import dynamic_smem, wait_group
from .emit_block_mask import BlockMaskBits
from .emit_element_mask import ElementMask
from .emit_epilogue import Epilogue
from .emit_facts import AttentionFacts
from .emit_fragment import APPROX, OUTPUT, SCORE, FragmentEmitter
from .emit_nonfinite_fallback import NonfiniteFallback
from .emit_softmax import OnlineSoftmax
from .emit_split_kv import SplitCombiner
from .intrinsics import approx, fma_pv, fma_qk, mma_pv, mma_qk, store_p
from .mma_schedule import MmaAttentionSchedule
from .mma_smem_tiles import PagedLookups, SmemTiles

PTX_TYPES = {"bfloat16": "bf16", "float16": "f16"}
STEP_BYTES = 64  # bytes of rows per step of fused multiply-adds


def emit_mma(kernel: AttentionKernel, schedule: MmaAttentionSchedule) -> str:
    """The generated file of an attention kernel."""
    return MmaEmitter(kernel, schedule).emit()


class MmaEmitter:
    """Emitter of a generated file: products and softmax of a work tile, key tile by key tile."""

    def __init__(self, kernel: AttentionKernel, schedule: MmaAttentionSchedule):
        operands, packed = scheduled_operands(kernel), schedule.packed_gqa_axis
        rows = f"n{operands.query_axis}" if packed is None else f"(n{packed} * n{operands.query_axis})"
        self.facts, self.schedule = AttentionFacts(kernel, schedule, rows, packed_gqa_axis=packed), schedule
        self.values = FragmentEmitter(self.facts)
        self.values.approx = schedule.tensor_cores
        self.source = self.values.source
        self.softmax = OnlineSoftmax(self.values, ElementMask(self.values))
        self.epilogue = Epilogue(self.values, self.softmax)
        self.tiles, self.scheduler = SmemTiles(self.values, schedule), MmaTileScheduler(self.values, schedule)
        self.out_columns = -(-schedule.head_dim_v // 16) * 16

    def emit(self) -> str:
        s, facts = self.schedule, self.facts
        bind = self.source.bind
        start = {"rows_from": row_positions("int64"), "columns_from": SCORE.column_index("int64")}
        bind("score_fragment", Fragment(s.columns))
        self.source.bind_several(start)
        bind("in_bounds", SCORE.in_bounds())
        if facts.has_output:
            bind("output_fragment", Fragment(self.out_columns))
            bind("zero_output", OUTPUT.zeros(facts.weighted_sum.state.dtype.name))
        self._define_products()
        self.values.load_scalars()
        self._init_smem()
        self.source.emit(*self.scheduler.count_kv_blocks())
        self.softmax.emit_state()
        with self.source.if_("count > 0"), self.values.scope():
            self._emit_mainloop()
        if s.is_split_kv:
            SplitCombiner(self.values, s, self._emit_epilogue).emit()
        else:
            self._emit_epilogue()
        comment = f"Query tiles of {s.rows} rows, key tiles of {s.columns}."
        return self.source.text(header(facts.kernel, s.reason.partition(":")[0], ""), comment)

    def _emit_epilogue(self) -> None:
        self.values.emit_row_indices()
        if self.facts.has_output:
            NonfiniteFallback(self.values, self.softmax).emit([])
        self.epilogue.emit()

    def _define_products(self) -> None:
        s, width = self.schedule, self.schedule.row_bytes(self.schedule.head_dim) // self.schedule.itemsize
        pv: dict[str, Binding[Function]]
        if s.tensor_cores:
            ptx_type = PTX_TYPES[s.smem_dtype]
            self.source.bind_several({name: approx(name) for name in APPROX})
            qk = {"compute_qk": mma_qk(ptx_type, s.rows, s.columns, width)}
            pv = {"accumulate_pv": mma_pv(ptx_type, s.columns, self.out_columns), "pack": SCORE.pack(s.smem_dtype)}
        else:
            size = s.smem_dtype, s.rows, s.columns
            qk = {"zero_scores": SCORE.zeros(s.smem_dtype), "accumulate_qk": fma_qk(*size)}
            pv = {"write_p": store_p(*size), "accumulate_pv": fma_pv(*size, self.out_columns)}
        for name, binding in (qk | pv if self.facts.has_output else qk).items():
            self.source.bind(name, binding)

    def _init_smem(self) -> None:
        """Emit the shared memory addresses, the work tile's coordinates and its block mask."""
        s, copies = self.schedule, {"wait_copies": wait_group(0)} if any(self.schedule.cp_async) else {}
        self.source.bind_several({"memory": dynamic_smem(SWIZZLE_BYTES), **copies})
        used = {"k_at"} | ({"v_at"} if self.facts.has_output else set())
        used |= {"p_at"} if self.facts.has_output and not s.tensor_cores else set()
        used |= {"block_mask_at"} if self.facts.kernel.kv_bounds else set()
        self.source.emit(
            "q_at = memory()",
            *(f"{name} = int32(q_at + {offset})" for name, offset in s.smem_offsets.items() if name in used),
            "warpgroup, work_tile = int32(thread_idx() >> 7), block_idx()",
            *self.scheduler.decode_work_tile(),
        )

    # -- main loop

    def _emit_mainloop(self) -> None:
        s, facts, source, score = self.schedule, self.facts, self.source, self.facts.score.value.name
        first, is_async = f"tile * {s.columns}", any(s.cp_async)
        paged = PagedLookups(self.values, facts.body.paged) if facts.body.paged else None
        load_k = [*(paged.lookup(first) if paged else []), *self.tiles.load("k", first), *["commit_group()"] * is_async]
        wait = [*["wait_copies()"] * is_async, "barrier()"]
        load_v = [*self.tiles.load("v", "column_from"), *["commit_group()"] * is_async] if facts.has_output else []
        source.emit(*self.tiles.load("q", "row_from"), "k = int32(0)", *self.scheduler.next_kv_block(), *load_k)
        in_bounds = f"column_from + {s.columns} <= n{facts.kv_axis}"
        full = "(full >> (tile & 31)) & 1" if facts.has_block_mask else in_bounds
        with source.while_("k < count"):
            source.emit(f"column_from = {first}", f"is_full = {full}")
            source.emit(*(paged.keep_validity() if paged else []), *wait, *load_v)
            if s.tensor_cores:
                source.assign(score, "compute_qk(q_at, k_at)")
            else:
                source.assign(score, "zero_scores()")
                steps = s.row_bytes(s.head_dim) // STEP_BYTES
                source.emit(*_steps(steps, f"{score} = accumulate_qk({score}, q_at, k_at, step)"))
            source.emit(*wait, "k = int32(k + 1)")
            with source.if_("k < count"):
                source.emit(*self.scheduler.next_kv_block(), *load_k)
            self.softmax.emit_tile("is_full" if facts.full_phases or not facts.has_block_mask else "", bounded=True)
            self.softmax.emit_rescale()
            source.emit(*(self._accumulate_pv() if facts.has_output else []))

    def _accumulate_pv(self) -> list[str]:
        """Lines that accumulate p·v of a tile."""
        s, output, p = self.schedule, self.facts.output, self.facts.weighted_sum.p.name
        if s.tensor_cores:
            return [f"{output} = accumulate_pv({output}, pack({p}), v_at)"]
        steps = s.columns * s.itemsize // COPY_BYTES
        return [f"write_p(p_at, {p})", *_steps(steps, f"{output} = accumulate_pv({output}, p_at, v_at, step)")]


def _steps(count: int, line: str) -> list[str]:
    return ["step = int32(0)", f"while step < {count}:", *indented([line, "step = int32(step + 1)"])]


class MmaTileScheduler:
    """The work tile of a block, and the key tiles that it goes through."""

    def __init__(self, values: FragmentEmitter, schedule: MmaAttentionSchedule):
        self.facts, self.schedule = values.facts, schedule
        mask = values.facts.body.block_mask
        self.block_mask = BlockMaskBits(values, mask) if mask else None
        self.in_smem = bool(values.kernel.kv_bounds)

    def decode_work_tile(self) -> list[str]:
        """Lines that decode the work tile: query tile and outer coordinates. Tiles that read the same keys are
        neighbours; with a block mask, the longest tiles come first."""
        facts, rows = self.facts, self.schedule.rows
        lines = [
            f"row_tiles = int32(({facts.row_limit} + {rows - 1}) // {rows})",
            f"work_tiles = int32({' * '.join(['row_tiles', *(f'n{a}' for a in facts.outer)])})",
        ]
        if self.schedule.is_split_kv:
            lines += [
                "num_splits, split = udiv(grid_dim(), work_tiles), udiv(work_tile, work_tiles)",
                "work_tile = int32(work_tile - split * work_tiles)",
            ]
        if self.block_mask:
            lines += [
                "outer_size = udiv(work_tiles, row_tiles)",
                "query_tile = udiv(work_tile, outer_size)",
                "outer = int32(work_tile - query_tile * outer_size)",
                f"row_from = int32((row_tiles - 1 - query_tile) * {rows})",
            ]
        else:
            lines += [
                "outer = udiv(work_tile, row_tiles)",
                "query_tile = int32(work_tile - outer * row_tiles)",
                f"row_from = int32(query_tile * {rows})",
            ]
        return lines + facts.outer_coordinates()

    def count_kv_blocks(self) -> list[str]:
        """Lines that count the active key blocks of the work tile, or of this block's split of them."""
        columns, n = self.schedule.columns, f"n{self.facts.kv_axis}"
        split = self._split_range() if self.schedule.is_split_kv else []
        if not self.block_mask:
            return [f"count = int32(({n} + {columns - 1}) // {columns})", *split]
        return [
            *([*self.block_mask.store_bits(), "barrier()"] if self.in_smem else []),
            "count, word = int32(0), int32(0)",
            f"while word * {32 * columns} < {n}:",
            f"    any_active, full = {self._mask_bits('word')}",
            "    count, word = int32(count + popc(any_active)), int32(word + 1)",
            "left, full = int32(0), int32(0)",
            *split,
        ]

    def _mask_bits(self, word: str) -> str:
        """The call that returns the block mask bits of 32 key blocks: any active, all active."""
        assert self.block_mask is not None
        return f"block_mask(block_mask_at, {word})" if self.in_smem else self.block_mask.warp_bits(word)

    def _split_range(self) -> list[str]:
        """Lines that restrict the key blocks to the split of this block, `count` of them."""
        lines = [
            "first_block = int32(udiv(int64(count) * split, int64(num_splits)))",
            "count = int32(udiv(int64(count) * (split + 1), int64(num_splits)) - first_block)",
        ]
        if not self.block_mask:
            return lines
        return [
            *lines,
            "skipped = int32(0)",
            "while (left == 0) & (word > 0):",
            "    word = int32(word - 1)",
            f"    left, full = {self._mask_bits('word')}",
            "    if skipped + popc(left) <= first_block:",
            "        skipped, left = int32(skipped + popc(left)), int32(0)",
            "while skipped < first_block:",
            "    skipped, left = int32(skipped + 1), int32(left ^ (1 << find_leading_one(left)))",
        ]

    def next_kv_block(self) -> list[str]:
        """Lines that find the next active key block, from the last one on: the last block is often partial, and the
        first iteration has the masked code."""
        if not self.block_mask:
            return [f"tile = int32({'first_block + ' * self.schedule.is_split_kv}count - 1 - k)"]
        return [
            "while left == 0:",
            "    word = int32(word - 1)",
            f"    left, full = {self._mask_bits('word')}",
            "bit = find_leading_one(left)",
            "tile, left = int32(word * 32 + bit), int32(left ^ (1 << bit))",
        ]
