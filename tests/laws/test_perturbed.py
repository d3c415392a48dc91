"""Monte Carlo arithmetic says about as much of short programs as worst cases do, and more of long chains."""

from __future__ import annotations

import numpy as np
import pytest
from bounds import evaluate
from oracle import graph_of
from perturbed import deviations

DRAW = np.random.default_rng(4)
X, Y = (DRAW.standard_normal((30, 30)) / 30**0.5 for _ in range(2))
CHAIN = "y = x; " + "y = y @ x; " * 6 + "y"


@pytest.mark.parametrize("text", ["x @ y", "softmax(x @ y)", "tanh(x @ y) @ y", "x / sum(x * x, 1)[:, None]", CHAIN])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_rounding_does_lies_within(text, dtype):
    """NumPy's own rounding does; and a wrong element in a thousand does not."""
    graph, arguments = graph_of(text, {"x": X.astype(dtype), "y": Y.astype(dtype)})
    (allowed,) = deviations(graph, arguments)
    ((exact, worst),) = evaluate(graph, arguments)
    size = np.abs(exact).max()
    step = np.finfo(dtype).eps * size
    assert step < allowed < 1e5 * step
    scope = {"x": X.astype(dtype), "y": Y.astype(dtype)}
    if "softmax" not in text and "sum" not in text:
        made = run(text, scope)
        assert 0 < np.abs(made - exact).max() <= allowed or dtype is np.float64
    assert worst.max() < allowed * 100 or text == CHAIN


def test_a_long_chain_is_known_better_than_its_worst_case():
    graph, arguments = graph_of(CHAIN, {"x": X.astype(np.float32)})
    (allowed,) = deviations(graph, arguments)
    ((exact, worst),) = evaluate(graph, arguments)
    assert allowed < 0.1 * worst.max() and allowed < 0.01 * np.abs(exact).max()


def test_what_is_not_rounded_does_not_move():
    graph, arguments = graph_of("x.T, x > 0", {"x": X})
    assert deviations(graph, arguments) == [0.0, 0.0]


def run(text: str, scope: dict) -> np.ndarray:
    """The text as Python."""
    *statements, result = text.split("; ")
    scope = {**scope, "tanh": np.tanh}
    for statement in statements:
        exec(statement, scope)
    return np.asarray(eval(result, scope), np.float64)
