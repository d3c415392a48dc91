"""Operations that are computed in float64 although no input asks for it: they slow down float32 code on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.graph import Graph, Node
from ..ir.ops import OPS
from ..ir.types import FLOAT64
from .graph_formulas import formula


@dataclass(frozen=True)
class Float64Operation:
    """One operation in float64, and the reason; empty if it follows from another one."""

    operation: str
    reason: str


def float64_operations(graph: Graph) -> tuple[Float64Operation, ...]:
    """The float64 operations without a float64 array or a cast to float64 among their inputs."""
    requested: set[Node] = set()
    numbers: set[Node] = set()  # of literals and sizes alone: they cost nothing an element
    operations: dict[Node, Float64Operation] = {}
    names = [p.name for p in graph.parameters]
    for n in graph.nodes():
        if _is_number(n, numbers):
            numbers.add(n)
        elif _is_requested(n) or any(a in requested for a in n.args):
            requested.add(n)
        elif _is_wide(n):
            follows = any(_source(a) in operations for a in n.args)
            operations[n] = Float64Operation(formula(n, names), "" if follows else _reason(n))
    return tuple(operations.values())


def _is_number(n: Node, numbers: set[Node]) -> bool:
    """Whether a node is a literal, a size, or a number that is computed of them."""
    return not n.type.shape and (n.op in ("const", "size") or (bool(n.args) and numbers.issuperset(n.args)))


def _is_requested(n: Node) -> bool:
    """Whether the user wrote float64 here: an array or a NumPy scalar of that dtype, or a cast to it."""
    return n.type.dtype is FLOAT64 and not n.type.weak and n.op in ("param", "scalar", "cast")


def _is_wide(n: Node) -> bool:
    """Whether an operation computes in float64 (a comparison's result does not show it)."""
    if n.op not in OPS and n.op not in ("reduce", "scan"):
        return False
    return any(t.dtype is FLOAT64 and not t.weak for t in (n.type, *(a.type for a in n.args)))


def _source(n: Node) -> Node:
    while n.op in ("convert", "index", "transpose", "broadcast", "reshape", "gather"):
        n = n.args[0]
    return n


def _reason(n: Node) -> str:
    """The operands' dtypes before conversion to float64."""
    kinds = ["a number" if _source(a).type.weak or a.op == "const" else str(_source(a).type.dtype) for a in n.args]
    return f"from {' and '.join(dict.fromkeys(kinds))}"
