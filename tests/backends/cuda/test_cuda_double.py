"""float64 functions of the CUDA target, held to CUDA's documented errors on hard inputs, without a GPU."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from test_cpu_math import hard_inputs, ulps

import fusedsl as fd
from fusedsl.ir.types import FLOAT64
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

EDGES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, np.inf, 1e308, 5e-324, 1e-310, 2.0**51 + 0.5, 2.0**52 + 1, 2.0**53 + 2, 1e20]
EDGES += [np.nextafter(1.0, 0.0), np.nextafter(1.0, 2.0)]


def _erf(x):
    return np.array([np.longdouble(mpmath.nstr(mpmath.erf(v), 25)) for v in x.tolist()])


FUNCTIONS = {"exp": (np.exp, 1), "log": (np.log, 1), "sin": (np.sin, 2), "cos": (np.cos, 2), "erf": (_erf, 2)}


def test_functions_of_one_number():
    missing = np.array([0x7FF8000012345678, 0xFFF8F00087654321, 0x7FF0000000000001], np.uint64).view(np.float64)
    x = np.concatenate([hard_inputs(FLOAT64)[::29], missing])
    with emulated_gpu() as gpu:
        made = fd.evaluate(", ".join(f"{name}(x)" for name in FUNCTIONS), x=gpu.asarray(x))
    for result, (name, (reference, most)) in zip(made, FUNCTIONS.items()):
        with np.errstate(all="ignore"):
            exact = reference(x.astype(np.longdouble)) if name != "erf" else reference(x)
        found = to_host(result)
        assert ulps(found, exact) <= most, name
        zero = found == 0
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(exact[zero]), name)


def test_powers():
    signed = [*EDGES, *(-e for e in EDGES), np.nan]
    edges = np.array(list(itertools.product(signed, signed)))
    draw = np.random.default_rng(5)
    bases = draw.uniform(0.1, 10, 400), np.exp(draw.uniform(-700, 700, 400)), 1 + draw.uniform(-1e-3, 1e-3, 400)
    exponents = draw.uniform(-50, 50, 400), draw.uniform(-1, 1, 400), draw.uniform(-5e5, 5e5, 400)
    x, y = (
        np.concatenate([edges[:, 0], *bases, -bases[0]]),
        np.concatenate([edges[:, 1], *exponents, draw.integers(-20, 20, 400)]),
    )
    with emulated_gpu() as gpu:
        found = to_host(fd.evaluate("x ** y", x=gpu.asarray(x), y=gpu.asarray(y)))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
        rounded = np.power(x, y)
    assert ulps(found, exact) <= 2
    plain = (rounded == 0) | np.isinf(rounded)
    np.testing.assert_array_equal(np.signbit(found[plain]), np.signbit(rounded[plain]))
