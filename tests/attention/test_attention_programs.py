"""Random attention formulas: as one kernel, and right to the bound, on a card and on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
from attention_programs import draw, laid_out, on_device, worst

import fusedsl as fd


def arguments(program):
    return [laid_out(x, program.layouts.get(name, "")) for name, x in program.arrays.items()]


def listed(found):
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("seed", range(4))
def test_formulas_are_one_kernel_of_cuda_and_right_on_a_cpu(seed):
    program = draw(seed)
    kernel = fd.kernel(program.text)
    assert str(kernel.explain(*arguments(program), device="cuda", compile=False)).startswith("1 kernel ")
    assert worst(program, [np.asarray(x) for x in listed(kernel(*arguments(program)))]) <= 1, program


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(1000, 1016))
def test_formulas_on_a_card(seed):
    cupy = pytest.importorskip("cupy")
    program = draw(seed)
    given = [on_device(cupy, x) for x in arguments(program)]
    found = [cupy.asnumpy(x) for x in listed(fd.kernel(program.text)(*given))]
    assert worst(program, found) <= 1, program
