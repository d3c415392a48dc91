"""Maps whose rows are no whole vectors store vectors of all elements in order, for any extents."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

FLAT = "elements in order"
CASES = {
    "channels that stay": ("flip(u, axis=1)", {"u": ((5, 7, 3), "uint8")}),
    "reversed channels": ("flip(u, axis=2)", {"u": ((5, 7, 3), "uint8")}),
    "interleaved bytes": ("stack([u, v, w], axis=-1)", dict.fromkeys("uvw", ((333,), "uint8"))),
    "interleaved floats": ("stack([u, v], axis=-1)", dict.fromkeys("uv", ((41, 5), "float32"))),
    "joined rows": ("concat([u, v], axis=-1)", {"u": ((50, 16), "float32"), "v": ((50, 3), "float32")}),
    "reflected": ("pad(u, ((0, 0), (2, 1), (1, 1)), mode='reflect')", {"u": ((3, 6, 5), "float32")}),
    "half floats": ("u[:, ::-1] * v + 1", {"u": ((33, 17), "float16"), "v": ((17,), "float16")}),
    "comparisons": ("u[:, 1:] > 0", {"u": ((20, 36), "float32")}),
    "positions": ("u[:, :7] + arange(0, 7)", {"u": ((20, 9), "float32")}),
    "one element": ("stack([u, v], axis=-1)", dict.fromkeys("uv", ((1,), "float32"))),
}


@pytest.mark.parametrize("name", CASES)
def test_vectors_cross_the_ends_of_rows(name):
    text, given = CASES[name]
    draw = np.random.default_rng(5)
    arrays = {n: draw.integers(-9 * (d != "uint8"), 9, shape).astype(d) for n, (shape, d) in given.items()}
    with emulated_gpu(multiprocessors=4) as gpu:
        kernel, there = fd.kernel(text, fallback=False), {n: gpu.asarray(x) for n, x in arrays.items()}
        assert FLAT in kernel.source(**there) or name == "one element"
        np.testing.assert_array_equal(to_host(kernel(**there)), fd.evaluate(text, **arrays, device="cpu"))


def test_normal_numbers_of_odd_rows_are_those_of_any_others():
    x = np.zeros((9, 35), np.float32)
    with emulated_gpu(multiprocessors=4) as gpu:
        kernel = fd.kernel("normal(7, x)", fallback=False)
        found = to_host(kernel(gpu.asarray(x)))
        assert FLAT in kernel.source(gpu.asarray(x))
    np.testing.assert_allclose(
        found, fd.evaluate("normal(7, x)", x=x.reshape(-1), device="cpu").reshape(9, 35), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("text", "shape"), [("flip(x, axis=1)", (64, 32)), ("x[:, 1:] * 2", (64, 33)), ("x.mT + 1", (64, 33))]
)
def test_others_keep_their_rows(text, shape):
    assert FLAT not in fd.kernel(text).source(x=fd.spec(shape), device="cuda")
