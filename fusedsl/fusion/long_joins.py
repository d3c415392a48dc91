"""Joins of arrays, and writes of rows: which pieces are stored, so that an element does not compute all of them."""

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
    """Arrays that are joined along an axis of a node, or written to places of it."""

    node: Node
    axis: int
    pieces: tuple[Node, ...]
    written: bool = False  # each piece is written to one place of the axis

    @property
    def is_stack(self) -> bool:
        """Whether each piece has one place on the axis: a loop over a piece does not compute the others with it."""
        return len(self.pieces) > 1 and (self.written or self.node.type.shape[self.axis] == len(self.pieces))


@dataclass(frozen=True)
class StoredPieces:
    """Pieces of joins that are stored, with the reason of each, and which of them one kernel may store."""

    reasons: dict[Node, str]
    stacks: dict[Node, int]  # a negative number for each stack


def stored_pieces(results: Sequence[Node], rate: float, longest: int) -> StoredPieces:
    """Pieces of joins that are joins themselves, results, or values that other pieces are computed from.

    An element of a join is a choice among all of its pieces, each computed up to there. Of joins of many arrays, such
    pieces are stored, some by one kernel; of stacks, if that takes less time. Groups of arrays that are joined are
    stored where one kernel cannot join them all. `rate` instructions take as long as moving a byte; a kernel has at
    most `longest` of them.
    """
    order = list(walk(results))
    users, joins = users_of(order), _joins(order)
    stored: dict[Node, str] = {}
    stacks: dict[Node, int] = {}
    for join in joins.values():
        shared = [p for p in dict.fromkeys(join.pieces) if p.op not in LEAVES and (p in joins or len(users[p]) > 1)]
        groups = [p for p in join.pieces if p in joins]
        if len(join.pieces) >= GROUP:
            stored |= dict.fromkeys(shared, MANY)
            if join.is_stack:
                stacks |= _cuts(shared, stored, longest, len(set(stacks.values())))
        elif groups and sum(map(cost, _computed(join.pieces, stored))) > longest:
            stored |= dict.fromkeys(groups, LONG)  # not in the midst of one: kernels of whole groups are alike
        elif join.is_stack:
            shared += [p for p in join.pieces if p in results and p.op not in LEAVES]
            inside = _computed(join.pieces, stored)
            if shared and _recomputes(join, inside, rate):
                stored |= dict.fromkeys(shared, AGAIN)
                if sum(map(cost, inside)) <= longest:
                    stacks |= dict.fromkeys(shared, -1 - len(set(stacks.values())))
    return StoredPieces(stored, stacks)


def _joins(order: Sequence[Node]) -> dict[Node, Join]:
    """Joins by their last node."""
    joins: dict[Node, Join] = {}
    for n in order:
        if (axis := piece_axis(n)) is not None:
            joins[n] = Join(n, axis, (below_views(n.args[0]),))
        elif n.op == "where" and (write := _written(n)) is not None:
            axis, pieces = write
            rest = joins.get(n.args[2])
            if rest is not None and rest.written and rest.axis == axis:
                pieces = (*joins.pop(rest.node).pieces, *pieces)
            joins[n] = Join(n, axis, pieces, written=True)
        elif n.op == "where" and (parts := [joins.pop(a) for a in dict.fromkeys(n.args[1:]) if a in joins]):
            joins[n] = Join(n, parts[0].axis, tuple(p for part in parts for p in part.pieces))
    return joins


def _written(n: Node) -> tuple[int, tuple[Node, ...]] | None:
    """The axis and the value of where(i == k, value, rest): a write of one place of an axis; None for others."""
    condition, value, rest = n.args
    compared = below_views(condition)
    if compared.op != "equal" or compared.args[0].op != "iota" or compared.args[1].op not in ("const", "size"):
        return None
    axes = [k - condition.type.rank for k, d in enumerate(condition.type.shape) if d != 1]
    if len(axes) != 1 or rest.type.shape != n.type.shape:
        return None
    one = value.type.rank < -axes[0] or value.type.shape[axes[0]] == 1
    return (n.type.rank + axes[0], (below_views(value),)) if one and value.type.rank else None


def _cuts(pieces: Sequence[Node], stored: Collection[Node], longest: int, number: int) -> dict[Node, int]:
    """Neighbouring pieces that are stored, as many as one kernel computes, by the number of their cut."""
    cuts: dict[Node, int] = {}
    size, count = 0, 0
    for p in pieces:
        own = cost(p) + sum(cost(n) for n in _computed(p.args, stored))
        size, count = size + own, count + 1
        if size > longest or count > GROUP:
            number, size, count = number + 1, own, 1
        cuts[p] = -1 - number
    return cuts


def _computed(pieces: Sequence[Node], stored: Collection[Node]) -> list[Node]:
    """What computes an element of all pieces, down to arrays that are stored."""
    return [n for n in search(pieces, lambda n: () if n in stored else n.args) if n not in stored]


def _recomputes(join: Join, inside: Sequence[Node], rate: float) -> bool:
    """Whether computing all pieces for each element takes longer than storing and loading each piece once."""
    if rate < inf and any(n.op in WORKS for n in inside):
        return True
    again = (len(join.pieces) - 1) * sum(map(cost, inside))
    return again > rate * sum(2 * p.type.dtype.compute.itemsize for p in join.pieces)
