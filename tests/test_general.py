"""Kernels whose binaries serve all lengths: right results, run without a GPU (tests/ptx)."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime.arrays import describe
from fusedsl.runtime.copies import to_host

pytest.importorskip("numba_cuda")
from bounds import agrees, evaluate
from ptx import emulated_gpu

RANDOM = np.random.default_rng(5)
BRAIN = ml_dtypes.bfloat16


def normal(*shape, dtype=np.float32):
    return RANDOM.standard_normal(shape).astype(dtype)


ROWS = """
    h = x + y
    return layer_norm(h, w, b), softmax(x), max(y, axis=-1)
"""
CASES = {
    "rows": (ROWS, lambda n, m, d: {"x": normal(n, m, dtype=d), "y": normal(n, m, dtype=d), "w": normal(m, dtype=d), "b": normal(m, dtype=d)}),
    "softmax": ("softmax(x)", lambda n, m, d: {"x": normal(n, m, dtype=d)}),
    "columns": ("softmax(x, 0), var(x, axis=0)", lambda n, m, d: {"x": normal(m, n, dtype=d)}),
    "scans": ("cumsum(x, -1)", lambda n, m, d: {"x": normal(n, m, dtype=d)}),
    "orders": ("topk(x, 3)", lambda n, m, d: {"x": normal(n, m, dtype=d)}),
    "sorts": ("sort(x)", lambda n, m, d: {"x": normal(n, m, dtype=d)}),
    "turned": ("softmax(x.T + y)", lambda n, m, d: {"x": normal(m, n, dtype=d), "y": normal(n, m, dtype=d)}),
    "maps": ("x * w + 1", lambda n, m, d: {"x": normal(n, m, dtype=d), "w": normal(m, dtype=d)}),
}  # fmt: skip
SHAPES = [(7, 37), (3, 64), (1, 301), (5, 600), (2, 4105)]


@pytest.mark.parametrize("dtype", [np.float32, BRAIN])
@pytest.mark.parametrize("name", CASES)
def test_general(name, dtype):
    text, arrays = CASES[name]
    kernel = fd.kernel(text, fallback=False, dynamic=True)
    with emulated_gpu(multiprocessors=4) as gpu:
        for shape in SHAPES:
            given = arrays(*shape, dtype)
            values = [given[p] for p in kernel.params]
            found = kernel(*map(gpu.asarray, values))
            results = [to_host(r) for r in (found if isinstance(found, tuple) else (found,))]
            graph = kernel._program.graph({n: describe(v, n) for n, v in zip(kernel.params, values)})
            for k, (result, (value, bound)) in enumerate(zip(results, evaluate(graph, values))):
                agrees(result, value, bound, graph.results[k].type.dtype, f"{text!r} {shape}, result {k}")
