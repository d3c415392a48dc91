"""Whether NumPy would sort rows faster than our CPU kernels, which do not vectorise sorts."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2, prod

from ..config import num_threads
from ..fusion.partition_graph import SLOWER
from ..hardware import CPU
from ..ir.dims import Symbol, evaluate
from ..ir.graph import Graph, Node
from .unfused_baseline import UnfusedBaseline
from .units import seconds_text

# measured: seconds of one thread of a Zen 5 for an element and each level (the logarithm of its row's length), of rows
# of 10 to 100,000 float32, float64, int32 and int64: NumPy 2.4 (AVX-512) for the values in order, or their positions
MERGE, VALUES, POSITIONS = 4.2e-9, 0.2e-9, 1e-9


def slower_than_numpy(graph: Graph, extents: Mapping[Symbol, int], moved: int, unfused: UnfusedBaseline) -> list[str]:
    """The note that NumPy sorts faster, for a call that moves so many bytes; else no note."""
    orders = [n for n in graph.nodes() if n.op == "sorted" and n.type.shape == n.args[0].type.shape]
    if not orders:
        return []
    threads, steps = num_threads(), {}
    for n in orders:
        rows, steps[n] = _rows_and_steps(n, extents)
        threads = max(1, min(threads, rows))
    rate = CPU.bandwidth / CPU.multiprocessors
    once = {(n.args[0], n.attr[1]): count for n, count in steps.items()}  # values and positions are of one order
    ours = moved / rate + sum(once.values()) * MERGE / threads
    numpys = sum(count * (VALUES if n.attr[0] == "values" else POSITIONS) for n, count in steps.items())
    numpys += unfused.bytes / rate
    if ours <= SLOWER * numpys:
        return []
    times = f"about {seconds_text(numpys)} instead of {seconds_text(ours)}"
    return [f"NumPy would be faster: {times}, by the time model of CPUs"]


def _rows_and_steps(n: Node, extents: Mapping[Symbol, int]) -> tuple[int, float]:
    """The rows that are sorted, and their elements times the levels of a merge sort."""
    *outer, length = (evaluate(d, extents) or 0 for d in n.type.shape)
    return prod(outer), prod(outer) * length * log2(max(2, length))
