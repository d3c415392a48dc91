"""The prelude's formulas, evaluated in NumPy straight from their trees, against NumPy, torch and float64 references."""

import math
import operator
import warnings

import numpy as np
import pytest

from fusedsl.lang import prelude, syntax_tree
from fusedsl.lang.parse import parse


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x).astype(np.result_type(x, np.float16))


def size(x, axis=None):
    axes = range(np.ndim(x)) if axis is None else np.atleast_1d(axis)
    return math.prod(np.shape(x)[a] for a in axes)


def iota(x, axis):
    shape = [1] * x.ndim
    shape[axis] = -1
    return np.broadcast_to(np.arange(x.shape[axis]).reshape(shape), x.shape)


def maximum(a, b):
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)  # weak stays weak


PRIMITIVES = {
    "erf": erf,
    "size": size,
    "iota": iota,
    "given": lambda p: p is not None,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
PRIMITIVES["as_float"] = lambda x, other=False: np.asarray(x).astype(np.hypot(x, other).dtype)
PRIMITIVES["stop_gradient"] = lambda x: x
PRIMITIVES |= {"summand": lambda x: x if np.asarray(x).itemsize < 8 else np.asarray(x) * 1.0}
PRIMITIVES |= {"maximum": maximum, "astype": lambda x, dtype: np.asarray(x).astype(dtype)}
BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "&": "and_", "|": "or_", "**": "pow"}
COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


def value(node, names):
    """What a small tree means: recursive, eager, NumPy."""
    match node:
        case syntax_tree.Literal():
            return node.value
        case syntax_tree.Name():
            return names[node.name]
        case syntax_tree.UnaryOp():
            operand = value(node.operand, names)
            return -operand if node.op == "-" else ~operand
        case syntax_tree.BinaryOp():
            return getattr(operator, BINARY[node.op])(value(node.left, names), value(node.right, names))
        case syntax_tree.Compare(ops=(op,), operands=(left, right)):
            return getattr(operator, COMPARE[op])(value(left, names), value(right, names))
        case syntax_tree.Conditional():
            return value(node.then if value(node.condition, names) else node.otherwise, names)
        case syntax_tree.Sequence():
            return tuple(value(item, names) for item in node.items)
        case syntax_tree.Subscript():
            indices = [slice(None) if isinstance(i, syntax_tree.Slice) else value(i, names) for i in node.indices]
            return value(node.value, names)[tuple(indices)]
        case syntax_tree.CallExpr():
            positional = [value(a.value, names) for a in node.arguments if a.keyword is None]
            return call(
                node.function, *positional, **{a.keyword: value(a.value, names) for a in node.arguments if a.keyword}
            )
    raise AssertionError(node)


def call(name, *positional, **named):
    definition = prelude.definition(name)
    if definition is None:
        return (PRIMITIVES.get(name) or getattr(np, name))(*positional, **named)
    names = {p.name: p.default and value(p.default, {}) for p in definition.parameters}
    names |= dict(zip(names, positional)) | named
    with np.errstate(all="ignore"):
        return value(definition.body, names)


def close(found, expected, rtol=1e-6, atol=0.0):
    assert np.asarray(found).shape == np.asarray(expected).shape
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(expected, np.float64), rtol=rtol, atol=atol)


X = np.float32(
    [-np.inf, -200, -104, -88, -20, -3, -1, -0.5, -1e-3, -0.0, 0, 1e-30, 1e-3, 0.5, 1, 3, 20, 88, 200, np.inf, np.nan]
)
ROWS = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)

ACTIVATIONS = (
    "sigmoid relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh hardsigmoid hardswish"
)
OPTIONS = [("gelu", {"approximate": "tanh"}), ("softplus", {"beta": 2.0, "threshold": 5.0}), ("elu", {"alpha": 0.5})]
OPTIONS += [("celu", {"alpha": 2.0}), ("leaky_relu", {"negative_slope": 0.2}), ("softshrink", {"lambd": 1.0})]
OPTIONS += [("hardtanh", {"min_val": -2.0, "max_val": 0.5})]


@pytest.mark.parametrize(
    ("name", "options"), [(n, {}) for n in [*ACTIVATIONS.split(), "tanhshrink", "softshrink"]] + OPTIONS
)
def test_activations_are_torchs(name, options):
    torch = pytest.importorskip("torch")
    expected = getattr(torch.nn.functional, name)(torch.from_numpy(X.astype(np.float64)), **options).numpy()
    found = call(name, X, **options)
    assert found.dtype == np.float32
    close(found, np.float32(expected), rtol=3e-6, atol=3e-7)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("square", (X,)),
        ("sinc", (np.float32([-2.5, 0, 0.5, 1e-4]),)),
        ("deg2rad", (X,)),
        ("rad2deg", (X,)),
        ("radians", (X,)),
        ("degrees", (X,)),
        ("clip", (X, -1, 2.5)),
        ("clip", (X, None, 2.5)),
        ("clip", (X, 0.25, None)),
        ("heaviside", (X, np.float32(0.5))),
        ("logaddexp", (X[:, None], X)),
        ("logaddexp2", (X[:, None], X)),
        ("isclose", (X[:, None], X * np.float32(1 + 1e-6))),
        ("tril", (ROWS,)),
        ("triu", (ROWS,)),
        ("nansum", (X[:19],)),
        ("nanmean", (np.where(ROWS > 1, np.nan, ROWS), -1)),
        ("count_nonzero", (X,)),
        ("mean", (ROWS, (0, 2))),
        ("var", (ROWS, 1)),
        ("std", (ROWS,)),
        ("mean", (np.arange(6),)),
        ("mean", (np.array([True, False, True]),)),
        ("var", (np.int8([100, -100, 50]),)),
    ],
)
def test_elementwise_functions_and_reductions_are_numpys(name, arguments):
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*arguments)
    found = call(name, *arguments)
    assert found.dtype == expected.dtype
    close(found, expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("k", [-2, 0, 1])
def test_triangles_shift(k):
    close(call("tril", ROWS, k=k), np.tril(ROWS, k))
    close(call("triu", ROWS, k=k), np.triu(ROWS, k))


@pytest.mark.parametrize("name", ["mean", "var", "std"])
@pytest.mark.parametrize("axis", [None, -1, (0, 1)])
def test_moments_take_where_ddof_and_keepdims(name, axis):
    options = {"where": ROWS[0] > 0.2, "keepdims": True} | ({} if name == "mean" else {"ddof": 1})
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of rows that `where` leaves empty
        expected = getattr(np, name)(ROWS, axis, **options)
    close(call(name, ROWS, axis, **options), expected, rtol=1e-5)


def test_moments_of_unsigned_integers_with_too_few_elements_are_numpys():
    x, few = np.uint8([[1, 2, 3], [200, 5, 6]]), np.array([[True, False, False], [True, True, False]])
    close(call("var", x, -1, where=few, ddof=2), [math.nan, math.inf])
    close(call("std", x, -1, where=few, ddof=1), [math.nan, 195 / math.sqrt(2)])


def test_mean_of_integers_is_float64_and_of_no_element_nan():
    assert call("mean", np.int16([1, 2]), dtype="float32").dtype == np.float32
    assert np.isnan(call("mean", ROWS, -1, where=np.zeros(5, bool))).all()


def test_lerp_is_exact_at_both_ends_and_xlogy_zero_at_zero():
    a, b = np.float32(1e8), np.float32(3.3)
    assert call("lerp", a, b, 0.0) == a and call("lerp", a, b, 1.0) == b
    close(call("xlogy", np.float32([0, 0, 2]), np.float32([0, np.nan, 3])), [0, np.nan, 2 * math.log(3)])


def test_norm_does_not_wrap_integers():
    close(call("norm", np.int8([100, 100])), math.hypot(100, 100))
    close(call("norm", ROWS, -1), np.linalg.norm(ROWS, axis=-1), rtol=1e-6)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_softmax_of_rows_of_minus_infinity():
    rows = np.float32([[1, 2, 3], [-np.inf] * 3, [-np.inf, 500, 501]])
    with np.errstate(all="ignore"):
        close(call("softmax", rows), softmax(np.float64(rows)), rtol=1e-6)
        close(call("log_softmax", rows), np.log(softmax(np.float64(rows))), rtol=1e-6)
    masked = call("softmax", rows, where=np.array([True, True, False]))
    close(masked, [[1 / (1 + math.e), math.e / (1 + math.e), 0], [0, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (-1, True), (0, False)])
def test_logsumexp_keeps_infinite_rows(axis, keepdims):
    rows = np.float32([[1, 2, 3], [-np.inf] * 3, [np.inf, 0, 1], [-1000, 500, 501]])
    expected = np.logaddexp.reduce(np.float64(rows), axis=axis, keepdims=keepdims)
    close(call("logsumexp", rows, axis=axis, keepdims=keepdims), expected, rtol=1e-6)
    assert call("logsumexp", rows, where=np.zeros(3, bool)) == -np.inf


def test_norms_of_rows():
    x, weight, bias = np.float64(ROWS), ROWS[0, 0], ROWS[1, 1]
    centred = x - x.mean(-1, keepdims=True)
    normal = centred / np.sqrt(centred.var(-1, keepdims=True) + 1e-5)
    for w, b in [(None, None), (weight, None), (None, bias), (weight, bias)]:
        expected = normal * (1 if w is None else w) + (0 if b is None else b)
        close(call("layer_norm", ROWS, w, b), expected, rtol=1e-5, atol=1e-6)
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight
    close(call("rms_norm", ROWS, weight), expected, rtol=1e-5, atol=1e-6)


def test_group_norm_is_torchs():
    torch = pytest.importorskip("torch")
    weight, bias = np.float32([1, 2, 3, 4]), np.float32([0, 1, 0, 1])
    arrays = [torch.from_numpy(a) for a in (ROWS, weight, bias)]
    expected = torch.nn.functional.group_norm(arrays[0], 2, arrays[1], arrays[2]).numpy()
    close(call("group_norm", ROWS, 2, weight, bias), expected, rtol=1e-5, atol=1e-6)
    plain = torch.nn.functional.group_norm(arrays[0], 4).numpy()
    close(call("group_norm", ROWS, 4), plain, rtol=1e-5, atol=1e-6)


def test_every_parameter_without_a_default_comes_first():
    for name in prelude.names():
        defaults = [p.default is not None for p in prelude.definition(name).parameters]
        assert defaults == sorted(defaults)
        parse(f"{name}({', '.join('x' for given in defaults if not given)})")
