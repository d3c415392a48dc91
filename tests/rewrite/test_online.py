"""Online reductions: dependent folds in one pass equal separate passes, however the axis is split."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from bounds import evaluate as bounds
from oracle import graph_of
from reference_executor import execute, scalars
from streamed import Row, joined
from test_targets import as_torch, make
from test_targets import check as check_target

import fusedsl as fd
from fusedsl.backends.cuda.rows import choose as row_schedules
from fusedsl.fusion.coordinates import Axis, Coordinate
from fusedsl.fusion.lower import lower
from fusedsl.fusion.scalar_program import ArraySource
from fusedsl.ir.dims import evaluate as evaluate_dim
from fusedsl.ir.graph import Type, node, walk
from fusedsl.ir.types import FLOAT32, numpy_dtype
from fusedsl.program.call_steps import extents_of
from fusedsl.rewrite import rules  # noqa: F401  (registers the laws)
from fusedsl.rewrite.engine import rewrite
from fusedsl.rewrite.online.discover import find_passes
from fusedsl.rewrite.online.printer import check, show
from fusedsl.runtime.arrays import describe_all

RANDOM = np.random.default_rng(3)
REDUCE = {"sum": np.sum, "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin, "prod": np.prod}
CENTRED = "a = x - mean(x, -1, keepdims=True); b = y - mean(y, -1, keepdims=True)\n"

# text, passes, and how many of its folds
STREAMS = {
    "softmax": ("softmax(x)", 1, 2),
    "scaled softmax": ("softmax(-2.5 * x)", 1, 2),
    "a negative temperature": ("z = (x - min(x, axis=-1, keepdims=True)) / (s - 1.5); sum(exp(z), -1)", 1, 2),
    "temperature": ("z = (x - max(x, axis=-1, keepdims=True)) / s; sum(exp(z), -1)", 1, 2),
    "log_softmax": ("log_softmax(x)", 1, 2),
    "logsumexp": ("logsumexp(x, axis=-1)", 1, 2),
    "masked softmax": ("softmax(x, where=y > 0)", 1, 2),
    "base two": ("sum(exp2(x - max(x, axis=-1, keepdims=True)), -1)", 1, 2),
    "smallest": ("sum(exp(min(x, axis=-1, keepdims=True) - x), -1)", 1, 2),
    "entropy": ("p = log_softmax(x); sum(exp(p) * p, -1)", 1, 3),
    "weighted": ("sum(softmax(x) * y, -1)", 1, 3),
    "divergence": ("p = log_softmax(x); q = log_softmax(y); sum(exp(p) * (p - q), -1)", 1, 5),
    "layer_norm": ("layer_norm(x)", 1, 2),
    "masked variance": ("var(x, -1, where=y > 0)", 1, 3),
    "covariance": (CENTRED + "sum(a * b, -1)", 1, 3),
    "correlation": (CENTRED + "sum(a * b, -1) / sqrt(sum(a * a, -1) * sum(b * b, -1))", 1, 5),
    "skewness": (CENTRED + "sum(a * a * a, -1)", 1, 2),
    "largest of normalised": ("n = x * rsqrt(mean(x * x, -1, keepdims=True) + 1e-6); max(abs(n * y), axis=-1)", 1, 2),
    "range from the mean": ("a = x - mean(x, -1, keepdims=True); max(a, axis=-1) - min(a, axis=-1)", 1, 3),
    "argmax beside softmax": ("argmax(x, axis=-1), softmax(x)", 1, 3),
    "multiply-add": ("m = max(x, axis=-1, keepdims=True); sum(exp(fma(x, 1.0, -m)), -1)", 1, 2),
    "plain sums": ("sum(x, -1), sum(x * y, -1)", 1, 2),
    "entropy by logarithm": ("p = softmax(x); sum(p * log(p), -1)", 1, 3),
    "entropy of what counts": ("p = softmax(x); sum(where(p > 0, p * log2(p), 0), -1)", 1, 3),
    "entropy, guarded inside": ("p = softmax(x); sum(p * log(where(p != 0, p, 1)), -1)", 1, 3),
    "entropy by xlogy": ("p = softmax(x); sum(xlogy(p, p), -1)", 1, 3),
    "entropy of masked rows": ("p = softmax(x, where=y > 0); sum(where(p == 0, 0, p * log(p)), -1)", 1, 3),
    "divergence by logarithms": ("p = softmax(x); q = softmax(y); sum(p * (log(p) - log(q)), -1)", 1, 5),
    "divergence by a quotient": ("p = softmax(x); q = softmax(y); sum(p * log10(p / q), -1)", 1, 5),
    "variance of other values": ("p = softmax(x); m = sum(p * y, -1, keepdims=True); sum(p * square(y - m), -1)", 2, 4),
    "surprise": ("p = softmax(-2.5 * x); sum(log(p), -1), max(log(p), axis=-1)", 1, 4),
    "varentropy": ("p = softmax(x); l = log(p); h = sum(p * l, -1, keepdims=True); sum(p * square(l - h), -1)", 1, 4),
    "affinity": ("sum(sqrt(softmax(x) * softmax(y)), -1), sum(sqrt(softmax(x)), -1)", 1, 6),
    "largest weight": ("p = softmax(x); max(p, axis=-1) - min(p, axis=-1), argmax(p, axis=-1)", 1, 5),
    "largest of a negative scale": ("p = softmax(-2.0 * x); max(3 * p, axis=-1), argmax(p, axis=-1)", 1, 4),
    "mean distance": ("mean(abs(x - mean(x, -1, keepdims=True)), -1)", 2, 2),
}


def folds_of(text, dtype=np.float32, shape=(3, 40)):
    """The folds of a text over rows x and y and a number s, arguments first."""
    given = {"x": np.ones(shape, dtype), "y": np.ones(shape, dtype), "s": 0.7}
    graph, _ = graph_of(text, given)
    graph = rewrite(graph)
    names = [p.name for p in graph.parameters]
    return [n for n in walk(r.value for r in lower(graph).stores) if n.op == "fold"], names


class Values:
    """The leaves of scalar nodes, from arrays of (rows, columns)."""

    def __init__(self, names, arrays):
        self.names, self.arrays = names, arrays

    def leaf(self, n, part):
        if n.op == "position":
            return np.arange(self.arrays["x"].shape[1])[None, part]
        return self.arrays[self.names[n.attr[0].index]][:, part]

    def rows(self, folds):
        """Sizes and numbers, which are the same in every row."""
        found = {}
        for n in walk(folds):
            if n.op == "size":
                found[n] = np.full((1, 1), self.arrays["x"].shape[1])
            elif n.op == "scalar":
                found[n] = np.full((1, 1), self.arrays[self.names[n.attr]])
        return found

    def one_by_one(self, folds):
        """Every fold over the whole row, after those that it depends on."""
        known = self.rows(folds)
        whole = slice(0, self.arrays["x"].shape[1])
        known |= {n: self.leaf(n, whole) for n in walk(folds) if n.op in ("load", "position")}
        with np.errstate(all="ignore"):
            for f in folds:
                (x,) = scalars(f.args, known)
                x = np.broadcast_to(x, (len(x), whole.stop))
                known[f] = REDUCE[f.attr[0]](x, axis=1, keepdims=True)
        return [known[f] for f in folds]

    def streamed(self, folds, cuts, order):
        """Every fold, pass by pass, each over the parts between the cuts."""
        known = self.rows(folds)
        edges = [0, *sorted(cuts), self.arrays["x"].shape[1]]
        parts = [slice(i, j) for i, j in itertools.pairwise(edges)]
        made, _ = find_passes(folds)
        with np.errstate(all="ignore"):
            return self._passes(folds, made, known, parts, order)

    def _passes(self, folds, made, known, parts, order):
        for one in made:
            if one.reduction is not None:
                known |= execute(one.reduction, self.leaf, known, parts, order(len(parts)))
            else:
                whole = slice(0, self.arrays["x"].shape[1])
                leaves = {n: self.leaf(n, whole) for n in walk(one.folds) if n.op in ("load", "position")}
                for f in one.folds:
                    (x,) = scalars(f.args, known | leaves)
                    known[f] = REDUCE[f.attr[0]](x, axis=1, keepdims=True)
        return [known[f] for f in folds]


def any_tree(count):
    """Neighbours merged in a random order, down to one."""
    return [int(RANDOM.integers(left)) for left in range(count - 1, 0, -1)]


def sample(trial, columns, rows=3):
    """Numbers around 0, around 1000, of many sizes, with infinities: a kind for each trial."""
    x = RANDOM.standard_normal((rows, columns)) * 10 ** RANDOM.uniform(-1, 1.5)
    if trial % 5 == 1:
        x += 1000
    if trial % 5 == 2:
        x = np.sort(x, axis=1)
    return x.astype(np.float32)


@pytest.mark.parametrize("name", STREAMS)
def test_passes_are_as_few_as_the_law_allows(name):
    text, count, folds = STREAMS[name]
    found, _ = folds_of(text)
    made, refused = find_passes(found)
    assert (len(made), len(found)) == (count, folds)
    assert [f for one in made for f in one.folds] == found
    assert bool(refused) == (count > 1)
    for one in made:
        if one.reduction is not None:
            check(one.reduction)
            assert show(one.reduction).startswith("online reduction over n")


@pytest.mark.parametrize("name", STREAMS)
def test_any_merge_tree_gives_the_folds_one_by_one(name):
    folds, names = folds_of(STREAMS[name][0])
    wide, _ = folds_of(STREAMS[name][0], np.float64)
    for trial in range(100):
        columns = int(RANDOM.integers(1, 200))
        arrays = {"x": sample(trial, columns), "y": sample(trial + 1, columns), "s": 0.7}
        cuts = RANDOM.integers(0, columns + 1, RANDOM.integers(0, 12))
        found = Values(names, arrays).streamed(folds, cuts, any_tree)
        exact = {k: np.asarray(v, np.float64) for k, v in arrays.items()}
        truth = Values(names, exact).one_by_one(wide)
        plain = Values(names, arrays).one_by_one(folds)
        for f, one, other, true in zip(folds, found, plain, truth):
            close(f, one, other, true, arrays, f"{name}, {f.attr[0]}, trial {trial}")


def close(f, streamed, one_by_one, true, arrays, what):
    """As near to the exact value as folds one by one are, up to a few roundings of the largest operands."""
    if f.attr[0].startswith("arg"):
        np.testing.assert_array_equal(streamed, one_by_one, what)
        return
    with np.errstate(all="ignore"):
        own = np.nan_to_num(np.abs(one_by_one - true)).max()
        near = np.abs(streamed - true) <= 8 * own + 2e-5 * np.abs(true) + 1e-6 * _scale(f, arrays)
    same = (streamed == true) | (np.isnan(streamed) & np.isnan(one_by_one))
    assert (near | same).all(), (what, streamed, true)


def _scale(f, arrays):
    """What the sum of the absolute values of a sum's elements may be: cancellation is no fault of a merge."""
    return float(np.abs(arrays["x"]).max() * max(1.0, np.abs(arrays["y"]).max())) if f.attr[0] == "sum" else 0.0


SPECIAL = [0.0, -0.0, 1.0, -3.5, 80.0, np.inf, -np.inf, np.nan]
SAME_AS_NUMPY = ("softmax", "logsumexp", "masked softmax", "weighted", "layer_norm", "divergence", "plain sums")
SAME_AS_NUMPY += ("entropy by logarithm", "entropy of what counts", "entropy, guarded inside", "entropy by xlogy")
SAME_AS_NUMPY += ("entropy of masked rows", "varentropy", "largest weight", "largest of a negative scale")


@pytest.mark.parametrize("name", SAME_AS_NUMPY)
def test_infinities_and_nan_mean_what_they_mean_in_numpy(name):
    folds, names = folds_of(STREAMS[name][0])
    for trial in range(300):
        columns = int(RANDOM.integers(1, 9))
        values = SPECIAL if trial % 2 else [-np.inf, 1.0, -2.0]
        arrays = {k: RANDOM.choice(values, (4, columns)).astype(np.float32) for k in "xy"} | {"s": 0.7}
        cuts = RANDOM.integers(0, columns + 1, RANDOM.integers(0, 4))
        found = Values(names, arrays).streamed(folds, cuts, any_tree)
        truth = Values(names, arrays).one_by_one(folds)
        for f, one, true in zip(folds, found, truth):
            what = f"{name}, {f.attr[0]}, {arrays}, cut at {cuts}"
            np.testing.assert_allclose(one, true, rtol=1e-4, atol=1e-4, err_msg=what)


def test_a_logarithm_of_what_underflows_is_finite_where_anything_may_come():
    """exp(-120) is 0 in float32, 0 times the logarithm of which is NaN: a pass has the exact value, within the bound,
    which is infinite there. What is -inf weighs 0, and is NaN in both."""
    text = "p = softmax(x); sum(p * log(p), -1)"
    folds, names = folds_of(text)
    x = np.zeros((3, 30), np.float32)
    x[0, 3], x[1, 3] = -120, -np.inf
    found = Values(names, {"x": x}).streamed(folds, [10], any_tree)[-1]
    plain = Values(names, {"x": x}).one_by_one(folds)[-1]
    np.testing.assert_array_equal(np.isnan(plain)[:, 0], [True, True, False])
    np.testing.assert_array_equal(np.isnan(found)[:, 0], [False, True, False])
    graph, arguments = graph_of(text, {"x": x})
    ((exact, bound),) = bounds(graph, arguments)
    np.testing.assert_array_equal(np.isinf(bound), [True, True, False])
    np.testing.assert_allclose(found[[0, 2], 0], exact[[0, 2]], rtol=1e-6)


def test_rows_of_minus_infinity_and_empty_parts_are_no_elements():
    folds, names = folds_of("logsumexp(x, axis=-1)")
    x = np.full((3, 30), -np.inf, np.float32)
    x[1, 20] = 2.0
    found = Values(names, {"x": x}).streamed(folds, [0, 0, 10, 10, 30], any_tree)
    np.testing.assert_array_equal(found[0][:, 0], [-np.inf, 2, -np.inf])
    np.testing.assert_array_equal(found[1][:, 0], [0, 1, 0])


def test_a_weight_with_an_axis_of_its_own_is_a_contraction():
    """softmax(s) @ v: the sum of e * v divides by the sum of e at the end; v alone has the axis d."""
    i, j, d = Axis("i"), Axis("j"), Axis("d")
    s = node("load", (), (ArraySource("argument", 0), (Coordinate(0, 1, i), Coordinate(0, 1, j))), Type(FLOAT32))
    v = node("load", (), (ArraySource("argument", 1), (Coordinate(0, 1, j), Coordinate(0, 1, d))), Type(FLOAT32))

    def made(op, *args, attr=None):
        return node(op, args, attr, Type(FLOAT32))

    largest = made("fold", s, attr=("max", (j,)))
    e = made("exp", made("subtract", s, largest))
    total = made("fold", e, attr=("sum", (j,)))
    out = made("fold", made("multiply", made("divide", e, total), v), attr=("sum", (j,)))
    (one,), refused = find_passes([largest, total, out], own=frozenset([d]))
    assert not refused
    check(one.reduction)
    assert show(one.reduction).splitlines()[0] == "online reduction over j for each i"
    assert "for each d" in show(one.reduction)
    a, b = sample(0, 33, rows=5), sample(0, 7, rows=33)

    def leaf(n, part):
        return a[:, part, None] if n is s else b[None, part, :]

    parts = [slice(0, 10), slice(10, 10), slice(10, 33)]
    found = execute(one.reduction, leaf, {}, parts, [1, 0])[out]
    weights = np.exp(a.astype(np.float64) - a.max(1, keepdims=True))
    np.testing.assert_allclose(found[:, 0], weights @ b / weights.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)


def test_a_refusal_names_the_folds_and_what_stands_between():
    folds, _ = folds_of(STREAMS["mean distance"][0])
    _, (refused,) = find_passes(folds)
    assert (refused.fold, refused.other) == (folds[1], folds[0])
    assert (
        refused.reason == "sum does not share a pass with the sum that it depends on, because of absolute between them"
    )


def plans_of(text, given):
    """The kernel plans of a text for these arguments, and its graph."""
    kernel = fd.kernel(text)
    facts = describe_all(kernel.params, [given[name] for name in kernel.params])
    extents = extents_of(list(facts.values()))
    plans = kernel._program.plans
    return kernel, plans.plan(list(facts.values()), extents), plans.graph(facts), extents


IN_ONE_KERNEL = {name: text for name, (text, _, _) in STREAMS.items()} | {
    "elements beside the stream": "softmax(x), x + 1",
    "a row value of each": "logsumexp(x, axis=-1), max(x, axis=-1), mean(x, -1)",
    "affine": "layer_norm(x, b, b)",
    "two layers": "softmax(layer_norm(x))",
    "two streams": "softmax(softmax(x) + y)",
    "three streams": "x - max(softmax(softmax(softmax(x) + y) + x) + x, axis=-1, keepdims=True)",
    "a stream of logarithms": "sum(exp(log_softmax(exp(y - max(y, axis=-1, keepdims=True)) + x)) * y, -1)",
    "a condition on a stream": "sum(where(x + sum(x, -1, keepdims=True) > 0, tanh(y), 0) + softmax(x), -1)",
    "a condition on a fold": "p = softmax(x); m = max(p, axis=-1, keepdims=True); sum(where(p >= 0.05*m, p, 0), -1)",
}


@pytest.mark.parametrize("name", IN_ONE_KERNEL)
def test_streamed_phases_compute_what_the_text_means(name):
    text = IN_ONE_KERNEL[name]
    given = {k: sample(3, 45) for k in "xy"} | {"b": sample(3, 45, rows=1)[0], "s": 0.7}
    kernel, plan, graph, extents = plans_of(text, given)
    (one,) = plan.kernels
    exact = bounds(graph, [given[p] for p in kernel.params])
    found = [np.zeros(value.shape, np.float64) for value, _ in exact]
    for r in range(3):
        elements, rows = {}, {}
        for load in one.loads:
            array = given[kernel.params[one.arrays[load.operand].index]]
            elements[load.value.name] = array[r] if array.ndim == 2 else array
        for position in one.positions:
            elements[position.value.name] = np.arange(45)
        for scalar in one.scalars:
            value = given["s"] if scalar.kind == "argument" else evaluate_dim(scalar.source, extents)
            rows[scalar.value.name] = np.asarray(value, numpy_dtype(scalar.value.dtype))
        for operand, stored in Row(one, elements, rows).run(45, 8).items():
            found[one.arrays[operand].index][r] = joined(stored)
    for made, (value, bound) in zip(found, exact):
        same = np.isnan(made) & np.isnan(value)
        assert (same | (np.abs(made - value) <= 4 * bound + 1e-5 * np.abs(value))).all(), (made - value, bound)


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("name", ("softmax", "layer_norm", "divergence"))
def test_wide_rows_compile_to_one_streaming_pass_without_spills(name, dtype):
    pytest.importorskip("numba_cuda")
    kernel = fd.kernel(STREAMS[name][0])
    wide = [fd.spec((64, 600_000), dtype) for _ in kernel.params]
    told = kernel.explain(*wide, cc=80)  # which has no clusters that would keep such rows
    (one,) = told.kernels
    assert [a.passes for a in one.reads] == [2 - (name == "divergence")] * len(kernel.params)
    assert one.figures.spill_bytes == 0 and one.figures.registers <= one.predicted_registers
    assert not told.refused


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("columns", (5000, 4097))
@pytest.mark.parametrize("name", IN_ONE_KERNEL)
def test_rows_that_are_looped_over_on_a_gpu(name, columns, dtype, monkeypatch):
    monkeypatch.setattr(row_schedules, "schedule_resident", lambda *facts: None)
    given = {k: make((9, columns), dtype) for k in "xy"} | {"b": make((columns,), dtype), "s": 0.7}
    check_target(IN_ONE_KERNEL[name], given, lambda x: as_torch(x) if isinstance(x, np.ndarray) else x)
