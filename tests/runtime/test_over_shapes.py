"""One kernel called in turn for several shapes, dtypes kept: right results each time, and the same bits for a shape."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from draw import Program, draw
from laws import Case, cpu, keeps
from oracle import graph_of

from fusedsl.errors import FusedslError
from fusedsl.ir.checks import holds
from fusedsl.ir.dims import evaluate
from fusedsl.ir.interp import extents_of
from fusedsl.program import call_steps
from fusedsl.runtime import specialize

EXTENTS = (0, 1, 1, 2, 3, 5, 8, 17, 33, 65)


def reshaped(program: Program, r: random.Random) -> Iterator[Program]:
    """The program on arrays of other shapes that it takes: extents that were equal still are, or become 1."""
    for _ in range(20):
        extents = {n: r.choice((n, *EXTENTS)) if n > 1 else n for a in program.arrays.values() for n in np.shape(a)}
        alone = r.choice((0.0, 0.0, 0.2))  # how many become 1 in one array
        arrays = dict(program.arrays)
        for name, x in program.arrays.items():
            if isinstance(x, np.ndarray) and x.size:
                shape = tuple(1 if r.random() < alone else extents[n] for n in x.shape)
                arrays[name] = np.resize(x, shape) if math.prod(shape) <= 3000 else x
        if takes(made := replace(program, arrays=arrays)):
            yield made


def takes(program: Program) -> bool:
    """Whether the program is one for its arrays, and none of its values is large."""
    try:
        graph, arguments = graph_of(program.text, program.arrays)
    except FusedslError:
        return False
    extents = extents_of(arguments)
    sizes = (math.prod(evaluate(d, extents) for d in n.type.shape) for n in graph.nodes())
    return all(holds(c, extents) for c in graph.checks) and sum(sizes) < 100_000


def hold_over_shapes(seed: int, target) -> None:
    r, program = random.Random(seed), draw(seed, 3)
    cases = [Case(program), *(Case(p) for _, p in zip(range(4), reshaped(program, r)))]
    first: dict[int, list[bytes]] = {}
    for k in [0, *r.choices(range(len(cases)), k=7)]:
        case = cases[k]
        case.kernel = cases[0].kernel
        what = f"seed {seed}, {[np.shape(a) for a in case.arguments]}"
        results = target(case)()
        case.compare(results, what)
        bits = [np.ascontiguousarray(x).tobytes() for x in results]
        assert first.setdefault(k, bits) == bits, what
        if r.random() < 0.4:
            keeps(case, target(case))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_one_kernel_on_a_cpu(first):
    for seed in range(first, first + 10):
        hold_over_shapes(60_000 + seed, cpu)


@pytest.mark.parametrize("seed", range(8))
def test_one_kernel_on_cuda_whose_binaries_are_few(seed, monkeypatch):
    pytest.importorskip("numba_cuda")
    import devices
    from ptx import emulated_gpu

    monkeypatch.setattr(call_steps, "SPECIALIZED_BINARIES", 2)
    monkeypatch.setattr(specialize, "MAX_VARIANTS", 1)
    with emulated_gpu(multiprocessors=4):
        hold_over_shapes(61_000 + seed, devices.on(devices.Emulated()))
