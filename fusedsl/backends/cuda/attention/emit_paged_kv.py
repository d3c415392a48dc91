"""Emits the lookup of paged k and v rows: each warp computes the addresses of a key tile, one or two rows a lane.

Names of the next tile end in `_ahead`: the validity of the current tile's rows is read until its softmax is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.attention import PagedOperands, PagedRow
from .emit_fragment import COLUMN, PAGED_ROW, SCALAR, FragmentEmitter

if TYPE_CHECKING:
    from .emit_tile import TileEmitter


class PagedLookupEmitter(FragmentEmitter):
    """Emitter of the lookup in the file of `w`."""

    def __init__(self, w: TileEmitter, gather: PagedOperands):
        super().__init__(w.kernel, w.query_axis, w.value_axis, w.packed_gqa_axis)
        self.w, self.paged, self.approx = w, gather, False
        self.top, self.functions, self.function_names = w.top, w.functions, w.function_names
        self.domain = {name: kind for name, kind in w.domain.items() if kind == SCALAR}
        self.uniform = frozenset(self.domain)

    def named(self, name: str) -> str:
        return name if name in self.uniform else f"{name}_ahead"

    def leaf_domain(self, name: str) -> str | None:
        axes = self.axes_of(name)
        return None if axes is None else PAGED_ROW if self.kv_axis in axes else SCALAR

    def axis_position(self, axis: int) -> str:
        return "place_ahead" if axis == self.kv_axis else f"c{axis}"

    def emit_lookup(self, first: str) -> list[str]:
        """Lines that look up the rows of the key tile that begins at index `first`."""
        columns = self.w.tiling.columns
        self.top.append(f"lookup = PagedLookup({columns})")
        self.top.append("places_ahead, line_words = lookup.places(), lookup.words()")
        self.define("clamp_places", PAGED_ROW, "int64, int64 -> int64", "j, n", ["return minimum(j, n - 1)"])
        self.code += [f"places = places_ahead({first})", f"place_ahead = clamp_places(places, n{self.kv_axis})"]
        self.load_leaves(v.name for v in self.paged.body.args)
        self.call("look_up", self.paged.body, PAGED_ROW)
        wanted = ["return select(wanted & (j < n), at, int64(0))"]
        self.define("begin_line", PAGED_ROW, "int64, bool, int64, int64 -> int64", "at, wanted, j, n", wanted)
        for name, line in (("k", self.paged.k), ("v", self.paged.v)):
            if line is not None:
                at, flag = self.named(line.address.name), self.named(line.predicate.name)
                self.code.append(f"{name}_lines = begin_line({at}, {flag}, places, n{self.kv_axis})")
        for v in self.paged.valid:
            self.code.append(f"{v.name}_ahead_words = line_words({self.named(v.name)})")
        return self.code


def paged_row(w: TileEmitter, name: str) -> PagedRow | None:
    """The paged row of operand "k" or "v"; None if the operand is a plain array."""
    gather = w.stream.paged
    return getattr(gather, name, None) if gather is not None else None


def emit_valid_words(w: TileEmitter) -> list[str]:
    """Lines that keep the validity words of a tile before the next one is looked up."""
    return [f"{v.name}_words = {v.name}_ahead_words" for v in (w.stream.paged.valid if w.stream.paged else ())]


def emit_valid_flags(w: TileEmitter, wanted: set[str]) -> None:
    """Emit the validity conditions that elements of a tile read."""
    for v in w.stream.paged.valid if w.stream.paged else ():
        if v.name in wanted:
            if "line_flags = score_fragment.flags()" not in w.top:
                w.top.append("line_flags = score_fragment.flags()")
            w.code.append(f"{v.name} = line_flags({v.name}_words)")
            w.domain[v.name] = COLUMN
