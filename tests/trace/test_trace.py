"""Python functions as graphs: what a trace does, what it depends on and what it refuses. NumPy is the oracle."""

from __future__ import annotations

import math
import types
from collections import namedtuple

import numpy as np
import pytest
from oracle import call, traced

from fusedsl.errors import ArgumentError, DTypeError, FusedslError, LimitError, ShapeError, TraceError, Unsupported
from fusedsl.ir.interp import extents_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)
Y = RNG.normal(size=(3, 4)).astype(np.float32)
N = RNG.integers(1, 9, (3, 4)).astype(np.int32)
W = RNG.normal(size=4).astype(np.float32)
SCALE = 3.0
Pair = namedtuple("Pair", "low high")

cupy = types.ModuleType("cupy")  # what CuPy is to a trace: a module whose functions take no foreign array


def _refuse(name):
    def function(*args, **kwargs):
        raise TypeError(f"cupy.{name}: unsupported type")

    function.__module__, function.__name__ = "cupy", name
    return function


for _name in ("exp", "sum", "where", "arange", "asarray"):
    setattr(cupy, _name, _refuse(_name))
cupy.float32, cupy.pi = np.float32, np.pi
cupy_exp = cupy.exp


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def layer_norm(x, weight, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(np.var(x, axis=-1, keepdims=True) + eps) * weight


def helper(x):
    return np.exp(x) * SCALE


def by_parts(x):
    rows, columns = x.shape
    total = 0
    for k in range(rows):
        total = total + x[k] * k
    return total / columns


def black_scholes(price, strike, time):
    d = (np.log(price / strike) + 0.5 * time) / np.sqrt(time)
    return {"call": price * d, "others": [None, (d, "units")], "size": price.size, "pair": Pair(d, 1)}


def masked(x):
    found = np.where(x > 0, x, -1)
    found[...] = np.clip(found, -0.5, 0.5)
    return found


SAME = [
    (gelu, (X,)),
    (layer_norm, (X, W)),
    (by_parts, (X,)),
    (masked, (X,)),
    (lambda x: helper(x) + W * x, (X,)),
    (lambda x: (lambda q: q * SCALE)(x), (X,)),
    (lambda x: x / np.sqrt(x.shape[-1]), (X,)),
    (lambda x: x * x.shape[0] // 2 + x.ndim, (X,)),
    (lambda x: x.reshape(-1, 2).sum(axis=0, dtype=np.float64), (X,)),
    (lambda x: x.reshape(x.shape[0], 2, -1).max((1, 2)), (X,)),
    (lambda x: np.transpose(x[None], (2, 0, 1)).ravel()[::-2], (X,)),
    (lambda x: np.moveaxis(x, 0, -1).T.astype("float16"), (X,)),
    (lambda x: np.add.reduce(x, axis=1) + np.maximum.reduce(x, 1), (X,)),
    (lambda x: np.std(x, axis=0, ddof=1, dtype=np.float64), (X,)),
    (lambda x: np.sum(x, 0, keepdims=True, initial=2.0, where=x > 0), (X,)),
    (lambda x: np.max(x, 1, initial=0) + x.argmin(-1), (X,)),
    (lambda x: np.ones(x.shape, x.dtype) + np.full(x.shape[1], 2) + np.arange(x.shape[1]), (X,)),
    (lambda x: np.linalg.norm(x, axis=1) + np.count_nonzero(x, 1), (X,)),
    (lambda x: divmod(x, 2)[0] + abs(-x) + +x, (X,)),
    (lambda x: np.divmod(x, 2)[1] + np.round(x, 2) + np.nan_to_num(x), (X,)),
    (lambda x: [row.sum() for row in x], (X,)),
    (lambda x: (~x & 3 | x << 1) ^ x >> 1, (N,)),
    (lambda x: np.float16(2) * x + np.zeros_like(x) + np.full_like(x, 3), (X,)),
    (lambda x: x if x.shape[0] > 2 else -x, (X,)),
    (lambda x: np.exp(x, dtype=np.float64), (X,)),
    (lambda x: x.copy().clip(0, 1) + x.clip(min=0), (X,)),
    (lambda x: 1 / x + 2**x - (x >= 0.5), (X,)),
    (lambda x: np.isclose(x, x + 1e-9) | np.isnan(x) & np.logical_not(x), (X,)),
    (lambda x: np.tril(x, -1) + np.triu(x) + np.broadcast_to(W, x.shape), (X,)),
    (lambda x: np.squeeze(x[:1]) + np.expand_dims(x, 0).mean(), (X,)),
    (lambda x, *rest, scale: x * scale + rest[0], (X, Y)),
]


@pytest.mark.parametrize("k", range(len(SAME)))
def test_a_trace_computes_what_the_function_does(k):
    function, values = SAME[k]
    keywords = {"scale": 2.5} if "scale" in function.__code__.co_varnames else {}
    wanted = function(*values, **keywords)
    found, after = call(function, *values, **keywords)
    several = isinstance(wanted, list)
    for one, other in zip(found if several else [found], wanted if several else [wanted]):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert all(np.array_equal(a, v) for a, v in zip(after, values))


def test_results_keep_their_structure():
    found, _ = call(black_scholes, np.abs(X), np.abs(Y), 2.0)
    wanted = black_scholes(np.abs(X), np.abs(Y), 2.0)
    assert list(found) == list(wanted) and found["size"] == 12 and type(found["size"]) is int
    assert found["others"][0] is None and found["others"][1][1] == "units"
    np.testing.assert_allclose(found["others"][1][0], wanted["others"][1][0], rtol=1e-5)
    assert type(found["pair"]) is Pair and found["pair"].high == 1


def test_python_numbers_come_back_as_python_numbers():
    (found, extent), _ = call(lambda x, s: (s * 2, x.shape[0] + 1), X, 1.5)
    assert (found, extent) == (3.0, 4) and type(found) is float and type(extent) is int


def test_writes_are_told_apart_from_results():
    def update(x, m, v, g):
        m *= np.float32(0.9)
        m += 0.1 * g
        np.multiply(g, g, out=v)
        x[:] = x - m / (np.sqrt(v) + 1e-8)
        np.copyto(g, 0)
        return x, m[0]

    arrays = [RNG.normal(size=(2, 3)).astype(np.float32) for _ in range(4)]
    made, _ = traced(update, *arrays)
    assert [argument for argument, _ in made.writes] == [0, 1, 2, 3]
    (x, row), after = call(update, *arrays)
    expected = [a.copy() for a in arrays]
    wanted = update(*expected)
    assert x is after[0]
    np.testing.assert_allclose(row, wanted[1], rtol=1e-5)
    for one, other in zip(after, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_view_follows_what_is_written_to_its_array():
    def function(x):
        first, turned = x[0], x.T
        x *= 2
        return first + turned[:, 1]

    wanted = function(X.copy())
    np.testing.assert_allclose(call(function, X)[0], wanted, rtol=1e-6)


def test_in_place_follows_numpys_casting():
    def add(x, y):
        x += y

    found = call(add, X.astype(np.float16), X)[1][0]
    assert found.dtype == np.float16
    with pytest.raises(DTypeError, match="float64 does not go into int32"):
        call(add, N, X)
    with pytest.raises(ShapeError):
        call(add, W, X)
    total, after = call(lambda s, x: s.__iadd__(x), np.float32(1), X)
    np.testing.assert_allclose(total, X + 1)
    assert after[0] == 1


def test_a_trace_serves_other_shapes_while_its_conditions_hold():
    def function(x, axis, scale):
        y = x.sum(axis) if x.shape[0] > 2 else x.sum()
        return y * scale

    made, _ = traced(function, X, 1, 0.5)
    assert made.baked == {1: 1}
    assert made.applies(extents_of([np.zeros((9, 9))]), {1: 1, 2: 7.5})
    assert not made.applies(extents_of([np.zeros((2, 9))]), {1: 1, 2: 0.5})
    assert not made.applies(extents_of([X]), {1: 0, 2: 0.5})
    assert not made.applies(extents_of([X]), {1: True, 2: 0.5})


def test_a_loop_over_an_extent_holds_for_that_extent():
    made, _ = traced(by_parts, X)
    assert made.applies(extents_of([X.reshape(3, 4)]), {}) and made.applies(extents_of([np.zeros((3, 9))]), {})
    assert not made.applies(extents_of([np.zeros((4, 4))]), {})


def test_what_a_function_reads_from_outside_is_watched():
    scale, table = 2.0, np.float32([1, 2, 3, 4])

    def function(x):
        return x * scale + table[::-1]

    made, _ = traced(function, X)
    assert made.captures[0] is table and len(made.captures) == 1
    np.testing.assert_allclose(call(function, X)[0], X * 2 + table[::-1], rtol=1e-6)
    assert made.unchanged()
    scale = 3.0
    assert not made.unchanged()
    scale = 2.0
    assert made.unchanged()
    table = table.copy()
    assert not made.unchanged()


def test_cupys_functions_build_the_graph_wherever_they_are_named():
    def inner(x):
        return cupy_exp(x) + cupy.arange(x.shape[1], dtype=cupy.float32)

    def function(x):
        return cupy.where(x > 0, cupy.sum(x, axis=0, keepdims=True), inner(x)) * cupy.pi

    wanted = np.where(X > 0, X.sum(0, keepdims=True), np.exp(X) + np.arange(4, dtype=np.float32)) * np.pi
    np.testing.assert_allclose(call(function, X)[0], wanted, rtol=1e-5)


def test_cupys_ufuncs_hand_over_tracers():
    kernel = types.SimpleNamespace(name="cupy_true_divide")
    found, _ = call(lambda x: x.__cupy_override_elementwise_kernel__(kernel, x, 2), X)
    np.testing.assert_allclose(found, X / 2)


def branch(x):
    if x > 0:
        return x
    return -x


JOINS = [
    lambda x: np.concatenate([x, -x], axis=1),
    lambda x: np.concatenate((x, x.astype(np.float64)), axis=None),
    lambda x: np.stack([x, x + 1], axis=-1),
    lambda x: np.hstack([x, x]) + np.vstack([x[0], x[1]])[:1].sum(),
    lambda x: np.flip(x, 0) + np.fliplr(x) + np.flipud(x),
    lambda x: np.roll(x, 3) + np.roll(x, (1, -1), axis=(0, 1)),
    lambda x: np.repeat(x, 2) + np.repeat(x, 2, axis=0).sum(),
    lambda x: np.tile(x, (2, 1)),
    lambda x: np.pad(x, ((1, 0), (2, 3)), mode="edge") + np.pad(x, ((1, 0), (2, 3)), constant_values=7),
    lambda x: np.outer(x[0], x[1]),
    lambda x: x[np.arange(3), np.array([0, -1, 2])] + np.take(x, 2) + x.take(np.array([1, 0, 2]), axis=1)[:, 0],
    lambda x: np.take(x, np.arange(7), axis=1, mode="wrap") + np.take(x, np.arange(-2, 5), axis=1, mode="clip"),
    lambda x: np.take_along_axis(x, ORDER, axis=1),
    lambda x: x[..., None][ORDER[0] % 3, 1],
]
ORDER = np.argsort(X, axis=1)


@pytest.mark.parametrize("k", range(len(JOINS)))
def test_numpys_gathers_and_joins_are_traced(k):
    np.testing.assert_allclose(call(JOINS[k], X)[0], JOINS[k](X), rtol=1e-6)


REFUSED = [
    (branch, TraceError, "where(condition, a, b)"),
    (lambda x: math.sqrt(x[0, 0]), TraceError, "a float of an array"),
    (lambda x: int(x.sum()), TraceError, "an int of an array"),
    (lambda x: f"{x.sum():.3f}", TraceError, "the digits of an array"),
    (lambda x: list(range(x.sum().astype(int))), TraceError, "an integer from an array"),
    (lambda x: np.float32(x), TraceError, "astype"),
    (lambda x: x.item(), TraceError, "item"),
    (lambda x: x + object(), TraceError, "object"),
    (lambda x: x == None, ArgumentError, "None"),  # noqa: E711
    (lambda x: np.add(x, x, out=[0.0]), TraceError, "no argument of the function"),
    (lambda x: np.add(x, x, out=np.zeros(3)), ShapeError, "broadcast"),
    (lambda x: np.sum(x, axis=0, out=np.zeros((3, 4))), ShapeError, "out= has 2 axes"),
    (lambda x: x + W[:3], ShapeError, "4 and 3 differ"),
    (lambda x: x[5], ShapeError, "out of range"),
    (lambda x: x.sum(axis=2), ShapeError, "out of range"),
    *(
        (f, ArgumentError, "a mask cannot index")
        for f in (
            lambda x: x[x > 0],
            lambda x: [x[x > 0]],
            lambda x: x + x[x > 0],
            lambda x: len(x[x > 0]),
            lambda x: x[x > 0][1:],
            lambda x: np.sort(x[x > 0]),
            lambda x: x[x > 0] - x[x < 1],
            lambda x: x[x > 0].sum(axis=1),
        )
    ),
    (lambda x: x.__setitem__(x > 0, x[0]), Unsupported, "where"),
    (lambda x: x.ravel().__iadd__(1), Unsupported, "view"),
    (lambda x: np.broadcast_to(x, (2, 3, 4)).__iadd__(1), Unsupported, "view"),
    (lambda x: W.__iadd__(x[0]), Unsupported, "from outside"),
    (lambda x: x @ x, ShapeError, "4 and 3 differ"),
    (lambda x: np.concatenate([x, x[0]]), ShapeError, "as many axes"),
    (lambda x: np.pad(x, 1, mode="mean"), ArgumentError, "mode of pad"),
    (lambda x: np.fft.fft(x), Unsupported, "fft"),
    (lambda x: np.subtract.accumulate(x), Unsupported, "accumulate"),
    (lambda x: np.unique(x), Unsupported, "unique"),
    (lambda x: np.reshape(x, (4, 3), order="K"), Unsupported, "order"),
    (lambda x: [x + k for k in range(9999)], LimitError, "operations"),
]


def test_an_array_is_no_key_of_a_dict_that_is_returned():
    with pytest.raises(TraceError, match="cannot take its arrays along"):
        call(lambda x: {x[0, 0]: 1}, X)


@pytest.mark.parametrize("k", range(len(REFUSED)))
def test_what_cannot_be_traced_is_refused_with_its_line(k):
    function, error, part = REFUSED[k]
    with pytest.raises(error) as caught:
        call(function, X)
    assert part in str(caught.value) and isinstance(caught.value, FusedslError)
    assert "lambda" in caught.value.text or "if x > 0:" in caught.value.text


def test_an_error_shows_the_line_of_the_function():
    with pytest.raises(TraceError) as caught:
        call(branch, X)
    columns = "   ^~~~~" if hasattr(branch.__code__, "co_positions") else "^~~~~~~~~"
    assert f"\n  1 | if x > 0:\n    | {columns}  test_trace.py, line" in str(caught.value)
