"""Origins of result axes: the argument axes whose labels a result's axis may take."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .contraction import Subscripts
from .dims import Dim
from .graph import Graph, Node
from .ops import CASTS, OPS

Origins = tuple[frozenset[tuple[int, int]], ...]
"""For each axis of a value the axes (argument, axis) whose elements it follows one for one."""

NONE: frozenset[tuple[int, int]] = frozenset()


def axis_origins(graph: Graph) -> list[Origins]:
    """The origins of every result's axes.

    An axis keeps its origin through elementwise work, scans along it and reductions of other axes, and loses it where
    elements change places: slices, flips, gathers, sorts.
    """
    known: dict[Node, Origins] = {}
    for n in graph.nodes():
        known[n] = _origins(n, [known[a] for a in n.args])
    return [known[r] for r in graph.results]


def _origins(n: Node, args: Sequence[Origins]) -> Origins:
    if n.op == "param":
        return tuple(frozenset([(n.attr, axis)]) for axis in range(n.type.rank))
    if n.op in OPS or n.op in CASTS or n.op == "broadcast":
        return _aligned(n, args)
    return RULES[n.op](n, args) if n.op in RULES else (NONE,) * n.type.rank


def _aligned(n: Node, args: Sequence[Origins]) -> Origins:
    """Operands align at their last axes; a broadcast axis of extent 1 has no origin."""
    result = [NONE] * n.type.rank
    for arg, origins in zip(n.args, args):
        first = n.type.rank - arg.type.rank
        for axis, (dim, origin) in enumerate(zip(arg.type.shape, origins), first):
            if dim != 1 or n.type.shape[axis] == 1:
                result[axis] |= origin
    return tuple(result)


def _index(n: Node, args: Sequence[Origins]) -> Origins:
    """An axis keeps its origin if its slice is the whole axis."""
    (origins,), shape, axis = args, n.args[0].type.shape, 0
    result = []
    for entry in n.attr:
        if entry[0] == "new":
            result.append(NONE)
            continue
        if entry[0] == "slice":
            result.append(origins[axis] if entry[1:] == (0, 1, shape[axis]) else NONE)
        axis += 1
    return tuple(result)


def _transpose(n: Node, args: Sequence[Origins]) -> Origins:
    return tuple(args[0][axis] for axis in n.attr)


def _reshape(n: Node, args: Sequence[Origins]) -> Origins:
    """The leading and trailing axes that both shapes share keep their origins."""
    (origins,), before, after = args, n.args[0].type.shape, n.type.shape
    first = _same(before, after)
    last = min(_same(before[::-1], after[::-1]), len(before) - first, len(after) - first)
    middle = (NONE,) * (len(after) - first - last)
    return (*origins[:first], *middle, *origins[len(origins) - last :])


def _same(before: Sequence[Dim], after: Sequence[Dim]) -> int:
    return next((k for k, (a, b) in enumerate(zip(before, after)) if a != b), min(len(before), len(after)))


def _reduce(n: Node, args: Sequence[Origins]) -> Origins:
    return tuple(NONE if axis in n.attr[1] else origin for axis, origin in enumerate(args[0]))


def _scan(n: Node, args: Sequence[Origins]) -> Origins:
    return tuple(frozenset().union(*origins) for origins in zip(*args))


def _sort(n: Node, args: Sequence[Origins]) -> Origins:
    return (*args[0][:-1], NONE)


def _gather(n: Node, args: Sequence[Origins]) -> Origins:
    """Axes without indices have the array's origins, the others those of the index arrays."""
    origins = list(_aligned(n, [(NONE,) * len(args[0]), *args[1:]]))
    for (kind, k), dim, origin in zip(n.attr[1], n.args[0].type.shape, args[0]):
        if kind == "axis" and (dim != 1 or n.type.shape[k] == 1):
            origins[k] |= origin
    return tuple(origins)


def _contract(n: Node, args: Sequence[Origins]) -> Origins:
    subscripts = Subscripts.parse(n.attr)
    result = dict.fromkeys(subscripts.result, NONE)
    for names, origins in zip((subscripts.left, subscripts.right), args):
        for letter, origin in zip(names, origins):
            if letter in result:
                result[letter] |= origin
    return tuple(result[letter] for letter in subscripts.result)


RULES: dict[str, Callable[[Node, Sequence[Origins]], Origins]] = {
    "index": _index,
    "transpose": _transpose,
    "reshape": _reshape,
    "reduce": _reduce,
    "scan": _scan,
    "sorted": _sort,
    "gather": _gather,
    "contract": _contract,
}
