"""Reasons against sharing a kernel, as explain() prints them, and the names of folds and stores in decisions.

A reason that one condition of the partition gives is a literal there, in `_refuse`.
"""

from __future__ import annotations

from ..ir.folds import SCAN_NAMES
from ..ir.graph import Node
from .coordinates import Axis
from .fusion_group import FusionGroup
from .scalar_formulas import scalar_formula
from .scalar_program import ScalarStore

LONG = "the kernel would take long to compile"


def why_separate(g: FusionGroup, f: Node) -> str:
    """Why a fold, scan or sort cannot share a kernel's loop over its rows."""
    if f.op == "scan" and any(s.attr[2] != f.attr[2] for s in g.scans):
        return "its scan runs in the other direction than a scan of the kernel"
    if f.op == "fold" and g.sorted:
        return "rows that are too long for a block are sorted by several, which fold nothing"
    if f.op == "sorted" and g.folds:
        return "a kernel sorts its rows once, and folds none that are too long for a block"
    if f.op == "sorted" or g.sorted:
        return "a kernel sorts its rows once"
    if f.op == "fold" and not g.scans:
        return "matrix products are summed in tiles, at most eight together, and other folds row by row"
    if g.column_folds:
        return "a kernel that scans its rows does not reduce over rows too"
    return "a scan of one long row ends before all blocks can use its last value"


def describe_fold(f: Node | ScalarStore) -> str:
    """Name of a fold, scan, sort or store in decisions."""
    if isinstance(f, ScalarStore):
        return f"{f.kind} {f.index} = {scalar_formula(f.value)}"
    value = scalar_formula(f.args[0].args[0] if f.op == "sorted" else f.args[0])
    if f.op == "sorted":
        return f"the sort of {value} along {f.args[0].attr[1]}"
    if f.op == "scan":
        return f"{SCAN_NAMES[f.attr[0]]} of {value} along {f.attr[1]}"
    return f"{f.attr[0]} of {value} over {', '.join(map(str, f.attr[1]))}"


def describe_axes(f: Node, rows: frozenset[Axis], columns: frozenset[Axis]) -> str:
    """Axes of a fold, scan or sort, and the rows that it is computed for."""
    along = ", ".join(sorted(map(str, columns)))
    each = f" for each {', '.join(sorted(map(str, rows)))}" if rows else ""
    if f.op != "fold":
        return f"it {'scans' if f.op == 'scan' else 'sorts'} {along}{each}"
    return f"it reduces {along}{each or ' to one value'}"


def describe_mismatch(g: FusionGroup) -> str:
    """Why a reduction kernel cannot store a value that reads its result."""
    if not g.rows:
        return "a full reduction ends before other blocks can use its value"
    return "it runs over other axes than the reduction that it needs"
