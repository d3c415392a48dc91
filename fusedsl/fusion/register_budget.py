"""Register budget: kernels whose values exceed a thread's registers are split where the fewest values are live.

The budget is an estimate. If a compiled kernel has spilled bytes, program/prepare_call.py asks `replan_after_spill` of
program/plans.py for a plan with a smaller budget. Before that, backends/cuda/compile.py tries fewer blocks per SM, and
runtime/compile.py a schedule of less pressure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..ir.graph import Node
from ..rewrite.scalar_builder import free_axes
from .both_axis_reductions import BOUND
from .coordinates import memory_order
from .cost_model import Prices
from .fusion_group import Decision, FusionGroup, Partition, in_launch_order, load_of
from .scalar_program import ScalarStore, temporary

FEWEST = 24  # registers; below, splitting costs more than spilling


def fit_register_budget(cut: Partition, budget: int, prices: Prices) -> Partition:
    """Partition with kernels split until their values fit the budget, as far as possible."""
    splitter = _GroupSplitter(cut, budget, prices)
    k = 0
    while k < len(splitter.groups):
        if splitter.fits(k) or not splitter.split(k):
            k += 1
    return in_launch_order(splitter.groups, splitter.temporaries, splitter.decisions)


class _GroupSplitter:
    """State of splitting: groups, temporaries and decisions."""

    def __init__(self, cut: Partition, budget: int, prices: Prices):
        self.budget = budget
        self.prices = prices
        self.groups = list(cut.groups)
        self.temporaries = list(cut.temporaries)
        self.decisions = list(cut.decisions)

    def fits(self, k: int) -> bool:
        g = self.groups[k]
        return not g.is_plain or max(pressure(_order(g.values, g.imports), g.values), default=0) <= self.budget

    def split(self, k: int) -> bool:
        """Split a kernel once; False if no split helps."""
        g = self.groups[k]
        if g.is_elementwise:
            return self._split_map(k)
        folded = [f.args[0] for f in g.folds]
        if g.stores and max(pressure(_order(folded, g.imports), folded)) <= self.budget:
            self._split_stores(k)
            return True
        return self._split_folds(k) or self._compute_inputs_before(k)

    # -- maps

    def _split_map(self, k: int) -> bool:
        """Move the first half of a map's body to a new kernel before it."""
        g, axes = self.groups[k], self.groups[k].columns
        order = _order(g.values, g.imports)
        split = self._best_split(g, order, frozenset(axes), set())
        if split is None:
            return False
        early, over = split
        done = [r for r in g.stores if r.value in early]
        if len(done) == len(g.stores):
            return False
        first = FusionGroup((), axes, stores=done, imports=dict(g.imports), waits_for=set(g.waits_for))
        self._insert_before(k, first, over)
        g.stores = [r for r in g.stores if r not in done]
        self._record(g, first, over)
        return True

    def _best_split(
        self, g: FusionGroup, order: list[Node], axes: frozenset, stored: set[Node]
    ) -> tuple[set[Node], list[Node]] | None:
        """(nodes before the best split of a body, values read after it or `stored`), or None.

        The best split has the fewest live words, among those up to the first node at which the values exceed the
        budget.
        """
        alive = pressure(order, g.values)
        limit = next((p for p, words in enumerate(alive) if words > self.budget), len(order))
        free = free_axes(order)
        values, addresses = set(g.values), _addresses(order)
        last = {a: p for p, n in enumerate(order) for a in n.args} | dict.fromkeys(stored, len(order))
        best, crossing, ends, computes, done = None, 0, [0] * (len(order) + 1), False, False
        for p, n in enumerate(order[:-1]):  # a split after each node
            crossing -= ends[p]
            if not _is_leaf(n, g) and n not in addresses:
                computes = True
                if free[n] == axes and last.get(n, p) > p:
                    crossing += _words(n)
                    ends[last[n]] += _words(n)
            done |= n in values and n not in stored
            somewhere = limit // 2 <= p + 1 <= max(limit, 1) and computes and (crossing or done)
            if somewhere and (best is None or crossing <= best[0]):
                best = (crossing, p + 1)
        if best is None:
            return None
        early = order[: best[1]]
        over = [n for n in early if last.get(n, 0) >= best[1] and free[n] == axes and not _is_leaf(n, g)]
        return set(early), [n for n in over if n not in addresses]

    def _insert_before(self, k: int, first: FusionGroup, over: Sequence[Node]) -> None:
        """Put a kernel before another one, and let it store the values that cross the split."""
        g = self.groups[k]
        for n in over:
            root = temporary(n, memory_order([n], first.columns), len(self.temporaries))
            self.temporaries.append(root.type)
            first.stores.append(root)
            g.imports[n] = load_of(root)
        self.groups.append(first)
        g.waits_for.add(len(self.groups) - 1)

    # -- folds

    def _split_stores(self, k: int) -> None:
        """Move element stores to a map after this kernel, which keeps its folds."""
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
            if not written.isdisjoint(other.temporaries_needed):
                other.waits_for.add(len(self.groups) - 1)
        self._record(g, later, later.values)

    def _split_folds(self, k: int) -> bool:
        """Move half of the independent folds, and stores of only these, to a kernel before this one."""
        g = self.groups[k]
        order = _order(g.values, g.imports)
        late = _users(order, set(g.folds), g.imports)
        free = [f for f in g.folds if f.args[0] not in late]
        if len(free) < 2 or sum(_words(f.args[0]) for f in free) <= self.budget // 2:
            return False
        early = set(free[: len(free) // 2])
        later = _users(order, set(g.folds) - early, g.imports)
        first = FusionGroup(g.rows, g.columns, folds=[f for f in g.folds if f in early], imports=dict(g.imports))
        first.waits_for, first.row_stores = set(g.waits_for), [r for r in g.row_stores if r.value not in later]
        g.folds, g.row_stores = [f for f in g.folds if f not in early], [r for r in g.row_stores if r.value in later]
        used = set(_order(g.values, g.imports))
        crossing = [f for f in first.folds if f in used]
        for f in crossing:
            g.imports[f] = load_of(self._stored(first, f))
        self.groups.append(first)
        g.waits_for.add(len(self.groups) - 1)
        self._record(g, first, crossing)
        return True

    def _stored(self, g: FusionGroup, f: Node) -> ScalarStore:
        """Temporary of a kernel's fold; the store is added if it is missing."""
        root = next((r for r in g.row_stores if r.value is f and r.keeps_value), None)
        if root is None:
            root = temporary(f, g.rows, len(self.temporaries))
            self.temporaries.append(root.type)
            g.row_stores.append(root)
        return root

    def _compute_inputs_before(self, k: int) -> bool:
        """Move inputs of the folds that do not read folds to a map before this kernel."""
        g, axes = self.groups[k], self.groups[k].rows + self.groups[k].columns
        everything = _order(g.values, g.imports)
        late = _users(everything, set(g.folds), g.imports)
        order = [n for n in everything if n not in late]
        split = self._best_split(g, order, frozenset(axes), set(g.values))
        over = split[1] if split is not None else []
        if not over:
            return False
        first = FusionGroup((), memory_order([over[0]], axes), imports=dict(g.imports), waits_for=set(g.waits_for))
        self._insert_before(k, first, over)
        self._record(g, first, over)
        return True

    def _record(self, g: FusionGroup, other: FusionGroup, over: Sequence[Node]) -> None:
        reason = (
            f"its values take more than {self.budget} registers: split where {sum(map(_words, over))} words are live"
        )
        kind = "a map" if g.is_elementwise else "a reduction"
        self.decisions.append(Decision(False, (kind,), reason, self.prices.saved(g.work, other.work)))


def _users(order: Sequence[Node], roots: set[Node], imports) -> set[Node]:
    """These nodes of a body and all their users; imports have no inputs."""
    users: set[Node] = set()
    for n in order:
        if n in roots or (n not in imports and not users.isdisjoint(n.args)):
            users.add(n)
    return users


def pressure(order: Sequence[Node], values: Iterable[Node]) -> list[int]:
    """Live words after each node of a body, in this order; folded and stored values live until the end."""
    last = {a: p for p, n in enumerate(order) for a in n.args}
    last |= dict.fromkeys(values, len(order))
    alive, live = 0, []
    ends: dict[int, int] = {}
    for p, n in enumerate(order):
        if n.op != "const":
            alive += _words(n)
            end = last.get(n, p)
            ends[end] = ends.get(end, 0) + _words(n)
        live.append(alive)
        alive -= ends.get(p, 0)
    return live


def _order(values: Iterable[Node], imports) -> list[Node]:
    """Nodes of a kernel, operands first; imports are leaves."""
    order: dict[Node, None] = {}
    stack = list(reversed(list(values)))
    while stack:
        n = stack[-1]
        if n in order:
            stack.pop()
            continue
        missing = [] if n in imports else [a for a in n.args if a not in order]
        if missing:
            stack += reversed(missing)
        else:
            order[stack.pop()] = None
    return list(order)


def _addresses(order: Iterable[Node]) -> set[Node]:
    """Nodes of a body that are addresses: each kernel computes its own."""
    addresses: set[Node] = set()
    for n in order:
        if n.op in ("pointer", "stride") or (n.op in ("add", "multiply") and not addresses.isdisjoint(n.args)):
            addresses.add(n)
    return addresses


def _is_leaf(n: Node, g: FusionGroup) -> bool:
    return not n.args or n.op in BOUND or n in g.imports


def _words(n: Node) -> int:
    return max(1, n.type.dtype.compute.bits // 32)
