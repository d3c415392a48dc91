"""Lowers a graph of arrays to scalar expressions over named axes: views become coordinates, reductions become folds.

After lowering, every node is a scalar. `load` reads one element of a source at coordinates, `position` is the index on
an axis, `fold` reduces its argument over its column axes, `scan` folds what is up to its place on one; the rest are the
operations of the table. Axes are bound variables: two reductions over the same extents of the same rows meet on the
same axes, which is what lets them fuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import Unsupported
from ..ir.dims import Dim, expression
from ..ir.folds import FOLDS
from ..ir.graph import Graph, Node, Type, constant, node, rebuild, walk
from ..ir.ops import OPS
from ..ir.types import INT64


@dataclass(frozen=True)
class Axis:
    """A loop variable from 0 to `extent`; `tag` tells apart several of one extent."""

    extent: Dim
    tag: int = 0

    def __str__(self) -> str:
        return f"{self.extent}{chr(39) * self.tag}"


@dataclass(frozen=True)
class Coordinate:
    """The position along one axis of a source: start + step * axis."""

    start: Dim = 0
    step: int = 1
    axis: Axis | None = None


@dataclass(frozen=True)
class Source:
    """An array that a kernel reads: argument or temporary `index`, seen through host-side reshapes (`views`)."""

    kind: str  # "argument" | "temporary"
    index: int
    views: tuple = ()


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


@dataclass(frozen=True)
class Lowered:
    """The scalar program: what to store where, and the array nodes that had to be cut into temporaries."""

    roots: tuple[Root, ...]
    temporaries: tuple[Type, ...]


Coordinates = tuple[Coordinate, ...]


def lower(graph: Graph) -> Lowered:
    """The scalar program of a graph."""
    results = push_reshapes(graph.results)
    peeled = [_peel(r) for r in results]
    cut = [n.args[0] for n in walk(peeled) if n.op == "reshape" and _reshaped_argument(n) is None]
    while True:
        temporaries = {n: k for k, n in enumerate(dict.fromkeys(cut))}
        lowering = _Lowering(temporaries)
        try:
            roots = [_root(lowering, "temporary", k, n, n) for n, k in temporaries.items()]
            roots += [_root(lowering, "result", k, r, p) for k, (r, p) in enumerate(zip(results, peeled))]
        except Scattered as scattered:
            cut.append(scattered.node)
            continue
        return Lowered(tuple(roots), tuple(n.type for n in temporaries))


class Scattered(Exception):
    """A scan is read at other places than its own: it has to stand in memory."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.node = node


def _peel(result: Node) -> Node:
    """What to compute for a result: a reshape at the end is undone by viewing the result."""
    return result.args[0] if result.op == "reshape" and _reshaped_argument(result) is None else result


def _root(lowering: _Lowering, kind: str, index: int, stored: Node, computed: Node) -> Root:
    axes: list[Axis | None] = []
    for d in computed.type.shape:
        axes.append(None if d == 1 else fresh(d, axes))
    coordinates = tuple(Coordinate(0, 1, a) for a in axes)
    value = lowering.lower(computed, coordinates, cut=False)
    return Root(kind, index, stored.type.shape, computed.type.shape, tuple(axes), value, stored.type)


def fresh(extent: Dim, used: Iterable[Axis | None]) -> Axis:
    """The first axis of this extent that is not in use."""
    tags = {a.tag for a in used if a is not None and a.extent == extent}
    return Axis(extent, next(t for t in range(len(tags) + 1) if t not in tags))


# -- reshapes


def push_reshapes(results: tuple[Node, ...]) -> list[Node]:
    """Move each reshape below the elementwise operations whose operands all have the full shape."""

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op != "reshape":
            return node(old.op, args, old.attr, old.type) if args != old.args else old
        return _reshaped(args[0], old.type.shape)

    new = rebuild(results, change)
    return [new[r] for r in results]


def _reshaped(x: Node, shape: tuple[Dim, ...]) -> Node:
    """`reshape(x, shape)` with the reshape as deep as it goes."""
    pushed: dict[Node, Node] = {}
    region = _region(x)
    for n in region:
        if n.op == "reshape":
            pushed[n] = node("reshape", n.args, None, Type(n.type.dtype, shape, n.type.weak))
        elif not _pushable(n):
            plain = n.type.shape == () or n.type.shape == shape
            pushed[n] = n if plain else node("reshape", (n,), None, Type(n.type.dtype, shape, n.type.weak))
        else:
            pushed[n] = node(n.op, tuple(pushed[a] for a in n.args), n.attr, Type(n.type.dtype, shape, n.type.weak))
    return pushed[x]


def _pushable(n: Node) -> bool:
    if n.op not in OPS and n.op not in ("convert", "cast"):
        return False
    return all(a.type.shape in ((), n.type.shape) for a in n.args) and n.type.shape != ()


def _region(x: Node) -> list[Node]:
    """The elementwise nodes above which a reshape of x can move, arguments first."""
    order: list[Node] = []
    seen: set[Node] = set()
    stack = [(x, False)]
    while stack:
        n, done = stack.pop()
        if done:
            order.append(n)
        elif n not in seen:
            seen.add(n)
            stack.append((n, True))
            if _pushable(n):
                stack.extend((a, False) for a in n.args)
    return order


def _reshaped_argument(n: Node) -> tuple[int, tuple] | None:
    """(argument index, views) where `n` is an argument reshaped, which a packed argument can always be; else None."""
    x = n.args[0]
    return (x.attr, (("reshape", n.type.shape),)) if x.op == "param" else None


# -- coordinates

Key = tuple[Node, Coordinates]


class _Lowering:
    """Turns (node, coordinates) into scalar nodes, each once."""

    def __init__(self, temporaries: dict[Node, int]):
        self.temporaries = temporaries
        self.done: dict[Key, Node] = {}

    def lower(self, n: Node, at: Coordinates, cut: bool = True) -> Node:
        """The scalar for element `at` of `n`; `cut=False` computes `n` itself even if it is a temporary."""
        root = (n, at)
        loaded = None if cut else self.done.pop(root, None)  # where another root reads this one
        stack: list[tuple[Key, bool]] = [(root, False)]
        while stack:
            key, ready = stack.pop()
            if key in self.done:
                continue
            leaf = self._leaf(*key) if cut or key != root else self._plain_leaf(*key)
            if leaf is not None:
                self.done[key] = leaf
                continue
            needs = self._needs(*key)
            if ready:
                self.done[key] = self._make(*key, tuple(self.done[k] for k in needs))
            else:
                stack.append((key, True))
                stack.extend((k, False) for k in needs)
        result = self.done[root]
        if not cut:
            del self.done[root]
            if loaded is not None:
                self.done[root] = loaded
        return result

    def _leaf(self, n: Node, at: Coordinates) -> Node | None:
        if n in self.temporaries:
            return _load(Source("temporary", self.temporaries[n]), n, at)
        return self._plain_leaf(n, at)

    def _plain_leaf(self, n: Node, at: Coordinates) -> Node | None:
        if n.op == "param":
            return _load(Source("argument", n.attr), n, at)
        if n.op in ("const", "scalar", "size"):
            return n
        if n.op == "iota":
            return _position(at[0])
        if n.op == "reshape":
            chain = _reshaped_argument(n)
            if chain is not None:
                return _load(Source("argument", *chain), n, at)
            views = (("reshape", n.type.shape),)
            return _load(Source("temporary", self.temporaries[n.args[0]], views), n, at)
        return None

    def _needs(self, n: Node, at: Coordinates) -> list[Key]:
        """The elements that element `at` of `n` is computed from."""
        if n.op == "index":
            return [(n.args[0], _through_index(n, at))]
        if n.op == "transpose":
            inverse = {axis: place for place, axis in enumerate(n.attr)}
            return [(n.args[0], tuple(at[inverse[a]] for a in range(len(at))))]
        if n.op == "ranked":
            raise Unsupported("sort, argsort and topk are not there yet", code="unsupported.function")
        if n.op == "reduce":
            return [(n.args[0], _reduced_coordinates(n, at)[0])]
        return [(a, _aligned(a.type.shape, at)) for a in n.args]

    def _make(self, n: Node, at: Coordinates, args: tuple[Node, ...]) -> Node:
        if n.op in ("index", "transpose", "broadcast"):
            return args[0]
        if n.op == "reduce":
            return _fold(n, _reduced_coordinates(n, at)[1], args[0])
        if n.op == "scan":
            return _scan(n, at, args[0])
        return node(n.op, args, n.attr, Type(n.type.dtype))


def _load(source: Source, n: Node, at: Coordinates) -> Node:
    return node("load", (), (source, at), Type(n.type.dtype))


def _position(at: Coordinate) -> Node:
    """start + step * axis, as an int64."""
    if at.axis is None:
        return _int64(at.start)
    value = node("position", (), at.axis, Type(INT64))
    if at.step != 1:
        value = node("multiply", (value, _int64(at.step)), None, Type(INT64))
    if at.start != 0:
        value = node("add", (value, _int64(at.start)), None, Type(INT64))
    return value


def _int64(d: Dim) -> Node:
    return constant(d, INT64) if isinstance(d, int) else node("size", (), d, Type(INT64))


def _aligned(shape: tuple[Dim, ...], at: Coordinates) -> Coordinates:
    """Coordinates of a broadcast operand: the trailing ones, position 0 where its extent is 1."""
    trailing = at[len(at) - len(shape) :]
    return tuple(Coordinate(0, 1, None) if d == 1 else c for d, c in zip(shape, trailing))


def _through_index(n: Node, at: Coordinates) -> Coordinates:
    """Coordinates in the array below a basic index."""
    outer = iter(at)
    inner = []
    for entry in n.attr:
        if entry[0] == "new":
            next(outer)
        elif entry[0] == "int":
            inner.append(Coordinate(entry[1], 1, None))
        else:
            _, start, step, _ = entry
            c = next(outer)
            moved = c.start * step if isinstance(c.start, int) else expression("*", c.start, step)
            inner.append(Coordinate(expression("+", start, moved), c.step * step, c.axis))
    return tuple(inner)


def _reduced_coordinates(n: Node, at: Coordinates) -> tuple[Coordinates, tuple[Axis, ...]]:
    """Coordinates of the reduced operand, and the axes that the fold runs over."""
    (x,) = n.args
    _, axes = n.attr
    used: list[Axis | None] = [c.axis for k, c in enumerate(at) if k not in axes]
    columns: list[Axis] = []
    inner = []
    for k, d in enumerate(x.type.shape):
        if k not in axes:
            inner.append(at[k])
        elif d == 1:
            inner.append(Coordinate(0, 1, None))
        else:
            column = fresh(d, used)
            used.append(column)
            columns.append(column)
            inner.append(Coordinate(0, 1, column))
    return tuple(inner), tuple(columns)


def _scan(n: Node, at: Coordinates, x: Node) -> Node:
    """The fold of what is up to its place on an axis: from the axis' other end, where the axis runs backwards."""
    name, place = n.attr
    extent, c = n.type.shape[place], at[place]
    if extent == 1:
        return x
    last = expression("-", extent, 1)
    forward = (c.start, c.step) == (0, 1)
    whole = c.axis is not None and c.axis.extent == extent
    if c.axis is None or not (forward or ((c.start, c.step) == (last, -1) and whole)):
        raise Scattered(n)
    return node("scan", (x,), (name, c.axis, not forward), Type(n.type.dtype))


def _fold(n: Node, columns: tuple[Axis, ...], x: Node) -> Node:
    name, _ = n.attr
    if not columns:  # one element: nothing to merge
        return constant(0, INT64) if FOLDS[name].positional else x
    return node("fold", (x,), (name, columns), Type(n.type.dtype))
