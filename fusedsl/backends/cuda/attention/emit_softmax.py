"""Emits what sm_90 and mma.sync attention share around the key tiles: initial row state and output epilogue.

A row belongs to a quad of four threads (intrinsics/fragment.py): reductions run along the rows of fragments, and a
score and the values computed from it stay in one thread.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....kernel_ir.attention import OutputEpilogue
from ....kernel_ir.phase import Body, Store
from ..emit.source_text import either
from .emit_fragment import ELEMENT, OUTPUT, OUTPUT_COLUMN, OUTPUT_IN_CHUNKS, ROW, SCALAR
from .emit_nonfinite_fallback import emit_nonfinite_fallback
from .emit_tile import TileEmitter
from .sm90_schedule import ROWS

PAIRED = ("bfloat16", "float16", "float32", "float64")  # output dtypes that are stored two elements at a time


class AttentionEmitter(TileEmitter):
    """Emitter of the row state and the output epilogue of every attention kernel."""

    def outer_coordinates(self) -> list[str]:
        """Lines that split index `other` into coordinates on the outer axes (batch, head)."""
        lines, rest = [], "other"
        for a in reversed(self.outer):
            if a == self.outer[0]:
                lines.append(f"c{a} = {rest}")
                continue
            lines += [f"q{a} = udiv({rest}, int32(n{a}))", f"c{a} = int32({rest} - q{a} * n{a})"]
            rest = f"q{a}"
        return lines

    # -- row state

    def init_state(self) -> None:
        """Emit the loads of each row and the initial state."""
        use = self.stream.state
        self._row_loads()
        self.top += [f'splat_{d} = splat_rows("{d}")' for d in dict.fromkeys(v.dtype.name for v in use.accumulators)]
        self.code += [f"{v.name} = splat_{v.dtype.name}({text})" for v, text in zip(use.accumulators, use.identity)]
        self.code += [f"{extreme} = {name}" for name, extreme in self.row_maxima.items()]
        self.domain |= {v.name: ROW for v in use.accumulators}
        self.code += [f"{w.state.name} = zero_output()" for w in self.stream.weighted_sums]

    def _row_loads(self) -> None:
        """Emit the loads of each row and of scalars."""
        wanted = {v.name for body in self._bodies() for v in body.args}
        if self.loads_epilogue_late:
            wanted -= self._epilogue_only
        if self.stream.row_inputs or any(self.leaf_domain(name) in (ROW, ELEMENT) for name in wanted):
            self.code += self._row_indices()
        self.load_leaves(name for name in wanted if self.leaf_domain(name) in (ROW, SCALAR))
        for body in self.stream.row_inputs:
            self.load_leaves(v.name for v in body.args)
            self.call(f"read_{body.results[0].name}", body, ROW)

    @property
    def loads_epilogue_late(self) -> bool:
        """True if loads of the epilogue alone are issued after the last tile, so that no register holds them before."""
        return False

    @property
    def _epilogue_only(self) -> set[str]:
        """The names that only the epilogue reads."""
        stream = self.stream
        last = [stream.row_epilogue, *(ending.body for ending in stream.epilogues)]
        before = [body for body in self._bodies() if all(body is not x for x in last)]
        late = {v.name for body in last if body is not None for v in body.args}
        return late - {v.name for body in before for v in body.args}

    def _row_indices(self) -> list[str]:
        """Lines with the row indices of a thread, and the clamped ones for loads."""
        self.define("clamp_rows", ROW, "int64, int64 -> int64", "i, n", ["return minimum(i, n - 1)"])
        rows = [f"rows = rows_from(row_from + warpgroup * {ROWS})", f"row = clamp_rows(rows, {self.row_limit})"]
        if self.packed_gqa_axis is None:
            return rows
        lines = ["above = udiv(i, n)", "return above, i - above * n"]
        self.define("part_rows", ROW, "int64, int64 -> int64, int64", "i, n", lines)
        return [*rows, f"row_above, row = part_rows(row, n{self.query_axis})"]

    def _bodies(self) -> Iterable[Body]:
        stream = self.stream
        for phase in (*stream.tile_phases, *(stream.block_mask.full_phases if stream.block_mask else ())):
            yield phase.element
            yield from filter(None, (phase.row,))
        yield from (
            stream.state.combine,
            *(w.combine_tile for w in stream.weighted_sums),
            *stream.mask_inputs,
            *stream.row_inputs,
        )
        yield from filter(None, (stream.row_epilogue, stream.update_row_max))
        for ending in stream.epilogues:
            yield ending.body

    # -- epilogue

    def emit_epilogue(self) -> None:
        """Emit the outputs of a work tile from the final state."""
        self.code += self._row_indices()
        if self.has_output:
            self.nonfinite_fallback()
        self.store_outputs()

    def reload_work_info(self) -> list[str]:
        """Lines that reload the work tile's coordinates before the fallback, if no register holds them."""
        return []

    def nonfinite_fallback(self) -> None:
        """Emit the nonfinite fallback."""
        self.code += emit_nonfinite_fallback(self)

    def store_outputs(self) -> None:
        stream, use = self.stream, self.stream.state
        folds = {f.accumulators[0].name: f for phase in stream.tile_phases for f in phase.folds}
        for value, lifted in zip(use.accumulators, use.inputs):
            if lifted.name in folds and self.reduces_late(folds[lifted.name]):
                self.code.append(f"{value.name} = all_reduce_{self.row_reductions[lifted.name]}({value.name})")
        if stream.row_epilogue:
            self.load_leaves(v.name for v in stream.row_epilogue.args)
            self.call("finish_row", stream.row_epilogue, ROW)
        for number, store in enumerate(stream.row_outputs):
            operand = self.kernel.operands[store.operand]
            self.top.append(f'store_row{number} = store_row_values("{operand.dtype.name}")')
            shown = store.value
            if self.domain_of(shown) == SCALAR:
                self.top.append(f'splat_row{number} = splat_rows("{operand.dtype.compute.name}")')
                shown = f"splat_row{number}({shown})"
            at = self.row_address(store.operand)
            self.code.append(f"store_row{number}({at}, {shown}, rows, {self.row_limit})")
        if stream.epilogues:
            self.domain[self.weighted_sum.state.name] = OUTPUT
            self.top.append("own_steps = output_fragment.column_offsets()")
        lines = self.lines_of(self._epilogues)
        self.code += either("finite", lines, []) if self.has_output and self.weighted_sum.is_active else lines

    def _epilogues(self) -> None:
        for number, ending in enumerate(self.stream.epilogues):
            self._output_epilogue(number, ending)

    def _output_epilogue(self, number: int, ending: OutputEpilogue) -> None:
        self._output_values(number, ending.body)
        for store in ending.stores:
            self.store(store, ending.axis)

    def store(self, store: Store, axis: int) -> None:
        """Store output elements; their rows lie along an axis."""
        operand, width = self.kernel.operands[store.operand], self.tiling.head_dim_v
        at, name = self.row_address(store.operand), self.names.operand(store.operand)
        contiguous = operand.strides[axis] == "1"
        if contiguous and operand.access == "vector" and operand.dtype.name in PAIRED and width % 8 == 0:
            self.top.append(f'store_{name} = store_fragment({width}, "{operand.dtype.name}")')
            self.code.append(f"store_{name}({at}, {store.value}, rows, {self.row_limit})")
            return
        step = "1" if contiguous else self.names.stride(store.operand, axis)
        self.top.append(f'store_{name} = scatter_fragment({width}, "{operand.dtype.name}")')
        self.code.append(f"store_{name}({at}, {store.value}, rows, {self.row_limit}, int64({step}))")

    def _output_values(self, number: int, body: Body) -> None:
        """Emit the values of an epilogue. Loads are issued at their use: no register holds them longer."""
        loads = {load.value.name: load for load in self.kernel.loads}
        read = [v for v in body.args if v.name in loads and self.leaf_domain(v.name) in (OUTPUT, OUTPUT_COLUMN)]
        rest = [v for v in body.args if v not in read]
        if any(self.leaf_domain(v.name) == OUTPUT_COLUMN for v in rest):
            self.top.append('own_columns = output_fragment.column_index("int64")')
            self.define("clamp_own", OUTPUT_COLUMN, "int64, int64 -> int64", "c, n", ["return minimum(c, n - 1)"])
            self.code.append(f"own_column = clamp_own(own_columns(0), n{self.value_axis})")
        self.load_leaves(v.name for v in rest)
        if not read:
            self.call(f"end_{number}", body, OUTPUT)
            return
        lines = [f"there = c < {self.tiling.head_dim_v} - first"]
        given, passed = [("int64", "c"), ("int64", "first")], ["own_steps()", "first_column()"]
        for v in read:
            k = loads[v.name].operand
            operand, step = self.kernel.operands[k], self.byte_step(k, self.value_axis)
            lines.append(f"{v.name} = fetch_{operand.dtype}(at_{v.name} + c * step_{v.name}, there)")
            given += [("int64", f"at_{v.name}"), ("int64", f"step_{v.name}")]
            at = self.row_address(k) if self.leaf_domain(v.name) == OUTPUT else self.base_address(k)
            self.code.append(f"at_{v.name} = {at}")
            passed += [self.offset_rows(f"at_{v.name}", f"first_column() * {step}"), step]
        made = [v for v in body.results if v not in body.args]
        names = [name for _, name in given] + [v.name for v in rest]
        kinds = [kind for kind, _ in given] + [v.dtype.name for v in rest]
        lines += [*self.body_lines(body), f"return {', '.join(v.name for v in made)}"]
        signed = f"{', '.join(kinds)} -> {', '.join(v.dtype.name for v in made)}"
        self.define(f"end_{number}", OUTPUT_IN_CHUNKS, signed, ", ".join(names), lines)
        called = ", ".join([*passed, *(v.name for v in rest)])
        self.code.append(f"{', '.join(v.name for v in made)} = end_{number}({called})")
        self.domain |= {v.name: OUTPUT for v in made}
