"""Kernels to be, as data: what each computes and stores, in which order they run, and the decisions that led there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..ir.dims import Dim
from ..ir.graph import Node, Type, node
from .coordinates import Axis, Coordinate
from .cost_model import Computation, computed_nodes
from .online.find_attention import Streaming
from .scalar_program import ArraySource, ScalarStore


@dataclass(frozen=True)
class Decision:
    """Whether something joined a kernel, and why; `seconds` is what one kernel saves, or would, by the time model."""

    joined: bool
    members: tuple[str, ...]
    reason: str
    seconds: float | None = None


@dataclass(eq=False)
class FusionGroup:
    """One kernel to be: its row and column axes, the folds it computes, and what it stores.

    A map has column axes only. `imports` are folds of other groups, read from their temporaries. `column_folds` are folds the
    other way: over the row axes, a value for each column, from what the kernel has of its rows anyway; only
    `column_stores`, a value a column each, depend on them.
    """

    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    folds: list[Node] = field(default_factory=list)
    scans: list[Node] = field(default_factory=list)  # all in one direction
    ranked: list[Node] = field(default_factory=list)  # places of one order of the columns
    stores: list[ScalarStore] = field(default_factory=list)
    row_stores: list[ScalarStore] = field(default_factory=list)
    rank_stores: list[ScalarStore] = field(default_factory=list)
    attention: Streaming | None = None  # the pass over scores that finds the folds
    value_axis_stores: list[ScalarStore] = field(default_factory=list)  # … of values with an axis of their own
    column_folds: list[Node] = field(default_factory=list)
    column_stores: list[ScalarStore] = field(default_factory=list)
    imports: dict[Node, Node] = field(default_factory=dict)  # fold -> the load that stands for it
    waits_for: set[int] = field(default_factory=set)  # indices of groups that must run before

    @property
    def is_map(self) -> bool:
        return not self.folds and not self.scans and not self.ranked

    @property
    def is_plain(self) -> bool:
        """A map, or folds of rows: its elements may be computed by several kernels."""
        return not (self.scans or self.ranked or self.column_folds or self.attention)

    @property
    def ranks(self) -> Axis | None:
        """The axis of the places in the order, where all of them are wanted."""
        return next((n.attr[1] for n in self.ranked if isinstance(n.attr[1], Axis)), None)

    @property
    def values(self) -> list[Node]:
        """What the kernel folds, scans and stores."""
        folded = (f.args[0] for f in self.folds + self.column_folds)
        return [*folded, *self.scans, *self.ranked, *(r.value for r in self.all_stores)]

    @property
    def all_stores(self) -> list[ScalarStore]:
        return self.stores + self.row_stores + self.rank_stores + self.column_stores + self.value_axis_stores

    @property
    def temporaries_read(self) -> set[int]:
        """The temporaries that the kernel reads."""
        nodes = (*computed_nodes(self.values, frozenset(self.imports)), *self.imports.values())
        return {n.attr[0].index for n in nodes if n.op in ("load", "pointer") and n.attr[0].kind == "temporary"}

    @property
    def work(self) -> Computation:
        """What the time model prices."""
        return Computation(tuple(self.values), tuple(self.all_stores), frozenset(self.imports))


@dataclass(frozen=True)
class Partition:
    """The kernels in launch order, the temporaries between them, and the decisions that led here."""

    groups: tuple[FusionGroup, ...]
    temporaries: tuple[tuple[Type, tuple[Dim, ...]], ...]
    decisions: tuple[Decision, ...]


def load_of(root: ScalarStore) -> Node:
    """The load of what a root stores."""
    at = tuple(Coordinate(0, 1, a) for a in root.axes)
    d = root.type.dtype if root.rounded else root.value.type.dtype
    return node("load", (), (ArraySource("temporary", root.index, rounded=root.rounded), at), Type(d))


def depends_on(groups: list[FusionGroup], start: int, goal: int) -> bool:
    """Whether a group needs another one, directly or not."""
    stack, seen = [start], set()
    while stack:
        k = stack.pop()
        if k == goal:
            return True
        if k not in seen:
            seen.add(k)
            stack.extend(groups[k].waits_for)
    return False


def in_launch_order(groups: list[FusionGroup], temporaries: list, decisions: Iterable[Decision]) -> Partition:
    """A partition whose groups run in an order that they allow."""
    order: list[int] = []
    while len(order) < len(groups):
        order.append(next(k for k in range(len(groups)) if k not in order and groups[k].waits_for <= set(order)))
    place = {k: i for i, k in enumerate(order)}
    for g in groups:
        g.waits_for = {place[k] for k in g.waits_for}
    return Partition(tuple(groups[k] for k in order), tuple(temporaries), tuple(decisions))


def concatenate(parts: Iterable[Partition]) -> Partition:
    """Partitions one after the other, as one; each kernel waits for those whose temporaries it reads."""
    groups: list[FusionGroup] = []
    decisions: list[Decision] = []
    temporaries: tuple = ()
    writer: dict[int, int] = {}
    for part in parts:
        first = len(groups)
        for g in part.groups:
            g.waits_for = {first + k for k in g.waits_for} | {writer[t] for t in g.temporaries_read if t in writer}
        groups += part.groups
        decisions += part.decisions
        temporaries = part.temporaries
        for k, g in enumerate(part.groups, first):
            writer |= {r.index: k for r in g.all_stores if r.kind == "temporary"}
    return Partition(tuple(groups), temporaries, tuple(decisions))
