"""Matches attention: reductions over scores (sums of products), which one kernel computes without storing the scores.

`softmax(q @ k.mT) @ v` lowers to folds over the kv axis of elements that read a fold of their own, the score. A set of
folds that rewrite/online/discover.py brings into one pass becomes a kernel; every refusal has its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...ir.folds import FOLDS, pick
from ...ir.graph import Node, constant, walk
from ...rewrite.online.components import Component
from ...rewrite.online.discover import ONE_VALUE_OPERAND, find_passes
from ...rewrite.online.online_reduction import OnlineReduction
from ...rewrite.scalar_builder import free_axes, product_of, scalar_op
from ..coordinates import Axis, memory_order
from ..kernel_limits import WIDEST, Fits
from ..scalar_program import ScalarProgram
from .candidates import ReductionSet, group_reductions, rename_axis, split_by_scores, split_by_weighted_sum
from .distribute_sums import distribute_sums
from .score_products import Factors, direct_reductions, factors_of, is_operand, reachable_reductions, scores

TILE_ROWS = 16  # of the smallest query tile


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
    """The program with attention folds on common kv axes, their patterns, and refused folds with reasons."""

    program: ScalarProgram
    patterns: tuple[AttentionPattern, ...]
    refused: tuple[tuple[Node, str], ...]


def match_attention(program: ScalarProgram, fits: Fits, running_reference: bool = False) -> AttentionMatches:
    """Attention patterns of a scalar program; refused folds stay as they are.

    With a `running_reference`, tiles are measured from the running extrema (see OnlineReduction).
    """
    roots = list(program.stores)
    if running_reference:
        roots = [replace(r, value=v) for r, v in zip(roots, distribute_sums([r.value for r in roots]))]
    excluded: set[Node] = set()
    refused: dict[str, Node] = {}
    while True:
        renamed, groups = group_reductions(roots, excluded, running_reference)
        values = [renamed[r.value] for r in roots]
        unweighted: list[Node] = []
        if running_reference:
            groups, values, unweighted = split_by_weighted_sum(
                [part for group in groups for part in split_by_scores(group)], values
            )
        patterns, split, failed = _match_sets(groups, values, fits, running_reference)
        if not failed:
            stores = tuple(replace(r, value=v) for r, v in zip(program.stores, values))
            refusals = [
                *((f, reason) for reason, f in refused.items()),
                *((f, ONE_VALUE_OPERAND) for f in unweighted),
                *split,
            ]
            return AttentionMatches(replace(program, stores=stores), tuple(patterns), tuple(refusals))
        for group, reason in failed:
            excluded |= set(group.rewritten)
            if group.value_axes or len(group.folds) > 1:  # one fold alone, as of a vector, is no attention
                refused.setdefault(reason, next(reversed(group.rewritten)))


def _match_sets(groups: list[ReductionSet], roots: list[Node], fits: Fits, running_reference: bool):
    """(patterns of all sets, folds that a set has split into a second pass, failed sets), each with its reason."""
    patterns: list[AttentionPattern] = []
    split: list[tuple[Node, str]] = []
    failed: list[tuple[ReductionSet, str]] = []
    set_of: dict[AttentionPattern, ReductionSet] = {}
    for group in groups:
        result = _match_set(group.folds, frozenset(group.value_axes), fits, running_reference)
        if isinstance(result, str):
            failed.append((group, result))
        else:
            patterns += result[0]
            split += result[1]
            set_of |= dict.fromkeys(result[0], group)
    stored = reachable_reductions(roots, {f for pattern in patterns for f in pattern.folds}.__contains__)
    for group in dict.fromkeys(set_of[pattern] for pattern in patterns if _has_stored_scores(pattern, stored)):
        failed.append((group, "its scores are needed elsewhere too, so that they are stored"))
    return patterns, split, failed


def _has_stored_scores(pattern: AttentionPattern, needed: Sequence[Node]) -> bool:
    """Whether a kernel outside the pattern needs its scores, along whichever axis."""
    (reduction,) = pattern.reduction.axes
    free = free_axes(needed)
    for n in needed:
        if n.op == "fold" and n not in pattern.folds:
            similar = [a for a in free[n] if a.extent == reduction.extent and a not in pattern.rows]
            renamed = [n, *(rename_axis(n, a, reduction, free_axes([n])) for a in similar)]
            if any(p.fold in renamed for p in pattern.score_products):
                return True
    return False


# -- one set


def _match_set(
    folds: list[Node], value_axes: frozenset, fits: Fits, running_reference: bool
) -> tuple[list[AttentionPattern], list[tuple[Node, str]]] | str:
    """(patterns of folds over one kv axis, folds in a second pass with the reason), or why there is no pattern."""
    free = free_axes(folds)
    for f in folds:
        others = [n for n in direct_reductions(f.args) if n not in folds and f.attr[1][0] not in free[n]]
        if any(g in folds for n in others for g in walk([n])):
            return "a result of the reduction is folded along other axes before it is used"
    patterns = []
    passes, refusals = find_passes(folds, value_axes, running_reference)
    for online_pass in passes:
        reduction = online_pass.reduction or _independent_reduction(online_pass.folds, value_axes)
        reduction = replace(
            reduction, running_reference=running_reference and not reduction.factors and not reduction.means
        )
        pattern = _pattern(reduction, value_axes, fits)
        if isinstance(pattern, str):
            return pattern
        patterns.append(pattern)
    return patterns, [(r.fold, r.reason) for r in refusals]


def _independent_reduction(folds: tuple[Node, ...], value_axes: frozenset) -> OnlineReduction:
    """Independent folds as an online reduction."""
    free = free_axes(folds)
    rows = frozenset().union(*(free[f] for f in folds)) - value_axes
    reduction = OnlineReduction(rows, folds[0].attr[1], folds, (), ())
    finish = tuple((f, reduction.of_fold(f, reduction.state())[FOLDS[f.attr[0]].finish]) for f in folds)
    return replace(reduction, finish=finish)


def _pattern(reduction: OnlineReduction, value_axes: frozenset, fits: Fits) -> AttentionPattern | str:
    (kv_axis,) = reduction.axes
    if fits(kv_axis.extent, 0):
        return "its reduction has no elements: a sum of none is 0, whatever it is divided by"
    if any(free_axes([f])[f] & value_axes for f in reduction.folds):
        return "a reduction over an output axis is not a matmul"
    values = [f.args[0] for f, _ in reduction.finish]
    free = free_axes(values)
    products = [
        _score_product(g, kv_axis, free, reduction.running_reference)
        for g in dict.fromkeys(score for v in values for score in scores(v, kv_axis, free))
    ]
    weighted = [_value_product(c, reduction) for c in reduction.components if _value_axes(c, reduction)]
    for product in (*products, *weighted):
        if isinstance(product, str):
            return product
    unsummed = value_axes - {product.axis for product in weighted}  # type: ignore[union-attr]
    if any(free_axes([f])[f] & unsummed for f, _ in reduction.finish):
        return "an output-axis term is applied before the sum"
    kv_operands = [*(p.k for p in products), *(w.v for w in weighted)]  # type: ignore[union-attr]
    axes_of = free_axes(kv_operands)
    query_axes = reduction.rows.difference(*(axes_of[r] for r in kv_operands))
    if any(f.type.dtype.kind != "f" for f in (*(p.fold for p in products), *(w.v for w in weighted))):  # type: ignore[union-attr]
        return "its products are of integers"
    if not query_axes and not reduction.running_reference:
        return "its scores are those of a single row, and tiles are of several"
    axes = [product.axis for product in (*products, *weighted)]  # type: ignore[union-attr]
    if not all(fits(a.extent, WIDEST) for a in axes):
        return f"a product or a result is wider than {WIDEST}: a tile of rows does not hold it"
    if any(p.axis in reduction.rows for p in products):  # type: ignore[union-attr]
        return "its scores sum over an axis of the name of one of its rows"
    order = memory_order(values, sorted(reduction.rows, key=str))
    ordered = _longest_last([a for a in order if a in query_axes], fits)
    rows = (*(a for a in order if a not in query_axes), *ordered)
    return AttentionPattern(reduction, rows, ordered, tuple(products), tuple(weighted))  # type: ignore[arg-type]


def _longest_last(query_axes: list[Axis], fits: Fits) -> tuple[Axis, ...]:
    """Query axes with the last one, along which tiles lie, long enough for a tile if any is."""
    if len(query_axes) > 1 and fits(query_axes[-1].extent, TILE_ROWS):
        long = next((a for a in reversed(query_axes[:-1]) if not fits(a.extent, TILE_ROWS)), None)
        if long is not None:
            return (*(a for a in query_axes if a != long), long)
    return tuple(query_axes)


def _score_product(g: Node, kv_axis: Axis, free: dict[Node, frozenset], running_reference: bool) -> ScoreProduct | str:
    """A score as the sum of q * k, or why it is none. With a `running_reference`, operands keep their casts."""
    if len(g.attr[1]) != 1:
        return "its scores sum over several axes at once"
    factors = factors_of(g.args[0], lambda n: running_reference and is_operand(n))
    if factors.under or factors.where:
        factors = Factors([g.args[0]], [], [])
    sides = ([n for n in factors.over if (kv_axis in free[n]) is inside] for inside in (False, True))
    q, k = (factors.product(side) if running_reference else product_of(side) for side in sides)
    if q is None or k is None:
        return "its scores are no products of two operands"
    return ScoreProduct(g, g.attr[1][0], q, k)


def _value_axes(c: Component, reduction: OnlineReduction) -> frozenset:
    if c.weight is None:
        return frozenset()
    return free_axes([c.weight])[c.weight] - reduction.rows - set(reduction.axes)


def _value_product(c: Component, reduction: OnlineReduction) -> ValueProduct | str:
    axes = _value_axes(c, reduction)
    if len(axes) != 1:
        return "a result has several axes of its own"
    assert c.weight is not None
    factors, free = factors_of(c.weight, lambda n: reduction.running_reference and is_operand(n)), free_axes([c.weight])
    free |= free_axes(factors.all)
    value_factors = [n for n in factors.over if free[n] & axes]
    weight = product_of([n for n in factors.over if n not in value_factors])
    if any(free[n] & axes for n in (*factors.under, *factors.where)):
        return "a result has several axes of its own"
    for n in factors.under:
        weight = scalar_op("divide", weight if weight is not None else constant(1.0, c.dtype), n)
    for condition in factors.where:
        selected = weight if weight is not None else constant(1.0, c.dtype)
        weight = pick(condition, selected, constant(0.0, c.dtype))
    v = factors.product(value_factors) if reduction.running_reference else product_of(value_factors)
    assert v is not None
    return ValueProduct(c, next(iter(axes)), replace(c, weight=weight), v)
