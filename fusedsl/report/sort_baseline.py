"""Whether NumPy would sort rows faster than our CPU kernels, which sort wide keys by digits for positions."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2, prod

from ..backends.cpu.sort import PAIR_BITS, SHORT
from ..config import num_threads
from ..fusion.partition_graph import SLOWER
from ..hardware import CPU
from ..ir.dims import Symbol, evaluate
from ..ir.graph import Graph, Node
from .unfused_baseline import UnfusedBaseline
from .units import seconds_text

# measured: seconds of one thread of a Zen 5 for an element and each level (the logarithm of its row's length), of rows
# of 10 to 100,000 float32, float64, int32 and int64: NumPy 2.4 (AVX-512) for the values in order, or their positions
VALUES, POSITIONS = 0.2e-9, 1e-9
DIGIT = 2e-9  # of our own radix sort: seconds for an element and each of its digits, and once more to count them
PAIR_VALUES, PAIR = 0.25e-9, 0.6e-9  # of pairs of a key and a column: an element and each level; an element


def slower_than_numpy(graph: Graph, extents: Mapping[Symbol, int], moved: int, unfused: UnfusedBaseline) -> list[str]:
    """The note that NumPy sorts faster, for a call that moves so many bytes; else no note."""
    orders = [n for n in graph.nodes() if n.op == "sorted" and n.type.shape == n.args[0].type.shape]
    if not orders:
        return []
    with_positions = {(n.args[0], n.attr[1]) for n in orders if n.attr[0] == "positions"}
    with_values = {(n.args[0], n.attr[1]) for n in orders if n.attr[0] == "values"}
    threads, ours, numpys = num_threads(), dict[tuple[Node, bool], float](), 0.0
    for n in orders:
        rows, elements, levels = _sizes(n, extents)
        threads = max(1, min(threads, rows))
        digits = n.args[0].type.dtype.compute.itemsize + 1
        order = (n.args[0], n.attr[1])  # values and positions are of one order; of values alone it is NumPy's
        each = digits * DIGIT if order in with_positions else levels * VALUES
        if order not in with_values and digits <= PAIR_BITS // 8 + 1 and levels > log2(SHORT):
            each = levels * PAIR_VALUES + PAIR
        ours[order] = elements * each
        numpys += elements * levels * (VALUES if n.attr[0] == "values" else POSITIONS)
    rate = CPU.bandwidth / CPU.multiprocessors
    own, numpys = moved / rate + sum(ours.values()) / threads, numpys + unfused.bytes / rate
    if own <= SLOWER * numpys:
        return []
    times = f"about {seconds_text(numpys)} instead of {seconds_text(own)}"
    return [f"NumPy would be faster: {times}, by the time model of CPUs"]


def _sizes(n: Node, extents: Mapping[Symbol, int]) -> tuple[int, int, float]:
    """The rows that are sorted, their elements, and the levels of a merge sort of one."""
    *outer, length = (evaluate(d, extents) or 0 for d in n.type.shape)
    return prod(outer), prod(outer) * length, log2(max(2, length))
