"""Attention patterns: softmax(q @ k.mT) @ v and its variants in one kernel, whose scores are never stored."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import graph_of

import fusedsl as fd
from fusedsl.fusion.lower import lower
from fusedsl.fusion.online.find_attention import match_attention
from fusedsl.ir.interp import interpret
from fusedsl.program.call_steps import extents_of
from fusedsl.program.first_call import run_interpreter
from fusedsl.rewrite import rules  # noqa: F401  (registers the laws)
from fusedsl.rewrite.engine import rewrite
from fusedsl.rewrite.online.printer import check, show
from fusedsl.runtime.arrays import describe_all

RANDOM = np.random.default_rng(5)
SCORES = "s = q @ k.mT * 0.3\n"
CAUSAL = "iota(s, -1) <= iota(s, -2)"

# text behind the scores: how many kernels, how many of them stream
FORMULAS = {
    "softmax": ("softmax(s) @ v", 1, 1),
    "by hand": ("e = exp(s - max(s, axis=-1, keepdims=True)); (e @ v) / sum(e, -1, keepdims=True)", 1, 1),
    "causal": (f"softmax(where({CAUSAL}, s, -inf)) @ v", 1, 1),
    "window": (f"softmax(s, where=({CAUSAL}) & (iota(s, -1) > iota(s, -2) - 20)) @ v", 1, 1),
    "softcap and slopes": ("softmax(5 * tanh(s / 5) + slope[:, None, None] * iota(s, -1)) @ v", 1, 1),
    "bias": ("softmax(s + bias) @ v", 1, 1),
    "document": ("softmax(where(doc[:, None] == doc[None, : size(s, -1)], s, -inf)) @ v", 1, 1),
    "sink": ("m = maximum(max(s, axis=-1, keepdims=True), slope[:, None, None]); e = exp(s - m); "
             "(e @ v) / (sum(e, -1, keepdims=True) + exp(slope[:, None, None] - m))", 1, 1),
    "softmax plus one": ("m = maximum(max(s, axis=-1, keepdims=True), 0); e = exp(s - m); "
                         "(e @ v) / (sum(e, -1, keepdims=True) + exp(-m))", 1, 1),
    "sigmoid": ("sigmoid(s) @ v", 1, 1),
    "masked sigmoid": (f"where({CAUSAL}, sigmoid(s), 0) @ v", 1, 1),
    "squared relu": ("relu(s)**2 @ v", 1, 1),
    "dropout": ("where(uniform(7, (2, 3, size(s, -2), size(s, -1))) > 0.25, softmax(s) / 0.75, 0) @ v", 1, 1),
    "two values": ("softmax(s) @ v, softmax(s) @ k", 1, 1),
    "with logsumexp": ("softmax(s) @ v, logsumexp(s, -1)", 1, 1),
    "with entropy": ("p = log_softmax(s); softmax(s) @ v, -sum(exp(p) * p, -1)", 1, 1),
    "rows alone": ("logsumexp(s, -1), argmax(s, axis=-1)", 1, 1),
    "places beside a mask": (f"s = where({CAUSAL}, s, -inf); softmax(s) @ v, argmax(s, axis=-1)", 1, 1),
    "residual": ("q[..., :5] + 2 * (softmax(s) @ v)", 1, 1),
    "normed": ("layer_norm(softmax(s) @ v)", 2, 1),
    "entropy by logarithm": ("p = softmax(s); softmax(s) @ v, sum(p * log(p), -1)", 1, 1),
    "entropy of what counts": (f"p = softmax(where({CAUSAL}, s, -inf)); p @ v, sum(xlogy(p, p), -1)", 1, 1),
    "entropy, guarded": (f"p = softmax(s, where={CAUSAL}); sum(where(p > 0, p * log2(p), 0), -1)", 1, 1),
    "largest weight": (f"p = softmax(where({CAUSAL}, s, -inf)); p @ v, max(p, axis=-1), argmax(p, axis=-1)", 1, 1),
    "divergence of temperatures": ("p = softmax(s); r = softmax(s / 2); sum(p * log(p / r), -1)", 1, 1),
    "roots": ("sum(sqrt(softmax(s)), -1)", 1, 1),
    "entropy of more than 0": ("p = softmax(s); sum(p * log(p + 1e-9), -1)", 2, 2),
    "weighed by logarithms too": ("p = log_softmax(s); (exp(p) * p) @ v", 2, 2),
    "variance of places": ("p = softmax(s - 0.3 * abs(iota(s, -1) - 20.0)); j = iota(s, -1)\n"
                           "sum(p * square(j - sum(p * j, -1, keepdims=True)), -1)", 2, 2),
    "probabilities too": ("softmax(s), softmax(s) @ v", 3, 0),
}  # fmt: skip


def arrays(n, m, heads=3, d=8, e=5):
    made = {
        "q": (2, heads, n, d),
        "k": (2, heads, m, d),
        "v": (2, heads, m, e),
        "bias": (heads, n, m),
        "slope": (heads,),
    }
    found = {name: RANDOM.standard_normal(shape).astype(np.float32) for name, shape in made.items()}
    return found | {"doc": np.sort(RANDOM.integers(0, 5, n)).astype(np.int32)}


# Those that are compiled and run: the others are variations, whose plans are looked at.
RUN = ("sink", "masked sigmoid", "dropout", "two values", "with entropy", "rows alone", "entropy by logarithm")
RUN += ("entropy of what counts", "entropy, guarded", "largest weight", "divergence of temperatures", "roots")
RUN += ("weighed by logarithms too", "variance of places", "places beside a mask")


def plan_of(text, given):
    """The kernels' plans."""
    kernel = fd.kernel(text)
    facts = list(describe_all(kernel.params, [given[name] for name in kernel.params]).values())
    return kernel._program.plans.plan(facts, extents_of(facts)).kernels


def run(text, given):
    """(results, what the interpreter says in float64)"""
    kernel = fd.kernel(text, fallback=False)
    values = [given[name] for name in kernel.params]
    got = kernel(*values)
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in values]
    expected = run_interpreter(kernel._program.plans, describe_all(kernel.params, wide))
    return (got if isinstance(got, tuple) else (got,)), expected


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_streams(name):
    text, kernels, streams = FORMULAS[name]
    plans = plan_of(SCORES + text, arrays(70, 70 if "doc" in text else 150))
    assert (len(plans), sum(p.attention is not None for p in plans)) == (kernels, streams)


@pytest.mark.parametrize("name", RUN)
def test_what_streams_is_right(name):
    text = FORMULAS[name][0]
    for a, b in zip(*run(SCORES + text, arrays(70, 70 if "doc" in text else 150))):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["causal", "with entropy", "sigmoid", "entropy, guarded", "entropy of more than 0"])
def test_a_stream_prints_and_keeps_its_rules(name):
    graph, _ = graph_of(SCORES + FORMULAS[name][0], arrays(6, 9))
    found = match_attention(lower(rewrite(graph)), lambda d, n: n > 0)
    for one in found.patterns:
        check(one.reduction)
        assert "for each" in show(one.reduction)
    if name == "entropy of more than 0":
        assert [reason for _, reason in found.refused] == [
            "sum does not share a pass with the sum that it depends on, because of log between them"
        ]


@pytest.mark.parametrize("n, m", [(1, 1), (65, 129), (3, 0), (130, 1)])
def test_any_length(n, m):
    softmax = "softmax(s) @ v, " if m else ""
    got, expected = run(f"s = q @ k.mT\n{softmax}sigmoid(s) @ v, sum(s, -1)", arrays(n, m))
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_any_strides():
    given = arrays(40, 50)
    given["q"] = given["q"][:, ::-1, ::2]
    given["k"] = np.asfortranarray(given["k"])
    given["v"] = np.broadcast_to(given["v"][:1, :, ::-1], given["v"].shape)
    got, expected = run(SCORES + "softmax(s) @ v", given)
    np.testing.assert_allclose(got[0], expected[0], rtol=2e-5, atol=2e-5)


def test_large_scores_and_masked_rows():
    """Scores up to 1e5 neither overflow nor vanish; a row that is masked whole is NaN in softmax, 0 with where=."""
    given = arrays(9, 20)
    given["q"] = given["q"] * np.float32(2e4)
    got, expected = run("s = q @ k.mT\nsoftmax(s) @ v", given)
    np.testing.assert_allclose(got[0], expected[0], rtol=2e-3, atol=2e-2)
    mask = "iota(s, -1) < iota(s, -2)"
    plain, zero = fd.evaluate(f"s = q @ k.mT\nsoftmax(where({mask}, s, -inf)) @ v, softmax(s, where={mask}) @ v", given)
    assert np.isnan(plain[:, :, 0]).all() and not np.isnan(plain[:, :, 1:]).any()
    assert (zero[:, :, 0] == 0).all()


def test_what_is_masked_is_not_touched():
    """NaN and inf in padding reach no result, and those that count do."""
    given = arrays(10, 20)
    kernel = fd.kernel("s = q @ k.mT\nsoftmax(where(iota(s, -1) < 12, s, -inf)) @ v")
    clean = kernel(q=given["q"], k=given["k"], v=given["v"])
    given["v"][:, :, 12:], given["k"][:, :, 12:] = np.nan, np.inf
    given["v"][1, 2, 12:] = np.inf
    np.testing.assert_allclose(kernel(q=given["q"], k=given["k"], v=given["v"]), clean, rtol=1e-6, atol=1e-6)
    given["v"][0, 1, 3] = np.nan
    assert np.isnan(kernel(q=given["q"], k=given["k"], v=given["v"])[0, 1]).all()


@pytest.mark.parametrize("text", ["p * log(p)", "p * log_softmax(s)", "p * s"])
def test_zero_times_infinity_is_nan_wherever_tiles_end(text):
    """A tile that is masked whole is skipped, but not where what is masked is -inf times a weight of 0."""
    for begin in (0, 64, 128, 150):
        got, expected = run(
            f"{SCORES}s = where(iota(s, -1) >= {begin}, s, -inf); p = softmax(s)\nsum({text}, -1)", arrays(9, 150)
        )
        assert np.array_equal(np.isnan(got[0]), np.isnan(expected[0]))
        assert np.isnan(got[0]).all() == (begin > 0)


def test_why_scores_are_stored():
    told = str(fd.kernel("s = q @ k.mT\nsoftmax(s), softmax(s) @ v").explain(*[arrays(8, 8)[x] for x in "qkv"]))
    assert "its scores are needed elsewhere too, so that they are stored" in told
    specs = [fd.spec((2, 3, 8, 8), "float32")] * 3  # few rows
    told = str(fd.kernel("softmax(q @ k.mT) @ v").explain(*specs, compile=False))
    assert "it is stored, because a tile has 16 rows or more, and these are 8" in told


@pytest.mark.parametrize("text", ["sum(softmax(x), axis=1)", "sum(softmax(x) * y, axis=1)", "softmax(x, axis=1) @ y"])
def test_folds_of_a_fold_over_another_axis_are_no_stream_where_nothing_weighs(text):
    x, y = RANDOM.standard_normal((2, 3, 5, 5)).astype(np.float32)
    kernel = fd.kernel(text)
    values = [{"x": x, "y": y}[name] for name in kernel.params]
    graph, arguments = graph_of(text, dict(zip(kernel.params, values)))
    np.testing.assert_allclose(kernel(*values), interpret(graph, arguments)[0], rtol=1e-5, atol=1e-6)
