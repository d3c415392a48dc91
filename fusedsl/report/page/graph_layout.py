"""Layered layout of a directed graph (Sugiyama): layers by longest path, orders by barycentres, coordinates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS = 8  # passes of crossing reduction, and of x coordinates
GAP, LAYER_GAP = 18.0, 44.0  # between two boxes of a layer, and between two layers
LANE = 8.0  # width of the virtual node of an edge that passes a layer


@dataclass(frozen=True)
class NodeSize:
    """A node's size."""

    width: float
    height: float


@dataclass(frozen=True)
class GraphLayout:
    """The centres of nodes, the points that each edge passes, and the size of the drawing."""

    centres: Mapping[int, tuple[float, float]]
    paths: Mapping[tuple[int, int], Sequence[tuple[float, float]]]
    width: float
    height: float


def lay_out(boxes: Sequence[NodeSize], edges: Iterable[tuple[int, int]]) -> GraphLayout:
    """The layout of a graph without cycles; edges go downwards."""
    edges = list(dict.fromkeys(edges))
    layer = _layers(len(boxes), edges)
    sizes, chains = list(boxes), dict[tuple[int, int], list[int]]()
    for a, b in edges:  # an edge over several layers passes a lane in each between
        chain = [a]
        for between in range(layer[a] + 1, layer[b]):
            sizes.append(NodeSize(LANE, 0.0))
            layer.append(between)
            chain.append(len(sizes) - 1)
        chains[a, b] = [*chain, b]
    links = [pair for chain in chains.values() for pair in pairwise(chain)]
    rows = _reduce_crossings(layer, links)
    x = _x_coordinates(rows, sizes, links)
    y, height = _y_coordinates(rows, sizes)
    left = min((x[n] - sizes[n].width / 2 for n in range(len(sizes))), default=0.0) - 2
    centres = {n: (x[n] - left, y[layer[n]]) for n in range(len(sizes))}
    width = max((centres[n][0] + sizes[n].width / 2 for n in range(len(sizes))), default=0.0) + 2
    paths = {edge: [centres[n] for n in chain] for edge, chain in chains.items()}
    return GraphLayout({n: centres[n] for n in range(len(boxes))}, paths, width, height)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each node: below all that it reads; what reads nothing is just above its first reader."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        above[b].append(a)
        below[a].append(b)
    layer = [-1] * count

    def ready(n: int) -> bool:
        return layer[n] < 0 and all(layer[m] >= 0 for m in above[n])

    while now := [n for n in range(count) if ready(n)]:
        for n in now:
            layer[n] = max((layer[m] + 1 for m in above[n]), default=0)
    for n in range(count):
        if not above[n] and below[n]:
            layer[n] = min(layer[m] for m in below[n]) - 1
    return layer


def _reduce_crossings(layer: Sequence[int], links: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The nodes of each layer from left to right, with few crossings."""
    rows = [[n for n, own in enumerate(layer) if own == k] for k in range(max(layer, default=-1) + 1)]
    near: dict[int, tuple[list[int], list[int]]] = {n: ([], []) for n in range(len(layer))}
    for a, b in links:
        near[b][0].append(a)
        near[a][1].append(b)
    for sweep in range(SWEEPS):
        side = sweep % 2
        for row in rows if side == 0 else rows[::-1]:
            position = {n: k for other in rows for k, n in enumerate(other)}

            def barycentre(n: int, side: int = side, position: Mapping[int, int] = position) -> float:
                beside = near[n][side]
                return sum(position[m] for m in beside) / len(beside) if beside else float(position[n])

            row.sort(key=barycentre)
    return rows


def _x_coordinates(
    rows: Sequence[Sequence[int]], sizes: Sequence[NodeSize], links: Sequence[tuple[int, int]]
) -> list[float]:
    """The centre of each node, as near to the mean of its neighbours' as the order of its layer allows."""
    x = [0.0] * len(sizes)
    for row in rows:
        start = 0.0
        for n in row:
            x[n] = start + sizes[n].width / 2
            start += sizes[n].width + GAP
        for n in row:
            x[n] -= (start - GAP) / 2
    near: list[list[int]] = [[] for _ in sizes]
    for a, b in links:
        near[a].append(b)
        near[b].append(a)
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 else rows[::-1]:
            preferred = [sum(x[m] for m in near[n]) / len(near[n]) if near[n] else x[n] for n in row]
            for n, position in zip(row, _without_overlaps(preferred, [sizes[n].width for n in row])):
                x[n] = position
    return x


def _without_overlaps(preferred: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Centres in this order without overlaps: the mean of those pushed to the right and those pushed to the left."""
    right, left = list(preferred), list(preferred)
    for k in range(1, len(right)):
        right[k] = max(right[k], right[k - 1] + (widths[k - 1] + widths[k]) / 2 + GAP)
    for k in range(len(left) - 2, -1, -1):
        left[k] = min(left[k], left[k + 1] - (widths[k] + widths[k + 1]) / 2 - GAP)
    return [(a + b) / 2 for a, b in zip(right, left)]


def _y_coordinates(rows: Sequence[Sequence[int]], sizes: Sequence[NodeSize]) -> tuple[list[float], float]:
    """The middle of each layer, and the height of them all."""
    y, top = [], 2.0
    for row in rows:
        tall = max((sizes[n].height for n in row), default=0.0)
        y.append(top + tall / 2)
        top += tall + LAYER_GAP
    return y, max(top - LAYER_GAP, 0.0) + 2
