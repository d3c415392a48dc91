"""Cost model of fusion: the time of kernels under construction, and what joining or splitting them saves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from ..hardware import Hardware
from ..ir.dims import Dim, Symbol, evaluate, expression, product
from ..ir.graph import Node, search
from ..ir.op_cost import FETCH_COST, SPECIAL
from ..ir.ops import OPS
from ..ir.types import FLOAT64
from ..rewrite.scalar_builder import free_axes
from .both_axis_reductions import BOUND
from .coordinates import Axis
from .roofline import Work, limits, seconds
from .scalar_program import ScalarStore

ATTOSECOND = 1e-18  # unit of times that are expressions of extents
AMOUNTS = ("read", "written", "instructions", "special", "double")  # of Work

Sum = Counter[frozenset[Axis]]  # products of axes and their factors


@dataclass(frozen=True)
class Computation:
    """Work of a kernel: the values that it folds or stores, its stores, and nodes that it loads from memory."""

    values: tuple[Node, ...]
    stores: tuple[ScalarStore, ...] = ()
    loads: frozenset[Node] = frozenset()

    def __or__(self, other: Computation) -> Computation:
        """Both in one kernel: a value that either computes needs no load."""
        own = set(self.values)
        both = self.values + tuple(v for v in other.values if v not in own)
        computed = set(computed_nodes(self.values, self.loads)) | set(computed_nodes(other.values, other.loads))
        return Computation(both, self.stores + other.stores, (self.loads | other.loads) - computed)

    def without(self, part: Computation) -> Computation:
        """What remains if another kernel computes a part."""
        parted, stored = set(part.values), set(part.stores)
        values = tuple(v for v in self.values if v not in parted)
        return Computation(values, tuple(r for r in self.stores if r not in stored), self.loads)


@dataclass(frozen=True)
class Prices:
    """Time model at the extents of one call.

    `free` caches the axes that nodes depend on, `counts` the number of elements along these.
    """

    extents: Mapping[Symbol, int]
    hardware: Hardware
    free: dict[Node, frozenset[Axis]] = field(default_factory=dict, compare=False)
    counts: dict[frozenset[Axis], int] = field(default_factory=dict, compare=False)

    def seconds(self, c: Computation) -> float:
        """Time of one launch of this kernel."""
        amounts = [sum(each * self._count(axes) for axes, each in by_axes.items()) for by_axes in self._amounts(c)]
        return seconds(Work(**dict(zip(AMOUNTS, amounts))), self.hardware)

    def saved(self, a: Computation, b: Computation) -> float:
        """Time that one kernel instead of two saves; negative if it costs time."""
        return self.seconds(a) + self.seconds(b) - self.seconds(a | b)

    def busy(self, c: Computation) -> Dim:
        """Time of a kernel in attoseconds, without its launch, as an expression of the extents.

        A decision by such times holds for every call in which they compare alike.
        """
        amounts = self._amounts(c)
        longest: Dim = 0
        for limit in limits(self.hardware):
            total: Sum = Counter()
            for name, by_axes in zip(AMOUNTS, amounts):
                for axes, each in by_axes.items():
                    total[axes] += round(each * getattr(limit, name) / ATTOSECOND)
            longest = expression("max", longest, sum_of(total))
        return longest

    def number(self, time: Dim) -> float:
        """Such a time in seconds, at the extents of this call."""
        return evaluate(time, self.extents) * ATTOSECOND

    def _amounts(self, c: Computation) -> tuple[Sum, ...]:
        """Bytes and instructions of a kernel (see AMOUNTS); each element of an array is read once."""
        nodes = computed_nodes(c.values, c.loads)
        if any(n not in self.free for n in (*nodes, *c.loads)):
            self.free.update(free_axes([*c.values, *c.loads]))
        read, written, instructions, special, double = (Counter[frozenset[Axis]]() for _ in AMOUNTS)
        for n in nodes:
            instructions[self._axes(n)] += cost(n)
            special[self._axes(n)] += SPECIAL.get(n.op, n.op == "divide")
            double[self._axes(n)] += cost(n) if n.type.dtype.compute is FLOAT64 else 0
        loads = {n.attr: n for n in nodes if n.op == "load"}
        for (_, at), n in loads.items():
            read[frozenset(p.axis for p in at if p.axis is not None)] += n.type.dtype.itemsize
        for n in nodes:
            read[self.free[n]] += n.type.dtype.itemsize if n.op == "fetch" else 0
        for n in c.loads:
            read[self.free[n]] += n.type.dtype.compute.itemsize
        for r in {(r.kind, r.index): r for r in c.stores}.values():
            written[frozenset(a for a in r.axes if a is not None)] += r.stored_dtype.itemsize
        return read, written, instructions, special, double

    def _axes(self, n: Node) -> frozenset[Axis]:
        """Axes over which a node is computed: those of its operand for a fold."""
        return self.free[n.args[0]] if n.op == "fold" else self.free[n]

    def _count(self, axes: frozenset[Axis]) -> int:
        if axes not in self.counts:
            self.counts[axes] = prod(evaluate(a.extent, self.extents) or 0 for a in axes)
        return self.counts[axes]


def count_of(axes: Iterable[Axis]) -> Dim:
    """Number of elements along axes."""
    return product(a.extent for a in sorted(axes, key=str))


def sum_of(total: Sum) -> Dim:
    result: Dim = 0
    for count, each in sorted(((count_of(axes), each) for axes, each in total.items()), key=str):
        result = plus(result, times(count, each))
    return result


def plus(a: Dim, b: Dim) -> Dim:
    return expression("+", a, b)


def times(a: Dim, b: Dim) -> Dim:
    return expression("*", a, b)


def computed_nodes(values: Sequence[Node], loads: frozenset[Node]) -> list[Node]:
    """Nodes that a kernel computes or loads for these values."""
    return [n for n in search(values, lambda n: () if n in loads else n.args) if n not in loads]


def cost(n: Node) -> int:
    if n.op in ("fetch", "update"):
        return FETCH_COST
    if n.op in ("load", *BOUND):
        return 1
    return OPS[n.op].cost if n.op in OPS else 0
