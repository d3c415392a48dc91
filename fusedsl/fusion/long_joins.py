"""Joins of many arrays: which of their pieces are stored, so that an element of a join does not compute all of them."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.gathers import GUARDED
from ..ir.graph import Node, users_of
from ..ir.joins import GROUP
from ..ir.ops import LEAVES
from .demand_analysis import below_views


def pieces_of_long_joins(order: Sequence[Node]) -> dict[Node, str]:
    """Pieces of joins of many arrays: joins themselves, or values that other pieces are computed from.

    An element of a join is a choice among all of its pieces, each computed up to there.
    """
    pieces: dict[Node, list[Node]] = {}  # of the joins that end in a node
    users = users_of(order)
    for n in order:
        if n.op == "gather" and n.attr[0] == GUARDED:
            pieces[n] = [below_views(n.args[0])]
        elif n.op == "where" and any(a in pieces for a in n.args[1:]):
            pieces[n] = [p for a in n.args[1:] for p in pieces.pop(a, ())]
    long = {n: parts for n, parts in pieces.items() if len(parts) >= GROUP}
    stored = {}
    for parts in long.values():
        for p in parts:
            if p.op not in LEAVES and (p in long or len(users[p]) > 1):
                stored[p] = "many arrays are joined, and others are computed from it"
    return stored
