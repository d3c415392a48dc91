"""Stored sorts: sorted arrays that a program reads whole and at some ranks are stored, rather than sorted again."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Node, walk


def stored_orders(results: Sequence[Node]) -> list[Node]:
    """Values or positions that are read at ranks, of orders that something else than that reads, too."""
    nodes = [n for n in walk(results) if n.op != "sorted"]
    at_places = dict.fromkeys(n.args[0] for n in nodes if n.op in ("gather", "index") and n.args[0].op == "sorted")
    read = [a for n in nodes for k, a in enumerate(n.args) if n.op not in ("gather", "index") or k]
    whole = {_order(n) for n in (*results, *read) if n.op == "sorted"}
    return [n for n in at_places if _order(n) in whole]


def _order(n: Node) -> tuple[Node, bool]:
    """What a node orders, and how: values and positions are of one order."""
    return n.args[0], n.attr[1]
