"""Rewrite driver: one iterative pass from arguments to results; each node is rewritten until no rule applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.graph import Graph, Node, node, rebuild_graph

Law = Callable[[Node], "Node | None"]


@dataclass(frozen=True)
class Rule:
    """Rewrite rule for one operation: `apply(node)` gives an equal node, or None if the rule does not match."""

    op: str
    law: str
    apply: Law


RULES: dict[str, list[Rule]] = {}


def rule(*ops: str, law: str) -> Callable[[Law], Law]:
    """Decorator that registers a rule for these operations."""

    def register(apply: Law) -> Law:
        for op in ops:
            RULES.setdefault(op, []).append(Rule(op, law, apply))
        return apply

    return register


def rewrite(graph: Graph, observe: Callable[[Rule, Node, Node], None] | None = None) -> Graph:
    """The graph with all rules applied until none matches; `observe` sees each step."""

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        current = node(old.op, args, old.attr, old.type)
        while (step := _first(current)) is not None:
            law, new = step
            if observe is not None:
                observe(law, current, new)
            current = new
        return current

    return rebuild_graph(graph, change)


def _first(n: Node) -> tuple[Rule, Node] | None:
    for law in RULES.get(n.op, ()):
        new = law.apply(n)
        if new is not None and new is not n:
            return law, new
    return None
