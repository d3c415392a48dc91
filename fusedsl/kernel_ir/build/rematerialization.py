"""Rematerialisation: values that are cheap to recompute are not held in registers between phases."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.graph import Node
from ...ir.op_cost import FETCH_COST
from ...ir.ops import OPS

RECOMPUTE_BELOW = 8  # instructions; cheaper values are recomputed
READ = ("fold", "sorted")  # row values that are read by name
PRICED = {"scan": 100, "fetch": FETCH_COST}  # instructions; a scan synchronises all threads of a row


def computed_below(roots: Iterable[Node], stop: set[Node]) -> dict[Node, None]:
    """Nodes below the roots that are computed: not those in `stop`, folds, sorted elements or constants.

    The order is the same in every process, and so are the generated files.
    """
    nodes: dict[Node, None] = {}
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n in nodes or n in stop or n.op in READ or n.op == "const":
            continue
        nodes[n] = None
        stack.extend(n.args)
    return nodes


def recompute_cost(n: Node, stop: set[Node]) -> int:
    """Instructions to recompute a value from those in `stop`."""
    return sum(PRICED.get(m.op) or OPS[m.op].cost for m in computed_below([n], stop) if m.op in OPS or m.op in PRICED)
