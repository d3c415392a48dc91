"""Normal random numbers on CUDA: pairs share one point, and functions of normal numbers keep their bits."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

from fusedsl.backends.cuda import peephole
from fusedsl.backends.cuda.elementwise import emit as elementwise_emit
from fusedsl.backends.cuda.elementwise import flat_emit


def run(text, *arrays):
    """(the result, the source) of a kernel on an emulated GPU."""
    with emulated_gpu(tails=False, multiprocessors=4) as gpu:
        kernel = fd.kernel(text, fallback=False)
        there = [gpu.asarray(x) for x in arrays]
        return to_host(kernel(*there)), str(kernel.source(*there))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("normal(3, x) + x", (4096,)),
        ("normal(3, x) + x", (16, 64)),
        ("normal(3, x) + x", (3, 5, 8)),
        ("normal(3, (7, 37))[:, 1:33] + x", (7, 32)),  # rows begin at odd and even positions
        ("sum(normal(3, x) + x, -1)", (5, 64)),
        ("mean(normal(3, x) + x, -1) * size(x)", (5, 64)),  # a divisor is an extent too, of the dtype of the sum
    ],
)
def test_neighbours_are_a_pair_wherever_rows_begin(text, shape):
    x = np.zeros(shape, np.float32)
    made, source = run(text, x)
    assert "in_pairs" in source
    np.testing.assert_allclose(made, fd.evaluate(text, x=x, device="cpu"), rtol=1e-5, atol=1e-5)


def test_rows_of_whole_counters_are_known_to_begin_with_one():
    source = fd.kernel("normal(3, x) + x").source(fd.spec((8, 64)), device="cuda")
    assert "& -4)" in source
    assert "& -4)" not in fd.kernel("normal(3, x) + x").source(fd.spec((8, 66)), device="cuda")


def test_normal_numbers_need_no_special_cases_and_keep_their_bits(monkeypatch):
    words = np.random.default_rng(0).integers(0, 1 << 32, 4096).astype(np.uint32)
    words[:4] = 0, 1, 511, (1 << 32) - 1
    text = "sqrt(log(float32(w >> 9) * 2.0**-23 + 2.0**-24) * -2)"
    made, source = run(text, words)
    assert "log_of_normal" in source and "sqrt_of_normal" in source
    rest = tuple(p for p in peephole.PEEPHOLES if p.rewrite is not peephole.normal_arguments)
    monkeypatch.setattr(elementwise_emit, "MAP_PEEPHOLES", rest)
    monkeypatch.setattr(flat_emit, "MAP_PEEPHOLES", rest)
    plain, other = run(text, words)
    assert "of_normal" not in other
    assert made.tobytes() == plain.tobytes()


@pytest.mark.parametrize(
    "argument",
    ["float32(w)", "float32(w >> 9) * 2.0**-23", "float32(w >> 9) * 2.0**-140 + 2.0**-140", "float32(w >> 9) - 1"],
)
def test_logarithms_that_may_meet_zero_or_subnormal_numbers_keep_their_tests(argument):
    assert "of_normal" not in fd.kernel(f"log({argument})").source(fd.spec(64, "uint32"), device="cuda")


def test_the_moments_are_those_of_the_normal_distribution():
    z = fd.evaluate("normal(11, (2**20,))").astype(np.float64)
    for power, expected in ((1, 0), (2, 1), (3, 0), (4, 3)):
        spread = {1: 1, 2: 2, 3: 15, 4: 96}[power] ** 0.5
        assert abs((z**power).mean() - expected) < 5 * spread / 1024
    even, odd = z[::2], z[1::2]
    assert abs((even * odd).mean()) < 5 / 724
    assert abs((even**2 * odd**2).mean() - 1) < 5 * 8**0.5 / 724
