"""Describes a block mask for explain(): which tiles are skipped, which are computed with a mask, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from ...ir.graph import Node, search, value_of
from ...ir.printer import show_literal
from ...rewrite.intervals.interval_analysis import Intervals
from ...rewrite.intervals.three_valued_logic import NO, UNKNOWN, YES, Truth
from ...rewrite.online.online_reduction import OnlineReduction
from .body_builder import BodyBuilder

FINITE_MASK = 1e4  # constants beyond this magnitude are meant as masks
LOADS = ("load", "fetch")


def describe_tiles(
    builder: BodyBuilder, intervals: Intervals, counted: Sequence[Sequence[tuple[Node, bool]]], answers: Truth
) -> str:
    """Describe skipped and full tiles; `answers` is (any element active, all elements active)."""
    some, every = answers
    whole = "unmasked tiles compute no mask"
    if some is not YES:
        return f"fully masked tiles are skipped{'' if every is NO else f', {whole}'}"
    if every not in (YES, NO):
        return "all tiles are computed, as a result is of what is masked, too; unmasked tiles compute no mask"
    if not all(counted):  # as where weights are dropped after they were divided by the sum of all
        return ""
    unknown = [c for group in counted for c, _ in group if intervals.truth(c) == UNKNOWN]
    why = "each has something that counts"
    if unknown:
        why = f"nothing is known beforehand of {_source_name(builder, intervals.obstacle(unknown[0]))}"
    return f"all tiles are computed: {why}"


def _source_name(builder: BodyBuilder, n: Node) -> str:
    """A value by its name in the source."""
    if n.op.startswith("philox"):
        return "random numbers"
    if n.op in LOADS:
        return builder.comment(n)
    return "scores" if n.op == "fold" else n.op.replace("_", " ")


def describe_finite_mask(online: OnlineReduction) -> str:
    """Describe a maximum over values that are masked by a finite number: no tile can be skipped."""
    mask_value = next(_large_constants(f.args[0] for f in online.folds if f.attr[0] == "max"), None)
    if mask_value is None:
        return ""
    return f"all tiles are computed: {show_literal(mask_value)} is no -inf, and counts in rows that have nothing else"


def _large_constants(roots: Iterable[Node]) -> Iterator[Node]:
    """Large constants among the branches of selects, outside of scores."""
    for n in search(roots, lambda n: () if n.op == "fold" else n.args):
        if n.op == "where":
            yield from (a for a in n.args[1:] if a.op == "const" and FINITE_MASK < abs(value_of(a)) < inf)
