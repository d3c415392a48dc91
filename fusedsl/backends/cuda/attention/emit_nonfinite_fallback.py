"""Emits the nonfinite fallback: a warp with a sum that is not finite computes its rows again, row by row.

Tensor cores multiply masked elements by 0, so that NaN and infinities of masked elements reach the sums. In the
fallback, the elements of a row lie across the 32 lanes of a warp; row values are uniform.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.attention import OutputEpilogue
from ....kernel_ir.phase import Body
from ..emit.source_text import either, indented
from .emit_fragment import OUTPUT_ROW, QK_ROW, SCALAR, FragmentEmitter
from .emit_paged_kv import paged_row
from .sm90_schedule import ROWS, WARP_ROWS

if TYPE_CHECKING:
    from .emit_softmax import AttentionEmitter


def emit_nonfinite_fallback(w: AttentionEmitter) -> list[str]:
    """Lines that test whether all sums of a warp are `finite`, and recompute its rows if not; none without a mask."""
    if w.weighted_sum.is_active is None:
        return []
    w.top.append("any_nonfinite = output_fragment.any_nonfinite()")
    again = [*w.reload_work_info(), *FallbackRowEmitter(w).rows()]
    return [f"finite = any_nonfinite({w.weighted_sum.state.name}) == False", *either("finite", [], again)]


class FallbackRowEmitter(FragmentEmitter):
    """Emitter of the fallback in the file of `w`, one row at a time: names of values of one row end in `_one`."""

    def __init__(self, w: AttentionEmitter):
        super().__init__(w.kernel, w.query_axis, w.value_axis, w.packed_gqa_axis)
        self.w, self.stream, self.weighted_sum = w, w.stream, w.weighted_sum
        self.top, self.functions, self.function_names, self.approx = w.top, w.functions, w.function_names, w.approx
        self.domain = {name: kind for name, kind in w.domain.items() if kind == SCALAR}
        self.uniform = frozenset(self.domain)
        self.output_name = self.named(w.weighted_sum.state.name)

    def named(self, name: str) -> str:
        return name if name in self.uniform else f"{name}_one"

    def leaf_domain(self, name: str) -> str | None:
        axes = self.axes_of(name)
        return None if axes is None else OUTPUT_ROW if self.value_axis in axes else SCALAR

    def axis_position(self, axis: int) -> str:
        places = {
            self.query_axis: "row_one",
            self.kv_axis: "step",
            self.value_axis: "column_one",
            self.packed_gqa_axis: "above_one",
        }
        return places.get(axis, f"c{axis}")

    def rows(self) -> list[str]:
        """Lines that loop over the rows of a warp."""
        width, out = self.w.tiling.head_dim, self.w.tiling.head_dim_v
        self.top += [
            f"score_row, own_row = WarpRow({width}), WarpRow({out})",
            f'multiply_row = score_row.product("{self.w.score.value.dtype}")',
        ]
        warp = f"warpgroup * {ROWS} + (reread_thread_idx() >> 5 & {ROWS // WARP_ROWS - 1}) * {WARP_ROWS}"
        row = ["row_one = int64(again_from + again)"]
        if self.packed_gqa_axis is not None:
            row += [
                f"above_one = udiv(row_one, n{self.query_axis})",
                f"row_one = row_one - above_one * n{self.query_axis}",
            ]
        return [
            f"again_from, again = int32(row_from + {warp}), int32(0)",
            f"while (again < {WARP_ROWS}) & (again_from + again < {self.w.row_limit}):",
            *indented([*row, *self.lines_of(self._row), "again = int32(again + 1)"]),
        ]

    def _row(self) -> None:
        """One row: its sums over the keys, and its epilogue."""
        stream, own = self.stream, self.weighted_sum.state
        self._states()
        for body in stream.row_inputs:
            self._apply(f"read_{body.results[0].name}_one", body)
        for phase in stream.tile_phases:
            if phase.row:
                self._apply("row_again", phase.row)
        self.define("no_line", OUTPUT_ROW, f"{own.dtype} -> {own.dtype}", "x", ["return x"])
        self.code += [
            f"left_one = {self._line('score_row', 0, self.w.score.axis, self.query_axis, self.packed_gqa_axis)}",
            f"{self.output_name} = no_line({own.dtype}(0))",
        ]
        self.code.append("step = int64(0)")
        self.code += [f"while step < n{self.kv_axis}:", *indented([*self.lines_of(self._element), "step += 1"])]
        self.domain[own.name] = OUTPUT_ROW
        if stream.row_epilogue:
            self._apply("finish_again", stream.row_epilogue)
        for number, ending in enumerate(stream.epilogues):
            self._ending(number, ending)

    def _states(self) -> None:
        """The row's state, out of those of the lanes that had it; what it is measured from is final."""
        stream, use = self.stream, self.stream.state
        folds = {f.accumulators[0].name: f for phase in stream.tile_phases for f in phase.folds}
        for value, lifted in zip(use.accumulators, use.inputs):
            apart = lifted.name in folds and self.w.reduces_late(folds[lifted.name])
            all_rows = f"all_reduce_{self.w.row_reductions[lifted.name]}({value.name})" if apart else value.name
            self.code.append(f"{self.named(value.name)} = row_of({all_rows}, again)")
        levels = stream.update_row_max.results if stream.update_row_max else ()
        for lifted, value, _ in zip(use.inputs, use.accumulators, levels):
            self.code.append(f"{self.named(lifted.name)} = {self.named(value.name)}")
        self.domain |= {v.name: SCALAR for v in (*use.accumulators, *use.inputs[: len(levels)])}

    def _apply(self, stem: str, body: Body, domain: str = SCALAR) -> None:
        self.load_leaves(v.name for v in body.args)
        self.call(stem, body, domain)

    def _line(self, row: str, number: int, axis: int, *axes: int | None) -> str:
        """The elements along an axis of a product's operand, at the row's places on other axes."""
        k = self.w.operands.multiplied[number]
        self.top.append(f"load_{self.names.operand(k)} = {row}.load({self._form(k, axis)})")
        return f"load_{self.names.operand(k)}({self._at(k, *axes)}, {self.step(k, axis)})"

    def _form(self, k: int, axis: int) -> str:
        """The type of an operand, and how its elements lie along an axis."""
        operand = self.kernel.operands[k]
        return f'"{operand.dtype}", "{1 if operand.strides[axis] == "1" and operand.access == "vector" else "s"}"'

    def _at(self, k: int, *axes: int | None) -> str:
        """Where an operand is at the row's places on some axes."""
        terms = [f"{self.axis_position(a)} * {self.byte_step(k, a)}" for a in axes if a is not None]
        return " + ".join([self.base_address(k), *terms])

    def _element(self) -> None:
        """What one element of the stream adds."""
        stream, score = self.stream, self.w.score.value
        self._look_up()
        read = self._right_line("k", "score_row", 1, self.w.score.axis)
        self.code.append(f"{self.named(score.name)} = multiply_row(left_one, {read})")
        self.domain[score.name] = SCALAR
        weighing = self.weighted_sum
        assert weighing.is_active is not None
        for number, body in enumerate(
            (*stream.mask_inputs, *(phase.element for phase in stream.tile_phases), weighing.is_active)
        ):
            self._apply(f"again_{number}", body)
        own, weight, kept = weighing.state, weighing.p, weighing.is_active.results[0].name
        read = self._right_line("v", "own_row", -1, self.value_axis)
        signed = f"{own.dtype}, {weight.dtype}, bool, {own.dtype} -> {own.dtype}"
        self.define("add_kept", OUTPUT_ROW, signed, "sums, w, kept, x", ["return select(kept, fma(w, x, sums), sums)"])
        self.code.append(
            f"{self.output_name} = add_kept({self.output_name}, {self.named(weight.name)}, {self.named(kept)}, {read})"
        )

    def _look_up(self) -> None:
        """Where the lines of one place on the stream are."""
        if self.stream.paged is not None:
            self._apply("look_up_one", self.stream.paged.body)

    def _right_line(self, name: str, row: str, number: int, axis: int) -> str:
        """The elements of a right operand at one place on the stream."""
        line = paged_row(self.w, name)
        if line is None:
            return self._line(row, number, axis, self.kv_axis)
        self.top.append(f"load_{name}_line = {row}.load({self._form(line.operand, axis)})")
        kind = self.kernel.operands[line.operand].dtype.compute.name
        self.define(f"no_{name}_line", QK_ROW if name == "k" else OUTPUT_ROW, f"{kind} -> {kind}", "x", ["return x"])
        read = f"{name}_line = load_{name}_line({self.named(line.address.name)}, int64(1))"
        self.code += [f"{name}_line = no_{name}_line({kind}(0))", *either(self.named(line.predicate.name), [read], [])]
        return f"{name}_line"

    def _ending(self, number: int, ending: OutputEpilogue) -> None:
        """What lies along the row, and its stores."""
        if any(self.leaf_domain(v.name) == OUTPUT_ROW for v in ending.body.args):
            self.define("clamp_line", OUTPUT_ROW, "int64, int64 -> int64", "c, n", ["return minimum(c, n - 1)"])
            self.top.append("own_row_places = own_row.places()")
            self.code.append(f"column_one = clamp_line(own_row_places(), n{self.value_axis})")
        self._apply(f"end_again_{number}", ending.body, OUTPUT_ROW)
        for store in ending.stores:
            k, value = store.operand, self.named(store.value)
            name = f"store_one_{self.names.operand(k)}"
            self.top.append(f"{name} = own_row.store({self._form(k, ending.axis)})")
            place = self._at(k, self.query_axis, self.packed_gqa_axis)
            self.code.append(f"{name}({place}, {value}, {self.step(k, ending.axis)})")
