"""A graph node as a formula, shortened if it is long."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.contraction import Subscripts
from ..ir.folds import SCAN_NAMES
from ..ir.graph import Node
from ..ir.ops import OPS
from ..ir.printer import bracketed, show_literal

DEEP = 3  # nesting depth of a formula


def formula(n: Node, names: Sequence[str], depth: int = DEEP) -> str:
    """The expression of a node, in the parameters' names; `...` stands for deeper operations."""
    while n.op in ("convert", "broadcast", "reshape", "transpose"):
        n = n.args[0]
    if n.op == "const":
        return show_literal(n)
    if n.op in ("param", "scalar"):
        return names[n.attr]
    if n.op in ("size", "iota"):
        return n.op
    if depth == 0:
        return "..."
    parts = [formula(a, names, depth - 1) for a in n.args]
    if n.op == "index":
        return parts[0] if n.args[0].op == "reduce" else f"{parts[0]}[...]"
    if n.op == "gather":
        return f"{parts[0]}[{', '.join(parts[1:])}]"
    if n.op == "cast":
        return f"{n.type.dtype}({parts[0]})"
    if n.op == "scan":
        return f"{SCAN_NAMES[n.attr[0]]}({', '.join(parts)})"
    if n.op == "sorted":
        return f"{'sort' if n.attr[0] == 'values' else 'argsort'}({parts[0]})"
    if n.op == "reduce":
        return f"{n.attr[0]}({parts[0]})"
    if n.op == "contract":
        return _contraction(n, parts)
    symbol = OPS[n.op].symbol if n.op in OPS else None
    if symbol is None:
        return f"{n.op}({', '.join(parts)})"
    if len(parts) == 2:
        return f" {symbol} ".join(map(bracketed, parts))
    return f"{symbol}{' ' * symbol.isalpha()}{bracketed(parts[0])}"


def _contraction(n: Node, parts: Sequence[str]) -> str:
    """A contraction as `@` if its axes allow, else as einsum."""
    letters = Subscripts.parse(n.attr)
    if len(letters.summed) == 1 and letters.right.index(letters.summed) == max(len(letters.right) - 2, 0):
        rows, columns = letters.left.removesuffix(letters.summed), letters.right.replace(letters.summed, "")
        if letters.left.endswith(letters.summed) and rows[:-1] + rows[-1:] + columns[-1:] == letters.result:
            return " @ ".join(map(bracketed, parts))
    return f'einsum("{letters}", {", ".join(parts)})'
