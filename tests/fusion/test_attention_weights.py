"""Several weighted sums of the same scores: one kernel each on a GPU, one on the CPU, and none stores scores."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu
from test_cuda_attention import BRAIN, CAUSAL, SCORES, given, reference

MASKED = SCORES + f"s = where({CAUSAL}, s, -inf); p = softmax(s)\n"
FORMULAS = {  # and how many kernels on a GPU
    "one more in each weight": (SCORES + f"(softmax(where({CAUSAL}, s, -inf)) + 1) @ v", 2),
    "centred": (SCORES + "p = softmax(s); (p - mean(p, -1, keepdims=True)) @ v", 2),
    "a norm of weights": (SCORES + "layer_norm(softmax(s)) @ v", 2),
    "a difference of temperatures": (MASKED + "(p - 0.5 * softmax(2 * s)) @ v, logsumexp(s, -1)", 2),
    "three in one sum": (SCORES + "((softmax(s) + 1) - softmax(0.5 * s) * 2) @ v", 3),
    "two operands": (MASKED + "p @ v, p @ (2 * v + 1), max(p, axis=-1)", 3),  # the second one is stored before
    "two operands, gated": (MASKED + "(p * sigmoid(s)) @ v, p @ v, logsumexp(s, -1)", 2),
    "weights without a softmax": (SCORES + f"where({CAUSAL}, sigmoid(s), 0) @ v, square(relu(s)) @ v", 2),
    "squares less weights": (MASKED + "(p * p - p) @ v", 2),
    "moments": (SCORES + "p = softmax(s); m = p @ v; p @ (v * v) - m * m", 3),
    "weights and a bias": (SCORES + "(softmax(s) + bias) @ v", 2),
    "weights and a bias of keys": (SCORES + "(softmax(s) + bias[:1]) @ v", 2),
    "masked weights and a bias of keys": (MASKED + "(p * bias[:1] + bias[:1]) @ v", 2),
    "places as weights": (SCORES + "(softmax(s) + 0.01 * iota(s, -1) * bias) @ v", 2),
    "sums of rows alone": (SCORES + "p = softmax(s); sum(2 * p - 0.5, -1), p @ v", 1),
    "one sum twice": (SCORES + "p = softmax(s); p @ v + 2 * (p @ v)", 1),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("cc", "dtype"), [((9, 0), BRAIN), ((8, 0), np.float16), ((7, 5), np.float32)])
@pytest.mark.parametrize("name", FORMULAS)
def test_each_weight_is_a_pass(name, cc, dtype):
    text, kernels = FORMULAS[name]
    arrays, kernel = given(dtype=dtype), fd.kernel(text)
    with emulated_gpu(cc=cc) as gpu:
        found = kernel(*(gpu.asarray(arrays[name]) for name in kernel.params))
        found = [to_host(x) for x in (found if isinstance(found, tuple) else (found,))]
        assert len(gpu.launches) == kernels
    assert_near(found, reference(kernel, arrays), {BRAIN: 2.0**-7, np.float16: 2.0**-10, np.float32: 2e-6}[dtype])


def assert_near(found, expected, share):
    """Whether results are off by at most a share of the largest, as rounded weights make them."""
    for value, exact in zip(found, expected):
        assert np.abs(value.astype(np.float64) - exact).max() <= share * np.abs(exact).max()


@pytest.mark.gpu
@pytest.mark.parametrize("name", FORMULAS)
def test_on_a_card(name):
    cupy = pytest.importorskip("cupy")
    kernel = fd.kernel(FORMULAS[name][0])
    for n, m, width, out in ((333, 1000, 64, 64), (129, 700, 128, 128), (70, 152, 192, 64)):
        arrays = given(n, m, width=width, out=out, dtype=np.float16)
        found = kernel(*(cupy.asarray(arrays[name]) for name in kernel.params))
        found = [cupy.asnumpy(x) for x in (found if isinstance(found, tuple) else (found,))]
        assert_near(found, reference(kernel, arrays), 2.0**-9)


@pytest.mark.parametrize("name", FORMULAS)
def test_on_the_cpu_all_weights_are_one_pass(name):
    arrays, kernel = given(150, 300, dtype=np.float32), fd.kernel(FORMULAS[name][0])  # of some tiles without masks
    values = [arrays[name] for name in kernel.params]
    found = kernel(*values)
    assert_near(found if isinstance(found, tuple) else (found,), reference(kernel, arrays), 2e-6)
    alone = fd.kernel(FORMULAS[name][0], max_kernels=1)  # else a product of a library may take less time
    assert str(alone.explain(*values)).startswith("1 kernel")


def test_explanations_say_why_there_are_several_passes():
    text = str(fd.kernel(SCORES + "p = softmax(s); p @ v, p @ w").explain(*[fd.spec((1, 4, 512, 64), "bfloat16")] * 4))
    assert text.startswith("2 kernels") and "a GPU kernel multiplies one value operand by the weights" in text


@pytest.mark.parametrize(
    "text", ["float32(s) + c[:, None]", "float32(s) * iota(s, -2) + c[:, None]", "float32(s), c + 0"]
)
@pytest.mark.parametrize("n", [5, 150])
def test_what_an_epilogue_alone_loads_of_a_row_is_loaded(text, n):
    """It was taken from scratch memory that nothing had written."""
    draw = np.random.default_rng(0)
    a, b = (draw.standard_normal((n, n)).astype(np.float16) for _ in "ab")
    fd.kernel(f"s = (a @ b.mT) @ a\nreturn {text}", verify=True, fallback=False)(a=a, b=b, c=a[0])
