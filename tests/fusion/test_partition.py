"""How programs are cut into kernels: as few as there can be, each refusal with its reason and its price."""

from __future__ import annotations

import re

import numpy as np
import pytest
from draw import draw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import Case, cpu

import fusedsl as fd
from fusedsl.fusion.roofline import LATENCY, LAUNCH
from fusedsl.ir.interp import interpret
from fusedsl.program import call_steps, make_plan
from fusedsl.runtime import cache
from fusedsl.runtime.arrays import describe_all

X, W, B, COLUMN, CUBE, V, S = ((512, 1024), (512,), (1024,), (512, 1), (8, 6, 64), (6,), ())
NORM = "n(u) = u * rsqrt(mean(u * u, -1, keepdims=True) + 1e-6)\n"
FAR = "d(u, v) = sqrt(sum(square(u - v), -1))\n"
LOGS = "lp = log_softmax(x); lq = log_softmax(y)\n"

NEARBY = " + ".join(f"max(x, axis=0)[{k}:size(x, 1) - {20 - k}]" for k in range(20))

# text, kernels, and the shapes of its arrays where they are not x and y of (512, 1024)
PROGRAMS = {
    "layer norm and residual": ("r = x + y; r, layer_norm(r, b, b)", 1, {"b": B}),
    "several outputs of a row": ("sum(x, -1), max(x * y, axis=-1), x + 1", 1, {}),
    "rows beside values of the same rows": ("sum(x, -1) + w, sum(x, -1) * 2, w + 1", 1, {"w": W}),
    "dear values of the same rows": ("sum(x, -1) + w, lgamma(sin(w))", 2, {"w": W}),
    "full reductions of one array": ("sum(x), max(x), sum(x * y)", 1, {}),
    "a reduction beside a number": ("sum(x), s * 2", 1, {"s": S}),
    "two maps over the same axes": ("x + y, x * 2, exp(y)", 1, {}),
    "a diamond": ("a = exp(x); l = a + 1; r = a * 2; l * r, l - r", 1, {}),
    "a diamond of rows": ("a = exp(x); m = max(a, axis=-1, keepdims=True); (a / m) + (a * m), a / m", 1, {}),
    "entropy of softmax": ("p = softmax(x); -sum(p * log(p), -1)", 1, {}),
    "divergence": (LOGS + "sum(exp(lp) * (lp - lq), -1)", 1, {}),
    "Jensen-Shannon": ("m = 0.5*x + 0.5*y; 0.5*sum(x*(log(x)-log(m)), -1) + 0.5*sum(y*(log(y)-log(m)), -1)", 1, {}),
    "total variation": ("0.5 * sum(abs(x - y), -1)", 1, {}),
    "PolyNorm": (NORM + "a * n(x**3) + c * n(x**2) + n(x) + b", 1, {"a": S, "c": S, "b": B}),
    "triplet": (FAR + "mean(maximum(d(x, p) - d(x, q) + 1, 0))", 2, {"p": X, "q": X}),
    "mean squared error": ("mean((x - y)**2)", 1, {}),
    "reshaped to a line": ("reshape(softmax(x), (-1,))", 1, {}),
    "with a new axis": ("reshape(softmax(x), (size(x, 0), 1, -1)) + 1", 1, {}),
    "softmax along an axis of one": ("reshape(softmax(c, axis=1), (-1,))", 1, {"c": COLUMN}),
    "batch norm": ("(c - mean(c, axis=(0, 2), keepdims=True)) / std(c, axis=(0, 2), keepdims=True)", 1, {"c": CUBE}),
    "group norm": ("group_norm(c, 2)", 1, {"c": CUBE}),
    "group norm, then a gate and a residual": ("y = group_norm(c, 2, v, v); y * exp(y) + c", 1, {"c": CUBE, "v": V}),
    "a reshaped fold in a map that is not": ("reshape(softmax(x), (-1,)) + reshape(y, (-1,))", 1, {}),
    "folds both ways": ("a = exp(x); sum(a, 0), sum(a, 1)", 1, {}),
    "elements of folds both ways": ("softmax(x, axis=0), softmax(x, axis=1)", 2, {}),
    "a fold at more places than are worth a loop each": (NEARBY, 2, {}),
    "a whole array, then its elements": ("x / sqrt(sum(x * x))", 2, {}),
}


def planned(text, shapes, **options):
    """A kernel and the plan of its call with specs of these shapes."""
    kernel = fd.kernel(text, **options)
    specs = [fd.spec(shapes.get(p, X), "float32") for p in kernel.params]
    return kernel, specs


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_as_few_kernels_as_there_can_be(name):
    text, count, shapes = PROGRAMS[name]
    kernel, specs = planned(text, shapes)
    told = kernel.explain(*specs)
    assert len(told.kernels) == count, [r.reason for r in told.refused]
    assert bool(told.refused) == (count > 1)


BOTH_WAYS = "x - sum(x, axis=0, keepdims=True), sum(x, 1)"


def test_a_refusal_is_priced_by_the_time_model():
    kernel, specs = planned(BOTH_WAYS, {})
    (small,) = kernel.explain(*specs, device="cuda", compile=False).refused
    (large,) = kernel.explain(fd.spec((8192, 8192), "float32"), device="cuda", compile=False).refused
    assert 2e-6 < small.seconds < 5e-6  # a launch
    assert large.seconds == pytest.approx(8192 * 8192 * 4 / 4.8e12, rel=0.2)  # … and reading x again
    assert kernel.explain(*specs, device="cpu").refused[0].seconds is None


def test_max_kernels_says_why_as_data():
    with pytest.raises(fd.FusionError, match="this needs 2 kernels, and max_kernels is 1") as caught:
        fd.evaluate(BOTH_WAYS, x=np.ones((6, 7), np.float32), max_kernels=1)
    refused = [d for d in caught.value.decisions if not d["joined"]]
    assert [d["members"] for d in refused] == [("sum of x over axis 1 of x",)]
    assert refused[0]["reason"] == "it reduces axis 1 of x for each axis 0 of x, unlike kernel 0"
    assert refused[0]["seconds"] == pytest.approx(LAUNCH + LATENCY, rel=1e-3)


def test_a_row_value_beside_a_reduction_is_right():
    x, w = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([1, 2, 3], np.float32)
    found = fd.evaluate("sum(x, -1) + w, w * 2, sum(x, -1)", x=x, w=w, max_kernels=1)
    for made, wanted in zip(found, (x.sum(1) + w, w * 2, x.sum(1))):
        np.testing.assert_array_equal(made, wanted)


DEAR = "a = sin(lgamma(x) * cos(x)) + lgamma(x + 2)\n"


def test_what_kernels_read_of_others_is_numbered_in_the_order_of_the_text():
    """One text, one plan: a set of nodes has another order in each process."""
    folds = ["max", "min", "sum", "prod", "any", "all"]
    kernel, specs = planned(" + ".join(f"x * {f}(x)" for f in folds), {})
    told = str(kernel.explain(*specs, device="cuda", compile=False))
    assert re.findall(r"temporary \d = (\w+)", told) == folds


def test_a_value_that_is_dear_is_stored_once_and_a_cheap_one_computed_twice():
    dear, specs = planned(DEAR + "a / sum(a, axis=0, keepdims=True), sum(a, 1)", {})
    told = dear.explain(*specs, device="cuda")
    (kept,) = told.temporaries
    assert kept.bytes == 512 * 1024 * 4
    assert any(r.reason.endswith("storing it once is faster than computing it twice") for r in told.refused)
    cheap, specs = planned("a = exp(x) * 2; a / sum(a, axis=0, keepdims=True), sum(a, 1)", {})
    assert not cheap.explain(*specs, device="cuda").temporaries
    x = np.random.default_rng(0).uniform(1, 3, (512, 1024)).astype(np.float32)
    found = dear(x)
    for made, value in zip(found, interpret(dear._program.plans.graph(describe_all("x", [x])), [x])):
        np.testing.assert_allclose(made, value, rtol=1e-4, atol=1e-2)


NORMALISED = "(x - mean(x, -1, keepdims=True)) * rsqrt(var(x, -1, keepdims=True) + 1e-5) * w"


def test_rows_that_no_chip_holds_are_read_again_by_a_kernel_of_their_own():
    def told(columns, dtype="float32", text=NORMALISED, **options):
        x, w = fd.spec((64, columns), dtype), fd.spec((columns,), dtype)
        return fd.kernel(text, **options).explain(x, w, device="cuda", compile=False)

    assert len(told(1 << 20).kernels) == len(told(1 << 21, "bfloat16").kernels) == 1
    found = told((1 << 20) + 8)
    assert len(found.kernels) == 2 and "longer than a chip holds" in str(found)
    assert [t.bytes for t in found.temporaries] == [64 * 4] * 2  # what is done once a row is done there
    first, second = found.kernels
    assert any(re.match(r"temporary \d = rsqrt", m) for m in first.members) and "rsqrt" not in str(second.members)
    assert len(told((1 << 20) + 8, max_kernels=1).kernels) == 1
    drawn = "p = uniform(1, x + w); p / sum(p, -1, keepdims=True)"
    assert len(told(1 << 22, text=drawn).kernels) == 1  # nothing is read
    assert len(told(1 << 22, text="x * 2 + w, sum(x, -1)").kernels) == 1  # what needs no fold is stored beside it
    assert len(told(1 << 22, text="cumsum(x, -1) / max(x, axis=-1, keepdims=True) + w").kernels) == 1


def test_rows_that_are_read_by_two_kernels_have_the_same_results():
    draw = np.random.default_rng(3)
    x, w = (draw.uniform(1, 2, shape).astype(np.float32) for shape in ((2, (1 << 20) + 3), (1, (1 << 20) + 3)))
    made = fd.kernel(NORMALISED)(x, w[0])
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fd.kernel(NORMALISED, max_kernels=1)(x, w[0]), wanted, rtol=1e-5, atol=1e-5)


def many_values(count):
    """A text that holds so many values at once: each is made before any is used, and used in the opposite order."""
    made = "; ".join(f"t{i} = exp2(x * {i}.5)" for i in range(count))
    used = "".join(f"; u{i} = u{i - 1} * t{count - i} + t{i}" for i in range(1, count))
    return f"{made}; u0 = t0{used}; return u{count - 1}"


def wide_values(count):
    """The same of values that take two registers each, and few instructions."""
    made = "; ".join(f"t{i} = abs(y - {i}.5)" for i in range(count))
    used = "".join(f"; u{i} = u{i - 1} * t{count - i} + t{i}" for i in range(1, count))
    return f"y = float64(x); {made}; u0 = t0{used}; return u{count - 1}"


def test_a_body_that_does_not_fit_is_cut_where_the_fewest_values_are_alive():
    kernel, specs = planned(wide_values(118), {})
    told = kernel.explain(*specs, device="cuda", compile=False)
    assert len(told.kernels) > 1
    (cut,) = [r for r in told.refused if "its values take more than 216 registers" in r.reason]
    assert cut.seconds > 2e-6  # what the values that cross take, and a launch
    promised, specs = planned(wide_values(118), {}, max_kernels=1)
    assert len(promised.explain(*specs, device="cuda", compile=False).kernels) == 1


def test_a_spill_is_answered_by_kernels_that_hold_fewer_values(tmp_path, monkeypatch):
    own = cache.Cache(tmp_path / "plans")  # without what an earlier run found
    monkeypatch.setattr(cache, "disk", lambda: own)
    kernel, _ = planned(many_values(40), {})
    x = np.random.default_rng(0).uniform(-1, 0, (5, 7)).astype(np.float32)
    plans, facts = kernel._program.plans, describe_all("x", [x])
    arguments, before = list(facts.values()), kernel(x)
    extents = call_steps.extents_of(arguments)
    plan = plans.plan(arguments, extents)
    assert len(plan.kernels) == 1
    assert plans.replan_after_spill(plan, arguments, extents)
    tighter = plans.plan(arguments, extents)
    assert tighter.budget < 60 and len(tighter.kernels) > 1
    again = fd.kernel(kernel.text)  # which finds the plan in the cache, as another process would
    np.testing.assert_array_equal(again(x), before)
    assert again._program.plans.plan(arguments, extents) == tighter


@pytest.mark.parametrize("text", ["gelu(x) @ y", DEAR + "a / sum(a, axis=0, keepdims=True), sum(a, 1), y"])
def test_a_plan_follows_from_shapes_and_not_from_those_of_earlier_calls(text, tmp_path, monkeypatch):
    """What is worth storing was decided for the first shape of a signature, in the cache for all processes."""
    own = cache.Cache(tmp_path / "plans")
    monkeypatch.setattr(cache, "disk", lambda: own)
    made = []
    real = make_plan.make_plan
    monkeypatch.setattr(make_plan, "make_plan", lambda *told, **more: made.append(told) or real(*told, **more))

    def kernels(order):
        kernel = fd.kernel(text)
        return {n: len(kernel.explain(*[fd.spec((n, n))] * 2, device="cuda", compile=False).kernels) for n in order}

    first = kernels((32, 2048, 0))
    assert "gelu" not in text or first[32] < first[2048]
    plans = len(made)
    assert kernels((2048, 0, 32)) == first
    assert len(made) == plans  # all of them are found on disk


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 32), most=st.integers(2, 9))
def test_no_cut_changes_a_value(seed, most):
    case = Case(draw(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call_steps, "REGISTER_BUDGET", most)
        case.compare(cpu(case)(), f"{case.program.text!r} within {most} registers")


def test_folds_that_no_kernel_holds_at_once_are_parted(monkeypatch):
    """Halves of the folds, not their elements: no element is stored."""
    monkeypatch.setattr(call_steps, "REGISTER_BUDGET", 24)
    lines = [f"a{k} = sum(x * {k + 1}, -1)" for k in range(40)]
    text = "\n".join([*lines, "return a3, x / a5[:, None], " + " + ".join(f"a{k}" for k in range(40))])
    x = np.arange(1, 25, dtype=np.float32).reshape(4, 6)
    kernel, s = fd.kernel(text, fallback=False), x.sum(-1)
    for found, expected in zip(kernel(x), (4 * s, x / (6 * s)[:, None], 820 * s)):
        np.testing.assert_array_equal(found, expected.astype(np.float32))
    count = len(kernel.explain(x).to_dict()["kernels"])
    assert 4 <= count <= 9, count


def test_a_scatter_waits_for_a_base_that_moves_to_a_later_kernel(monkeypatch):
    """What the scatter merges into left its kernel of folds for registers, and nothing put the scatter behind it."""
    monkeypatch.setattr(call_steps, "REGISTER_BUDGET", 16)
    text = """t0 = softmax(c, axis=0, where=a < 0.5)
    t1 = softmax(c, axis=0, where=a < 1)
    t6 = t1 * rsqrt(mean(t1 * t1, (0,), keepdims=True) + 1e-5)
    return scatter_add(t6, arange(size(t6, 0)) * 3 % 7, a), t0"""
    a, c = np.arange(257.0) / 100, np.arange(257.0) / 200
    e = np.exp(c)
    t1 = np.where(a < 1, e, 0) / e[a < 1].sum()
    expected = t1 / np.sqrt((t1 * t1).mean() + 1e-5)
    np.add.at(expected, np.arange(257) * 3 % 7, a)
    kernel = fd.kernel(text, verify=True, fallback=False)
    np.testing.assert_allclose(kernel(a=a, c=c)[0], expected, rtol=1e-12)
