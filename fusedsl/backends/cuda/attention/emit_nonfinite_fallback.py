"""Emits the nonfinite fallback: a warp with a sum that is not finite computes its rows again, row by row.

Tensor cores multiply masked elements by 0, so that NaN and infinities of masked elements reach the sums. In the
fallback, the elements of a row lie across the 32 lanes of a warp; row values are uniform, and names of values of one
row end in `_row`.
"""

from __future__ import annotations

from ....kernel_ir.attention import OutputEpilogue
from ..emit.file_builder import either
from ..mma.tile_sizes import ROWS, WARP_ROWS
from .emit_facts import AttentionFacts
from .emit_fragment import OUTPUT, Domain, FragmentEmitter, IndexSpace
from .emit_softmax import OnlineSoftmax
from .intrinsics import WarpRow, WarpRowIntrinsics

QK_ROW, OUTPUT_ROW = WarpRowIntrinsics("qk_row"), WarpRowIntrinsics("output_row")


def row_space(facts: AttentionFacts) -> IndexSpace:
    """The index space of one query row and one key, whose output elements lie across a warp."""
    indices = {
        facts.query_axis: "query_row",
        facts.kv_axis: "step",
        facts.value_axis: "column_row",
        facts.packed_gqa_axis: "head_row",
    }
    return IndexSpace(indices, lambda axes: Domain.OUTPUT_ROW if facts.value_axis in axes else Domain.SCALAR, "_row")


class NonfiniteFallback:
    """The fallback of a work tile, whose state and sums are values of `tile`."""

    def __init__(self, tile: FragmentEmitter, softmax: OnlineSoftmax):
        self.facts, self.body, self.kernel = tile.facts, tile.facts.body, tile.kernel
        self.softmax, self.values = softmax, tile.in_space(row_space(tile.facts), tile.approx)
        self.output = self.values.named(tile.facts.output)

    def emit(self, reload: list[str]) -> None:
        """If a mask exists: emit a test that all sums of a warp are finite, and a loop that recomputes its rows if not.

        `reload` are the lines that reload the work tile's coordinates, if no register holds them.
        """
        if self.facts.weighted_sum.is_active is None:
            return
        source = self.values.source
        source.bind("any_nonfinite", OUTPUT.any_nonfinite())
        source.assign("finite", f"any_nonfinite({self.facts.output}) == False")
        with source.if_("not (finite)"):
            source.emit(*reload)
            self._emit_rows()

    def _emit_rows(self) -> None:
        """Emit the loop over the rows of a warp."""
        source, facts = self.values.source, self.facts
        group, n, tiling = facts.packed_gqa_axis, f"n{facts.query_axis}", facts.tiling
        source.bind_several({"qk_row": WarpRow(tiling.head_dim), "output_row": WarpRow(tiling.head_dim_v)})
        source.bind("multiply_row", QK_ROW.product(facts.score.value.dtype.name))
        warp = f"warpgroup * {ROWS} + (reread_thread_idx() >> 5 & {ROWS // WARP_ROWS - 1}) * {WARP_ROWS}"
        source.emit(f"warp_from, warp_row = int32(row_from + {warp}), int32(0)")
        rows = f"(warp_row < {WARP_ROWS}) & (warp_from + warp_row < {facts.row_limit})"
        with source.while_(rows), self.values.scope():
            source.emit("query_row = int64(warp_from + warp_row)")
            if group is not None:
                source.emit(f"head_row = udiv(query_row, {n})", f"query_row = query_row - head_row * {n}")
            self._emit_row()
            source.emit("warp_row = int32(warp_row + 1)")

    def _emit_row(self) -> None:
        """One row: its sums over the keys, and its epilogue."""
        values, facts, dtype = self.values, self.facts, self.facts.weighted_sum.state.dtype
        self._emit_state()
        for body in self.body.row_inputs:
            values.apply(f"read_{body.results[0].name}_row", body, Domain.SCALAR)
        for phase in self.body.tile_phases:
            if phase.row:
                values.apply("fallback_row", phase.row, Domain.SCALAR)
        values.define("splat_output_row", Domain.OUTPUT_ROW, f"{dtype} -> {dtype}", "x", ["return x"])
        q = self._load_row(QK_ROW, facts.operands.q, facts.score.axis, facts.query_axis, facts.packed_gqa_axis)
        values.emit(f"q_row = {q}", f"{self.output} = splat_output_row({dtype}(0))", "step = int64(0)")
        with values.source.while_(f"step < n{facts.kv_axis}"), values.scope():
            self._emit_key()
            values.source.emit("step += 1")
        values.domain[facts.output] = Domain.OUTPUT_ROW
        if self.body.row_epilogue:
            values.apply("fallback_row_epilogue", self.body.row_epilogue, Domain.SCALAR)
        for number, epilogue in enumerate(self.body.epilogues):
            self._emit_outputs(number, epilogue)

    def _emit_state(self) -> None:
        """The row's state, read from the lanes that hold it; the reference is final by now, so nothing is rescaled."""
        values, state, late = self.values, self.body.state, self.softmax.late_reductions()
        for v in state.accumulators:
            reduced = f"all_reduce_{late[v.name]}({v.name})" if v.name in late else v.name
            values.emit(f"{values.named(v.name)} = row_of({reduced}, warp_row)")
        maxima = self.body.update_row_max.results if self.body.update_row_max else ()
        for v, accumulator, _ in zip(state.inputs, state.accumulators, maxima):
            values.emit(f"{values.named(v.name)} = {values.named(accumulator.name)}")
        values.domain |= {v.name: Domain.SCALAR for v in (*state.accumulators, *state.inputs[: len(maxima)])}

    def _emit_key(self) -> None:
        """One key: its score, and what p·v adds to the output row."""
        values, facts, pv = self.values, self.facts, self.facts.weighted_sum
        assert pv.is_active is not None
        if self.body.paged is not None:
            values.apply("look_up_row", self.body.paged.body, Domain.SCALAR)
        k, score = self._load_key_row("k", QK_ROW, facts.score.axis), facts.score.value.name
        values.emit(f"{values.named(score)} = multiply_row(q_row, {k})")
        values.domain[score] = Domain.SCALAR
        bodies = (*self.body.mask_inputs, *(phase.element for phase in self.body.tile_phases), pv.is_active)
        for number, body in enumerate(bodies):
            values.apply(f"fallback_{number}", body, Domain.SCALAR)
        v, p, active = self._load_key_row("v", OUTPUT_ROW, pv.axis), pv.p, pv.is_active.results[0].name
        types = f"{pv.state.dtype}, {p.dtype}, bool, {pv.state.dtype} -> {pv.state.dtype}"
        add = ["return select(active, fma(p, x, sums), sums)"]
        values.define("accumulate", Domain.OUTPUT_ROW, types, "sums, p, active, x", add)
        added = f"{self.output}, {values.named(p.name)}, {values.named(active)}, {v}"
        values.emit(f"{self.output} = accumulate({added})")

    def _load_row(self, row: WarpRowIntrinsics, k: int, inner: int, *axes: int | None) -> str:
        """The load of an operand's row along axis `inner`, at the indices on other axes."""
        load = self.values.source.bind(f"load_{self.facts.names.operand(k)}", row.load(*self._form(k, inner)))
        return load(self._address(k, *axes), self.facts.step(k, inner))

    def _load_key_row(self, name: str, row: WarpRowIntrinsics, inner: int) -> str:
        """The row of "k" or "v" of one key: a load, or, if paged, a row that is zero unless its page is present."""
        values, paged = self.values, self.facts.paged_row(name)
        if paged is None:
            k = self.facts.operands.k if name == "k" else self.facts.operands.v
            return self._load_row(row, k, inner, self.facts.kv_axis)
        load = values.source.bind(f"load_{name}_row", row.load(*self._form(paged.operand, inner)))
        dtype = self.kernel.operands[paged.operand].dtype.compute.name
        domain = Domain.QK_ROW if name == "k" else Domain.OUTPUT_ROW
        values.define(f"splat_{name}_row", domain, f"{dtype} -> {dtype}", "x", ["return x"])
        values.emit(f"{name}_row = splat_{name}_row({dtype}(0))")
        loaded = f"{name}_row = {load(values.named(paged.address.name), 'int64(1)')}"
        values.emit(*either(values.named(paged.predicate.name), [loaded], []))
        return f"{name}_row"

    def _form(self, k: int, axis: int) -> tuple[str, str]:
        """(dtype of an operand, its stride kind along an axis)"""
        operand = self.kernel.operands[k]
        return operand.dtype.name, "1" if operand.strides[axis] == "1" and operand.access == "vector" else "s"

    def _address(self, k: int, *axes: int | None) -> str:
        """The address of an operand at the indices on some axes."""
        terms = [f"{self.values.index(a)} * {self.facts.byte_step(k, a)}" for a in axes if a is not None]
        return " + ".join([self.facts.base_address(k), *terms])

    def _emit_outputs(self, number: int, epilogue: OutputEpilogue) -> None:
        """Emit the elements of an output row, and their stores."""
        values, facts = self.values, self.facts
        if any(values.leaf_domain(v.name) is Domain.OUTPUT_ROW for v in epilogue.body.args):
            clamped = ["return minimum(c, n - 1)"]
            values.define("clamp_output_row", Domain.OUTPUT_ROW, "int64, int64 -> int64", "c, n", clamped)
            values.source.bind("output_row_columns", OUTPUT_ROW.places())
            values.emit(f"column_row = clamp_output_row(output_row_columns(), n{facts.value_axis})")
        values.apply(f"fallback_epilogue_{number}", epilogue.body, Domain.OUTPUT_ROW)
        for store in epilogue.stores:
            k, name = store.operand, f"fallback_store_{facts.names.operand(store.operand)}"
            write = values.source.bind(name, OUTPUT_ROW.store(*self._form(k, epilogue.axis)))
            address = self._address(k, facts.query_axis, facts.packed_gqa_axis)
            values.emit(write(address, values.named(store.value), facts.step(k, epilogue.axis)))
