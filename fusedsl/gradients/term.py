"""Terms of derivative rules: a node with Python's operators, so that a rule reads as its formula."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.builder import GraphBuilder
from ..ir.graph import Node


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

    def _of(self, x: int | float) -> Term:
        return Term(self.b, self.b.literal(x))

    def __add__(self, other: Term | int | float) -> Term:
        return self.apply("add", other)

    def __radd__(self, other: int | float) -> Term:
        return self._of(other) + self

    def __sub__(self, other: Term | int | float) -> Term:
        return self.apply("subtract", other)

    def __rsub__(self, other: int | float) -> Term:
        return self._of(other) - self

    def __mul__(self, other: Term | int | float) -> Term:
        return self.apply("multiply", other)

    def __rmul__(self, other: int | float) -> Term:
        return self.apply("multiply", other)

    def __truediv__(self, other: Term | int | float) -> Term:
        return self.apply("divide", other)

    def __rtruediv__(self, other: int | float) -> Term:
        return self._of(other) / self

    def __neg__(self) -> Term:
        return self.apply("negative")

    def __and__(self, other: Term) -> Term:
        return self.apply("logical_and", other)

    def __or__(self, other: Term) -> Term:
        return self.apply("logical_or", other)

    def __lt__(self, other: Term | int | float) -> Term:
        return self.apply("less", other)

    def __gt__(self, other: Term | int | float) -> Term:
        return self.apply("greater", other)

    def __ge__(self, other: Term | int | float) -> Term:
        return self.apply("greater_equal", other)

    def equals(self, other: Term | int | float) -> Term:
        """Whether this equals another term."""
        return self.apply("equal", other)

    def then(self, yes: Term | int | float, no: Term | int | float) -> Term:
        """`yes` where this condition holds, else `no`."""
        return self.apply("where", yes, no)
