"""Names between a program and its caller: constants that both have, scopes, and integers that shape a call."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import fusedsl as fd

X, WEIGHTS = np.ones(3), np.array([0.2, 0.5, 0.3])


# ---- constants


def test_what_the_caller_passes_by_the_name_of_a_constant_counts():
    assert fd.evaluate("x * pi", x=X, pi=WEIGHTS).tolist() == WEIGHTS.tolist()
    assert fd.evaluate("x * pi", {"x": X, "pi": WEIGHTS}).tolist() == WEIGHTS.tolist()
    assert fd.evaluate("nan + inf", nan=1, inf=WEIGHTS).tolist() == (1 + WEIGHTS).tolist()
    assert fd.evaluate("where(bool, x, 0)", x=X, bool=WEIGHTS > 0.25).tolist() == [0, 1, 1]
    assert np.allclose(fd.evaluate("x * pi", {"x": X, "other": WEIGHTS}), math.pi)
    assert np.allclose(fd.evaluate("x * pi", {"x": X, "pi": math.pi}), math.pi)


def test_a_kernel_takes_constants_by_name_and_by_params():
    kernel = fd.kernel("x * pi")
    assert kernel.params == ("x",) and np.allclose(kernel(X), math.pi)
    for _ in range(2):
        assert kernel(X, pi=WEIGHTS).tolist() == kernel(x=X, pi=WEIGHTS).tolist() == WEIGHTS.tolist()
    assert np.allclose(kernel(X), math.pi)
    assert "pi" in str(kernel.explain(x=X, pi=WEIGHTS, compile=False)) and kernel.bind(X, pi=WEIGHTS)()[0] == 0.2
    assert fd.kernel("pi * x")(X, pi=WEIGHTS).tolist() == WEIGHTS.tolist()  # what comes first there is named
    named = pickle.loads(pickle.dumps(fd.kernel("x * pi", params="pi x")))
    assert named.params == ("pi", "x") and named(WEIGHTS, X).tolist() == WEIGHTS.tolist()
    assert fd.kernel("x * pi", constants={"pi": 3})(X).tolist() == [3, 3, 3]
    with pytest.raises(fd.ArgumentError, match="unexpected argument 'nan'"):
        kernel(X, nan=WEIGHTS)
    with pytest.raises(fd.ArgumentError, match="unexpected argument 'nan'"):
        fd.evaluate("nan_to_num(x, nan=0)", x=X, nan=WEIGHTS)


def test_scores_of_attention_read_the_callers_too():
    q = np.random.default_rng(0).random((1, 2, 4, 8), np.float32)
    slope = np.float32([1, 2])
    wanted = fd.attention(q, q, q, score="score + s[h] * (j - i)", s=slope)
    assert np.array_equal(fd.attention(q, q, q, score="score + pi[h] * (j - i)", pi=slope), wanted)
    text = "attention(q, q, q, score='score + pi[h] * (j - i)', pi=w)"
    assert np.array_equal(fd.evaluate(text, q=q, w=slope), wanted)


def test_a_constant_that_the_scope_has_too_is_an_error_that_says_how_to_pass_it():
    def scoped(pi):
        x = X  # noqa: F841
        return fd.evaluate("x * pi")

    with pytest.raises(fd.ArgumentError, match=r"pi is the constant 3.141593 .*\n.*pi=pi"):
        scoped(WEIGHTS)
    with pytest.raises(fd.ArgumentError, match="a list called pi"):
        scoped([1, 2, 3])
    assert np.allclose(scoped(math.pi), math.pi) and np.allclose(scoped("no value"), math.pi)


# ---- scopes


def test_what_the_scope_has_and_is_no_array_is_named_as_what_it_is():
    a = "text"  # noqa: F841
    with pytest.raises(fd.UnknownNameError, match="a is a str, which is no array"):
        fd.evaluate("a * 2")
    with pytest.raises(fd.UnknownNameError, match="pass nothing_here"):
        fd.evaluate("nothing_here * 2")


def test_a_name_with_the_prefix_of_pandas_is_refused_with_the_form_to_use():
    with pytest.raises(fd.ParseError, match=r"names have no prefix\n(.*\n)+.*leave the @ out"):
        fd.evaluate("X > @limit")


def test_the_fields_of_a_structured_array_are_arrays_by_name():
    trades = np.array([(2.0, 10), (3.0, 20)], [("price", "f4"), ("count", "i4")])
    assert fd.evaluate("price * count", trades).tolist() == [20, 60]
    assert fd.evaluate("sum(price * x)", trades.view(np.recarray), x=np.float32([1, 2])) == 8


def test_an_array_called_like_an_option_goes_into_a_mapping():
    with pytest.raises(
        fd.ArgumentError, match=r'option device is an ndarray\n.*evaluate\(expression, {"device": device}\)'
    ):
        fd.evaluate("device * 2", device=X)
    assert fd.evaluate("device * 2", {"device": X}).tolist() == [2, 2, 2]


# ---- integers known at run time

SERIES = np.arange(12.0)


@pytest.mark.parametrize(
    ("text", "arguments", "wanted"),
    [
        ("c = cumulative_sum(x, include_initial=True); (c[w:] - c[:-w]) / w", {"w": 4}, np.arange(9) + 1.5),
        ("sum(reshape(x, (n, -1)), axis=ax)", {"n": 3, "ax": -1}, SERIES.reshape(3, -1).sum(-1)),
        ("topk(x, k)[0]", {"k": 2}, [11, 10]),
        ("sum(reshape(x, s), axis=ax, keepdims=kd)", {"s": (2, 6), "ax": 1, "kd": True}, [[15], [51]]),
        ("sum(reshape(x, s), axis=ax)", {"s": [2, 3, 2], "ax": (0, 2)}, SERIES.reshape(2, 3, 2).sum((0, 2))),
        ("pad(x[:2], w)", {"w": ((1, 2),)}, [0, 0, 1, 0, 0]),
        ("arange(n) * x[0] + n", {"n": np.int64(3)}, [3, 3, 3]),
        ("roll(x, k)", {"k": np.array(3)}, np.roll(SERIES, 3)),
        ("x[a:b:-1]", {"a": 5, "b": 2}, [5, 4, 3]),
        ("mean(x[: 2 * w + 1])", {"w": 2}, 2.0),
    ],
)
def test_integers_that_shape_a_program_are_arguments(text, arguments, wanted):
    for _ in range(2):
        np.testing.assert_allclose(fd.evaluate(text, x=SERIES, **arguments), wanted)
    kernel = fd.kernel(text)
    np.testing.assert_allclose(kernel(x=SERIES, **arguments), wanted)
    assert kernel.explain(x=SERIES, **arguments, compile=False).to_dict()["kernels"]
    np.testing.assert_allclose(kernel.bind(x=SERIES, **arguments)(), wanted)


def test_each_value_has_its_program_and_other_numbers_stay_run_time():
    kernel = fd.kernel("x[w:] * s")
    assert [kernel(SERIES, w, 2.0).size for w in (1, 2, 3, 1)] == [11, 10, 9, 11]
    assert kernel(x=SERIES, w=3, s=0.5).tolist() == (SERIES[3:] * 0.5).tolist()
    out = np.empty(10)
    assert kernel(SERIES, 2, 3.0, out=out) is out and out[0] == 6
    assert fd.kernel("x * w")(SERIES, 3)[1] == 3  # shapes nothing


def test_what_cannot_shape_a_program_is_refused_where_it_stands():
    for bad, says in ((1.5, "a float known only at run time"), (X, "an array of float64")):
        with pytest.raises(fd.ArgumentError, match=says) as caught:
            fd.evaluate("x[w:]", x=SERIES, w=bad)
        assert caught.value.column == 3 and "constants={...}" in caught.value.help
    with pytest.raises(fd.ShapeError, match="axis 3 is out of range"):
        fd.evaluate("sum(x, axis=a)", x=SERIES, a=3)


def test_integers_shape_a_text_inside_of_a_traced_function():
    window = fd.kernel("sum(x[w:])")

    @fd.fuse
    def both(x, w):
        return window(x, 2) + window(x, w)

    for w in (1, 3, 1):
        assert both(SERIES, w) == SERIES[2:].sum() + SERIES[w:].sum()


# ---- names that are nearly right


@pytest.mark.parametrize(("text", "help"), [
    ("softmx(x)", "did you mean softmax?"), ("x.tnh()", "did you mean tanh(x)?"),
    ("lenght(x)", "did you mean length? write size(x, 0)"), ("x.lenght()", "write size(x, 0)"),
    ("sun(x)", "did you mean sin or sum?"), ("dropuot(x)", "did you mean dropout? write where("),
    ("sn(x)", "did you mean sin?"), ("tan2(x)", "did you mean atan2?"),
    ("x.sun()", "did you mean sin(x) or sum(x)?"), ("exo(x)", "did you mean exp?"), ("mix(x)", "define it"),
    ("f(t) = t + 1; batch_nrm(t) = t; batch_nrom(x)", "did you mean batch_nrm?"), ("lost(x)", "define it"),
    ("x + meen", "the function mean(...)"),
    ("fold(x)", "reduce windows"), ("frobnicate(x)", "define it"), ("x.foo", "only .T and .mT exist"),
    ("inverse(x)", "matrices are decomposed outside"), ("short(x)", "int16"), ("jit(x)", "leave it out"),
    ("std(x, unbiased=True)", "write ddof=1"), ("sort(x, reverse=True)", "did you mean descending?"),
    ("pad(x, 1, mode='circular')", "mode='wrap'"), ("zeros(x)", "shape(x)"), ("sum(x, x)", "one list: [x, y]"),
    ("concat(x, x)", "in brackets, [x, y]"), ("norm(x, ord=1)", "sum(abs(x))"),
])  # fmt: skip
def test_another_function_is_suggested_for_a_misspelt_name_only(text, help):
    with pytest.raises(fd.FusedslError) as fault:
        fd.evaluate(text, x=np.ones((2, 2)))
    assert help in fault.value.help


def test_an_error_of_arguments_names_the_function():
    with pytest.raises(fd.ArgumentError, match="weight of layer_norm takes an array or a number, not several values"):
        fd.evaluate("layer_norm(x, (2,))", x=np.ones((2, 2)))
    with pytest.raises(fd.ArgumentError, match="y of add takes an array or a number, not None"):
        fd.fuse(lambda x: x + None)(X)
