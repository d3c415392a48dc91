"""The test of the verifier: every fault that is planted in a lowered program, a partition or a plan is found, and none
where there is none."""

from __future__ import annotations

import pytest
from planted_kernels import MEANINGS as OF_PLANS
from planted_kernels import PLANS
from planted_lowered import LOWERED, MEANINGS
from planted_partitions import MEANINGS as OF_PARTITIONS
from planted_partitions import PARTITIONS
from planted_plans import PROGRAMS, Mutation, stages, verified

from fusedsl.ir.verify import VerifyError

STAGES = {"lowered": LOWERED, "partition": PARTITIONS, "plan": PLANS}
FAULTS = [pytest.param(stage, m, id=f"{stage}: {m.name}") for stage, table in STAGES.items() for m in table]

OF_MEANING = [
    pytest.param(stage, m, id=f"meaning: {m.name}")
    for stage, table in (("lowered", MEANINGS), ("partition", OF_PARTITIONS), ("plan", OF_PLANS))
    for m in table
]


def planted(stage: str, mutation: Mutation) -> dict:
    """Every program that has a place for a fault, with the fault."""
    made = {name: mutation.change(getattr(stages(name), stage)) for name in PROGRAMS if name not in mutation.unless}
    return {name: x for name, x in made.items() if x is not None}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", PROGRAMS)
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


def parts(made):
    """What is compared: groups are equal to themselves alone."""
    return [*map(vars, made.groups), made.temporaries] if hasattr(made, "groups") else made
