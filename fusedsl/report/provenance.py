"""Provenance: which kernels of a call compute each operation of its graph, found by the values in memory between them.

Laws, fusion and online reductions change nodes until no kernel has one of the graph's own. What they keep are values: a
result is that of the graph, and a temporary nearly always holds the value of one of its nodes. The call is evaluated on
small random arrays, as by its verifier, and each temporary is matched with the nodes of the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.differential_test import MOST_ELEMENTS, MOST_NODES, TooLarge
from ..ir.dims import Extents, evaluate
from ..ir.graph import Graph, Node, Type, walk
from ..ir.interp import evaluate_node, interpret
from ..ir.sample_extents import sampled, size
from ..ir.types import numpy_dtype
from ..ir.verify import VerifyError
from ..kernel_ir.evaluate import PlanCall
from ..kernel_ir.plan import KernelPlan, Plan
from ..kernel_ir.verify import evaluate_plan
from ..program.resolve_call import ResolvedCall

Owners = Mapping[Node, tuple[int, ...]]
"""The launches that compute each node."""

Held = Mapping[int, Sequence[Node]]
"""The nodes whose values each temporary holds."""

CLOSE = {8: 0.1, 16: 1e-2, 32: 2e-4, 64: 1e-8}  # relative to the largest value, by the bits of the narrowest float
SEEDS = 3  # of random arrays: nodes that have the values of another by chance have them once


def owners(call: ResolvedCall) -> Owners:
    """The launches of a call that compute each node of its graph; empty for what no kernel does."""
    number = {id(plan): k for k, members in enumerate(call.launches) for plan, _ in members}
    held = {} if len(call.launches) == 1 else _held(call)
    owners_of: dict[Node, set[int]] = {}
    for plan in call.plan.kernels:
        if id(plan) in number:
            for n in _computed(call.graph, plan, held):
                owners_of.setdefault(n, set()).add(number[id(plan)])
    return {n: tuple(sorted(numbers)) for n, numbers in owners_of.items()}


def _computed(graph: Graph, plan: KernelPlan, held: Held) -> Iterable[Node]:
    """The nodes between what a kernel writes and what earlier kernels wrote that it reads."""
    inputs = plan.arrays[: plan.inputs]
    read = {n for a in inputs if a.kind == "temporary" for n in held.get(a.index, ())}
    read |= {graph.results[a.index] for a in inputs if a.kind == "result"}
    written = [(use.kind, use.index) for use in plan.arrays[plan.inputs :]]
    roots = [
        graph.results[k] if kind == "result" else held[k][-1] for kind, k in written if kind == "result" or k in held
    ]
    return (n for n in walk(roots, read - set(roots)) if n.args)


def _held(call: ResolvedCall) -> Held:
    """The nodes whose values each temporary holds, operands first; without those that no node has."""
    plan, graph = call.plan, call.graph
    extents = sampled(plan.parameters, plan.checks, dict(plan.guards)).small
    nodes = graph.nodes()
    if extents is None or len(nodes) > MOST_NODES or sum(size(n.type.shape, extents) for n in nodes) > MOST_ELEMENTS:
        return {}
    close = CLOSE[min((n.type.dtype.bits for n in nodes if n.type.dtype.kind == "f" and not n.type.weak), default=64)]
    held: dict[int, list[Node]] = {}
    for seed in range(SEEDS):
        try:
            values, stored = _evaluated(plan, graph, extents, seed)
        except (TooLarge, VerifyError):
            return {}
        for k, x in enumerate(stored):
            held[k] = _matches(x, {n: values[n] for n in held.get(k, nodes)}, close)
    return {k: origins for k, origins in held.items() if origins}


def _evaluated(
    plan: Plan, graph: Graph, extents: Extents, seed: int
) -> tuple[dict[Node, np.ndarray], list[np.ndarray]]:
    """(the values of all nodes, the temporaries) of a call on random arrays."""
    arguments = _arguments(plan, extents, seed)
    values: dict[Node, np.ndarray] = {}

    def record(n: Node, args: list[np.ndarray], given: Sequence, known: Any) -> np.ndarray:
        values[n] = evaluate_node(n, args, given, known)
        return values[n]

    interpret(Graph(graph.parameters, graph.results), arguments, record)
    arrays = {("argument", k): x for k, x in enumerate(arguments)}
    memory = evaluate_plan(plan, PlanCall(extents, arrays, arguments))
    return values, [memory.arrays["temporary", k] for k in range(len(plan.temporaries))]


def _matches(stored: np.ndarray, values: Mapping[Node, np.ndarray], close: float) -> list[Node]:
    """The nodes with these values, whatever their axes of one element."""
    stored, matches = stored.squeeze(), []
    for n, value in values.items():
        if n.args and value.size == stored.size and value.squeeze().shape == stored.shape:
            a, b = value.squeeze().astype(np.float64), stored.astype(np.float64)
            if np.allclose(a, b, rtol=close, atol=close * np.abs(b[np.isfinite(b)]).max(initial=0.0), equal_nan=True):
                matches.append(n)
    return matches


def _arguments(plan: Plan, extents: Extents, seed: int) -> list[Any]:
    """Random arguments at these extents: floats of either sign, small integers."""
    random = np.random.default_rng(seed)
    arrays = [_random(p.type, extents, random) for p in plan.parameters]
    return [x.item() if p.scalar else x for x, p in zip(arrays, plan.parameters)]


def _random(type: Type, extents: Extents, random: np.random.Generator) -> np.ndarray:
    shape, d = [evaluate(n, extents) for n in type.shape], type.dtype
    x: Any = random.standard_normal(shape) if d.kind == "f" else random.integers(0, 2 if d.kind == "b" else 3, shape)
    return np.array(x, dtype=numpy_dtype(d))
