"""What kernels would take by the time model, before they are written: the price of joining them and of parting them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ..hardware import Hardware
from ..ir.dims import Symbol, evaluate
from ..ir.graph import Node
from ..ir.ops import OPS
from ..rewrite.scalars import free_axes
from .coordinates import Axis
from .cost import FETCH_COST, seconds
from .lower import Root


@dataclass(frozen=True)
class Work:
    """What a kernel computes: the values that it folds or stores, its stores, and what it reads instead of computing.

    `loads` are nodes that stand in memory: another kernel computed them.
    """

    values: tuple[Node, ...]
    stores: tuple[Root, ...] = ()
    loads: frozenset[Node] = frozenset()

    def __or__(self, other: Work) -> Work:
        """Both in one kernel: what either computes needs no load."""
        both = self.values + tuple(v for v in other.values if v not in self.values)
        made = set(_computed(self.values, self.loads)) | set(_computed(other.values, other.loads))
        return Work(both, self.stores + other.stores, (self.loads | other.loads) - made)

    def without(self, part: Work) -> Work:
        """The rest, once another kernel computes a part."""
        values = tuple(v for v in self.values if v not in part.values)
        return Work(values, tuple(r for r in self.stores if r not in part.stores), self.loads)


@dataclass(frozen=True)
class Prices:
    """The time model at the extents of one call. `free` remembers the axes that nodes depend on."""

    extents: Mapping[Symbol, int]
    hardware: Hardware
    free: dict[Node, frozenset[Axis]] = field(default_factory=dict, compare=False)

    def seconds(self, work: Work) -> float:
        """One launch of a kernel that does this."""
        nodes = _computed(work.values, work.loads)
        if any(n not in self.free for n in (*nodes, *work.loads)):
            self.free.update(free_axes([*work.values, *work.loads]))
        instructions = sum(_cost(n) * self._count(self._axes(n)) for n in nodes)
        return seconds(self.bytes(work, nodes), instructions, self.hardware)

    def saved(self, a: Work, b: Work) -> float:
        """What one kernel instead of two saves; negative where it costs."""
        return self.seconds(a) + self.seconds(b) - self.seconds(a | b)

    def bytes(self, work: Work, nodes: Iterable[Node]) -> int:
        """Bytes that the kernel moves: every place of an array once."""
        found = {}
        for n in nodes:
            if n.op == "load":
                source, at = n.attr
                found[source, at] = self._count({c.axis for c in at if c.axis is not None}) * n.type.dtype.itemsize
            elif n.op == "fetch":
                found[n, None] = self._count(self.free[n]) * n.type.dtype.itemsize
        read = sum(found.values()) + sum(self._size(self.free[n], n) for n in work.loads)
        stored = {(r.kind, r.index): self._size([a for a in r.axes if a is not None], r.value) for r in work.stores}
        return read + sum(stored.values())

    def _axes(self, n: Node) -> frozenset[Axis]:
        """The axes over which a node is computed: a fold merges every element."""
        return self.free[n.args[0]] if n.op == "fold" else self.free[n]

    def _size(self, axes: Iterable[Axis], value: Node) -> int:
        return self._count(axes) * value.type.dtype.compute.itemsize

    def _count(self, axes: Iterable[Axis]) -> int:
        return prod(evaluate(a.extent, self.extents) or 0 for a in axes)


def _computed(values: Sequence[Node], loads: frozenset[Node]) -> list[Node]:
    """The nodes that a kernel computes or reads for these values."""
    found: dict[Node, None] = {}
    stack = list(values)
    while stack:
        n = stack.pop()
        if n not in found and n not in loads:
            found[n] = None
            stack.extend(n.args)
    return list(found)


def _cost(n: Node) -> int:
    if n.op == "fetch":
        return FETCH_COST
    if n.op in ("load", "fold", "scan"):
        return 1
    return OPS[n.op].cost if n.op in OPS else 0
