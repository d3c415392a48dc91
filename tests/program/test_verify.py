"""verify=True: right results pass, however ill-conditioned; wrong ones do not, however small the fault."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.program import prepare_call

RANDOM = np.random.default_rng(17)
A = RANDOM.random(1000) + 1
S = np.sin(np.arange(36.0) * 7).reshape(6, 6).astype(np.float32)
X = np.arange(1.0, 7)


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
        ("(x @ x.mT) @ x, triu(x @ x.mT) @ x", {"x": (S * 400).astype(np.float16)}),  # products beyond float16
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
    run = prepare_call.Prepared.run

    def off(self):
        results = run(self)
        results[0].reshape(-1)[3] *= 1 + fault
        return results

    x, y = (RANDOM.random((2, 9, 9)) + 0.5).astype(np.float32)
    kernel = fd.kernel(text, verify=True)
    arguments = [v for name, v in (("x", x), ("y", y)) if name in kernel.params]
    kernel(*arguments)
    monkeypatch.setattr(prepare_call.Prepared, "run", off)
    with pytest.raises(fd.FusedslError, match=r"result 0 is .*, and the interpreter says .* ± .*1 of \d+ elements"):
        kernel(*arguments)


def test_elements_that_rounding_decides_are_counted(monkeypatch, capsys):
    monkeypatch.setenv("FUSEDSL_DEBUG", "1")
    a = np.array([1.1, 1.2, 1.3, 1.4, 1.5])
    b = np.array([1.1, 1.2, 1.3, 2.0, 1.0])
    fd.evaluate("a*a > b*b", a=a, b=b, verify=True)
    assert "result 0 agrees: 3 of 5 elements were not judged" in capsys.readouterr().err


# ---- on CUDA


def test_the_hardwares_approximations_have_bounds_of_their_own():
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    x = RANDOM.uniform(0.1, 3, (4, 64)).astype(np.float32)
    text = "exp(x), exp2(x), log(x), log2(x), log10(x), sin(x), cos(x), tanh(x), sigmoid(x), 1 / x, sqrt(x), softmax(x)"
    with emulated_gpu(multiprocessors=4) as gpu:
        fd.evaluate(text, x=gpu.asarray(x), fastmath=True, verify=True)
