"""The loop over the tiles of an item: products of a tile's scores run while the sums take up the weights before.

A tile's scores are begun, then the sums of the last weights; what is computed of scores goes on beside those sums.
Barriers and slots of shared memory follow from `note`, the word that the copying group leaves of a tile (copies.py).
"""

from __future__ import annotations

import re

from ....kernel_ir.kernel import KernelIR
from ..emit.source_text import either, indented
from .emit_fragment import ELEMENT
from .emit_softmax import ScoreWriter
from .sm90_schedule import PANEL, ROWS, AttendSchedule, beside_of
from .sm90_skip_tiles import leading

AHEAD = "first_scores"  # of the next item
TAKEN, MOVED = "(note >> 3 & 3)", "(note >> 5 & 7)"  # items before this one, and tiles, as far as barriers need them
BEFORE, AFTER = "((note >> 5) + 7 & 7)", "((note >> 5) + 1 & 7)"
SHARING = 128  # elements of a row
PRODUCT = re.compile(r"\w+ = (\w+) \* (\w+)(?:  #.*)?$")


class ItemTiles(ScoreWriter):
    """What a group of four warps does with an item's tiles."""

    def __init__(self, kernel: KernelIR, schedule: AttendSchedule):
        super().__init__(kernel, schedule)
        self.schedule = schedule
        beside = beside_of(kernel, self.lane) if schedule.beside_stages else None
        self.beside = next((load.value.name for load in kernel.loads if load.operand == beside), "")

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

    # -- products under way

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

    @property
    def extrema(self) -> dict[str, str]:
        rise = self.stream.rise
        if rise is None or not rise.instructions or not self.schedule.lags:
            return {}
        return {v.name: f"extreme_{v.name}" for v, _ in zip(self.stream.state.accumulators, rise.results)}

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

    # -- an item's tiles

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
        found = PRODUCT.match(merge.instructions[0]) if len(merge.instructions) == 1 else None
        names = [v.name for v in self.stream.state.combine.results[len(self.stream.state.accumulators) :]]
        return next((name for name in names if found and {name, own} == set(found.groups())), "")

    def _held(self) -> list[str]:
        """What is computed last of a tile stays there. Where branches end, or places are drawn in a loop, ptxas keeps
        the order by itself: dilated masks of heads of 64 take 1,123 us, and held too 1,209."""
        if self._whole or self.draws:
            return []
        sums = [v for v in self.stream.state.accumulators if v.dtype.name == "float32"]
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
