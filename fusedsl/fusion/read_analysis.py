"""Reads of an array: what is stored because recomputing it wherever it is read costs more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from ..ir.graph import Node, users_of, walk
from ..ir.ops import LEAVES, OPS, VIEWS
from .coordinates import Coordinates
from .demand_analysis import FREE, WORKS, canonical, cost, count_read_patterns, count_reads, own_coordinates, reads
from .graph_products import free_rank, is_product
from .pair_folds import MOST_UNROLLED, Short

MOST_READS = 64  # coordinates at which an array is recomputed
ELEMENTWISE = ("convert", "cast", *VIEWS)
VIRTUAL = ("const", "size", "scalar", "iota")  # arrays that are never in memory
# Instructions of a padded element, beside its load, for each axis. Measured on an H100: a 5-point stencil of a padded
# array that is stored takes 2.5 times as long as one of rolled arrays, which are as many instructions.
PADDED = 3
UNKNOWN = 64  # assumed extent of a symbolic axis, for the cost of a reduction


@dataclass(frozen=True)
class StoredArray:
    """Array that is stored between kernels, and why."""

    node: Node
    reason: str
    product: bool  # it is a matrix product or its epilogue
    cut: int | None = None  # number of the cut of which it is: one kernel may store all arrays of a cut

    @property
    def name(self) -> str:
        """Name in decisions."""
        if is_product(self.node):
            return "a matrix product"
        return f"{self.node.attr[0] if self.node.op in ('reduce', 'scan') else self.node.op} of {self.node.type}"


class ReadAnalysis:
    """Backward pass over the graph: all coordinates at which an array is read are known when it is visited."""

    def __init__(
        self,
        results: Sequence[Node],
        stored: dict[Node, str],
        rate: float,
        short: Short,
        separate: Collection[Node] = (),
    ):
        self.results, self.stored, self.rate = results, dict(stored), rate
        self.separate = separate  # products whose epilogues are in later kernels
        self.order = list(walk(results))
        users = users_of(self.order)
        self.dominator = _dominators(self.order, users, set(results))
        self.products: dict[Node, Node | None] = {}  # the largest product that computes a node
        self.epilogues: set[Node] = set()  # products and elementwise functions of them
        self.local: dict[Node, int] = {}  # instructions of an element and its single-use operands
        self.virtual: set[Node] = set()  # what is computed of positions and numbers alone
        pairs = _pair_reductions(self.order)
        for n in self.order:
            inside = [p for a in n.args if a not in stored and (p := self.products[a]) is not None]
            self.products[n] = n if is_product(n) else max(inside, key=free_rank, default=None)
            elementwise = bool(inside) and n.op not in WORKS and n.op != "scatter"
            if is_product(n) or (elementwise and all(self._is_epilogue(a) for a in n.args)):
                self.epilogues.add(n)
            single = (a for a in dict.fromkeys(n.args) if len(users[a]) == 1 and a not in stored)
            alone = (a for a in single if free_rank(a) >= free_rank(n))
            self.local[n] = (sum(self.local[a] for a in alone) + cost(n)) * _repeats(n, short if n in pairs else None)
            if all(a in self.virtual for a in n.args) and (n.op in VIRTUAL or n.op in OPS or n.op in ELEMENTWISE):
                self.virtual.add(n)
            elif (inner := self._padded(n)) is not None:
                self.local[n] = PADDED + (self.local[inner] if self._padded(inner) is not None else 0)

    def _padded(self, n: Node) -> Node | None:
        """The array that is padded: read where a condition on positions holds, at coordinates of positions alone."""
        if n.op != "where" or n.args[0] not in self.virtual:
            return None
        read, fill = n.args[1:]
        inside = read.op == "gather" and self.virtual.issuperset(read.args[1:]) and fill in self.virtual
        return read.args[0] if inside else None

    def _is_epilogue(self, a: Node) -> bool:
        return a in self.epilogues or a in self.stored or self.products[a] is None

    def find(self) -> list[StoredArray]:
        read: dict[Node, dict[Coordinates, None]] = {n: {} for n in self.order}
        for r in self.results:
            whole = r.args[0] if r.op == "reshape" else r  # stored before its reshape
            read[whole][own_coordinates(whole.type.shape)] = None
        for n in reversed(self.order):
            here = read.pop(n)
            if n not in self.stored and len(here) > 1 and (reason := self._why_stored(n, here)):
                self.stored[n] = reason
            if n in self.stored:
                here = {own_coordinates(n.type.shape): None}
            for at in here:
                for a, where in reads(n, at):
                    if len(read[a]) <= MOST_READS:
                        read[a][canonical(where)] = None
        stored = [n for n in self.order if n in self.stored]
        return [StoredArray(n, self.stored[n], n in self.epilogues and n not in self.separate) for n in stored]

    def _why_stored(self, n: Node, demands: Collection[Coordinates]) -> str | None:
        """Why a node that is read at several coordinates is stored, or None."""
        product = self.products[n]
        if n.op in FREE or n.op in LEAVES or (product is not None and free_rank(n) > free_rank(product)):
            return None
        if (
            product is not None
            and n in self.epilogues
            and self._is_only_use(n, product)
            and count_read_patterns(demands) > 1
        ):
            return "a matrix product below it is read at several coordinates"
        if len(demands) > MOST_READS:
            return f"it is read at more than {MOST_READS} coordinates"
        count = count_reads(demands)
        if (count - 1) * self.local[n] > self.rate * 2 * n.type.dtype.compute.itemsize:
            return f"recomputing it at {count} coordinates takes longer than storing it"
        return None

    def _is_only_use(self, n: Node, inner: Node) -> bool:
        """Whether every use of an inner node passes through this one."""
        step: Node | None = inner
        while step is not None and step is not n:
            step = self.dominator[step]
        return step is n


def _dominators(order: Sequence[Node], users: dict[Node, list[Node]], results: set[Node]) -> dict[Node, Node | None]:
    """Immediate post-dominator of each node on the paths to the results, or None."""
    dominator: dict[Node, Node | None] = {}
    depth: dict[Node | None, int] = {None: 0}
    for n in reversed(order):
        ways: list[Node | None] = [None] if n in results else list(users[n])
        step = ways[0]
        for other in ways[1:]:
            while step is not other:
                if depth[step] >= depth[other]:
                    step = dominator[step]  # type: ignore[index]
                else:
                    other = dominator[other]  # type: ignore[index]
        dominator[n], depth[n] = step, depth[step] + 1
    return dominator


def _repeats(n: Node, short: Short | None) -> int:
    """Elements that a reduction reads for one result; `short` tells the extents of those that are unrolled."""
    if n.op != "reduce":
        return 1
    extents = [n.args[0].type.shape[k] for k in n.attr[1]]
    known = [short(d, MOST_UNROLLED) if short is not None else d if isinstance(d, int) else None for d in extents]
    return prod(UNKNOWN if d is None else d for d in known)


def _pair_reductions(order: Sequence[Node]) -> set[Node]:
    """Reductions that others read, and whose operands are arrays of fewer axes (see pair_folds.py)."""
    wide: dict[Node, int] = {}  # the most axes of an array below elementwise operations and views
    inner: set[Node] = set()
    for n in order:
        own = n.op not in OPS and n.op not in ELEMENTWISE
        wide[n] = 0 if n.op in VIRTUAL else free_rank(n) if own else max((wide[a] for a in n.args), default=0)
        if n.op == "reduce" and wide[n.args[0]] < free_rank(n.args[0]):
            inner.add(n)
    operands: set[Node] = set()
    for n in reversed(order):
        if n in operands or n.op in WORKS:
            operands.update(n.args)
    return inner & operands
