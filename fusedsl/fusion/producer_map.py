"""Producers during partitioning: the group that computes each reduction and temporary, and what depends on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ..ir.graph import Node, search, walk
from ..rewrite.scalar_builder import free_axes
from .both_axis_reductions import BOUND
from .coordinates import Axis
from .cost_model import cost
from .fusion_group import FusionGroup, depends_on


class ProducerMap:
    """Groups under construction, and the group that computes each fold, scan or sort.

    `uses` maps a node to the folds, scans and sorts below it, `reads` to its loads of temporaries that the program has
    `written`, by as many stores. A group may recompute values of others while its body has at most `longest`
    instructions.
    """

    def __init__(self, values: Sequence[Node], written: Counter[int], longest: int):
        self.order, self.longest = list(walk(values)), longest
        self.free = free_axes(values)
        self.uses = _below(self.order, lambda n: n.op in BOUND)
        self.reads = _below(self.order, lambda n: _read(n) in written)
        self.groups: list[FusionGroup] = []
        self.kernel_of: dict[Node, int] = {}
        self.unwritten = Counter(written)  # stores of each temporary that have no group yet
        self.writers_of: dict[int, set[int]] = {}  # temporary -> groups: of its pieces, and of what merges into it
        self.computed_by: dict[int, set[Node]] = {}  # nodes that each group computes

    def ready(self, value: Node) -> bool:
        """Whether everything that a value needs has a producer."""
        folds = {value} if value in self.kernel_of else ({value} if value.op in BOUND else set()) | self.uses[value]
        return all(f in self.kernel_of for f in folds) and self.are_written(self.reads[value])

    def are_written(self, reads: Iterable[Node]) -> bool:
        """Whether groups write all of the temporaries that are loaded."""
        return not any(self.unwritten[n.attr[0].index] for n in reads)

    def add_writer(self, temporary: int, k: int) -> None:
        """Record that group k has one of the stores of a temporary."""
        self.unwritten[temporary] -= 1
        self.writers_of.setdefault(temporary, set()).add(k)

    def writers(self, reads: Iterable[Node]) -> set[int]:
        """Groups that write what is loaded."""
        return set[int]().union(*(self.writers_of[n.attr[0].index] for n in reads))

    def dependencies(self, value: Node) -> set[int]:
        """Groups whose results `value` reads directly."""
        return {self.kernel_of[f] for f in self.direct_folds(value)} | self.writers(self.reads[value])

    def direct_folds(self, value: Node) -> frozenset[Node]:
        """Folds, scans and sorts that a value reads directly; a fold with a producer stands for itself."""
        return frozenset((value,)) if value.op in BOUND and value in self.kernel_of else self.uses[value]

    def can_join(self, k: int, value: Node, needs: set[int]) -> bool:
        """Whether group k may compute `value` for an element or a row.

        It must not read a temporary that k or a later group writes, nor a fold of k over all its rows.
        """
        late = not self.direct_folds(value).isdisjoint(self.groups[k].column_folds)
        return not late and self.has_inputs(k, value, needs)

    def has_inputs(self, k: int, value: Node, needs: set[int]) -> bool:
        """Whether other groups compute the inputs of `value` before group k runs."""
        return k not in self.writers(self.reads[value]) and not any(
            d != k and depends_on(self.groups, d, k) for d in needs
        )

    def is_small(self, k: int, value: Node) -> bool:
        """Whether group k still compiles quickly if it computes `value` too."""
        known = self.computed_by.setdefault(k, set())
        return sum(map(cost, (*known, *self._new(k, value)))) <= self.longest

    def shares(self, k: int, value: Node) -> bool:
        """Whether group k computes more of a value already than it would have to add."""
        known, new = self.computed_by.get(k, set()), self._new(k, value)
        shared = search(new, lambda n: [a for a in n.args if a in known or a in new])
        return sum(cost(n) for n in shared if n not in new) > sum(map(cost, new))

    def add_value(self, k: int, value: Node) -> None:
        """Record that group k computes a value."""
        self.computed_by.setdefault(k, set()).update(self._new(k, value))

    def _new(self, k: int, value: Node) -> set[Node]:
        """Nodes that group k would have to compute for a value."""
        inside, stack, new = self.computed_by[k], [value], set[Node]()
        while stack:
            n = stack.pop()
            if n not in inside and n not in new and self.kernel_of.get(n, k) == k:
                new.add(n)
                stack += n.args
        return new

    def varies_only_by_sort(self, k: int, value: Node, axes: frozenset[Axis]) -> bool:
        """Whether a value varies along group k's sorted axis only through elements of its sort; `axes` exclude the
        rows."""
        sorted_axis = self.groups[k].sorted_axis
        if sorted_axis is None or axes != {sorted_axis}:
            return False
        if value.op != "sorted" and not isinstance(sorted_axis.extent, int):  # a long sort is stored first
            return False

        def is_own(n: Node) -> bool:
            return n.op == "sorted" and self.kernel_of.get(n) == k

        start = [value] if sorted_axis in self.free[value] else []
        varying = search(start, lambda n: () if is_own(n) else [a for a in n.args if sorted_axis in self.free[a]])
        return all(is_own(n) or (n.args and n.op not in BOUND) for n in varying)

    def is_sorted_store(self, k: int, axes: frozenset[Axis], value: Node) -> bool:
        """Whether a store over these axes runs along group k's sorted axis."""
        g = self.groups[k]
        return g.sorted_axis in axes and self.varies_only_by_sort(k, value, axes - frozenset(g.rows))


def _read(n: Node) -> int | None:
    """Index of the temporary that a node reads, or None."""
    return n.attr[0].index if n.op in ("load", "pointer") and n.attr[0].kind == "temporary" else None


def _below(order: Sequence[Node], wanted: Callable[[Node], bool]) -> dict[Node, frozenset[Node]]:
    """Nodes of the wanted kind below each node, down to the next fold.

    A fold ends the search: its inputs are listed at the fold itself.
    """
    reached: dict[Node, frozenset[Node]] = {}
    for n in order:
        parts = [reached[a] if a.op not in BOUND or not wanted(a) else frozenset((a,)) for a in n.args]
        here = frozenset().union(*parts) if parts else frozenset()
        reached[n] = here | {n} if wanted(n) and n.op not in BOUND else here
    return reached
