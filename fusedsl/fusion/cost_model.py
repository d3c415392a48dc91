"""What kernels would take by the time model, before they are written: the price of joining them and of parting them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ..hardware import Hardware
from ..ir.dims import Dim, Symbol, evaluate, expression, product
from ..ir.graph import Node
from ..ir.op_cost import FETCH_COST, SPECIAL
from ..ir.ops import OPS
from ..ir.types import FLOAT64
from ..rewrite.scalar_builder import free_axes
from .both_axis_reductions import BOUND
from .coordinates import Axis
from .roofline import Work, limits, seconds
from .scalar_program import ScalarStore

ATTOSECOND = 1e-18  # the unit of times that are expressions of extents
AMOUNTS = ("read", "written", "instructions", "special", "double")  # of Work

Sum = Counter[frozenset[Axis]]  # of products of axes, each so many times


@dataclass(frozen=True)
class Computation:
    """What a kernel computes: the values that it folds or stores, its stores, and what it reads instead of computing.

    `loads` are nodes that stand in memory: another kernel computed them.
    """

    values: tuple[Node, ...]
    stores: tuple[ScalarStore, ...] = ()
    loads: frozenset[Node] = frozenset()

    def __or__(self, other: Computation) -> Computation:
        """Both in one kernel: what either computes needs no load."""
        own = set(self.values)
        both = self.values + tuple(v for v in other.values if v not in own)
        made = set(computed_nodes(self.values, self.loads)) | set(computed_nodes(other.values, other.loads))
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
        amounts = [sum(each * self._count(axes) for axes, each in found.items()) for found in self._amounts(c)]
        return seconds(Work(**dict(zip(AMOUNTS, amounts))), self.hardware)

    def saved(self, a: Computation, b: Computation) -> float:
        """What one kernel instead of two saves; negative where it costs."""
        return self.seconds(a) + self.seconds(b) - self.seconds(a | b)

    def busy(self, c: Computation) -> Dim:
        """How long a kernel is busy that does this, in attoseconds, at any extents: a decision by such times holds for
        every call where they compare alike."""
        amounts = self._amounts(c)
        longest: Dim = 0
        for limit in limits(self.hardware):
            total: Sum = Counter()
            for name, found in zip(AMOUNTS, amounts):
                for axes, each in found.items():
                    total[axes] += round(each * getattr(limit, name) / ATTOSECOND)
            longest = expression("max", longest, sum_of(total))
        return longest

    def number(self, time: Dim) -> float:
        """Seconds of such a time at the extents of this call."""
        return evaluate(time, self.extents) * ATTOSECOND

    def _amounts(self, c: Computation) -> tuple[Sum, ...]:
        """What a kernel that does this reads, writes and executes (see AMOUNTS): every place of an array read once."""
        nodes = computed_nodes(c.values, c.loads)
        if any(n not in self.free for n in (*nodes, *c.loads)):
            self.free.update(free_axes([*c.values, *c.loads]))
        read, written, instructions, special, double = (Counter[frozenset[Axis]]() for _ in AMOUNTS)
        for n in nodes:
            instructions[self._axes(n)] += cost(n)
            special[self._axes(n)] += SPECIAL.get(n.op, n.op == "divide")
            double[self._axes(n)] += cost(n) if n.type.dtype.compute is FLOAT64 else 0
        places = {n.attr: n for n in nodes if n.op == "load"}
        for (_, at), n in places.items():
            read[frozenset(p.axis for p in at if p.axis is not None)] += n.type.dtype.itemsize
        for n in nodes:
            read[self.free[n]] += n.type.dtype.itemsize if n.op == "fetch" else 0
        for n in c.loads:
            read[self.free[n]] += n.type.dtype.compute.itemsize
        for r in {(r.kind, r.index): r for r in c.stores}.values():
            written[frozenset(a for a in r.axes if a is not None)] += r.stored_dtype.itemsize
        return read, written, instructions, special, double

    def _axes(self, n: Node) -> frozenset[Axis]:
        """The axes over which a node is computed: a fold merges every element."""
        return self.free[n.args[0]] if n.op == "fold" else self.free[n]

    def _count(self, axes: frozenset[Axis]) -> int:
        if axes not in self.counts:
            self.counts[axes] = prod(evaluate(a.extent, self.extents) or 0 for a in axes)
        return self.counts[axes]


def count_of(axes: Iterable[Axis]) -> Dim:
    """How many places so many axes have together."""
    return product(a.extent for a in sorted(axes, key=str))


def sum_of(total: Sum) -> Dim:
    """The sum of these products."""
    found: Dim = 0
    for count, each in sorted(((count_of(axes), each) for axes, each in total.items()), key=str):
        found = plus(found, times(count, each))
    return found


def plus(a: Dim, b: Dim) -> Dim:
    return expression("+", a, b)


def times(a: Dim, b: Dim) -> Dim:
    return expression("*", a, b)


def computed_nodes(values: Sequence[Node], loads: frozenset[Node]) -> list[Node]:
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
