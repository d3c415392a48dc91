"""Limits of a kernel: the arrays that are stored because one kernel cannot compute them, or would compile too long."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import inf

from ..ir.dims import Dim, expression, product
from ..ir.graph import Node, search, walk
from ..ir.ops import LEAVES, VIEWS
from .demand_analysis import WORKS, array_below, array_below_windows, below_views, below_zeros, cost
from .formulation import STORED, AttentionMode, Formulation, ProductMode
from .graph_products import factors_of, is_large, is_product, matmul_extents, summed_factors
from .long_chains import narrowest_cut
from .long_joins import stored_pieces

INSIDE = "it would be computed for each element of another product"
SCATTERED = "its elements are merged at computed indices"
WIDEST = 512  # extent of a product's axes in attention: a query tile holds as much for each row
WIDEST_RESULT = {4: 256, 8: 64}  # the same of results on CUDA, by itemsize of accumulators: registers hold a row
GATHERED = 48  # instructions of an element that a gather computes wherever it reads it
MOST_NESTED = 12  # reductions in one kernel that depend on each other
MOST_NESTED_ON_CPUS = 7  # the same without products: LLVM compiles the chain again in the loop of each of them
TURNED = 3  # a nested reduction along other axes counts as so many: its kernel recomputes its inputs
MOST_OPERATIONS = 600  # instructions of one element: with more, kernels take seconds to compile
MOST_PROMISED = 2400  # the same under max_kernels
MOST_LOADS = 64  # loads of one element: LLVM's time grows faster than their number, as each has a pointer of its own
Fits = Callable[[Dim, int], bool]


class KernelLimits:
    """Forward pass over the graph that stores arrays which exceed a kernel's limits.

    A product is not computed inside an operand of another one, except one level of products that attention can compute.
    """

    def __init__(
        self,
        results: Sequence[Node],
        fits: Fits,
        way: Formulation,
        longest: int = MOST_OPERATIONS,
        instructions_per_byte: float = inf,
    ):
        self.fits, self.way, self.longest = fits, way, longest
        self.deepest = MOST_NESTED_ON_CPUS if way.attention is AttentionMode.TILE_MAX else MOST_NESTED
        pieces = stored_pieces(results, instructions_per_byte, longest)
        self.pieces, self.cuts = pieces.reasons, dict(pieces.stacks)  # cuts: arrays that one kernel may store
        self.order = list(walk(results))
        self.index = {n: k for k, n in enumerate(self.order)}
        self.last = {array_below(a): k for k, n in enumerate(self.order) for a in n.args}
        self.stored: dict[Node, str] = {}
        self.products: dict[Node, int] = {}  # nesting depth of products that compute a node
        self.folded: dict[Node, bool] = {}  # whether elements of products are reduced in it
        self.nested: dict[Node, int] = {}  # reductions that depend on each other
        self.along: dict[Node, tuple[int, ...] | None] = {}  # axes of the last of them
        self.size: dict[Node, int] = {}  # instructions of an element
        self.loads: dict[Node, int] = {}  # views of arrays in memory that are read for an element
        self.fused_producers: dict[Node, frozenset[Node]] = {}  # nodes that compute an element
        self.weights_of: dict[Node, Node] = {}  # product that attention may compute -> its operand of weights

    def find(self) -> dict[Node, str]:
        self.stored |= self.pieces
        self.stored |= {n: SCATTERED for n in self.order if n.op == "scatter"}
        for n in self.order:
            if is_product(n):
                self._limit_operands(n)
            else:
                self._limit_row(n)
            if n.op == "gather":
                self._limit_table(n)
            self._note(n)
            deepest = MOST_NESTED if self.products[n] else self.deepest
            if self.nested[n] > deepest:
                self._cut_below(n, lambda m: int(m.op in WORKS), "kernels would be long chains of reductions")
            if self.nested[n] > deepest:
                self._store_before(n, self.nested, "kernels would be long chains of reductions")
            if self.size[n] > self.longest:
                self._cut_below(n, cost, "kernels would take long to compile")
            if self.size[n] > self.longest:
                self._store_before(n, self.size, "kernels would take long to compile")
            if self.loads[n] > MOST_LOADS and self.longest <= MOST_OPERATIONS:
                self._cut_below(n, self._loads, "kernels would load too many arrays")
        return self.stored

    def _of(self, values: dict[Node, int], n: Node) -> int:
        return 0 if n in self.stored else values[n]

    def _note(self, n: Node) -> None:
        args = dict.fromkeys(map(array_below, n.args))
        operand_products = max((self._of(self.products, a) for a in args), default=0)
        self.products[n] = operand_products + is_product(n)
        here = n.op in WORKS and operand_products > 0 and not is_product(n)
        self.folded[n] = here or any(self.folded[a] for a in args if a not in self.stored)
        self.nested[n] = max((self._of(self.nested, a) for a in args), default=0)
        self.along[n] = next((self.along[a] for a in args if self._of(self.nested, a) == self.nested[n]), None)
        if n.op in WORKS:
            alike = self.nested[n] == 0 or self.along[n] == _axes(n)
            self.nested[n] += 1 if alike else TURNED
            self.along[n] = _axes(n)
        self._note_producers(n, [a for a in args if a not in self.stored])

    def _note_producers(self, n: Node, args: Sequence[Node]) -> None:
        """What computes an element of a node: that of its operand with the most of it, and what the others add."""
        most = max(args, key=lambda a: len(self.fused_producers[a]), default=None)
        shared = self.fused_producers[most] if most is not None else frozenset()
        more = frozenset((n,)).union(*(self.fused_producers[a] for a in args if a is not most)) - shared
        self.fused_producers[n] = shared | more
        self.size[n] = sum(map(cost, more)) + (self.size[most] if most is not None else 0)
        self.loads[n] = sum(map(self._loads, more)) + (self.loads[most] if most is not None else 0)

    def _loads(self, n: Node) -> int:
        """How many views of arrays in memory a node reads itself, each by a pointer of its own."""
        views = [array_below(a) for a in n.args if a.op in VIEWS]
        return sum(a.op == "param" or a in self.stored for a in views)

    def _limit_table(self, n: Node) -> None:
        """Store a computed array of which a gather reads twice the elements that it has; a padded one reads a few
        more, each once."""
        table = array_below_windows(n) or array_below(n.args[0])
        if table in self.stored or table.op in LEAVES or self.size[table] <= GATHERED:
            return
        if self.fits(expression("-", expression("*", product(table.type.shape), 2), product(n.type.shape)), 0):
            self.stored[table] = "a gather reads twice the elements that it has, and they take long to compute"

    def _limit_operands(self, n: Node) -> None:
        """Store the operands of a product that attention does not compute itself."""
        for base in filter(None, map(array_below_windows, summed_factors(n))):
            if base.op not in LEAVES and is_large(n, self.fits):
                self.stored.setdefault(base, "matrix products read windows of it")
                inner = below_zeros(base)
                if inner is not base and self._of(self.products, inner):
                    self.stored.setdefault(inner, "matrix products read windows of it, with zeros around it")
        operands = [array_below(x) for x in summed_factors(n)]
        for x in operands:
            if self._of(self.products, x) > 1:
                self._store_inner(x)
            if self._of(self.products, x) > 1:
                self.stored[x] = INSIDE
        computed = [x for x in dict.fromkeys(operands) if self._of(self.products, x)]
        if computed and operands[0] is operands[1]:
            self.stored[computed[0]] = "both operands of a product are computed from it"
        elif len(computed) == 2:
            scores = next((x for x in computed if self.folded[x]), None)
            for x in computed:
                if x is not scores:
                    self.stored[x] = "both operands of a matrix product are matrix products: it is computed once"
        for x in computed:
            if x not in self.stored:
                self._limit_attention(n, x, operands)

    def _limit_row(self, n: Node) -> None:
        """Store products below a weighted sum per row whose weights are computed from scores."""
        computed = [x for x in map(array_below, summed_factors(n)) if self._of(self.products, x)]
        if len(computed) == 1 and self.folded[computed[0]] and self.products[computed[0]] > 1:
            self._store_inner(computed[0])

    def _limit_attention(self, n: Node, x: Node, operands: Sequence[Node]) -> None:
        """Store what attention cannot compute, for a product whose operand `x` is computed from scores."""
        scores = [m for m in self.fused_producers[x] if is_product(m)]
        side, extents = operands.index(x), matmul_extents(n)
        if self.way.products is not ProductMode.FUSED and self._is_stored_by_itself(n, x):
            materialized = self.way.attention is AttentionMode.MATERIALIZED and self.folded[x]
            self.stored[x] = STORED if materialized else INSIDE
            return
        if self.way.attention is AttentionMode.TILE_MAX and not extents.alone[side]:
            self.stored[x] = "no attention kernel is for a single query row" if self.folded[x] else INSIDE
            return
        weighed = extents.alone[1 - side]
        if not self.folded[x] and not self._is_chain(n, weighed, scores):
            self.stored[x] = "its axes are wider than a kernel of two products in turn allows"
            return
        for y in (*operands, *(array_below(y) for m in scores for y in factors_of(m))):
            if y is not x and _is_rounded(y):
                self.stored.setdefault(y, "it is rounded to 16 bits, which tensor cores multiply")
        self.weights_of[n] = x

    def _is_chain(self, n: Node, weighed: Sequence[Dim], scores: Sequence[Node]) -> bool:
        """Whether attention kernels are wide enough for products in turn, and on CUDA multiply so many."""
        tiled = self.way.attention is not AttentionMode.TILE_MAX and all(matmul_extents(n).alone)  # not of a vector
        widest = WIDEST_RESULT.get(n.type.dtype.compute.itemsize, WIDEST) if tiled else WIDEST
        limits = [(weighed, widest), *((matmul_extents(m).summed, WIDEST) for m in scores)]
        one = len(scores) == 1 or not tiled
        return one and all(len(dims) == 1 and self.fits(dims[0], limit) for dims, limit in limits)

    def attention_products(self, stored: Collection[Node]) -> set[Node]:
        """Products of weights and their scores that an attention kernel may compute, if these arrays are stored."""
        products: set[Node] = set()
        for n, x in self.weights_of.items():
            fused = search([x] if x not in stored else [], lambda m: [a for a in m.args if a not in stored])
            if scores := [m for m in fused if is_product(m)]:
                products.update((n, *scores))
        return products

    def _is_stored_by_itself(self, n: Node, x: Node) -> bool:
        """Whether operand `x` of a large product is stored though an attention kernel could compute it."""
        chain = self.way.attention is AttentionMode.TILE_MAX and not self.folded[x]  # on a CPU, two products in turn
        return (chain or self.way.attention is AttentionMode.MATERIALIZED) and is_large(n, self.fits)

    def _store_inner(self, n: Node) -> None:
        """Store products that are operands of scores, so that the scores can be reduced where they are computed."""
        inside = sorted(self.fused_producers[n], key=self.index.__getitem__)
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

    def _cut_below(self, n: Node, weight: Callable[[Node], int], reason: str) -> None:
        """Store what the later half of a chain that ends in a node needs of the earlier one."""
        first = min(self.index[m] for m in self.fused_producers[n] if m.args)
        chain = self.order[first : self.index[n] + 1]
        for m in narrowest_cut(chain, self.fused_producers[n], self.index, self.last, weight):
            self.stored.setdefault(m, reason)
            self.cuts.setdefault(m, self.index[n])
        for m in chain:
            self._note(m)

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
