"""Lines of right operands that are looked up: each warp finds those of a tile, a lane one or two of them.

What is found of the next tile ends in `_ahead`: whether lines are there is asked until the tile before it is worked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....kernel_ir.attention import PagedOperands, PagedRow
from .emit_fragment import COLUMN, PAGED_ROW, SCALAR, FragmentEmitter

if TYPE_CHECKING:
    from .emit_tile import TileEmitter


class PagedLookupEmitter(FragmentEmitter):
    """The file of `w`, where lines of the stream are looked up."""

    def __init__(self, w: TileEmitter, gather: PagedOperands):
        super().__init__(w.kernel, w.lane, w.own_axis, w.packed)
        self.w, self.gather, self.quick = w, gather, False
        self.top, self.functions, self.made = w.top, w.functions, w.made
        self.domain = {name: kind for name, kind in w.domain.items() if kind == SCALAR}
        self.alike = frozenset(self.domain)

    def named(self, name: str) -> str:
        return name if name in self.alike else f"{name}_ahead"

    def leaf_domain(self, name: str) -> str | None:
        axes = self.axes_of(name)
        return None if axes is None else PAGED_ROW if self.along in axes else SCALAR

    def axis_place(self, axis: int) -> str:
        return "place_ahead" if axis == self.along else f"c{axis}"

    def lines(self, first: str) -> list[str]:
        """Lines that look up those of the tile from place `first` on."""
        columns = self.w.tiles.columns
        self.top.append(f"lookup = Lookup({columns})")
        self.top.append("places_ahead, line_words = lookup.places(), lookup.words()")
        self.define("clamp_places", PAGED_ROW, "int64, int64 -> int64", "j, n", ["return minimum(j, n - 1)"])
        self.code += [f"places = places_ahead({first})", f"place_ahead = clamp_places(places, n{self.along})"]
        self.leaves(v.name for v in self.gather.body.args)
        self.call("look_up", self.gather.body, PAGED_ROW)
        wanted = ["return select(wanted & (j < n), at, int64(0))"]
        self.define("begin_line", PAGED_ROW, "int64, bool, int64, int64 -> int64", "at, wanted, j, n", wanted)
        for name, line in (("right", self.gather.right), ("weighed", self.gather.weighed)):
            if line is not None:
                at, flag = self.named(line.address.name), self.named(line.wanted.name)
                self.code.append(f"{name}_lines = begin_line({at}, {flag}, places, n{self.along})")
        for v in self.gather.there:
            self.code.append(f"{v.name}_ahead_words = line_words({self.named(v.name)})")
        return self.code


def paged_row(w: TileEmitter, name: str) -> PagedRow | None:
    """How the lines of an operand, "right" or "weighed", are looked up; None where they lie as they do."""
    gather = w.stream.gather
    return getattr(gather, name, None) if gather is not None else None


def emit_valid_words(w: TileEmitter) -> list[str]:
    """Lines that keep of a tile whether its lines are there, before the next one is looked up."""
    return [f"{v.name}_words = {v.name}_ahead_words" for v in (w.stream.gather.there if w.stream.gather else ())]


def emit_valid_flags(w: TileEmitter, wanted: set[str]) -> None:
    """Write what elements of a tile ask of their lines."""
    for v in w.stream.gather.there if w.stream.gather else ():
        if v.name in wanted:
            if "line_flags = S.flags()" not in w.top:
                w.top.append("line_flags = S.flags()")
            w.code.append(f"{v.name} = line_flags({v.name}_words)")
            w.domain[v.name] = COLUMN
