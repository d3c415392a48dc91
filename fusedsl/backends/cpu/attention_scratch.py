"""Scratch arrays of a unit of attention, and reads of its values: tiles by (key, lane), row values by lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...ir.types import DType
from ...kernel_ir.attention import AttentionBody
from ...kernel_ir.kernel import AttentionKernel
from ...kernel_ir.phase import Body, Value
from . import reduce
from .roles import ScratchArray
from .schedule import ATTENTION_ROWS
from .source_text import indented, stride, times

TILE = 128  # keys of a tile


@dataclass(frozen=True)
class AttentionScratch:
    """The values of one unit of work."""

    kernel: AttentionKernel
    lane: int

    @property
    def attention(self) -> AttentionBody:
        return self.kernel.attention

    @property
    def along(self) -> int:
        """The key axis."""
        return self.kernel.row_axes

    # -- scratch

    @cached_property
    def arrays(self) -> list[ScratchArray]:
        """Scratch arrays: tiles by (key, lane), row values by lane."""
        arrays = []
        for k, score in enumerate(self.attention.scores):
            d, width = score.value.dtype, f"n{score.axis}"
            arrays += [
                ScratchArray(f"left{k}", d, f"{width} * {ATTENTION_ROWS}"),
                ScratchArray(score.value.name, d, f"{TILE * ATTENTION_ROWS}"),
            ]
            arrays += [] if self.contiguous_operand(score.k, d) else [ScratchArray(f"right{k}", d, f"{TILE} * {width}")]
        for k, w in enumerate(self.attention.weighted_sums):
            d, width = w.state.dtype, f"n{w.axis}"
            arrays += [ScratchArray(side.name, side.dtype, f"{width} * {ATTENTION_ROWS}") for side in w.sides]
            arrays += [] if self.contiguous_operand(w.v, d) else [ScratchArray(f"weighed{k}", d, f"{TILE} * {width}")]
            arrays += [ScratchArray(f"active{k}", d, f"{TILE * ATTENTION_ROWS}")] if w.is_active else []
        arrays += [ScratchArray(v.name, v.dtype, f"{TILE * ATTENTION_ROWS}") for v in self.tile_values.values()]
        for count, bodies in (
            (str(TILE * ATTENTION_ROWS), self.attention.mask_inputs),
            (str(ATTENTION_ROWS), self.attention.row_inputs),
        ):
            arrays += [ScratchArray(f"{b.results[0].name}_read", b.results[0].dtype, count) for b in bodies]
        arrays += [ScratchArray(f"{value.name}_lane", value.dtype, str(ATTENTION_ROWS)) for value in self.rows.values()]
        return arrays

    @cached_property
    def tile_values(self) -> dict[str, Value]:
        """Per-element values that a phase of a tile stores: weights, and operands of later phases."""
        phases, weights = self.attention.tile_phases, {w.p.name for w in self.attention.weighted_sums}
        leaves = [*self.attention.scores, *self.kernel.positions, *self.kernel.loads]
        read = {leaf.value.name for leaf in leaves}  # type: ignore[attr-defined]
        later = {v.name for phase in phases[1:] for v in phase.element.args} | weights
        results = {v.name: v for phase in phases for v in phase.element.results}
        return {name: v for name, v in results.items() if name in weights or (name in later and name not in read)}

    @cached_property
    def rows(self) -> dict[str, Value]:
        """Row values: the states of a tile, the running states, and values computed from them, but what is loaded."""
        values = [v for phase in self.attention.tile_phases for use in phase.folds for v in use.accumulators]
        values += [v for phase in self.attention.tile_phases if phase.row for v in phase.row.results]
        values += [*self.attention.state.accumulators, *self.attention.state.combine.results]
        values += list(self.attention.row_epilogue.results) if self.attention.row_epilogue else []
        read = {x.value.name for x in self.kernel.loads} | {x.value.name for x in self.kernel.positions}
        return {v.name: v for v in values if v.name not in read}

    def contiguous_operand(self, body: Body, d: DType) -> int | None:
        """1 + the operand that a k or v body only loads, in dtype d, so that the matmul reads it in place."""
        if body.instructions or len(body.results) != 1:
            return None
        name = body.results[0].name
        operand = next((load.operand for load in self.kernel.loads if load.value.name == name), None)
        return None if operand is None or self.kernel.operands[operand].dtype is not d else operand + 1

    # -- reading

    def read(self, wanted: set[str], tiles: Mapping[str, str] | None = None) -> list[str]:
        """Loads of values at the indices i<axis>, `lane` and, of an element, `index`; `tiles` are arrays by value."""
        lines = []
        if tiles is not None:
            for index, bodies in (("index", self.attention.mask_inputs), ("lane", self.attention.row_inputs)):
                names = [name for b in bodies if (name := b.results[0].name) in wanted]
                lines += [f"{name} = {reduce.get(f'{name}_read', index)}" for name in names]
                wanted = wanted.difference(names)
        leaves = {x.value.name: f"load{x.operand}(p{x.operand}, {self.offset(x.operand)})" for x in self.kernel.loads}
        leaves |= {x.value.name: f"{x.value.dtype}(i{x.axis})" for x in self.kernel.positions}
        leaves |= {n: reduce.get(f"{n}_lane", "lane") for n in self.rows}
        lines += [f"{name} = {text}" for name, text in leaves.items() if name in wanted]
        # a weight that is itself a leaf is read there: its tile, for the product, is not stored yet
        labels = {name: label for label, name in (tiles or {}).items() if name in wanted and name not in leaves}
        labels |= {name: name for name in labels if tiles and tiles.get(name) == name}  # a score itself, not its copy
        return lines + [f"{name} = {reduce.get(label, 'index')}" for name, label in labels.items()]

    @cached_property
    def tiles_of(self) -> dict[str, str]:
        """The arrays of a partial tile, named as its values."""
        return {name: name for name in (*self.tile_values, *(s.value.name for s in self.attention.scores))}

    def offset(self, operand: int) -> str:
        """The offset of an operand's element at the indices i<axis>."""
        terms = [times(f"i{a}", stride(self.kernel, operand, a)) for a in range(self.kernel.axes)]
        return " + ".join(t for t in terms if t) or "0"

    def body(self, body: Body, tiles: Mapping[str, str] | None = None) -> list[str]:
        """A body, after the loads of its arguments."""
        wanted = {v.name for v in (*body.args, *body.results)}
        return [*self.read(wanted - body.targets, tiles), *body.lines]

    def lane_loop(self, lines: Sequence[str], count: str = str(ATTENTION_ROWS)) -> list[str]:
        """A loop over lanes; lanes beyond the last row repeat it."""
        return [f"for lane in range({count}):", f"    i{self.lane} = top + smaller(lane, rows - 1)", *indented(lines)]
