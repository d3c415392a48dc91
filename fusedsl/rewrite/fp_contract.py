"""FMA contraction: marks the products that are rounded before they are added, so that a value is equal wherever
computed.

A product that only one sum reads may be contracted with it into a fused multiply-add. A product with another reader is
rounded for both: x * c - max(x * c) must be 0 at the maximum. A sum with several readers is recomputed in each kernel
or phase, and must be equal in all of them: only the product that is computed per element, and never hoisted out of a
loop, is contracted; the others are rounded. An addition of a mask is no sum, because it becomes a select
(rewrite/online/masks.py): s + where(c, 0, -inf) is s or -inf. Products of 16-bit numbers are exact in float32 and stay
unmarked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf

from ..ir.graph import Graph, Node, node, rebuild_graph, search, value_of, walk
from ..ir.ops import CASTS, OPS, ROUNDED, VIEWS
from ..ir.types import FLOAT32

SUMS = ("add", "subtract")
EXTREMA = ("minimum", "maximum", "fmin", "fmax")


def round_products(graph: Graph) -> Graph:
    """The graph with products marked that are rounded before they are added."""
    marked = _rounded(graph.results)
    if not marked:
        return graph

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        return node(old.op, args, ROUNDED if old in marked else old.attr, old.type)

    return rebuild_graph(graph, change)


def _rounded(results: Sequence[Node]) -> set[Node]:
    order = list(walk(results))
    uses, summed = dict.fromkeys(order, 0), dict.fromkeys(order, False)
    shared = dict.fromkeys(order, False)  # with several users, or an elementwise operand of a shared value
    for r in results:
        uses[r] += 1
    for n in reversed(order):
        shared[n] |= uses[n] > 1
        for k, a in enumerate(n.args):
            through = _returns_operand(n, k)
            uses[a] += min(uses[n], 2) if through else 1
            summed[a] |= summed[n] if through else _is_sum(n)
            shared[a] |= shared[n] and (n.op in OPS or through)
    marked = {n for n in order if _is_product(n) and not _is_exact(n) and uses[n] > 1 and summed[n]}
    for n in order:
        if n.op in SUMS and n.type.dtype.kind == "f" and shared[n] and not any(map(_is_mask, n.args)):
            marked |= set(_products_to_round(n))
    return marked


def _products_to_round(total: Node) -> Iterator[Node]:
    """Products that a sum reads, except the first one, if it has as many elements and no select.

    A select whose condition is constant in a loop would otherwise need two loops.
    """
    first_seen = False
    for k in range(2):
        products = dict(_products(total, k))
        contractible = not first_seen and all(
            p.type.shape == total.type.shape and not selected for p, selected in products.items()
        )
        first_seen |= bool(products) and contractible
        yield from () if contractible else products


def _products(n: Node, k: int) -> Iterator[tuple[Node, bool]]:
    """(product, whether a select chooses it) that operand k is, up to sign, selects and views."""
    stack, seen = [(n.args[k], False)], set[Node]()
    while stack:
        a, selected = stack.pop()
        if a not in seen:
            seen.add(a)
            if _is_product(a) and not _is_exact(a):
                yield a, selected
            stack += [(b, selected or a.op == "where") for j, b in enumerate(a.args) if _returns_operand(a, j)]


def _is_product(n: Node) -> bool:
    return n.op == "multiply" and n.type.dtype.kind == "f"


def _is_exact(product: Node) -> bool:
    """Whether both factors are loaded or cast in 16 bits or fewer, so that the product is exact."""
    return all(map(_is_short, product.args)) and product.type.dtype.compute is FLOAT32


def _is_short(n: Node) -> bool:
    while n.op in VIEWS or n.op in ("negative", "convert"):
        n = n.args[0]
    return n.op in ("param", "gather", "cast") and n.type.dtype.kind == "f" and n.type.dtype.bits <= 16


def _is_sum(n: Node) -> bool:
    return n.op in SUMS or (n.op in ("reduce", "scan") and n.attr[0] == "sum")


def _returns_operand(n: Node, k: int) -> bool:
    """Whether an operation returns operand k, possibly negated: a compiler contracts through it."""
    match n.op:
        case "negative" | "gather":
            return k == 0
        case "where":
            return k > 0
        case "convert":
            return n.args[0].type.dtype.compute is n.type.dtype.compute
    if n.op in SUMS or n.op in EXTREMA:
        return _is_mask(n.args[1 - k])
    return n.op in VIEWS


def _is_mask(n: Node) -> bool:
    """Whether a value is 0 or infinite by conditions only."""
    for a in search([n], lambda a: a.args[a.op == "where" :]):
        if a.op == "const" and value_of(a) and not isinf(value_of(a)):
            return False
        if a.op not in ("const", "where", "add", "negative", *VIEWS, *CASTS):
            return False
    return True
