"""Verifies the scalar program of a segment, and the partition, before kernels are built.

Each rule is a function, named for what must hold. A well-formed program may still compute something else: `compare`
evaluates programs of moderate size and their graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..ir.differential_test import compare
from ..ir.dims import evaluate
from ..ir.graph import Graph, Node, Type, walk
from ..ir.index_rules import IndexRules
from ..ir.sample_extents import Samples
from ..ir.types import numpy_dtype
from ..ir.verify import require
from .evaluate import ScalarEvaluator
from .fusion_group import Partition
from .scalar_program import ReadableArrays, ScalarProgram, ScalarStore
from .segments import Segment
from .verify_arrays import Arrays, Key
from .verify_groups import verify_group, verify_groups_order
from .verify_scalars import verify_scalars
from .verify_stores import verify_order, verify_stores, verify_values


def verify_scalar_program(
    program: ScalarProgram, segment: Segment, memory: ReadableArrays, samples: Samples, meaning: bool = True
) -> str:
    """VerifyError if a scalar program is not well formed, or differs in `meaning` from its segment.

    Returns why the two were not compared, or "". `samples` pass the checks of the whole program.
    """
    graph, before = segment.graph, memory.temporaries
    require(program.temporaries[: len(before)] == before, "a program keeps the temporaries that stand before it")
    wanted = {(t.kind, t.index): r.type for t, r in zip(segment.targets, graph.results)}
    types = _types(graph, program.temporaries) | wanted
    wanted |= {("temporary", k): types["temporary", k] for k in range(len(before), len(program.temporaries))}
    rounded = memory.rounded | {r.index for r in program.stores if r.kind == "temporary" and r.rounded}
    arrays = Arrays(types, {*wanted, *_read(graph)}, rounded, _numbers(graph), IndexRules(graph.parameters, samples))
    nodes = list(walk(r.value for r in program.stores))
    verify_scalars(nodes, arrays)
    verify_stores(program.stores, wanted, arrays)
    verify_values((r, r.value) for r in program.stores)
    ordered = verify_order(program.stores, program.written)
    if not meaning:
        return "not asked for"

    def run(*call) -> list[np.ndarray]:
        stored = _run([(r, r.value) for r in ordered], ScalarEvaluator(*call))
        return [stored[t.kind, t.index] for t in segment.targets]

    return compare(graph, before, samples.small, run, len(nodes))


def verify_partition(cut: Partition, graph: Graph, samples: Samples, meaning: bool = True) -> str:
    """The same for the kernels of a whole program in launch order."""
    types = _types(graph, cut.temporaries) | {("result", k): r.type for k, r in enumerate(graph.results)}
    roots = [r for g in cut.groups for r in g.all_stores]
    stores: dict[int, list[ScalarStore]] = {}
    for r in roots:
        if r.kind == "temporary":
            stores.setdefault(r.index, []).append(r)
    require(all(("temporary", k) in types for k in stores), "a kernel stores to temporaries that there are")
    wanted = {*(("temporary", k) for k in stores), *(k for k in types if k[0] == "result")}
    rounded = {k for k, own in stores.items() if own[0].rounded}
    arrays = Arrays(
        types,
        {k for k in types if k[0] == "argument"} | wanted,
        rounded,
        _numbers(graph),
        IndexRules(graph.parameters, samples),
    )
    verify_stores(roots, wanted, arrays)
    verify_groups_order(cut.groups)
    pairs = [pair for g in cut.groups for pair in verify_group(g, stores).items()]
    nodes = list(walk([value for _, value in pairs]))
    verify_scalars(nodes, arrays)
    verify_values(pairs)
    if not meaning:
        return "not asked for"

    def run(*call) -> list[np.ndarray]:
        stored = _run(pairs, ScalarEvaluator(*call))
        return [stored["result", k] for k in range(len(graph.results))]

    return compare(graph, (), samples.small, run, len(nodes))


def _types(graph: Graph, temporaries: Sequence[Type]) -> dict[Key, Type]:
    """Types of arguments and temporaries."""
    types = {("argument", k): p.type for k, p in enumerate(graph.parameters) if not p.scalar}
    return types | {("temporary", k): t for k, t in enumerate(temporaries)}


def _numbers(graph: Graph) -> dict:
    return {k: p.type.dtype for k, p in enumerate(graph.parameters) if p.scalar}


def _read(graph: Graph) -> set[Key]:
    """Arrays that a segment's graph reads."""
    indices = [n.attr for n in graph.nodes() if n.op == "param"]
    count = len(graph.parameters)
    return {("argument", k) if k < count else ("temporary", k - count) for k in indices}


def _run(pairs: Iterable[tuple[ScalarStore, Node]], evaluator: ScalarEvaluator) -> Mapping[Key, np.ndarray]:
    """Arrays in memory after all stores."""
    pairs = list(pairs)
    written = {(r.kind, r.index) for r, _ in pairs}
    memory = evaluator.arrays = {key: x for key, x in evaluator.arrays.items() if key not in written}
    for r, value in pairs:
        if (r.kind, r.index) not in memory:
            shape = [evaluate(d, evaluator.extents) for d in r.shape]
            memory[r.kind, r.index] = np.zeros(shape, numpy_dtype(r.stored_dtype))
        evaluator.store(r, value, memory[r.kind, r.index])
    return memory
