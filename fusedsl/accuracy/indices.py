"""Out-of-range indices: whether a result depends on an element that is out of range, or a condition excludes it.

A graph of its own says so, which targets compile as any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from ..errors import ShapeError
from ..ir import contraction, shapes
from ..ir.builder import GraphBuilder
from ..ir.contraction import Subscripts
from ..ir.dims import Dim, Extents, Symbol, evaluate, product
from ..ir.gathers import CHECKED
from ..ir.graph import Graph, Node, Type, node, walk
from ..ir.interp import extents_of, interpret
from ..ir.ops import OPS, VIEWS
from ..ir.types import BOOL, INT32


def checked_gathers(graph: Graph) -> list[Node]:
    """Gathers and scatters whose indices may be out of range."""
    modes = ((n, n.attr[n.op == "scatter"]) for n in graph.nodes() if n.op in ("gather", "scatter"))
    return [n for n, mode in modes if mode == CHECKED]


def dependence(
    graph: Graph, gathers: Sequence[Node], extents: Mapping[Symbol, int]
) -> tuple[Graph, Mapping[Dim, bool]]:
    """The graph of one bool, whether a result depends on what one of these gathers reads out of range; its guards."""
    b = GraphBuilder(graph.parameters, extents)
    b.checks += graph.checks
    missing = _Missing(b, frozenset(gathers))
    for n in graph.nodes():
        missing.visit(n)
    result = b.literal(False)
    for r in graph.results:
        part = missing.conditions.get(r)
        result = (
            result if part is None else b.elementwise("logical_or", result, missing.any_along(r, range(r.type.rank)))
        )
    return b.finish([shapes.reshape(b, result, ())]), b.guards


def require_indices_in_range(graph: Graph, arguments: Sequence) -> None:
    """ShapeError, which is an IndexError, where a result depends on what an index out of range reads."""
    extents = extents_of(arguments)
    for n in checked_gathers(graph):
        (depends,) = interpret(dependence(graph, [n], extents)[0], arguments)
        if depends and n.op == "scatter":
            message = "an index is out of range for the array that is written to"
            raise ShapeError(message, "shape.index", help="indices of an axis of n run from -n to n - 1")
        if depends:
            raise fault(*_first_outside(n, graph, arguments, extents))


def fault(position: int | None, extent: int) -> ShapeError:
    """The error for an index that is out of range; None if it is unknown."""
    what = "an index" if position is None else f"index {position}"
    help = f"indices run from {-extent} to {extent - 1}"
    return ShapeError(f"{what} is out of range for an axis of {extent}", "shape.index", help=help)


def _first_outside(n: Node, graph: Graph, arguments: Sequence, extents: Extents) -> tuple[int, int]:
    """The first index of a gather that is out of range, and the extent of its axis."""
    for at, d in _axes(n):
        (positions,), extent = interpret(Graph(graph.parameters, (at,)), arguments), evaluate(d, extents)
        outside = positions[(positions < -extent) | (positions >= extent)]
        if outside.size:
            return int(outside[0]), extent
    raise AssertionError(f"every position is in range: {n!r}")


def _axes(n: Node):
    """(index array, extent) of each axis that a gather indexes."""
    x, *arrays = n.args
    return zip(arrays, [d for d, (kind, _) in zip(x.type.shape, n.attr[1]) if kind == "at"])


class _Missing:
    """For each node, bools that tell which elements depend on an out-of-range read; nodes without any have no entry.

    The bools broadcast to the node's shape.
    """

    def __init__(self, b: GraphBuilder, sources: frozenset[Node]):
        self.b = b
        self.sources = sources
        self.conditions: dict[Node, Node] = {}

    def visit(self, n: Node) -> None:
        """Compute the entry of a node, after those of its arguments."""
        conditions = [self._of_node(n)] if any(a in self.conditions for a in n.args) else []
        conditions += [self._beyond(n)] if n in self.sources else []
        if (condition := self._either(*conditions)) is not None:
            self.conditions[n] = condition

    def _either(self, *sides: Node | None) -> Node | None:
        conditions = [side for side in sides if side is not None]
        return reduce(lambda x, y: self.b.elementwise("logical_or", x, y), conditions) if conditions else None

    def _beyond(self, n: Node) -> Node | None:
        """Elements that a gather reads, or that a scatter writes, out of range: of a scatter, all or none."""
        b, sides = self.b, list[Node]()
        if n.op == "scatter":
            return shapes.reduce(b, "any", b.elementwise("less", n.args[1], b.literal(0)))
        for at, d in _axes(n):
            extent = b.extent(d)
            sides.append(b.elementwise("less", at, b.elementwise("negative", extent)))
            sides.append(b.elementwise("greater_equal", at, extent))
        return self._either(*sides)

    def _of_node(self, n: Node) -> Node | None:
        sides = [self.conditions.get(a) for a in n.args]
        if n.op == "where":
            return self._of_select(n.args[0], sides)
        if n.op in ("logical_and", "logical_or", "bitwise_and", "bitwise_or") and n.type.dtype is BOOL:
            return self._of_logic(n, sides)
        if n.op in OPS or n.op in ("convert", "cast"):
            return self._either(*sides)
        if n.op in VIEWS:
            return node(n.op, (self.in_full_shape(n.args[0]),), n.attr, Type(BOOL, n.type.shape))
        match n.op:
            case "reduce":
                return self.any_along(n.args[0], n.attr[1])
            case "sorted":
                return self.any_along(n.args[0], (n.type.rank - 1,))
            case "scan":
                fault = self._either(*(None if s is None else self.in_full_shape(a) for a, s in zip(n.args, sides)))
                assert fault is not None
                line = self.b.cast(fault, INT32)
                return self.b.truth(node("scan", (line,), ("max", *n.attr[1:]), line.type))
            case "scatter":
                parts = [None if s is None else shapes.reduce(self.b, "any", s) for s in sides[1:]]
                return self._either(sides[0], *parts)
            case "contract":
                return self._of_products(n, sides)
            case "gather":
                return self._read(n, sides)
        raise AssertionError(f"no rule for {n!r}")

    def _of_select(self, condition: Node, sides: Sequence[Node | None]) -> Node | None:
        of_condition, *picked = sides
        if picked == [None, None]:
            return of_condition
        yes, no = (self.b.literal(False) if side is None else side for side in picked)
        return self._either(of_condition, self.b.elementwise("where", condition, yes, no))

    def _of_logic(self, n: Node, sides: Sequence[Node | None]) -> Node | None:
        """An in-range True decides `or`, an in-range False decides `and`: the other operand does not matter."""
        b, conditions = self.b, list[Node]()
        for missing, other, value in zip(sides, reversed(sides), reversed(n.args)):
            if missing is not None:
                unsettled = b.elementwise("logical_not", value) if n.op.endswith("or") else value
                unsettled = unsettled if other is None else b.elementwise("logical_or", unsettled, other)
                conditions.append(b.elementwise("logical_and", missing, unsettled))
        return self._either(*conditions)

    def _of_products(self, n: Node, sides: Sequence[Node | None]) -> Node | None:
        """Elements multiplied by a 0 of a mask do not matter."""
        b, letters, conditions = self.b, Subscripts.parse(n.attr), list[Node]()
        for k, side in enumerate(sides):
            if side is not None:
                x, other = n.args[k], n.args[1 - k]
                met = _ones(b, other.type.rank) if _is_plain(other) else b.truth(other)
                given = (self.in_full_shape(x), met) if k == 0 else (met, self.in_full_shape(x))
                conditions.append(contraction.contract(b, *given, letters, "matmul"))
        return self._either(*conditions)

    def _read(self, n: Node, sides: Sequence[Node | None]) -> Node | None:
        x, *arrays = n.args
        read = None
        if sides[0] is not None:
            read = node("gather", (self.in_full_shape(x), *arrays), n.attr, Type(BOOL, n.type.shape))
        return self._either(read, *sides[1:])

    def in_full_shape(self, n: Node) -> Node:
        """A node's bools, broadcast to its shape."""
        return shapes.broadcast_to(self.b, self.conditions[n], n.type.shape)

    def any_along(self, n: Node, axes: Sequence[int]) -> Node:
        """Whether any bool holds along some axes, which remain with extent 1."""
        b, condition = self.b, self.conditions[n]
        lacking = n.type.rank - condition.type.rank
        condition = shapes.expand_dims(b, condition, list(range(lacking))) if lacking else condition
        along = [a for a in axes if not b.is_unit(condition.type.shape[a])]
        implied = [n.type.shape[a] for a in axes if a not in along]
        result = shapes.reduce(b, "any", condition, along, keepdims=True) if along else condition
        if all(b.is_unit(d) for d in implied):
            return result
        return b.elementwise("logical_and", result, b.elementwise("greater", b.extent(product(implied)), b.literal(0)))


def _ones(b: GraphBuilder, rank: int) -> Node:
    return shapes.expand_dims(b, b.literal(True), list(range(rank))) if rank else b.literal(True)


def _is_plain(n: Node) -> bool:
    """Whether a 0 of a value is a number, not a mask that excludes what it multiplies."""
    return all(m.op != "where" for m in walk([n]))
