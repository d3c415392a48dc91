"""Passes over scores: a unit is LANES rows, which are the lanes of vectors; the stream goes by in tiles of TILE.

Scores stand in memory by element, then lane: both products multiply what the stream holds, a number at a time, with
vectors of rows. So nothing of the stream is moved first, unless it has to be computed or widened; and all work on
elements, folds included, is done in lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ir.types import BOOL, DType
from ...kernel_ir.attention import Sieve, Stream
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Body, Phase, Value
from . import reduce
from .roles import Array
from .rows import claim, unclaim
from .schedule import LANES
from .source_text import decode, header, indented, parameters, step, store_line, times

TILE = 128  # elements of the stream


def emit(kernel: KernelIR, lane: int) -> tuple[str, list[Array]]:
    """The source of a pass over scores whose tiles of rows lie along axis `lane`, and its working memory."""
    writer = Writer(kernel, lane)
    lines = [
        *parameters(kernel),
        *claim(writer.arrays),
        f"lane_tiles = (n{lane} + {LANES - 1}) // {LANES}",
        f"tiles = (n{writer.along} + {TILE - 1}) // {TILE}",
        "for unit in range(begin, end):",
        *indented(writer.unit()),
        *unclaim(writer.arrays),
    ]
    title = header(kernel, f"stream:{lane}")
    return "\n".join([*title, "", "", "def kernel(slots, begin, end):", *indented(lines), ""]), writer.arrays


@dataclass(frozen=True)
class Writer:
    """The parts of a unit of work."""

    kernel: KernelIR
    lane: int

    @property
    def stream(self) -> Stream:
        assert self.kernel.stream is not None
        return self.kernel.stream

    @property
    def along(self) -> int:
        """The axis of the stream."""
        return self.kernel.row_axes

    # -- working memory

    @cached_property
    def arrays(self) -> list[Array]:
        """Tiles by element and lane, and row values by lane."""
        found = []
        for k, score in enumerate(self.stream.scores):
            d, width = score.value.dtype, f"n{score.axis}"
            found += [Array(f"left{k}", d, f"{width} * {LANES}"), Array(score.value.name, d, f"{TILE * LANES}")]
            found += [] if self.direct(score.right, d) else [Array(f"right{k}", d, f"{TILE} * {width}")]
        for k, w in enumerate(self.stream.weighings):
            d, width = w.state.dtype, f"n{w.axis}"
            found += [Array(side.name, side.dtype, f"{width} * {LANES}") for side in w.sides]
            found += [] if self.direct(w.right, d) else [Array(f"weighed{k}", d, f"{TILE} * {width}")]
            found += [Array(f"kept{k}", d, f"{TILE * LANES}")] if w.kept else []
        found += [Array(value.name, value.dtype, f"{TILE * LANES}") for value in self.kept.values()]
        for count, bodies in ((str(TILE * LANES), self.stream.inputs), (str(LANES), self.stream.row_inputs)):
            found += [Array(f"{b.results[0].name}_read", b.results[0].dtype, count) for b in bodies]
        found += [Array(f"{value.name}_lane", value.dtype, str(LANES)) for value in self.rows.values()]
        return found

    @cached_property
    def kept(self) -> dict[str, Value]:
        """Values that one phase of a tile leaves by element: for the next, or weights."""
        phases, weights = self.stream.tile, {w.weight.name for w in self.stream.weighings}
        leaves = [*self.stream.scores, *self.kernel.positions, *self.kernel.loads]
        read = {leaf.value.name for leaf in leaves}  # type: ignore[attr-defined]
        later = {v.name for phase in phases[1:] for v in phase.element.args} | weights
        made = {v.name: v for phase in phases for v in phase.element.results}
        return {name: v for name, v in made.items() if name in weights or (name in later and name not in read)}

    @cached_property
    def rows(self) -> dict[str, Value]:
        """Row values: the states of a tile and of what came before, and what is computed of them."""
        found = [v for phase in self.stream.tile for use in phase.folds for v in use.accumulators]
        found += [v for phase in self.stream.tile if phase.row for v in phase.row.results]
        found += [*self.stream.state.accumulators, *self.stream.state.combine.results]
        found += list(self.stream.row.results) if self.stream.row else []
        return {v.name: v for v in found}

    def direct(self, body: Body, d: DType) -> int | None:
        """The operand that a right body reads and does nothing with, whose numbers a product can take as they are."""
        if body.instructions or len(body.results) != 1:
            return None
        name = body.results[0].name
        found = next((load.operand for load in self.kernel.loads if load.value.name == name), None)
        return None if found is None or self.kernel.operands[found].dtype is not d else found + 1

    # -- reading

    def read(self, wanted: set[str], tiles: Mapping[str, str] | None = None) -> list[str]:
        """Statements that give values their names, at the indices i<axis>, `lane`, and of an element `place`, where
        `tiles` say which array has which value."""
        lines = []
        if tiles is not None:
            for place, bodies in (("place", self.stream.inputs), ("lane", self.stream.row_inputs)):
                names = [name for b in bodies if (name := b.results[0].name) in wanted]
                lines += [f"{name} = {reduce.get(f'{name}_read', place)}" for name in names]
                wanted = wanted.difference(names)
        for load in self.kernel.loads:
            if load.value.name in wanted:
                lines.append(f"{load.value.name} = load{load.operand}(p{load.operand}, {self.offset(load.operand)})")
        for position in self.kernel.positions:
            if position.value.name in wanted:
                lines.append(f"{position.value.name} = {position.value.dtype}(i{position.axis})")
        lines += [f"{n} = {reduce.get(f'{n}_lane', 'lane')}" for n in self.rows if n in wanted]
        found = {name: label for label, name in (tiles or {}).items() if name in wanted}
        found |= {name: name for name in found if tiles and tiles.get(name) == name}  # a score, and not its copy
        return lines + [f"{name} = {reduce.get(label, 'place')}" for name, label in found.items()]

    @cached_property
    def tiles_of(self) -> dict[str, str]:
        """The arrays of a partial tile's values, which have their names."""
        return {name: name for name in (*self.kept, *(s.value.name for s in self.stream.scores))}

    def offset(self, operand: int) -> str:
        """Where an operand's element is, at the indices i<axis>."""
        terms = [times(f"i{a}", step(self.kernel, operand, a)) for a in range(self.kernel.axes)]
        return " + ".join(t for t in terms if t) or "0"

    def body(self, body: Body, tiles: Mapping[str, str] | None = None) -> list[str]:
        """A body after what it reads."""
        wanted = {v.name for v in (*body.args, *body.results)}
        made = {line.partition(" = ")[0] for line in body.instructions}
        return [*self.read(wanted - made, tiles), *body.instructions]

    def by_lane(self, lines: Sequence[str], count: str = str(LANES)) -> list[str]:
        """A loop over lanes; those beyond the last row do as the last."""
        return [f"for lane in range({count}):", f"    i{self.lane} = top + smaller(lane, rows - 1)", *indented(lines)]

    # -- a unit

    def unit(self) -> list[str]:
        axes = [a for a in range(self.kernel.row_axes) if a != self.lane]
        lines = ["left = unit // lane_tiles", f"top = (unit - left * lane_tiles) * {LANES}"]
        lines += [f"rows = smaller({LANES}, n{self.lane} - top)", *decode("left", axes, {a: f"i{a}" for a in axes})]
        for k, score in enumerate(self.stream.scores):
            d = score.left.results[0]
            kept = reduce.put(f"left{k}", f"i{score.axis} * {LANES} + lane", d.name)
            inner = [f"for i{score.axis} in range(n{score.axis}):", *indented([*self.body(score.left), kept])]
            lines += ["", f"# the left operand of score {k}", *self.by_lane(inner)]
        lines += self.by_lane(self.inputs(self.stream.row_inputs, "lane")) if self.stream.row_inputs else []
        once = [*self.start(), *self.tiles("attempt" if self.exact else "0")]
        if self.exact:
            lines += ["", "strange = False", "for attempt in range(2):"]
            lines += indented(["if (attempt == 0) | strange:", *indented([*once, *self.look()])])
        else:
            lines += ["", *once]
        return [*lines, "", "# results", *self.results()]

    @property
    def exact(self) -> bool:
        """Whether elements are left out: what they would weigh may be NaN, and then must not touch the result."""
        return any(w.kept for w in self.stream.weighings)

    def start(self) -> list[str]:
        """The state of nothing."""
        use = self.stream.state
        lines = [reduce.put(f"{v.name}_lane", "lane", text) for v, text in zip(use.accumulators, use.identity)]
        lines = [f"for lane in range({LANES}):", *indented(lines)] if lines else []
        for w in self.stream.weighings:
            zero = reduce.put(w.state.name, "place", f"{w.state.dtype}(0)")
            lines += [f"for place in range(n{w.axis} * {LANES}):", *indented([zero])]
        return lines

    def look(self) -> list[str]:
        """Whether a result is not finite."""
        lines = []
        for w in self.stream.weighings:
            value = reduce.get(w.state.name, "place")
            strange = f"strange = strange | not_(isfinite({value}))"
            lines += [f"for place in range(n{w.axis} * {LANES}):", *indented([strange])]
        return lines

    def tiles(self, attempt: str) -> list[str]:
        """The loop over the stream."""
        lines = []
        for k, score in enumerate(self.stream.scores):
            d = score.value.dtype
            lines += ["", f"# score {k}"]
            right, strides = self.operand(score.right, score.axis, d, f"right{k}", lines)
            made = f"{score.value.name}_at, {right}, left{k}_at"
            lines.append(f"product_{d}({made}, count, n{score.axis}, {strides})")
        lines += self.elements()
        for k in range(len(self.stream.weighings)):
            lines += ["", f"# weighing {k}", *self.weighing(k, attempt)]
        lines += ["", "# both states in one", *self.merging()]
        start = [f"first = tile * {TILE}", f"count = smaller({TILE}, n{self.along} - first)"]
        if self.stream.sieve is not None:
            lines = [*self.asked(self.stream.sieve), f"if {self.stream.sieve.body.results[0].name}:", *indented(lines)]
        return ["for tile in range(tiles):", *indented([*start, *lines])]

    def elements(self) -> list[str]:
        """The phases of a tile, without masks where it needs none."""
        partial = self.element_inputs(self.stream.tile, [w.kept for w in self.stream.weighings if w.kept])
        for phase in self.stream.tile:
            partial += ["", "# a tile's elements", *self.phase(phase, self.tiles_of)]
        found = self.stream.sieve
        if found is None or not found.whole:
            return partial
        tiles = {s.value.name: s.value.name for s in self.stream.scores} | dict(found.names)
        whole = self.element_inputs(found.whole, [])
        for phase in found.whole:
            whole += ["", "# … all of which count", *self.phase(phase, tiles)]
        asked = found.body.results[1].name
        asked = f"{asked} & (attempt == 0)" if self.exact else asked
        return [f"if {asked}:", *indented(whole), "else:", *indented(partial)]

    def inputs(self, bodies: Iterable[Body], place: str) -> list[str]:
        """Reads of memory, kept by place."""
        lines = []
        for b in bodies:
            name = b.results[0].name
            lines += [*self.body(b), reduce.put(f"{name}_read", place, name)]
        return lines

    def element_inputs(self, phases: Iterable[Phase], others: Iterable[Body]) -> list[str]:
        """What these phases read at each element of a tile, row by row: memory's neighbours are mostly along a row."""
        bodies = [*(phase.element for phase in phases), *others]
        read = {v.name for body in bodies for v in (*body.args, *body.results)}
        wanted = [b for b in self.stream.inputs if b.results[0].name in read]
        if not wanted:
            return []
        inner = [f"place = {LANES} * (i{self.along} - first) + lane", *self.inputs(wanted, "place")]
        return [
            "",
            "# what is read",
            *self.by_lane([f"for i{self.along} in range(first, first + count):", *indented(inner)]),
        ]

    def ends(self, axis: int) -> tuple[str, str]:
        """The first and the last position of a tile on one of its axes."""
        if axis == self.along:
            return "first", "first + count - 1"
        return ("top", "top + rows - 1") if axis == self.lane else (f"i{axis}", f"i{axis}")

    def asked(self, sieve: Sieve) -> list[str]:
        """What is known of a tile before its scores are."""
        lines = ["", "# what counts"]
        for axis, *ends in sieve.ends:
            lines += [f"{value.name} = {text}" for value, text in zip(ends, self.ends(axis))]
        for extreme in sieve.extremes:
            low, high = extreme.least.name, extreme.greatest.name
            lifted, join = extreme.body.results[0].name, ("minimum({}, {})", "maximum({}, {})")
            lines += [f"{low} = {_limit(extreme.least.dtype, 1)}", f"{high} = {_limit(extreme.least.dtype, -1)}"]
            if extreme.least.dtype is BOOL:
                join = ("{} & {}", "{} | {}")
            inner = [f"{one} = {text.format(one, lifted)}" for one, text in zip((low, high), join)]
            first, last = self.ends(extreme.axis)
            body = [*self.body(extreme.body), *inner]
            lines += [f"for i{extreme.axis} in range({first}, {last} + 1):", *indented(body)]
        return [*lines, *self.body(sieve.body)]

    def operand(self, body: Body, axis: int, d: DType, label: str, lines: list[str]) -> tuple[str, str]:
        """(address, strides along the stream and `axis`) of a right operand, which `lines` compute if they have to."""
        found = self.direct(body, d)
        if found is None:
            value = body.results[0].name
            kept = reduce.put(label, f"(i{self.along} - first) * n{axis} + i{axis}", value)
            inner = [f"for i{axis} in range(n{axis}):", *indented([*self.body(body), kept])]
            lines += [f"for i{self.along} in range(first, first + count):", *indented(inner)]
            return f"{label}_at", f"n{axis}, 1"
        k = found - 1
        terms = [times("first" if a == self.along else f"i{a}", step(self.kernel, k, a)) for a in range(self.along + 1)]
        where = " + ".join(t for t in terms if t) or "0"
        lines.append(f"{label} = at{k}(p{k}, {where})")
        return label, f"{step(self.kernel, k, self.along)}, {step(self.kernel, k, axis)}"

    def phase(self, phase: Phase, tiles: Mapping[str, str]) -> list[str]:
        """Element work in lanes, the folds of a tile among it, then the rows' work. `tiles` are the arrays of values
        by element, with the names that these have here."""
        results = {v.name for v in phase.element.results}
        inner = [f"place = {LANES} * (i{self.along} - first) + lane", *self.body(phase.element, tiles)]
        stored = [(label, name) for label, name in tiles.items() if label in self.kept and name in results]
        inner += [reduce.put(label, "place", name) for label, name in stored]
        inner += [line for use in phase.folds for line in reduce.in_lane(use, "lane")]
        lines = reduce.reset_lanes(phase.folds, str(LANES)) if phase.folds else []
        lines += [f"for i{self.along} in range(first, first + count):", *indented(self.by_lane(inner))]
        if phase.row:
            lines += self.by_lane([*self.body(phase.row), *self.keep(phase.row.results)])
        return lines

    def keep(self, values: Iterable[Value]) -> list[str]:
        return [reduce.put(f"{v.name}_lane", "lane", v.name) for v in dict.fromkeys(values)]

    def weighing(self, k: int, attempt: str) -> list[str]:
        """What a tile adds to a state with an axis of its own."""
        w = self.stream.weighings[k]
        d, tile, lines = w.state.dtype, w.sides[1].name, []  # type: DType, str, list[str]
        right, strides = self.operand(w.right, w.axis, d, f"weighed{k}", lines)
        along, across = strides.split(", ")
        plain = f"product_{d}({tile}_at, {right}, {w.weight.name}_at, n{w.axis}, count, {across}, {along})"
        if w.kept is None:
            return [*lines, plain]
        kept = w.kept.results[0].name
        mark = [f"place = {LANES} * (i{self.along} - first) + lane", *self.body(w.kept, self.tiles_of)]
        mark.append(reduce.put(f"kept{k}", "place", f"{d}({kept})"))
        marks = [f"for i{self.along} in range(first, first + count):", *indented(self.by_lane(mark))]
        value = f"number_{d}({right}, i{w.axis} * {across} + element * {along})"
        place = f"element * {LANES} + lane"
        part = f"{reduce.get(w.weight.name, place)} * {value}"
        chosen = f"select({reduce.get(f'kept{k}', place)} != {d}(0), {part}, {d}(0))"
        add = [f"total = {d}(0)", "for element in range(count):", f"    total = total + {chosen}"]
        each = [*add, reduce.put(tile, f"i{w.axis} * {LANES} + lane", "total")]
        loops = [f"for i{w.axis} in range(n{w.axis}):", f"    for lane in range({LANES}):", *indented(each, 2)]
        return [*lines, f"if {attempt} == 0:", *indented([plain]), "else:", *indented([*marks, *loops])]

    def merging(self) -> list[str]:
        """The states so far with those of the tile."""
        use = self.stream.state
        merged = use.combine.results[: len(use.accumulators)]
        moving = use.combine.results[len(use.accumulators) :]
        lines = self.body(use.combine) + self.keep(v for v in moving)
        lines += [reduce.put(f"{v.name}_lane", "lane", result.name) for v, result in zip(use.accumulators, merged)]
        lines = self.by_lane(lines) if use.accumulators else []
        for w in self.stream.weighings:
            inner = [f"place = i{w.axis} * {LANES} + lane"]
            inner += [f"{side.name} = {reduce.get(side.name, 'place')}" for side in w.sides]
            inner += [*self.body(w.merge), reduce.put(w.state.name, "place", w.merge.results[0].name)]
            lines += [f"for i{w.axis} in range(n{w.axis}):", *indented(self.by_lane(inner))]
        return lines

    def results(self) -> list[str]:
        """What is stored of the final state."""
        row = self.stream.row
        lines = [*self.body(row), *self.keep(row.results)] if row else []
        stored = {store.value for store in self.stream.row_stores}
        made = {v.name for v in row.results} if row else set()
        lines += self.read(stored - made)
        lines += [store_line(s, f"p{s.operand}", self.offset(s.operand)) for s in self.stream.row_stores]
        found = self.by_lane(lines, "rows") if lines else []
        for ending in self.stream.endings:
            inner = [f"place = i{ending.axis} * {LANES} + lane"]
            inner += [
                f"{w.state.name} = {reduce.get(w.state.name, 'place')}"
                for w in self.stream.weighings
                if w.axis == ending.axis
            ]
            inner += self.body(ending.body)
            inner += [store_line(s, f"p{s.operand}", self.offset(s.operand)) for s in ending.stores]
            found += self.by_lane([f"for i{ending.axis} in range(n{ending.axis}):", *indented(inner)], "rows")
        return found


def _limit(d: DType, sign: int) -> str:
    """What no number of a type is beyond: its largest, or for a negative sign its least."""
    if d is BOOL:
        return str(sign > 0)
    bits = d.bits - (d.kind == "i")
    return f"{d}({(1 << bits) - 1 if sign > 0 else -(1 << bits) if d.kind == 'i' else 0})"
