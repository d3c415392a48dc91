"""Terms of derivative rules: a node with Python's operators, so that a rule reads as its formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.builder import GraphBuilder
from ..ir.graph import Node


def _binary(op: str, swap: bool = False) -> Callable[..., Term]:
    """A method: an operation of two terms, or of a term and a number."""

    def method(self: Term, other: Term | int | float) -> Term:
        return Term(self.b, self._operand(other)).apply(op, self) if swap else self.apply(op, other)

    return method


@dataclass(frozen=True)
class Term:
    """A node of a graph under construction; operators build further nodes."""

    b: GraphBuilder
    node: Node

    def apply(self, op: str, *others: Term | Node | int | float) -> Term:
        """An operation of the table with this term as its first operand."""
        return Term(self.b, self.b.elementwise(op, self.node, *(self._operand(x) for x in others)))

    def _operand(self, x: Term | Node | int | float) -> Node:
        if isinstance(x, Term):
            return x.node
        return x if isinstance(x, Node) else self.b.literal(x)

    __add__, __radd__ = _binary("add"), _binary("add", swap=True)
    __sub__, __rsub__ = _binary("subtract"), _binary("subtract", swap=True)
    __mul__ = __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _binary("divide", swap=True)
    __and__, __or__ = _binary("logical_and"), _binary("logical_or")
    __lt__, __gt__, __ge__ = _binary("less"), _binary("greater"), _binary("greater_equal")

    def __neg__(self) -> Term:
        return self.apply("negative")

    def equals(self, other: Term | int | float) -> Term:
        """Whether this equals another term."""
        return self.apply("equal", other)

    def then(self, yes: Term | int | float, no: Term | int | float) -> Term:
        """`yes` where this condition holds, else `no`."""
        return self.apply("where", yes, no)
