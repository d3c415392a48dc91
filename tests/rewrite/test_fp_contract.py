"""FMA contraction: a value is equal wherever it is read; the option fp_contract=False rounds every product."""

from __future__ import annotations

import random

import numpy as np
import pytest
from llvmlite import ir
from oracle import graph_of

import fusedsl as fd
from fusedsl.backends.cpu.llvm_values import LLVMValue, llvm_type
from fusedsl.backends.cpu.math import table
from fusedsl.ir.graph import walk
from fusedsl.ir.interp import interpret
from fusedsl.ir.types import FLOAT32, FLOAT64
from fusedsl.rewrite.engine import rewrite
from fusedsl.rewrite.fp_contract import ROUNDED, round_products

RANDOM = np.random.default_rng(41)
LOGITS = np.float32([[1.3, 3.9, 2.6], [-1.3, 2.6, 6.5]])
FIRST = np.float32([[0, 1, 0], [0, 0, 1]])

# Each is folded by an extremum, and read again beside it.
VALUES = (
    "x * y", "x * 1e10", "x * y + z", "x * y - z", "-(x * y)", "x * x", "x**3", "x*y*z", "x**2 + y**2", "x*y - y*z + x",
    "where(x > 0, x*y, z) - y", "x*r + z*s", "r*s + u*v", "r*s + x", "x*s - r*u", "x*y*s + u*v*z", "exp(x)", "exp(x)*y",
    "tanh(x)*y + z", "lerp(x, y, 0.3)", "sin(x)*y + cos(y)*z", "hypot(x, y)*z + x", "sum(x*y, 1, keepdims=True)*x + y",
    "concat([x, y], 1) * concat([y, z], 1)", "flip(x * y, 1)", "x.mT.mT * y", "log1p(y*y*x*x) + z",
)  # fmt: skip
READ_TWICE = {
    "of all": "V = {}; M = max(V); return max(V - M), any(V == M)",
    "of rows": "V = {}; M = max(V, axis=1, keepdims=True); return max(V - M), all(any(V == M, axis=1))",
    "of columns": "V = {}; M = min(V, axis=0, keepdims=True); return min(V - M), all(any(V == M, axis=0))",
    "so far": "V = {}; M = cummax(V, 1); return max(V - M), all(any(V == M, axis=1))",
    "stored": "V = {}; W = V - max(V, axis=1, keepdims=True); return max(W, axis=1), all(max(W, axis=1) == 0)",
}


def given(dtype, layout, rows=19, columns=67):
    shapes = {"r": (rows, 1), "s": (rows, 1), "u": (1, columns), "v": (1, columns)}
    made = {n: RANDOM.standard_normal(shapes.get(n, (rows, columns))).astype(dtype) for n in "xyzrsuv"}
    return {n: layout(x) for n, x in made.items()}


def graph_value(text, arrays):
    (value,) = interpret(*graph_of(text, arrays))
    return value


def strided(x):
    room = np.empty((x.shape[0], 2 * x.shape[1]), x.dtype)
    room[:, ::2] = x
    return room[:, ::2]


LAYOUTS = ((np.float32, np.copy), (np.float64, np.asfortranarray), (np.float32, strided))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", READ_TWICE)
@pytest.mark.parametrize(
    ("dtype", "layout", "values"),
    [(*layout, VALUES[k :: len(LAYOUTS)]) for k, layout in enumerate(LAYOUTS)]
    + [pytest.param(*layout, VALUES, marks=pytest.mark.slow) for layout in LAYOUTS],
)
def test_a_value_that_is_read_twice_is_one_number(form, dtype, layout, values):
    for value in values:
        difference, found = fd.evaluate(READ_TWICE[form].format(value), given(dtype, layout), fallback=False)
        assert np.all(difference == 0) and found, (value, difference, found)


def drawn(r: random.Random, depth: int) -> str:
    """A value made of products and sums of arrays, rows, columns and numbers."""
    if not depth or r.random() < 0.15:
        return r.choice((*"xyzrsuv", "1.7", "1e10"))
    form = r.choice(("{} * {}", "{} * {}", "({} + {})", "({} - {})", "where({} > 0, x*y, {})", "tanh({}) * {}"))
    return form.format(drawn(r, depth - 1), drawn(r, depth - 1))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(40))
def test_a_drawn_value_that_is_read_twice_is_one_number(seed):
    r = random.Random(seed)
    value, form = drawn(r, 4), r.choice(list(READ_TWICE))
    if not {"x", "y", "z"} & set(value):
        value += " * x"
    difference, found = fd.evaluate(READ_TWICE[form].format(value), given(r.choice("fd"), np.copy), fallback=False)
    assert np.all((difference == 0) | np.isnan(difference)) and (found or np.isnan(difference).any()), (value, form)


@pytest.mark.parametrize(
    ("text", "arrays", "wanted"),
    [
        ("softmax(x * 1e10)", {"x": LOGITS}, FIRST),
        ("softmax(x * x)", {"x": LOGITS * np.float32(1e6)}, FIRST),
        ("softmax(x * 1e25)", {"x": LOGITS.astype(float)}, FIRST),
        ("softmax(x * c)", {"x": LOGITS, "c": np.full(3, 1e12, np.float32)}, FIRST),
        ("softmax(x * c + r*s)", {"x": LOGITS, "c": 1e12, "r": LOGITS[:, :1], "s": LOGITS[:, :1]}, FIRST),
        ("exp(log_softmax(x * 1e30))", {"x": LOGITS}, FIRST),
        ("softmax(x * 1e10 + where(x < 9, 0, -inf))", {"x": LOGITS}, FIRST),
        ("softmax(x * 1e10 - triu(full_like(x, inf), 4))", {"x": LOGITS}, FIRST),
        ("logsumexp(x * 1e10, -1)", {"x": LOGITS}, (LOGITS * np.float32(1e10)).max(-1)),
        ("p = a * b; sqrt(p - min(p)) == 0", {"a": LOGITS[0], "b": LOGITS[1] + 3}, [True, False, False]),
        ("p = a * b; (p == max(p)) & (p - max(p) == 0)", {"a": LOGITS[0], "b": LOGITS[1] + 3}, [False, False, True]),
        ("var(a * b, -1)", {"a": np.full((3, 64), 0.1), "b": np.full((3, 64), 0.7)}, [0, 0, 0]),
        ("p = a * b; p - p", {"a": LOGITS, "b": LOGITS}, np.zeros((2, 3))),
        ("diff(a * b)", {"a": np.full(99, 0.1), "b": np.full(99, 0.7)}, np.zeros(98)),
    ],
)
def test_a_product_is_not_contracted_into_the_subtraction_of_itself(text, arrays, wanted):
    found = fd.evaluate(text, arrays, fallback=False)
    np.testing.assert_array_equal(found, np.asarray(wanted, found.dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [1e5, 1e10, 1e20])
def test_attention_of_far_scores_takes_the_largest(dtype, factor):
    q, k, v = (RANDOM.standard_normal((1, 2, n, 16)).astype(dtype) for n in (70, 300, 300))
    scores = (q @ k.mT) * dtype(factor)
    wanted = np.take_along_axis(v, scores.argmax(-1)[..., None], 2)
    texts = ("softmax(q @ k.mT * c) @ v", "exp(log_softmax(q @ k.mT * c)) @ v", "attention(q, k, v, scale=c)")
    for text in texts:
        found = fd.evaluate(text, q=q, k=k, v=v, c=factor, fallback=False)
        assert np.isfinite(found).all()
        assert (np.abs(found - wanted).max(-1) < 1e-6).mean() > 0.95  # nearly alike scores share the weight


# ---- which products are rounded by themselves


@pytest.mark.parametrize(
    ("text", "rounded"),
    [
        ("x*y + z", 0),
        ("sum(x*y, 1) + 1", 0),
        ("x*y + z*x", 0),
        ("p = x*y; p + z, p", 1),
        ("p = x*y; p / max(p)", 0),
        ("p = x*y; p - max(p)", 1),
        ("p = x*y; p - p", 1),
        ("p = -(x*y); p - max(p)", 1),
        ("p = where(x > 0, x*y, z); p - max(p)", 1),
        ("diff(x*y)", 1),
        ("V = x*y + z; V - max(V)", 0),
        ("V = x*y + z*x; V - max(V)", 1),
        ("V = r*r + x; V - max(V)", 1),
        ("V = r*r + x; V - 1", 0),
        ("cumsum(x*y, 1)", 0),
        ("p = x*y; cumsum(p, 1) / p", 1),
        ("i*i - max(i*i)", 0),
        ("V = x*y + where(x > 1, 0, -inf); V - max(V)", 1),
        ("V = minimum(x*y, where(x > 1, inf, -inf)); V - max(V)", 1),
        ("V = x*y + where(x > 1, 0, -9); V - max(V)", 0),
    ],
)
def test_products_that_more_than_a_sum_reads_are_rounded(text, rounded):
    x = np.ones((3, 4), np.float32)
    graph, _ = graph_of(text, {"x": x, "y": x, "z": x, "r": x[:, :1], "i": np.arange(4)})
    found = list(walk(round_products(rewrite(graph)).results))
    assert sum(n.attr == ROUNDED for n in found) == rounded


@pytest.mark.parametrize("d", [FLOAT32, FLOAT64], ids=repr)
def test_what_a_function_gives_is_not_contracted(d):
    """LLVM contracts products that say so: the last one of a function must not."""
    for name, function in table.FUNCTIONS.items():
        kind = ir.FunctionType(ir.VoidType(), [llvm_type(d)] * 4)
        made = ir.Function(ir.Module(), kind, "f")
        builder = ir.IRBuilder(made.append_basic_block())
        arity = function.__code__.co_argcount if not function.__code__.co_flags & 4 else 1
        value = function(*(LLVMValue(builder, d, a) for a in made.args[:arity])).value
        assert getattr(value, "opname", "") != "fmul" or not value.flags, name


# ---- the option


def test_without_contraction_equal_products_cancel():
    a = RANDOM.random(1000) + 1
    assert np.isnan(fd.evaluate("sqrt(a*a - b*b)", a=a, b=a.copy())).any()
    for dtype in (np.float32, np.float64):
        one, other = a.astype(dtype), a.astype(dtype)
        with fd.options(fp_contract=False):
            assert not fd.evaluate("a*a - b*b", a=one, b=other).any()
            found = fd.evaluate("a*b + a*0.3 - b", a=one, b=other)
            np.testing.assert_array_equal(found, one * one + one * dtype(0.3) - one)


@pytest.mark.parametrize(
    "text", ["prod(x, 1)", "cumprod(x, 1)", "layer_norm(x*x + x)", "softmax(x @ x.mT * 0.3) @ x", "std(x*x, 0)"]
)
def test_without_contraction_every_kernel_computes(text):
    x = RANDOM.random((30, 40))
    found = fd.evaluate(text, x=x, fp_contract=False, fallback=False)
    np.testing.assert_allclose(found, fd.evaluate(text, x=x), rtol=1e-12)


def test_no_product_is_left_to_be_contracted():
    for text in ("x*y + z", "softmax(x*y + z)", "layer_norm(x*y, z[0])", "cumsum(x*y, 1)", "x % y + i*i"):
        given = {n: fd.spec((512, 512), "float32") for n in "xyz"} | {"i": fd.spec((512, 512), "int32")}
        kernel = fd.kernel(text, fp_contract=False)
        for device in ("cpu", "cuda"):
            source = kernel.source(*(given[n] for n in kernel.params), device=device)
            bodies = [line for line in source.splitlines() if "_0 =" in line and " * " in line.partition("#")[0]]
            assert all("int" in line for line in bodies), bodies


# ---- on CUDA


ON_CUDA = {
    "softmax(x * 1e10)": "mul.rn.f32",
    "V = x*y + z*y; M = max(V, axis=1, keepdims=True); where(V == M, V - M, 1)": "mul.rn.f32",
    "V = float64(x) * y; min(V - min(V, axis=0, keepdims=True), axis=0)": "mul.rn.f64",
    "p = x * y; p - cummax(p, 1)": "mul.rn.f32",
}


@pytest.mark.parametrize("text", ON_CUDA)
def test_rounded_products_reach_ptx_as_such(text):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    from fusedsl.runtime.array_copies import to_host

    arrays = given(np.float32, np.copy, 7, 131)
    kernel = fd.kernel(text, fallback=False)
    with emulated_gpu(multiprocessors=4) as gpu:
        found = to_host(kernel(*(gpu.asarray(arrays[n]) for n in kernel.params)))
    assert ON_CUDA[text] in "".join(gpu.ptx)
    np.testing.assert_allclose(found, graph_value(text, arrays), rtol=1e-5, atol=1e-6)


def test_without_contraction_ptx_multiplies_and_adds():
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    from fusedsl.runtime.array_copies import to_host

    x = RANDOM.random((3, 70)).astype(np.float32) + 1
    with emulated_gpu() as gpu:
        assert not to_host(fd.evaluate("x*x - y*y", x=gpu.asarray(x), y=gpu.asarray(x), fp_contract=False)).any()
    (text,) = gpu.ptx
    assert "mul.rn.f32" in text and "fma" not in text
