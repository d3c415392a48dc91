"""The attend skeleton: tiles of rows, whose scores, weights and sums stay in registers; one group of warps copies.

A group of four warps has 64 rows. Its products of a tile of scores run while the sums of the tile before take up its
weights; folds go along the rows of fragments (intrinsics/fragment.py), and what a score is computed from its
neighbours never leaves the thread. Blocks take one item (a tile of rows) after another; the copies run ahead of the
results.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...schedule.attend import ALIGNMENT, GROUP, ORDER_BYTES, PANEL, REGISTERS, ROWS, AttendSchedule
from ...schedule.kernel import WINDOW_WORDS, Kernel, slots
from .classes import kept_classes
from .scores import ScoreWriter
from .text import header, indented

QUICK = ("exp", "exp2", "maximum", "minimum", "quotient")
KINDS = {"bfloat16": "bf16", "float16": "f16"}


def attend_source(kernel: Kernel, schedule: AttendSchedule) -> str:
    """The generated file of a pass over scores."""
    return AttendWriter(kernel, schedule).source()


class AttendWriter(ScoreWriter):
    def __init__(self, kernel: Kernel, schedule: AttendSchedule):
        super().__init__(kernel, schedule)
        self.schedule = schedule
        self.kind = kernel.operands[self.operands.left].dtype.name

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
        if self.sieved and not self.direct:
            self.code += ["item = block()", *self.item(), *kept_classes(self, s), "barrier()"]

    def _order(self) -> list[str]:
        """What says which item is where, left in shared memory: registers are dear in the loops."""
        count = f"row_tiles * {' * '.join(f'n{a}' for a in self.outer) or '1'}"
        return [
            f"row_tiles = (n{self.lane} + {self.schedule.rows - 1}) // {self.schedule.rows}",
            f"keep_word(order_at, {count})",
            "keep_word(order_at + 4, row_tiles)",
        ]

    def order(self) -> list[str]:
        return ["items, row_tiles = kept_word(order_at), kept_word(order_at + 4)"]

    def _items(self, work: Sequence[str]) -> list[str]:
        """A loop over the block's items; every other turn goes backwards, so that all blocks have as much to do."""
        lines = [*self.item(), *self.count(), *work]
        start = ["item = block()"]
        if self.sieved:
            start.append("onward = int32(2 * (blocks() - block()) - 1)")
            lines += ["item = int32(item + onward)", "onward = int32(2 * blocks() - onward)"]
        else:
            lines.append("item = int32(item + blocks())")
        return [*start, "while item < kept_word(order_at):", *indented(lines)]

    # -- the group that copies

    def _copy(self) -> None:
        s = self.schedule
        panels, out_panels = -(-s.width // PANEL), -(-s.out_width // PANEL)
        keys, values = s.tile_bytes(s.columns, s.width), s.tile_bytes(s.columns, s.out_width)
        first = [f"expect_bytes(left_full, {s.tile_bytes(s.rows, s.width)})"]
        first += self._boxes(0, "left_at", s.rows, "left_full", panels, {self.lane: "row_from"})
        loop = [*self.next(), f"column_from = tile * {s.columns}"]
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
        if s.turns:
            first_turn = ["    next_group = int32(1)", "    tell_group(1, 256)"]
            self.code += ["next_group = int32(2 + group)", f"if group == {s.groups - 1}:", *first_turn]
        self.code += self._items(self.written(self._work))
        if s.turns:
            self.code += ["if group == 0:", "    meet_group(1, 256)"]

    def _work(self) -> None:
        """One item: scores and sums of its tiles, then its results."""
        self.begin_state()
        self.code += ["if count > 0:", *indented(self._loop())]
        self.finish()

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
            *(["k = int32(0)"] if not self.sieved else []),
            *self.next(),
            "await_phase(right_full + 8 * slot, phase)",
            begin,
            f"{score} = finish({score})",
            *_leading("arrive(right_empty + 8 * slot)"),
            *self.tile(first=True),
            pack,
        ]
        loop = [
            "before, phase_before = slot, phase",
            *self._advance(),
            *self.next(),
            "await_phase(right_full + 8 * slot, phase)",
            *wait,
            begin,
            "await_phase(weighed_full + 8 * before, phase_before)",
            weigh.format("before"),
            *tell,
            f"{score} = finish_scores({score})",
            *_leading("arrive(right_empty + 8 * slot)"),
            *self.tile(),
            f"{own} = finish({own})",
            *_leading("arrive(weighed_empty + 8 * before)"),
            pack,
            *self.move(),
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


def _leading(line: str) -> list[str]:
    """What one thread of a group does."""
    return ["if lead:", f"    {line}"]


def _whole(n: int, step: int) -> int:
    return -(-n // step) * step
