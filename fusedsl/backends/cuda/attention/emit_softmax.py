"""Passes over scores, whatever multiplies them: the state of a row before its tiles, and its results after them.

All that belongs to a row stands in four neighbouring threads (intrinsics/fragment.py): folds go along the rows of
fragments, and what a score is computed from its neighbours never leaves the thread.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....kernel_ir.attention import Ending
from ....kernel_ir.phase import Body, Store
from ..emit.source_text import either
from .emit_fragment import ELEMENT, OWN, OWN_COLUMN, OWN_STEPS, ROW, SCALAR
from .emit_nonfinite_fallback import exact_rows
from .emit_tile import TileWriter
from .sm90_schedule import ROWS

PAIRED = ("bfloat16", "float16", "float32", "float64")  # results that are stored two at a time


class ScoreWriter(TileWriter):
    """What is the same in every kernel of a pass over scores, whose state is `stream`'s."""

    def place_of_other(self) -> list[str]:
        """Lines that give the place `other` on the axes that neither rows nor the stream run along."""
        lines, rest = [], "other"
        for a in reversed(self.outer):
            if a == self.outer[0]:
                lines.append(f"c{a} = {rest}")
                continue
            lines += [f"q{a} = share({rest}, int32(n{a}))", f"c{a} = int32({rest} - q{a} * n{a})"]
            rest = f"q{a}"
        return lines

    # -- a row

    def begin_state(self) -> None:
        """What is read once for each row, and the state before any tile."""
        use = self.stream.state
        self._row_leaves()
        self.top += [f'both_{d} = both_rows("{d}")' for d in dict.fromkeys(v.dtype.name for v in use.accumulators)]
        self.code += [f"{v.name} = both_{v.dtype.name}({text})" for v, text in zip(use.accumulators, use.identity)]
        self.code += [f"{extreme} = {name}" for name, extreme in self.extrema.items()]
        self.domain |= {v.name: ROW for v in use.accumulators}
        self.code += [f"{w.state.name} = no_sums()" for w in self.stream.weighings]

    def _row_leaves(self) -> None:
        """What is read once for each row, and once for all."""
        wanted = {v.name for body in self._bodies() for v in body.args}
        if self.reads_late:
            wanted -= self._read_late
        if self.stream.row_inputs or any(self.leaf_domain(name) in (ROW, ELEMENT) for name in wanted):
            self.code += self._rows()
        self.leaves(name for name in wanted if self.leaf_domain(name) in (ROW, SCALAR))
        for body in self.stream.row_inputs:
            self.leaves(v.name for v in body.args)
            self.call(f"read_{body.results[0].name}", body, ROW)

    @property
    def reads_late(self) -> bool:
        """Whether what only results need is read once the sums are there, so that no register holds it before."""
        return False

    @property
    def _read_late(self) -> set[str]:
        """The names that only results are computed of."""
        stream = self.stream
        last = [stream.row, *(ending.body for ending in stream.endings)]
        before = [body for body in self._bodies() if all(body is not x for x in last)]
        late = {v.name for body in last if body is not None for v in body.args}
        return late - {v.name for body in before for v in body.args}

    def _rows(self) -> list[str]:
        """Where the rows of a thread stand, and where they are read: known again where it is asked again."""
        self.define("clamp_rows", ROW, "int64, int64 -> int64", "i, n", ["return minimum(i, n - 1)"])
        rows = [f"rows = rows_from(row_from + group * {ROWS})", f"row = clamp_rows(rows, {self.row_limit})"]
        if self.packed is None:
            return rows
        lines = ["above = share(i, n)", "return above, i - above * n"]
        self.define("part_rows", ROW, "int64, int64 -> int64, int64", "i, n", lines)
        return [*rows, f"row_above, row = part_rows(row, n{self.lane})"]

    def _bodies(self) -> Iterable[Body]:
        stream = self.stream
        for phase in (*stream.tile, *(stream.sieve.whole if stream.sieve else ())):
            yield phase.element
            yield from filter(None, (phase.row,))
        yield from (stream.state.combine, *(w.merge for w in stream.weighings), *stream.inputs, *stream.row_inputs)
        yield from filter(None, (stream.row, stream.join))
        for ending in stream.endings:
            yield ending.body

    # -- results

    def finish(self) -> None:
        """The results of an item, from the final states."""
        self.code += self._rows()
        if self.weighs:
            self.exact()
        self.results()

    def place_again(self) -> list[str]:
        """Lines before results are made again that say where the item is, if they do not know it."""
        return []

    def exact(self) -> None:
        """Results once more, where some sums are no finite numbers."""
        self.code += exact_rows(self)

    def results(self) -> None:
        stream, use = self.stream, self.stream.state
        folds = {f.accumulators[0].name: f for phase in stream.tile for f in phase.folds}
        for value, lifted in zip(use.accumulators, use.inputs):
            if lifted.name in folds and self.waits(folds[lifted.name]):
                self.code.append(f"{value.name} = join_{self.joins[lifted.name]}({value.name})")
        if stream.row:
            self.leaves(v.name for v in stream.row.args)
            self.call("finish_row", stream.row, ROW)
        for number, store in enumerate(stream.row_stores):
            operand = self.kernel.operands[store.operand]
            self.top.append(f'store_row{number} = store_rows("{operand.dtype.name}")')
            shown = store.value
            if self.domain_of(shown) == SCALAR:
                self.top.append(f'spread{number} = both_rows("{operand.dtype.compute.name}")')
                shown = f"spread{number}({shown})"
            at = self.row_place(store.operand)
            self.code.append(f"store_row{number}({at}, {shown}, rows, {self.row_limit})")
        if stream.endings:
            self.domain[self.weighing.state.name] = OWN
            self.top.append("own_steps = O.steps()")
        lines = self.written(self._endings)
        self.code += either("finite", lines, []) if self.weighs and self.weighing.kept else lines

    def _endings(self) -> None:
        for number, ending in enumerate(self.stream.endings):
            self._ending(number, ending)

    def _ending(self, number: int, ending: Ending) -> None:
        self._own_values(number, ending.body)
        for store in ending.stores:
            self.store(store, ending.axis)

    def store(self, store: Store, axis: int) -> None:
        """Elements of results go to memory; lines lie along an axis."""
        operand, width = self.kernel.operands[store.operand], self.tiles.out_width
        at, name = self.row_place(store.operand), self.names.operand(store.operand)
        contiguous = operand.strides[axis] == "1"
        if contiguous and operand.access == "vector" and operand.dtype.name in PAIRED and width % 8 == 0:
            self.top.append(f'store_{name} = store_fragment({width}, "{operand.dtype.name}")')
            self.code.append(f"store_{name}({at}, {store.value}, rows, {self.row_limit})")
            return
        step = "1" if contiguous else self.names.stride(store.operand, axis)
        self.top.append(f'store_{name} = scatter_fragment({width}, "{operand.dtype.name}")')
        self.code.append(f"store_{name}({at}, {store.value}, rows, {self.row_limit}, int64({step}))")

    def _own_values(self, number: int, body: Body) -> None:
        """An ending's values. What it reads for each is read where it is used: no register holds it longer."""
        loads = {load.value.name: load for load in self.kernel.loads}
        read = [v for v in body.args if v.name in loads and self.leaf_domain(v.name) in (OWN, OWN_COLUMN)]
        rest = [v for v in body.args if v not in read]
        if any(self.leaf_domain(v.name) == OWN_COLUMN for v in rest):
            self.top.append('own_columns = O.positions("int64")')
            self.define("clamp_own", OWN_COLUMN, "int64, int64 -> int64", "c, n", ["return minimum(c, n - 1)"])
            self.code.append(f"own_column = clamp_own(own_columns(0), n{self.own_axis})")
        self.leaves(v.name for v in rest)
        if not read:
            self.call(f"end_{number}", body, OWN)
            return
        lines = [f"there = c < {self.tiles.out_width} - first"]
        given, passed = [("int64", "c"), ("int64", "first")], ["own_steps()", "first_column()"]
        for v in read:
            k = loads[v.name].operand
            operand, step = self.kernel.operands[k], self.byte_step(k, self.own_axis)
            lines.append(f"{v.name} = fetch_{operand.dtype}(at_{v.name} + c * step_{v.name}, there)")
            given += [("int64", f"at_{v.name}"), ("int64", f"step_{v.name}")]
            at = self.row_place(k) if self.leaf_domain(v.name) == OWN else self.base(k)
            self.code.append(f"at_{v.name} = {at}")
            passed += [self.ahead(f"at_{v.name}", f"first_column() * {step}"), step]
        made = [v for v in body.results if v not in body.args]
        names = [name for _, name in given] + [v.name for v in rest]
        kinds = [kind for kind, _ in given] + [v.dtype.name for v in rest]
        lines += [*self.written_as(body), f"return {', '.join(v.name for v in made)}"]
        signed = f"{', '.join(kinds)} -> {', '.join(v.dtype.name for v in made)}"
        self.define(f"end_{number}", OWN_STEPS, signed, ", ".join(names), lines)
        called = ", ".join([*passed, *(v.name for v in rest)])
        self.code.append(f"{', '.join(v.name for v in made)} = end_{number}({called})")
        self.domain |= {v.name: OWN for v in made}
