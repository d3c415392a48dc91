"""A scalar of a program as a short formula, for the names of folds in decisions: `exp(x - max) * w`.

Arguments are `%0`, `%1`, …, until the parameters' names are known.
"""

from __future__ import annotations

from ..ir.folds import SCAN_NAMES
from ..ir.graph import Node
from ..ir.ops import CASTS, OPS, ROUNDED
from ..ir.printer import bracketed, show_literal

LONGEST = 48  # characters
DEEPEST = 6  # nested operations of a formula


def scalar_formula(n: Node) -> str:
    """The formula of a scalar, as deep as it stays short; `...` stands for deeper operations."""
    for depth in range(DEEPEST, 0, -1):
        text = _formula(n, depth)
        if len(text) <= LONGEST:
            return text
    return _formula(n, 1)


def _formula(n: Node, depth: int) -> str:
    while n.op == "convert" or _is_guarded(n):
        n = n.args[0] if n.op == "convert" else n.args[1]
    leaf = _leaf(n)
    if leaf is not None:
        return leaf
    if n.op in ("fold", "scan"):
        name = n.attr[0] if n.op == "fold" else SCAN_NAMES[n.attr[0]]
        return f"{name}({_formula(n.args[0], depth - 1)})" if depth > 1 else str(name)
    if depth == 0:
        return "..."
    parts = [_formula(a, depth - 1) for a in n.args]
    if n.op in CASTS:
        return f"{n.type.dtype}({parts[0]})"
    symbol = "*" if n.attr == ROUNDED else OPS[n.op].symbol if n.op in OPS else None
    if symbol is None:
        return f"{n.op}({', '.join(parts)})"
    if len(parts) == 2:
        return f" {symbol} ".join(map(bracketed, parts))
    return f"{symbol}{' ' * symbol.isalpha()}{bracketed(parts[0])}"


def _leaf(n: Node) -> str | None:
    """The name of what is read or known, and of what a sort gives; None for an operation."""
    match n.op:
        case "const":
            return show_literal(n)
        case "load" | "pointer" | "stride":
            source = n.attr[0]
            return f"%{source.index}" if source.kind == "argument" else f"temporary {source.index}"
        case "fetch":
            return f"{_formula(n.args[0], 1)}[...]"
        case "scalar":
            return f"%{n.attr}"
        case "sorted":
            return "sorted" if n.attr[0] == "values" else "argsort"
        case "position" | "size" | "literal" | "sort":
            return n.op
    return None


def _is_guarded(n: Node) -> bool:
    """Whether a node is a reference that is 0 where it is not finite."""
    return n.op == "where" and n.args[0].op == "isfinite" and n.args[0].args[0] is n.args[1]
