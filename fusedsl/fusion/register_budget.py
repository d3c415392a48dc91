"""Registers: a kernel whose values do not fit a thread's registers is cut where the fewest of them are alive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.graph import Node
from ..rewrite.scalar_builder import free_axes
from .both_axis_reductions import BOUND
from .coordinates import memory_order
from .cost_model import Prices
from .fusion_group import Decision, FusionGroup, Partition, in_launch_order, load_of
from .recompute_or_store import temporary
from .scalar_program import ScalarStore

FEWEST = 24  # below, cutting costs more than spilling


def fit_register_budget(cut: Partition, budget: int, prices: Prices) -> Partition:
    """The partition with every kernel cut until its values fit the budget, as far as cuts help."""
    cutter = _GroupSplitter(cut, budget, prices)
    k = 0
    while k < len(cutter.groups):
        if cutter.fits(k) or not cutter.cut(k):
            k += 1
    return in_launch_order(cutter.groups, cutter.temporaries, cutter.decisions)


class _GroupSplitter:
    def __init__(self, cut: Partition, budget: int, prices: Prices):
        self.budget = budget
        self.prices = prices
        self.groups = list(cut.groups)
        self.temporaries = list(cut.temporaries)
        self.decisions = list(cut.decisions)

    def fits(self, k: int) -> bool:
        g = self.groups[k]
        return not g.is_plain or max(pressure(_order(g.values, g.imports), g.values), default=0) <= self.budget

    def cut(self, k: int) -> bool:
        """Cut a kernel once; False where no cut helps."""
        g = self.groups[k]
        if g.is_map:
            return self._cut_map(k)
        folded = [f.args[0] for f in g.folds]
        if g.stores and max(pressure(_order(folded, g.imports), folded)) <= self.budget:
            self._part_stores(k)
            return True
        return self._part_folds(k) or self._compute_before(k)

    # -- maps

    def _cut_map(self, k: int) -> bool:
        """What the first half of the body makes becomes a kernel of its own, before this one."""
        g, axes = self.groups[k], self.groups[k].columns
        order = _order(g.values, g.imports)
        crossing = self._crossing(g, order, frozenset(axes), set())
        if crossing is None:
            return False
        early, over = crossing
        done = [r for r in g.stores if r.value in early]
        if len(done) == len(g.stores):
            return False
        first = FusionGroup((), axes, stores=done, imports=dict(g.imports), waits_for=set(g.waits_for))
        self._before(k, first, over)
        g.stores = [r for r in g.stores if r not in done]
        self._told(g, first, over)
        return True

    def _crossing(
        self, g: FusionGroup, order: list[Node], axes: frozenset, kept: set[Node]
    ) -> tuple[set[Node], list[Node]] | None:
        """(what is computed before a place of the body, what of it is read after, or `kept`) where the latter is least,
        among the places up to the first at which the values do not fit."""
        alive = pressure(order, g.values)
        limit = next((p for p, words in enumerate(alive) if words > self.budget), len(order))
        free = free_axes(order)
        values, addresses = set(g.values), _addresses(order)
        last = {a: p for p, n in enumerate(order) for a in n.args} | dict.fromkeys(kept, len(order))
        best, crossing, ends, made, done = None, 0, [0] * (len(order) + 1), False, False
        for p, n in enumerate(order[:-1]):  # a cut behind each node
            crossing -= ends[p]
            if not _is_leaf(n, g) and n not in addresses:
                made = True
                if free[n] == axes and last.get(n, p) > p:
                    crossing += _words(n)
                    ends[last[n]] += _words(n)
            done |= n in values and n not in kept
            somewhere = limit // 2 <= p + 1 <= max(limit, 1) and made and (crossing or done)
            if somewhere and (best is None or crossing <= best[0]):
                best = (crossing, p + 1)
        if best is None:
            return None
        early = order[: best[1]]
        over = [n for n in early if last.get(n, 0) >= best[1] and free[n] == axes and not _is_leaf(n, g)]
        return set(early), [n for n in over if n not in addresses]

    def _before(self, k: int, first: FusionGroup, over: Sequence[Node]) -> None:
        """Put a kernel before another one, and let it store what crosses."""
        g = self.groups[k]
        for n in over:
            root = temporary(n, memory_order([n], first.columns), len(self.temporaries))
            self.temporaries.append((root.type, root.shape))
            first.stores.append(root)
            g.imports[n] = load_of(root)
        self.groups.append(first)
        g.waits_for.add(len(self.groups) - 1)

    # -- folds

    def _part_stores(self, k: int) -> None:
        """The elements are stored by a map after this kernel, which leaves it its folds."""
        g = self.groups[k]
        later = FusionGroup(
            (), memory_order([g.stores[0].value], g.rows + g.columns), stores=g.stores, imports=dict(g.imports)
        )
        later.waits_for = {k, *g.waits_for}
        written = {r.index for r in g.stores if r.kind == "temporary"}
        g.stores = []
        used = set(_order(later.values, later.imports))
        for f in g.folds:
            if f in used:
                later.imports[f] = load_of(self._stored(g, f))
        self.groups.append(later)
        for other in self.groups[:-1]:
            if not written.isdisjoint(other.temporaries_read):
                other.waits_for.add(len(self.groups) - 1)
        self._told(g, later, later.values)

    def _part_folds(self, k: int) -> bool:
        """Half of the folds that need no other, with what is stored of them alone, become a kernel before this one."""
        g = self.groups[k]
        order = _order(g.values, g.imports)
        late = _users(order, set(g.folds), g.imports)
        free = [f for f in g.folds if f.args[0] not in late]
        if len(free) < 2 or sum(_words(f.args[0]) for f in free) <= self.budget // 2:
            return False
        early = set(free[: len(free) // 2])
        rest = _users(order, set(g.folds) - early, g.imports)
        first = FusionGroup(g.rows, g.columns, folds=[f for f in g.folds if f in early], imports=dict(g.imports))
        first.waits_for, first.row_stores = set(g.waits_for), [r for r in g.row_stores if r.value not in rest]
        g.folds, g.row_stores = [f for f in g.folds if f not in early], [r for r in g.row_stores if r.value in rest]
        used = set(_order(g.values, g.imports))
        crossing = [f for f in first.folds if f in used]
        for f in crossing:
            g.imports[f] = load_of(self._stored(first, f))
        self.groups.append(first)
        g.waits_for.add(len(self.groups) - 1)
        self._told(g, first, crossing)
        return True

    def _stored(self, g: FusionGroup, f: Node) -> ScalarStore:
        """The temporary of a kernel's fold, which it stores if it does not yet."""
        root = next((r for r in g.row_stores if r.value is f and r.kind == "temporary"), None)
        if root is None:
            root = temporary(f, g.rows, len(self.temporaries))
            self.temporaries.append((root.type, root.shape))
            g.row_stores.append(root)
        return root

    def _compute_before(self, k: int) -> bool:
        """What folds read is computed by a map before this kernel, as far as it needs none of its folds."""
        g, axes = self.groups[k], self.groups[k].rows + self.groups[k].columns
        everything = _order(g.values, g.imports)
        late = _users(everything, set(g.folds), g.imports)
        order = [n for n in everything if n not in late]
        crossing = self._crossing(g, order, frozenset(axes), set(g.values))
        over = crossing[1] if crossing is not None else []
        if not over:
            return False
        first = FusionGroup((), memory_order([over[0]], axes), imports=dict(g.imports), waits_for=set(g.waits_for))
        self._before(k, first, over)
        self._told(g, first, over)
        return True

    def _told(self, g: FusionGroup, other: FusionGroup, over: Sequence[Node]) -> None:
        reason = f"its values take more than {self.budget} registers: cut where {sum(map(_words, over))} words cross"
        kind = "a map" if g.is_map else "a reduction"
        self.decisions.append(Decision(False, (kind,), reason, self.prices.saved(g.work, other.work)))


def _users(order: Sequence[Node], roots: set[Node], imports) -> set[Node]:
    """Some nodes of a body, and all that needs them; what is imported needs nothing."""
    found: set[Node] = set()
    for n in order:
        if n in roots or (n not in imports and not found.isdisjoint(n.args)):
            found.add(n)
    return found


def pressure(order: Sequence[Node], values: Iterable[Node]) -> list[int]:
    """Words that are alive after each node of a body, in this order; what is folded or stored is until the end."""
    last = {a: p for p, n in enumerate(order) for a in n.args}
    last |= dict.fromkeys(values, len(order))
    alive, found = 0, []
    ends: dict[int, int] = {}
    for p, n in enumerate(order):
        if n.op != "const":
            alive += _words(n)
            end = last.get(n, p)
            ends[end] = ends.get(end, 0) + _words(n)
        found.append(alive)
        alive -= ends.get(p, 0)
    return found


def _order(values: Iterable[Node], imports) -> list[Node]:
    """The nodes of a kernel, arguments first; what it imports is a leaf."""
    found: dict[Node, None] = {}
    stack = list(reversed(list(values)))
    while stack:
        n = stack[-1]
        if n in found:
            stack.pop()
            continue
        missing = [] if n in imports else [a for a in n.args if a not in found]
        if missing:
            stack += reversed(missing)
        else:
            found[stack.pop()] = None
    return list(found)


def _addresses(order: Iterable[Node]) -> set[Node]:
    """What of a body, arguments first, is an address: another kernel computes its own."""
    found: set[Node] = set()
    for n in order:
        if n.op in ("pointer", "stride") or (n.op in ("add", "multiply") and not found.isdisjoint(n.args)):
            found.add(n)
    return found


def _is_leaf(n: Node, g: FusionGroup) -> bool:
    return not n.args or n.op in BOUND or n in g.imports


def _words(n: Node) -> int:
    return max(1, n.type.dtype.compute.bits // 32)
