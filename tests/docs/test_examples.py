"""The examples run as a newcomer runs them, and say what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fusedsl as fd

EXAMPLES = Path(__file__).parents[2] / "examples"
COMPARED = ("softmax", "gelu_swiglu", "layer_norm_residual", "black_scholes")


def run(name: str, *arguments: str) -> str:
    """What an example prints; its exit code must be 0."""
    command = [sys.executable, "-W", "error::RuntimeWarning", str(EXAMPLES / f"{name}.py"), *arguments]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=EXAMPLES.parent, env=environment())
    assert told.returncode == 0, told.stderr[-3000:]
    return told.stdout


def environment() -> dict[str, str]:
    """This process's, with the package under test first on the path."""
    import os

    import fusedsl

    here = str(Path(fusedsl.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))}


def test_the_tour_shows_every_chapter():
    told = run("00_tour", "--device", "cpu")
    chapters = re.findall(r"^--- (\d+)\.", told, re.MULTILINE)
    assert chapters == [str(k + 1) for k in range(17)]
    assert "[[ 3.  5.  7.]" in told and "did you mean softmax?" in told
    assert "1 kernel instead of 5" in told and "exp(x - max)" in told


@pytest.mark.gpu
def test_the_tour_on_a_gpu():
    assert "did you mean softmax?" in run("00_tour", "--device", "cuda")


def compared(told: str) -> list[tuple[int, float]]:
    """(kernels, error) of every line that starts with `fused`."""
    lines = re.findall(r"^fused +[\d.]+ ms +(\d+) +[\d.]+ MB +([\d.e+-]+|nan)$", told, re.MULTILINE)
    return [(int(kernels), float(error)) for kernels, error in lines]


@pytest.mark.parametrize("name", COMPARED)
def test_an_example_is_one_kernel_and_as_right_as_float32_can_be(name):
    found = compared(run(name, "--size", "16"))
    assert len(found) == (2 if name == "gelu_swiglu" else 1)
    assert all(kernels == 1 and error < 1e-6 for kernels, error in found)


@pytest.mark.gpu
@pytest.mark.parametrize("name", COMPARED)
def test_an_example_on_a_gpu(name):
    found = compared(run(name, "--device", "cuda", "--size", "4096"))
    assert found and all(kernels == 1 and error < 1e-6 for kernels, error in found)


def expressions():
    """The list of examples/expressions.py."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        import expressions
    finally:
        sys.path.remove(str(EXAMPLES))
    return expressions


LISTED = expressions().EXPRESSIONS + expressions().PRODUCTS


@pytest.mark.parametrize("name", [e.name for e in LISTED])
def test_an_expression_is_as_few_kernels_as_it_says(name):
    """At the size of use; the example itself checks small ones against the interpreter."""
    e = next(e for e in LISTED if e.name == name)
    given = {n: fd.spec(e.shape(n, False), e.dtype(n)) if n in e.arrays else e.inputs[n] for n in e.inputs}
    told = fd.kernel(e.text).explain(**given, cc=90, compile=False)
    assert len(told.kernels) <= e.kernels, str(told)


def test_the_expressions_run():
    told = run("expressions", "norm")
    assert "rms_norm_gemma" in told and "layer_norm_backward" in told
    assert re.search(r"^ 28 int4_linear +1 ", run("expressions", "int4_linear"), re.MULTILINE)


def test_six_kinds_of_attention():
    told = run("attention", "--length", "200")
    assert len(re.findall(r"farthest from float64: [0-9.]+e-0[5-9]$", told, re.MULTILINE)) == 6
