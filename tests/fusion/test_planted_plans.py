"""The test of the verifier: every fault that is planted in a lowered program, a partition or a plan is found, and none
where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_kernels import MEANINGS as OF_PLANS
from planted_kernels import PLANS
from planted_lowered import LOWERED, MEANINGS
from planted_partitions import MEANINGS as OF_PARTITIONS
from planted_partitions import PARTITIONS
from planted_plans import Mutation, programs, stages, verified

from fusedsl.ir.verify import VerifyError
from fusedsl.kernel_ir.verify import kernels_wait_for_what_they_read

STAGES = {"lowered": LOWERED, "partition": PARTITIONS, "plan": PLANS}
FAULTS = [pytest.param(stage, m, id=f"{stage}: {m.name}") for stage, table in STAGES.items() for m in table]

OF_MEANING = [
    pytest.param(stage, m, id=f"meaning: {m.name}")
    for stage, table in (("lowered", MEANINGS), ("partition", OF_PARTITIONS), ("plan", OF_PLANS))
    for m in table
]


def planted(stage: str, mutation: Mutation) -> dict:
    """Every program that has a place for a fault, with the fault."""
    made = {
        name: mutation.change(getattr(stages(name), stage)) for name in programs(stage) if name not in mutation.unless
    }
    return {name: x for name, x in made.items() if x is not None}


@pytest.mark.parametrize("stage, name", [(stage, name) for stage in STAGES for name in programs(stage)])
def test_what_is_right_passes(name, stage):
    verified(stage, getattr(stages(name), stage), stages(name).graph)


@pytest.mark.parametrize("stage, mutation", FAULTS + OF_MEANING)
def test_a_planted_fault_is_found(stage, mutation):
    missed = []
    for name, made in planted(stage, mutation).items():
        try:
            verified(stage, made, stages(name).graph)
        except VerifyError:
            continue
        missed.append(name)
    assert not missed, f"not found in {missed}"


@pytest.mark.parametrize("stage, mutation", FAULTS + OF_MEANING)
def test_every_fault_has_a_place(stage, mutation):
    found = planted(stage, mutation)
    assert found
    for name, made in found.items():
        assert parts(made) != parts(getattr(stages(name), stage))


@pytest.mark.parametrize("mutation", [m for m in PLANS if "scatter" in m.name], ids=lambda m: m.name)
def test_the_order_of_launches_alone_tells_that_scatters_are_too_early(mutation):
    """What a plan computes one kernel after another may be right: kernels of one launch run concurrently."""
    plan = stages("a scatter").plan
    kernels_wait_for_what_they_read(plan)
    with pytest.raises(VerifyError):
        kernels_wait_for_what_they_read(mutation.change(plan))


@pytest.mark.parametrize("together", [(0, 1), (1, 2)])
def test_a_scatter_waits_for_every_kernel_that_stores_a_part_of_what_it_merges_into(together):
    """Two kernels that store the same array, before a scatter or one of them in its launch."""
    plan = stages("a scatter").plan
    scatter = next(k for k, kernel in enumerate(plan.kernels) if kernel.scatters)
    base = plan.kernels[scatter - 1]
    kernels = (base, base, *plan.kernels[scatter:])
    launches = (2, *[1] * (len(kernels) - 2)) if together == (0, 1) else (1, 2, *[1] * (len(kernels) - 3))
    made = replace(plan, kernels=kernels, launches=launches)
    if together == (0, 1):
        kernels_wait_for_what_they_read(made)
    else:
        with pytest.raises(VerifyError, match="a scatter merges"):
            kernels_wait_for_what_they_read(made)


def parts(made):
    """What is compared: groups are equal to themselves alone."""
    return [*map(vars, made.groups), made.temporaries] if hasattr(made, "groups") else made
