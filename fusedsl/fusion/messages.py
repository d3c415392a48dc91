"""The words of decisions: what folds and stores are called, and why one cannot be where another is."""

from __future__ import annotations

from ..ir.graph import Node
from .coordinates import Axis
from .fusion_group import FusionGroup
from .scalar_program import ScalarStore

STORED = "no kernel that uses scores as it computes them fits the card and these arrays"  # which limit, a report says

LONG = "the kernel would take long to compile"


def why_separate(g: FusionGroup, f: Node) -> str:
    """Why a fold, scan or order cannot share the walk of a kernel's rows."""
    if f.op == "scan" and any(s.attr[2] != f.attr[2] for s in g.scans):
        return "it runs from the other end of the row than a scan of the kernel"
    if f.op == "ranked" or g.ranked:
        return "a kernel puts its rows in one order"
    if f.op == "fold" and not g.scans:
        return "products of matrices are summed in tiles, at most eight together, and other folds row by row"
    if g.column_folds:
        return "a kernel that scans its rows does not fold them over all rows too"
    return "a scan of one long row ends before its last value can be used by all blocks"


def describe_fold(f: Node | ScalarStore) -> str:
    """What decisions call a fold, scan, order or store."""
    if isinstance(f, ScalarStore):
        return f"{f.kind} {f.index}"
    if f.op == "ranked":
        return f"the order along {f.args[0].attr[1]}"
    if f.op == "scan":
        return f"cumulative {f.attr[0]} along {f.attr[1]}"
    return f"{f.attr[0]} over {', '.join(map(str, f.attr[1]))}"


def describe_axes(f: Node, rows: frozenset[Axis], columns: frozenset[Axis]) -> str:
    """The axes that a fold, scan or order runs along, and for what."""
    along = ", ".join(sorted(map(str, columns)))
    each = f" for each {', '.join(sorted(map(str, rows)))}" if rows else ""
    if f.op != "fold":
        return f"it {'scans' if f.op == 'scan' else 'orders'} {along}{each}"
    return f"it reduces {along}{each or ' to one value'}"


def describe_mismatch(g: FusionGroup) -> str:
    """Why a kernel that folds does not store a value that needs its result."""
    if not g.rows:
        return "a full reduction ends before its value can be used elsewhere"
    return "it runs over other axes than the reduction that it needs"
