"""Verifies a plan: reads and writes of each kernel, launches that run concurrently, and names in bodies.

Each rule is a function, named for what must hold. Partitions are verified before they become plans (fusion/verify.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np

from ..ir.differential_test import compare
from ..ir.graph import Graph, Type
from ..ir.index_rules import Box, IndexRules
from ..ir.sample_extents import Samples, sampled
from ..ir.verify import require
from .evaluate import FlatMemory, KernelRun, PlanCall
from .evaluate_attention import run_attention
from .evaluate_phases import run_looped, run_resident
from .plan import ArrayUse, KernelPlan, Plan
from .verify_attention import verify_attention
from .verify_bodies import bodies_of, verify_bodies
from .verify_kernel import axes_of, verify_kernel

Key = tuple[str, int]  # kind and index of an array


def verify_plan(plan: Plan, graph: Graph | None = None, samples: Samples | None = None) -> str:
    """Why a plan was not compared with its graph, or "".

    VerifyError if it is not well formed, or if the graph is given and the plan computes something else. `samples` pass
    its checks.
    """
    if samples is None:
        samples = sampled(plan.parameters, plan.checks, dict(plan.guards))
    rules, types = IndexRules(plan.parameters, samples), _types(plan)
    launches_hold_every_kernel(plan)
    for kernel in plan.kernels:
        verify_kernel(kernel, plan.parameters, types, rules)
        (verify_bodies if kernel.attention is None else verify_attention)(kernel)
    kernels_wait_for_what_they_read(plan)
    arrays_are_stored_once(plan, types, rules)
    if graph is None:
        return "not asked for"
    lines = sum(len(body.instructions) for kernel in plan.kernels for body in bodies_of(kernel))
    ways = (False, True) if any(kernel.looped for kernel in plan.kernels) else (False,)
    return "; ".join(filter(None, {compare(graph, (), samples.small, partial(_run, plan, way), lines) for way in ways}))


def evaluate_plan(plan: Plan, call: PlanCall, streamed: bool = False) -> FlatMemory:
    """The arrays of a call after all kernels of a plan, with rows in registers, or looped if `streamed`."""
    memory = FlatMemory(plan, call)
    with np.errstate(all="ignore"):
        for kernel in plan.kernels:
            run = KernelRun(kernel, memory, call.numbers)
            if kernel.attention is not None:
                run_attention(run)
            elif streamed and kernel.looped:
                run_looped(run)
            else:
                run_resident(run)
    return memory


def _run(plan: Plan, streamed: bool, *given) -> list[np.ndarray]:
    """The results of a plan."""
    memory = evaluate_plan(plan, PlanCall(*given), streamed)
    return [memory.arrays["result", k] for k in range(len(plan.results))]


def _types(plan: Plan) -> dict[Key, Type]:
    types = {("argument", k): p.type for k, p in enumerate(plan.parameters) if not p.scalar}
    types |= {("temporary", k): t for k, t in enumerate(plan.temporaries)}
    return types | {("result", k): t for k, t in enumerate(plan.results)}


def launches_hold_every_kernel(plan: Plan) -> None:
    """Every kernel is in one launch, and no launch is empty."""
    held = [k for launch in plan.shared for k in launch]
    require(held == list(range(len(plan.kernels))), "launches hold every kernel, in order", plan.launches)
    require(all(plan.shared), "a launch holds a kernel", plan.launches)


def kernels_wait_for_what_they_read(plan: Plan) -> None:
    """A temporary is written by earlier launches than its readers, and a scatter merges into what earlier launches have
    written, all of it: kernels of one launch run concurrently."""
    stored: dict[Key, list[int]] = {}  # launches
    merged: dict[Key, list[int]] = {}
    for number, launch in enumerate(plan.shared):
        for kernel in (plan.kernels[k] for k in launch):
            for key in _keys(kernel.arrays[kernel.inputs :]):
                (merged if kernel.scatters else stored).setdefault(key, []).append(number)
    for key, launches in merged.items():
        first = min(launches)
        before = key in stored and all(w < first for w in stored[key])
        require(before, "a scatter merges into what is written", key, f"launch {first}")
        require(len(set(launches)) == len(launches), "scatters into one array take turns", key)
    for number, launch in enumerate(plan.shared):
        for k in launch:
            for key in _keys(plan.kernels[k].arrays[: plan.kernels[k].inputs]):
                if key[0] != "argument":
                    wrote = [*stored.get(key, [len(plan.kernels)]), *merged.get(key, ())]
                    before = all(w < number for w in wrote)
                    require(before, "what is read is written by a launch before", key, f"kernel {k}")


def _keys(uses: Iterable[ArrayUse]) -> list[Key]:
    return [(use.kind, use.index) for use in uses]


def arrays_are_stored_once(plan: Plan, types: Mapping[Key, Type], rules: IndexRules) -> None:
    """All elements of every result, and of every written temporary, are stored once."""
    stored: dict[Key, list[tuple[ArrayUse, Box]]] = {key: [] for key in types if key[0] == "result"}
    for kernel in plan.kernels:
        for use in kernel.arrays[kernel.inputs :] if not kernel.scatters else ():
            stored.setdefault((use.kind, use.index), []).append((use, _box(use, kernel)))
    for key, uses in stored.items():
        require(bool(uses), "every result is stored", key)
        views = {use.views for use, _ in uses}
        require(len(views) == 1, "pieces are those of an array of one shape", key)
        shape = rules.viewed(types[key].shape, uses[0][0].views, key)
        rules.covered(shape, [box for _, box in uses], key)


def _box(use: ArrayUse, kernel: KernelPlan) -> Box:
    axes = axes_of(kernel)
    return Box(tuple(c.start for c in use.at), tuple(1 if c.axis is None else axes[c.axis] for c in use.at))
