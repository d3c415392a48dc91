"""Contractions: what matmul, dot, einsum and their kin mean (NumPy is the oracle), on the interpreter and compiled."""

from __future__ import annotations

import warnings

import bounds
import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e4m3fn, float8_e5m2
from oracle import call, evaluate, graph_of

import fusedsl as fd
from fusedsl.errors import FusedslError
from fusedsl.ir.printer import show

RNG = np.random.default_rng(0)


def whole(*shape, dtype=np.float32):
    """Small whole numbers, whose products add up exactly in any dtype."""
    return RNG.integers(-3, 4, shape).astype(dtype)


# ---- shapes

SHAPES = [
    ((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((1, 4), (4, 1)), ((3, 1), (1, 5)), ((1,), (1,)),
    ((3, 0), (0, 5)), ((0, 4), (4, 5)), ((2, 3, 0), (0,)), ((0,), (0,)), ((1, 3, 4), (2, 4, 1)),
]  # fmt: skip
EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("ij,kj->ki", (3, 4), (5, 4)), ("i,j->ji", (3,), (4,)),
    ("ij,ij->", (3, 4), (3, 4)), ("ij,ij->ij", (3, 4), (3, 4)), ("ij,j->", (3, 4), (4,)), ("ij,jk->k", (3, 4), (4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)), ("bi,bj->ij", (7, 3), (7, 4)), (",ij->ji", (), (3, 4)),
    ("ij,jk->ik", (3, 1), (4, 5)), ("i j , j -> i", (3, 4), (4,)), ("abc,dcb->ad", (2, 3, 4), (5, 4, 3)),
    ("ij,kl->jl", (2, 3), (4, 5)), ("ba,ab", (3, 4), (4, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul_has_numpys_shapes(left, right):
    x, y = whole(*left), whole(*right)
    np.testing.assert_array_equal(evaluate("x @ y", x=x, y=y), x @ y, strict=True)


@pytest.mark.parametrize(("subscripts", "left", "right"), EINSUMS)
def test_einsum_has_numpys_subscripts(subscripts, left, right):
    x, y = whole(*left), whole(*right)
    found = evaluate(f'einsum("{subscripts}", x, y)', x=x, y=y)
    np.testing.assert_array_equal(found, np.einsum(subscripts, x, y), strict=True)


X, Y, V, T, U = whole(3, 4), whole(5, 4), whole(4), whole(2, 3, 4), whole(4, 3, 6)
GIVEN = {"x": X, "y": Y, "v": V, "t": T, "u": U}
FORMS = [
    ("matmul(x, v)", lambda: X @ V), ("dot(v, v)", lambda: np.dot(V, V)), ("dot(t, y.T)", lambda: np.dot(T, Y.T)),
    ("dot(x, 2)", lambda: np.dot(X, np.float32(2))), ("dot(t, u[0, :2, :4].T)", lambda: np.dot(T, U[0, :2, :4].T)),
    ("inner(x, y)", lambda: np.inner(X, Y)), ("inner(t, v)", lambda: np.inner(T, V)),
    ("vdot(x, y[:3])", lambda: np.vdot(X, Y[:3])), ("vecdot(x, v)", lambda: np.vecdot(X, V)),
    ("vecdot(x, y[:3], axis=0)", lambda: np.vecdot(X, Y[:3], axis=0)),
    ("tensordot(t, u, axes=((2, 1), (0, 1)))", lambda: np.tensordot(T, U, ((2, 1), (0, 1)))),
    ("tensordot(t, u, 1)", lambda: np.tensordot(T, U, 1)), ("tensordot(v, v, 0)", lambda: np.tensordot(V, V, 0)),
    ("tensordot(t, u, axes=(-1, 0))", lambda: np.tensordot(T, U, (-1, 0))),
    ("linear_algebra(a, b) = a @ b.mT; linear_algebra(x, y)", lambda: X @ Y.mT),
    ('einsum("ij->ji", x)', lambda: X.T), ('einsum("ijk->j", t)', lambda: T.sum((0, 2))),
    ('einsum("ji", x)', lambda: X.T),
    ("iota(x, 1) @ v", lambda: np.broadcast_to(np.arange(4, dtype=np.float32), (3, 4)) @ V),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FORMS, ids=[t for t, _ in FORMS])
def test_each_form_means_what_numpy_says(text, expected):
    np.testing.assert_array_equal(
        evaluate(text, **{name: GIVEN[name] for name in GIVEN if name in text}), expected(), strict=True
    )


@pytest.mark.parametrize("function", [
    lambda x, y: x @ y, lambda x, y: np.matmul(x, y), lambda x, y: np.dot(x, y), lambda x, y: x.dot(y),
    lambda x, y: np.einsum("ij,jk->ki", x, y), lambda x, y: np.tensordot(x, y, 1), lambda x, y: np.inner(x, y.T),
    lambda x, y: np.vdot(x, y.T), lambda x, y: np.vecdot(x, y.T), lambda x, y: np.einsum("ij->i", x),
    lambda x, y: np.ones((2, 3), np.float32) @ x, lambda x, y: np.tensordot(x, y, axes=([1], [0])),
])  # fmt: skip
def test_numpys_functions_are_traced(function):
    x, y = whole(3, 4), whole(4, 3)
    np.testing.assert_array_equal(call(function, x, y)[0], function(x, y), strict=True)


# ---- dtypes


@pytest.mark.parametrize(("one", "other"), [
    ("int8", "int8"), ("int8", "uint8"), ("int32", "int64"), ("uint64", "uint64"), ("bool", "bool"), ("bool", "int16"),
    ("float16", "float16"), ("float16", "float32"), ("int32", "float32"), ("float64", "float32"), ("bool", "float16"),
])  # fmt: skip
def test_dtypes_are_numpys(one, other):
    x, y = (RNG.integers(0, 20, shape).astype(d) for shape, d in (((3, 40), one), ((40, 5), other)))
    found, expected = evaluate("x @ y", x=x, y=y), x @ y
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=2e-3 if "16" in one else 0)


def test_integers_wrap_in_their_own_width():
    x = np.full((2, 300), 100, np.int8)
    np.testing.assert_array_equal(evaluate("x @ x.T", x=x), x @ x.T, strict=True)


def test_narrow_operands_are_rounded_and_sums_are_not():
    x = np.float16([[1, 2048]])
    y = np.float16([[1], [1]])
    assert evaluate("astype(x @ y, float32)", x=x, y=y) == 2049  # float16 has no 2049
    third = np.float16([[3, 5]])
    expected = (np.float16([[1]]) / third).astype(np.float32) @ np.float32([[1], [1]])
    np.testing.assert_array_equal(evaluate("astype((1 / x) @ y, float32)", x=third, y=y), expected)


@pytest.mark.parametrize(("one", "other", "result"), [
    (float8_e4m3fn, float8_e4m3fn, "float32"), (float8_e5m2, float8_e4m3fn, "float32"),
    (float8_e4m3fn, bfloat16, "bfloat16"), (bfloat16, bfloat16, "bfloat16"), (np.float16, bfloat16, "float32"),
])  # fmt: skip
def test_what_numpy_does_not_have(one, other, result):
    x, y = whole(3, 4).astype(one), whole(4, 5).astype(other)
    for text in ("x @ y", 'einsum("ij,jk->k", x, y)', 'einsum("ij,jk->ijk", x, y)'):
        found = evaluate(text, x=x, y=y)
        assert found.dtype.name == result
        wide = np.einsum(text.split('"')[1] if '"' in text else "ij,jk->ik", x.astype(np.float32), y.astype(np.float32))
        np.testing.assert_array_equal(found.astype(np.float32), wide)


# ---- the graph


def test_equal_contractions_are_one_node_and_print():
    graph, _ = graph_of('x @ y, einsum("pq,qr->pr", x, y)', {"x": whole(3, 4), "y": whole(4, 5)})
    assert graph.results[0] is graph.results[1]
    assert "%2: f32[n0_0, n1_1] = contract %0, %1, ab,bc->ac" in show(graph)
    assert "require contract n0_1, n1_0" in show(graph)


# ---- faults

FAULTS = [
    ("x @ y", "ShapeError", "shape.matmul", 3, "4 and 5 differ"),
    ("matmul(x, y)", "ShapeError", "shape.matmul", 1, "4 and 5 differ"),
    ("x @ 2", "ShapeError", "shape.matmul", 3, "@ needs arrays"),
    ("matmul(x, 2)", "ShapeError", "shape.matmul", 11, "@ needs arrays"),
    ("t @ u.mT[:, :4]", "ShapeError", "shape.broadcast", 3, "2 and 4 differ"),
    ("dot(x, y)", "ShapeError", "shape.dot", 1, "4 and 5 differ"),
    ("tensordot(x, y, 3)", "ShapeError", "shape.tensordot", 17, "3 axes"),
    ("tensordot(x, y, ((0, 1), (0,)))", "ArgumentError", "argument.axes", 17, "two lists"),
    ("tensordot(x, y, ((5,), (0,)))", "ShapeError", "shape.axis", 17, "axis 5"),
    ("vecdot(x, y)", "ShapeError", "shape.vecdot", 1, ""),
    ("vecdot(x, v, axis=4)", "ShapeError", "shape.axis", 19, "axis 4"),
    ('einsum("ij,jk->ik", x, y)', "ShapeError", "shape.einsum", 1, "j is 4 and 5"),
    ('einsum("ij,j->i", x, t)', "ShapeError", "shape.einsum", 22, "'j' names 1 axis"),
    ('einsum("ij,jk->iz", x, y)', "ArgumentError", "argument.einsum", 8, "axis z"),
    ('einsum("i1,jk->i", x, y)', "ArgumentError", "argument.einsum", 8, "'1' names no axis"),
    ('einsum("ij,jk->ik", x)', "ArgumentError", "argument.einsum", 8, "2 operands in the subscripts, 1 given"),
    ("einsum(x, y)", "ArgumentError", "argument.kind", 8, "subscripts first"),
    ('einsum("...j,...j", x, y[:4, :2])', "ShapeError", "shape.einsum", 1, "... is 3 and 4"),
    ('einsum("...j,...j", t, y[:, :4])', "ShapeError", "shape.einsum", 1, "... is 3 and 5"),
    ('einsum("ii->i", x)', "ShapeError", "shape.einsum", 1, "i is 3 and 4"),
    ('einsum("ii->i", x[:1])', "ShapeError", "shape.einsum", 1, "i is 1 and 4"),
    ('einsum("i,j,i->", v, v, x)', "ShapeError", "shape.einsum", 25, "... stands for those"),
    ('einsum("..ij", x)', "ArgumentError", "argument.einsum", 8, "write ... once"),
    ('einsum("...i...", x)', "ArgumentError", "argument.einsum", 8, "write ... once"),
    ('einsum("...i->i", x)', "ArgumentError", "argument.einsum", 8, "->...i"),
    ('einsum("ij->iji", x)', "ArgumentError", "argument.einsum", 8, "twice in the result"),
    ('einsum("ij,jk->ik", x, "y")', "ArgumentError", "argument.kind", 24, "without quotes"),
    ('einsum("ij")', "ArgumentError", "argument.einsum", 8, "1 operand in the subscripts, 0 given"),
    ('einsum("ij", x, out=v)', "UnknownNameError", "name.keyword", 17, "give out= to the call"),
    ("diagonal(v)", "ShapeError", "shape.axis", 1, ""),
    ("diagonal(x, 0, 1, -1)", "ArgumentError", "argument.axis", 19, "axis -1 is given twice"),
    ("trace(x, v)", "ArgumentError", "argument.kind", 10, "an integer"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "error", "code", "column", "words"), FAULTS, ids=[f[0] for f in FAULTS])
def test_faults_say_what_differs_and_where(text, error, code, column, words):
    with pytest.raises(FusedslError) as raised:
        evaluate(text, **{name: GIVEN[name] for name in GIVEN if name in text})
    found = raised.value
    assert (type(found).__name__, found.code, found.column) == (error, code, column)
    assert words in str(found) and found.help


# ---- compiled for the CPU

MATRICES = {
    "x": whole(200, 270), "y": whole(270, 530), "b": whole(530), "r": whole(200, 530), "s": whole(200),
    "i": RNG.integers(0, 270, 270), "c": whole(3, 20, 9), "d": whole(1, 30, 9), "p": whole(6, 10, 30, 7),
    "q": whole(7, 30, 8, 5), "h": whole(200, 40).astype(np.float16), "g": whole(40, 90).astype(np.float16),
    "n": RNG.integers(-128, 128, (50, 60)).astype(np.int8), "z": np.broadcast_to(whole(270), (200, 270)),
    "f": np.asfortranarray(whole(270, 40)), "e": whole(0, 40), "m": whole(20, 30) > 0,
    "w": whole(200, 270).astype(np.float64),
}  # fmt: skip
COMPILED = {
    "x @ y": "blocks with ends in all three directions",
    "x.mT[::-1] @ x[:, ::3]": "transposed, reversed and stepped operands",
    "y.mT @ x.mT": "both factors across",
    'einsum("ij,jk->ki", x, y)': "a result whose rows are the right operand's columns",
    "c @ d.mT": "a batch that one operand repeats",
    'einsum("abcd,dcef->eafb", p, q)': "several axes on every side",
    "maximum(x @ y + b, 0) * s[:, None] + r, sum(r)": "an epilogue that reads a row, a column and the whole",
    "sigmoid(x @ y * 0.01) * (x @ (y * 2 + 1))": "two products that share a factor, and a prologue",
    "(x * iota(x, 1) + iota(x, 0)) @ y + iota(y, 1)[:1]": "positions on every side",
    "x[:, i] @ y": "a gathered factor",
    "h @ g, (h * 0.3) @ g, astype(h @ g, float32)": "narrow floats",
    "n @ n.mT, astype(n, uint64) @ astype(n.mT, uint64)": "integers that wrap",
    "z @ y": "a factor whose rows are one row in memory",
    "x @ f, x @ f[:, 0], x[0] @ f, x[0] @ x[1]": "matrices and vectors",
    "e @ f.mT, f[:, :0] @ f[:, :0].mT": "nothing to multiply, nothing to sum",
    "m @ m.mT": "bools",
    "w @ w.mT, w @ f": "float64",
    "x @ y @ y.mT": "one product after another",
    "sum(x[:, None, :40] * f.mT[None, :, :40], -1)": "a sum of products, not written as one",
    "(x - mean(x, -1, keepdims=True)) @ f": "a prologue that a reduction enters",
}


@pytest.mark.parametrize("text", COMPILED, ids=list(COMPILED.values()))
def test_products_on_the_cpu_are_within_the_derived_bound(text):
    kernel = fd.kernel(text)
    given = {name: MATRICES[name] for name in kernel.params}
    graph, arguments = graph_of(text, given)
    results = kernel(**given)
    results = results if isinstance(results, tuple) else (results,)
    for found, (value, bound) in zip(results, bounds.evaluate(graph, arguments)):
        assert found.shape == value.shape
        if found.dtype.kind == "f":
            assert (np.abs(found.astype(np.float64) - value) <= bound).all()
        else:
            np.testing.assert_array_equal(found, value)


def test_what_surrounds_a_product_is_in_its_kernel():
    given = {name: MATRICES[name] for name in "xybr"}
    told = fd.kernel("maximum(x * 2 @ y + b, 0) + r, x * 2 @ y", max_kernels=1).explain(**given)
    assert len(told.to_dict()["kernels"]) == 1
    assert "matmul_0" in str(told) and "matrix product" in str(told)


def test_a_sum_of_no_products_is_zero_and_starts_no_block():
    x, y = np.ones((40, 0), np.float32), np.ones((0, 50), np.float32)
    np.testing.assert_array_equal(fd.evaluate("x @ y + 1", x=x, y=y), np.ones((40, 50), np.float32))


def test_a_product_is_the_same_whatever_its_blocks_are_next_to():
    """The order of a sum of our kernels depends on its length alone; a library computes no products of logarithms."""
    x, y = RNG.random((400, 700), np.float32) + 1, RNG.normal(size=(700, 1100)).astype(np.float32)
    kernel = fd.kernel("log(x) @ y", max_kernels=1)
    assert "library" not in str(kernel.explain(x, y))
    whole_product = kernel(x, y)
    np.testing.assert_array_equal(kernel(x[150:210], y[:, 500:590]), whole_product[150:210, 500:590])


# ---- what is computed once, and what for every tile


@pytest.mark.parametrize(("text", "kernels"), [
    ("relu(x) @ w", ["map_maximum_0", "matmul_1"]), ("dequantize(q, s) @ w", ["map_multiply_0", "matmul_1"]),
    ("gelu(x) @ w", ["map_erf_0", "matmul_1"]),
    ("gelu(x @ w) @ w", ["matmul_0", "matmul_1"]), ("gelu(x @ w) @ w, x @ w", ["matmul_0", "matmul_1"]),
    ("rms_norm(x) @ w", ["row_sum_multiply_divide_add_0", "matmul_1"]),
    ("gelu(x[:8]) @ w[:, :64]", ["map_erf_0", "matmul_1"]),
    ("x @ w, max(x[:, None] + w.mT, axis=-1)", ["matmul_0", "row_max_add_1"]),
])  # fmt: skip
def test_a_dear_factor_is_computed_once(text, kernels):
    """By the time model, which counts how few threads few tiles have; where a kernel has all that it takes, that kernel
    stores it."""
    specs = {"x": "float32", "w": "float32", "q": "int8"}
    given = {n: fd.spec((2048, 2048), d) for n, d in specs.items()} | {"s": fd.spec((), "float32")}
    kernel = fd.kernel(text)
    told = kernel.explain(**{n: given[n] for n in kernel.params}, cc=90, compile=False)
    assert [k.name for k in told.kernels] == kernels


@pytest.mark.parametrize(
    "text", ["gelu(x - mean(x, -1, keepdims=True)) @ y", "silu(x @ y) @ y.mT", "gelu(x @ y) @ y.mT, softmax(x @ y)"]
)
def test_stored_factors_are_right(text):
    x, y = RNG.normal(size=(300, 40)).astype(np.float32), RNG.normal(size=(40, 2000)).astype(np.float32)
    fd.kernel(text, verify=True)(x=x, y=y)


@pytest.mark.parametrize(
    "text",
    [
        "tensordot(zeros((3, 5)), c, axes=2)",
        "einsum('a,a', zeros(3), c[:, 0])",
        "zeros(3) @ c",
        "vecdot(zeros((4, 3)), c.T)",
    ],
)
def test_extents_that_two_numbers_fix_are_refused(text):
    """An array's extent was equal to both numbers, and the program could not be planned."""
    with warnings.catch_warnings(), pytest.raises(fd.ShapeError, match=r"differ|3 and 5"):
        warnings.simplefilter("error")
        fd.evaluate(f"t = zeros(5) @ c\n{text}, t", c=np.ones((5, 17)))
