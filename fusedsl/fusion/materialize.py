"""Chooses the arrays that are stored between kernels, before the graph is lowered.

An array that is not stored is recomputed wherever it is read. An array is stored if recomputation at all its reads is
more expensive, if a matrix product would be recomputed for each element of another one, or if a kernel would take too
long to compile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from ..ir.graph import Node, users_of, walk
from ..ir.ops import LEAVES
from .demand_analysis import FREE, WORKS
from .formulation import ON_CUDA, AttentionMode, Formulation, ProductMode
from .graph_products import is_product
from .kernel_limits import MOST_OPERATIONS, MOST_PROMISED, Fits, KernelLimits
from .pair_folds import Short
from .read_analysis import ReadAnalysis, StoredArray
from .stored_products import stored_products

ON_CPUS = 1.5  # instructions that take as long as moving a byte on one core, from memory: see backends/cpu/core_time.py


def materialize(
    results: Sequence[Node],
    instructions_per_byte: float,
    fits: Fits,
    way: Formulation,
    short: Short,
    copies: dict[Node, str],
) -> list[StoredArray]:
    """The arrays of a program to store; `copies` are among them, with their reasons.

    `instructions_per_byte` take as long as storing and loading a byte. `fits` answers whether a count is within a limit
    for this plan, `short` tells the extents of inner folds that are unrolled. An attention kernel that measures
    exponents from tile maxima is not built for a single query row.
    """
    budgeted = instructions_per_byte < inf
    longest = MOST_OPERATIONS if budgeted else MOST_PROMISED
    joins = ON_CPUS if budgeted and way.attention is AttentionMode.TILE_MAX else instructions_per_byte
    limited = KernelLimits(results, fits, way, longest, joins)
    chosen = limited.find() | copies
    stored = ReadAnalysis(results, chosen, instructions_per_byte, short).find()
    if way.products is ProductMode.FUSED:
        return _with_cuts(stored, limited.cuts)
    arrays = {s.node: s.reason for s in stored}
    products = stored_products(results, arrays, limited.attention_products(arrays), fits, way)
    stored = ReadAnalysis(results, chosen | products.arrays, instructions_per_byte, short, products.alone).find()
    return _with_cuts(stored, limited.cuts)


def _with_cuts(stored: Sequence[StoredArray], cuts: Mapping[Node, int]) -> list[StoredArray]:
    return [replace(s, cut=cuts.get(s.node)) for s in stored]


def unfused_arrays(results: Sequence[Node], fits: Fits) -> list[StoredArray]:
    """All arrays that an unfused run stores, except in short elementwise chains with a single consumer."""
    limited = KernelLimits(results, fits, ON_CUDA).find()
    order = list(walk(results))
    users = users_of(order)
    wanted = [n for n in order if n.op not in FREE and n.op not in LEAVES and n.type.shape]
    wanted = [n for n in wanted if n not in results or n.op == "scatter"]
    reason = "the unfused run is faster, by the time model"
    chosen = [n for n in wanted if n.op in WORKS or len(users[n]) > 1 or n in limited]
    return [StoredArray(n, limited.get(n, reason), is_product(n)) for n in chosen]
