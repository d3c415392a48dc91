"""Whether a result depends on an element whose index is out of range: one that a condition leaves out is never read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import ShapeError
from ..ir.dims import Extents
from ..ir.gathers import CHECKED
from ..ir.graph import Graph, Node, walk
from ..ir.interp import RULES, extents_of, sums_of_products
from ..ir.ops import OPS
from .ball import Ball

Touched = np.ndarray  # of bools: which elements depend on one that is not there


def require_indices_in_range(graph: Graph, balls: Mapping[Node, Ball], arguments: Sequence) -> None:
    """ShapeError where a result depends on what an index out of range reads; `balls` are the nodes' values."""
    for n in graph.nodes():
        beyond = positions_beyond(n, balls) if n.op == "gather" and n.attr[0] == CHECKED else []
        outside = [(position, extent) for position, extent in beyond if position.size]
        if outside and _reaches(n, graph, balls, arguments):
            position, extent = outside[0]
            message = f"index {position[0]} is out of range for an axis of {extent}"
            raise ShapeError(message, "shape.index", help=f"indices run from {-extent} to {extent - 1}")


def positions_beyond(n: Node, balls: Mapping[Node, Ball]) -> list[tuple[np.ndarray, int]]:
    """(the positions of a gather that are out of range, the extent) of each axis that is read at positions."""
    x, *arrays = n.args
    extents = [d for d, (kind, _) in zip(balls[x][0].shape, n.attr[1]) if kind == "at"]
    found = [(balls[a][0], extent) for a, extent in zip(arrays, extents)]
    return [(at[(at < -extent) | (at >= extent)], extent) for at, extent in found]


def _reaches(source: Node, graph: Graph, balls: Mapping[Node, Ball], arguments: Sequence) -> bool:
    """Whether a result depends on what one gather reads out of range."""
    extents, touched = extents_of(arguments), dict[Node, Touched]()
    below = {n for n in graph.nodes() if source in walk([n])}
    for n in graph.nodes():
        if n in below:
            made = _missing(n, balls) if n is source else _of_node(n, touched, balls, arguments, extents)
            touched[n] = np.broadcast_to(made, balls[n][0].shape)
    return any(touched[r].any() for r in graph.results if r in touched)


def _missing(n: Node, balls: Mapping[Node, Ball]) -> Touched:
    found = np.zeros(balls[n][0].shape, bool)
    x, *arrays = n.args
    extents = [d for d, (kind, _) in zip(balls[x][0].shape, n.attr[1]) if kind == "at"]
    for a, extent in zip(arrays, extents):
        at = balls[a][0]
        found = found | (at < -extent) | (at >= extent)
    return found


def _of_node(
    n: Node, touched: Mapping[Node, Touched], balls: Mapping[Node, Ball], arguments: Sequence, extents: Extents
) -> Touched:
    sides = [touched.get(a, np.zeros((), bool)) for a in n.args]
    values = [balls[a][0] for a in n.args]
    if n.op == "where":
        return np.asarray(sides[0] | np.where(values[0], *sides[1:]))
    if n.op in ("logical_and", "logical_or", "bitwise_and", "bitwise_or") and n.type.dtype.kind == "b":
        settles = n.op.endswith("or")  # a True settles or, a False and, where it is one of an element that is there
        settled = [~side & (value == settles) for side, value in zip(sides, values)]
        return np.asarray((sides[0] & ~settled[1]) | (sides[1] & ~settled[0]))
    if n.op in OPS or n.op in ("convert", "cast"):
        return np.logical_or.reduce(np.broadcast_arrays(*sides)) if len(sides) > 1 else sides[0]
    whole = [np.broadcast_to(side, value.shape) for side, value in zip(sides, values)]
    match n.op:
        case "reduce":
            return np.asarray(whole[0].any(axis=n.attr[1], keepdims=True))
        case "scan":
            return np.logical_or.accumulate(whole[0], axis=n.attr[1])
        case "ranked":
            return np.asarray(whole[0].any(axis=-1, keepdims=True))
        case "contract":
            counted = [np.ones(v.shape) if _is_plain(a) else (v != 0).astype(float) for a, v in zip(n.args, values)]
            left = sums_of_products(n.attr, whole[0].astype(float), counted[1])
            return left + sums_of_products(n.attr, counted[0], whole[1].astype(float)) > 0
        case "gather":
            read = np.asarray(RULES["gather"](n, [whole[0], *values[1:]], arguments, extents), bool)
            return np.logical_or.reduce(np.broadcast_arrays(read, *sides[1:]))
    return np.asarray(RULES[n.op](n, [whole[0], *values[1:]], arguments, extents), bool)


def _is_plain(n: Node) -> bool:
    """Whether a 0 of it is a number: not that of a mask, which leaves out what it is multiplied by."""
    return all(m.op != "where" for m in walk([n]))
