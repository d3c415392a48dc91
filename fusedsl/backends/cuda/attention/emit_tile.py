"""What becomes of a tile of scores: its phases with masks and without, folds along rows, and the state with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import takewhile

from ....kernel_ir.attention import Stream, Weighing
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Body, Phase, Reduction, Value
from ..emit.source_text import either, rule
from .emit_fragment import COLUMN, ELEMENT, OWN, ROW, FragmentScope
from .emit_paged_kv import ask_lines
from .emit_random_mask import draw
from .sm90_schedule import NOTHING, Tiles, operands_of
from .sm90_tile_shape import is_drawn, is_random


class TileWriter(FragmentScope):
    """Writes what a pass over scores does with each tile of them; the pass is `stream`."""

    def __init__(self, kernel: KernelIR, schedule: Tiles, packed: int | None = None):
        found = operands_of(kernel)
        assert found is not None and kernel.stream is not None
        self.stream: Stream = kernel.stream
        self.score, self.weighs = self.stream.scores[0], bool(self.stream.weighings)
        super().__init__(kernel, found.lane, self.weighing.axis if self.weighs else NOTHING, packed)
        self.tiles, self.operands = schedule, found
        self.joins: dict[str, str] = {}  # of states that the threads of a row keep apart

    @property
    def weighing(self) -> Weighing:
        """What the pass weighs, where it does."""
        return self.stream.weighings[0]

    @property
    def sieved(self) -> bool:
        return self.stream.sieve is not None

    @property
    def direct(self) -> bool:
        """Whether each warp asks for itself which tiles count: it reads nothing for it along the stream."""
        sieve = self.stream.sieve
        return sieve is not None and all(x.axis != self.along for x in sieve.extremes)

    def tile(self, first: bool = False) -> list[str]:
        """Weights of a tile of scores, and the state with it; of the first, as if it were partial."""
        start = [f"column_from = tile * {self.tiles.columns}"]
        if first:
            return [*start, *self.common(), *self.partial(beyond=True)]
        return [*start, *self.weights_of_tile(self.whole_test())]

    def whole_test(self) -> str:
        """Whether the tile from `column_from` on counts whole."""
        if self.stream.sieve is None:
            return f"column_from + {self.tiles.columns} <= n{self.along}"
        return "(whole >> (tile & 31)) & 1"

    def weights_of_tile(self, test: str) -> list[str]:
        """The phases of a tile, which counts whole where `test` holds."""
        common, partial = self.common(), self.partial(beyond=True)
        if self.sieved and not self._whole:
            return [*common, *partial]
        whole = self.whole()
        return [*common, *either(test, whole, partial)]

    def partial(self, beyond: bool) -> list[str]:
        """The phases of a tile with masks, which may reach `beyond` the stream."""
        return self.written(lambda: self._phases(self.stream.tile, beyond, {}))

    def whole(self) -> list[str]:
        """The phases of a tile that counts whole."""
        sieve = self.stream.sieve
        phases, names = (sieve.whole, dict(sieve.names)) if sieve else (self.stream.tile, {})
        return self.written(lambda: self._phases(phases, False, names))

    @property
    def shares(self) -> bool:
        """Whether what tiles with masks and tiles without have in common stands before them once."""
        return False

    @cached_property
    def _shared(self) -> int:
        """How many phases stand before tiles with masks and tiles without: they fold nothing, and read no memory."""
        read = {body.results[0].name for body in self.stream.inputs}

        def same(pair: tuple[Phase, Phase]) -> bool:
            return pair[0] == pair[1] and not pair[0].folds and read.isdisjoint(v.name for v in pair[0].element.args)

        pairs = zip(self.stream.tile[:-1], self._whole or self.stream.tile)
        return sum(1 for _ in takewhile(same, pairs)) if self.shares else 0

    @property
    def _whole(self) -> tuple[Phase, ...]:
        """The phases of a tile that is known to count whole, if there are others."""
        return self.stream.sieve.whole if self.stream.sieve and self.parts_ways else ()

    @property
    def parts_ways(self) -> bool:
        """Whether tiles without masks have lines of their own."""
        return True

    @property
    def draws(self) -> bool:
        """Whether conditions of places are drawn."""
        return any(is_drawn(self.kernel, body) for body in self.stream.inputs)

    @property
    def draws_first(self) -> bool:
        """Whether what is drawn for all tiles stands in a kernel once."""
        return False

    def drawn(self) -> list[str]:
        """Lines that draw what a tile's elements want of places alone: they wait for no score."""
        return self._before(self._draw_all)

    def common(self) -> list[str]:
        """Lines that compute of a tile's elements what masks do not change."""
        return self._before(lambda: self._early(self.stream.tile[: self._shared]))

    def _before(self, write: Callable[[], None]) -> list[str]:
        """The lines that `write` writes of a tile before its kinds part ways."""
        for place in self.kernel.positions:
            if place.axis == self.along:
                self.domain.pop(place.value.name, None)  # that of the tile before
        before, self.code = self.code, []
        write()
        made, self.code = self.code, before
        return made

    def _draw_all(self) -> None:
        self._columns({v.name for body in self._drawn for v in body.args}, False)
        for body in self._drawn:
            self._read(body)

    def _early(self, phases: Sequence[Phase]) -> None:
        self.domain[self.score.value.name] = ELEMENT
        self._columns({v.name for phase in phases for v in phase.element.args}, False)
        for number, phase in enumerate(phases):
            self.leaves(v.name for v in phase.element.args)
            self.call(f"early_{number}", phase.element, ELEMENT)

    @cached_property
    def _drawn(self) -> list[Body]:
        """What is drawn for elements of every tile, in one loop before those with masks and those without part ways."""
        if not self.draws_first:
            return []
        kinds = (self.stream.tile, self._whole) if self._whole else (self.stream.tile,)
        read = [{v.name for p in phases for v in p.element.args} for phases in kinds]
        drawn = [body for body in self.stream.inputs if is_drawn(self.kernel, body)]
        return [body for body in drawn if all(body.results[0].name in names for names in read)]

    def _phases(self, phases: Sequence[Phase], partial: bool, names: dict[str, str]) -> None:
        """The phases of a tile and its state's merging; `names` are those of values whose usual names differ."""
        stream, kind = self.stream, "partial" if phases is self.stream.tile else "whole"
        phases = phases[self._shared :]
        first = next((phase for phase in phases if phase.folds), None)
        self.domain[self.score.value.name] = ELEMENT
        wanted = {v.name for phase in phases for v in phase.element.args}
        self._columns(wanted, partial)
        ask_lines(self, wanted)
        for body in stream.inputs:
            if body.results[0].name in wanted:
                self._input(body)
        for number, phase in enumerate(phases):
            self.leaves(v.name for v in phase.element.args)
            self.call(f"{kind}_{number}", phase.element, ELEMENT)
            for use in phase.folds:
                self._fold(use, partial)
            if phase is first:
                self._join()
            if phase.row:
                self.leaves(v.name for v in phase.row.args)
                self.call(f"row_{kind}_{number}", phase.row, ROW)
        for weight in (w.weight for w in stream.weighings):
            shown = names.get(weight.name, weight.name)
            if partial:
                self._hide(weight.name, weight, f"{weight.dtype.name}(0)")
            elif shown != weight.name:
                self.code.append(f"{weight.name} = {shown}")
        self._merge()

    def _join(self) -> None:
        """What a tile's folds come to with those of all before it, and from where the tile is measured."""
        stream = self.stream
        if stream.join is None or not stream.join.results:
            return
        made = self.call("join", stream.join, ROW, self.extrema)
        folded = [v.name for v in stream.state.inputs[: len(made)]]
        self.code += [f"{name} = {value}" for name, value in zip(folded, made)]
        if self.extrema and stream.rise is not None:
            self.domain |= dict.fromkeys(folded, ROW)
            self.code += [f"{self.extrema[v.name]} = {name}" for v, name in zip(stream.state.accumulators, folded)]
            made = self.call("rise", stream.rise, ROW)
            self.code += [f"{name} = {value}" for name, value in zip(folded, made)]

    def _input(self, body: Body) -> None:
        """What is read for each element of a tile with masks, or of one without."""
        if body not in self._drawn:
            self._read(body)
        if is_drawn(self.kernel, body) and is_random(body):
            self._take_apart(body, kept=True)

    def _read(self, body: Body) -> None:
        """What memory has for each element. A condition of places alone is drawn in a loop, as bits: of random numbers
        they stay so until they are wanted; of others LLVM makes the elements' own conditions, and no bits."""
        self.leaves(v.name for v in body.args)
        if not is_drawn(self.kernel, body):
            self.call(f"read_{body.results[0].name}", body, ELEMENT)
            return
        draw(self, body)
        if not is_random(body):
            self._take_apart(body)

    def _take_apart(self, body: Body, kept: bool = False) -> None:
        (value,) = body.results
        name, how = ("kept_bits", "kept=True") if kept else ("bits", "")
        made = f"{name} = S.bits({how})"
        self.top += [] if made in self.top else [made]
        self.code.append(f"{value.name} = {name}({value.name})")
        self.domain[value.name] = ELEMENT

    def _columns(self, wanted: set[str], partial: bool) -> None:
        """Where the columns stand, and whether they are there; what is read at computed places is."""
        computed = {
            v.name for b in self.stream.inputs if b.instructions and b.results[0].name in wanted for v in b.args
        }
        places = {p.value.name for p in self.kernel.positions if p.axis == self.along}
        if (computed | wanted) & places:
            self.code.append("column = columns_from(column_from)")
        self.there = "there" if partial else "True"
        if partial:
            self.code.append(f"there = below(column_from, n{self.along})")
            if computed & places:
                clamped = ["return minimum(j, n - 1)"]
                self.define("clamp_columns", COLUMN, "int64, int64 -> int64", "j, n", clamped)
                self.code.append(f"column = clamp_columns(column, n{self.along})")

    def _fold(self, use: Reduction, partial: bool) -> None:
        """A fold along the rows of a thread's elements, and where it cannot wait, of all four threads of a row."""
        label = self.function(("fold", use.combine, use.identity), f"{use.name}_{len(self.made)}")
        if label not in self.joins.values():
            self.functions += rule(use, label)
            self.functions.append(f"fold_{label}, join_{label} = S.fold(rule_{label}), join_rows(rule_{label})")
        self.joins[use.accumulators[0].name] = label
        lifted = [v.name for v in use.inputs]
        if partial:
            lifted = [f"{name}_there" for name in lifted]
            for name, value, identity in zip(lifted, use.inputs, use.identity):
                self._hide(name, value, identity)
        call = f"fold_{label}({', '.join(lifted)})"
        if not self.waits(use):
            call = f"join_{label}({call})" if len(use.accumulators) == 1 else f"join_{label}(*{call})"
        self.code.append(f"{', '.join(v.name for v in use.accumulators)} = {call}")
        self.domain |= {v.name: ROW for v in use.accumulators}

    def waits(self, use: Reduction) -> bool:
        """Whether the threads of a row keep sums of their own to the end: nothing reads them before."""
        read = {v.name for phase in self.stream.tile if phase.row for v in phase.row.args}
        folds = {v.name for v in (self.stream.join.args if self.stream.join else ())}
        return use.name == "sum" and len(use.accumulators) == 1 and use.accumulators[0].name not in read | folds

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
        if use.accumulators:
            self.leaves(v.name for v in use.combine.args)
            made = self.call("merge", use.combine, ROW)
            self.code += [f"{v.name} = {name}" for name, v in zip(made, use.accumulators)]

    @property
    def extrema(self) -> dict[str, str]:
        """Where references may stay behind extrema: what has the extrema, by the names of the references."""
        return {}

    def catch_up(self) -> list[str]:
        """Lines that measure the state from the extrema of all."""
        use = self.stream.state

        def write() -> None:
            for v, state in zip(use.inputs, use.accumulators):
                extreme = self.extrema.get(state.name)
                self.code.append(f"{v.name} = {extreme or f'both_{v.dtype.name}({v.dtype.name}(0))'}")
                self.domain[v.name] = ROW
            self._merge()

        return [*self.written(write), *self.move()] if self.extrema else []

    def move(self) -> list[str]:
        """Sums so far, measured from where the tile stands."""
        if not self.weighs or not self.weighing.merge.instructions:
            return []
        merge, own = self.weighing.merge, self.weighing.state.name

        def write() -> None:
            moving = self.stream.state.combine.results[len(self.stream.state.accumulators) :]
            self.domain |= {own: OWN} | {v.name: ROW for v in moving}
            (made,) = self.call("move", merge, OWN)
            self.code.append(f"{own} = {made}")

        return self.written(write)
