"""Results of a warp's rows once more, row by row, where some of their sums came out as no finite number.

A product of matrices multiplies what is masked too, by 0: NaN and infinities of masked elements would be in its sums.
Here the 32 lanes of a warp have a row: its elements lie across them, and all else of it is the same in each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.attention import Ending
from ....kernel_ir.phase import Body
from ..emit.source_text import either, indented
from .emit_fragment import KEY, LINE, SCALAR, FragmentScope
from .emit_paged_kv import line_of
from .sm90_schedule import ROWS, WARP_ROWS

if TYPE_CHECKING:
    from .emit_softmax import ScoreWriter


def exact_rows(w: ScoreWriter) -> list[str]:
    """Lines that say whether all sums of a warp are `finite`, and compute its results where they are not; none where
    every element counts."""
    if w.weighing.kept is None:
        return []
    w.top.append("strange = O.strange()")
    again = [*w.place_again(), *RowWriter(w).rows()]
    return [f"finite = strange({w.weighing.state.name}) == False", *either("finite", [], again)]


class RowWriter(FragmentScope):
    """The file of `w`, where one row after another is worked: names of what differs between rows end in `_one`."""

    def __init__(self, w: ScoreWriter):
        super().__init__(w.kernel, w.lane, w.own_axis, w.packed)
        self.w, self.stream, self.weighing = w, w.stream, w.weighing
        self.top, self.functions, self.made, self.quick = w.top, w.functions, w.made, w.quick
        self.domain = {name: kind for name, kind in w.domain.items() if kind == SCALAR}
        self.alike = frozenset(self.domain)
        self.own = self.named(w.weighing.state.name)

    def named(self, name: str) -> str:
        return name if name in self.alike else f"{name}_one"

    def leaf_domain(self, name: str) -> str | None:
        axes = self.axes_of(name)
        return None if axes is None else LINE if self.own_axis in axes else SCALAR

    def axis_place(self, axis: int) -> str:
        places = {self.lane: "row_one", self.along: "step", self.own_axis: "column_one", self.packed: "above_one"}
        return places.get(axis, f"c{axis}")

    def rows(self) -> list[str]:
        """Lines that go from one of the warp's rows to the next."""
        width, out = self.w.tiles.width, self.w.tiles.out_width
        self.top += [
            f"score_row, own_row = Row({width}), Row({out})",
            f'multiply_row = score_row.product("{self.w.score.value.dtype}")',
        ]
        warp = f"group * {ROWS} + (thread_again() >> 5 & {ROWS // WARP_ROWS - 1}) * {WARP_ROWS}"
        row = ["row_one = int64(again_from + again)"]
        if self.packed is not None:
            row += [f"above_one = share(row_one, n{self.lane})", f"row_one = row_one - above_one * n{self.lane}"]
        return [
            f"again_from, again = int32(row_from + {warp}), int32(0)",
            f"while (again < {WARP_ROWS}) & (again_from + again < {self.w.row_limit}):",
            *indented([*row, *self.written(self._row), "again = int32(again + 1)"]),
        ]

    def _row(self) -> None:
        """One row: its sums over the stream, and what comes of them."""
        stream, own = self.stream, self.weighing.state
        self._states()
        for body in stream.row_inputs:
            self._apply(f"read_{body.results[0].name}_one", body)
        for phase in stream.tile:
            if phase.row:
                self._apply("row_again", phase.row)
        self.define("no_line", LINE, f"{own.dtype} -> {own.dtype}", "x", ["return x"])
        self.code += [
            f"left_one = {self._line('score_row', 0, self.w.score.axis, self.lane, self.packed)}",
            f"{self.own} = no_line({own.dtype}(0))",
        ]
        self.code.append("step = int64(0)")
        self.code += [f"while step < n{self.along}:", *indented([*self.written(self._element), "step += 1"])]
        self.domain[own.name] = LINE
        if stream.row:
            self._apply("finish_again", stream.row)
        for number, ending in enumerate(stream.endings):
            self._ending(number, ending)

    def _states(self) -> None:
        """The row's state, out of those of the lanes that had it; what it is measured from is final."""
        stream, use = self.stream, self.stream.state
        folds = {f.accumulators[0].name: f for phase in stream.tile for f in phase.folds}
        for value, lifted in zip(use.accumulators, use.inputs):
            apart = lifted.name in folds and self.w.waits(folds[lifted.name])
            all_rows = f"join_{self.w.joins[lifted.name]}({value.name})" if apart else value.name
            self.code.append(f"{self.named(value.name)} = row_of({all_rows}, again)")
        levels = stream.join.results if stream.join else ()
        for lifted, value, _ in zip(use.inputs, use.accumulators, levels):
            self.code.append(f"{self.named(lifted.name)} = {self.named(value.name)}")
        self.domain |= {v.name: SCALAR for v in (*use.accumulators, *use.inputs[: len(levels)])}

    def _apply(self, stem: str, body: Body, domain: str = SCALAR) -> None:
        self.leaves(v.name for v in body.args)
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
        terms = [f"{self.axis_place(a)} * {self.byte_step(k, a)}" for a in axes if a is not None]
        return " + ".join([self.base(k), *terms])

    def _element(self) -> None:
        """What one element of the stream adds."""
        stream, score = self.stream, self.w.score.value
        self._look_up()
        read = self._right_line("right", "score_row", 1, self.w.score.axis)
        self.code.append(f"{self.named(score.name)} = multiply_row(left_one, {read})")
        self.domain[score.name] = SCALAR
        weighing = self.weighing
        assert weighing.kept is not None
        for number, body in enumerate((*stream.inputs, *(phase.element for phase in stream.tile), weighing.kept)):
            self._apply(f"again_{number}", body)
        own, weight, kept = weighing.state, weighing.weight, weighing.kept.results[0].name
        read = self._right_line("weighed", "own_row", -1, self.own_axis)
        signed = f"{own.dtype}, {weight.dtype}, bool, {own.dtype} -> {own.dtype}"
        self.define("add_kept", LINE, signed, "sums, w, kept, x", ["return select(kept, fma(w, x, sums), sums)"])
        self.code.append(f"{self.own} = add_kept({self.own}, {self.named(weight.name)}, {self.named(kept)}, {read})")

    def _look_up(self) -> None:
        """Where the lines of one place on the stream are."""
        if self.stream.gather is not None:
            self._apply("look_up_one", self.stream.gather.body)

    def _right_line(self, name: str, row: str, number: int, axis: int) -> str:
        """The elements of a right operand at one place on the stream."""
        line = line_of(self.w, name)
        if line is None:
            return self._line(row, number, axis, self.along)
        self.top.append(f"load_{name}_line = {row}.load({self._form(line.operand, axis)})")
        kind = self.kernel.operands[line.operand].dtype.compute.name
        self.define(f"no_{name}_line", KEY if name == "right" else LINE, f"{kind} -> {kind}", "x", ["return x"])
        read = f"{name}_line = load_{name}_line({self.named(line.address.name)}, int64(1))"
        self.code += [f"{name}_line = no_{name}_line({kind}(0))", *either(self.named(line.wanted.name), [read], [])]
        return f"{name}_line"

    def _ending(self, number: int, ending: Ending) -> None:
        """What lies along the row, and its stores."""
        if any(self.leaf_domain(v.name) == LINE for v in ending.body.args):
            self.define("clamp_line", LINE, "int64, int64 -> int64", "c, n", ["return minimum(c, n - 1)"])
            self.top.append("own_row_places = own_row.places()")
            self.code.append(f"column_one = clamp_line(own_row_places(), n{self.own_axis})")
        self._apply(f"end_again_{number}", ending.body, LINE)
        for store in ending.stores:
            k, value = store.operand, self.named(store.value)
            name = f"store_one_{self.names.operand(k)}"
            self.top.append(f"{name} = own_row.store({self._form(k, ending.axis)})")
            place = self._at(k, self.lane, self.packed)
            self.code.append(f"{name}({place}, {value}, {self.step(k, ending.axis)})")
