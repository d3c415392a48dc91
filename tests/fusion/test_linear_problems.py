"""Linear layers with what follows them, as functions of torch, equal torch: benchmarks/linear_problems.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import fusedsl as fd
import linear_problems

torch = pytest.importorskip("torch")

SIZES = (linear_problems.SMALL, {"n": 1, "d": 64, "h": 32, "m": 16}, {"n": 33, "d": 17, "h": 80, "m": 65})
ROUNDING = {"float32": 2.0**-23, "float64": 2.0**-52, "bfloat16": 2.0**-8}


def arrays(problem, sizes, dtype: str, device: str) -> dict:
    """Random operands of size 1, whose products are too."""
    draw, found = torch.Generator().manual_seed(7), {}
    for name, shape in problem.shapes(sizes).items():
        x = torch.randn(shape, generator=draw, dtype=torch.float64)
        found[name] = (x * shape[0] ** -0.5 if name.startswith("w") else x).to(getattr(torch, dtype)).to(device)
    return found


def expected_error(dtype: str, sizes: dict[str, int]) -> float:
    """Over the largest element: sums of products of both signs walk by the root of their number, and 16-bit results are
    rounded a few times in all."""
    terms = max(sizes.values())
    return ROUNDING[dtype] * (4 if dtype == "bfloat16" else 8 + terms**0.5)


def check(problem, sizes, dtype: str, device: str) -> None:
    given = arrays(problem, sizes, dtype, device)
    made = fd.fuse(problem.function, fallback=False)(**given)
    plain = problem.function(**given)
    right = problem.function(**{name: x.double() for name, x in given.items()})
    assert (made.shape, made.dtype, made.device.type) == (plain.shape, plain.dtype, plain.device.type)
    size = right.abs().max().clamp(min=1e-30)
    allowed = max(expected_error(dtype, sizes), 4 * float((plain.double() - right).abs().max() / size))
    if problem.name == "maximum subtract":  # a maximum less its own mean: nothing but what rounding leaves
        assert float(made.abs().max()) <= 1e-6
        return
    assert float((made.double() - right).abs().max() / size) <= allowed


@pytest.mark.parametrize("problem", linear_problems.PROBLEMS, ids=lambda p: p.name)
def test_linear_problems_equal_torch(problem):
    check(problem, SIZES[0], "float32", "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("problem", linear_problems.PROBLEMS, ids=lambda p: p.name)
@pytest.mark.parametrize("dtype", ROUNDING)
def test_linear_problems_of_other_dtypes_and_extents_equal_torch(problem, dtype):
    for sizes in SIZES:
        check(problem, sizes, dtype, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("problem", linear_problems.PROBLEMS, ids=lambda p: p.name)
@pytest.mark.parametrize("dtype", ROUNDING)
def test_linear_problems_equal_torch_on_a_card(problem, dtype):
    for sizes in (*SIZES, {"n": 200, "d": 512, "h": 1024, "m": 256}):
        check(problem, sizes, dtype, "cuda")
