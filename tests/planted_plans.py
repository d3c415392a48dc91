"""Faults to plant in lowered programs, partitions and plans, as data, with the programs that they are planted in.

A mutation takes what a stage made and gives it with one fault, or None where there is no place for that fault. The
faults of each stage are in planted_lowered.py, planted_partitions.py and planted_kernels.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from oracle import graph_of

from fusedsl.fusion.formulation import Formulation
from fusedsl.fusion.lower import lower
from fusedsl.fusion.scalar_program import ReadableArrays
from fusedsl.fusion.segments import segments
from fusedsl.fusion.verify import verify_partition, verify_scalar_program
from fusedsl.ir.graph import Graph
from fusedsl.ir.interp import extents_of
from fusedsl.ir.sample_extents import sampled
from fusedsl.kernel_ir.verify import verify_plan
from fusedsl.program.call_steps import REGISTER_BUDGET
from fusedsl.program.make_plan import partition_graph
from fusedsl.rewrite.engine import rewrite
from fusedsl.runtime.arrays import describe_all

Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Mutation:
    """A fault, and how it is planted; in the programs of `unless` it leaves what is well formed."""

    name: str
    change: Change
    unless: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Stages:
    """What each stage makes of a text."""

    graph: Graph
    lowered: Any
    partition: Any
    plan: Any


def verified(stage: str, made: Any, graph: Graph) -> None:
    """Raise VerifyError where the verifier of a stage finds a fault: the one place that knows where it is."""
    samples = sampled(graph.parameters, graph.checks)
    match stage:
        case "lowered":
            told = verify_scalar_program(made, segments(graph, ())[0], ReadableArrays(len(graph.parameters)), samples)
        case "partition":
            told = verify_partition(made, graph, samples)
        case "plan":
            told = verify_plan(made, graph)
    assert not told, f"not compared: {told}"


PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "a map": ("x.T + y", {"x": (4, 6), "y": (6, 4)}),
    "rows": ("softmax(x) * w", {"x": (4, 6), "w": (6,)}),
    "columns": ("x - mean(x, 0)", {"x": (4, 6)}),
    "rows and columns": ("x / sum(x, 1)[:, None] / sum(x, 0)", {"x": (4, 6)}),
    "a product": ("x @ y", {"x": (4, 6), "y": (6, 5)}),
    "a product of products": ("relu(x @ a) @ b", {"x": (4, 6), "a": (6, 5), "b": (5, 3)}),
    "a Gram matrix squared": ("a = x @ x.T; a @ a", {"x": (4, 6)}),
    "weights over columns": ("softmax(x @ y, axis=0)", {"x": (4, 6), "y": (6, 5)}),
    "attention": ("softmax(q @ k.T) @ v", {"q": (4, 3), "k": (6, 3), "v": (6, 2)}),
    "attention received": ("p = softmax(q @ k.T); sum(p, 0), p @ v", {"q": (4, 3), "k": (6, 3), "v": (6, 2)}),
    "a scan": ("cumsum(x, 1) / sum(x, 1)[:, None]", {"x": (4, 6)}),
    "an order": ("sort(x)[:, ::-1] - x", {"x": (4, 6)}),
    "slices": ("x[1:] - x[:-1]", {"x": (4, 6)}),
    "a gather": ("x[i] * 2", {"x": (4, 6), "i": (3,)}),
    "a gather of rows that are folded": ("softmax(x)[i]", {"x": (4, 6), "i": (3,)}),
    "a reshape": ("reshape(exp(x).T, (-1,))[3:] * y", {"x": (4, 6), "y": (21,)}),
    "two results": ("max(x, axis=1), x + 1", {"x": (4, 6)}),
    "two norms in turn": ("y = x - mean(x, 0); z = y - mean(y, 1)[:, None]; z, sum(z, 0)", {"x": (4, 6)}),
}

SEGMENTED = {  # programs of several segments, which are not lowered as one
    "a scatter": ("scatter_max(x + 1, i, u) * 2", {"x": (4, 6), "i": (3,), "u": (3, 6)}),
}

SLICED = frozenset({"slices"})  # one element further is one of theirs, too


def mutations(changes: dict[str, Change], unless: dict[str, frozenset[str]]) -> tuple[Mutation, ...]:
    return tuple(Mutation(name, change, unless.get(name, frozenset())) for name, change in changes.items())


def programs(stage: str) -> dict[str, tuple[str, dict[str, tuple[int, ...]]]]:
    """The programs that have a stage."""
    return PROGRAMS if stage == "lowered" else PROGRAMS | SEGMENTED


@cache
def stages(name: str) -> Stages:
    """The stages of a program."""
    import fusedsl as fd

    text, shapes = (PROGRAMS | SEGMENTED)[name]
    values = {n: np.zeros(s, np.int64) if n == "i" else np.ones(s, np.float32) for n, s in shapes.items()}
    graph, arguments = graph_of(text, values)
    graph = rewrite(graph)
    extents = extents_of(arguments)
    kernel = fd.kernel(text, fallback=False)
    facts = list(describe_all(kernel.params, [values[n] for n in kernel.params]).values())
    plan = kernel._program.plans.plan(facts, extents)
    return Stages(graph, lower(graph), partition_graph(graph, extents, {}, Formulation(budget=REGISTER_BUDGET)), plan)
