"""Random expressions: every target gives what the interpreter gives, and inputs stay as they were."""

from __future__ import annotations

import numpy as np
from bounds import evaluate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_targets import agrees

import fusedsl as fd
from fusedsl.prepare import describe_all

UNARY = (
    "exp({})",
    "tanh({})",
    "absolute({})",
    "-{}",
    "sqrt(absolute({}))",
    "sigmoid({})",
    "sin({})",
    "floor({})",
    "relu({})",
)
BINARY = ("{} + {}", "{} - {}", "{} * {}", "maximum({}, {})", "where({} > 0, {}, 1.5)", "{} / (absolute({}) + 0.5)")
FOLDS = ("sum", "mean", "max", "min", "var")
LEAVES = ("x", "y", "b", "w[:, None]", "0.5", "x[::-1]", "s")


@st.composite
def expressions(draw, depth: int = 4) -> str:
    """A text over x, y (rows × columns), b (columns), w (rows) and a number s, with row and column folds."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(LEAVES))
    kind = draw(st.integers(0, 9))
    inner = expressions(depth - 1)
    if kind < 3:
        return draw(st.sampled_from(UNARY)).format(f"({draw(inner)})")
    if kind < 8:
        return draw(st.sampled_from(BINARY)).format(f"({draw(inner)})", f"({draw(inner)})")
    if kind == 8:
        return f"softmax(({draw(inner)}) + x, axis={draw(st.sampled_from((0, -1)))})"
    return f"{draw(st.sampled_from(FOLDS))}(({draw(inner)}) + x, axis={draw(st.sampled_from((0, 1)))}, keepdims=True)"


def values(rows: int, columns: int, seed: int) -> dict:
    random = np.random.default_rng(seed)
    shapes = {"x": (rows, columns), "y": (rows, columns), "b": (columns,), "w": (rows,)}
    return {k: random.standard_normal(s).astype(np.float32) for k, s in shapes.items()} | {"s": 1.25}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    texts=st.lists(expressions(), min_size=1, max_size=3),
    rows=st.integers(2, 9),
    columns=st.integers(2, 70),
    seed=st.integers(0, 99),
)
def test_random_programs_agree_with_the_interpreter(texts, rows, columns, seed):
    arrays = values(rows, columns, seed)
    kernel = fd.kernel(", ".join(f"({t}) + x" for t in texts))
    arguments = [arrays[name] for name in kernel.params]
    before = [np.copy(a) for a in arguments]
    results = kernel(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    graph = kernel._program.graph(describe_all(kernel.params, arguments))
    for k, (made, (value, bound)) in enumerate(zip(results, evaluate(graph, arguments))):
        agrees(made, value, bound, graph.results[k].type.dtype, f"{kernel.text!r} on {rows} x {columns}, result {k}")
    for a, b in zip(arguments, before):
        np.testing.assert_array_equal(a, b)
