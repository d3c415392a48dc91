"""Reductions over scores with an extra column, such as an attention sink: one reduction for each piece, then combined.

`softmax(concat([scores, sink], -1))[..., :-1] @ v` then runs over scores and v only: the maximum and the sum of the
scores are combined with the sink, and a slice that is one piece reads that piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir.dims import Dim, Symbol, expression
from ..ir.gathers import GUARDED
from ..ir.graph import Graph, Node, Type, constant, node, rebuild, resolve, resolve_dims, value_of, walk, with_arguments
from ..ir.joins import piece_axis
from ..ir.ops import OPS
from ..ir.types import BOOL
from .concat_pieces import JOINS, begin_of
from .view_coordinates import below_index

ArrayAxis = tuple[Node, int]  # an axis of an array
SameExtent = Callable[[Dim, Dim], bool]
ELEMENTWISE = ("convert", "cast", "broadcast")
MOST = 3


@dataclass(frozen=True)
class AxisPieces:
    """An axis of `extent` in pieces with these `begins` and `extents`."""

    extent: Dim
    begins: tuple[Dim, ...]
    extents: tuple[Dim, ...]


def split_concat_reductions(results: Sequence[Node], same: SameExtent) -> list[Node]:
    """The results with reductions over concatenated scores split into reductions of the scores and single columns."""
    for cut in _cuts(results, same):
        results = _PieceSlicer(cut, same).results(results)
    return list(results)


def _cuts(results: Sequence[Node], same: SameExtent) -> list[AxisPieces]:
    """Axes along which sums of products are concatenated with single columns."""
    pieces: dict[Dim, dict[Dim, Dim]] = {}
    computed: set[Dim] = set()
    for n in walk(results):
        if (axis := piece_axis(n)) is not None:
            begin, extent = begin_of(n.args[1]), n.type.shape[axis]
            if begin is not None:
                pieces.setdefault(extent, {})[begin] = n.args[0].type.shape[axis]
                if any(m.op == "reduce" for m in walk(n.args[:1])):
                    computed.add(extent)
    cuts = [_in_order(extent, pieces[extent], same) for extent in pieces if extent in computed]
    return [cut for cut in cuts if cut is not None and sum(d != 1 for d in cut.extents) == 1 < len(cut.extents)]


def _in_order(extent: Dim, pieces: dict[Dim, Dim], same: SameExtent) -> AxisPieces | None:
    """Pieces of an axis in order, including single elements that no gather places."""
    begins: list[Dim] = []
    extents: list[Dim] = []
    at: Dim = 0
    left = dict(pieces)
    while len(begins) <= MOST and not same(at, extent):
        here = next((b for b in left if same(b, at)), None)
        size: Dim = 1 if here is None else left.pop(here)
        begins.append(at)
        extents.append(size)
        at = expression("+", at, size)
    return None if left or len(begins) > MOST else AxisPieces(extent, tuple(begins), tuple(extents))


class _PieceSlicer:
    """Arrays restricted to one piece of an axis."""

    def __init__(self, cut: AxisPieces, same: SameExtent):
        self.cut, self.same = cut, same
        self.parts_of: list[dict[ArrayAxis, Node | None]] = [{} for _ in cut.begins]
        self.names: dict[Dim, Dim] = {}

    def results(self, results: Sequence[Node]) -> list[Node]:
        """The results computed from pieces, with slice extents that equal a piece's extent replaced by it."""
        new = rebuild(results, self._change)
        graph = Graph((), tuple(new[r] for r in results), ())
        return list(resolve_dims(graph, self.names).results)

    def _change(self, old: Node, args: tuple[Node, ...]) -> Node:
        new = with_arguments(old, args)
        if new.op == "reduce":
            return self._reduced(new) or new
        return (self._sliced(new) or new) if new.op == "index" else new

    def _reduced(self, n: Node) -> Node | None:
        """The combined reductions of all pieces."""
        (x,), (name, axes) = n.args, n.attr
        if len(axes) != 1 or x.type.shape[axes[0]] != self.cut.extent or name not in JOINS:
            return None
        parts = [self.part((x, axes[0]), p) for p in range(len(self.cut.begins))]
        if None in parts:
            return None
        combined: Node | None = None
        for part in parts:
            reduced = part if part.type.shape[axes[0]] == 1 else node("reduce", (part,), n.attr, n.type)  # type: ignore[union-attr, arg-type]
            combined = reduced if combined is None else node(JOINS[name], (combined, reduced), None, n.type)  # type: ignore[arg-type]
        return combined

    def _sliced(self, n: Node) -> Node | None:
        """The piece that a slice selects, or None."""
        (x,) = n.args
        plain = [entry for entry in n.attr if entry[0] != "new"]
        for axis, entry in enumerate(plain):
            if x.type.shape[axis] == self.cut.extent and entry[0] == "slice" and entry[2] == 1:
                for p, (begin, extent) in enumerate(zip(self.cut.begins, self.cut.extents)):
                    if self.same(begin, entry[1]) and self.same(extent, entry[3]):
                        part = self.part((x, axis), p)
                        if part is not None and isinstance(entry[3], Symbol) and entry[3] != extent:
                            self.names[entry[3]] = extent
                        return None if part is None else self._rest(n, part, axis, entry[3])
        return None

    def _rest(self, n: Node, part: Node, axis: int, extent: Dim) -> Node:
        """A basic index without the slice that takes the piece."""
        shape = tuple(extent if k == axis else d for k, d in enumerate(part.type.shape))
        part = node("broadcast", (part,), None, Type(part.type.dtype, shape, part.type.weak))
        key, operand_axis = [], 0
        for entry in n.attr:
            key.append(("slice", 0, 1, extent) if entry[0] == "slice" and operand_axis == axis else entry)
            operand_axis += entry[0] != "new"
        return node("index", (part,), tuple(key), n.type)

    # -- pieces

    def part(self, array_axis: ArrayAxis, p: int) -> Node | None:
        """One piece of an array along an axis; None if something needs the whole axis."""
        return resolve(self.parts_of[p], array_axis, lambda at: self._needs(at, p), lambda at: self._make(at, p))

    def _needs(self, array_axis: ArrayAxis, p: int) -> list[ArrayAxis]:
        n, axis = array_axis
        if n.type.shape[axis] == 1 or self._holds(array_axis, p) is not None:
            return []
        if n.op == "where" and (known := self._branch(n, axis, p)) is not None:
            return _below(known, n, axis)
        if n.op in OPS or n.op in ELEMENTWISE:
            return [at for a in n.args for at in _below(a, n, axis)]
        if n.op == "gather" and self._gathered(n, axis) is not None:
            return []
        inner = _inner(n, axis)
        return [] if inner is None else [(n.args[0], inner)]

    def _make(self, array_axis: ArrayAxis, p: int) -> Node | None:
        n, axis = array_axis
        if n.type.shape[axis] == 1:
            return n
        known = self._holds(array_axis, p)
        if known is not None:
            return constant(known, BOOL)
        shape = tuple(self.cut.extents[p] if k == axis else d for k, d in enumerate(n.type.shape))
        type = Type(n.type.dtype, shape, n.type.weak)
        if n.op == "where" and (branch := self._branch(n, axis, p)) is not None:
            sliced = self._of(branch, n, axis, p)
            return None if sliced is None else node("broadcast", (sliced,), None, type)
        if n.op in OPS or n.op in ELEMENTWISE:
            args = [self._of(a, n, axis, p) for a in n.args]
            return None if None in args else node(n.op, tuple(args), n.attr, type)  # type: ignore[arg-type]
        return self._leaf(n, axis, p, type)

    def _leaf(self, n: Node, axis: int, p: int, type: Type) -> Node | None:
        """Piece of a node that is not elementwise."""
        begin, extent = self.cut.begins[p], self.cut.extents[p]
        if n.op == "gather":
            gathered = self._gathered(n, axis)
            matches = gathered is not None and self.same(gathered, begin)
            return node("broadcast", n.args[:1], None, type) if matches else None
        if n.op == "iota":
            first = constant(begin, type.dtype, type.weak) if isinstance(begin, int) else None
            first = first or node("size", (), begin, Type(type.dtype, (), type.weak))
            return node("add", (node("iota", (), None, type), first), None, type)
        if n.op == "param":
            key: list[tuple] = [("slice", 0, 1, d) for d in n.type.shape]
            key[axis] = ("slice", begin, 1, extent)
            return node("index", (n,), tuple(key), type)
        inner = _inner(n, axis)
        x = None if inner is None else self.parts_of[p][n.args[0], inner]
        if x is None or inner is None:
            return None
        if n.op == "index":
            position = [k for k, entry in enumerate(n.attr) if entry[0] != "new"][inner]
            return node("index", (x,), (*n.attr[:position], ("slice", 0, 1, extent), *n.attr[position + 1 :]), type)
        return node(n.op, (x,), n.attr, type)

    def _of(self, a: Node, n: Node, axis: int, p: int) -> Node | None:
        """Piece of an operand that broadcasts to n."""
        k = axis - n.type.rank + a.type.rank
        return a if k < 0 else self.parts_of[p][a, k]

    def _gathered(self, n: Node, axis: int) -> Dim | None:
        """Offset at which a gather places an array that is one of the pieces, or None."""
        mode, entries = n.attr
        at = [k for k, (kind, _) in enumerate(entries) if kind == "at"]
        plain = all(kind == "at" or number == k for k, (kind, number) in enumerate(entries))
        return begin_of(n.args[1]) if mode == GUARDED and at == [axis] and plain else None

    # -- conditions

    def _branch(self, n: Node, axis: int, p: int) -> Node | None:
        """The branch of a select that holds for a whole piece, or None."""
        condition = n.args[0]
        k = axis - n.type.rank + condition.type.rank
        known = None if k < 0 else self._holds((condition, k), p)
        return None if known is None else n.args[1 if known else 2]

    def _holds(self, array_axis: ArrayAxis, p: int) -> bool | None:
        """Value of a condition of the index alone on a whole piece; None if it is not constant."""
        n, axis = array_axis
        while n.op in ("index", "convert", "broadcast"):
            inner = axis - n.type.rank + n.args[0].type.rank if n.op != "index" else _inner(n, axis)
            if inner is None or inner < 0:
                return None
            n, axis = n.args[0], inner
        if n.type.dtype is not BOOL or n.type.shape[axis] != self.cut.extent:
            return None
        if n.op in ("logical_and", "logical_or") and all(a.type.rank == n.type.rank for a in n.args):
            first, second = (self._holds((a, axis), p) for a in n.args)
            if None in (first, second):
                return None
            return bool(first and second) if n.op == "logical_and" else bool(first or second)
        if n.op not in ("less", "greater_equal"):
            return None
        begin, bound = begin_of(n.args[0]), _extent_of(n.args[1])
        if begin is None or bound is None:
            return None
        limit = expression("+", bound, begin)
        ends = [*self.cut.begins, self.cut.extent]
        place_of_limit = next((k for k, end in enumerate(ends) if self.same(end, limit)), None)
        if place_of_limit is None:
            return None
        return (p < place_of_limit) == (n.op == "less")


def _extent_of(n: Node) -> Dim | None:
    """The extent that a scalar stands for, or None."""
    while n.op in ("convert", "broadcast"):
        (n,) = n.args
    if n.op == "size":
        return n.attr
    return int(value_of(n)) if n.op == "const" else None


def _below(a: Node, n: Node, axis: int) -> list[ArrayAxis]:
    """The axis of an operand that an axis of n is broadcast from."""
    k = axis - n.type.rank + a.type.rank
    return [] if k < 0 else [(a, k)]


def _inner(n: Node, axis: int) -> int | None:
    """The axis of a view's or reduction's operand that one of its axes covers entirely, or None."""
    if n.op == "transpose":
        return n.attr[axis]
    if n.op == "reduce":
        return None if axis in n.attr[1] else axis
    return below_index(n, axis) if n.op == "index" else None
