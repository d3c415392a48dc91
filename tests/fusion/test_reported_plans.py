"""Plans that lost: none moves more bytes, issues more instructions or takes longer by the time model than the unfused
program with library products."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from reported_plans import PLANS, PlanCase

import fusedsl as fd
from fusedsl.report.explain import Explanation, explain

SLOWER = 1.05  # less is no difference that the time model knows
ISSUED = 2.2  # instructions for each multiply-add of a product: itself, loads, what follows it
CASES = [pytest.param(case, device, id=f"{case.name}, {device}") for case in PLANS for device in case.devices]


@cache
def explained(program, arrays: tuple, device: str) -> Explanation:
    if callable(program):
        given = [np.zeros(shape, dtype) for _, (shape, dtype) in arrays]
        return explain(fd.fuse(program).program(*given)[0], given, device, compile=False)
    specs = {name: fd.spec(shape, dtype) for name, (shape, dtype) in arrays}
    return fd.kernel(program).explain(**specs, device=device, compile=False)


def plan(case: PlanCase, device: str) -> Explanation:
    return explained(case.program, tuple(case.arrays.items()), device)


@pytest.mark.parametrize("case, device", CASES)
def test_a_plan_moves_no_more_bytes_than_the_unfused_program(case, device):
    found = plan(case, device)
    assert found.bytes <= SLOWER * found.before.bytes, found


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in PLANS])
def test_a_plan_takes_no_longer_than_the_unfused_program(case):
    found = plan(case, "cuda")
    assert found.seconds <= SLOWER * found.before.seconds, found


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in PLANS if c.like])
def test_a_plan_takes_no_longer_than_that_of_the_same_in_other_words(case):
    text, arrays = case.like
    found, other = plan(case, "cuda"), explained(text, tuple(arrays.items()), "cuda")
    assert len(found.kernels) <= len(other.kernels) + 1, found  # one may convert operands first
    assert found.seconds <= 1.5 * other.seconds, found


@pytest.mark.parametrize("case, device", [p for p in CASES if p.values[0].multiplications])
def test_a_product_is_computed_once(case, device):
    found = plan(case, device)
    assert sum(k.instructions for k in found.kernels) <= ISSUED * case.multiplications, found
    assert not any("compute the same" in note for note in found.notes)


@pytest.mark.parametrize("case, device", [p for p in CASES if p.values[0].stored])
def test_no_temporary_is_larger_than_it_has_to_be(case, device):
    found = plan(case, device)
    sizes = {t.name: t.type for t in found.temporaries if elements(t.type) > case.stored}
    assert not sizes, found


@pytest.mark.parametrize("case, device", [p for p in CASES if p.values[0].kernels])
def test_the_kernels_are_few(case, device):
    found = plan(case, device)
    assert len(found.kernels) <= case.kernels, found


@pytest.mark.parametrize("case, device", [p for p in CASES if p.values[0].dtypes])
def test_a_temporary_that_every_reader_rounds_is_stored_rounded(case, device):
    types = {t.type.partition("[")[0] for t in plan(case, device).temporaries}
    assert types <= case.dtypes


def elements(told: str) -> int:
    """The elements of a type as it is printed: `float32[3, 4]`."""
    count = 1
    for extent in told.partition("[")[2].rstrip("]").split(","):
        count *= int(extent or 1)
    return count
