"""Emits attention with mma.sync or fused multiply-adds: each warp computes 16 query rows.

One k tile and one v tile are in shared memory: v is loaded by cp.async while q·k is computed, the next k while the
softmax is. With fused multiply-adds, p goes through shared memory, because a thread has a quarter of a row's elements.
"""

from __future__ import annotations

from ....ir.types import dtype
from ....kernel_ir.kernel import AttentionKernel
from ....kernel_ir.phase import Value
from ..emit.source_text import header, indented
from .block_mask_inputs import mask_reads_memory
from .emit_block_mask import emit_smem_block_mask, emit_warp_block_mask
from .emit_fragment import APPROX, OUTPUT, ROW
from .emit_paged_kv import PagedLookupEmitter, emit_valid_words, paged_row
from .emit_softmax import AttentionEmitter
from .mma_schedule import COPY_BYTES, SWIZZLE_BYTES, MmaAttentionSchedule
from .split_kv_schedule import COMBINE_FAN_IN, partial_state_bytes

PTX_TYPES = {"bfloat16": "bf16", "float16": "f16"}
STEP_BYTES = 64  # bytes of rows per step of fused multiply-adds
ELEMENTS_PER_LOAD = 8  # elements per thread and step if an operand is loaded element by element


def emit_mma(kernel: AttentionKernel, schedule: MmaAttentionSchedule) -> str:
    """The generated file of an attention kernel."""
    return MmaEmitter(kernel, schedule).source()


class MmaEmitter(AttentionEmitter):
    def __init__(self, kernel: AttentionKernel, schedule: MmaAttentionSchedule):
        super().__init__(kernel, schedule, schedule.packed_gqa_axis)
        self.schedule = schedule
        self.approx = schedule.tensor_cores
        self.out_columns = -(-schedule.head_dim_v // 16) * 16

    def source(self) -> str:
        s = self.schedule
        self.top.append(f"score_fragment = Fragment({s.columns})")
        self.top += [
            'rows_from, columns_from = row_positions("int64"), score_fragment.column_index("int64")',
            "in_bounds = score_fragment.in_bounds()",
        ]
        if self.has_output:
            self.top += [
                f"output_fragment = Fragment({self.out_columns})",
                f'zero_output = output_fragment.zeros("{self.weighted_sum.state.dtype.name}")',
            ]
        self._products()
        self.load_scalars()
        self._init_smem()
        self.init_state()
        self.code += ["if count > 0:", *indented(self.lines_of(self._mainloop))]
        if s.is_split_kv:
            self._combine_splits()
        else:
            self.emit_epilogue()
        opening = header(self.kernel, s.reason.partition(":")[0], "")
        comment = f"Tiles of {s.rows} rows; scores of {s.columns} of the stream at a time."
        kernel = [*self.names.signature(), *indented([f'"""{comment}"""', *self.code])]
        return "\n".join([*opening, "", *self.top, *self.functions, "", "", *kernel]) + "\n"

    def _products(self) -> None:
        s, width = self.schedule, self.schedule.row_bytes(self.schedule.head_dim) // self.schedule.itemsize
        if s.tensor_cores:
            self.top += [
                f"{', '.join(APPROX)} = {', '.join(f'approx({name!r})' for name in APPROX)}",
                f'compute_qk = mma_qk("{PTX_TYPES[s.smem_dtype]}", {s.rows}, {s.columns}, {width})',
            ]
            add = [
                f'accumulate_pv = mma_pv("{PTX_TYPES[s.smem_dtype]}", {s.columns}, {self.out_columns})',
                f"pack = score_fragment.pack({s.smem_dtype!r})",
            ]
        else:
            self.top.append(
                f'zero_scores = score_fragment.zeros("{s.smem_dtype}")\n'
                f'accumulate_qk = fma_qk("{s.smem_dtype}", {s.rows}, {s.columns})'
            )
            add = [
                f'write_p = store_p("{s.smem_dtype}", {s.rows}, {s.columns})',
                f'accumulate_pv = fma_pv("{s.smem_dtype}", {s.rows}, {s.columns}, {self.out_columns})',
            ]
        self.top += add if self.has_output else []

    def _init_smem(self) -> None:
        """Emit the shared memory addresses, the work tile's coordinates and its block mask."""
        s = self.schedule
        start = f"dynamic_smem({SWIZZLE_BYTES})"
        self.top.append(f"memory, sent = {start}, wait_group(0)" if self._uses_cp_async else f"memory = {start}")
        self.code.append("q_at = memory()")
        weighs = {"v_at"} | (set() if s.tensor_cores else {"p_at"}) if self.has_output else set()
        used = [name for name in s.smem_offsets if name in {"k_at", "block_mask_at"} | weighs]
        kept = self.stream.block_mask is not None and mask_reads_memory(self.kernel)
        self.code += [
            f"{name} = int32(q_at + {s.smem_offsets[name]})" for name in used if name != "block_mask_at" or kept
        ]
        self.code += ["warpgroup, work_tile = int32(thread_idx() >> 7), block_idx()", *self._decode_work_tile()]
        if kept:
            self.code += [*emit_smem_block_mask(self, s), "barrier()"]
        self.code += [*self._count_kv_blocks(), *(self._split_range() if s.is_split_kv else [])]

    # -- work tile and key blocks

    def _decode_work_tile(self) -> list[str]:
        """Lines that decode the work tile: query tile and outer coordinates. Tiles that read the same keys are
        neighbours; with a block mask, the longest tiles come first."""
        lines = [
            f"row_tiles = int32(({self.row_limit} + {self.schedule.rows - 1}) // {self.schedule.rows})",
            f"work_tiles = int32({' * '.join(['row_tiles', *(f'n{a}' for a in self.outer)])})",
        ]
        if self.schedule.is_split_kv:
            lines += [
                "parts, part = udiv(grid_dim(), work_tiles), udiv(work_tile, work_tiles)",
                "work_tile = int32(work_tile - part * work_tiles)",
            ]
        if self.has_block_mask:
            lines += [
                "others = udiv(work_tiles, row_tiles)",
                "rest = udiv(work_tile, others)",
                "other = int32(work_tile - rest * others)",
            ]
            lines.append(f"row_from = int32((row_tiles - 1 - rest) * {self.schedule.rows})")
        else:
            lines += ["other = udiv(work_tile, row_tiles)", "rest = int32(work_tile - other * row_tiles)"]
            lines.append(f"row_from = int32(rest * {self.schedule.rows})")
        return lines + self.outer_coordinates()

    def _count_kv_blocks(self) -> list[str]:
        """Lines that count the active key blocks of the work tile."""
        if not self.has_block_mask:
            return [f"count = int32((n{self.kv_axis} + {self.schedule.columns - 1}) // {self.schedule.columns})"]
        return [
            "count, word = int32(0), int32(0)",
            f"while word * {32 * self.schedule.columns} < n{self.kv_axis}:",
            f"    any_active, full = {self._mask_bits('word')}",
            "    count, word = int32(count + popc(any_active)), int32(word + 1)",
            "left, full = int32(0), int32(0)",
        ]

    def _mask_bits(self, word: str) -> str:
        """The call that returns the block mask bits of 32 key blocks: any active, all active."""
        if not self.is_warp_block_mask:
            return f"block_mask(block_mask_at, {word})"
        return emit_warp_block_mask(self, self.schedule).format(word=word)

    def _split_range(self) -> list[str]:
        """Lines that restrict the key blocks to the split of this block, `count` of them."""
        lines = [
            "before = int32(udiv(int64(count) * part, int64(parts)))",
            "count = int32(udiv(int64(count) * (part + 1), int64(parts)) - before)",
        ]
        if not self.has_block_mask:
            return lines
        return [
            *lines,
            "passed = int32(0)",
            "while (left == 0) & (word > 0):",
            "    word = int32(word - 1)",
            f"    left, full = {self._mask_bits('word')}",
            "    if passed + popc(left) <= before:",
            "        passed, left = int32(passed + popc(left)), int32(0)",
            "while passed < before:",
            "    passed, left = int32(passed + 1), int32(left ^ (1 << find_leading_one(left)))",
        ]

    def _next_kv_block(self) -> list[str]:
        """Lines that find the next active key block, from the last one on: the last block is often partial, and the
        first iteration has the masked code."""
        if not self.has_block_mask:
            return [f"tile = int32({'before + ' * self.schedule.is_split_kv}count - 1 - k)"]
        return [
            "while left == 0:",
            "    word = int32(word - 1)",
            f"    left, full = {self._mask_bits('word')}",
            "bit = find_leading_one(left)",
            "tile, left = int32(word * 32 + bit), int32(left ^ (1 << bit))",
        ]

    # -- split-KV

    def _combine_splits(self) -> None:
        """Combine the splits in a tree: each block stores its state; the last of a few neighbours combines theirs and
        stores the result for the next level. The last block of the root computes the epilogue."""
        use, own = self.stream.combine_splits, self.weighted_sum.state
        assert use is not None
        rows = ", ".join(v.dtype.name for v in use.accumulators)
        shape = f'"{rows}", "{own.dtype.name}", {self.out_columns}, {self.schedule.block_threads}'
        self.top += [f"{how}_state = {how}_partial_state({shape})" for how in ("store", "load")] + [
            "comes_last = is_last_block"
        ]
        size, held = (
            partial_state_bytes(self.schedule, self.kernel),
            ", ".join(v.name for v in (*use.accumulators, own)),
        )
        begin = [f"{v.name} = splat_{v.dtype.name}({text})" for v, text in zip(use.accumulators, use.identity)]
        theirs = ", ".join(v.name for v in (*use.inputs, self._split_output()))
        take = [
            f"{theirs} = load_state(states_at + (part * {COMBINE_FAN_IN} + k) * step)",
            "k = int32(k + 1)",
            *self.lines_of(self._combine_split),
        ]
        merge = [
            *begin,
            f"{own.name} = zero_output()",
            "k = int32(0)",
            "while k < count:",
            *indented(take),
            f"counter, step, parts = int64(counter + groups), int64(step * {COMBINE_FAN_IN}), groups",
            "if groups == 1:",
            "    more = False",
            *indented(self.lines_of(self.emit_epilogue)),
        ]
        level = [
            f"store_state(states_at + part * step, {held})",
            f"groups = int32((parts + {COMBINE_FAN_IN - 1}) >> {COMBINE_FAN_IN.bit_length() - 1})",
            f"part = int32(part >> {COMBINE_FAN_IN.bit_length() - 1})",
            f"count = int32(minimum({COMBINE_FAN_IN}, parts - part * {COMBINE_FAN_IN}))",
            "more = comes_last(semaphores, counter + part, count)",
            "if more:",
            *indented(merge),
        ]
        self.code += [
            f"states_at, step = workspace + int64(work_tile) * parts * {size}, int64({size})",
            "counter, more = int64(work_tile) * parts, True",
            "while more:",
            *indented(level),
        ]

    def _combine_split(self) -> None:
        """Lines that combine the state with that of a split."""
        use, own, weighing = self.stream.combine_splits, self.weighted_sum.state, self.weighted_sum
        assert use is not None and weighing.combine_splits is not None
        self.domain |= {v.name: ROW for v in (*use.accumulators, *use.inputs)}
        self.domain |= {own.name: OUTPUT, self._split_output().name: OUTPUT}
        made = self.call("merge_rows", use.combine, ROW)[: len(use.accumulators)]
        (sums,) = self.call("merge_sums", weighing.combine_splits, OUTPUT)
        self.code += [f"{v.name} = {name}" for v, name in zip((*use.accumulators, own), (*made, sums))]

    def _split_output(self) -> Value:
        """The argument of `combine_splits` that is the sum of a split."""
        weighing = self.weighted_sum
        assert weighing.combine_splits is not None and self.stream.combine_splits is not None
        known = {weighing.state.name, *(v.name for v in self.stream.combine_splits.combine.results)}
        return next(v for v in weighing.combine_splits.args if v.name not in known)

    # -- operand tiles

    @property
    def _uses_cp_async(self) -> bool:
        """True if an operand is loaded by cp.async (sm_80 and later)."""
        return any(self.schedule.cp_async)

    def _load_tile(self, name: str, first: str) -> list[str]:
        """Lines that load a tile of an operand to shared memory, from row `first` on."""
        s, number = self.schedule, ("q", "k", "v").index(name)
        k = self.operands.multiplied[number]
        lines, along = (s.rows, self.query_axis) if name == "q" else (s.columns, self.kv_axis)
        inner, width = (self.weighted_sum.axis, s.head_dim_v) if name == "v" else (self.score.axis, s.head_dim)
        size = self.kernel.operands[k].dtype.itemsize
        room = s.row_bytes(width)
        step = self.step(k, along)
        if s.cp_async[number] and name == "q" and self.packed_gqa_axis is not None:
            self._define_top("copy_q", f"copy_rows({lines}, {width * size}, {room}, {s.block_threads}, True)")
            further = f"{self.step(k, self.packed_gqa_axis)} * {size}, n{along}"
            return [f"copy_q(q_at, {self.base_address(k)}, {step} * {size}, {first}, {self.row_limit}, {further})"]
        if paged_row(self, name) is not None:
            self._define_top(f"copy_{name}", f"lookup.copy({width * size}, {room}, {s.block_threads})")
            return [f"copy_{name}({name}_at, {name}_lines)"]
        if s.cp_async[number]:
            self._define_top(f"copy_{name}", f"copy_rows({lines}, {width * size}, {room}, {s.block_threads})")
            return [f"copy_{name}({name}_at, {self.base_address(k)}, {step} * {size}, {first}, n{along})"]
        across = self.kernel.operands[k].strides[along] == "1"
        elements, d = room // s.itemsize, self.kernel.operands[k].dtype
        self._define_top("P", f'Tile(width=1, vectors={ELEMENTS_PER_LOAD}, step=1, checks="{"." * ELEMENTS_PER_LOAD}")')
        self._define_top(f"{name}_places", f"row_addresses({lines}, {elements}, {s.block_threads}, {across})")
        self._define_top(f"put_{name}", f'put_rows("{s.smem_dtype}", {lines}, {elements})')
        self._reader(name, d.name, size)
        strides = f"{step}, {self.step(k, inner)}"
        given = f"{self.base_address(k)}, int64({first}), {strides}, n{along}, n{inner}"
        return [
            "piece = int32(0)",
            f"while piece < {lines * elements}:",
            f"    lines_here, columns_here = {name}_places(piece)",
            f"    elements = read_{name}(lines_here, columns_here, {given})",
            f"    put_{name}({name}_at, lines_here, columns_here, elements)",
            f"    piece = int32(piece + {ELEMENTS_PER_LOAD * s.block_threads})",
        ]

    def _define_top(self, name: str, text: str) -> None:
        if f"{name} = {text}" not in self.top:
            self.top.append(f"{name} = {text}")

    def _reader(self, name: str, kind: str, size: int) -> None:
        """Emit the predicated load of one element, for operands that are loaded element by element."""
        if ("reader", name) in self.function_names:
            return
        self.function_names["reader", name] = f"read_{name}"
        signed = f"{', '.join(['int64'] * 8)} -> {dtype(kind).compute.name}"
        self.functions += [
            *("", "", f'@P.elementwise("{signed}")'),
            f"def read_{name}(line, column, at, first, step, further, lines, columns):",
            "    wanted = (first + line < lines) & (column < columns)",
            f"    return fetch_{kind}(at + ((first + line) * step + column * further) * {size}, wanted)",
        ]

    # -- main loop

    def _mainloop(self) -> None:
        s, score = self.schedule, self.score.value.name
        first = f"tile * {s.columns}"
        gather = self.stream.paged
        right = PagedLookupEmitter(self, gather).emit_lookup(first) if gather else []
        right += self._load_tile("k", first)
        send, sent = (["commit_group()"], ["sent()"]) if self._uses_cp_async else ([], [])
        weighed = [*self._load_tile("v", "column_from"), *send] if self.has_output else []
        self.code += [*self._load_tile("q", "row_from"), "k = int32(0)", *self._next_kv_block(), *right, *send]
        if s.tensor_cores:
            multiply = [f"{score} = compute_qk(q_at, k_at)"]
        else:
            steps = s.row_bytes(s.head_dim) // STEP_BYTES
            multiply = _steps(steps, [f"{score} = accumulate_qk({score}, q_at, k_at, step)"])
            multiply.insert(0, f"{score} = zero_scores()")
        loop = [
            f"column_from = {first}",
            f"entire = {self.full_test()}",
            *emit_valid_words(self),
            *(*sent, "barrier()", *weighed),
            *multiply,
            *(*sent, "barrier()"),
            "k = int32(k + 1)",
            "if k < count:",
            *indented([*self._next_kv_block(), *right, *send]),
            *self.emit_phases("entire"),
            *self.rescale_output(),
            *(self._accumulate_pv() if self.has_output else []),
        ]
        self.code += ["while k < count:", *indented(loop)]

    def _accumulate_pv(self) -> list[str]:
        """Lines that accumulate p·v of a tile."""
        s, own, weight = self.schedule, self.weighted_sum.state.name, self.weighted_sum.p.name
        if s.tensor_cores:
            return [f"{own} = accumulate_pv({own}, pack({weight}), v_at)"]
        added = [f"{own} = accumulate_pv({own}, p_at, v_at, step)"]
        return [f"write_p(p_at, {weight})", *_steps(s.columns * s.itemsize // COPY_BYTES, added)]


def _steps(count: int, lines: list[str]) -> list[str]:
    return ["step = int32(0)", f"while step < {count}:", *indented([*lines, "step = int32(step + 1)"])]
