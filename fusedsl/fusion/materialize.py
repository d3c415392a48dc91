"""Chooses the arrays that are stored between kernels, before the graph is lowered.

An array that is not stored is recomputed wherever it is read. An array is stored if recomputation at all its reads is
more expensive, if a matrix product would be recomputed for each element of another one, or if a kernel would take too
long to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import inf, prod

from ..ir.dims import Dim, expression, product
from ..ir.graph import Node, search, users_of, walk
from ..ir.op_cost import FETCH_COST
from ..ir.ops import LEAVES, OPS, VIEWS
from .coordinates import Coordinates
from .demand_analysis import (
    FREE,
    array_below,
    below_views,
    canonical,
    count_read_patterns,
    count_reads,
    own_coordinates,
    reads,
)
from .formulation import ON_CUDA, STORED, AttentionMode, Formulation, ProductMode
from .graph_products import factors_of, free_rank, is_large, is_product, matmul_extents, summed_factors
from .long_joins import pieces_of_long_joins
from .stored_products import stored_products

INSIDE = "it would be computed for each element of another product"
WIDEST = 512  # extent of a product's axes in attention: a query tile holds as much for each row
MOST_READS = 64  # coordinates at which an array is recomputed
MOST_NESTED = 12  # reductions in one kernel that depend on each other
TURNED = 3  # a nested reduction along other axes counts as so many: its kernel recomputes its inputs
MOST_OPERATIONS = 600  # instructions of one element: with more, kernels take seconds to compile
MOST_PROMISED = 2400  # … if kernels are to be as few as possible
UNKNOWN = 64  # assumed extent of a symbolic axis, for the cost of a reduction
VIEW_COST = 3  # instructions of a view of an argument, for its address
WORKS = ("reduce", "scan", "sorted", "contract")


Fits = Callable[[Dim, int], bool]


@dataclass(frozen=True)
class StoredArray:
    """Array that is stored between kernels, and why."""

    node: Node
    reason: str
    product: bool  # it is a matrix product or its epilogue

    @property
    def name(self) -> str:
        """Name in decisions."""
        if is_product(self.node):
            return "a matrix product"
        return f"{self.node.attr[0] if self.node.op in ('reduce', 'scan') else self.node.op} of {self.node.type}"


def materialize(
    results: Sequence[Node], instructions_per_byte: float, fits: Fits, way: Formulation
) -> list[StoredArray]:
    """The arrays of a program to store.

    `instructions_per_byte` take as long as storing and loading a byte. `fits` answers whether a count is within a limit
    for this plan. An attention kernel that measures exponents from tile maxima is not built for a single query row.
    """
    longest = MOST_OPERATIONS if instructions_per_byte < inf else MOST_PROMISED
    limited = _Limited(results, fits, way, longest)
    chosen = limited.find()
    stored = _ReadAnalysis(results, chosen, instructions_per_byte).find()
    if way.products is ProductMode.FUSED:
        return stored
    arrays = {s.node: s.reason for s in stored}
    products = stored_products(results, arrays, limited.attention_products(arrays), fits, way)
    return _ReadAnalysis(results, chosen | products.arrays, instructions_per_byte, products.alone).find()


def unfused_arrays(results: Sequence[Node], fits: Fits) -> list[StoredArray]:
    """All arrays that an unfused run stores, except in short elementwise chains with a single consumer."""
    limited = _Limited(results, fits, ON_CUDA).find()
    order = list(walk(results))
    users = users_of(order)
    wanted = [n for n in order if n.op not in FREE and n.op not in LEAVES and n not in results and n.type.shape]
    reason = "the unfused run is faster, by the time model"
    chosen = [n for n in wanted if n.op in WORKS or len(users[n]) > 1 or n in limited]
    return [StoredArray(n, limited.get(n, reason), is_product(n)) for n in chosen]


class _Limited:
    """Forward pass over the graph that stores arrays which exceed a kernel's limits.

    A product is not computed inside an operand of another one, except one level of products that attention can compute.
    """

    def __init__(self, results: Sequence[Node], fits: Fits, way: Formulation, longest: int = MOST_OPERATIONS):
        self.fits, self.way, self.longest = fits, way, longest
        self.order = list(walk(results))
        self.index = {n: k for k, n in enumerate(self.order)}
        self.stored: dict[Node, str] = {}
        self.products: dict[Node, int] = {}  # nesting depth of products that compute a node
        self.folded: dict[Node, bool] = {}  # whether elements of products are reduced in it
        self.nested: dict[Node, int] = {}  # reductions that depend on each other
        self.along: dict[Node, tuple[int, ...] | None] = {}  # axes of the last of them
        self.size: dict[Node, int] = {}  # instructions of an element
        self.inside: dict[Node, frozenset[Node]] = {}  # nodes that compute an element
        self.weighed: dict[Node, Node] = {}  # product that attention may compute -> its operand of weights

    def find(self) -> dict[Node, str]:
        self.stored |= pieces_of_long_joins(self.order)
        for n in self.order:
            if is_product(n):
                self._limit_operands(n)
            else:
                self._limit_row(n)
            self._note(n)
            if self.nested[n] > MOST_NESTED:
                self._store_before(n, self.nested, "kernels would be long chains of reductions")
            if self.size[n] > self.longest:
                self._store_before(n, self.size, "kernels would take long to compile")
        return self.stored

    def _of(self, values: dict[Node, int], n: Node) -> int:
        return 0 if n in self.stored else values[n]

    def _note(self, n: Node) -> None:
        args = dict.fromkeys(map(array_below, n.args))
        below = max((self._of(self.products, a) for a in args), default=0)
        self.products[n] = below + is_product(n)
        here = n.op in WORKS and below > 0 and not is_product(n)
        self.folded[n] = here or any(self.folded[a] for a in args if a not in self.stored)
        self.nested[n] = max((self._of(self.nested, a) for a in args), default=0)
        self.along[n] = next((self.along[a] for a in args if self._of(self.nested, a) == self.nested[n]), None)
        if n.op in WORKS:
            alike = self.nested[n] == 0 or self.along[n] == _axes(n)
            self.nested[n] += 1 if alike else TURNED
            self.along[n] = _axes(n)
        self.inside[n] = frozenset((n,)).union(*(self.inside[a] for a in args if a not in self.stored))
        self.size[n] = sum(map(cost, self.inside[n]))

    def _limit_operands(self, n: Node) -> None:
        """Store the operands of a product that attention does not compute itself."""
        operands = [array_below(x) for x in summed_factors(n)]
        for x in operands:
            if self._of(self.products, x) > 1:
                self._store_inner(x)
            if self._of(self.products, x) > 1:
                self.stored[x] = INSIDE
        held = [x for x in dict.fromkeys(operands) if self._of(self.products, x)]
        if held and operands[0] is operands[1]:
            self.stored[held[0]] = "both operands of a product are computed from it"
        elif len(held) == 2:
            scores = next((x for x in held if self.folded[x]), None)
            for x in held:
                if x is not scores:
                    self.stored[x] = "both operands of a matrix product are matrix products: it is computed once"
        for x in held:
            if x not in self.stored:
                self._limit_attention(n, x, operands)

    def _limit_row(self, n: Node) -> None:
        """Store products below a weighted sum per row whose weights are computed from scores."""
        held = [x for x in map(array_below, summed_factors(n)) if self._of(self.products, x)]
        if len(held) == 1 and self.folded[held[0]] and self.products[held[0]] > 1:
            self._store_inner(held[0])

    def _limit_attention(self, n: Node, x: Node, operands: Sequence[Node]) -> None:
        """Store what attention cannot compute, for a product whose operand `x` is computed from scores."""
        scores = [m for m in self.inside[x] if is_product(m)]
        side, extents = operands.index(x), matmul_extents(n)
        if self.way.products is not ProductMode.FUSED and self._is_stored_apart(n, x):
            self.stored[x] = STORED if self.way.attention is AttentionMode.MATERIALIZED else INSIDE
            return
        if self.way.attention is AttentionMode.TILE_MAX and not extents.alone[side]:
            self.stored[x] = "no attention kernel is for a single query row"
            return
        weighed = extents.alone[1 - side]
        widths = [weighed, *(matmul_extents(m).summed for m in scores)]
        if not (self.folded[x] or all(len(d) == 1 and self.fits(d[0], WIDEST) for d in widths)):
            self.stored[x] = "its axes are wider than attention kernels allow"
            return
        for y in (*operands, *(array_below(y) for m in scores for y in factors_of(m))):
            if y is not x and _is_rounded(y):
                self.stored.setdefault(y, "it is rounded to 16 bits, which tensor cores multiply")
        self.weighed[n] = x

    def attention_products(self, stored: Collection[Node]) -> set[Node]:
        """Products of weights and their scores that an attention kernel may compute, if these arrays are stored."""
        found: set[Node] = set()
        for n, x in self.weighed.items():
            below = search([x] if x not in stored else [], lambda m: [a for a in m.args if a not in stored])
            if scores := [m for m in below if is_product(m)]:
                found.update((n, *scores))
        return found

    def _is_stored_apart(self, n: Node, x: Node) -> bool:
        """Whether operand `x` of a large product is stored though an attention kernel could compute it."""
        chain = self.way.attention is AttentionMode.TILE_MAX and not self.folded[x]  # on a CPU, two products in turn
        return (chain or self.way.attention is AttentionMode.MATERIALIZED) and is_large(n, self.fits)

    def _store_inner(self, n: Node) -> None:
        """Store products that are operands of scores, so that the scores can be reduced where they are computed."""
        inside = sorted(self.inside[n], key=self.index.__getitem__)
        for m in inside:
            for x in map(array_below, factors_of(m) if is_product(m) else ()):
                if self._of(self.products, x) and not self.folded[x]:
                    self.stored[x] = INSIDE
                elif self._of(self.products, x) and self._is_reduced(m, inside):
                    self.stored[x if self._is_narrow(m, x) else m] = INSIDE
        for m in inside:
            self._note(m)

    def _is_reduced(self, m: Node, inside: Sequence[Node]) -> bool:
        """Whether elements of a product are reduced or scanned by one of these nodes, which are in order."""
        above = {m}
        for n in inside:
            if n is not m and n not in self.stored and not above.isdisjoint(map(array_below, n.args)):
                if n.op in WORKS and not is_product(n):
                    return True
                above.add(n)
        return False

    def _is_narrow(self, m: Node, x: Node) -> bool:
        """Whether rows of a product's operand are no longer than rows of the product."""
        extents = matmul_extents(m)
        operands = [array_below(y) for y in factors_of(m)]
        columns = extents.alone[1 - operands.index(x)]
        return self.fits(expression("-", product(extents.summed), product(columns)), 0)

    def _store_before(self, n: Node, values: dict[Node, int], reason: str) -> None:
        """Store the operand that makes a node exceed a limit."""
        most = max(self._of(values, a) for a in n.args)
        for a in n.args:
            if self._of(values, a) == most and array_below(a).op not in LEAVES:
                self.stored.setdefault(array_below(a), reason)
        self._note(n)


def _is_rounded(n: Node) -> bool:
    """Whether an array is rounded to a 16-bit float after more than a multiplication."""
    n = below_views(n) if n.op in VIEWS else n
    if n.op != "cast" or n.type.dtype.kind != "f" or n.type.dtype.bits != 16:
        return False
    return below_views(n.args[0]).op not in (*LEAVES, "multiply", "divide", "cast")


def _axes(n: Node) -> tuple[int, ...] | None:
    """Axes that a reduction, scan or sort runs along."""
    if n.op == "contract":
        return None
    return n.attr[1] if n.op == "reduce" else (n.attr[1] if n.op == "scan" else n.type.rank - 1,)


def cost(n: Node) -> int:
    """Instructions per element of a node, without its operands."""
    if n.op == "gather":
        return FETCH_COST
    if n.op == "index" and n.args[0].op == "param":
        return VIEW_COST
    return OPS[n.op].cost if n.op in OPS else int(n.op not in (*FREE, "const"))


class _ReadAnalysis:
    """Backward pass over the graph: all coordinates at which an array is read are known when it is visited."""

    def __init__(self, results: Sequence[Node], stored: dict[Node, str], rate: float, apart: Collection[Node] = ()):
        self.results, self.stored, self.rate = results, dict(stored), rate
        self.apart = apart  # products whose epilogues are in later kernels
        self.order = list(walk(results))
        users = users_of(self.order)
        self.dominator = _dominators(self.order, users, set(results))
        self.products: dict[Node, Node | None] = {}  # the largest product that computes a node
        self.epilogues: set[Node] = set()  # products and elementwise functions of them
        self.local: dict[Node, int] = {}  # instructions of an element and its single-use operands
        for n in self.order:
            inside = [p for a in n.args if a not in stored and (p := self.products[a]) is not None]
            self.products[n] = n if is_product(n) else max(inside, key=free_rank, default=None)
            if is_product(n) or (inside and n.op not in WORKS and all(self._is_epilogue(a) for a in n.args)):
                self.epilogues.add(n)
            single = (a for a in dict.fromkeys(n.args) if len(users[a]) == 1 and a not in stored)
            alone = (a for a in single if free_rank(a) >= free_rank(n))
            self.local[n] = (sum(self.local[a] for a in alone) + cost(n)) * _repeats(n)

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
        return [StoredArray(n, self.stored[n], n in self.epilogues and n not in self.apart) for n in stored]

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


def _repeats(n: Node) -> int:
    """Elements that a reduction reads for one result."""
    if n.op != "reduce":
        return 1
    shape = n.args[0].type.shape
    return prod(d if isinstance(d, int) else UNKNOWN for d in (shape[k] for k in n.attr[1]))
