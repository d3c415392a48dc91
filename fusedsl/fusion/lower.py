"""Lowers a graph of arrays to scalar expressions over named axes: views become coordinates, reductions become folds.

After lowering, every node is a scalar. `load` reads one element of a source at coordinates, `fetch` at an address that
is computed, `position` is the index on an axis, `fold` reduces its argument over its column axes, `scan` folds what is
up to its place on one, `select` orders what is along one and `ranked` is a place in that order; the rest are the
operations of the table. Axes are bound variables: two reductions over the same extents of the same rows meet on the
same axes, which is what lets them fuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..ir.dims import Dim, expression
from ..ir.folds import FOLDS, scalar
from ..ir.graph import Graph, Node, Type, constant, node, value_of, walk
from ..ir.ops import OPS, VIEWS
from ..ir.types import INT64, DType
from .coordinates import (
    Axis,
    Computed,
    Coordinate,
    Coordinates,
    aligned,
    all_of,
    between,
    divides_by_literals,
    is_literal,
    position_of,
    through_gather,
    through_index,
    through_reshape,
)
from .joined import part_joined
from .pieces import Pieces, Same, before, fetches, find_pieces, settled
from .products import spread
from .reshapes import push_reshapes, refine, reshaped_argument
from .splits import split_axes


@dataclass(frozen=True)
class Source:
    """An array that a kernel reads: argument or temporary `index`, seen through host-side `views`, each ("reshape",
    shape) or ("index", key)."""

    kind: str  # "argument" | "temporary"
    index: int
    views: tuple = ()
    rounded: bool = False  # a temporary whose elements were rounded to their dtype

    def holds(self, d: DType) -> DType:
        """What memory holds for elements of this dtype: of a temporary, what they are computed in."""
        return d.compute if self.kind == "temporary" and not self.rounded else d


@dataclass(frozen=True)
class Root:
    """A value to store: into result or temporary `index`, whose axes are `axes` (None for an extent of 1)."""

    kind: str  # "result" | "temporary"
    index: int
    shape: tuple[Dim, ...]  # of the array that is stored to
    viewed: tuple[Dim, ...]  # the shape that the store sees (a reshaped result is stored before its reshape)
    axes: tuple[Axis | None, ...]
    value: Node
    type: Type
    starts: tuple[Dim, ...] = ()  # where along each axis the store begins, if not at 0
    rounded: bool = False  # to a temporary that holds `type`, and not what its elements are computed in

    @property
    def held(self) -> DType:
        """What memory holds."""
        return self.type.dtype.compute if self.kind == "temporary" and not self.rounded else self.type.dtype


@dataclass(frozen=True)
class Lowered:
    """The scalar program: what to store where, and the array nodes that had to be cut into temporaries."""

    roots: tuple[Root, ...]
    temporaries: tuple[Type, ...]


def lower(graph: Graph, same: Same = lambda a, b: a == b) -> Lowered:
    """The scalar program of a graph; `same` answers for this plan whether two extents are equal."""
    results = push_reshapes(tuple(split_axes(part_joined(spread(graph.results), same), same)))
    peeled = refine([_peel(r) for r in results])
    whole = _lowered(results, peeled)
    pieces = find_pieces(peeled, same) if fetches(r.value for r in whole.roots) and not whole.temporaries else None
    if pieces is None:
        return whole
    found = _lowered(results, peeled, pieces)
    return whole if found.temporaries or fetches(r.value for r in found.roots) else found


def _lowered(results: list[Node], peeled: list[Node], pieces: Pieces | None = None) -> Lowered:
    cut = dict.fromkeys(n.args[0] for n in walk(peeled) if n.op == "reshape" and _is_cut(n))
    scattered: dict[Node, None] = {}
    while True:
        temporaries = {n: k for k, n in enumerate({**cut, **scattered})}
        lowering = _Lowering(temporaries, frozenset(cut), pieces)
        try:
            roots = [r for n, k in temporaries.items() for r in _roots(lowering, "temporary", k, n, n)]
            for k, (r, p) in enumerate(zip(results, peeled)):
                roots += _roots(lowering, "result", k, r, p)
        except Scattered as found:
            cut[found.node] = None
            continue
        if not lowering.scattered:
            return Lowered(tuple(roots), tuple(n.type for n in temporaries))
        scattered |= lowering.scattered


def _is_cut(n: Node) -> bool:
    """Whether a reshape needs its operand in memory: to divide positions by run-time extents costs more, unless much
    of the operand is repeated."""
    if reshaped_argument(n) is not None or divides_by_literals(n.args[0].type.shape, n.type.shape):
        return False
    return n.args[0].op != "broadcast"


class Scattered(Exception):
    """A scan is read at other places than its own, or a value at too many: it has to stand in memory."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.node = node


def _peel(result: Node) -> Node:
    """What to compute for a result: a reshape at the end is undone by viewing the result."""
    return result.args[0] if result.op == "reshape" and reshaped_argument(result) is None else result


def _roots(lowering: _Lowering, kind: str, index: int, stored: Node, computed: Node) -> list[Root]:
    """A root, or one for each piece of its axis that is cut."""
    axes: list[Axis | None] = []
    cut, pieces = None, lowering.pieces
    for k, d in enumerate(computed.type.shape):
        if pieces is not None and d == pieces.extent:
            d, cut = pieces.piece, k
        axes.append(None if d == 1 else fresh(d, axes))
    roots = []
    for start in pieces.starts if pieces is not None and cut is not None else (0,):
        starts = tuple(start if k == cut else 0 for k in range(len(axes)))
        coordinates = tuple(Coordinate(s, 1, a) for s, a in zip(starts, axes))
        value = lowering.lower(computed, coordinates, cut=False)
        made = (kind, index, stored.type.shape, computed.type.shape, tuple(axes), value, stored.type)
        roots.append(Root(*made, starts if start != 0 else ()))
    return roots


def fresh(extent: Dim, used: Iterable[Axis | None]) -> Axis:
    """The first axis of this extent that is not in use."""
    tags = {a.tag for a in used if a is not None and a.extent == extent}
    return Axis(extent, next(t for t in range(len(tags) + 1) if t not in tags))


# -- coordinates

Key = tuple[Node, Coordinates]
MOST_PLACES = (
    128  # of one value that are computed where they are read: what doubles again and again is stored in between
)
MOST_FOLDS = 16  # … of one reduction: each is a loop of its own, which takes long to compile
ANYWHERE = ("convert", "cast", "gather", *VIEWS)  # beside elementwise operations: their elements cost as much anywhere


class _Lowering:
    """Turns (node, coordinates) into scalar nodes, each once."""

    def __init__(self, temporaries: dict[Node, int], cut: frozenset[Node], pieces: Pieces | None = None):
        self.temporaries = temporaries
        self.pieces = pieces
        self.cut = cut  # those that are read from memory wherever they are needed, not only at computed positions
        self.done: dict[Key, Node] = {}
        self.places: Counter[Node] = Counter()  # at which each node is computed
        self.scattered: dict[Node, None] = {}  # what is read at computed positions, and worth computing once

    def lower(self, n: Node, at: Coordinates, cut: bool = True) -> Node:
        """The scalar for element `at` of `n`; `cut=False` computes `n` itself even if it is a temporary."""
        root = (n, at)
        loaded = None if cut else self.done.pop(root, None)  # where another root reads this one
        stack: list[Key] = [root]
        while stack:
            key = stack.pop()
            if key in self.done:
                continue
            leaf = self._leaf(*key) if cut or key != root else self._plain_leaf(*key)
            if leaf is not None:
                self.done[key] = leaf
                continue
            needs = self._needs(*key)
            missing = [k for k in needs if k not in self.done]
            if missing:
                stack += [key, *missing]
            else:
                self.done[key] = self._make(*key, tuple(self.done[k] for k in needs))
                self._count(key[0])
        result = self.done[root]
        if not cut:
            del self.done[root]
            if loaded is not None:
                self.done[root] = loaded
        return result

    def _count(self, n: Node) -> None:
        """Raise Scattered for what is computed at yet another place, if it is computed from arrays."""
        self.places[n] += 1
        most = MOST_FOLDS if n.op == "reduce" else MOST_PLACES
        if self.places[n] > most and (n.op in OPS or n.op == "reduce"):
            if n not in self.cut and any(a.op == "param" for a in walk([n])):
                raise Scattered(n)
            self.places[n] = 0

    def _leaf(self, n: Node, at: Coordinates) -> Node | None:
        if n in self.temporaries and (n in self.cut or any(isinstance(c, Computed) for c in at)):
            return _load(Source("temporary", self.temporaries[n]), n, at)
        return self._plain_leaf(n, at)

    def _plain_leaf(self, n: Node, at: Coordinates) -> Node | None:
        if n.op == "param":
            return _load(Source("argument", n.attr), n, at)
        if n.op in ("const", "scalar", "size"):
            return n
        if n.op == "iota":
            return position_of(at[0])
        if n.op == "reshape":
            chain = reshaped_argument(n)
            if chain is not None:
                return _load(Source("argument", *chain), n, at)
            if n.args[0] in self.temporaries:
                views = (("reshape", n.type.shape),)
                return _load(Source("temporary", self.temporaries[n.args[0]], views), n, at)
        if n.op not in ANYWHERE and n.op not in OPS and any(isinstance(c, Computed) for c in at):
            self.scattered[n] = None
            return constant(0, n.type.dtype)  # this lowering will be done anew
        return None

    def _needs(self, n: Node, at: Coordinates) -> list[Key]:
        """The elements that element `at` of `n` is computed from."""
        if n.op == "index":
            return [(n.args[0], self._placed(through_index(n, at)))]
        if n.op == "transpose":
            inverse = {axis: place for place, axis in enumerate(n.attr)}
            return [(n.args[0], tuple(at[inverse[a]] for a in range(len(at))))]
        if n.op == "ranked":
            return [(n.args[0], _ranked_coordinates(n, at))]
        if n.op == "reduce":
            return [(n.args[0], inner) for inner in _reduced_coordinates(n, at, self.pieces)[0]]
        if n.op == "reshape":
            return [(n.args[0], through_reshape(n, at))]
        if n.op == "gather":
            x, *arrays = n.args
            keys = [(i, aligned(i.type.shape, at)) for i in arrays]
            if any(k not in self.done for k in keys):
                return keys
            return [(x, through_gather(n, at, [self.done[k] for k in keys], self._settled)[0]), *keys]
        if n.op == "where" and self.pieces is not None:
            keys = [(a, aligned(a.type.shape, at)) for a in n.args]
            condition = self.done.get(keys[0])
            if condition is None:
                return keys[:1]
            if condition.op == "const":
                return [keys[0], keys[1 if value_of(condition) else 2]]
        return [(a, aligned(a.type.shape, at)) for a in n.args]

    def _make(self, n: Node, at: Coordinates, args: tuple[Node, ...]) -> Node:
        if n.op in ("index", "transpose", "broadcast", "reshape"):
            return args[0]
        if n.op == "gather":
            there = through_gather(n, at, args[1:], self._settled)[1]
            return args[0] if there is None else scalar("where", there, args[0], _missing(n))
        if n.op == "reduce":
            joined = args[0] if self.pieces is None or len(args) == 1 else self.pieces.join(n.attr[0], args)
            return _fold(n, _reduced_coordinates(n, at, self.pieces)[1], joined)
        if n.op == "where" and len(args) == 2:
            return args[1]
        if n.op == "less" and self.pieces is not None:
            known = before(args[0], args[1], self.pieces)
            if known is not None:
                return known
        if n.op == "scan":
            return _scan(n, at, args[0])
        if n.op == "ranked":
            return _ranked(n, at, args[0])
        return node(n.op, args, n.attr, Type(n.type.dtype))

    def _placed(self, at: Coordinates) -> Coordinates:
        """Coordinates that begin where pieces do, under one name, so that one element is one load."""
        if self.pieces is None:
            return at
        return tuple(replace(c, start=self._settled(c.start)) if isinstance(c, Coordinate) else c for c in at)

    def _settled(self, d: Dim) -> Dim:
        """An extent under the name that the pieces of an axis give it."""
        return d if self.pieces is None else settled(d, self.pieces)


def _load(source: Source, n: Node, at: Coordinates) -> Node:
    if any(isinstance(c, Computed) for c in at):
        return _fetch(source, n, at)
    return node("load", (), (source, at), Type(n.type.dtype))


def _fetch(source: Source, n: Node, at: Coordinates) -> Node:
    """The element at an address: 0, and nothing is read, where a position is outside of its axis, be it computed or
    that of an iteration which a tile adds at its end."""
    address, conditions = node("pointer", (), (source,), Type(INT64)), []
    for k, (c, extent) in enumerate(zip(at, n.type.shape)):
        position = position_of(c)
        if not is_literal(position, 0):
            stride = node("stride", (), (source, k), Type(INT64))
            address = scalar("add", address, scalar("multiply", position, stride))
        if isinstance(c, Computed):
            conditions.append(c.inside)
        if not c.sure if isinstance(c, Computed) else c.axis is not None:
            conditions.append(between(position, extent))
    wanted = all_of(conditions)
    assert wanted is not None
    return node("fetch", (address, wanted), (source, at, source.holds(n.type.dtype)), Type(n.type.dtype))


def _missing(n: Node) -> Node:
    """What stands for an element that is not there."""
    return constant(float("nan") if n.type.dtype.kind == "f" else 0, n.type.dtype)


def _reduced_coordinates(n: Node, at: Coordinates, pieces: Pieces | None) -> tuple[list[Coordinates], tuple[Axis, ...]]:
    """Coordinates of the reduced operand, for each piece where its axis is cut, and the axes that a fold runs over."""
    (x,) = n.args
    _, axes = n.attr
    used: list[Axis | None] = [c.axis for k, c in enumerate(at) if k not in axes]
    columns: list[Axis] = []
    inner: list[list] = [[]]
    for k, d in enumerate(x.type.shape):
        places: list = [at[k]]
        if k in axes:
            cut = pieces is not None and d == pieces.extent
            column = None if d == 1 else fresh(pieces.piece if pieces is not None and cut else d, used)
            if column is not None:
                used.append(column)
                columns.append(column)
            places = [Coordinate(start, 1, column) for start in (pieces.starts if pieces is not None and cut else (0,))]
        inner = [[*outer, place] for outer in inner for place in places]
    return [tuple(one) for one in inner], tuple(columns)


def _scan(n: Node, at: Coordinates, x: Node) -> Node:
    """The fold of what is up to its place on an axis: from the axis' other end, where the axis runs backwards."""
    name, place = n.attr
    extent, c = n.type.shape[place], at[place]
    if extent == 1:
        return x
    last = expression("-", extent, 1)
    if isinstance(c, Computed):
        raise Scattered(n)
    forward = (c.start, c.step) == (0, 1)
    whole = c.axis is not None and c.axis.extent == extent
    if c.axis is None or not (forward or ((c.start, c.step) == (last, -1) and whole)):
        raise Scattered(n)
    return node("scan", (x,), (name, c.axis, not forward), Type(n.type.dtype))


def _ranked_coordinates(n: Node, at: Coordinates) -> Coordinates:
    """Coordinates of the elements that are put in order."""
    extent = n.args[0].type.shape[-1]
    column = None if extent == 1 else fresh(extent, [c.axis for c in at])
    return (*at[:-1], Coordinate(0, 1, column))


def _ranked(n: Node, at: Coordinates, x: Node) -> Node:
    """What stands at a place of the order, or along an axis of all places; `select` is the order itself."""
    part, descending = n.attr
    column, c, count = _ranked_coordinates(n, at)[-1].axis, at[-1], n.type.shape[-1]
    if column is None:
        return x if part == "values" else constant(0, INT64)
    if isinstance(c, Computed) or (c.axis is None and not isinstance(c.start, int)):
        raise Scattered(n)
    if c.axis is not None and ((c.start, c.step) != (0, 1) or c.axis.extent != count):
        raise Scattered(n)
    select = node("select", (x,), (descending, column, count), Type(x.type.dtype))
    return node("ranked", (select,), (part, c.start if c.axis is None else c.axis), Type(n.type.dtype))


def _fold(n: Node, columns: tuple[Axis, ...], x: Node) -> Node:
    name, _ = n.attr
    if not columns:  # one element: nothing to merge
        return constant(0, INT64) if FOLDS[name].positional else x
    return node("fold", (x,), (name, columns), Type(n.type.dtype))
