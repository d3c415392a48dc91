"""Arrays stored between kernels: products with several readers, expensive values read at several coordinates, and
values that would make kernels grow without bound."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.fusion import partition_graph
from fusedsl.fusion.coordinates import Axis, Coordinate
from fusedsl.fusion.demand_analysis import BOUND_TAG, count_read_patterns, count_reads

S, X, W = (64, 64), (64, 32), (32, 32)
SHIFTED = "f(u) = u + 0.1 * (roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u)\n"

# text, the arrays that are stored for it, kernels on the CPU, shapes
PROGRAMS = {
    "a product alone": ("x @ w", 0, 1, {"x": X, "w": W}),
    "what is done with a product": ("y = x @ w; relu(y) * y", 0, 1, {"x": X, "w": W}),
    "scores are not stored": ("softmax(x @ x.T) @ x", 0, 1, {"x": X}),
    "their statistics beside": ("s = x @ x.T; logsumexp(s, -1), softmax(s) @ x", 0, 1, {"x": X}),
    "a narrow chain": ("relu(x @ w) @ w", 0, 1, {"x": X, "w": W}),
    "a product squared": ("a = x @ x.T; a @ a", 1, 2, {"x": X}),
    "an epilogue that is multiplied on": ("(x @ w) @ (x @ w * 2).T", 2, 2, {"x": X, "w": W}),
    "weights of projections": ("softmax((x @ w) @ (x @ v).T) @ (x @ u)", 3, 3, {"x": X, "w": W, "v": W, "u": W}),
    "columns of weights": ("softmax(x @ x.T, axis=0) @ x", 1, 3, {"x": X}),
    "each product once": ("b = s @ s; b = b @ b + b; b @ b", 2, 3, {"s": S}),
    "the layer, and not its product": ("y = x @ w; z = relu(y + 1); z @ z.T", 1, 2, {"x": X, "w": W}),
    "a step of a stencil": (SHIFTED + "f(s)", 0, 1, {"s": S}),
    "steps of a stencil": (SHIFTED + "f(f(f(s)))", 2, 3, {"s": S}),
    "neighbours of what is cheap": ("y = x * 2; y[1:] - y[:-1]", 0, 1, {"x": X}),
    "steps and their stack": ("y = sin(exp(x)); z = sin(exp(y)); stack((y, z)), z", 2, 2, {"x": X}),
    "products in turn and their stack": ("y = s @ s; z = s @ tanh(y); stack((y, z), -1), z", 2, 3, {"s": S}),
    "a stack of what is cheap": ("y = x * 2; z = y + 1; stack((y, z)), z", 0, 2, {"x": X}),
    "rows that read their own elements": ("softmax(exp(x))", 0, 1, {"x": X}),
}


def arrays(shapes):
    generator = np.random.default_rng(0)
    return {n: generator.standard_normal(shape) / 8 for n, shape in shapes.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_stored(name, monkeypatch):
    text, stored, kernels, shapes = PROGRAMS[name]
    found = []
    real = partition_graph.materialize
    monkeypatch.setattr(partition_graph, "materialize", lambda *told: found.append(real(*told)) or found[-1])
    kernel = fd.kernel(text + f"  # {name}")
    told = kernel.explain(**arrays(shapes))
    assert (len(found[-1]), len(told.kernels)) == (stored, kernels), told
    for one in found[-1]:
        assert any(one.reason in refusal.reason for refusal in told.refused)


@pytest.mark.parametrize("steps, kernels", ((100, 1), (140, 2), (250, 4)))
def test_long_recurrences_of_several_arrays_are_few_kernels(steps, kernels):
    text = "x = x * 0.5 + y * 0.1; y = y - x * 0.01; " * steps + "x + y"
    told = fd.kernel(text).explain(x=np.ones(8), y=np.ones(8), compile=False)
    assert len(told.kernels) <= kernels, told


@pytest.mark.parametrize("device, kernels", (("cpu", 7), ("cuda", 4)))
def test_long_recurrences_of_means_are_few_kernels(device, kernels):
    step = "x = x * 0.7 + mean(y, -1, keepdims=True) * 0.1; y = y * 0.9 - x * 0.01; "
    x = fd.spec((4, 8), "float64")
    told = fd.kernel(step * 40 + "x + y").explain(x=x, y=x, device=device, compile=False)
    assert len(told.kernels) <= kernels, told


def test_kernels_of_a_cpu_have_few_folds_that_share_nothing():
    x = fd.spec((64, 64))
    many = ", ".join(f"sum(x * {k}, 0)" for k in range(1, 33))
    sums = "y = x\n" + "".join(f"y = tanh(y) * x\ns{k} = sum(y, 0)\n" for k in range(20))
    for text, kernels in ((many, 2), (sums + "return " + ", ".join(f"s{k}" for k in range(20)), 1)):
        assert len(fd.kernel(text).explain(x, device="cpu", compile=False).kernels) == kernels, text


@pytest.mark.parametrize("count", (20, 100))
@pytest.mark.parametrize(
    "step", ("y = softmax(y)", "y = y - mean(y, 0)", "y = sin(y) + x", "y = y @ y", "y = y[i] + y")
)
def test_long_programs_are_kernels_of_bounded_size(step, count):
    given = {"x": np.ones((8, 8)), "i": np.arange(8)}
    text = f"y = x\n{step}\n" + f"{step}\n" * (count - 1) + "return y"
    told = fd.kernel(text).explain(**{n: given[n] for n in fd.kernel(text).params})
    assert max(sum(map(len, kernel.members)) for kernel in told.kernels) < 20_000


# -- places


ROW, COLUMN = Axis(100), Axis(200)
B, C = (Axis(100, BOUND_TAG + k) for k in range(2))


def at(*axes):
    return tuple(a if isinstance(a, Coordinate) else Coordinate(0, 1, a) for a in axes)


@pytest.mark.parametrize(
    "demands, several, ways",
    [
        ([at(ROW, COLUMN)], 1, 1),
        ([at(ROW, COLUMN), at(ROW, B)], 1, 1),  # a row's elements, and what is reduced of them
        ([at(ROW, B), at(B, C)], 1, 2),  # rows of a matrix, and those of all rows
        ([at(ROW, B), at(B, COLUMN)], 2, 2),
        ([at(ROW, COLUMN), at(COLUMN, ROW)], 2, 2),
        ([at(ROW, COLUMN), at(ROW, Coordinate(1, 1, COLUMN))], 2, 2),
    ],
)
def test_places_and_ways_of_reading(demands, several, ways):
    assert (count_reads(demands), count_read_patterns(demands)) == (several, ways)


ALIKE = "several segments of the program would compute it"


@pytest.mark.parametrize("text, kernels", [
    ("p = softmax(x @ x.T); p @ x, p @ bfloat16(2 * x + 1)", 3),
    ("p = softmax(x @ x.T); p @ bfloat16(2 * x + 1), p @ x, max(p, axis=-1)", 3),
    ("p = softmax(x @ x.T); h = bfloat16(p @ x); h @ h.T, p @ bfloat16(2 * x + 1)", 4),
])  # fmt: skip
def test_what_arrays_share_is_in_one_segment(text, kernels):
    """An array stands in the segment of what it shares scores with, where it has no reader before: none is stored."""
    told = fd.kernel(text).explain(fd.spec((2048, 64), "bfloat16"), device="cuda", cc=90, compile=False)
    assert len(told.kernels) <= kernels, told
    assert not any(ALIKE in refusal.reason for refusal in told.refused)


# -- results of stacks and long chains

STEPS = "y = sin(exp(x)); z = sin(exp(y)) + y; "
STACKED = ("stack((y, z)), z", "stack((y, z, y), 1), y", "stack((y, z, x), -1)[..., 1] + z, y", "sum(stack((y, z)), 0)")
LONG = "y = x * 0.9; " + "x = x * 0.5 + y * 0.1; y = y - x * 0.01; " * 140 + "x + y, y"


@pytest.mark.parametrize("text", [*(STEPS + end for end in STACKED), LONG], ids=[*STACKED, "a long recurrence"])
def test_stacks_and_long_recurrences_are_right_on_both_targets(text):
    from ptx import emulated_gpu

    x = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    kernel = fd.kernel(text, fallback=False, verify=True)
    kernel(x)
    pytest.importorskip("numba_cuda")
    with emulated_gpu() as gpu:
        kernel(gpu.asarray(x))
