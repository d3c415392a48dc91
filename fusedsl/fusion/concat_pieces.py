"""Concatenations of equal pieces, as in rotary embeddings: a loop over one piece computes all pieces together.

An element of another piece is then an ordinary load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..ir.dims import Dim, Expression, expression
from ..ir.folds import FOLDS, scalar
from ..ir.gathers import GUARDED
from ..ir.graph import Node, constant, walk
from ..ir.joins import piece_axis
from ..ir.types import BOOL
from .coordinates import Axis, as_coordinate

MOST_PIECES = 4
JOINS = {
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}
SameExtent = Callable[[Dim, Dim], bool]


@dataclass(frozen=True)
class Pieces:
    """An axis of `extent` as `count` pieces of extent `piece`.

    `alike` are other expressions of the piece's extent. `same` answers whether an offset is a multiple of it.
    """

    extent: Dim
    piece: Dim
    count: int
    alike: frozenset[Dim]
    same: SameExtent = field(compare=False)

    @property
    def starts(self) -> tuple[Dim, ...]:
        """First index of each piece."""
        return tuple(expression("*", self.piece, k) for k in range(self.count))

    def join(self, fold: str, parts: Sequence[Node]) -> Node:
        """Element of a fold over the whole axis: the fold of the elements at one index of all pieces."""
        total = parts[0]
        for part in parts[1:]:
            total = scalar(JOINS[fold], total, part)
        return total


def find_pieces(results: Sequence[Node], same: SameExtent) -> Pieces | None:
    """The axis that concatenations split into equal pieces, if the whole program allows it.

    `same` answers whether two extents are equal in all calls that the plan is for.
    """
    nodes = list(walk(results))
    joined: dict[Dim, dict[Dim, Dim]] = {}
    for n in nodes:
        if n.op == "gather" and n.attr[0] == GUARDED:
            axis, begin = piece_axis(n), begin_of(n.args[1])
            if axis is None or begin is None:
                return None
            joined.setdefault(n.type.shape[axis], {})[begin] = n.args[0].type.shape[axis]
    if len(joined) != 1:
        return None
    ((extent, parts),) = joined.items()
    if not 2 <= len(parts) <= MOST_PIECES or 0 not in parts or any(_hinders(n, extent) for n in nodes):
        return None
    piece, count = parts[0], len(parts)
    equal = all(same(e, piece) for e in parts.values()) and same(extent, expression("*", piece, count))
    numbers = {k for begin in parts for k in range(count) if same(begin, expression("*", piece, k))} if equal else set()
    pieces = Pieces(extent, piece, count, frozenset(parts.values()), same)
    return pieces if len(numbers) == count else None


def begin_of(position: Node) -> Dim | None:
    """b, if a position is the index on the axis minus b; else None."""
    while position.op in ("index", "convert"):
        position = position.args[0]
    if position.op == "iota":
        return 0
    if position.op != "subtract" or begin_of(position.args[0]) != 0:
        return None
    offset = as_coordinate(position.args[1])
    return None if offset is None or offset.axis is not None else offset.start


def _hinders(n: Node, extent: Dim) -> bool:
    """Whether a node needs the axis unsplit."""
    if n.op in ("scan", "sorted", "reshape"):
        return any(extent in t.type.shape for t in (n, *n.args))
    if n.op == "reduce" and any(n.args[0].type.shape[a] == extent for a in n.attr[1]):
        return n.attr[0] not in JOINS or FOLDS[n.attr[0]].positional or _is_product(n)
    return n.type.shape.count(extent) > 1


def _is_product(n: Node) -> bool:
    """Whether a reduction is a matrix product, which pieces would turn into several."""
    (x,) = n.args
    if n.attr[0] != "sum" or x.op != "multiply":
        return False
    left, right = ((1,) * (x.type.rank - a.type.rank) + a.type.shape for a in x.args)
    result_axes = [k for k in range(x.type.rank) if k not in n.attr[1]]
    return any(left[k] == 1 != right[k] for k in result_axes) and any(right[k] == 1 != left[k] for k in result_axes)


def bound_in_pieces(position: Node, bound: Node, pieces: Pieces) -> Node | None:
    """`position < bound` as a constant, if it is the same for a whole piece; else None."""
    x, y = as_coordinate(position), as_coordinate(bound)
    if x is None or y is None or x.axis != Axis(pieces.piece) or x.step != 1 or y.axis is not None:
        return None
    first, limit = (_multiple(d, pieces) for d in (x.start, y.start))
    return None if first is None or limit is None else constant(first < limit, BOOL)


def _multiple(d: Dim, pieces: Pieces) -> int | None:
    """k, if an extent is k pieces; else None."""
    if d == 0:
        return 0
    if d == pieces.piece or d in pieces.alike:
        return 1
    if isinstance(d, Expression) and d.op == "start":
        return next((k for k in (*range(1, pieces.count), 0) if pieces.same(d, expression("*", pieces.piece, k))), None)
    if not isinstance(d, Expression) or d.op not in ("+", "-", "*"):
        return None
    x, y = d.args
    if d.op == "*":
        x, y = (y, x) if isinstance(x, int) else (x, y)
        multiple = None if x is None else _multiple(x, pieces)
        return multiple * y if multiple is not None and isinstance(y, int) else None
    first, second = (None if a is None else _multiple(a, pieces) for a in (x, y))
    if first is None or second is None:
        return None
    return first + second if d.op == "+" else first - second


def extent_in_pieces(d: Dim, pieces: Pieces) -> Dim:
    """An extent as a multiple of the piece, if it is one."""
    k = _multiple(d, pieces)
    return d if k is None else expression("*", pieces.piece, k) if k else 0


def count_fetches(values: Iterable[Node]) -> int:
    """Number of loads from computed addresses."""
    return sum(n.op == "fetch" for n in walk(values))
