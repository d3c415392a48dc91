"""verify=True: right results pass, however ill-conditioned; wrong ones do not, however small the fault."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.program import prepare

RANDOM = np.random.default_rng(17)
A = RANDOM.random(1000) + 1
S = np.sin(np.arange(36.0) * 7).reshape(6, 6).astype(np.float32)
X = np.arange(1.0, 7)
K = np.array([0, 7, 3, -9])


@pytest.mark.parametrize(
    ("text", "arrays"),
    [
        ("a*a - b*b", {"a": A, "b": A.copy()}),
        ("sqrt(a*a - b*b)", {"a": A, "b": A.copy()}),
        ("sign(a*a - b*b) + floor(a*b)", {"a": A, "b": 1 / A}),
        ("t = tril(s, k=-1); arctan2(t @ t, k)", {"s": S, "k": np.arange(-2, 4, dtype=np.int32)}),
        ("sum(x) == 0, argmax(x*y), 1 / (sum(x*y) - sum(y*x))", {"x": S, "y": S[::-1].copy()}),
        ("softmax(x * 1e6), log(softmax(x * 100))", {"x": S}),
        ("x % 0.1, x // 0.1, fmod(x, 0.3)", {"x": S}),
        ("uint8(round(0.299*r + 0.587*g + 0.114*b))", dict(zip("rgb", RANDOM.integers(0, 256, (3, 5000))))),
        ("float16(x @ y), bfloat16(tanh(x @ y))", {"x": S.astype(np.float16), "y": S.astype(np.float16)}),
        ("cumsum(x, 1), cumprod(y), sort(x*x), max(x)", {"x": S, "y": A[:50]}),
    ],
)
def test_right_results_are_no_disagreement(text, arrays):
    for options in ({}, {"fp_contract": False}):
        fd.evaluate(text, arrays, verify=True, fallback=False, **options)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x * y + x", 1e-6),
        ("exp(x) - 0.5", 4e-6),
        ("sum(x, axis=1)", 4e-6),
        ("softmax(x)", 2e-5),
        ("x @ y", 1e-5),
        ("layer_norm(x)", 1e-4),
    ],
)
def test_a_fault_beyond_what_rounding_comes_to_is_found(monkeypatch, text, fault):
    run = prepare.Prepared.run

    def off(self):
        results = run(self)
        results[0].reshape(-1)[3] *= 1 + fault
        return results

    x, y = (RANDOM.random((2, 9, 9)) + 0.5).astype(np.float32)
    kernel = fd.kernel(text, verify=True)
    arguments = [v for name, v in (("x", x), ("y", y)) if name in kernel.params]
    kernel(*arguments)
    monkeypatch.setattr(prepare.Prepared, "run", off)
    with pytest.raises(fd.FusedslError, match=r"result 0 is .*, and the interpreter says .* ± .*1 of \d+ elements"):
        kernel(*arguments)


def test_elements_that_rounding_decides_are_counted(monkeypatch, capsys):
    monkeypatch.setenv("FUSEDSL_DEBUG", "1")
    a = np.array([1.1, 1.2, 1.3, 1.4, 1.5])
    b = np.array([1.1, 1.2, 1.3, 2.0, 1.0])
    fd.evaluate("a*a > b*b", a=a, b=b, verify=True)
    assert "result 0 agrees: 3 of 5 elements were not judged" in capsys.readouterr().err


# ---- indices


@pytest.mark.parametrize(
    "text",
    [
        "where((k >= -6) & (k < 6), x[k], 0)",
        "where(k < -6, 0, where(k >= 6, 1, x[k] * 2))",
        "sum(where((k >= 0) & (k < 6), x[k], 0)), max(where(abs(k) < 6, x[k], -inf))",
        "sum(x[k], where=abs(k) < 6)",
        "(abs(k) < 6) & (x[k] > 2), (x[k] > 2) & (abs(k) < 6), (abs(k) > 5) | (x[k] > 2), abs(k) < 6 and x[k] > 2",
        "softmax(where(abs(k) < 6, x[k], -inf))",
        "y = x[k]; concat([y[:1], y[2:3]])",
        "cumsum(x[k][:1]), flip(x[k])[1]",
    ],
)
def test_what_a_condition_leaves_out_is_not_read(text):
    fd.evaluate(text, x=X, k=K, verify=True)


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("x[k]", 7),
        ("where(k > 0, x[k], 0)", 7),
        ("where(k < 6, x[k], 0)", 7),
        ("sum(x[k]), 1", 7),
        ("(abs(k) < 6) * x[k]", 7),
        ("(k < 7) | (x[k] > 2)", 7),
        ("softmax(x[k])[0]", 7),
        ("x[k][3]", 7),
        ("take_along_axis(x, k), x", 7),
    ],
)
def test_an_index_that_a_result_depends_on_is_an_error(text, index):
    with pytest.raises(IndexError, match=f"index {index} is out of range for an axis of 6"):
        fd.evaluate(text, x=X, k=K, verify=True)


def test_keys_beyond_a_sequence_need_no_page():
    q = RANDOM.standard_normal((2, 2, 1, 8)).astype(np.float32)
    pages = RANDOM.standard_normal((3, 4, 2, 8)).astype(np.float32)
    table = np.array([[0, 1], [2, 99]])
    fd.attention(q, pages, pages, pages=table, lengths=np.array([8, 4]), verify=True)
    with pytest.raises(IndexError, match="index 99"):
        fd.attention(q, pages, pages, pages=table, lengths=np.array([8, 5]), verify=True)


# ---- on CUDA


def test_the_hardwares_approximations_have_bounds_of_their_own():
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    x = RANDOM.uniform(0.1, 3, (4, 64)).astype(np.float32)
    text = "exp(x), exp2(x), log(x), log2(x), log10(x), sin(x), cos(x), tanh(x), sigmoid(x), 1 / x, sqrt(x), softmax(x)"
    with emulated_gpu(multiprocessors=4) as gpu:
        fd.evaluate(text, x=gpu.asarray(x), fastmath=True, verify=True)
