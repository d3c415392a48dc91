"""Matches attention: reductions over scores (sums of products), which one kernel computes without storing the scores.

`softmax(q @ k.mT) @ v` lowers to folds over one axis (the stream) of elements that hold a fold of their own (a score).
What rewrite/online/discover.py brings into one pass becomes a kernel of its own; what it cannot says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...ir.folds import FOLDS, pick
from ...ir.graph import Node, constant, walk
from ...rewrite.online.components import Component
from ...rewrite.online.discover import WEIGHED, find_passes
from ...rewrite.online.online_reduction import OnlineReduction
from ...rewrite.scalar_builder import free_axes, product_of, scalar_op
from ..coordinates import Axis, memory_order
from ..materialize import WIDEST, Fits
from ..scalar_program import ScalarProgram
from .candidates import ReductionSet, group_reductions, rename_axis, split_by_scores, split_by_weighted_sum
from .score_products import (
    Factors,
    direct_reductions,
    distribute_sums,
    factors_of,
    is_operand,
    reachable_reductions,
    scores,
)

TILE_ROWS = 16  # of the smallest tile


@dataclass(frozen=True)
class ScoreProduct:
    """Score q·k: the sum over `axis` of q * k. q depends on rows, k on the kv axis and on no query axis."""

    fold: Node
    axis: Axis
    q: Node
    k: Node


@dataclass(frozen=True)
class ValueProduct:
    """Weighted sum p·v: a component with an output axis, the sum over the kv axis of p * v."""

    component: Component
    axis: Axis
    p: Component
    v: Node


@dataclass(frozen=True)
class AttentionPattern:
    """Attention pattern over one kv axis; no k and no v depends on the `query_axes`."""

    reduction: OnlineReduction
    rows: tuple[Axis, ...]
    query_axes: tuple[Axis, ...]
    score_products: tuple[ScoreProduct, ...]
    value_products: tuple[ValueProduct, ...]

    @property
    def folds(self) -> tuple[Node, ...]:
        """The folds that the pattern computes."""
        return tuple(f for f, _ in self.reduction.finish)

    @property
    def value_axes(self) -> tuple[Axis, ...]:
        return tuple(dict.fromkeys(w.axis for w in self.value_products))

    @property
    def qk_axes(self) -> tuple[Axis, ...]:
        return tuple(dict.fromkeys(p.axis for p in self.score_products))

    @property
    def values(self) -> tuple[Node, ...]:
        """The element values of the folds."""
        return tuple(f.args[0] for f in self.folds)


@dataclass(frozen=True)
class AttentionMatches:
    """The program with the folds of one stream on one axis, the passes that stream, and why others do not."""

    program: ScalarProgram
    patterns: tuple[AttentionPattern, ...]
    refused: tuple[tuple[Node, str], ...]


def match_attention(program: ScalarProgram, fits: Fits, level: bool = False) -> AttentionMatches:
    """Attention patterns of a scalar program; what is refused stays as it was.

    `level`: OnlineReduction.running_reference.
    """
    roots = list(program.stores)
    if level:
        roots = [replace(r, value=v) for r, v in zip(roots, distribute_sums([r.value for r in roots]))]
    apart: set[Node] = set()
    refused: dict[str, Node] = {}
    while True:
        renamed, groups = group_reductions(roots, apart, level)
        values = [renamed[r.value] for r in roots]
        others: list[Node] = []
        if level:
            groups, values, others = split_by_weighted_sum(
                [part for group in groups for part in split_by_scores(group)], values
            )
        made, later, failed = _match_sets(groups, values, fits, level)
        if not failed:
            moved = tuple(replace(r, value=v) for r, v in zip(program.stores, values))
            told = [*((f, reason) for reason, f in refused.items()), *((f, WEIGHED) for f in others), *later]
            return AttentionMatches(replace(program, stores=moved), tuple(made), tuple(told))
        for group, reason in failed:
            apart |= set(group.rewritten)
            refused.setdefault(reason, next(reversed(group.rewritten)))


def _match_sets(groups: list[ReductionSet], roots: list[Node], fits: Fits, level: bool):
    """(the passes of all groups, why a group has several, the groups that have none with the reason)"""
    made: list[AttentionPattern] = []
    later: list[tuple[Node, str]] = []
    failed: list[tuple[ReductionSet, str]] = []
    home: dict[AttentionPattern, ReductionSet] = {}
    for group in groups:
        found = _match_set(group.folds, frozenset(group.value_axes), fits, level)
        if isinstance(found, str):
            failed.append((group, found))
        else:
            made += found[0]
            later += found[1]
            home |= dict.fromkeys(found[0], group)
    stored = reachable_reductions(roots, {f for one in made for f in one.folds}.__contains__)
    for group in dict.fromkeys(home[one] for one in made if _has_stored_scores(one, stored)):
        failed.append((group, "its scores are needed elsewhere too, so that they are stored"))
    return made, later, failed


def _has_stored_scores(one: AttentionPattern, needed: Sequence[Node]) -> bool:
    """Whether a score is needed beside the pass, along whichever axis."""
    (stream,) = one.reduction.stream
    free = free_axes(needed)
    for n in needed:
        if n.op == "fold" and n not in one.folds:
            alike = [a for a in free[n] if a.extent == stream.extent and a not in one.rows]
            moved = [n, *(rename_axis(n, a, stream, free_axes([n])) for a in alike)]
            if any(p.fold in moved for p in one.score_products):
                return True
    return False


# -- passes


def _match_set(
    folds: list[Node], own: frozenset, fits: Fits, level: bool
) -> tuple[list[AttentionPattern], list[tuple[Node, str]]] | str:
    """The passes of folds over one stream, and what keeps them apart; or why there are none."""
    free = free_axes(folds)
    for f in folds:
        others = [n for n in direct_reductions(f.args) if n not in folds and f.attr[1][0] not in free[n]]
        if any(g in folds for n in others for g in walk([n])):
            return "a result of the stream is folded along other axes before it is used"
    made = []
    found, refusals = find_passes(folds, own, level)
    for one in found:
        stream = one.stream or _independent_reduction(one.folds, own)
        stream = replace(stream, running_reference=level and not stream.factors and not stream.means)
        built = _pattern(stream, own, fits)
        if isinstance(built, str):
            return built
        made.append(built)
    return made, [(r.fold, r.reason) for r in refusals]


def _independent_reduction(folds: tuple[Node, ...], own: frozenset) -> OnlineReduction:
    """Folds that need nothing of one another, as a stream fold."""
    free = free_axes(folds)
    rows = frozenset().union(*(free[f] for f in folds)) - own
    stream = OnlineReduction(rows, folds[0].attr[1], folds, (), ())
    finish = tuple((f, stream.of_fold(f, stream.state())[FOLDS[f.attr[0]].finish]) for f in folds)
    return replace(stream, finish=finish)


def _pattern(stream: OnlineReduction, own: frozenset, fits: Fits) -> AttentionPattern | str:
    (along,) = stream.stream
    if fits(along.extent, 0):
        return "its stream has no elements: a sum of none is 0, whatever it is divided by"
    if any(free_axes([f])[f] & own for f in stream.folds):
        return "what is folded for each of its own axes is no sum of products"
    values = [f.args[0] for f, _ in stream.finish]
    free = free_axes(values)
    products = [
        _score_product(g, along, free, stream.running_reference)
        for g in dict.fromkeys(g for v in values for g in scores(v, along, free))
    ]
    weighted = [_value_product(c, stream) for c in stream.components if _value_axes(c, stream)]
    for one in (*products, *weighted):
        if isinstance(one, str):
            return one
    unsummed = own - {one.axis for one in weighted}  # type: ignore[union-attr]
    if any(free_axes([f])[f] & unsummed for f, _ in stream.finish):
        return "what varies along a result's own axis stands before its sum, which is then for each row alone"
    rights = [*(p.k for p in products), *(w.v for w in weighted)]  # type: ignore[union-attr]
    used = free_axes(rights)
    lanes = stream.rows.difference(*(used[r] for r in rights))
    if any(f.type.dtype.kind != "f" for f in (*(p.fold for p in products), *(w.v for w in weighted))):  # type: ignore[union-attr]
        return "its products are of integers"
    if not lanes and not stream.running_reference:
        return "its scores are those of a single row, and tiles are of several"
    axes = [one.axis for one in (*products, *weighted)]  # type: ignore[union-attr]
    if not all(fits(a.extent, WIDEST) for a in axes):
        return f"a product or a result is wider than {WIDEST}: a tile of rows does not hold it"
    if any(p.axis in stream.rows for p in products):  # type: ignore[union-attr]
        return "its scores sum over an axis of the name of one of its rows"
    order = memory_order(values, sorted(stream.rows, key=str))
    tiled = _longest_last([a for a in order if a in lanes], fits)
    rows = (*(a for a in order if a not in lanes), *tiled)
    return AttentionPattern(stream, rows, tiled, tuple(products), tuple(weighted))  # type: ignore[arg-type]


def _longest_last(lanes: list[Axis], fits: Fits) -> tuple[Axis, ...]:
    """The rows' axes in an order whose last one, which tiles lie along, fills them where any does."""
    if len(lanes) > 1 and fits(lanes[-1].extent, TILE_ROWS):
        long = next((a for a in reversed(lanes[:-1]) if not fits(a.extent, TILE_ROWS)), None)
        if long is not None:
            return (*(a for a in lanes if a != long), long)
    return tuple(lanes)


def _score_product(g: Node, along: Axis, free: dict[Node, frozenset], level: bool) -> ScoreProduct | str:
    """A score as a sum of products of what depends on the stream and what does not: rounded, where `level`."""
    if len(g.attr[1]) != 1:
        return "its scores sum over several axes at once"
    parts = factors_of(g.args[0], lambda n: level and is_operand(n))
    if parts.under or parts.where:
        parts = Factors([g.args[0]], [], [])
    sides = ([n for n in parts.over if (along in free[n]) is inside] for inside in (False, True))
    left, right = (parts.product(side) if level else product_of(side) for side in sides)
    if left is None or right is None:
        return "its scores are no products of two operands"
    return ScoreProduct(g, g.attr[1][0], left, right)


def _value_axes(c: Component, stream: OnlineReduction) -> frozenset:
    if c.weight is None:
        return frozenset()
    return free_axes([c.weight])[c.weight] - stream.rows - set(stream.stream)


def _value_product(c: Component, stream: OnlineReduction) -> ValueProduct | str:
    own = _value_axes(c, stream)
    if len(own) != 1:
        return "a result has several axes of its own"
    assert c.weight is not None
    parts, free = factors_of(c.weight, lambda n: stream.running_reference and is_operand(n)), free_axes([c.weight])
    free |= free_axes([*parts.over, *parts.under, *parts.where])
    right = [n for n in parts.over if free[n] & own]
    rest = product_of([n for n in parts.over if n not in right])
    if any(free[n] & own for n in (*parts.under, *parts.where)):
        return "a result has several axes of its own"
    for n in parts.under:
        rest = scalar_op("divide", rest if rest is not None else constant(1.0, c.dtype), n)
    for condition in parts.where:
        one = rest if rest is not None else constant(1.0, c.dtype)
        rest = pick(condition, one, constant(0.0, c.dtype))
    weighed = parts.product(right) if stream.running_reference else product_of(right)
    assert weighed is not None
    return ValueProduct(c, next(iter(own)), replace(c, weight=rest), weighed)
