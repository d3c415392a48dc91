"""Attention: a unit of work is ATTENTION_ROWS query rows, one per vector lane; keys are processed in tiles of TILE.

Scores are stored key-major, with the query row as lane: both matmuls multiply a scalar of k (or v) with a vector of
query rows. So k and v are not packed, unless they have to be computed or widened, and all element work, reductions
included, is in lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...ir.types import BOOL, DType
from ...kernel_ir.attention import BlockMask
from ...kernel_ir.kernel import AttentionKernel
from ...kernel_ir.phase import Body, Phase, Value
from . import reduce
from .attention_scratch import TILE, AttentionScratch
from .roles import ScratchArray
from .schedule import ATTENTION_ROWS
from .scratch import allocate, free
from .source_text import header, indented, parameters, store_line, stride, times, unravel_index


def emit(kernel: AttentionKernel, lane: int) -> tuple[str, list[ScratchArray]]:
    """The source of an attention kernel whose query rows are along axis `lane`, and its scratch arrays."""
    emitter = CpuAttentionEmitter(kernel, lane)
    lines = [
        *parameters(kernel),
        *allocate(emitter.arrays),
        f"lane_tiles = (n{lane} + {ATTENTION_ROWS - 1}) // {ATTENTION_ROWS}",
        f"tiles = (n{emitter.along} + {TILE - 1}) // {TILE}",
        "for unit in range(begin, end):",
        *indented(emitter.unit()),
        *free(emitter.arrays),
    ]
    title = header(kernel, f"attention:{lane}")
    return "\n".join([*title, "", "", "def kernel(slots, begin, end):", *indented(lines), ""]), emitter.arrays


@dataclass(frozen=True)
class CpuAttentionEmitter(AttentionScratch):
    """Emits one unit of work."""

    # -- a unit

    def unit(self) -> list[str]:
        axes = [a for a in range(self.kernel.row_axes) if a != self.lane]
        lines = ["left = unit // lane_tiles", f"top = (unit - left * lane_tiles) * {ATTENTION_ROWS}"]
        lines += [
            f"rows = smaller({ATTENTION_ROWS}, n{self.lane} - top)",
            *unravel_index("left", axes, {a: f"i{a}" for a in axes}),
        ]
        for k, score in enumerate(self.attention.scores):
            d = score.q.results[0]
            store = reduce.put(f"left{k}", f"i{score.axis} * {ATTENTION_ROWS} + lane", d.name)
            inner = [f"for i{score.axis} in range(n{score.axis}):", *indented([*self.body(score.q), store])]
            lines += ["", f"# the left operand of score {k}", *self.lane_loop(inner)]
        lines += self.lane_loop(self.inputs(self.attention.row_inputs, "lane")) if self.attention.row_inputs else []
        once = [*self.init_state(), *self.key_loop("attempt" if self.exact else "0")]
        if self.exact:
            lines += ["", "nonfinite = False", "for attempt in range(2):"]
            lines += indented(["if (attempt == 0) | nonfinite:", *indented([*once, *self.check_finite()])])
        else:
            lines += ["", *once]
        return [*lines, "", "# results", *self.epilogue()]

    @property
    def exact(self) -> bool:
        """True if masked keys may have NaN in v, which must not reach the result."""
        return any(w.is_active for w in self.attention.weighted_sums)

    def init_state(self) -> list[str]:
        """Reset the running state."""
        use = self.attention.state
        lines = [reduce.put(f"{v.name}_lane", "lane", text) for v, text in zip(use.accumulators, use.identity)]
        lines = [f"for lane in range({ATTENTION_ROWS}):", *indented(lines)] if lines else []
        for w in self.attention.weighted_sums:
            zero = reduce.put(w.state.name, "index", f"{w.state.dtype}(0)")
            lines += [f"for index in range(n{w.axis} * {ATTENTION_ROWS}):", *indented([zero])]
        return lines

    def check_finite(self) -> list[str]:
        """Test if a result is not finite."""
        lines = []
        for w in self.attention.weighted_sums:
            value = reduce.get(w.state.name, "index")
            nonfinite = f"nonfinite = nonfinite | not_(isfinite({value}))"
            lines += [f"for index in range(n{w.axis} * {ATTENTION_ROWS}):", *indented([nonfinite])]
        return lines

    def key_loop(self, attempt: str) -> list[str]:
        """The loop over key tiles."""
        lines = []
        for k, score in enumerate(self.attention.scores):
            d = score.value.dtype
            lines += ["", f"# score {k}"]
            right, strides = self.operand(score.k, score.axis, d, f"right{k}", lines)
            operands = f"{score.value.name}_at, {right}, left{k}_at"
            lines.append(f"product_{d}({operands}, count, n{score.axis}, {strides})")
        lines += self.score_phases()
        for k in range(len(self.attention.weighted_sums)):
            lines += ["", f"# weighing {k}", *self.weighted_sum(k, attempt)]
        lines += ["", "# both states in one", *self.merge_states()]
        start = [f"first = tile * {TILE}", f"count = smaller({TILE}, n{self.along} - first)"]
        if self.attention.block_mask is not None:
            lines = [
                *self.block_mask(self.attention.block_mask),
                f"if {self.attention.block_mask.body.results[0].name}:",
                *indented(lines),
            ]
        return ["for tile in range(tiles):", *indented([*start, *lines])]

    def score_phases(self) -> list[str]:
        """The phases of a tile; a full tile has no element mask."""
        partial = self.element_inputs(
            self.attention.tile_phases, [w.is_active for w in self.attention.weighted_sums if w.is_active]
        )
        for phase in self.attention.tile_phases:
            partial += ["", "# a tile's elements", *self.phase(phase, self.tiles_of)]
        block_mask = self.attention.block_mask
        if block_mask is None or not block_mask.full_phases:
            return partial
        tiles = {s.value.name: s.value.name for s in self.attention.scores} | dict(block_mask.full_names)
        full = self.element_inputs(block_mask.full_phases, [])
        for phase in block_mask.full_phases:
            full += ["", "# a full tile: no mask", *self.phase(phase, tiles)]
        is_full = block_mask.body.results[1].name
        is_full = f"{is_full} & (attempt == 0)" if self.exact else is_full
        return [f"if {is_full}:", *indented(full), "else:", *indented(partial)]

    def inputs(self, bodies: Iterable[Body], index: str) -> list[str]:
        """Mask and bias loads, stored to scratch."""
        lines = []
        for b in bodies:
            name = b.results[0].name
            lines += [*self.body(b), reduce.put(f"{name}_read", index, name)]
        return lines

    def element_inputs(self, phases: Iterable[Phase], others: Iterable[Body]) -> list[str]:
        """Loads of these phases for each element of a tile, row by row: rows are mostly contiguous."""
        bodies = [*(phase.element for phase in phases), *others]
        read = {v.name for body in bodies for v in (*body.args, *body.results)}
        wanted = [b for b in self.attention.mask_inputs if b.results[0].name in read]
        if not wanted:
            return []
        inner = [f"index = {ATTENTION_ROWS} * (i{self.along} - first) + lane", *self.inputs(wanted, "index")]
        return [
            "",
            "# what is read",
            *self.lane_loop([f"for i{self.along} in range(first, first + count):", *indented(inner)]),
        ]

    def bounds(self, axis: int) -> tuple[str, str]:
        """The first and the last index of a tile on one of its axes."""
        if axis == self.along:
            return "first", "first + count - 1"
        return ("top", "top + rows - 1") if axis == self.lane else (f"i{axis}", f"i{axis}")

    def block_mask(self, mask: BlockMask) -> list[str]:
        """Evaluate the block mask of a tile: empty, partial or full."""
        lines = ["", "# what counts"]
        for axis, *ends in mask.ranges:
            lines += [f"{value.name} = {text}" for value, text in zip(ends, self.bounds(axis))]
        for extreme in mask.bounds:
            low, high = extreme.lower.name, extreme.upper.name
            lifted, join = extreme.body.results[0].name, ("minimum({}, {})", "maximum({}, {})")
            lines += [f"{low} = {_limit(extreme.lower.dtype, 1)}", f"{high} = {_limit(extreme.lower.dtype, -1)}"]
            if extreme.lower.dtype is BOOL:
                join = ("{} & {}", "{} | {}")
            inner = [f"{end} = {text.format(end, lifted)}" for end, text in zip((low, high), join)]
            first, last = self.bounds(extreme.axis)
            body = [*self.body(extreme.body), *inner]
            lines += [f"for i{extreme.axis} in range({first}, {last} + 1):", *indented(body)]
        return [*lines, *self.body(mask.body)]

    def operand(self, body: Body, axis: int, d: DType, label: str, lines: list[str]) -> tuple[str, str]:
        """(address, strides along keys and `axis`) of k or v; if it has to be computed, `lines` store it to scratch."""
        operand = self.contiguous_operand(body, d)
        if operand is None:
            value = body.results[0].name
            store = reduce.put(label, f"(i{self.along} - first) * n{axis} + i{axis}", value)
            inner = [f"for i{axis} in range(n{axis}):", *indented([*self.body(body), store])]
            lines += [f"for i{self.along} in range(first, first + count):", *indented(inner)]
            return f"{label}_at", f"n{axis}, 1"
        k = operand - 1
        terms = [
            times("first" if a == self.along else f"i{a}", stride(self.kernel, k, a)) for a in range(self.along + 1)
        ]
        where = " + ".join(t for t in terms if t) or "0"
        lines.append(f"{label} = at{k}(p{k}, {where})")
        return label, f"{stride(self.kernel, k, self.along)}, {stride(self.kernel, k, axis)}"

    def phase(self, phase: Phase, tiles: Mapping[str, str]) -> list[str]:
        """Element body and folds in lanes, then the row body; `tiles` are the arrays of per-element values."""
        results = {v.name for v in phase.element.results}
        inner = [f"index = {ATTENTION_ROWS} * (i{self.along} - first) + lane", *self.body(phase.element, tiles)]
        stored = [(label, name) for label, name in tiles.items() if label in self.tile_values and name in results]
        inner += [reduce.put(label, "index", name) for label, name in stored]
        inner += [line for use in phase.folds for line in reduce.accumulate(use, "lane", "lane")]
        lines = reduce.reset_lanes(phase.folds, str(ATTENTION_ROWS)) if phase.folds else []
        lines += [f"for i{self.along} in range(first, first + count):", *indented(self.lane_loop(inner))]
        if phase.row:
            lines += self.lane_loop([*self.body(phase.row), *self.store_row_values(phase.row.results)])
        return lines

    def store_row_values(self, values: Iterable[Value]) -> list[str]:
        return [reduce.put(f"{v.name}_lane", "lane", v.name) for v in dict.fromkeys(values) if v.name in self.rows]

    def weighted_sum(self, k: int, attempt: str) -> list[str]:
        """The product of weights and v for one tile; exact if masked keys may have NaN in v."""
        w = self.attention.weighted_sums[k]
        d, tile, lines = w.state.dtype, w.sides[1].name, []  # type: DType, str, list[str]
        right, strides = self.operand(w.v, w.axis, d, f"weighed{k}", lines)
        along, across = strides.split(", ")
        plain = f"product_{d}({tile}_at, {right}, {w.p.name}_at, n{w.axis}, count, {across}, {along})"
        if w.is_active is None:
            return [*lines, plain]
        valid = w.is_active.results[0].name
        mark = [f"index = {ATTENTION_ROWS} * (i{self.along} - first) + lane", *self.body(w.is_active, self.tiles_of)]
        mark.append(reduce.put(f"active{k}", "index", f"{d}({valid})"))
        marks = [f"for i{self.along} in range(first, first + count):", *indented(self.lane_loop(mark))]
        value = f"number_{d}({right}, i{w.axis} * {across} + element * {along})"
        index = f"element * {ATTENTION_ROWS} + lane"
        part = f"{reduce.get(w.p.name, index)} * {value}"
        chosen = f"select({reduce.get(f'active{k}', index)} != {d}(0), {part}, {d}(0))"
        add = [f"total = {d}(0)", "for element in range(count):", f"    total = total + {chosen}"]
        each = [*add, reduce.put(tile, f"i{w.axis} * {ATTENTION_ROWS} + lane", "total")]
        loops = [f"for i{w.axis} in range(n{w.axis}):", f"    for lane in range({ATTENTION_ROWS}):", *indented(each, 2)]
        return [*lines, f"if {attempt} == 0:", *indented([plain]), "else:", *indented([*marks, *loops])]

    def merge_states(self) -> list[str]:
        """Merge the running states with those of the tile."""
        use = self.attention.state
        merged = use.combine.results[: len(use.accumulators)]
        moving = use.combine.results[len(use.accumulators) :]
        lines = self.body(use.combine) + self.store_row_values(v for v in moving)
        lines += [reduce.put(f"{v.name}_lane", "lane", result.name) for v, result in zip(use.accumulators, merged)]
        lines = self.lane_loop(lines) if use.accumulators else []
        for w in self.attention.weighted_sums:
            inner = [f"index = i{w.axis} * {ATTENTION_ROWS} + lane"]
            inner += [f"{side.name} = {reduce.get(side.name, 'index')}" for side in w.sides]
            inner += [*self.body(w.combine_tile), reduce.put(w.state.name, "index", w.combine_tile.results[0].name)]
            lines += [f"for i{w.axis} in range(n{w.axis}):", *indented(self.lane_loop(inner))]
        return lines

    def epilogue(self) -> list[str]:
        """The epilogue: row bodies and stores of the final states."""
        row = self.attention.row_epilogue
        kept = self.store_row_values(row.results) if row else []
        lines = [*self.body(row), *kept] if row and kept else []
        stored = {store.value for store in self.attention.row_outputs}
        computed = {v.name for v in row.results} if row else set()
        lines += self.read(stored - computed)
        lines += [store_line(s, f"p{s.operand}", self.offset(s.operand)) for s in self.attention.row_outputs]
        epilogue = self.lane_loop(lines, "rows") if lines else []
        for ending in self.attention.epilogues:
            inner = [f"index = i{ending.axis} * {ATTENTION_ROWS} + lane"]
            inner += [
                f"{w.state.name} = {reduce.get(w.state.name, 'index')}"
                for w in self.attention.weighted_sums
                if w.axis == ending.axis
            ]
            inner += self.body(ending.body)
            inner += [store_line(s, f"p{s.operand}", self.offset(s.operand)) for s in ending.stores]
            epilogue += self.lane_loop([f"for i{ending.axis} in range(n{ending.axis}):", *indented(inner)], "rows")
        return epilogue


def _limit(d: DType, sign: int) -> str:
    """The identity of a minimum (sign 1) or a maximum (sign -1) of a type."""
    if d is BOOL:
        return str(sign > 0)
    bits = d.bits - (d.kind == "i")
    return f"{d}({(1 << bits) - 1 if sign > 0 else -(1 << bits) if d.kind == 'i' else 0})"
