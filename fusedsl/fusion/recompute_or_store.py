"""Recompute or store: what two kernels compute alike is computed twice where that takes less than memory, else once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..ir.dims import Dim, expression
from ..ir.graph import Node, Type
from ..rewrite.scalar_builder import free_axes
from .both_axis_reductions import BOUND
from .coordinates import Axis, memory_order
from .cost_model import Prices, computed, cost, plus
from .fusion_group import Decision, Group, Partition, loaded, ordered, reaches
from .scalar_program import Root

WORTH_ASKING = 32  # instructions an element: below, a load and a store take longer on every GPU


@dataclass(frozen=True)
class Shared:
    """An element value that two kernels compute; `first` would store it for `second`."""

    value: Node
    first: int
    second: int


def store_dear(cut: Partition, prices: Prices, fits: Callable[[Dim, int], bool]) -> Partition:
    """The partition with values stored where the time model says that this is faster than computing them again. It is
    for every call for which `fits` says the same of what is saved."""
    groups, temporaries, decisions = list(cut.groups), list(cut.temporaries), list(cut.decisions)
    while True:
        best: Shared | None = None
        saved: Dim = 0
        for one in _candidates(groups):
            gain = _gain(groups, one, prices)
            if not fits(expression("-", gain, saved), 0):
                best, saved = one, gain
        if best is None:
            return ordered(groups, temporaries, decisions)
        _store(groups, temporaries, best)
        what = f"{best.value.op} for every element of two kernels"
        reason = "to store it once is faster than to compute it twice"
        decisions.append(Decision(False, (what,), reason, prices.number(saved)))


def _candidates(groups: list[Group]) -> Iterator[Shared]:
    """Values over all axes of two kernels, dear to compute, that something else than shared work reads."""
    own = [computed(g.values, frozenset(g.imports)) for g in groups]
    for a, first in enumerate(groups):
        for b, second in enumerate(groups):
            axes = frozenset(first.rows + first.columns)
            stores = (first.is_elementwise or first.rows) and first.is_plain and second.is_plain
            if a == b or axes != frozenset(second.rows + second.columns) or not stores or reaches(groups, a, b):
                continue
            shared = {n for n in own[a] if n in own[b] and n.args and n.op not in (*BOUND, "fetch")}
            if sum(map(cost, shared)) < WORTH_ASKING:
                continue
            free = free_axes(shared)
            ends = {x for n in own[b] if n not in shared for x in n.args} | set(second.values)
            for n in shared & ends:
                if free[n] == axes and sum(map(cost, computed([n], frozenset(second.imports)))) >= WORTH_ASKING:
                    yield Shared(n, a, b)


def _gain(groups: list[Group], one: Shared, prices: Prices) -> Dim:
    """What storing a value saves (see `Prices.busy`)."""
    first, second = groups[one.first].work, groups[one.second].work
    stored = replace(first, values=(*first.values, one.value), stores=(*first.stores, _root(groups, one, 0)))
    read = replace(second, loads=second.loads | {one.value})
    twice, once = (plus(prices.busy(a), prices.busy(b)) for a, b in ((first, second), (stored, read)))
    return expression("-", twice, once)


def _store(groups: list[Group], temporaries: list, one: Shared) -> None:
    """Let the first kernel store the value, and the second one load it."""
    first, second = groups[one.first], groups[one.second]
    root = next((r for r in first.stores if r.value is one.value and r.kind == "temporary"), None)
    if root is None:
        root = _root(groups, one, len(temporaries))
        temporaries.append((root.type, root.shape))
        first.stores.append(root)
    second.imports[one.value] = loaded(root)
    second.after.add(one.first)


def _root(groups: list[Group], one: Shared, index: int) -> Root:
    return temporary(one.value, memory_order([one.value], groups[one.first].rows + groups[one.first].columns), index)


# -- temporaries of elements


def temporary(value: Node, axes: tuple[Axis, ...], index: int) -> Root:
    """The store of a value for each point of these axes."""
    shape = tuple(a.extent for a in axes)
    return Root("temporary", index, shape, shape, axes, value, Type(value.type.dtype, shape))
