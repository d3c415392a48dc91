"""Formulations of one call, and steps of a loop, plan what they have in common once."""

from __future__ import annotations

import numpy as np

import fusedsl as fd
from fusedsl.fusion import partition_graph
from fusedsl.fusion.formulation import AttentionMode, Formulation
from fusedsl.fusion.shared_planning import planned_once, shared_planning
from fusedsl.program import make_plan
from fusedsl.program import plans as stored_plans
from fusedsl.program.call_steps import extents_of
from fusedsl.runtime.arrays import describe_all


def test_what_is_planned_under_one_key_is_planned_once_inside():
    made = []
    with shared_planning():
        with shared_planning():
            planned_once("key", lambda: made.append(1))
        planned_once("key", lambda: made.append(2))
        planned_once("another key", lambda: made.append(3))
    planned_once("key", lambda: made.append(4))
    assert made == [1, 3, 4]


def test_a_second_formulation_plans_no_kernel_again_that_is_alike(monkeypatch):
    lowered, built, plans = [], [], []
    monkeypatch.setattr(stored_plans, "_load", lambda key: [])  # no plan from the cache
    watch(monkeypatch, partition_graph, "lower_segment", lowered)
    watch(monkeypatch, make_plan, "build_plan", built)
    watch(monkeypatch, make_plan, "build_kernels", plans)
    kernel = fd.kernel("tanh(x @ w) + 1")
    facts = list(describe_all(kernel.params, [np.ones((8, 8), np.float32)] * 2).values())
    with shared_planning():
        for mode in (AttentionMode.RUNNING_MAX, AttentionMode.MATERIALIZED):
            kernel._program.plans.plan(facts, extents_of(facts), Formulation(attention=mode))
    assert (len(plans), len(lowered), len(built)) == (2, 1, 1)


def test_kernels_of_the_steps_of_a_loop_are_built_once(monkeypatch):
    """They differ in the numbers of their temporaries alone."""
    built, plans = [], []
    monkeypatch.setattr(stored_plans, "_load", lambda key: [])  # no plan from the cache
    watch(monkeypatch, make_plan, "build_plan", built)
    watch(monkeypatch, make_plan, "build_kernels", plans)

    def power_iteration(v, a):
        for _ in range(24):
            v = a @ v
            v = v / np.sqrt((v * v).sum())
        return v

    random = np.random.default_rng(5)
    v, a = random.standard_normal(9), random.standard_normal((9, 9))
    found = fd.fuse(power_iteration, verify=True)(v, a)
    np.testing.assert_allclose(found, power_iteration(v, a), 1e-9)
    kernels, *_ = plans[0]
    assert len(kernels) > 40
    assert len(built) <= 8
    temporaries = [{use.index for use in k.arrays if use.kind == "temporary"} for k in kernels]
    assert len({frozenset(numbers) for numbers in temporaries}) > 40


def watch(monkeypatch, module, name, calls):
    real = getattr(module, name)

    def watched(*given):
        calls.append(real(*given))
        return calls[-1]

    monkeypatch.setattr(module, name, watched)
