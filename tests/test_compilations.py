"""A new shape does not recompile where nothing of a kernel's binary depends on it."""

from __future__ import annotations

import random

import pytest

import fusedsl as fd
from fusedsl.report.explain import case_of
from fusedsl.runtime.compile import cuda_key

MOST = 12
SUMS = ("sum(x)", "sum(x, 0)", "sum(x, -1)")


def binaries(text, dtype, shapes):
    """What these shapes compile; arrays but x are rows of it."""
    made, found = fd.kernel(text), set()
    for shape in shapes:
        given = [fd.spec(shape if name == "x" else shape[-1:], dtype) for name in made.params]
        case = case_of(made._program, given, "cuda", 90)
        for plan, bound in case.kernels:
            kernel, schedule = case.scheduled(plan, bound)
            found.add(cuda_key(kernel, schedule, plan.digest, (9, 0)))
    return found


def shapes(rows, columns, count=1000):
    """As many between 2 and 4 as between 2,000 and 4,000, up to these numbers, unit axes included."""
    draw = random.Random(0)
    return [(int(rows ** draw.random()), int(columns ** draw.random())) for _ in range(count)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("text", ["gelu(x)", "x * 2 + 1", "x + b", "where(x > b, x, b)"])
def test_a_thousand_shapes_of_a_map_share_a_dozen_binaries(text, dtype):
    assert len(binaries(text, dtype, shapes(1e6, 262_144))) <= MOST


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("text", SUMS)
def test_a_thousand_shapes_of_sums_share_a_dozen_binaries(text, dtype):
    assert len(binaries(text, dtype, shapes(1e5, 30_000))) <= MOST


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_thousand_shapes_of_sums_over_a_middle_axis_share_a_dozen_binaries(dtype):
    deep = [(2 + rows % 97, rows, columns) for rows, columns in shapes(1e4, 30_000) if columns > 1]
    assert len(binaries("sum(x, 1)", dtype, deep)) <= MOST


def test_results_of_tuning_are_near_the_untuned_ones():
    """The stored run of the suite `tune`: no schedule was more than 10 % slower than the best of its neighbours."""
    import json
    from pathlib import Path

    results = Path(__file__).parent.parent / "benchmarks" / "results" / "h200_tune.json"
    rows = json.loads(results.read_text())["rows"]
    times = {(r["workload"], r["shape"], r["dtype"], r["peer"]): r["median_us"] for r in rows}
    cases = {case[:3] for case in times}
    assert len(cases) >= 70
    assert all(times[(*case, "fusedsl")] <= 1.1 * times[(*case, "fusedsl tuned")] for case in cases)
