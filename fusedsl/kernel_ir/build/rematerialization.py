"""What is dear to compute again, and so worth a register from one phase to a later one."""

from __future__ import annotations

from collections.abc import Iterable

from ...ir.op_cost import FETCH_COST
from ...ir.graph import Node
from ...ir.ops import OPS

RECOMPUTE_BELOW = 8  # instructions: computing less than this again is cheaper than a register
READ = ("fold", "ranked")  # nodes whose values a row's work leaves by name
PRICED = {"scan": 100, "fetch": FETCH_COST}  # a scan: all threads of a row wait for each other


def computed_below(roots: Iterable[Node], stop: set[Node]) -> dict[Node, None]:
    """The nodes below the roots that are computed: those in `stop`, folds and places of an order are read.

    They come in an order that is the same in every process, and so is the file that is made of them.
    """
    found: dict[Node, None] = {}
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n in found or n in stop or n.op in READ or n.op == "const":
            continue
        found[n] = None
        stack.extend(n.args)
    return found


def recompute_cost(n: Node, stop: set[Node]) -> int:
    """Instructions of computing a value from those in `stop`."""
    return sum(PRICED.get(m.op) or OPS[m.op].cost for m in computed_below([n], stop) if m.op in OPS or m.op in PRICED)
