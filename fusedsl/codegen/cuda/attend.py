"""The attend skeleton: tiles of rows, whose scores, weights and sums stay in registers; one group of warps copies.

A group of four warps has 64 rows. Its products of a tile of scores run while the sums of the tile before take up its
weights; folds go along the rows of fragments (intrinsics/fragment.py), and what a score is computed from its
neighbours never leaves the thread. Blocks take one item (a tile of rows) after another; the copies run ahead of the
results.
"""

from __future__ import annotations

import re

from ...schedule.attend import (
    ALIGNMENT,
    GROUP,
    ORDER_BYTES,
    PANEL,
    REGISTERS,
    ROWS,
    TILE_NOTES,
    AttendSchedule,
    asks_memory,
    beside_of,
    boxed_results,
    note_bytes,
)
from ...schedule.kernel import Kernel
from ...schedule.phase import Store
from ...schedule.slots import WINDOW_WORDS, slots
from .aside import aside, leading
from .classes import kept_classes, left_extremes
from .copies import BESIDE, copy_lines, kept_place
from .fragments import ELEMENT, QUICK, ROW
from .order import leave_order, place_lines
from .scores import ScoreWriter
from .sent import send_results
from .text import either, header, indented

AHEAD = "first_scores"  # of the next item
TAKEN, MOVED = "(note >> 3 & 3)", "(note >> 5 & 7)"  # items before this one, and tiles, as far as barriers need them
BEFORE, AFTER = "((note >> 5) + 7 & 7)", "((note >> 5) + 1 & 7)"
SHARING = 128  # elements of a row
PRODUCT = re.compile(r"\w+ = (\w+) \* (\w+)(?:  #.*)?$")
KINDS = {"bfloat16": "bf16", "float16": "f16"}


def attend_source(kernel: Kernel, schedule: AttendSchedule) -> str:
    """The generated file of a pass over scores."""
    return AttendWriter(kernel, schedule).source()


class AttendWriter(ScoreWriter):
    def __init__(self, kernel: Kernel, schedule: AttendSchedule):
        super().__init__(kernel, schedule)
        self.schedule = schedule
        self.kind = kernel.operands[self.operands.left].dtype.name
        beside = beside_of(kernel, self.lane) if schedule.beside_stages else None
        self.beside = next((load.value.name for load in kernel.loads if load.operand == beside), "")
        results = boxed_results(kernel, self.lane) if schedule.boxed else None
        self.boxed = results[0] if results else None  # the operand whose elements leave through shared memory

    # -- the file

    def source(self) -> str:
        s, short = self.schedule, KINDS[self.kind]
        columns, width, out = s.columns, _whole(s.width, 16), _whole(s.out_width, 16)
        quick = (*QUICK, "tanh")
        self.top += [
            f"S, O = Fragment({columns}), Fragment({out})",
            f"{', '.join(quick)} = {', '.join(f'quick({name!r})' for name in quick)}",
            f'begin_scores = score_product("{short}", {s.rows}, {columns}, {width})',
            f'begin_sums = weighed_product("{short}", {columns}, {out})',
            f"far_matrix_of, pack = far_matrix({columns}), S.pack({self.kind!r})",
            "finish_scores, finish, no_sums = await_products(1), await_products(0), O.zeros()",
            'rows_from, columns_from, below = row_positions("int64"), S.positions("int64"), S.below()',
            f"take, give = more_registers({REGISTERS[s.groups][1]}), fewer_registers({REGISTERS[s.groups][0]})",
        ]
        if self.beside:
            kind = self.kernel.operands[self.kernel.windows[BESIDE].operand].dtype.name
            self.top.append(f'read_beside, wide_beside = S.box({s.rows}), S.unpack("{kind}")')
        for number, window in enumerate(self.kernel.windows):
            place = next(
                k for k, slot in enumerate(slots(self.kernel)) if (slot.kind, slot.index) == ("window", number)
            )
            way = "send" if window.operand == self.boxed else "copy"
            self.top.append(f"map{number}, {way}{number} = parameter_at({place}), {way}_box({len(window.axes)})")
        self.scalars()
        self._begin()
        computing = self.written(self._compute)
        self.code += ["if group < 0:", "    give()", *indented(copy_lines(self))]
        self.code += ["else:", *indented(computing)]
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
        keys, values = self.tile_bytes()
        sizes = {"left_at": s.left_stages * self.row_bytes(), "right_at": b * keys, "weighed_at": b * values}
        sizes |= {"beside_at": s.beside_stages * self.beside_bytes()}
        sizes |= {"results_at": s.tile_bytes(s.rows, s.out_width) if s.boxed else 0}
        sizes |= dict.fromkeys(("left_full", "left_empty"), 8 * s.left_stages)
        sizes |= dict.fromkeys(("beside_full", "beside_empty"), 8 * s.beside_stages)
        sizes |= dict.fromkeys(("place_full", "place_empty"), 8)
        sizes |= dict.fromkeys(("right_full", "right_empty", "weighed_full", "weighed_empty"), 8 * b)
        self.top.append(f"memory = dynamic_start({ALIGNMENT})")
        self.code.append("left_at = memory()")
        at = 0
        for name, size in sizes.items():
            self.code += [f"{name} = int32(left_at + {at})"] if at and size else []
            at += size
        self.code += [
            f"order_at = int32(left_at + {at})",
            f"tiles_at = int32(left_at + {at + ORDER_BYTES})",
            f"places_at = int32(left_at + {at + ORDER_BYTES + 4 * TILE_NOTES})",
            f"classes_at = int32(left_at + {at + note_bytes(self.kernel)})",
            "group = int32(same(thread() >> 7) - 1)",
            "if thread() == 0:",
            "    init_barrier(place_full, 1)",
            "    init_barrier(place_empty, 1)",
            f"    for k in range({s.left_stages}):",
            "        init_barrier(left_full + 8 * k, 1)",
            f"        init_barrier(left_empty + 8 * k, {s.groups})",
            f"    for k in range({b}):",
            "        init_barrier(right_full + 8 * k, 1)",
            "        init_barrier(weighed_full + 8 * k, 1)",
            f"        init_barrier(right_empty + 8 * k, {s.groups})",
            f"        init_barrier(weighed_empty + 8 * k, {s.groups})",
            *(f"    {line}" for line in self._begin_beside()),
            "    show_barriers()",
            *indented(leave_order(self)),
            *(left_extremes(self, s) if s.resident and asks_memory(self.kernel) else []),
            "barrier()",
        ]
        if self.sieved and not s.resident:
            self.code += ["item = block()", *place_lines(self), *kept_classes(self, s), "barrier()"]

    # -- what is on chip: of `moved` tiles of the stream that went by, and of `taken` items

    def row_bytes(self) -> int:
        return self.schedule.tile_bytes(self.schedule.rows, self.schedule.width)

    def tile_bytes(self) -> tuple[int, int]:
        """Bytes of a tile of the stream, for both products."""
        s = self.schedule
        return s.tile_bytes(s.columns, s.width), s.tile_bytes(s.columns, s.out_width)

    def beside_bytes(self) -> int:
        return self.schedule.tile_bytes(self.schedule.rows, self.schedule.columns)

    def slot(self, moved: str = "moved") -> str:
        return f"({moved} & {self.schedule.stages - 1})"

    def phase(self, moved: str = "moved") -> str:
        return f"({moved} >> {self.schedule.stages.bit_length() - 1} & 1)"

    def beside_slot(self, moved: str = "moved") -> str:
        return f"({moved} & {self.schedule.beside_stages - 1})"

    def beside_phase(self, moved: str = "moved") -> str:
        return f"({moved} >> {self.schedule.beside_stages - 1} & 1)"

    def left_slot(self, taken: str = "taken") -> str:
        return f"({taken} & {self.schedule.left_stages - 1})"

    def left_phase(self, taken: str = "taken") -> str:
        return f"({taken} >> {self.schedule.left_stages - 1} & 1)"

    def _begin_beside(self) -> list[str]:
        """Lines that make the barriers of what is beside scores: a warp at a time has read it."""
        s = self.schedule
        if not self.beside:
            return []
        return [
            f"for k in range({s.beside_stages}):",
            "    init_barrier(beside_full + 8 * k, 1)",
            f"    init_barrier(beside_empty + 8 * k, {s.groups * GROUP // 32})",
        ]

    def _read_beside(self) -> list[str]:
        """Lines that read what is beside a tile's scores, in pairs, while these are summed."""
        if not self.beside:
            return []
        place, rows = self.beside_slot(MOVED), f"group * {ROWS * 2 * PANEL}"
        return [
            f"await_phase(beside_full + {place} * 8, {self.beside_phase(MOVED)})",
            f"beside = read_beside(beside_at + {place} * {self.beside_bytes()} + {rows})",
            "if (thread() & 31) == 0:",
            f"    arrive(beside_empty + {place} * 8)",
        ]

    def _wide_beside(self) -> list[str]:
        if not self.beside:
            return []
        self.domain[self.beside] = ELEMENT
        return [f"{self.beside} = wide_beside(beside)"]

    # -- groups that compute

    def _compute(self) -> None:
        s = self.schedule
        self.code += ["take()", f"lead = (thread() & {GROUP - 1}) == 0", "note = int32(-32)"]
        if s.turns:
            self.code += [f"if group == {s.groups - 1}:", "    tell_group(1, 256)"]
        self.code += ["taken = int32(0)", *self._arrived(), *self._begin_scores(AHEAD), f"{AHEAD} = finish({AHEAD})"]
        work = self.written(self._work)
        self.code += ["more = True", "while more:", *indented(work)] if s.resident else work
        if s.turns:
            self.code += ["if group == 0:", "    meet_group(1, 256)"]
        self.code += ["await_sent()"] if s.boxed else []

    def _arrived(self) -> list[str]:
        """Lines that wait for an item's rows and first tile of the stream."""
        return [
            f"await_phase(left_full + {self.left_slot()} * 8, {self.left_phase()})",
            *self.tile_arrived(),
            *aside(self, TAKEN, MOVED),
        ]

    def tile_arrived(self) -> list[str]:
        """Lines that wait for the next tile of the stream, and read what the copying group says of it (copies.py)."""
        wait = f"await_phase(right_full + {self.slot(AFTER)} * 8, {self.phase(AFTER)})"
        return [wait, f"note = same(kept_word(tiles_at + {AFTER} * 4))"]

    def _begin_scores(self, name: str) -> list[str]:
        left = f"left_at + {self.left_slot(TAKEN)} * {self.row_bytes()} + group * {ROWS * 2 * PANEL}"
        right = f"right_at + {self.slot(MOVED)} * {self.tile_bytes()[0]}"
        return [f"{name} = begin_scores(near_matrix({left}), near_matrix({right}))"]

    def _begin_sums(self, moved: str) -> list[str]:
        own = self.weighing.state.name
        right = f"weighed_at + {self.slot(moved)} * {self.tile_bytes()[1]}"
        return [f"{own} = begin_sums({own}, weights, far_matrix_of({right}))"]

    def _work(self) -> None:
        """One item, whose first scores are there: sums of its tiles, the next item's first scores, and its results."""
        self.code += kept_place(self, TAKEN)
        self.begin_state()
        self.code += [*self._loop(), *self._last(), *self.catch_up()]
        self.exact()
        self.code += [*kept_place(self, TAKEN), *self._rows()]
        if self.schedule.resident:
            self.code += self._next_item()
        self.results()
        if self.schedule.resident:
            self.code.append(f"{AHEAD} = finish({AHEAD})")

    def store(self, store: Store, axis: int) -> None:
        if store.operand == self.boxed:
            send_results(self, store.value)
        else:
            super().store(store, axis)

    @property
    def extrema(self) -> dict[str, str]:
        rise = self.stream.rise
        if rise is None or not rise.lines or not self.schedule.lags:
            return {}
        return {v.name: f"extreme_{v.name}" for v, _ in zip(self.stream.state.state, rise.results)}

    @property
    def shares(self) -> bool:
        """Wide rows have no registers for many elements at once: all at once before masks, softcap took 3 % longer."""
        return max(self.schedule.width, self.schedule.out_width) <= SHARING

    @property
    def draws_first(self) -> bool:
        return True

    @property
    def parts_ways(self) -> bool:
        """Wide rows draw in every tile, beside which masks cost little (dropout of 256: 846 us, with tiles apart 857),
        while the lines of both took the linker 0.2 s longer."""
        return self.shares or not self.draws

    @property
    def reads_late(self) -> bool:
        """Threads of three groups have the fewest registers."""
        return self.schedule.groups > 2

    @property
    def row_limit(self) -> str:
        return "row_end"

    def place_again(self) -> list[str]:
        """Where the item is, read anew: between its uses no register holds it."""
        return [*kept_place(self, TAKEN), *self._rows()]

    def _rows(self) -> list[str]:
        """Where the rows of a thread stand: 32 bits hold it, so that conditions compare so many."""
        clamp = "return int64(minimum(int32(i), int32(n - 1)))"
        self.define("clamp_rows", ROW, "int64, int64 -> int64", "i, n", [clamp])
        return super()._rows()

    def turn(self) -> tuple[list[str], list[str]]:
        """Lines between which a group starts its products."""
        if not self.schedule.turns:
            return [], []
        groups = self.schedule.groups
        following = sum((1 + (g + 1) % groups) << 4 * g for g in range(groups))  # barriers of the next groups
        return ["meet_group(1 + group, 256)"], [f"tell_group({following} >> 4 * group & 15, 256)"]

    def _loop(self) -> list[str]:
        """The tiles of an item but the last sums: products of scores begin before those of the last weights."""
        own, score = self.weighing.state.name, self.score.value.name
        pack, (wait, tell) = f"weights = pack({self.weighing.weight.name})", self.turn()
        beside, factor = [*self._read_beside(), *self._wide_beside()], self._factor()
        first = [f"{score} = {AHEAD}", *self._taken(), *beside, *self._first_tile(), pack]
        loop = [
            *self.tile_arrived(),
            *wait,
            *self._begin_scores(score),
            f"await_phase(weighed_full + {self.slot(BEFORE)} * 8, {self.phase(BEFORE)})",
            *self._begin_sums(BEFORE),
            *tell,
            self._column_from(),
            *self.drawn(),
            *self._read_beside(),
            f"{score} = finish_scores({score})",
            *self._taken(),
            *self._wide_beside(),
            *self._tile(),
            *self._held(),
            *([f"risen = other_than_one({factor})"] if factor else []),
            f"{own} = finish({own})",
            *leading(f"arrive(weighed_empty + {self.slot(BEFORE)} * 8)"),
            pack,
            *(["if risen:", *indented(self.move())] if factor else self.move()),
        ]
        return [*first, "while note & 1 == 0:", *indented(loop)]

    def _factor(self) -> str:
        """The row value that sums are multiplied by where a row's reference rises, if no more becomes of them."""
        merge, own = self.weighing.merge, self.weighing.state.name
        found = PRODUCT.match(merge.lines[0]) if len(merge.lines) == 1 else None
        names = [v.name for v in self.stream.state.merge.results[len(self.stream.state.state) :]]
        return next((name for name in names if found and {name, own} == set(found.groups())), "")

    def _held(self) -> list[str]:
        """What is computed last of a tile stays there. Where branches end, or places are drawn in a loop, ptxas keeps
        the order by itself: dilated masks of heads of 64 take 1,123 us, and held too 1,209."""
        if self._whole or self.draws:
            return []
        sums = [v for v in self.stream.state.state if v.dtype.name == "float32"]
        return [f"hold({sums[-1].name if sums else self.weighing.weight.name})"]

    def _taken(self) -> list[str]:
        """Lines that say that a tile's scores are there, and that of the item's rows no more is read."""
        give_left = [f"    arrive(left_empty + {self.left_slot(TAKEN)} * 8)"]
        return leading(f"arrive(right_empty + {self.slot(MOVED)} * 8)", "if note & 1 != 0:", *give_left)

    def _last(self) -> list[str]:
        """The last sums of an item."""
        own, (wait, tell) = self.weighing.state.name, self.turn()
        return [
            f"await_phase(weighed_full + {self.slot(MOVED)} * 8, {self.phase(MOVED)})",
            *wait,
            *self._begin_sums(MOVED),
            *tell,
            f"{own} = finish({own})",
            *leading(f"arrive(weighed_empty + {self.slot(MOVED)} * 8)"),
        ]

    def _next_item(self) -> list[str]:
        """The next item's first scores begin: they are summed while the results of this one are stored. After the last
        item they are its own scores again, for nothing."""
        ahead = [f"taken = int32({TAKEN} + 1)", *self._arrived()]
        return ["more = note & 4 == 0", "if more:", *indented(ahead), *self._begin_scores(AHEAD)]

    def _first_tile(self) -> list[str]:
        """Weights of an item's first tile of scores, and the state with it: this one may reach beyond the stream."""
        place = [f"note = same(kept_word(tiles_at + {MOVED} * 4))", self._column_from()]
        common, beyond = [*self.drawn(), *self.common()], self.partial(beyond=True)
        if self.draws or (self.sieved and not self.shares):
            return [*place, *common, *beyond]
        inside, inner = f"column_from + {self.schedule.columns} <= n{self.along}", self.partial(beyond=False)
        return [*place, *common, *either(inside, inner, beyond)]

    def _tile(self) -> list[str]:
        """Weights of a tile of scores, and the state with it."""
        common, partial = self.common(), self.partial(beyond=False)
        if not self._whole:
            return [*common, *partial]
        return [*common, *either("note & 2 != 0", self.whole(), partial)]

    def _column_from(self) -> str:
        return f"column_from = int32((note >> 8) * {self.schedule.columns})"


def _whole(n: int, step: int) -> int:
    return -(-n // step) * step
