"""How far rounding takes the results of a graph, by Monte Carlo arithmetic: every operation off by random roundings.

D. S. Parker, B. Pierce and P. R. Eggert, "Monte Carlo arithmetic: how to gamble with floating point and win", Computing
in Science & Engineering 2(4), 2000. Where a chain of products is long, worst cases (bounds.py) say nothing of it: this
says what roundings do to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusedsl.accuracy.ball import UNIT_ROUNDOFF
from fusedsl.ir.graph import Graph, Node
from fusedsl.ir.interp import RULES, extents_of
from fusedsl.ir.ops import OPS
from fusedsl.ir.types import DType

UNIT = 2.0**-30  # of roundings in float64: far above its own, far below what bends a function
SAMPLES, MARGIN = 4, 64.0
SUMS = 4.0  # roundings of a sum, beside that of each of its terms


def deviations(graph: Graph, arguments: Sequence) -> list[float]:
    """For each result, in the largest norm, how far roundings of its dtype may take it."""
    exact = _sample(graph, arguments, None)
    found = np.zeros(len(exact))
    for seed in range(SAMPLES):
        moved = _sample(graph, arguments, np.random.default_rng(seed))
        found = np.maximum(found, [np.abs(a - b).max(initial=0.0) for a, b in zip(moved, exact)])
    return [MARGIN * d * _eps(r.type.dtype) / UNIT for d, r in zip(found, graph.results)]


def _eps(d: DType) -> float:
    return UNIT_ROUNDOFF[d.compute.name] if d.kind == "f" else 0.0


def _sample(graph: Graph, arguments: Sequence, draw: np.random.Generator | None) -> list[np.ndarray]:
    """The results in float64, with random roundings unless there is no source of them."""
    extents, known = extents_of(arguments), {}
    for n in graph.nodes():
        args = [known[a] for a in n.args]
        if n.op in ("contract", "reduce", "scan"):
            args = [_rounded(x, draw, 1.0) for x in args]
        known[n] = _rounded(_value(n, args, arguments, extents), draw, _roundings(n))
    return [np.asarray(known[r], np.float64) for r in graph.results]


def _roundings(n: Node) -> float:
    if n.op in ("contract", "reduce", "scan"):
        return SUMS
    return 1.0 if n.op in OPS else 0.0


def _value(n: Node, args, arguments, extents) -> np.ndarray:
    """A node in float64."""
    if n.op in OPS:
        return np.asarray(OPS[n.op].meaning(*args))
    if n.op in ("cast", "convert") and n.type.dtype.kind == "f":
        return args[0].astype(np.float64)
    if n.op == "contract":
        return np.einsum(n.attr, *args, optimize=True)
    if n.op == "reduce" and n.attr[0] == "sum":
        return np.sum(args[0], axis=n.attr[1], keepdims=True)
    found = np.asarray(RULES[n.op](n, args, arguments, extents))
    return found.astype(np.float64) if n.type.dtype.kind == "f" else found


def _rounded(x: np.ndarray, draw: np.random.Generator | None, count: float) -> np.ndarray:
    if draw is None or not count or x.dtype.kind != "f":
        return x
    return x * (1 + UNIT * count * draw.uniform(-1, 1, x.shape))
