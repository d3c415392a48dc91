"""Joins of arrays: which of their pieces are stored, so that an element of a join does not compute all of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf

from ..ir.graph import Node, search, users_of, walk
from ..ir.joins import GROUP, piece_axis
from ..ir.ops import LEAVES
from .demand_analysis import WORKS, below_views, cost

MANY = "many arrays are joined, and others are computed from it"
LONG = "more arrays are joined than one kernel chooses among"
AGAIN = "arrays are joined, and it would be computed for each of their elements"


@dataclass(frozen=True)
class Join:
    """Arrays that are joined along an axis of a node."""

    node: Node
    axis: int
    pieces: tuple[Node, ...]

    @property
    def is_stack(self) -> bool:
        """Whether each piece has one place on the axis: a loop over a piece does not compute the others with it."""
        return self.node.type.shape[self.axis] == len(self.pieces) > 1


@dataclass(frozen=True)
class StoredPieces:
    """Pieces of joins that are stored, with the reason of each, and which of them one kernel may store."""

    reasons: dict[Node, str]
    stacks: dict[Node, int]  # a negative number for each stack


def stored_pieces(results: Sequence[Node], rate: float, longest: int) -> StoredPieces:
    """Pieces of joins that are joins themselves, results, or values that other pieces are computed from.

    An element of a join is a choice among all of its pieces, each computed up to there. Of joins of many arrays, such
    pieces are stored; of stacks, if that takes less time. Groups of arrays that are joined are stored where one kernel
    cannot join them all. `rate` instructions take as long as moving a byte; a kernel has at most `longest` of them.
    """
    order = list(walk(results))
    users, joins = users_of(order), _joins(order)
    stored: dict[Node, str] = {}
    stacks: dict[Node, int] = {}
    for join in joins.values():
        shared = [p for p in join.pieces if p.op not in LEAVES and (p in joins or len(users[p]) > 1)]
        groups = [p for p in join.pieces if p in joins]
        if len(join.pieces) >= GROUP:
            stored |= dict.fromkeys(shared, MANY)
        elif groups and sum(map(cost, _computed(join.pieces, stored))) > longest:
            stored |= dict.fromkeys(groups, LONG)  # not in the midst of one: kernels of whole groups are alike
        elif join.is_stack:
            shared += [p for p in join.pieces if p in results and p.op not in LEAVES]
            inside = _computed(join.pieces, stored)
            if shared and _recomputes(join, inside, rate):
                stored |= dict.fromkeys(shared, AGAIN)
                if sum(map(cost, inside)) <= longest:
                    stacks |= dict.fromkeys(shared, -1 - len(stacks))
    return StoredPieces(stored, stacks)


def _joins(order: Sequence[Node]) -> dict[Node, Join]:
    """Joins by their last node."""
    joins: dict[Node, Join] = {}
    for n in order:
        if (axis := piece_axis(n)) is not None:
            joins[n] = Join(n, axis, (below_views(n.args[0]),))
        elif n.op == "where" and (parts := [joins.pop(a) for a in dict.fromkeys(n.args[1:]) if a in joins]):
            joins[n] = Join(n, parts[0].axis, tuple(p for part in parts for p in part.pieces))
    return joins


def _computed(pieces: Sequence[Node], stored: Collection[Node]) -> list[Node]:
    """What computes an element of all pieces, down to arrays that are stored."""
    return [n for n in search(pieces, lambda n: () if n in stored else n.args) if n not in stored]


def _recomputes(join: Join, inside: Sequence[Node], rate: float) -> bool:
    """Whether computing all pieces for each element takes longer than storing and loading each piece once."""
    if rate < inf and any(n.op in WORKS for n in inside):
        return True
    again = (len(join.pieces) - 1) * sum(map(cost, inside))
    return again > rate * sum(2 * p.type.dtype.compute.itemsize for p in join.pieces)
