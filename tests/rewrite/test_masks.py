"""Masks of scores: hoisted out of sums, products and functions, they decide which tiles count, and change no result."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import graph_of
from reference_executor import scalars

import fusedsl as fd
from fusedsl.fusion.lower import lower
from fusedsl.ir.graph import walk
from fusedsl.program.first_call import run_interpreter
from fusedsl.rewrite import rules  # noqa: F401  (registers the laws)
from fusedsl.rewrite.engine import rewrite
from fusedsl.rewrite.online.masks import IDENTITY, Masks
from fusedsl.rewrite.selects import SelectAnalysis
from fusedsl.runtime.array_copies import to_host
from fusedsl.runtime.arrays import describe_all

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

BRAIN = ml_dtypes.bfloat16

ROWS, COLUMNS = 23, 31
X = np.random.default_rng(3).standard_normal((ROWS, COLUMNS)).astype(np.float32)
KEPT = np.random.default_rng(4).random(COLUMNS) < 0.6


class Element:
    """A text's element as a scalar, and the values of such scalars."""

    def __init__(self, text: str):
        self.arrays = {"x": X, "kept": KEPT, "w": 5}
        graph, _ = graph_of(f"i = iota(x, 0); j = iota(x, 1); k = kept[None, :]; 1.0 * x + ({text})", self.arrays)
        (root,) = lower(rewrite(graph)).stores
        self.axes, self.names = root.axes, [p.name for p in graph.parameters]
        self.value = root.value.args[1]

    def values(self, value):
        known = {n: self.leaf(n) for n in walk([value]) if n.op in ("load", "position", "scalar", "size")}
        with np.errstate(all="ignore"):
            return np.broadcast_to(scalars([value], known)[0], (ROWS, COLUMNS))

    def leaf(self, n):
        at = dict(zip(self.axes, (np.arange(ROWS)[:, None], np.arange(COLUMNS)[None])))
        if n.op == "position":
            return at[n.attr]
        if n.op == "load":
            source = np.asarray(self.arrays[self.names[n.attr[0].index]])
            return source[tuple(at[c.axis] if c.axis else np.asarray(c.start) for c in n.attr[1])]
        return np.asarray(self.arrays[self.names[n.attr]] if n.op == "scalar" else COLUMNS)


CONDITIONS = st.recursive(
    st.sampled_from(["j <= i", "j > i - w", "k", "j % 3 == 0", "j < i + 1", "x > 0", "tril(x == x)"]),
    lambda c: st.one_of(
        st.tuples(c, st.sampled_from(["&", "|", "^"]), c).map(lambda p: f"(({p[0]}) {p[1]} ({p[2]}))"),
        c.map(lambda a: f"(~({a}))"),
        st.tuples(c, c).map(lambda p: f"where({p[0]}, {p[1]}, False)"),
    ),
    max_leaves=2,
)
LITERALS = st.sampled_from(["-inf", "-inf", "-inf", "inf", "0", "0", "0.0", "1", "-1e9", "-1"])
VALUES = st.recursive(
    st.one_of(
        st.just("x"),
        st.tuples(CONDITIONS, LITERALS, LITERALS).map(lambda p: f"float32(where({', '.join(p)}))"),
        CONDITIONS.map(lambda c: f"float32({c})"),
    ),
    lambda v: st.one_of(
        st.tuples(CONDITIONS, v, LITERALS).map(lambda p: f"where({p[0]}, {p[1]}, {p[2]})"),
        st.tuples(CONDITIONS, LITERALS, v).map(lambda p: f"where({p[0]}, {p[1]}, {p[2]})"),
        st.tuples(CONDITIONS, v, v).map(lambda p: f"where({p[0]}, {p[1]}, {p[2]})"),
        st.tuples(v, st.sampled_from(["+", "-", "*"]), v).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(v, st.sampled_from(["* 0.5", "/ 8", "- 1.5", "+ 2"])).map(lambda p: f"({p[0]} {p[1]})"),
        st.tuples(st.sampled_from(["exp", "sigmoid", "relu", "tril", "softplus", "tanh", "-"]), v).map(
            lambda p: f"{p[0]}({p[1]})"
        ),
        st.tuples(st.sampled_from(["minimum", "maximum"]), v, v).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        st.tuples(v, CONDITIONS).map(lambda p: f"({p[0]} * ({p[1]}))"),
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(VALUES, st.sampled_from(sorted(IDENTITY)))
def test_elements_are_what_they_were(text, fold):
    element = Element(text)
    made = Masks(SelectAnalysis(lambda n: False)).hoist_masks(element.value, fold)
    found, expected = element.values(made), element.values(element.value)
    np.testing.assert_array_equal(found == IDENTITY[fold], expected == IDENTITY[fold], err_msg=text)
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-6, err_msg=text)


# -- kernels

SCORES = "s = q @ k.mT * 0.2; i = iota(s, -2); j = iota(s, -1); c = j <= i\n"
ALIKE = {
    "softmax(where(c, s, -inf)) @ v": [
        "softmax(where(~(j > i), s, -inf)) @ v",
        "softmax(where((j > i) ^ True, s, -inf)) @ v",
        "softmax(where(j < i + 1, s, -inf)) @ v",
        "softmax(s + where(c, 0, -inf)) @ v",
        "softmax(where(j > i, -inf, 0.0) + s) @ v",
        "softmax(s - where(c, 0, inf)) @ v",
        "softmax(s + triu(full_like(s, -inf), 1)) @ v",
        "softmax(where(tril(ones_like(s)) == 1, s, -inf)) @ v",
        "softmax(where(astype(tril(ones_like(s)), bool), s, -inf)) @ v",
        "softmax(minimum(s, where(c, inf, -inf))) @ v",
        "softmax((q @ k.mT + where(c, 0, -inf)) * 0.2) @ v",
        "(softmax(where(c, s, -inf)) * c) @ v",
        "e = exp(s - max(where(c, s, -inf), axis=-1, keepdims=True)) * c; (e / sum(e, -1, keepdims=True)) @ v",
    ],
    "softmax(where(c, q @ k.mT / 5, -inf)) @ v": ["softmax((q @ k.mT + where(c, 0, -inf)) / 5) @ v"],
    "softmax(where(j > i, -inf, s)) @ v": ["softmax(where(triu(ones_like(s), 1) != 0, -inf, s)) @ v"],
    "softmax(where(c and j > i - 40, s, -inf)) @ v": [
        "softmax(s + where(c, 0, -inf) + where(j > i - 40, 0, -inf)) @ v",
        "softmax(where(where(c, j > i - 40, False), s, -inf)) @ v",
        "softmax(s + where(c and j > i - 40, 0, -inf)) @ v",
    ],
    "softmax(where(c, s + 0.1 * (j - i), -inf)) @ v": ["softmax(s + where(c, 0.1 * (j - i), -inf)) @ v"],
    "where(c, sigmoid(s), 0) @ v": [
        "sigmoid(where(c, s, -inf)) @ v",
        "sigmoid(s + where(c, 0, -inf)) @ v",
        "(sigmoid(s) * c) @ v",
        "(sigmoid(s) * astype(c, bfloat16)) @ v",
        "tril(sigmoid(s)) @ v",
    ],
    "where(c, relu(s) ** 2, 0) @ v": ["relu(where(c, s, 0)) ** 2 @ v", "relu(where(c, s, -1)) ** 2 @ v"],
    "where(c, exp(s), 0) @ v": ["exp(where(c, s, -inf)) @ v", "(exp(s) * c) @ v"],
    "softmax(where(j < i + 1, s, -inf)) @ v": [
        "softmax(where(j - i < 1, s, -inf)) @ v",
        "softmax(where(j - i <= 0, s, -inf)) @ v",
    ],
}
PAIRS = [(SCORES + text, SCORES + other) for text, others in ALIKE.items() for other in others]


def specs(kernel, n=512, width=64, dtype="bfloat16"):
    return [fd.spec((2, 4, n, width), dtype) for _ in kernel.params]


def code(text, device, **how):
    """A kernel's file, without what it quotes."""
    kernel = fd.kernel(text)
    lines = kernel.source(*specs(kernel, **how), device=device).splitlines()
    return [line.split("  # ")[0] for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(("text", "other"), PAIRS, ids=lambda text: text.partition("\n")[2])
def test_masks_that_mean_the_same_are_one_kernel(text, other):
    for device, how in (("cuda", {}), ("cuda", {"dtype": "float32"}), ("cpu", {"n": 48, "width": 16})):
        assert code(text, device, **how) == code(other, device, **how)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("softmax(s + where(c, 0, -inf)) @ v", "fully masked tiles are skipped, unmasked tiles"),
        ("softmax(s + where(c, 0, -1e9)) @ v", "all tiles are computed: -1e+09 is no -inf, and counts in rows that"),
        ("softmax(where(uniform(7, s) < 0.5, s, -inf)) @ v", "nothing is known beforehand of random numbers"),
        (
            "softmax(where((i ^ j) < 7, s, -inf)) @ v",
            "all tiles are computed: nothing is known beforehand of bitwise xor",
        ),
        ("softmax(where(s > 0, s, -inf)) @ v", "all tiles are computed: nothing is known beforehand of scores"),
        ("m = max(s, axis=-1, keepdims=True); e = exp(s - m) * c; e @ v", "as a result is of what is masked, too"),
        ("softmax(where(c & (uniform(7, s) < 0.5), s, -inf)) @ v", "fully masked tiles are skipped"),
    ],
)
def test_an_explanation_says_what_becomes_of_tiles(text, told):
    kernel = fd.kernel(SCORES + text)
    for device in ("cuda", "cpu"):
        assert told in str(kernel.explain(*specs(kernel), device=device, compile=False))


def weighed(s, v):
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ v


def added(q, k, v):
    n = q.shape[-2]
    return weighed(q @ np.swapaxes(k, -1, -2) * np.float32(0.2) + np.triu(np.full((n, n), -np.inf, np.float32), 1), v)


def chosen(q, k, v):
    n = q.shape[-2]
    return weighed(np.where(np.tril(np.ones((n, n), bool)), q @ np.swapaxes(k, -1, -2) * np.float32(0.2), -np.inf), v)


@pytest.mark.parametrize("function", [added, chosen])
def test_masks_that_a_function_makes_are_masks(function):
    x = np.zeros((1, 2, 256, 32), np.float32)
    assert "fully masked tiles are skipped" in str(fd.fuse(function).explain(x, x, x))


@pytest.mark.parametrize(
    "text",
    [
        "softmax(3 * tanh((s + where(c, 0, -inf)) / 3)) @ v",  # what is masked weighs exp(-3) of the largest
        "silu(where(c, s, -inf)) @ v",  # -inf times 0
        "softmax(where(c, s, -1e30)) @ v",
        "softmax(maximum(where(c, s, -inf), -9)) @ v",
    ],
)
def test_what_counts_is_not_skipped(text):
    kernel = fd.kernel(SCORES + text)
    assert "are skipped" not in str(kernel.explain(*specs(kernel), device="cuda", compile=False))


# -- values

KEEPS = "c = (j <= i) & (i > 2) & (j < 45)\n"  # rows that have nothing, columns that nobody sees
FORMS = {
    "added": "softmax(s + where(c, 0, -inf)) @ v, logsumexp(s + where(c, 0, -inf), -1)",
    "subtracted, scaled": "softmax((q @ k.mT - where(~c, inf, 0)) / 5) @ v",
    "a triangle": "softmax(where(tril(s == s) & (i > 2) & (j < 45), s, -inf)) @ v",
    "two": "softmax(s + triu(full_like(s, -inf), 1) + where(j < 45, 0.1 * j, -inf)) @ v",
    "xor": "softmax(where((j > i) ^ True and (c != False), s, -inf)) @ v",
    "sigmoid": "sigmoid(where(c, s, -inf) - 1) @ v",
    "squares": "relu(where(c, s, 0)) ** 2 @ v",
    "times a condition": "(relu(s) * c) @ v",
    "exponentials": "e = exp(s) * c; (e @ v) / sum(e, -1, keepdims=True)",
    "measured": "e = exp(s - max(where(c, s, -inf), axis=-1, keepdims=True)) * c; e @ v, sum(e, -1)",
    "softmax times a condition": "(softmax(where(c, s, -inf)) * c) @ v",
    "softmax where": "softmax(s, where=where(j > i, False, c)) @ v",
}
ON_CPU = ("added", "a triangle", "times a condition", "measured", "softmax times a condition", "softmax where")


def drawn(dtype, n=70):
    """(arrays, the same with NaN where nothing is seen)"""
    random = np.random.default_rng(11)
    arrays = {name: random.standard_normal((1, 2, n, 16)).astype(dtype) for name in "qkv"}
    strange = {name: x.copy() for name, x in arrays.items()}
    strange["k"][:, :, 45:], strange["v"][:, :, 45:] = np.nan, np.nan
    strange["k"][:, :, 50:60] = np.inf
    return arrays, strange


def agrees(kernel, arrays, found):
    """Weights and results are rounded to 16 bits each; exponentials are off by some bits of float32."""
    dtype = arrays["v"].dtype
    error = {np.dtype(np.float16): 2.0**-11, np.dtype(BRAIN): 2.0**-8}.get(dtype, 4e-6)
    expected, largest = (
        run_interpreter(
            kernel._program.plans, describe_all(kernel.params, [x[n].astype(np.float64) for n in kernel.params])
        )
        for x in (arrays, arrays | {"v": abs(arrays["v"])})
    )
    for value, one, most in zip(found, expected, largest):
        value, here = value.astype(np.float64), np.isfinite(one)
        np.testing.assert_array_equal(value[~here], one[~here])
        np.testing.assert_array_less(np.abs(value[here] - one[here]), 2.5 * error * np.abs(most[here]) + 1e-4)


def listed(found):
    return [to_host(x) for x in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("name", ON_CPU)
def test_values_on_a_cpu(name):
    kernel = fd.kernel(SCORES + KEEPS + FORMS[name])
    for dtype in (np.float32, BRAIN):
        arrays, strange = drawn(dtype)
        for values in (arrays, strange):
            agrees(kernel, arrays, listed(kernel(*(values[name] for name in kernel.params))))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [BRAIN, np.float32, np.float16], ids=["bfloat16", "float32", "float16"])
@pytest.mark.parametrize("name", FORMS)
def test_values_on_an_emulated_gpu(name, dtype):
    kernel = fd.kernel(SCORES + KEEPS + FORMS[name])
    arrays, strange = drawn(dtype)
    with emulated_gpu() as gpu:
        for values in (arrays, strange):
            found = listed(kernel(*(gpu.asarray(values[name]) for name in kernel.params)))
            agrees(kernel, arrays, found)
        assert len(gpu.launches) == 2


TILED = {  # of which some tiles are whole, and their first lines
    "not a choice with True": "~where(j > i, j < 40, True)",
    "not a choice of True": "~where(j > 30, True, i > j)",
    "what is drawn, or an array": "((i + j) % 2 == 0) | kept",
    "bits of both, or an array": "((i ^ j) % 2 == 0) | kept",
    "a choice of NaN": "j + where(j <= i, 0.0, nan) >= 0",
    "zero times infinity": "(j - 100) * inf >= -inf",
    "infinity less infinity": "where(i < 9, inf, 0.0) - where(j < 9, inf, 0.0) >= -inf",
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("cc", [None, (9, 0)])
@pytest.mark.parametrize("name", TILED)
def test_masks_of_several_tiles(name, cc):
    text = SCORES + f"i = iota(s, -2); j = iota(s, -1)\nsoftmax(where({TILED[name]}, s, -inf)) @ v"
    random, kernel = np.random.default_rng(3), fd.kernel(text)
    arrays = {
        x: random.standard_normal((1, 1, n, 8)).astype(np.float32) for x, n in (("q", 64), ("k", 256), ("v", 256))
    }
    arrays["kept"] = np.arange(256) >= 128
    if cc is None:
        found = kernel(*(arrays[name] for name in kernel.params))
    else:
        with emulated_gpu(cc=cc) as gpu:
            found = to_host(kernel(*(gpu.asarray(arrays[name]) for name in kernel.params)))
    wide = [arrays[name].astype(np.float64) if name in "qkv" else arrays[name] for name in kernel.params]
    (expected,) = run_interpreter(kernel._program.plans, describe_all(kernel.params, wide))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


DOUBLED = {  # sixty times, so that what looks at a part for each way to it has no end
    "numbers of places": "x = 0.5 * j; {x = x + x}; softmax(where(x < 3.0 * i, s, -inf)) @ v",
    "integers in memory": "x = doc[None, :]; {x = x + x}; softmax(where(x < i, s, -inf)) @ v",
    "scores": "x = s; {x = x + x}; softmax(x + where(j <= i, 0, -inf)) @ v",
    "conditions": "c = j <= i; d = j > 3; {c = (c & d) & (c | d)}; softmax(where(c, s, -inf)) @ v",
    "weights": "p = softmax(where(j <= i, s, -inf)); {p = p + p}; p @ v",
    "weights with a constant": "p = softmax(where(j <= i, s, -inf)); {p = (p + 1) - p * 0.5}; p @ v",
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", DOUBLED)
def test_what_is_shared_is_looked_at_once(name, device):
    begin, _, rest = DOUBLED[name].partition("{")
    line, _, end = rest.partition("}")
    kernel = fd.kernel(SCORES + "i = iota(s, -2); j = iota(s, -1)\n" + begin + f"{line}; " * 60 + end.lstrip("; "))
    shape = fd.spec((1, 4, 512, 64), "bfloat16")
    arrays = [fd.spec((512,), "int32") if name == "doc" else shape for name in kernel.params]
    told = str(kernel.explain(*arrays, device=device, compile=False))
    assert " instead of " in told.splitlines()[0]
