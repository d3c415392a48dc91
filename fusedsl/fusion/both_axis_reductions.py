"""Column reductions (over rows) that a row-reduction kernel can compute from the rows that it reads anyway."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Node, walk
from .coordinates import Axis

BOUND = ("fold", "scan", "sorted")  # values that one kernel computes; other kernels load them


def both_axis_reductions(
    order: Sequence[Node], free: dict[Node, frozenset[Axis]], uses: dict[Node, frozenset[Node]], roots: Sequence[Node]
) -> set[Node]:
    """Folds over rows that other folds reduce along their columns, if no element of these rows depends on them.

    Rows run along the last axis of the array that the other fold reads, which is contiguous in memory.
    """
    folds = [n for n in order if n.op == "fold"]
    hosts = {(free[f], frozenset(f.attr[1])) for f in folds if _innermost(f) in f.attr[1]}
    consumers = [(free[n.args[0]], uses[n.args[0]]) for n in order if n.op in BOUND] + [
        (free[v], uses[v]) for v in roots
    ]
    column_folds = set()
    for f in folds:
        rows, columns = frozenset(f.attr[1]), free[f]
        needed = any(f in used and rows | columns <= axes for axes, used in consumers)
        if rows and columns and (rows, columns) in hosts and not needed:
            column_folds.add(f)
    return column_folds


def _innermost(f: Node) -> Axis | None:
    """Last axis of the array with most axes among those that a fold reads."""
    loads = [n for n in walk([f]) if n.op == "load" and n.attr[1]]
    return max(loads, key=lambda n: len(n.attr[1])).attr[1][-1].axis if loads else None
