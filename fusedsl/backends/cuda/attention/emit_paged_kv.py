"""Emits the lookup of paged k and v rows: each warp computes the addresses of a key tile, one or two rows a lane.

Names of the next tile end in `_ahead`: the validity of the current tile's rows is read until its softmax is done.
"""

from __future__ import annotations

from ....kernel_ir.attention import PagedOperands
from .emit_facts import AttentionFacts
from .emit_fragment import Domain, FragmentEmitter, IndexSpace


def paged_space(facts: AttentionFacts) -> IndexSpace:
    """The index space of the paged rows of a key tile."""
    kv = facts.kv_axis
    return IndexSpace({kv: "place_ahead"}, lambda axes: Domain.PAGED_ROW if kv in axes else Domain.SCALAR, "_ahead")


class PagedLookups:
    """The lookups of paged k and v rows, key tile by key tile."""

    def __init__(self, tile: FragmentEmitter, paged: PagedOperands):
        self.paged, self.facts = paged, tile.facts
        self.values = tile.in_space(paged_space(tile.facts), approx=False)

    def lookup(self, first: str) -> list[str]:
        """Lines that look up the rows of the key tile that begins at index `first`."""
        values, n = self.values, f"n{self.facts.kv_axis}"
        values.source.top += [
            f"lookup = PagedLookup({self.facts.tiling.columns})",
            "places_ahead, line_words = lookup.places(), lookup.words()",
        ]
        values.define("clamp_places", Domain.PAGED_ROW, "int64, int64 -> int64", "j, n", ["return minimum(j, n - 1)"])
        with values.collected() as lines:
            values.source.assign("places", f"places_ahead({first})")
            values.source.assign("place_ahead", f"clamp_places(places, {n})")
            values.apply("look_up", self.paged.body, Domain.PAGED_ROW)
            types, row = "int64, bool, int64, int64 -> int64", ["return select(wanted & (j < n), at, int64(0))"]
            values.define("begin_line", Domain.PAGED_ROW, types, "at, wanted, j, n", row)
            for name in ("k", "v"):
                if paged := self.facts.paged_row(name):
                    address, predicate = values.named(paged.address.name), values.named(paged.predicate.name)
                    values.source.assign(f"{name}_lines", f"begin_line({address}, {predicate}, places, {n})")
            for v in self.paged.valid:
                values.source.assign(f"{v.name}_ahead_words", f"line_words({values.named(v.name)})")
        return lines

    def keep_validity(self) -> list[str]:
        """Lines that keep the validity words of a tile before the next one is looked up."""
        return [f"{v.name}_words = {v.name}_ahead_words" for v in self.paged.valid]
