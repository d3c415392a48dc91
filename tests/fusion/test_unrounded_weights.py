"""What a program does not round, no kernel of scores rounds: weights of sums of products, and casts of the program."""

from __future__ import annotations

import devices
import numpy as np
import pytest
from draw import Program
from laws import Case, hold

import fusedsl as fd

pytest.importorskip("numba_cuda")
import ml_dtypes
from ptx import emulated_gpu

CAUSAL = "iota(a @ b, -1) <= iota(a @ b, -2)"
FORMS = {
    "scores": "sum((a @ b)[:, :, None] * b, 1)",
    "masked scores": f"sum(where({CAUSAL}, a @ b, 0)[..., None] * a[None], 1)",
    "a softmax": "sum(softmax(a @ b)[..., None] * sin(a)[None], 1)",
    "a weight that is cast": "sum(astype(softmax(a @ b), NARROW)[..., None] * b[None], 1)",
    "factors that are cast": "sum((astype(a @ b, NARROW) * astype(b @ a, NARROW))[:, :, None] * b[None], 1)",
    "a number that is none of 16 bits": "sum(softmax(a @ b)[..., None] * where(b > 0, b, 0.1)[None], 1)",
    "an operand of scores": "softmax(sum(tanh(a)[:, None] * b[None], -1)) @ b",
}


def program(text: str, dtype) -> Program:
    r = np.random.default_rng(0)
    arrays = {name: (r.standard_normal((17, 17)) / 4).astype(dtype) for name in "ab"}
    return Program((f"t = {text.replace('NARROW', np.dtype(dtype).name)}",), ("t",), arrays)


@pytest.mark.parametrize("name", FORMS)
def test_on_the_cpu(name):
    hold(Case(program(FORMS[name], np.float16)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", FORMS)
def test_on_a_gpu(name, dtype):
    with emulated_gpu(multiprocessors=4, cc=(9, 0)):
        hold(Case(program(FORMS[name], dtype)), devices.on(devices.Emulated()))


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("softmax(q @ k.mT) @ v", "tensor cores"),
        ("sum(softmax(q @ k.mT)[..., None] * v[:, None], -2)", "products are summed in float32"),
    ],
)
def test_tensor_cores_multiply_weights_that_a_contraction_rounds(text, schedule):
    q = fd.spec((4, 128, 64), "float16")
    assert schedule in fd.kernel(text).explain(q, q, q, device="cuda").kernels[-1].schedule
