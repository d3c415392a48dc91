"""The warps skeleton: a pass over scores without Hopper's units. Warps have 16 rows each, and multiply for themselves.

Tiles of the stream come to shared memory in turns: that of the second product while the first one is computed, that of
the next scores while the weights are. Products are those of the tensor cores, or fused multiply-adds; then weights
take the way over shared memory, since a thread has but a quarter of a row's.
"""

from __future__ import annotations

from ....ir.types import dtype
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Value
from ..emit.source_text import header, indented
from .block_mask_inputs import asks_memory
from .emit_block_mask import direct_classes, kept_classes
from .emit_fragment import OWN, QUICK, ROW
from .emit_paged_kv import LookupWriter, line_of, lines_there
from .emit_softmax import ScoreWriter
from .mma_schedule import CHUNK, LINE, WarpSchedule
from .split_kv_schedule import TOGETHER, part_bytes

SHORT = {"bfloat16": "bf16", "float16": "f16"}
STEP_BYTES = 64  # of lines, that one step of fused multiply-adds takes
EACH = 8  # elements that a thread takes at a time where they come one by one


def warps_source(kernel: KernelIR, schedule: WarpSchedule) -> str:
    """The generated file of a pass over scores."""
    return WarpsWriter(kernel, schedule).source()


class WarpsWriter(ScoreWriter):
    def __init__(self, kernel: KernelIR, schedule: WarpSchedule):
        super().__init__(kernel, schedule, schedule.packed)
        self.schedule = schedule
        self.quick = schedule.tensor
        self.out = -(-schedule.out_width // 16) * 16

    def source(self) -> str:
        s = self.schedule
        self.top.append(f"S = Fragment({s.columns})")
        self.top.append('rows_from, columns_from, below = row_positions("int64"), S.positions("int64"), S.below()')
        if self.weighs:
            self.top += [f"O = Fragment({self.out})", f'no_sums = O.zeros("{self.weighing.state.dtype.name}")']
        self._products()
        self.scalars()
        self._begin()
        self.begin_state()
        self.code += ["if count > 0:", *indented(self.written(self._loop))]
        if s.split:
            self._merge_parts()
        else:
            self.finish()
        opening = header(self.kernel, s.reason.partition(":")[0], "")
        comment = f"Tiles of {s.rows} rows; scores of {s.columns} of the stream at a time."
        kernel = [*self.names.signature(), *indented([f'"""{comment}"""', *self.code])]
        return "\n".join([*opening, "", *self.top, *self.functions, "", "", *kernel]) + "\n"

    def _products(self) -> None:
        s, width = self.schedule, self.schedule.line_bytes(self.schedule.width) // self.schedule.size
        if s.tensor:
            self.top += [
                f"{', '.join(QUICK)} = {', '.join(f'quick({name!r})' for name in QUICK)}",
                f'multiply_scores = warp_scores("{SHORT[s.kind]}", {s.rows}, {s.columns}, {width})',
            ]
            add = [f'add_weighed, pack = warp_sums("{SHORT[s.kind]}", {s.columns}, {self.out}), S.pack({s.kind!r})']
        else:
            self.top.append(
                f'no_scores, add_scores = S.zeros("{s.kind}"), near_sums("{s.kind}", {s.rows}, {s.columns})'
            )
            add = [
                f'keep = keep_weights("{s.kind}", {s.rows}, {s.columns})',
                f'add_weighed = far_sums("{s.kind}", {s.rows}, {s.columns}, {self.out})',
            ]
        self.top += add if self.weighs else []

    def _begin(self) -> None:
        """The block's shared memory, its rows, and which tiles of the stream count."""
        s = self.schedule
        start = f"dynamic_start({LINE})"
        self.top.append(f"memory, sent = {start}, arrived(0)" if self._sends else f"memory = {start}")
        self.code.append("left_at = memory()")
        weighs = {"weighed_at"} | (set() if s.tensor else {"weights_at"}) if self.weighs else set()
        used = [name for name in s.places if name in {"right_at", "classes_at"} | weighs]
        kept = self.stream.sieve is not None and asks_memory(self.kernel)
        self.code += [f"{name} = int32(left_at + {s.places[name]})" for name in used if name != "classes_at" or kept]
        self.code += ["group, item = int32(thread() >> 7), block()", *self._item()]
        if kept:
            self.code += [*kept_classes(self, s), "barrier()"]
        self.code += [*self._count(), *(self._own_part() if s.split else [])]

    # -- which tile of rows an item is, and which tiles of the stream count for it

    def _item(self) -> list[str]:
        """The tile of rows of an item, and its place on the other axes: tiles that read the same stream are neighbours;
        where some have more to do than others, the longest come first."""
        lines = [
            f"row_tiles = int32(({self.row_limit} + {self.schedule.rows - 1}) // {self.schedule.rows})",
            f"items = int32({' * '.join(['row_tiles', *(f'n{a}' for a in self.outer)])})",
        ]
        if self.schedule.split:
            lines += ["parts, part = share(blocks(), items), share(item, items)", "item = int32(item - part * items)"]
        if self.sieved:
            lines += [
                "others = share(items, row_tiles)",
                "rest = share(item, others)",
                "other = int32(item - rest * others)",
            ]
            lines.append(f"row_from = int32((row_tiles - 1 - rest) * {self.schedule.rows})")
        else:
            lines += ["other = share(item, row_tiles)", "rest = int32(item - other * row_tiles)"]
            lines.append(f"row_from = int32(rest * {self.schedule.rows})")
        return lines + self.place_of_other()

    def _count(self) -> list[str]:
        """Lines that count the item's tiles of the stream."""
        if not self.sieved:
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
        if not self.direct:
            return f"classes(classes_at, {word})"
        return direct_classes(self, self.schedule).format(word=word)

    def _own_part(self) -> list[str]:
        """Lines that leave of the tiles those of the block's part, `count` of them."""
        lines = [
            "before = int32(share(int64(count) * part, int64(parts)))",
            "count = int32(share(int64(count) * (part + 1), int64(parts)) - before)",
        ]
        if not self.sieved:
            return lines
        return [
            *lines,
            "passed = int32(0)",
            "while (left == 0) & (word > 0):",
            "    word = int32(word - 1)",
            f"    left, whole = {self._classes('word')}",
            "    if passed + bit_count(left) <= before:",
            "        passed, left = int32(passed + bit_count(left)), int32(0)",
            "while passed < before:",
            "    passed, left = int32(passed + 1), int32(left ^ (1 << highest_bit(left)))",
        ]

    def _next(self) -> list[str]:
        """Lines that find the next tile that counts: the last first, which is often partial, and the first of a loop is
        worked as if it were."""
        if not self.sieved:
            return [f"tile = int32({'before + ' * self.schedule.split}count - 1 - k)"]
        return [
            "while left == 0:",
            "    word = int32(word - 1)",
            f"    left, whole = {self._classes('word')}",
            "bit = highest_bit(left)",
            "tile, left = int32(word * 32 + bit), int32(left ^ (1 << bit))",
        ]

    # -- parts of a stream

    def _merge_parts(self) -> None:
        """The block's state is left for the last block of a few neighbours, which merges theirs, and leaves that for
        the last one of a few such, until one has the state of all, and finishes."""
        use, own = self.stream.parts, self.weighing.state
        assert use is not None
        rows = ", ".join(v.dtype.name for v in use.accumulators)
        shape = f'"{rows}", "{own.dtype.name}", {self.out}, {self.schedule.block}'
        self.top += [f"{how}_state = {how}_part({shape})" for how in ("leave", "take")] + ["comes_last = last"]
        size, held = part_bytes(self.schedule, self.kernel), ", ".join(v.name for v in (*use.accumulators, own))
        begin = [f"{v.name} = both_{v.dtype.name}({text})" for v, text in zip(use.accumulators, use.identity)]
        theirs = ", ".join(v.name for v in (*use.inputs, self._part_of_sums()))
        take = [
            f"{theirs} = take_state(states_at + (part * {TOGETHER} + k) * step)",
            "k = int32(k + 1)",
            *self.written(self._take_up),
        ]
        merge = [
            *begin,
            f"{own.name} = no_sums()",
            "k = int32(0)",
            "while k < count:",
            *indented(take),
            f"counter, step, parts = int64(counter + groups), int64(step * {TOGETHER}), groups",
            "if groups == 1:",
            "    more = False",
            *indented(self.written(self.finish)),
        ]
        level = [
            f"leave_state(states_at + part * step, {held})",
            f"groups = int32((parts + {TOGETHER - 1}) >> {TOGETHER.bit_length() - 1})",
            f"part = int32(part >> {TOGETHER.bit_length() - 1})",
            f"count = int32(minimum({TOGETHER}, parts - part * {TOGETHER}))",
            "more = comes_last(tickets, counter + part, count)",
            "if more:",
            *indented(merge),
        ]
        self.code += [
            f"states_at, step = workspace + int64(item) * parts * {size}, int64({size})",
            "counter, more = int64(item) * parts, True",
            "while more:",
            *indented(level),
        ]

    def _take_up(self) -> None:
        """Lines by which the state takes up that of a part."""
        use, own, weighing = self.stream.parts, self.weighing.state, self.weighing
        assert use is not None and weighing.parts is not None
        self.domain |= {v.name: ROW for v in (*use.accumulators, *use.inputs)}
        self.domain |= {own.name: OWN, self._part_of_sums().name: OWN}
        made = self.call("merge_rows", use.combine, ROW)[: len(use.accumulators)]
        (sums,) = self.call("merge_sums", weighing.parts, OWN)
        self.code += [f"{v.name} = {name}" for v, name in zip((*use.accumulators, own), (*made, sums))]

    def _part_of_sums(self) -> Value:
        """The sums of a part, as the body that merges them has them."""
        weighing = self.weighing
        assert weighing.parts is not None and self.stream.parts is not None
        known = {weighing.state.name, *(v.name for v in self.stream.parts.combine.results)}
        return next(v for v in weighing.parts.args if v.name not in known)

    # -- tiles of operands

    @property
    def _sends(self) -> bool:
        """Whether any operand is copied asynchronously: before sm_80 there is nothing to wait for it by."""
        return any(self.schedule.copied)

    def _stage(self, name: str, first: str) -> list[str]:
        """Lines that bring a tile of an operand to shared memory, from line `first` on."""
        s, number = self.schedule, ("left", "right", "weighed").index(name)
        k = self.operands.multiplied[number]
        lines, along = (s.rows, self.lane) if name == "left" else (s.columns, self.along)
        inner, width = (self.weighing.axis, s.out_width) if name == "weighed" else (self.score.axis, s.width)
        size = self.kernel.operands[k].dtype.itemsize
        room = s.line_bytes(width)
        step = self.step(k, along)
        if s.copied[number] and name == "left" and self.packed is not None:
            self._make("copy_left", f"copy_lines({lines}, {width * size}, {room}, {s.block}, True)")
            further = f"{self.step(k, self.packed)} * {size}, n{along}"
            return [f"copy_left(left_at, {self.base(k)}, {step} * {size}, {first}, {self.row_limit}, {further})"]
        if line_of(self, name) is not None:
            self._make(f"copy_{name}", f"lookup.copy({width * size}, {room}, {s.block})")
            return [f"copy_{name}({name}_at, {name}_lines)"]
        if s.copied[number]:
            self._make(f"copy_{name}", f"copy_lines({lines}, {width * size}, {room}, {s.block})")
            return [f"copy_{name}({name}_at, {self.base(k)}, {step} * {size}, {first}, n{along})"]
        across = self.kernel.operands[k].strides[along] == "1"
        elements, d = room // s.size, self.kernel.operands[k].dtype
        self._make("P", f'Tile(width=1, vectors={EACH}, step=1, checks="{"." * EACH}")')
        self._make(f"{name}_places", f"line_places({lines}, {elements}, {s.block}, {across})")
        self._make(f"put_{name}", f'put_lines("{s.kind}", {lines}, {elements})')
        self._reader(name, d.name, size)
        strides = f"{step}, {self.step(k, inner)}"
        given = f"{self.base(k)}, int64({first}), {strides}, n{along}, n{inner}"
        return [
            "piece = int32(0)",
            f"while piece < {lines * elements}:",
            f"    lines_here, columns_here = {name}_places(piece)",
            f"    elements = read_{name}(lines_here, columns_here, {given})",
            f"    put_{name}({name}_at, lines_here, columns_here, elements)",
            f"    piece = int32(piece + {EACH * s.block})",
        ]

    def _make(self, name: str, text: str) -> None:
        if f"{name} = {text}" not in self.top:
            self.top.append(f"{name} = {text}")

    def _reader(self, name: str, kind: str, size: int) -> None:
        """The function that reads an element of a tile that is there, for tiles whose elements come one by one."""
        if ("reader", name) in self.made:
            return
        self.made["reader", name] = f"read_{name}"
        signed = f"{', '.join(['int64'] * 8)} -> {dtype(kind).compute.name}"
        self.functions += [
            *("", "", f'@P.elementwise("{signed}")'),
            f"def read_{name}(line, column, at, first, step, further, lines, columns):",
            "    wanted = (first + line < lines) & (column < columns)",
            f"    return fetch_{kind}(at + ((first + line) * step + column * further) * {size}, wanted)",
        ]

    # -- the loop

    def _loop(self) -> None:
        s, score = self.schedule, self.score.value.name
        first = f"tile * {s.columns}"
        gather = self.stream.gather
        right = LookupWriter(self, gather).lines(first) if gather else []
        right += self._stage("right", first)
        send, sent = (["send()"], ["sent()"]) if self._sends else ([], [])
        weighed = [*self._stage("weighed", "column_from"), *send] if self.weighs else []
        self.code += [*self._stage("left", "row_from"), "k = int32(0)", *self._next(), *right, *send]
        if s.tensor:
            multiply = [f"{score} = multiply_scores(left_at, right_at)"]
        else:
            steps = s.line_bytes(s.width) // STEP_BYTES
            multiply = _steps(steps, [f"{score} = add_scores({score}, left_at, right_at, step)"])
            multiply.insert(0, f"{score} = no_scores()")
        loop = [
            f"column_from = {first}",
            f"entire = {self.whole_test()}",
            *lines_there(self),
            *(*sent, "barrier()", *weighed),
            *multiply,
            *(*sent, "barrier()"),
            "k = int32(k + 1)",
            "if k < count:",
            *indented([*self._next(), *right, *send]),
            *self.weights_of_tile("entire"),
            *self.move(),
            *(self._add() if self.weighs else []),
        ]
        self.code += ["while k < count:", *indented(loop)]

    def _add(self) -> list[str]:
        """Lines that add what a tile weighs."""
        s, own, weight = self.schedule, self.weighing.state.name, self.weighing.weight.name
        if s.tensor:
            return [f"{own} = add_weighed({own}, pack({weight}), weighed_at)"]
        added = [f"{own} = add_weighed({own}, weights_at, weighed_at, step)"]
        return [f"keep(weights_at, {weight})", *_steps(s.columns * s.size // CHUNK, added)]


def _steps(count: int, lines: list[str]) -> list[str]:
    return ["step = int32(0)", f"while step < {count}:", *indented([*lines, "step = int32(step + 1)"])]
