"""Gathers at shifted positions: elements of a vector that share an address are read once."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import evaluate as interpreted
from ptx import emulated_gpu

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

RANDOM = np.random.default_rng(7)
TEXTS = [
    ("x * t[arange(size(x, 0)) >> 3]", True),
    ("x + t[(arange(size(x, 0)) >> 4) * 2]", True),
    ("x * t[arange(size(x, 0)) >> 1]", False),  # a vector has two of them
]


@pytest.mark.parametrize(("text", "alike"), TEXTS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_a_vector_shares_is_read_once(text, alike, dtype):
    given = {"x": RANDOM.standard_normal(1003).astype(np.float32), "t": RANDOM.standard_normal(600).astype(dtype)}
    with emulated_gpu() as gpu:
        kernel = fd.kernel(text, fallback=False)
        arrays = {n: gpu.asarray(a) for n, a in given.items()}
        made = to_host(kernel(**arrays))
        assert ("gather_alike" in kernel.source(**arrays)) is alike
    np.testing.assert_allclose(made, interpreted(text, **given), rtol=1e-6)
