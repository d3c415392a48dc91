"""Memory that an interpreted graph takes: the most bytes held at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from .dims import evaluate
from .graph import Graph, Node
from .interp import extents_of, last_uses
from .ops import LEAVES, VIEWS
from .types import numpy_dtype


def footprint(graph: Graph, arguments: Sequence) -> int:
    """Approximate bytes that `interpret` holds at once besides the arguments; views take none."""
    extents = extents_of(arguments)

    def elements(n: Node) -> int:
        return prod(evaluate(d, extents) for d in n.type.shape)

    held: dict[Node, int] = {}
    bases: dict[Node, Node] = {}  # the array behind each view
    readers: Counter[Node] = Counter()  # live references to an array, its views included
    most = total = 0
    for n, done in last_uses(graph):
        is_view = n.op in VIEWS and n.op != "reshape"
        base = bases[n] = bases[n.args[0]] if is_view else n
        readers[base] += 1
        size = elements(n) * numpy_dtype(n.type.dtype.compute).itemsize
        if not is_view:
            held[n] = 0 if n.op in LEAVES and n.op != "iota" else size
            total += held[n]
        working = size * WORKING.get(n.op, 0) + sum(held[bases[a]] for a in n.args) * (n.op == "contract")
        most = max(most, total + working)
        for a in done:
            readers[bases[a]] -= 1
            if not readers[bases[a]]:
                total -= held[bases[a]]
    return most + sum(elements(r) * r.type.dtype.itemsize for r in graph.results)


# temporary arrays of the result's size
WORKING = {
    "gather": 2,
    "contract": 1,
    "scan": 3,
    "sorted": 1,
    "scatter": 2,
    **dict.fromkeys(("erf", "erfc", "lgamma"), 6),
}
WORKING |= dict.fromkeys(("philox", "philox_high", "philox_word", "philox_pair"), 10)
