"""Kernels whose binaries serve all lengths: right results, without a GPU (tests/ptx) and on one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from test_targets import as_torch, check

import fusedsl as fd
from fusedsl.backends.cuda.rows import looped
from fusedsl.runtime import specialize
from fusedsl.runtime.array_copies import to_host

BRAIN = ml_dtypes.bfloat16
RANDOM = np.random.default_rng(5)
TEXTS = {
    "several rows": "h = x + y; return layer_norm(h, w, b), softmax(x), max(y, axis=-1)",
    "a row with a read of its own": "logsumexp(x, -1) - take_along_axis(x, i[:, None], -1)[:, 0]",
    "columns": "softmax(x, 0), var(x, axis=0)",
    "scattered rows": "softmax(z.T + y)",
    "scans": "cumsum(x, -1)",
    "the best": "topk(x, 3)",
    "orders": "sort(x), argsort(y)",
}  # fmt: skip


def arrays(n, m, dtype):
    """What the texts read, of rows of m elements."""
    shapes = {"x": (n, m), "y": (n, m), "z": (m, n), "w": (m,), "b": (m,)}
    made = {name: RANDOM.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    return made | {"i": RANDOM.integers(0, m, n)}


@pytest.mark.parametrize("name", TEXTS)
def test_rows_of_any_length(name):
    """On a small GPU, whose few blocks share columns."""
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    dtype = BRAIN if name in ("several rows", "the best") else np.float32
    with fd.options(dynamic=True, fallback=False), emulated_gpu(multiprocessors=4) as gpu:
        for shape in [(7, 37), (3, 64), (1, 301), (2, 1304)]:
            check(TEXTS[name], arrays(*shape, dtype), gpu.asarray)


def test_a_thread_behind_a_row_that_is_passed_twice_writes_nothing(monkeypatch):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    monkeypatch.setattr(looped, "_team", lambda *_: 32)
    monkeypatch.setattr("fusedsl.backends.cuda.rows.choose.schedule_resident", lambda *_: None)
    monkeypatch.setattr("fusedsl.backends.cuda.rows.choose.schedule_smem", lambda *_: None)
    with emulated_gpu() as gpu:
        check("softmax(x)", arrays(5, 24, np.float32), gpu.asarray)


UNITS = {
    "a middle axis": ("softmax(x, 1), sum(x, axis=1), x * 2", {"x": (5, 4, 6)}),
    "products": ("relu(a @ b)", {"a": (4, 5, 6), "b": (4, 6, 7)}),
    "rows that share weights": ("layer_norm(x, w), x * w", {"x": (5, 40), "w": (40,)}),
    "rows and columns": ("x - mean(x, 0), x / sum(x, -1, keepdims=True), sum(x * d, 0)", {"x": (5, 40), "d": (5, 40)}),
    "an axis that is dropped": ("sum(squeeze(x)), squeeze(x) + 1", {"x": (3, 4, 5)}),
    "what is repeated": ("x + y, max(x * y, axis=-1)", {"x": (4, 5), "y": (4, 5)}),
    "scores": ("softmax(q @ k.mT * 0.3) @ v", {"q": (3, 5, 16), "k": (3, 6, 16), "v": (3, 6, 16)}),
}  # fmt: skip


def with_units(shapes):
    """The shapes of a text's arrays, those with each extent 1 in turn, in all arrays that have it or in one, all 1."""
    extents = sorted({n for shape in shapes.values() for n in shape})
    for unit in (0, *extents):
        yield {name: tuple(1 if n == unit else n for n in shape) for name, shape in shapes.items()}
    first, *others = shapes
    for axis in range(len(shapes[first])) if others and shapes[first] == shapes[others[0]] else ():
        yield shapes | {first: tuple(1 if k == axis else n for k, n in enumerate(shapes[first]))}
    yield {name: (1,) * len(shape) for name, shape in shapes.items()}


def check_units(name, dtype, convert, monkeypatch):
    """All of these shapes, of which none with extents of 1 has a binary of its own."""
    monkeypatch.setattr(specialize, "MAX_VARIANTS", 0)
    text, shapes = UNITS[name]
    with fd.options(dynamic=True, fallback=False):
        for given in with_units(shapes):
            check(text, {name: RANDOM.standard_normal(shape).astype(dtype) for name, shape in given.items()}, convert)


@pytest.mark.parametrize("name", UNITS)
def test_extents_of_1_are_as_others_where_no_binary_is_left(name, monkeypatch):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    with emulated_gpu(multiprocessors=4) as gpu:
        check_units(name, np.float32, gpu.asarray, monkeypatch)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", UNITS)
def test_extents_of_1_are_as_others_on_a_gpu(name, dtype, monkeypatch):
    check_units(name, BRAIN if dtype == "bfloat16" else np.dtype(dtype), as_torch, monkeypatch)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("name", TEXTS)
def test_rows_of_any_length_on_a_gpu(name, dtype):
    kind = BRAIN if dtype == "bfloat16" else np.dtype(dtype)
    shapes = [(1, 3), (300, 5), (7, 37), (33, 64), (257, 130), (1, 301), (40, 1999), (9, 12_345), (3, 40_001)]
    with fd.options(dynamic=True, fallback=False):
        for shape in [*shapes, (1, 70_001), (2, 100_000), (3, 4096)]:
            if name == "the best" or name == "orders" or shape[1] < 50_000:
                check(TEXTS[name], arrays(*shape, kind), lambda v: moved(as_torch(v)))


def moved(x):
    """The array at an address that is no multiple of 16 bytes."""
    room = x.new_empty(x.numel() + 1)
    room[1:] = x.reshape(-1)
    return room[1:].reshape(x.shape)


def test_a_traced_function_is_for_the_extents_of_its_trace(monkeypatch):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    monkeypatch.setattr(specialize, "MAX_VARIANTS", 0)

    @fd.fuse(dynamic=True)
    def halved(x):
        return x / 2 if x.shape[0] == 1 else x.sum(0)

    with emulated_gpu(multiprocessors=4) as gpu:
        for shape in [(5, 6), (1, 6), (5, 1), (1, 1)]:
            x = RANDOM.standard_normal(shape).astype(np.float32)
            expected = x / 2 if shape[0] == 1 else x.sum(0)
            np.testing.assert_allclose(to_host(halved(gpu.asarray(x))), expected, rtol=1e-5)


def test_a_shape_with_an_extent_of_1_keeps_its_plan():
    """Its calls with outputs found no binary left, and folded in another order than the first."""
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    x, y = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((100, 2), (2, 1)))
    text = (
        "z = x @ y; return z, cumsum(z), pad(z, 1), argmax(x, axis=-1), cummin(x, axis=0), cummax(x, axis=0)[..., ::2]"
    )
    kernel = fd.kernel(text, fallback=False)
    with emulated_gpu(multiprocessors=4) as gpu:
        there = gpu.asarray(x), gpu.asarray(y)
        first = kernel(*there)
        outs = tuple(gpu.asarray(np.zeros_like(to_host(r))) for r in first)
        for one, other in zip(first, kernel(*there, out=outs)):
            np.testing.assert_array_equal(to_host(one), to_host(other))
        assert sum(len(known) for known in kernel._program.plans._known.values()) == 1


def test_a_result_without_a_stride_is_written(monkeypatch):
    """A row that begins between vectors stored the first element of each, which was before the row."""
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    monkeypatch.setattr("fusedsl.program.resolve_call.quota_exhausted", lambda *_: True)
    kernel = fd.kernel("y = cumsum(x, axis=0); return reshape(y, (1,)), y", fallback=False)
    with emulated_gpu(multiprocessors=4) as gpu:
        room = gpu.asarray(np.full((1, 8), 3.0, np.float32))
        for shift in range(4):
            out = gpu.asarray(np.zeros(1, np.float32))
            kernel(room[:, shift : shift + 1], out=(out, None))
            assert to_host(out).tolist() == [3.0], shift
