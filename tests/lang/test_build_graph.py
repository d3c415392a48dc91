"""Texts as graphs: what each form means (NumPy is the oracle) and how each fault is worded and placed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from oracle import evaluate, graph_of

import fusedsl as fd
from fusedsl.config import DEFAULT
from fusedsl.errors import ArgumentError, FusedslError, LimitError, ShapeError, UnknownNameError, Unsupported
from fusedsl.ir.interp import interpret
from fusedsl.lang.build_graph import parameter_names
from fusedsl.lang.parse import parse

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)
Y = RNG.normal(size=(3, 4)).astype(np.float32)
T = RNG.normal(size=(2, 3, 4)).astype(np.float32)
B = RNG.normal(size=4).astype(np.float32)
N = RNG.integers(-9, 9, (3, 4)).astype(np.int32)
M = RNG.random((3, 4)) < 0.5
ARRAYS = {"x": X, "y": Y, "t": T, "b": B, "n": N, "m": M, "k": 2, "s": 1.5, "flag": True}

# ---- meaning

PAIRS = [
    ("2*x + 3*y", lambda: 2 * X + 3 * Y),
    ("-x**2 // b % 0.7", lambda: -(X**2) // B % np.float32(0.7)),
    ("x < y <= 1", lambda: (X < Y) & (Y <= 1)),
    ("m and not (x > 0) or flag", lambda: M & ~(X > 0) | True),
    ("x if m else y", lambda: np.where(M, X, Y)),
    ("x if True else m", lambda: X),
    ("~n ^ 5 | n << 2 & n >> 1", lambda: ~N ^ 5 | N << 2 & N >> 1),
    ("s*x + k", lambda: np.float32(1.5) * X + 2),
    ("a = x + y; a = a*2; a - x", lambda: (X + Y) * 2 - X),
    ("f(t, w=2) = t*w + b\nf(x) - f(y, w=3)", lambda: (X * 2 + B) - (Y * 3 + B)),
    ("f(u) = u + 1; g(u) = f(f(u)) * 2; f(u) = u; g(x)", lambda: (X + 1 + 1) * 2),
    ("exp(x) = x + 1; exp(x)", lambda: X + 1),
    ("f(u, d=float64) = astype(u, d); f(x)", lambda: X.astype(np.float64)),
    ("sum(x)", lambda: X.sum()),
    ("sum(x, 0, dtype=float64)", lambda: X.sum(0, dtype=np.float64)),
    ("sum(t, axis=(0, -1), keepdims=True)", lambda: T.sum((0, -1), keepdims=True)),
    ("sum(n, dtype=int8)", lambda: N.sum(dtype=np.int8)),
    ("sum(m, 0)", lambda: M.sum(0)),
    ("prod(x, -1, where=m)", lambda: X.prod(-1, where=M)),
    ("max(x, axis=0)", lambda: X.max(0)),
    ("min(n)", lambda: N.min()),
    ("max(x, axis=1, where=m)", lambda: X.max(1, where=M, initial=-np.inf)),
    ("any(x > 1, -1) | all(m, -1, keepdims=False)", lambda: (X > 1).any(-1) | M.all(-1)),
    ("argmax(x, 1) + argmin(x, 1)", lambda: X.argmax(1) + X.argmin(1)),
    ("argmax(t)", lambda: T.argmax()),
    ("argmax(x, keepdims=True)", lambda: X.argmax(keepdims=True)),
    ("count_nonzero(n)", lambda: np.count_nonzero(N)),
    ("mean(n)", lambda: N.mean()),
    ("mean(x, where=m)", lambda: X.mean(where=M)),
    ("var(x, 0, ddof=1)", lambda: X.var(0, ddof=1)),
    ("std(x, axis=1, correction=1, keepdims=True)", lambda: X.std(1, ddof=1, keepdims=True)),
    ("norm(x, -1)", lambda: np.linalg.norm(X, axis=-1)),
    ("nansum(where(m, x, nan), 0)", lambda: np.nansum(np.where(M, X, np.float32(np.nan)), 0)),
    ("x[1]", lambda: X[1]),
    ("x[-1, ::-2]", lambda: X[-1, ::-2]),
    ("t[..., None, 1:-1]", lambda: T[..., None, 1:-1]),
    ("x[:size(x, 0)//2]", lambda: X[:1]),
    ("x[:, size(b) - 1]", lambda: X[:, 3]),
    ("x.T + t[0].T", lambda: X.T + T[0].T),
    ("t.mT", lambda: T.mT),
    ("reshape(t, (size(t, 0), -1))", lambda: T.reshape(2, -1)),
    ("reshape(x, -1)", lambda: X.reshape(-1)),
    ("reshape(x, shape(x.T))", lambda: X.reshape(4, 3)),
    ("transpose(t, (2, 0, 1))", lambda: T.transpose(2, 0, 1)),
    ("swapaxes(t, 0, -1)", lambda: T.swapaxes(0, -1)),
    ("expand_dims(x, (0, -1))", lambda: X[None, :, :, None]),
    ("squeeze(x[:, :1], 1)", lambda: X[:, 0]),
    ("squeeze(x[None])", lambda: X),
    ("broadcast_to(b, (2, 3, 4))", lambda: np.broadcast_to(B, (2, 3, 4))),
    ("size(t)", lambda: np.int64(24)),
    ("size(t, (0, 1)) * x", lambda: 6 * X),
    ("shape(t)[1] + 0*b", lambda: 3 + 0 * B),
    ("r, c = shape(x)\nx * c - r", lambda: X * 4 - 3),
    ("iota(x, 1) * x", lambda: np.arange(4, dtype=np.float32) * X),
    ("iota(t, 0)", lambda: np.broadcast_to(np.arange(2)[:, None, None], (2, 3, 4))),
    ("arange(5)", lambda: np.arange(5)),
    ("b * arange(7, -1, -2)", lambda: B * np.float32([7, 5, 3, 1])),
    ("arange(size(b)) + 1.5", lambda: np.arange(4) + 1.5),
    ("tril(x) + triu(y, k=1)", lambda: np.tril(X) + np.triu(Y, 1)),
    ("tril(m)", lambda: np.tril(M)),
    ("zeros_like(n) + ones_like(x) + full_like(x, 2)", lambda: np.zeros_like(N) + np.ones_like(X) + 2),
    ("full_like(n, 2.7)", lambda: np.full_like(N, 2.7)),
    ("astype(x, float16)", lambda: X.astype(np.float16)),
    ("astype(x, 'int8')", lambda: X.astype(np.int8)),
    ("int32(x*10) + uint8(7)", lambda: (X * 10).astype(np.int32) + np.uint8(7)),
    ("float64(1)/3", lambda: np.float64(1) / 3),
    ("round(x, decimals=2)", lambda: X.round(2)),
    ("round(n*10, decimals=-2)", lambda: (N * 10).round(-2)),
    ("fix(x*3) + trunc(x*3) + floor(x) - ceil(x)", lambda: 2 * np.trunc(X * 3) + np.floor(X) - np.ceil(X)),
    ("reciprocal(x)", lambda: 1 / X),
    ("reciprocal(n*n + 1)", lambda: np.reciprocal(N * N + 1)),
    ("nan_to_num(where(m, x/0, nan))", lambda: np.nan_to_num(np.where(M, X / 0, np.float32(np.nan)))),
    ("nan_to_num(where(m, x/0, nan), nan=1.0, posinf=2.0, neginf=-3.0)",
     lambda: np.nan_to_num(np.where(M, X / 0, np.float32(np.nan)), nan=1, posinf=2, neginf=-3)),
    ("clip(x, None, 0.5)", lambda: np.clip(X, None, 0.5)),
    ("fabs(n)", lambda: np.fabs(N)),
    ("add(x, multiply(y, 2)) - pow(x, 2) + acos(x*0)", lambda: X + Y * 2 - X**2 + np.arccos(X * 0)),
    ("permute_dims(x, (1, 0)) + matrix_transpose(y)", lambda: X.T + Y.T),
    ("ldexp(x, n)", lambda: np.ldexp(X, N)),
    ("copy(x)", lambda: X),
    ("x * (-2 if s else pi) + (k if inf else 1)", lambda: X * -2 + 2),
    ("heaviside(int8(n), 0.5)", lambda: np.heaviside(N.astype(np.int8), 0.5)),
    ("where(m, 1, 2)", lambda: np.where(M, 1, 2)),
    ("bitwise_not(n) + bitwise_left_shift(n, 1)", lambda: ~N + (N << 1)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "numpy"), PAIRS, ids=[text for text, _ in PAIRS])
def test_a_text_means_what_numpy_computes(text, numpy):
    with np.errstate(all="ignore"):
        wanted = np.asarray(numpy())
    found = evaluate(text, **ARRAYS)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_several_results():
    q, r = evaluate("divmod(n, 4)", **ARRAYS)
    assert np.array_equal(q, N // 4) and np.array_equal(r, N % 4)
    a, b, c = evaluate("q, r = divmod(n, 4); return q, r, x", **ARRAYS)
    assert np.array_equal(a, q) and np.array_equal(b, r) and np.array_equal(c, X)


def test_weak_values_take_the_dtype_that_they_meet():
    half = X.astype(np.float16)
    assert evaluate("x * (pi + size(x)) + iota(x, 0)", x=half).dtype == np.float16
    assert evaluate("k*s + x", x=half, k=3, s=0.5).dtype == np.float16
    assert evaluate("sqrt(size(x))", x=half).dtype == np.float64
    assert evaluate("size(x) * 2", x=half).dtype == np.int64
    assert evaluate("n + 1.5", n=N.astype(np.int8)).dtype == np.float64


def test_narrow_floats_are_rounded_once():
    half = np.float16([2048.0])
    assert evaluate("(x + 1) - x", x=half) == 1
    assert evaluate("astype(x + 1, float16) - x", x=half) == 0
    assert evaluate("(x + 1) - x", DEFAULT.changed({"rounding": "op"}), x=half) == 0


def test_a_graph_serves_every_shape():
    graph, _ = graph_of("sum(x[1:, :size(x, 1)//2] * mean(x, 0)[:size(x, 1)//2], -1)", {"x": X})
    for shape in ((3, 4), (7, 9), (1, 2), (2, 1000)):
        x = RNG.normal(size=shape).astype(np.float32)
        half = shape[1] // 2
        wanted = (x[1:, :half] * x.mean(0)[:half]).sum(-1)
        np.testing.assert_allclose(interpret(graph, [x])[0], wanted, rtol=1e-5, atol=1e-5)


def test_names_of_dtypes_are_parameters_only_as_operands():
    assert parameter_names(parse("astype(x, float16) + float32(y)")) == ("x", "y")
    assert parameter_names(parse("float16 * x")) == ("float16", "x")
    assert parameter_names(parse("f(a, d=int8) = astype(a*w, d); f(cos)")) == ("w", "cos")
    assert evaluate("cos(cos) + var[0]", cos=X, var=X)[0, 0] == np.cos(X[0, 0]) + X[0, 0]


def test_long_chains_and_deep_functions_do_not_recurse():
    assert evaluate("a" + " + a" * 900, a=np.ones(2, np.float32))[0] == 901
    assert evaluate("**".join(["a"] * 50), a=np.ones(2))[0] == 1
    steps = "f0(x) = x\n" + "\n".join(f"f{k}(x) = f{k - 1}(x) + 1" for k in range(1, 900))
    assert evaluate(f"{steps}\nf899(a)", a=np.zeros(1, np.float32))[0] == 899
    with pytest.raises(LimitError, match="4096 operations"):
        evaluate("f0(x) = x + x\n" + "\n".join(f"f{k}(x) = f{k - 1}(f{k - 1}(x))" for k in range(1, 99)) + "\nf98(a)",
                 a=np.zeros(1))  # fmt: skip


# ---- faults: text, class, column, a part of the message or help

VARIABLES = {
    "a": np.zeros(4, np.float32), "b": np.zeros(4, np.float32), "x": np.zeros((3, 4), np.float32),
    "y": np.zeros((3, 4), np.float32), "i": np.zeros((3, 4), np.int32), "m": np.zeros((3, 4), bool),
    "u": np.zeros((3, 4), np.uint8), "h": np.zeros((3, 4), np.float16), "w": np.zeros(5, np.float32),
    "e": np.zeros((0, 4), np.float32), "s": np.zeros((), np.float32), "k": 3,
}  # fmt: skip
FAULTS = [
    ("eval('1')", "UnknownNameError", 1, "no function eval"),
    ("getattr(a,'T')", "UnknownNameError", 1, ""),
    ("dir()", "UnknownNameError", 1, ""),
    ("__builtins__", "UnknownNameError", 1, ""),
    ("_out", "UnknownNameError", 1, ""),
    ("exp()", "ArgumentError", 5, "is missing x"),
    ("where()", "ArgumentError", 7, ""),
    ("max()", "ArgumentError", 5, ""),
    ("exp(a, b)", "ArgumentError", 8, ""),
    ("expp(a)", "UnknownNameError", 1, "did you mean exp?"),
    ("a(b)", "UnknownNameError", 1, ""),
    ("a + a(b)", "UnknownNameError", 5, "a is a value"),
    ("alpha = b; alpa + 1", "UnknownNameError", 12, "did you mean alpha?"),
    ("f(x) = x + 1\ng(x) = x*zz; f(a)", "UnknownNameError", 10, "name 'zz' is not defined"),
    ("a + none", "UnknownNameError", 5, "did you mean None?"),
    ("total = a + b; totl * 2", "UnknownNameError", 16, "did you mean total?"),
    ("f(x) = f(x) + 1; f(a)", "UnknownNameError", 8, ""),
    ("_kept(a, None, 0)", "UnknownNameError", 1, ""),
    ("layer_norm(x, axis=1, epsilon=1e-5)", "UnknownNameError", 23, "did you mean eps?"),
    ("sum(x, axes=0)", "UnknownNameError", 8, "did you mean axis?"),
    ("max(x, 0)", "ArgumentError", 8, "maximum(x, 0), or axis=0?"),
    ("sum(x, 0, float64)", "ArgumentError", 11, "by keyword"),
    ("sum(x, axis='0')", "ArgumentError", 13, ""),
    ("sum(x, axis=k)", "ArgumentError", 13, "run time"),
    ("sum(x, axis=1.5)", "ArgumentError", 13, ""),
    ("sum(x, keepdims=1)", "ArgumentError", 17, "True or False"),
    ("sum(x, dtype='float33')", "ArgumentError", 14, "did you mean float32?"),
    ("sum(x, axis=(0, 0))", "ArgumentError", 17, "twice"),
    ("gelu(x, approximate='tnh')", "ArgumentError", 21, "did you mean 'tanh'?"),
    ("exp(None)", "ArgumentError", 5, ""),
    ("exp('x')", "ArgumentError", 5, ""),
    ("x + float32", "ArgumentError", 5, "astype"),
    ("a, b = exp(x); a", "ArgumentError", 8, "2 names for 1 result"),
    ("a or b", "DTypeError", 3, "|"),
    ("not a", "DTypeError", 1, "~"),
    ("m - m", "DTypeError", 3, "^"),
    ("-m", "DTypeError", 1, "negate"),
    ("x | 1", "DTypeError", 3, ""),
    ("i << 1.0", "DTypeError", 3, ""),
    ("bitwise_and(i, x)", "DTypeError", 16, "float32 has no bits"),
    ("i + 99999999999999999999", "DTypeError", 5, "does not fit int32"),
    ("99999999999999999999", "DTypeError", 1, "does not fit int64"),
    ("u * (a[0] + 1) + u*-300", "DTypeError", 20, "does not fit uint8"),
    ("maximum(u, 256)", "DTypeError", 12, "does not fit"),
    ("sum(x, axis=2)", "ShapeError", 13, "-2 to 1"),
    ("sum(x, axis=(0, 2))", "ShapeError", 17, ""),
    ("layer_norm(x, axis=5)", "ShapeError", 20, ""),
    ("softmax(s)", "ShapeError", 1, "no axes"),
    ("min(e)", "ShapeError", 1, "empty"),
    ("f(t) = max(t); 1 + f(e)", "ShapeError", 20, "empty"),
    ("x[3]", "ShapeError", 3, "-3 to 2"),
    ("x[0, -5]", "ShapeError", 6, ""),
    ("x[..., 4]", "ShapeError", 8, ""),
    ("x[0, 0, 0]", "ShapeError", 9, "2 axes"),
    ("x[::0]", "ShapeError", 3, "step"),
    ("reshape(x, (5, 2))", "ShapeError", 13, ""),
    ("reshape(x, (-1, -1))", "ShapeError", 13, ""),
    ("broadcast_to(x, (3, 5))", "ShapeError", 21, ""),
    ("squeeze(x, 0)", "ShapeError", 12, ""),
    ("swapaxes(x, 0, 2)", "ShapeError", 16, ""),
    ("a.mT", "ShapeError", 3, "2 axes"),
    ("(x + w) * b", "ShapeError", 4, "w needs 4 elements"),
    ("x + y[:, None, :, None]", "ShapeError", 3, ""),
    ("f(t) = t*w; f(x)", "ShapeError", 13, ""),
    ("x @ y", "ShapeError", 3, "4 and 3 differ"),
    ("a + searchsorted(a)", "Unsupported", 5, "sorting"),
    ("cumsum(x, 2)", "ShapeError", 11, "axes -2 to 1"),
    ("topk(x, 5)", "ShapeError", 9, "k is at most 4"),
    ("topk(x, 0)", "ArgumentError", 9, "k is a literal"),
    ("topk(x)", "ArgumentError", 7, "topk(x, k"),
    ("sort(x, 2)", "ShapeError", 9, "axes -2 to 1"),
    ("topk(x, 4, 0)", "ShapeError", 9, "k is at most 3"),
    ("partition(x, 4)", "ShapeError", 14, "an axis of 4"),
    ("diff(x, -1)", "ArgumentError", 9, "0 or more"),
    ("x[i, i, i]", "ShapeError", 9, "2 axes"),
    ("x[[0, 1]]", "Unsupported", 3, "list"),
    ("take(x, m, axis=0)", "ArgumentError", 9, "where"),
    ("take(x, x, axis=0)", "DTypeError", 9, "integer"),
    ("take(x, i, axis=2)", "ShapeError", 17, ""),
    ("take_along_axis(x, b > 0, 0)", "ShapeError", 20, "as many axes"),
    ("concat(x)", "ArgumentError", 8, "[x, y]"),
    ("concat([x, a])", "ShapeError", 12, "as many axes"),
    ("concat([x, x[:2]], 1)", "ShapeError", 12, "3 and 2 differ"),
    ("concat([x, x[:, :1]])", "ShapeError", 12, "4 and 1 differ"),
    ("concat([x, 'a'])", "ArgumentError", 12, ""),
    ("concat([x, x], axis=5)", "ShapeError", 21, "axis 5"),
    ("stack([x, x], axis=7)", "ShapeError", 20, ""),
    ("repeat(x, -1)", "ArgumentError", 11, "negative"),
    ("repeat(x, b)", "ArgumentError", 11, "integer"),
    ("roll(x, (1, 2), 0)", "ArgumentError", 9, "2 shifts"),
    ("flip(x, 5)", "ShapeError", 9, ""),
    ("pad(x, 1, 'refl')", "ArgumentError", 11, "did you mean 'reflect'?"),
    ("pad(x, ((1, 2), (1, 2), (1, 2)))", "ArgumentError", 8, "pairs"),
    ("pad(x, -1)", "ArgumentError", 8, "negative"),
    ("x[m]", "ArgumentError", 3, "where(mask, x, 0)"),
    ("x[1.5]", "DTypeError", 3, ""),
    ("float8_e4m3fn(x) * 2", "DTypeError", 18, "float32(x)"),
    ("sum(float8_e5m2(x))", "DTypeError", 1, "float32(x)"),
    ("where(m, float8_e5m2(x), float8_e4m3fn(x))", "DTypeError", 7, "cast it first"),
    ("1<<1000000000", "LimitError", 2, ""),
    ("2**63 * 2**63", "LimitError", 7, ""),
    ("expand_dims(x, None)", "ArgumentError", 16, "an integer"),
    ("iota(x, axis=None)", "ArgumentError", 14, ""),
    ("iota(x, 2)", "ShapeError", 9, "-2 to 1"),
    ("1 >> inf", "DTypeError", 3, ""),
    ("x[..., 0, ...]", "ShapeError", 11, "only one"),
    ("x[None" + ", None" * 40 + "]", "LimitError", 2, "axes"),
]


@pytest.mark.parametrize(("text", "error", "column", "part"), FAULTS, ids=[text[:30] for text, *_ in FAULTS])
def test_a_fault_is_placed_and_explained(text, error, column, part):
    with pytest.raises(FusedslError) as caught:
        evaluate(text, **VARIABLES)
    found = caught.value
    assert (type(found).__name__, found.column) == (error, column)
    assert part in str(found) and "^" in str(found)


@pytest.mark.parametrize(
    "text", ["i // 0", "i % 0", "where(x, x, y)", "argmax(m) + x", "a == b != a", "x[(((((0)))))]", "sum(e)", "mean(e)"]
)
def test_legal_texts_run(text):
    evaluate(text, **VARIABLES)


def test_faults_of_independent_statements_come_together():
    with pytest.raises(ArgumentError) as caught:
        evaluate("p = exp(a, b)\nq = tahn(a)\nr = p + q\nx + w", **VARIABLES)
    assert [type(e).__name__ for e in caught.value.others] == ["UnknownNameError", "ShapeError"]
    assert "line 2, column 5" in str(caught.value)


def test_a_missing_argument_is_an_unknown_name():
    with pytest.raises(UnknownNameError, match="weight"):
        evaluate("x * weight", x=X)


def test_checks_of_later_calls_point_into_the_text():
    graph, _ = graph_of("(x + w) * 2", {"x": X, "w": B})
    with pytest.raises(ShapeError) as caught:
        interpret(graph, [X, np.zeros(5, np.float32)])
    assert str(caught.value) == (
        "fusedsl.ShapeError[shape.broadcast]: cannot add float32[3, 4] and float32[5]\n"
        "  1 | (x + w) * 2\n"
        "    |  ~~^~~  4 and 5 differ in the last axis\n"
        "  help: w needs 4 elements, or 1"
    )


def test_every_name_of_the_later_list_is_refused_by_name():
    from fusedsl.lang.functions import UNSUPPORTED

    for name in UNSUPPORTED:
        with pytest.raises(Unsupported, match=name):
            evaluate(f"{name}(x)", x=X)


def test_constants_are_whatever_a_literal_may_be():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    given = {"a": None, "k": True, "w": [[1, 0], [0, 2]], "m": "edge", "s": (3, -1), "d": "int8"}
    kernel = fd.kernel("pad(sum(x, axis=a, keepdims=k), w, mode=m), astype(reshape(x, s), d)", constants=given)
    total, turned = pickle.loads(pickle.dumps(kernel))(x)
    assert total.tolist() == [[15.0] * 3] * 2 and turned.dtype == np.int8 and turned.shape == (3, 2)
    with pytest.raises(fd.ArgumentError, match="constant w is dict"):
        fd.kernel("x * w", constants={"w": {}})
