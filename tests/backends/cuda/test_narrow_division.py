"""Floored quotients and remainders of 8 and 16 bits are those of NumPy for all operands; by 0 they are 0."""

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu


def operands(dtype):
    """All pairs of 8 bits; of 16 bits random ones, small divisors, whole quotients, and the ends of the range."""
    kind = np.iinfo(dtype)
    if kind.bits == 8:
        every = np.arange(kind.min, kind.max + 1).astype(dtype)
        return np.repeat(every, 256), np.tile(every, 256)
    draw = np.random.default_rng(6)
    x, y = (draw.integers(kind.min, kind.max + 1, 24000) for _ in range(2))
    y[:8000] = draw.integers(max(kind.min, -9), 10, 8000)
    x[8000:16000] = x[8000:16000] // np.where(y == 0, 1, y)[8000:16000] * y[8000:16000]
    x[:400], x[400:800] = kind.min, kind.max
    return x.astype(dtype), y.astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_every_quotient_is_floored(dtype):
    x, y = operands(dtype)
    with np.errstate(divide="ignore", over="ignore"):
        expected = np.where(y == 0, 0, x // y), np.where(y == 0, 0, x % y)
    with emulated_gpu(multiprocessors=4) as gpu:
        found = fd.kernel("floor_divide(x, y), remainder(x, y)", fallback=False)(gpu.asarray(x), gpu.asarray(y))
    for got, wanted in zip(found, expected):
        np.testing.assert_array_equal(to_host(got), wanted.astype(dtype))
