"""fastmath=True: the hardware's approximations on CUDA, near what they stand for; NaN and infinities stay."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd

CALLS = ("exp(x)", "exp2(x)", "log(y)", "log2(y)", "log10(y)", "sin(x)", "cos(x)", "tanh(x)", "sigmoid(x)",
         "x / y", "sqrt(y)", "softmax(x)", "gelu(x, approximate='tanh')")  # fmt: skip
TEXT = ", ".join((*CALLS, "isnan(z)", "exp(z)", "tanh(z)", "log(absolute(z))", "1 / z"))
RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, (4, 64)).astype(np.float32)
Y = RNG.uniform(0.1, 5, (4, 64)).astype(np.float32)
Z = np.float32([np.nan, np.inf, -np.inf, 0.0] * 16)


def held(there, back) -> None:
    """Raises AssertionError where an approximation is far off, or loses a NaN or an infinity."""
    given = {name: there(v) for name, v in (("x", X), ("y", Y), ("z", Z))}
    with np.errstate(all="ignore"):
        wanted = fd.evaluate(TEXT, x=X, y=Y, z=Z)
    for k, (found, exact) in enumerate(zip(fd.evaluate(TEXT, given, fastmath=True), wanted, strict=True)):
        np.testing.assert_allclose(back(found), exact, rtol=2e-3, atol=2e-5, err_msg=f"result {k}")


def test_approximations_are_near_in_cuda_kernels():
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4) as gpu:
        held(gpu.asarray, lambda r: r.get())
        text = "".join(gpu.ptx)
    for instruction in ("ex2", "lg2", "sin", "cos", "tanh", "rcp", "sqrt"):
        assert f"{instruction}.approx" in text
    assert "div.full" in text and "div.rn" not in text and "sqrt.rn" not in text


def test_nothing_is_approximated_unasked():
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4) as gpu:
        fd.evaluate("tanh(x) + sin(x) + cos(x) + x / y + sqrt(y)", x=gpu.asarray(X), y=gpu.asarray(Y))
        text = "".join(gpu.ptx)
    assert not any(f"{name}.approx" in text for name in ("tanh", "sin", "cos", "sqrt")) and "div.rn" in text


def test_the_cpu_computes_as_ever():
    text = "exp(x) / y + tanh(x)"
    assert np.array_equal(fd.evaluate(text, x=X, y=Y), fd.evaluate(text, x=X, y=Y, fastmath=True))


@pytest.mark.gpu
def test_approximations_are_near_on_a_card():
    import cupy

    held(cupy.asarray, cupy.asnumpy)
