"""Recompute or store: a value that two kernels compute is stored by one of them if that is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..ir.dims import Dim, expression
from ..ir.graph import Node
from ..rewrite.scalar_builder import free_axes
from .both_axis_reductions import BOUND
from .coordinates import memory_order
from .cost_model import Prices, computed_nodes, cost, plus
from .fusion_group import Decision, FusionGroup, Partition, depends_on, in_launch_order, load_of
from .scalar_program import ScalarStore, temporary

EXPENSIVE = 32  # instructions per element; below, a load and a store take longer on every GPU


@dataclass(frozen=True)
class SharedValue:
    """Element value that two kernels compute; `first` could store it for `second`."""

    value: Node
    first: int
    second: int


def materialize_shared(cut: Partition, prices: Prices, fits: Callable[[Dim, int], bool]) -> Partition:
    """Partition with shared values stored if the time model says that this is faster.

    It holds for every call for which `fits` says the same of the saving.
    """
    groups, temporaries, decisions = list(cut.groups), list(cut.temporaries), list(cut.decisions)
    while True:
        best: SharedValue | None = None
        saved: Dim = 0
        for shared in _candidates(groups):
            gain = _gain(groups, shared, prices)
            if not fits(expression("-", gain, saved), 0):
                best, saved = shared, gain
        if best is None:
            return in_launch_order(groups, temporaries, decisions)
        _store(groups, temporaries, best)
        what = f"{best.value.op} for every element of two kernels"
        reason = "storing it once is faster than computing it twice"
        decisions.append(Decision(False, (what,), reason, prices.number(saved)))


def _candidates(groups: list[FusionGroup]) -> Iterator[SharedValue]:
    """Expensive values over all axes of two kernels, with a reader outside the shared work."""
    own = [computed_nodes(g.values, frozenset(g.imports)) for g in groups]
    for a, first in enumerate(groups):
        for b, second in enumerate(groups):
            axes = frozenset(first.rows + first.columns)
            stores = (first.is_elementwise or first.rows) and first.is_plain and second.is_plain
            if a == b or axes != frozenset(second.rows + second.columns) or not stores or depends_on(groups, a, b):
                continue
            shared = {n for n in own[a] if n in own[b] and n.args and n.op not in (*BOUND, "fetch")}
            if sum(map(cost, shared)) < EXPENSIVE:
                continue
            free = free_axes(shared)
            ends = {x for n in own[b] if n not in shared for x in n.args} | set(second.values)
            for n in shared & ends:
                if free[n] == axes and sum(map(cost, computed_nodes([n], frozenset(second.imports)))) >= EXPENSIVE:
                    yield SharedValue(n, a, b)


def _gain(groups: list[FusionGroup], shared: SharedValue, prices: Prices) -> Dim:
    """Time that storing a value saves (see `Prices.busy`)."""
    first, second = groups[shared.first].work, groups[shared.second].work
    stored = replace(first, values=(*first.values, shared.value), stores=(*first.stores, _store_of(groups, shared, 0)))
    read = replace(second, loads=second.loads | {shared.value})
    twice, once = (plus(prices.busy(a), prices.busy(b)) for a, b in ((first, second), (stored, read)))
    return expression("-", twice, once)


def _store(groups: list[FusionGroup], temporaries: list, shared: SharedValue) -> None:
    """Let the first kernel store the value and the second one load it."""
    first, second = groups[shared.first], groups[shared.second]
    root = next((r for r in first.stores if r.value is shared.value and r.keeps_value), None)
    if root is None:
        root = _store_of(groups, shared, len(temporaries))
        temporaries.append(root.type)
        first.stores.append(root)
    second.imports[shared.value] = load_of(root)
    second.waits_for.add(shared.first)


def _store_of(groups: list[FusionGroup], shared: SharedValue, index: int) -> ScalarStore:
    return temporary(
        shared.value, memory_order([shared.value], groups[shared.first].rows + groups[shared.first].columns), index
    )
