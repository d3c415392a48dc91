"""Which products are rounded before they are added to, so that a value is one number wherever it is computed.

A product that one sum alone reads may enter it unrounded, as a multiply-add. One that something else reads too is
rounded for both: x * c - max(x * c) is 0 at the maximum. A sum that several operations read is computed once for each
kernel or phase that needs it, with other instructions around it: it must come out alike. So of its products that one
is contracted which is computed for each of its elements, and never moved out of a loop; the others are rounded. What a
mask is added to is no sum, for kernels make a choice of it (masks.py): s + where(c, 0, -inf) is s, or -inf. Products of
numbers of 16 bits are exact in float32, and left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isinf

from ..ir.graph import Graph, Node, node, rebuild, value_of, walk
from ..ir.ops import CASTS, OPS, VIEWS
from ..ir.types import FLOAT32

ROUNDED = "rounded"  # attribute of a product that is rounded before it is added
SUMS = ("add", "subtract")
EXTREMA = ("minimum", "maximum", "fmin", "fmax")


def round_products(graph: Graph) -> Graph:
    """The graph with products marked that are rounded before they are added."""
    marked = _rounded(graph.results)
    if not marked:
        return graph

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        return node(old.op, args, ROUNDED if old in marked else old.attr, old.type)

    new = rebuild(graph.results, change)
    return Graph(graph.parameters, tuple(new[r] for r in graph.results), graph.checks)


def _rounded(results: Sequence[Node]) -> set[Node]:
    order = list(walk(results))
    uses, summed = dict.fromkeys(order, 0), dict.fromkeys(order, False)
    shared = dict.fromkeys(order, False)  # with several users, or an elementwise operand of a shared value
    for r in results:
        uses[r] += 1
    for n in reversed(order):
        shared[n] |= uses[n] > 1
        for k, a in enumerate(n.args):
            through = _passes(n, k)
            uses[a] += min(uses[n], 2) if through else 1
            summed[a] |= summed[n] if through else _sums(n)
            shared[a] |= shared[n] and (n.op in OPS or through)
    marked = {n for n in order if _is_product(n) and not _is_exact(n) and uses[n] > 1 and summed[n]}
    for n in order:
        if n.op in SUMS and n.type.dtype.kind == "f" and shared[n] and not any(map(_is_mask, n.args)):
            marked |= set(_beside_the_first(n))
    return marked


def _beside_the_first(total: Node) -> Iterator[Node]:
    """Products that a sum reads, except the first one with as many elements and without a select.

    A loop over a value that a condition does not depend on would otherwise be two loops.
    """
    first_seen = False
    for k in range(2):
        products = dict(_products(total, k))
        alike = not first_seen and all(
            p.type.shape == total.type.shape and not picked for p, picked in products.items()
        )
        first_seen |= bool(products) and alike
        yield from () if alike else products


def _products(n: Node, k: int) -> Iterator[tuple[Node, bool]]:
    """Products that operand k is, up to sign, selects and views, and whether a select picks them."""
    stack, seen = [(n.args[k], False)], set[Node]()
    while stack:
        a, picked = stack.pop()
        if a not in seen:
            seen.add(a)
            if _is_product(a) and not _is_exact(a):
                yield a, picked
            stack += [(b, picked or a.op == "where") for j, b in enumerate(a.args) if _passes(a, j)]


def _is_product(n: Node) -> bool:
    return n.op == "multiply" and n.type.dtype.kind == "f"


def _is_exact(product: Node) -> bool:
    """Whether both factors have so few bits that the product is exact: they are loaded or cast in 16 bits or fewer."""
    return all(map(_is_short, product.args)) and product.type.dtype.compute is FLOAT32


def _is_short(n: Node) -> bool:
    while n.op in VIEWS or n.op in ("negative", "convert"):
        n = n.args[0]
    return n.op in ("param", "gather", "cast") and n.type.dtype.kind == "f" and n.type.dtype.bits <= 16


def _sums(n: Node) -> bool:
    return n.op in SUMS or (n.op in ("reduce", "scan") and n.attr[0] == "sum")


def _passes(n: Node, k: int) -> bool:
    """Whether an operation returns operand k, possibly negated: a compiler looks through it."""
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
    """Whether a value is 0 or an infinity, by conditions only."""
    stack, seen = [n], set[Node]()
    while stack:
        a = stack.pop()
        if a in seen:
            continue
        seen.add(a)
        if a.op == "const":
            if value_of(a) and not isinf(value_of(a)):
                return False
        elif a.op == "where":
            stack += a.args[1:]
        elif a.op in VIEWS or a.op in CASTS or a.op in ("add", "negative"):
            stack += a.args
        else:
            return False
    return True
