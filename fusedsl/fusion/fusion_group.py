"""Fusion groups, the kernels under construction, and the partition: groups in launch order and its decisions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, ItemsView, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from ..ir.graph import Node, Type, node, search
from .coordinates import Axis, Coordinate
from .cost_model import Computation, computed_nodes
from .online.find_attention import AttentionPattern
from .scalar_program import ArraySource, ScalarStore


@dataclass(frozen=True)
class Decision:
    """Fusion decision: whether a fold or store joined a kernel, and why."""

    joined: bool
    members: tuple[str, ...]
    reason: str
    seconds: float | None = None  # saved by one kernel instead of two, by the time model


@dataclass(eq=False)
class FusionGroup:
    """Kernel under construction: its iteration axes, the reductions that it computes, and its stores.

    A map has column axes only.
    """

    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    folds: list[Node] = field(default_factory=list)  # over all columns: a value per row
    scans: list[Node] = field(default_factory=list)  # all in one direction
    sorted: list[Node] = field(default_factory=list)  # elements of one sort of the columns
    stores: list[ScalarStore] = field(default_factory=list)  # along rows and columns
    row_stores: list[ScalarStore] = field(default_factory=list)  # along rows
    sorted_stores: list[ScalarStore] = field(default_factory=list)  # along rows and the sorted axis
    attention: AttentionPattern | None = None  # the attention pattern that computes the folds
    value_axis_stores: list[ScalarStore] = field(default_factory=list)  # along rows and an axis of attention's values
    column_folds: list[Node] = field(default_factory=list)  # over all rows: a value per column
    column_stores: list[ScalarStore] = field(default_factory=list)  # along columns; only they depend on `column_folds`
    imports: dict[Node, Node] = field(default_factory=dict)  # fold of another group -> the load of its temporary
    waits_for: set[int] = field(default_factory=set)  # indices of groups that must run before

    @property
    def is_elementwise(self) -> bool:
        return not self.folds and not self.scans and not self.sorted

    @property
    def scatters(self) -> bool:
        """Whether the kernel merges elements at computed indices; it does nothing else."""
        return any(r.is_scatter for r in self.stores)

    @property
    def is_plain(self) -> bool:
        """Whether the group is a map or folds rows only, so that several kernels may compute its elements."""
        return not (self.scans or self.sorted or self.column_folds or self.attention or self.scatters)

    @property
    def sorted_axis(self) -> Axis | None:
        """The sorted axis, if all sorted elements are needed."""
        return next((n.attr[1] for n in self.sorted if isinstance(n.attr[1], Axis)), None)

    @property
    def values(self) -> list[Node]:
        """Values that the kernel folds, scans and stores."""
        folded = (f.args[0] for f in self.folds + self.column_folds)
        return [*folded, *self.scans, *self.sorted, *(r.value for r in self.all_stores)]

    @property
    def all_stores(self) -> list[ScalarStore]:
        return self.stores + self.row_stores + self.sorted_stores + self.column_stores + self.value_axis_stores

    def rewritten(
        self, new: Mapping[Node, Node], store: Callable[[ScalarStore], ScalarStore] = lambda store: store
    ) -> FusionGroup:
        """The group, without attention, of other nodes: `new` has one for each of it; stores are changed by `store`."""

        def stored(stores: Sequence[ScalarStore]) -> list[ScalarStore]:
            return [replace(store(r), value=new[r.value]) for r in stores]

        return replace(
            self,
            folds=[new[n] for n in self.folds],
            scans=[new[n] for n in self.scans],
            sorted=[new[n] for n in self.sorted],
            column_folds=[new[n] for n in self.column_folds],
            stores=stored(self.stores),
            row_stores=stored(self.row_stores),
            sorted_stores=stored(self.sorted_stores),
            column_stores=stored(self.column_stores),
            imports={new[n]: new.get(load, load) for n, load in self.imports.items()},
        )

    def with_stores(self, change: Callable[[list[ScalarStore]], list[ScalarStore]]) -> FusionGroup:
        """The group with each list of stores changed."""
        return replace(
            self,
            stores=change(self.stores),
            row_stores=change(self.row_stores),
            sorted_stores=change(self.sorted_stores),
            column_stores=change(self.column_stores),
            value_axis_stores=change(self.value_axis_stores),
        )

    @property
    def temporaries_read(self) -> set[int]:
        """Indices of the temporaries that the kernel reads."""
        nodes = (*computed_nodes(self.values, frozenset(self.imports)), *self.imports.values())
        return {n.attr[0].index for n in nodes if n.op in ("load", "pointer") and n.attr[0].kind == "temporary"}

    @property
    def temporaries_needed(self) -> set[int]:
        """Indices of the temporaries that the kernel reads or merges elements into."""
        return self.temporaries_read | {r.index for r in self.stores if r.is_scatter}

    @property
    def key(self) -> tuple[Hashable, ...]:
        """All that a kernel is planned from; what it waits for is not."""
        parts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "waits_for"}
        parts["imports"] = self.imports.items()
        return tuple(tuple(x) if isinstance(x, (list, ItemsView)) else x for x in parts.values())

    @property
    def work(self) -> Computation:
        """The group as the cost model sees it."""
        return Computation(tuple(self.values), tuple(self.all_stores), frozenset(self.imports))


@dataclass(frozen=True)
class Partition:
    """Kernels in launch order, the temporaries between them, and the decisions."""

    groups: tuple[FusionGroup, ...]
    temporaries: tuple[Type, ...]
    decisions: tuple[Decision, ...]


def load_of(root: ScalarStore) -> Node:
    """Load of the element that a store writes."""
    at = tuple(Coordinate(0, 1, a) for a in root.axes)
    d = root.type.dtype if root.rounded else root.value.type.dtype
    return node("load", (), (ArraySource("temporary", root.index, rounded=root.rounded), at), Type(d))


def depends_on(groups: list[FusionGroup], start: int, goal: int) -> bool:
    """Whether group `start` waits for group `goal`, directly or indirectly."""
    return goal in search([start], lambda k: groups[k].waits_for)


def in_launch_order(groups: list[FusionGroup], temporaries: list, decisions: Iterable[Decision]) -> Partition:
    """The partition with groups sorted topologically by their dependencies."""
    order: list[int] = []
    while len(order) < len(groups):
        order.append(next(k for k in range(len(groups)) if k not in order and groups[k].waits_for <= set(order)))
    index = {k: i for i, k in enumerate(order)}
    for g in groups:
        g.waits_for = {index[k] for k in g.waits_for}
    return Partition(tuple(groups[k] for k in order), tuple(temporaries), tuple(decisions))


def concatenate(parts: Iterable[Partition], temporaries: Sequence[Type]) -> Partition:
    """Concatenation of partitions; each kernel waits for the kernels whose temporaries it needs."""
    groups: list[FusionGroup] = []
    decisions: list[Decision] = []
    writers_of: dict[int, set[int]] = {}
    for part in parts:
        first = len(groups)
        for g in part.groups:
            writers = set[int]().union(*(writers_of.get(t, ()) for t in g.temporaries_needed))
            groups.append(replace(g, waits_for={first + k for k in g.waits_for} | writers))
        decisions += part.decisions
        for k, g in enumerate(part.groups, first):
            for r in g.all_stores:
                if r.kind == "temporary":
                    writers_of.setdefault(r.index, set()).add(k)
    return Partition(tuple(groups), tuple(temporaries), tuple(decisions))
