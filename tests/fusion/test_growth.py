"""Growing programs are planned and compiled in seconds, in time near linear in their size."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from growing import LONGEST
from oracle import call, evaluate, graph_of

import fusedsl as fd
from fusedsl.config import DEFAULT

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from growth import exponent, families, family

ALL = families()
TEXTS = [name for name, f in ALL.items() if isinstance(f.make(f.sizes[0])[0], str)]
SAMPLE = {
    "squares of attention weights": 24,
    "gathers of itself": 24,
    "softmax along axes in turn": 6,
    "products with itself": 16,
    "reflected pads": 8,
    "many sorts": 20,
    "heat by rolls": 62,
    "rows, written in turn": 80,
    "convolutions, traced": 80,
}


@pytest.mark.parametrize("name", SAMPLE)
def test_a_first_call_takes_seconds(name):
    found = family(name, "cpu", (SAMPLE[name],))
    assert not found["faults"], found


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ALL)
def test_effort_grows_with_size(name, device):
    if device == "cuda":
        pytest.importorskip("numba_cuda")
    found = family(name, device)
    assert not found["faults"], found


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_short_and_within_the_limits(name):
    family = ALL[name]
    for n in family.sizes:
        text, arrays = family.make(n)
        assert len(text) <= LONGEST
        graph, _ = graph_of(text, arrays)
        assert len(graph.nodes()) <= DEFAULT.limits.operations
    with np.errstate(all="ignore"):
        text, arrays = family.make(family.sizes[0])
        evaluate(text, **arrays)


@pytest.mark.parametrize("name", [name for name in ALL if name not in TEXTS])
def test_functions_are_right_where_they_are_short(name):
    """A trace of a few steps gives what the function gives: the families mean something."""
    function, arrays = ALL[name].make(3)
    with np.errstate(all="ignore"):
        got, _ = call(function, *arrays.values())
        want = function(*arrays.values())
    several = isinstance(want, tuple)
    for one, right in zip(got if several else (got,), want if several else (want,), strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), np.asarray(right, np.float64), 2e-4, 2e-5)


def test_the_exponent_is_that_of_times_above_the_floor():
    calls = [{"n": 8, "seconds": 0.01}, {"n": 16, "seconds": 1.0}, {"n": 32, "seconds": 4.0}]
    assert exponent(calls) == pytest.approx(2.0)
    assert exponent(calls[:2]) is None


def test_an_outer_product_beyond_memory_is_refused():
    letters = "abcdefghijklmnopqrstuvwxyz"
    text = f'einsum("{",".join(letters)}->{letters}", {", ".join("x" for _ in letters)})'
    with pytest.raises(fd.LimitError):
        fd.evaluate(text, x=np.ones(9, np.float32))
