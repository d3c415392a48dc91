"""Maps over the nodes of an attention pattern: all of them, or the pattern with nodes replaced."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ...fusion.online.find_attention import AttentionPattern, ScoreProduct, ValueProduct
from ...ir.graph import Node
from ...rewrite.online.components import Component, Exponent, Reference
from ...rewrite.online.online_reduction import OnlineReduction

PARTS = (AttentionPattern, ScoreProduct, ValueProduct, OnlineReduction, Component, Exponent, Reference)


def all_nodes(pattern: AttentionPattern) -> list[Node]:
    """Every node of an attention pattern."""
    nodes: list[Node] = []

    def collect(n: Node) -> Node:
        nodes.append(n)
        return n

    map_nodes(pattern, collect)
    return nodes


def map_nodes(x: Any, change: Callable[[Node], Node]) -> Any:
    """Frozen data with its nodes replaced."""
    if isinstance(x, Node):
        return change(x)
    if isinstance(x, tuple):
        return tuple(map_nodes(part, change) for part in x)
    if isinstance(x, PARTS):
        return dataclasses.replace(x, **{f.name: map_nodes(getattr(x, f.name), change) for f in dataclasses.fields(x)})
    return x
