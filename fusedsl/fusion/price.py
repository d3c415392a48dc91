"""What kernels would take by the time model, before they are written: the price of joining them and of parting them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ..hardware import Hardware
from ..ir.dims import Symbol, evaluate
from ..ir.graph import Node
from ..ir.ops import OPS
from ..ir.types import FLOAT64
from ..rewrite.scalars import free_axes
from .coordinates import Axis
from .crossing import BOUND
from .lines import FETCH_COST, SPECIAL
from .lowered import Root
from .time import Work, seconds


@dataclass(frozen=True)
class Computation:
    """What a kernel computes: the values that it folds or stores, its stores, and what it reads instead of computing.

    `loads` are nodes that stand in memory: another kernel computed them.
    """

    values: tuple[Node, ...]
    stores: tuple[Root, ...] = ()
    loads: frozenset[Node] = frozenset()

    def __or__(self, other: Computation) -> Computation:
        """Both in one kernel: what either computes needs no load."""
        own = set(self.values)
        both = self.values + tuple(v for v in other.values if v not in own)
        made = set(computed(self.values, self.loads)) | set(computed(other.values, other.loads))
        return Computation(both, self.stores + other.stores, (self.loads | other.loads) - made)

    def without(self, part: Computation) -> Computation:
        """The rest, once another kernel computes a part."""
        parted, stored = set(part.values), set(part.stores)
        values = tuple(v for v in self.values if v not in parted)
        return Computation(values, tuple(r for r in self.stores if r not in stored), self.loads)


@dataclass(frozen=True)
class Prices:
    """The time model at the extents of one call. `free` remembers the axes that nodes depend on, `counts` how many
    places these have."""

    extents: Mapping[Symbol, int]
    hardware: Hardware
    free: dict[Node, frozenset[Axis]] = field(default_factory=dict, compare=False)
    counts: dict[frozenset[Axis], int] = field(default_factory=dict, compare=False)

    def seconds(self, c: Computation) -> float:
        """One launch of a kernel that does this."""
        nodes = computed(c.values, c.loads)
        if any(n not in self.free for n in (*nodes, *c.loads)):
            self.free.update(free_axes([*c.values, *c.loads]))
        counts = {n: self._count(self._axes(n)) for n in nodes}
        double = sum(cost(n) * counts[n] for n in nodes if n.type.dtype.compute is FLOAT64)
        special = sum(SPECIAL.get(n.op, n.op == "divide") * counts[n] for n in nodes)
        work = Work(*self._moved(c, nodes), sum(cost(n) * counts[n] for n in nodes), special, double)
        return seconds(work, self.hardware)

    def saved(self, a: Computation, b: Computation) -> float:
        """What one kernel instead of two saves; negative where it costs."""
        return self.seconds(a) + self.seconds(b) - self.seconds(a | b)

    def _moved(self, c: Computation, nodes: Iterable[Node]) -> tuple[int, int]:
        """Bytes that the kernel reads, every place of an array once, and writes."""
        read = {}
        for n in nodes:
            if n.op == "load":
                source, at = n.attr
                read[source, at] = self._count({p.axis for p in at if p.axis is not None}) * n.type.dtype.itemsize
            elif n.op == "fetch":
                read[n, None] = self._count(self.free[n]) * n.type.dtype.itemsize
        written = {(r.kind, r.index): self._size([a for a in r.axes if a is not None], r.value) for r in c.stores}
        return sum(read.values()) + sum(self._size(self.free[n], n) for n in c.loads), sum(written.values())

    def _axes(self, n: Node) -> frozenset[Axis]:
        """The axes over which a node is computed: a fold merges every element."""
        return self.free[n.args[0]] if n.op == "fold" else self.free[n]

    def _size(self, axes: Iterable[Axis], value: Node) -> int:
        return self._count(axes) * value.type.dtype.compute.itemsize

    def _count(self, axes: Iterable[Axis]) -> int:
        key = frozenset(axes)
        if key not in self.counts:
            self.counts[key] = prod(evaluate(a.extent, self.extents) or 0 for a in key)
        return self.counts[key]


def computed(values: Sequence[Node], loads: frozenset[Node]) -> list[Node]:
    """The nodes that a kernel computes or reads for these values."""
    found: dict[Node, None] = {}
    stack = list(values)
    while stack:
        n = stack.pop()
        if n not in found and n not in loads:
            found[n] = None
            stack.extend(n.args)
    return list(found)


def cost(n: Node) -> int:
    if n.op == "fetch":
        return FETCH_COST
    if n.op in ("load", *BOUND):
        return 1
    return OPS[n.op].cost if n.op in OPS else 0
