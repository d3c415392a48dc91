"""The attend skeleton: tiles of rows, whose scores, weights and sums stay in registers; one group of warps copies.

A group of four warps has 64 rows. Its products of a tile of scores run while the sums of the tile before take up its
weights; folds go along the rows of fragments (intrinsics/fragment.py), and what a score is computed from its
neighbours never leaves the thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...ir.types import BOOL
from ...schedule.attend import (
    ALIGNMENT,
    GROUP,
    PANEL,
    REGISTERS,
    ROWS,
    AttendSchedule,
    operands_of,
)
from ...schedule.kernel import WINDOW_WORDS, Body, FoldUse, Kernel, Load, Phase, Stream, Value, slots
from .text import Names, header, indented, rule, signature

ROW, ELEMENT, COLUMN, SCALAR, OWN, OWN_COLUMN = "row", "element", "column", "scalar", "own", "own column"
MAPS = {ROW: "S.rowwise", ELEMENT: "S.elementwise", COLUMN: "S.columnwise", SCALAR: "once", OWN: "O.elementwise"}
MAPS[OWN_COLUMN] = "O.columnwise"
QUICK = ("exp", "exp2", "maximum", "minimum", "quotient")
KINDS = {"bfloat16": "bf16", "float16": "f16"}
DIVISION = re.compile(r"^(\w+ = )([^#]+?) / ([^#]+?)(  #.*)?$")


def attend_source(kernel: Kernel, schedule: AttendSchedule) -> str:
    """The generated file of a pass over scores."""
    return _Writer(kernel, schedule).source()


class _Writer:
    def __init__(self, kernel: Kernel, schedule: AttendSchedule):
        found = operands_of(kernel)
        assert found is not None and kernel.stream is not None
        self.kernel, self.schedule, self.operands = kernel, schedule, found
        self.stream: Stream = kernel.stream
        self.names = Names(kernel)
        self.along, self.lane = kernel.row_axes, found.lane
        self.score, self.weighing = self.stream.scores[0], self.stream.weighings[0]
        self.own_axis = self.weighing.axis
        self.outer = [a for a in range(kernel.row_axes) if a != self.lane]
        self.top: list[str] = []
        self.functions: list[str] = []
        self.code: list[str] = []
        self.domain: dict[str, str] = {}  # of names that have a value
        self.made: dict[tuple, str] = {}  # functions, by what they do
        kind = kernel.operands[found.left].dtype.name
        self.kind, self.short = kind, KINDS[kind]

    # -- the file

    def source(self) -> str:
        s = self.schedule
        columns, width, out = s.columns, _whole(s.width, 16), _whole(s.out_width, 16)
        self.top += [
            f"S, O = Fragment({columns}), Fragment({out})",
            f"{', '.join(QUICK)} = {', '.join(f'quick({name!r})' for name in QUICK)}",
            f'begin_scores = score_product("{self.short}", {s.rows}, {columns}, {width})',
            f'begin_sums = weighed_product("{self.short}", {columns}, {out})',
            f"far_matrix_of, pack = far_matrix({columns}), S.pack({self.kind!r})",
            "finish_scores, finish, no_sums = await_products(1), await_products(0), O.zeros()",
            'rows_from, columns_from = row_positions("int64"), S.positions("int64")',
            "below = S.below()",
            f"take, give = more_registers({REGISTERS[s.groups][1]}), fewer_registers({REGISTERS[s.groups][0]})",
        ]
        for number, window in enumerate(self.kernel.windows):
            place = next(
                k for k, slot in enumerate(slots(self.kernel)) if (slot.kind, slot.index) == ("window", number)
            )
            self.top.append(f"map{number}, copy{number} = parameter_at({place}), copy_box({len(window.axes)})")
        self._scalars()
        self._place()
        self._classes()
        copying = self._indented(self._copy)
        computing = self._indented(self._compute)
        self.code += ["if group < 0:", *indented(copying), "else:", *indented(computing)]
        opening = header(self.kernel, self.schedule.reason.partition(":")[0], "")
        comment = f"Tiles of {s.rows} rows; scores of {columns} of the stream at a time."
        kernel = [*self._signature(), *indented([f'"""{comment}"""', *self.code])]
        return "\n".join([*opening, "", *self.top, *self.functions, "", "", *kernel]) + "\n"

    def _signature(self) -> list[str]:
        """The parameters; those of maps stand where the copy engine reads them."""
        lines, maps = [], len(self.kernel.windows) * WINDOW_WORDS
        for line in self.names.signature():
            names = line.strip().rstrip(",").split(", ")
            if names[0].startswith("map0_") and len(names) == maps:
                lines += [f"    {', '.join(names[k : k + WINDOW_WORDS])}," for k in range(0, maps, WINDOW_WORDS)]
            else:
                lines.append(line)
        return lines

    def _indented(self, write) -> list[str]:
        """What a function writes, for a branch: values that it makes are not there afterwards."""
        before, known = self.code, dict(self.domain)
        self.code = []
        write()
        made, self.code, self.domain = self.code, before, known
        return made

    # -- scalars, and where a block stands

    def _scalars(self) -> None:
        for pointer in self.kernel.pointers:
            self.code.append(f"{pointer.value.name} = {self.names.pointer(pointer.operand)}")
            self.domain[pointer.value.name] = SCALAR
        for k, value in enumerate(self.kernel.scalars):
            self.top.append(f'read_{value.name} = scalar("{value.dtype.name}")')
            self.code.append(f"{value.name} = read_{value.name}({self.names.word(k)})")
            self.domain[value.name] = SCALAR

    def _place(self) -> None:
        """The tile of rows of this block, its place on the other row axes, and its shared memory."""
        s, n = self.schedule, self.names.extent(self.lane)
        count = " * ".join([f"n{a}" for a in self.outer]) or "1"
        order = "row_tiles - 1 - rest" if self.stream.sieve else "rest"
        self.code += [
            f"row_tiles = ({n} + {s.rows - 1}) // {s.rows}",
            f"others = {count}",
            "rest = whole_quotient(int64(block()), others)",
            "other = int64(block()) - rest * others",
            f"row_from = int32(({order}) * {s.rows})",
        ]
        rest = "other"
        for a in reversed(self.outer):
            if a == self.outer[0]:
                self.code.append(f"c{a} = {rest}")
                continue
            self.code += [f"q{a} = whole_quotient({rest}, n{a})", f"c{a} = {rest} - q{a} * n{a}"]
            rest = f"q{a}"
        rows, keys = s.tile_bytes(s.rows, s.width), s.tile_bytes(s.columns, s.width)
        values, b = s.tile_bytes(s.columns, s.out_width), s.stages
        places = [rows, b * keys, b * values, 8, 8 * b, 8 * b, 8 * b, 8 * b]
        starts = [sum(places[:k]) for k in range(len(places) + 1)]
        listed = ["left_at", "right_at", "weighed_at", "left_full"]
        listed += ["right_full", "right_empty", "weighed_full", "weighed_empty", "some_at"]
        self.code.append(f"{listed[0]} = dynamic_start({ALIGNMENT})")
        self.code += [f"{name} = int32(left_at + {start})" for name, start in zip(listed[1:], starts[1:])]
        self.code += [
            "group = int32(thread() >> 7) - 1",
            f"tiles = int32((n{self.along} + {s.columns - 1}) // {s.columns})",
            "if thread() == 0:",
            "    init_barrier(left_full, 1)",
            f"    for k in range({b}):",
            "        init_barrier(right_full + 8 * k, 1)",
            "        init_barrier(weighed_full + 8 * k, 1)",
            f"        init_barrier(right_empty + 8 * k, {s.groups})",
            f"        init_barrier(weighed_empty + 8 * k, {s.groups})",
            "    show_barriers()",
        ]

    # -- which tiles count

    def _classes(self) -> None:
        """Words with a bit for each tile of the stream that counts, and for each that counts whole."""
        sieve = self.stream.sieve
        n, c = f"n{self.along}", self.schedule.columns
        if sieve is None:
            self.code += ["barrier()", "count = tiles"]
            return
        lane = f"n{self.lane}"
        lines = [
            f"first = int64((number * 32 + lane) * {c})",
            f"last = minimum(first + {c - 1}, {n} - 1)",
        ]
        for axis, low, high in sieve.ends:
            if axis == self.along:
                pair = ("first", "last")
            elif axis == self.lane:
                pair = ("int64(row_from)", f"minimum(int64(row_from) + {self.schedule.rows - 1}, {lane} - 1)")
            else:
                pair = (f"c{axis}", f"c{axis}")
            lines += [f"{low.name} = {pair[0]}", f"{high.name} = {pair[1]}"]
        known = dict(self.domain) | {v.name: SCALAR for _, *vs in sieve.ends for v in vs}
        before, self.code, saved = self.code, [], self.domain
        self.domain = known
        for extreme in sieve.extremes:
            self._extreme(extreme)
        self._leaves(v.name for v in sieve.body.args)
        results = self._call("asked", sieve.body, SCALAR)
        lines += self.code
        self.code, self.domain = before, saved
        some, every = results
        self.code += [
            "words = int32((tiles + 31) >> 5)",
            "every_at = some_at + 4 * words",
            "lane = thread() & 31",
            "number = int32(thread() >> 5)",
            "while number < words:",
            *indented(lines),
            "    here = number * 32 + lane < tiles",
            f"    some_bits = ballot(here & {some})",
            f"    every_bits = ballot(here & {every} & (first + {c} <= {n}))",
            "    if lane == 0:",
            "        keep_word(some_at + 4 * number, some_bits)",
            "        keep_word(every_at + 4 * number, every_bits)",
            f"    number = int32(number + {4 * (self.schedule.groups + 1)})",
            "barrier()",
            "count = count_tiles(some_at, words)",
        ]
        self.functions += COUNTING

    def _extreme(self, extreme) -> None:
        """The least and the greatest of what is computed along one axis of a tile."""
        sieve = self.stream.sieve
        assert sieve is not None
        low, high = extreme.least.name, extreme.greatest.name
        first, last = next((a.name, b.name) for axis, a, b in sieve.ends if axis == extreme.axis)
        d = extreme.least.dtype
        before, self.code = self.code, []
        known = dict(self.domain)
        self.places = {extreme.axis: "step"}
        self._leaves(v.name for v in extreme.body.args)
        (value,) = self._call(f"lift_{low}", extreme.body, SCALAR)
        self.places = {}
        inner, self.code, self.domain = self.code, before, known
        if d is BOOL:
            start, joins = ("True", "False"), (f"{low} & {value}", f"{high} | {value}")
        else:
            bits = d.bits - (d.kind == "i")
            most, least = (1 << bits) - 1, -(1 << bits) if d.kind == "i" else 0
            start = (f"{d}({most})", f"{d}({least})")
            joins = (f"minimum({low}, {value})", f"maximum({high}, {value})")
        self.code += [f"{low}, {high} = {start[0]}, {start[1]}", f"step = {first}", f"while step <= {last}:"]
        self.code += indented([*inner, f"{low} = {joins[0]}", f"{high} = {joins[1]}", "step += 1"])
        self.domain |= {low: SCALAR, high: SCALAR}

    def _next(self) -> list[str]:
        """Lines that find the next tile that counts."""
        if self.stream.sieve is None:
            return ["tile = k"]
        return ["word, left = next_tile(some_at, word, left)", "tile, left = first_tile(word, left)"]

    def _first_word(self) -> list[str]:
        return [] if self.stream.sieve is None else ["word, left = int32(-1), int32(0)"]

    # -- the group that copies

    def _copy(self) -> None:
        s = self.schedule
        panels, out_panels = -(-s.width // PANEL), -(-s.out_width // PANEL)
        keys, values = s.tile_bytes(s.columns, s.width), s.tile_bytes(s.columns, s.out_width)
        copies = [f"expect_bytes(left_full, {s.tile_bytes(s.rows, s.width)})"]
        copies += self._boxes(0, "left_at", s.rows, "left_full", panels, {self.lane: "row_from"})
        loop = [*self._next(), f"column_from = tile * {s.columns}"]
        for number, name, size, count in ((1, "right", keys, panels), (2, "weighed", values, out_panels)):
            at, full = f"{name}_at + slot * {size}", f"{name}_full + 8 * slot"
            loop += [f"await_phase({name}_empty + 8 * slot, phase)", f"expect_bytes({full}, {size})"]
            loop += self._boxes(number, at, s.columns, full, count, {self.along: "column_from"})
        loop += self._advance()
        self.code += ["give()", "if (thread() == 0) & (count > 0):"]
        self.code += indented([*copies, "slot, phase = int32(0), int32(1)", *self._first_word()])
        self.code += indented(["for k in range(count):", *indented(loop)])

    def _boxes(self, number: int, at: str, lines: int, full: str, panels: int, places: dict[int, str]) -> list[str]:
        axes = self.kernel.windows[number].axes
        corner = [f"panel * {PANEL}", *(places.get(a, f"c{a}") for a in axes[1:])]
        call = f"copy{number}({at} + panel * {lines * 2 * PANEL}, map{number}(), {full}, {', '.join(corner)})"
        return [f"for panel in range({panels}):", f"    {call}"]

    def _advance(self) -> list[str]:
        return [
            "slot = int32(slot + 1)",
            f"if slot == {self.schedule.stages}:",
            "    slot, phase = int32(0), phase ^ 1",
        ]

    # -- groups that compute

    def _compute(self) -> None:
        s, use = self.schedule, self.stream.state
        turn = self.schedule.turns
        self.code += [
            "take()",
            f"lead = (thread() & {GROUP - 1}) == 0",
            f"lines = near_matrix(left_at + group * {ROWS * 2 * PANEL})",
            f"rows = rows_from(row_from + group * {ROWS})",
            f"row = clamp_rows(rows, n{self.lane})",
        ]
        self._define("clamp_rows", ROW, "int64, int64 -> int64", "i, n", ["return minimum(i, n - 1)"])
        self._define("clamp_columns", COLUMN, "int64, int64 -> int64", "j, n", ["return minimum(j, n - 1)"])
        self._row_leaves()
        self.top += [f'both_{d} = both_rows("{d}")' for d in dict.fromkeys(v.dtype.name for v in use.state)]
        self.code += [f"{v.name} = both_{v.dtype.name}({text})" for v, text in zip(use.state, use.identity)]
        self.domain |= {v.name: ROW for v in use.state}
        own = self.weighing.state.name
        self.code.append(f"{own} = no_sums()")
        self.code += self._first_word()
        keys, values = (s.tile_bytes(s.columns, w) for w in (s.width, s.out_width))
        begin = f"begin_scores(lines, near_matrix(right_at + slot * {keys}))"
        score = self.score.value.name
        weigh = f"begin_sums({own}, weights, far_matrix_of(weighed_at + {{}} * {values}))"
        wait, tell = [], []
        if turn:
            wait, tell = ["meet_group(1 + group, 256)"], ["tell_group(next_group, 256)"]
            self.code += [
                "next_group = int32(2 + group)",
                f"if group == {s.groups - 1}:",
                "    next_group = int32(1)",
                "    tell_group(1, 256)",
            ]
        first = [
            "await_phase(left_full, 0)",
            "slot, phase = int32(0), int32(0)",
            "k = int32(0)",
            *self._next(),
            "await_phase(right_full, 0)",
            f"{score} = finish({begin})",
            "if lead:",
            "    arrive(right_empty)",
            *self._tile(partial_only=True),
            f"weights = pack({self.weighing.weight.name})",
        ]
        loop = [
            "before, phase_before = slot, phase",
            *self._advance(),
            *self._next(),
            "await_phase(right_full + 8 * slot, phase)",
            *wait,
            f"{score} = {begin}",
            "await_phase(weighed_full + 8 * before, phase_before)",
            f"{own} = {weigh.format('before')}",
            *tell,
            f"{score} = finish_scores({score})",
            "if lead:",
            "    arrive(right_empty + 8 * slot)",
            *self._tile(),
            f"{own} = finish({own})",
            "if lead:",
            "    arrive(weighed_empty + 8 * before)",
            f"weights = pack({self.weighing.weight.name})",
            *self._move(),
        ]
        last = [
            "await_phase(weighed_full + 8 * slot, phase)",
            f"{own} = finish({weigh.format('slot')})",
        ]
        body = [*first, "for k in range(1, count):", *indented(loop), *last]
        self.code += ["if count > 0:", *indented(body)]
        if turn:
            self.code += ["if group == 0:", "    meet_group(1, 256)"]
        self._finish()

    def _row_leaves(self) -> None:
        """What is read once for each row, and once for all."""
        for p in self.kernel.positions:
            if p.axis == self.lane:
                self.code.append(f"{p.value.name} = row")
                self.domain[p.value.name] = ROW
        bodies = [*self._bodies()]
        wanted = {v.name for body in bodies for v in body.args}
        self._leaves(name for name in wanted if self._leaf_domain(name) in (ROW, SCALAR))
        for body in self.stream.row_inputs:
            self._leaves(v.name for v in body.args)
            self._call(f"read_{body.results[0].name}", body, ROW)

    def _bodies(self) -> Iterable[Body]:
        stream = self.stream
        for phase in (*stream.tile, *(stream.sieve.whole if stream.sieve else ())):
            yield phase.element
            yield from filter(None, (phase.row,))
        yield from (stream.state.merge, self.weighing.merge, *stream.inputs, *stream.row_inputs)
        yield from filter(None, (stream.row, stream.join))
        for ending in stream.endings:
            yield ending.body

    def _tile(self, partial_only: bool = False) -> list[str]:
        """Weights of a tile of scores, and the state with it."""
        sieve = self.stream.sieve
        start = [f"column_from = tile * {self.schedule.columns}"]
        partial = self._indented(lambda: self._phases(self.stream.tile, True, {}))
        if partial_only:
            self.domain |= dict.fromkeys(self._moving(), ROW)
            return [*start, *partial]
        if sieve is None:
            test = f"column_from + {self.schedule.columns} <= n{self.along}"
            phases, names = self.stream.tile, {}
        else:
            test, phases = "whole_tile(every_at, tile)", sieve.whole
            names = dict(sieve.names)
        whole = self._indented(lambda: self._phases(phases, False, names))
        return [*start, f"if {test}:", *indented(whole), "else:", *indented(partial)]

    def _phases(self, phases: Sequence[Phase], partial: bool, names: dict[str, str]) -> None:
        """The phases of a tile and its state's merging; `names` are those of values whose usual names differ."""
        stream = self.stream
        self.domain[self.score.value.name] = ELEMENT
        wanted = {v.name for phase in phases for v in phase.element.args}
        columns = {p.value.name for p in self.kernel.positions if p.axis == self.along}
        read = {b.results[0].name for b in stream.inputs}
        if partial or wanted & (columns | read) or any(self._leaf_domain(x) in (COLUMN, ELEMENT) for x in wanted):
            self.code.append("column = columns_from(column_from)")
            if partial:
                self.code.append(f"there = below(column_from, n{self.along})")
                reads = any(self._reads_columns(x) for x in wanted) or wanted & read
                self.code += [f"column = clamp_columns(column, n{self.along})"] if reads else []
        for body in stream.inputs:
            if body.results[0].name in wanted:
                self._leaves(v.name for v in body.args)
                self._call(f"read_{body.results[0].name}", body, ELEMENT)
        for number, phase in enumerate(phases):
            label = f"{'partial' if partial else 'whole'}_{number}"
            self._leaves(v.name for v in phase.element.args)
            self._call(label, phase.element, ELEMENT)
            for use in phase.folds:
                self._fold(use, partial)
            if number == 0 and stream.join is not None and len(stream.join.results):
                made = self._call("join", stream.join, ROW)
                folded = [v.name for v in stream.state.lifted[: len(made)]]
                self.code += [f"{name} = {value}" for name, value in zip(folded, made)]
            if phase.row:
                self._leaves(v.name for v in phase.row.args)
                self._call(f"row_{label}", phase.row, ROW)
        weight = self.weighing.weight
        shown = names.get(weight.name, weight.name)
        if partial:
            self._hide("weight", weight.name, weight, f"{weight.dtype.name}(0)")
        elif shown != weight.name:
            self.code.append(f"{weight.name} = {shown}")
        self._merge()

    def _fold(self, use: FoldUse, partial: bool) -> None:
        """A fold along the rows of a thread's elements, and where it cannot wait, of all four threads of a row."""
        key = f"{use.name}_{use.state[0].dtype.name}_{len(use.state)}"
        label = self._function(("fold", use.merge, use.identity), f"{key}_{len(self.made)}")
        if f"rule_{label}" not in " ".join(self.functions):
            self.functions += rule(use, label)
            self.functions.append(f"fold_{label}, join_{label} = S.fold(rule_{label}), join_rows(rule_{label})")
        lifted = []
        for value, identity in zip(use.lifted, use.identity):
            name = value.name
            if partial:
                name = f"{value.name}_there"
                self._hide(f"lifted_{identity}", name, value, identity)
            lifted.append(name)
        call = f"fold_{label}({', '.join(lifted)})"
        if not self._waits(use):
            call = f"join_{label}({call})" if len(use.state) == 1 else f"join_{label}(*{call})"
        self.code.append(f"{', '.join(v.name for v in use.state)} = {call}")
        self.domain |= {v.name: ROW for v in use.state}
        self.joins = getattr(self, "joins", {}) | {use.state[0].name: label}

    def _waits(self, use: FoldUse) -> bool:
        """Whether the threads of a row keep sums of their own to the end: nothing reads them before."""
        read = {v.name for phase in self.stream.tile if phase.row for v in phase.row.args}
        folds = {v.name for v in (self.stream.join.args if self.stream.join else ())}
        return use.name == "sum" and len(use.state) == 1 and use.state[0].name not in read | folds

    def _hide(self, stem: str, target: str, value: Value, identity: str) -> None:
        d = value.dtype.name
        name = self._function(("hide", d, identity), f"hide_{len(self.made)}")
        lines = [f"return select(there, x, {identity})"]
        self._define(name, ELEMENT, f"bool, {d} -> {d}", "there, x", lines)
        self.code.append(f"{target} = {name}(there, {value.name})")
        self.domain[target] = ELEMENT

    def _merge(self) -> None:
        """The state with that of the tile; factors that move sums stay for afterwards."""
        use = self.stream.state
        if not use.state:
            return
        self._leaves(v.name for v in use.merge.args)
        made = self._call("merge", use.merge, ROW)
        kept = made[: len(use.state)]
        for name, v in zip(kept, use.state):
            self.code.append(f"{v.name} = {name}")

    def _moving(self) -> list[str]:
        return [v.name for v in self.stream.state.merge.results[len(self.stream.state.state) :]]

    def _move(self) -> list[str]:
        """Sums so far, measured from where the tile stands."""
        merge, own = self.weighing.merge, self.weighing.state.name
        if not merge.lines:
            return []

        def write() -> None:
            self.domain |= {own: OWN} | dict.fromkeys(self._moving(), ROW)
            (made,) = self._call("move", merge, OWN)
            self.code.append(f"{own} = {made}")

        return self._indented(write)

    # -- results

    def _finish(self) -> None:
        stream, use = self.stream, self.stream.state
        self.domain[self.weighing.state.name] = OWN
        for value, lifted in zip(use.state, use.lifted):
            fold = next((f for phase in stream.tile for f in phase.folds if f.state[0].name == lifted.name), None)
            if fold is not None and self._waits(fold):
                self.code.append(f"{value.name} = join_{self.joins[lifted.name]}({value.name})")
        if stream.row:
            self._leaves(v.name for v in stream.row.args)
            self._call("finish_row", stream.row, ROW)
        for number, store in enumerate(stream.row_stores):
            operand = self.kernel.operands[store.operand]
            self._spread_rows(store.value)
            self.top.append(f'store_row{number} = store_rows("{operand.dtype.name}")')
            at = self._row_address(store.operand)
            self.code.append(f"store_row{number}({at}, {store.value}, rows, n{self.lane})")
        for number, ending in enumerate(stream.endings):
            self._ending(number, ending)

    def _spread_rows(self, name: str) -> None:
        """A value that is the same for all rows, for each of them."""
        if self._domain_of(name) == SCALAR:
            self.top.append('spread = both_rows("float32")')
            self.code.append(f"{name} = spread({name})")

    def _ending(self, number: int, ending) -> None:
        width = self.schedule.out_width
        self.top.append('own_columns = O.positions("int64")')
        names = {v.name for v in ending.body.args}
        if any(self._leaf_domain(name) in (OWN, OWN_COLUMN) for name in names):
            self.code.append("own_column = clamp_own(own_columns(0))")
            self._define("clamp_own", OWN_COLUMN, "int64 -> int64", "c", [f"return minimum(c, {width - 1})"])
        self._leaves(names)
        self._call(f"end_{number}", ending.body, OWN)
        for store in ending.stores:
            operand = self.kernel.operands[store.operand]
            at = self._row_address(store.operand)
            name = self.names.operand(store.operand)
            near = operand.strides[ending.axis] == "1" and operand.access == "vector" and operand.dtype.name in KINDS
            if near:
                self.top.append(f'store_{name} = store_fragment({width}, "{operand.dtype.name}")')
                self.code.append(f"store_{name}({at}, {store.value}, rows, n{self.lane})")
                continue
            step = "1" if operand.strides[ending.axis] == "1" else self.names.stride(store.operand, ending.axis)
            self.top.append(f'store_{name} = scatter_fragment("{operand.dtype.name}")')
            lines = [f"return at + c * step * {operand.dtype.itemsize}, (i < n) & (c < {width})"]
            signed = "int64, int64, int64, int64, int64 -> int64, bool"
            self._define(f"place_{name}", OWN, signed, "at, c, step, i, n", lines)
            call = f"place_{name}({at}, own_columns(0), int64({step}), rows, n{self.lane})"
            self.code += [f"addresses, wanted = {call}", f"store_{name}(addresses, {store.value}, wanted)"]

    def _row_address(self, k: int) -> str:
        """An operand's addresses at both rows."""
        letters = self.kernel.operands[k].strides
        size = self.kernel.operands[k].dtype.itemsize
        step = {"0": "0", "1": "1"}.get(letters[self.lane]) or self.names.stride(k, self.lane)
        self._define("line", ROW, "int64, int64, int64 -> int64", "at, i, step", ["return at + i * step"])
        return f"line({self._base(k)}, row, int64({step} * {size}))"

    # -- leaves: what bodies read

    places: dict[int, str] = {}

    def _leaf_domain(self, name: str) -> str | None:
        """Where a load or a position varies; None for other names."""
        axes: set[int] | None = None
        for p in self.kernel.positions:
            axes = {p.axis} if p.value.name == name else axes
        for load in self.kernel.loads:
            if load.value.name == name:
                letters = self.kernel.operands[load.operand].strides
                axes = {a for a, letter in enumerate(letters) if letter != "0"}
        if axes is None:
            return None
        own, lane, along = self.own_axis in axes, self.lane in axes, self.along in axes
        if own:
            return OWN if lane else OWN_COLUMN
        if self.places:
            return SCALAR
        return ELEMENT if lane and along else ROW if lane else COLUMN if along else SCALAR

    def _reads_columns(self, name: str) -> bool:
        """Whether a value is read from memory, for each column."""
        loaded = any(load.value.name == name for load in self.kernel.loads)
        return loaded and self._leaf_domain(name) in (COLUMN, ELEMENT)

    def _domain_of(self, name: str) -> str:
        return self.domain.get(name, SCALAR)

    def _leaves(self, names: Iterable[str]) -> None:
        """Lines that give these loads and positions their values, unless they have them."""
        for name in sorted(set(names)):
            domain = self._leaf_domain(name)
            if domain is None or (name in self.domain and not self.places):
                continue
            position = next((p for p in self.kernel.positions if p.value.name == name), None)
            if position is not None:
                text = self.places.get(position.axis) or self._axis_place(position.axis)
                self.code.append(f"{name} = {text}")
            else:
                self._load(next(load for load in self.kernel.loads if load.value.name == name), domain)
            self.domain[name] = domain

    def _axis_place(self, axis: int) -> str:
        return {self.lane: "row", self.along: "column", self.own_axis: "own_column"}.get(axis, f"c{axis}")

    def _load(self, load: Load, domain: str) -> None:
        k = load.operand
        operand = self.kernel.operands[k]
        inner = [a for a, letter in enumerate(operand.strides) if letter != "0" and a not in self.outer]
        places = [self.places.get(a) or self._axis_place(a) for a in inner]
        steps = ["int64(1)" if operand.strides[a] == "1" else self.names.stride(k, a) for a in inner]
        terms = " + ".join(f"i{a} * s{a}" for a in inner)
        size = operand.dtype.itemsize
        where = f"base + ({terms}) * {size}" if terms else "base"
        arguments = ["base", *(f"i{a}" for a in inner), *(f"s{a}" for a in inner)]
        signed = f"{', '.join(['int64'] * len(arguments))} -> {load.value.dtype.name}"
        name = f"read_{load.value.name}_{domain.replace(' ', '_')}"
        lines = [f"return fetch_{operand.dtype.name}({where}, True)"]
        self._define(name, domain, signed, ", ".join(arguments), lines)
        self.code.append(f"{load.value.name} = {name}({', '.join([self._base(k), *places, *steps])})")

    def _base(self, k: int) -> str:
        """Where an operand is at the block's place on the outer axes."""
        letters, size = self.kernel.operands[k].strides, self.kernel.operands[k].dtype.itemsize
        terms = [f"c{a} * {self.names.stride(k, a)}" for a in self.outer if letters[a] == "s"]
        terms += [f"c{a}" for a in self.outer if letters[a] == "1"]
        at = self.names.pointer(k)
        return f"{at} + ({' + '.join(terms)}) * {size}" if terms else at

    # -- functions

    def _function(self, key: tuple, name: str) -> str:
        return self.made.setdefault(key, name)

    def _define(self, name: str, domain: str, signed: str, arguments: str, lines: Sequence[str]) -> None:
        if ("defined", name) not in self.made:
            self.made["defined", name] = name
            head = ["", "", f'@{MAPS[domain]}("{signed}")', f"def {name}({arguments}):"]
            self.functions += [*head, *indented(lines)]

    def _call(self, stem: str, body: Body, domain: str) -> list[str]:
        """A body as a function, and its call; the names of its results."""
        given = [v.name for v in body.args]
        made = [v for v in body.results if v.name not in given]
        if made:
            name = self._function((domain, body), stem)
            signed = signature((v.dtype for v in body.args), (v.dtype for v in made))
            lines = [DIVISION.sub(r"\1quotient(\2, \3)\4", line) for line in body.lines]
            self._define(name, domain, signed, ", ".join(given), [*lines, f"return {', '.join(v.name for v in made)}"])
            self.code.append(f"{', '.join(v.name for v in made)} = {name}({', '.join(given)})")
            self.domain |= {v.name: domain for v in made}
        return [v.name for v in body.results]


COUNTING = [
    "",
    "",
    '@once("int32, int32 -> int32")',
    "def count_tiles(at, words):",
    "    count = int32(0)",
    "    for k in range(words):",
    "        count = int32(count + bit_count(kept_word(at + 4 * k)))",
    "    return count",
    "",
    "",
    '@once("int32, int32, int32 -> int32, int32")',
    "def next_tile(at, word, left):",
    "    while left == 0:",
    "        word = int32(word + 1)",
    "        left = kept_word(at + 4 * word)",
    "    return word, left",
    "",
    "",
    '@once("int32, int32 -> int32, int32")',
    "def first_tile(word, left):",
    "    return int32(word * 32 + lowest_bit(left)), int32(left & (left - 1))",
    "",
    "",
    '@once("int32, int32 -> bool")',
    "def whole_tile(at, tile):",
    "    return ((kept_word(at + 4 * (tile >> 5)) >> (tile & 31)) & 1) != 0",
]


def _whole(n: int, step: int) -> int:
    return -(-n // step) * step
