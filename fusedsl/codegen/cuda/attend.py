"""The attend skeleton: tiles of rows, whose scores, weights and sums stay in registers; one group of warps copies.

A group of four warps has 64 rows. Its products of a tile of scores run while the sums of the tile before take up its
weights; folds go along the rows of fragments (intrinsics/fragment.py), and what a score is computed from its
neighbours never leaves the thread. Blocks take one item (a tile of rows) after another; the copies run ahead of the
results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...schedule.attend import (
    ALIGNMENT,
    GROUP,
    ORDER_BYTES,
    PANEL,
    REGISTERS,
    ROWS,
    AttendSchedule,
    operands_of,
)
from ...schedule.kernel import WINDOW_WORDS, Body, FoldUse, Kernel, Phase, Stream, Value, slots
from .classes import direct_classes, kept_classes
from .exact import exact_sums
from .fragments import COLUMN, ELEMENT, OWN, OWN_COLUMN, ROW, SCALAR, FragmentScope
from .text import header, indented, rule

QUICK = ("exp", "exp2", "maximum", "minimum", "quotient")
KINDS = {"bfloat16": "bf16", "float16": "f16"}


def attend_source(kernel: Kernel, schedule: AttendSchedule) -> str:
    """The generated file of a pass over scores."""
    return AttendWriter(kernel, schedule).source()


class AttendWriter(FragmentScope):
    def __init__(self, kernel: Kernel, schedule: AttendSchedule):
        found = operands_of(kernel)
        assert found is not None and kernel.stream is not None
        self.stream: Stream = kernel.stream
        self.score, self.weighing = self.stream.scores[0], self.stream.weighings[0]
        super().__init__(kernel, found.lane, self.weighing.axis)
        self.schedule, self.operands = schedule, found
        self.kind = kernel.operands[found.left].dtype.name
        self.joins: dict[str, str] = {}  # of states that the threads of a row keep apart

    # -- the file

    def source(self) -> str:
        s, short = self.schedule, KINDS[self.kind]
        columns, width, out = s.columns, _whole(s.width, 16), _whole(s.out_width, 16)
        self.top += [
            f"S, O = Fragment({columns}), Fragment({out})",
            f"{', '.join(QUICK)} = {', '.join(f'quick({name!r})' for name in QUICK)}",
            f'begin_scores = score_product("{short}", {s.rows}, {columns}, {width})',
            f'begin_sums = weighed_product("{short}", {columns}, {out})',
            f"far_matrix_of, pack = far_matrix({columns}), S.pack({self.kind!r})",
            "finish_scores, finish, no_sums = await_products(1), await_products(0), O.zeros()",
            'rows_from, columns_from, below = row_positions("int64"), S.positions("int64"), S.below()',
            f"take, give = more_registers({REGISTERS[s.groups][1]}), fewer_registers({REGISTERS[s.groups][0]})",
        ]
        for number, window in enumerate(self.kernel.windows):
            place = next(
                k for k, slot in enumerate(slots(self.kernel)) if (slot.kind, slot.index) == ("window", number)
            )
            self.top.append(f"map{number}, copy{number} = parameter_at({place}), copy_box({len(window.axes)})")
        self.scalars()
        self._begin()
        copying, computing = self.written(self._copy), self.written(self._compute)
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

    # -- shared memory, and which tiles of rows a block has

    def _begin(self) -> None:
        """The block's shared memory and barriers, and how many items there are."""
        s, b = self.schedule, self.schedule.stages
        rows, keys = s.tile_bytes(s.rows, s.width), s.tile_bytes(s.columns, s.width)
        values = s.tile_bytes(s.columns, s.out_width)
        sizes = {"left_at": rows, "right_at": b * keys, "weighed_at": b * values, "left_full": 8, "left_empty": 8}
        sizes |= dict.fromkeys(("right_full", "right_empty", "weighed_full", "weighed_empty"), 8 * b)
        self.top.append(f"memory = dynamic_start({ALIGNMENT})")
        self.code.append("left_at = memory()")
        at = 0
        for name, size in sizes.items():
            self.code += [f"{name} = int32(left_at + {at})"] if at else []
            at += size
        self.code += [
            f"order_at = int32(left_at + {at})",
            f"classes_at = int32(left_at + {at + ORDER_BYTES})",
            "group = int32(thread() >> 7) - 1",
            "if thread() == 0:",
            "    init_barrier(left_full, 1)",
            f"    init_barrier(left_empty, {s.groups})",
            f"    for k in range({b}):",
            "        init_barrier(right_full + 8 * k, 1)",
            "        init_barrier(weighed_full + 8 * k, 1)",
            f"        init_barrier(right_empty + 8 * k, {s.groups})",
            f"        init_barrier(weighed_empty + 8 * k, {s.groups})",
            "    show_barriers()",
            *indented(self._order()),
            "barrier()",
        ]
        if self._sieved and not self._direct:
            self.code += ["item = block()", *self._item(), *kept_classes(self, s), "barrier()"]

    def _order(self) -> list[str]:
        """What says which item is where, left in shared memory: registers are dear in the loops."""
        count = f"row_tiles * {' * '.join(f'n{a}' for a in self.outer) or '1'}"
        return [
            f"row_tiles = (n{self.lane} + {self.schedule.rows - 1}) // {self.schedule.rows}",
            f"keep_word(order_at, {count})",
            "keep_word(order_at + 4, row_tiles)",
        ]

    @property
    def _sieved(self) -> bool:
        return self.stream.sieve is not None

    @property
    def _direct(self) -> bool:
        """Whether each warp asks for itself which tiles count: it reads nothing for it along the stream."""
        sieve = self.stream.sieve
        return sieve is not None and all(x.axis != self.along for x in sieve.extremes)

    def _item(self) -> list[str]:
        """The tile of rows of an item, and its place on the other axes: tiles that read the same stream are neighbours;
        where some have more to do than others, the longest come first."""
        lines = ["items, row_tiles = kept_word(order_at), kept_word(order_at + 4)"]
        if self._sieved:
            lines += [
                "others = share(items, row_tiles)",
                "rest = share(item, others)",
                "other = int32(item - rest * others)",
            ]
            lines.append(f"row_from = int32((row_tiles - 1 - rest) * {self.schedule.rows})")
        else:
            lines += ["other = share(item, row_tiles)", "rest = int32(item - other * row_tiles)"]
            lines.append(f"row_from = int32(rest * {self.schedule.rows})")
        rest = "other"
        for a in reversed(self.outer):
            if a == self.outer[0]:
                lines.append(f"c{a} = {rest}")
                continue
            lines += [f"q{a} = share({rest}, int32(n{a}))", f"c{a} = int32({rest} - q{a} * n{a})"]
            rest = f"q{a}"
        return lines

    def _items(self, work: Sequence[str]) -> list[str]:
        """A loop over the block's items; every other turn goes backwards, so that all blocks have as much to do."""
        lines = [*self._item(), *self._count(), *work]
        start = ["item = block()"]
        if self._sieved:
            start.append("onward = int32(2 * (blocks() - block()) - 1)")
            lines += ["item = int32(item + onward)", "onward = int32(2 * blocks() - onward)"]
        else:
            lines.append("item = int32(item + blocks())")
        return [*start, "while item < kept_word(order_at):", *indented(lines)]

    # -- which tiles of the stream count

    def _count(self) -> list[str]:
        if not self._sieved:
            return [f"count = int32((n{self.along} + {self.schedule.columns - 1}) // {self.schedule.columns})"]
        return [
            "count, word = int32(0), int32(0)",
            f"while word * {32 * self.schedule.columns} < n{self.along}:",
            f"    some, whole = {self._classes('word')}",
            "    count, word = int32(count + bit_count(some)), int32(word + 1)",
            "left, whole = int32(0), int32(0)",
        ]

    def _classes(self, word: str) -> str:
        """A call that gives a bit for each of 32 tiles that counts, and for each that counts whole."""
        if not self._direct:
            return f"classes(classes_at, {word})"
        return direct_classes(self, self.schedule).format(word=word)

    def _next(self) -> list[str]:
        """Lines that find the next tile that counts: the last first, which is often partial, and the first of a loop is
        worked as if it were."""
        if not self._sieved:
            return ["tile = int32(count - 1 - k)"]
        return [
            "while left == 0:",
            "    word = int32(word - 1)",
            f"    left, whole = {self._classes('word')}",
            "bit = highest_bit(left)",
            "tile, left = int32(word * 32 + bit), int32(left ^ (1 << bit))",
        ]

    # -- the group that copies

    def _copy(self) -> None:
        s = self.schedule
        panels, out_panels = -(-s.width // PANEL), -(-s.out_width // PANEL)
        keys, values = s.tile_bytes(s.columns, s.width), s.tile_bytes(s.columns, s.out_width)
        first = [f"expect_bytes(left_full, {s.tile_bytes(s.rows, s.width)})"]
        first += self._boxes(0, "left_at", s.rows, "left_full", panels, {self.lane: "row_from"})
        loop = [*self._next(), f"column_from = tile * {s.columns}"]
        for number, name, size, count in ((1, "right", keys, panels), (2, "weighed", values, out_panels)):
            at, full = f"{name}_at + slot * {size}", f"{name}_full + 8 * slot"
            boxes = self._boxes(number, at, s.columns, full, count, {self.along: "column_from"})
            loop.append(f"await_phase({name}_empty + 8 * slot, phase)")
            loop += ["if lead:", *indented([f"expect_bytes({full}, {size})", *boxes])]
        loop += self._advance()
        work = ["await_phase(left_empty, left_phase)", "left_phase = left_phase ^ 1", "if lead:", *indented(first)]
        work += ["for k in range(count):", *indented(loop)]
        self.code += ["give()", "if thread() < 32:"]
        start = ["lead = thread() == 0", "slot, phase, left_phase = int32(0), int32(1), int32(1)"]
        self.code += indented([*start, *self._items(["if count > 0:", *indented(work)])])

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
        s = self.schedule
        self.code += [
            "take()",
            f"lead = (thread() & {GROUP - 1}) == 0",
            f"lines = near_matrix(left_at + group * {ROWS * 2 * PANEL})",
            "slot, phase, left_phase = int32(0), int32(0), int32(0)",
        ]
        self.define("clamp_rows", ROW, "int64, int64 -> int64", "i, n", ["return minimum(i, n - 1)"])
        self.define("clamp_columns", COLUMN, "int64, int64 -> int64", "j, n", ["return minimum(j, n - 1)"])
        if s.turns:
            first_turn = ["    next_group = int32(1)", "    tell_group(1, 256)"]
            self.code += ["next_group = int32(2 + group)", f"if group == {s.groups - 1}:", *first_turn]
        self.code += self._items(self.written(self._work))
        if s.turns:
            self.code += ["if group == 0:", "    meet_group(1, 256)"]

    def _work(self) -> None:
        """One item: scores and sums of its tiles, then its results."""
        use = self.stream.state
        self._row_leaves()
        self.top += [f'both_{d} = both_rows("{d}")' for d in dict.fromkeys(v.dtype.name for v in use.state)]
        self.code += [f"{v.name} = both_{v.dtype.name}({text})" for v, text in zip(use.state, use.identity)]
        self.domain |= {v.name: ROW for v in use.state}
        self.code += [f"{self.weighing.state.name} = no_sums()", "if count > 0:", *indented(self._loop())]
        self._finish()

    def _loop(self) -> list[str]:
        """The tiles of an item: products of scores begin before those of the last weights."""
        s, own, score = self.schedule, self.weighing.state.name, self.score.value.name
        keys, values = (s.tile_bytes(s.columns, w) for w in (s.width, s.out_width))
        begin = f"{score} = begin_scores(lines, near_matrix(right_at + slot * {keys}))"
        weigh = f"{own} = begin_sums({own}, weights, far_matrix_of(weighed_at + {{}} * {values}))"
        pack = f"weights = pack({self.weighing.weight.name})"
        wait, tell = (["meet_group(1 + group, 256)"], ["tell_group(next_group, 256)"]) if s.turns else ([], [])
        first = [
            "await_phase(left_full, left_phase)",
            "left_phase = left_phase ^ 1",
            *(["k = int32(0)"] if not self._sieved else []),
            *self._next(),
            "await_phase(right_full + 8 * slot, phase)",
            begin,
            f"{score} = finish({score})",
            *_leading("arrive(right_empty + 8 * slot)"),
            *self._tile(first=True),
            pack,
        ]
        loop = [
            "before, phase_before = slot, phase",
            *self._advance(),
            *self._next(),
            "await_phase(right_full + 8 * slot, phase)",
            *wait,
            begin,
            "await_phase(weighed_full + 8 * before, phase_before)",
            weigh.format("before"),
            *tell,
            f"{score} = finish_scores({score})",
            *_leading("arrive(right_empty + 8 * slot)"),
            *self._tile(),
            f"{own} = finish({own})",
            *_leading("arrive(weighed_empty + 8 * before)"),
            pack,
            *self._move(),
        ]
        last = [
            *_leading("arrive(left_empty)"),
            "await_phase(weighed_full + 8 * slot, phase)",
            weigh.format("slot"),
            f"{own} = finish({own})",
            *_leading("arrive(weighed_empty + 8 * slot)"),
            *self._advance(),
        ]
        return [*first, "for k in range(1, count):", *indented(loop), *last]

    def _row_leaves(self) -> None:
        """What is read once for each row, and once for all."""
        wanted = {v.name for body in self._bodies() for v in body.args}
        if self.stream.row_inputs or any(self.leaf_domain(name) in (ROW, ELEMENT) for name in wanted):
            self.code += self._rows()
        self.leaves(name for name in wanted if self.leaf_domain(name) in (ROW, SCALAR))
        for body in self.stream.row_inputs:
            self.leaves(v.name for v in body.args)
            self.call(f"read_{body.results[0].name}", body, ROW)

    def _rows(self) -> list[str]:
        """Where the rows of a thread stand, and where they are read: known again where it is asked again."""
        return [f"rows = rows_from(row_from + group * {ROWS})", f"row = clamp_rows(rows, n{self.lane})"]

    def _bodies(self) -> Iterable[Body]:
        stream = self.stream
        for phase in (*stream.tile, *(stream.sieve.whole if stream.sieve else ())):
            yield phase.element
            yield from filter(None, (phase.row,))
        yield from (stream.state.merge, self.weighing.merge, *stream.inputs, *stream.row_inputs)
        yield from filter(None, (stream.row, stream.join))
        for ending in stream.endings:
            yield ending.body

    # -- a tile of scores

    def _tile(self, first: bool = False) -> list[str]:
        """Weights of a tile of scores, and the state with it; of the first, as if it were partial."""
        sieve, start = self.stream.sieve, [f"column_from = tile * {self.schedule.columns}"]
        partial = self.written(lambda: self._phases(self.stream.tile, True, {}))
        if first:
            return [*start, *partial]
        if sieve is None:
            test, phases, names = f"column_from + {self.schedule.columns} <= n{self.along}", self.stream.tile, {}
        else:
            test, phases, names = "(whole >> (tile & 31)) & 1", sieve.whole, dict(sieve.names)
        whole = self.written(lambda: self._phases(phases, False, names))
        return [*start, f"if {test}:", *indented(whole), "else:", *indented(partial)]

    def _phases(self, phases: Sequence[Phase], partial: bool, names: dict[str, str]) -> None:
        """The phases of a tile and its state's merging; `names` are those of values whose usual names differ."""
        stream = self.stream
        self.domain[self.score.value.name] = ELEMENT
        wanted = {v.name for phase in phases for v in phase.element.args}
        self._columns(wanted, partial)
        for body in stream.inputs:
            if body.results[0].name in wanted:
                self.leaves(v.name for v in body.args)
                self.call(f"read_{body.results[0].name}", body, ELEMENT)
        for number, phase in enumerate(phases):
            label = f"{'partial' if partial else 'whole'}_{number}"
            self.leaves(v.name for v in phase.element.args)
            self.call(label, phase.element, ELEMENT)
            for use in phase.folds:
                self._fold(use, partial)
            if number == 0 and stream.join is not None and stream.join.results:
                made = self.call("join", stream.join, ROW)
                folded = [v.name for v in stream.state.lifted[: len(made)]]
                self.code += [f"{name} = {value}" for name, value in zip(folded, made)]
            if phase.row:
                self.leaves(v.name for v in phase.row.args)
                self.call(f"row_{label}", phase.row, ROW)
        weight = self.weighing.weight
        shown = names.get(weight.name, weight.name)
        if partial:
            self._hide(weight.name, weight, f"{weight.dtype.name}(0)")
        elif shown != weight.name:
            self.code.append(f"{weight.name} = {shown}")
        self._merge()

    def _columns(self, wanted: set[str], partial: bool) -> None:
        """Where the columns stand, and whether they are there; those that are read are."""
        read = wanted & {b.results[0].name for b in self.stream.inputs}
        loaded = bool(read) or any(self.reads_columns(x) for x in wanted)
        places = {p.value.name for p in self.kernel.positions if p.axis == self.along}
        if loaded or wanted & places:
            self.code.append("column = columns_from(column_from)")
        if partial:
            self.code.append(f"there = below(column_from, n{self.along})")
            self.code += [f"column = clamp_columns(column, n{self.along})"] if loaded else []

    def _fold(self, use: FoldUse, partial: bool) -> None:
        """A fold along the rows of a thread's elements, and where it cannot wait, of all four threads of a row."""
        label = self.function(("fold", use.merge, use.identity), f"{use.name}_{len(self.made)}")
        if label not in self.joins.values():
            self.functions += rule(use, label)
            self.functions.append(f"fold_{label}, join_{label} = S.fold(rule_{label}), join_rows(rule_{label})")
        self.joins[use.state[0].name] = label
        lifted = [v.name for v in use.lifted]
        if partial:
            lifted = [f"{name}_there" for name in lifted]
            for name, value, identity in zip(lifted, use.lifted, use.identity):
                self._hide(name, value, identity)
        call = f"fold_{label}({', '.join(lifted)})"
        if not self._waits(use):
            call = f"join_{label}({call})" if len(use.state) == 1 else f"join_{label}(*{call})"
        self.code.append(f"{', '.join(v.name for v in use.state)} = {call}")
        self.domain |= {v.name: ROW for v in use.state}

    def _waits(self, use: FoldUse) -> bool:
        """Whether the threads of a row keep sums of their own to the end: nothing reads them before."""
        read = {v.name for phase in self.stream.tile if phase.row for v in phase.row.args}
        folds = {v.name for v in (self.stream.join.args if self.stream.join else ())}
        return use.name == "sum" and len(use.state) == 1 and use.state[0].name not in read | folds

    def _hide(self, target: str, value: Value, identity: str) -> None:
        """An element's value where it is there, elsewhere one that adds nothing."""
        d = value.dtype.name
        name = self.function(("hide", d, identity), f"hide_{len(self.made)}")
        self.define(name, ELEMENT, f"bool, {d} -> {d}", "there, x", [f"return select(there, x, {identity})"])
        self.code.append(f"{target} = {name}(there, {value.name})")
        self.domain[target] = ELEMENT

    def _merge(self) -> None:
        """The state with that of the tile; the factors that move sums stay for afterwards."""
        use = self.stream.state
        if use.state:
            self.leaves(v.name for v in use.merge.args)
            made = self.call("merge", use.merge, ROW)
            self.code += [f"{v.name} = {name}" for name, v in zip(made, use.state)]

    def _move(self) -> list[str]:
        """Sums so far, measured from where the tile stands."""
        merge, own = self.weighing.merge, self.weighing.state.name
        if not merge.lines:
            return []

        def write() -> None:
            moving = self.stream.state.merge.results[len(self.stream.state.state) :]
            self.domain |= {own: OWN} | {v.name: ROW for v in moving}
            (made,) = self.call("move", merge, OWN)
            self.code.append(f"{own} = {made}")

        return self.written(write)

    # -- results

    def _finish(self) -> None:
        stream, use = self.stream, self.stream.state
        self.domain[self.weighing.state.name] = OWN
        self.top.append('own_columns = O.positions("int64")')
        width = self.schedule.out_width
        clamped = f"minimum(c, {width - 1})" if width % 16 else "c"
        self.define("clamp_own", OWN_COLUMN, "int64 -> int64", "c", [f"return {clamped}"])
        self.code += [*self._rows(), *exact_sums(self)]
        folds = {f.state[0].name: f for phase in stream.tile for f in phase.folds}
        for value, lifted in zip(use.state, use.lifted):
            if lifted.name in folds and self._waits(folds[lifted.name]):
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
            at = self._row_address(store.operand)
            self.code.append(f"store_row{number}({at}, {shown}, rows, n{self.lane})")
        for number, ending in enumerate(stream.endings):
            self._ending(number, ending)

    def _ending(self, number: int, ending) -> None:
        width, names = self.schedule.out_width, {v.name for v in ending.body.args}
        if any(self.leaf_domain(name) in (OWN, OWN_COLUMN) for name in names):
            self.code.append("own_column = clamp_own(own_columns(0))")
        self.leaves(names)
        self.call(f"end_{number}", ending.body, OWN)
        for store in ending.stores:
            operand = self.kernel.operands[store.operand]
            at, name = self._row_address(store.operand), self.names.operand(store.operand)
            near = operand.strides[ending.axis] == "1" and operand.access == "vector" and operand.dtype.name in KINDS
            if near:
                self.top.append(f'store_{name} = store_fragment({width}, "{operand.dtype.name}")')
                self.code.append(f"store_{name}({at}, {store.value}, rows, n{self.lane})")
                continue
            step = "1" if operand.strides[ending.axis] == "1" else self.names.stride(store.operand, ending.axis)
            self.top.append(f'store_{name} = scatter_fragment("{operand.dtype.name}")')
            lines = [f"return at + c * step * {operand.dtype.itemsize}, (i < n) & (c < {width})"]
            signed = "int64, int64, int64, int64, int64 -> int64, bool"
            self.define(f"place_{name}", OWN, signed, "at, c, step, i, n", lines)
            call = f"place_{name}({at}, own_columns(0), int64({step}), rows, n{self.lane})"
            self.code += [f"addresses, wanted = {call}", f"store_{name}(addresses, {store.value}, wanted)"]

    def _row_address(self, k: int) -> str:
        """An operand's addresses at both rows."""
        letters, size = self.kernel.operands[k].strides, self.kernel.operands[k].dtype.itemsize
        step = {"0": "0", "1": "1"}.get(letters[self.lane]) or self.names.stride(k, self.lane)
        self.define("line", ROW, "int64, int64, int64 -> int64", "at, i, step", ["return at + i * step"])
        return f"line({self.base(k)}, row, int64({step} * {size}))"


def _leading(line: str) -> list[str]:
    """What one thread of a group does."""
    return ["if lead:", f"    {line}"]


def _whole(n: int, step: int) -> int:
    return -(-n // step) * step
