"""Scans: NumPy's meaning on the interpreter, and every target the same: forwards, backwards, along any axis, fused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from oracle import call
from oracle import evaluate as interpreted
from test_targets import TARGETS, check

import fusedsl as fd

RANDOM = np.random.default_rng(11)
DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool")
ALONG = [
    "cumsum(x, -1)",
    "cumsum(x[:, ::-1], 1)[:, ::-1]",
    "cumprod(x / 2, axis=1)",
    "cummax(x, 1)",
    "cummin(x, 1)",
    "cumsum(x * m, 1) - x",
    "cumsum(softmax(x), -1) * exp(x)",
    "cumsum(cumsum(tanh(x), 1) + tanh(x), 1)",
    "cumsum(x, 1), sum(x, axis=1), max(cumsum(x, 1), axis=1)",
    "cumsum(m, 1)",
    "cummax(m, 1)",
    "sum(cumsum(x, 1) * x)",
    "cumsum(x[0])",
    "cumsum(broadcast_to(x[:, :1], shape(x)), 1)",
    "cumsum(x)",
    "cumsum(x[0]) / (1 + sum(abs(x[0])))",
]
ACROSS = [
    "cumsum(x, 0)",
    "cumsum(x[::-1], 0)[::-1]",
    "cummin(x, 0)",
    "c = cumsum(x, 0); c / (1 + max(abs(c), axis=0))",
    "cumsum(x.T, 0)",
    "cumsum(c, 1)",
    "cummax(c[:, ::-1], 1)[:, ::-1]",
]
CUT = [
    "cumsum(x[:, ::-1], 1)[:, ::-1] + cumsum(x, 1)",
    "cumsum(x, 1)[:, -1]",
    "diff(cumsum(x, -1))",
    "cumsum(x, 1)[::2, ::-1]",
    "cumsum(c, -1)[..., :2]",
    "diff(x, 2, axis=0)",
    "diff(m)",
]


RECURRENCES = [
    "linear_scan(a, x)",
    "linear_scan(a, x, axis=0, initial=x[1], reverse=True, exclusive=True) + x",
    "linear_scan(0.9, x * m, exclusive=True), linear_scan(a[0], x)",
    "linear_scan(sigmoid(cumsum(x, 1)), tanh(x), initial=3) * a",
    "logcumsumexp(x, 1)",
    "logcumsumexp(100 * x, 0, reverse=True), logcumsumexp(x, 1, exclusive=True)",
    "cumsum(x, 1, exclusive=True), cummax(x, 1, exclusive=True) + cumsum(x, 1)",
    "cumprod(x / 2, 0, exclusive=True), cummin(x, 0, exclusive=True, reverse=True)",
    "cumsum(m, 1, exclusive=True, reverse=True), linear_scan(m, m)",
    "linear_scan(broadcast_to(a[:, :1], shape(x)), x, axis=1)",
]


def arrays(rows: int, columns: int, dtype: str = "float32") -> dict:
    x = RANDOM.standard_normal((rows, columns)) * 2
    return {
        "x": x.astype(dtype) if np.dtype(dtype).kind == "f" else RANDOM.integers(-3, 4, x.shape).astype(dtype),
        "m": RANDOM.random((rows, columns)) > 0.4,
        "a": RANDOM.uniform(-1, 1, (rows, columns)).astype(np.float32),
        "c": RANDOM.standard_normal((3, rows + 1, 5)).astype(np.float32),
    }


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", (*ALONG, *ACROSS, *CUT, *RECURRENCES))
def test_scans_agree_with_the_interpreter(text, target):
    check(text, arrays(13, 37), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (2, 64), (5, 1000), (2, 5001), (300, 9), (600, 3), (70, 33)])
def test_rows_of_any_length_are_scanned(shape, target):
    given = arrays(*shape)
    for text in (*ALONG[:2], ALONG[3], *ACROSS[:2], ACROSS[3]):
        check(text, given, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ("float64", "float16", "int8", "int64"))
def test_other_dtypes_are_scanned(dtype, target):
    for text in ("cumsum(x, 1)", "cummin(x[:, ::-1], 1)[:, ::-1]", "cumsum(x, 0)", "cumsum(x, 1, dtype=float32)"):
        check(text, arrays(4, 300, dtype), target)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2, 40000), (70, 20011), (1, 300001), (20011, 70), (3, 16384)])
def test_long_rows_are_scanned_on_a_gpu(shape):
    given = arrays(*shape)
    for text in (*ALONG[:2], *ALONG[3:8], *ACROSS[:4]):
        check(text, given, TARGETS[-1].values[0])


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0,)])
def test_scans_of_nothing_are_empty(shape):
    x = np.zeros(shape, np.float32)
    assert fd.evaluate("cumsum(x, -1)", x=x).shape == shape
    assert fd.evaluate("cumsum(x)", x=x).shape == (0,)


@given(
    hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=9), elements=st.floats(-4, 4, width=16)),
    st.sampled_from(["cumsum", "cumprod", "cummax", "cummin"]),
    st.integers(-3, 2),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_the_interpreter_scans_as_numpy(x, name, axis, holed):
    axis %= x.ndim
    if holed:
        x.flat[0] = np.nan
    ufunc = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}[name]
    np.testing.assert_allclose(interpreted(f"{name}(x, {axis})", x=x), ufunc.accumulate(x, axis=axis), 1e-5, 1e-6)


@pytest.mark.parametrize("name", DTYPES)
def test_the_dtypes_of_sums_and_products_are_numpys(name):
    x = np.ones((2, 3), name)
    assert interpreted("cumsum(x)", x=x).dtype == np.cumsum(x).dtype
    assert interpreted("cumprod(x, 0)", x=x).dtype == np.cumprod(x, 0).dtype
    assert interpreted("cummax(x, 1)", x=x).dtype == x.dtype
    assert interpreted("cumsum(x, dtype=float64)", x=x).dtype == np.float64


def test_a_scan_keeps_nan_inf_and_the_sign_of_zero():
    x = np.array([[-0.0, 1, np.inf, -np.inf, 2], [1, np.nan, 2, -0.0, 3], [-0.0, -0.0, -0.0, 0.0, -0.0]], np.float32)
    for text, ufunc in (("cumsum(x, 1)", np.add), ("cummax(x, 1)", np.maximum), ("cumprod(x, 1)", np.multiply)):
        with np.errstate(invalid="ignore"):
            want = ufunc.accumulate(x, axis=1)
        got = fd.evaluate(text, x=x)
        np.testing.assert_array_equal(got, want)
        if ufunc is not np.maximum:  # which of two zeros is larger, nobody says
            number = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


def test_numpys_scans_are_traced():
    x = RANDOM.standard_normal((3, 5)).astype(np.float32)
    for function in (
        lambda x: np.cumsum(x, axis=1),
        lambda x: x.cumsum(),
        lambda x: np.cumprod(x, 0, dtype=np.float64),
        lambda x: np.add.accumulate(x),
        lambda x: np.maximum.accumulate(x, axis=-1),
        lambda x: np.diff(x, n=2, axis=0),
        lambda x: np.diff(x, prepend=0),
        lambda x: np.diff(x, 2, 0, x[:1] * 2, x[:2]),
        lambda x: np.cumulative_sum(x, axis=1) if hasattr(np, "cumulative_sum") else np.cumsum(x, axis=1),
    ):
        np.testing.assert_allclose(call(function, x)[0], function(x), 1e-6, 1e-6)


def test_a_scan_and_what_stands_around_it_are_one_kernel():
    given = arrays(4, 50)
    for text in (*ALONG[:7], ALONG[8], *ACROSS[:4]):
        kernel = fd.kernel(text, max_kernels=1)
        assert len(kernel(**{name: given[name] for name in kernel.params})) > 0


def test_the_interpreters_sums_do_not_drift_and_overflow_as_numpys():
    x = np.full(1 << 21, 0.1, np.float32)
    found = interpreted("cumsum(x)", x=x)
    assert found.dtype == np.float32
    assert np.max(np.abs(found - np.cumsum(x, dtype=np.float64)) / found) < 1e-7
    large = np.array([3e38, 3e38, -3e38, 1], np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(interpreted("cumsum(x)", x=large), np.cumsum(large))


def test_sums_of_many_elements_stay_accurate():
    x = RANDOM.random(1 << 20).astype(np.float32)
    exact = np.cumsum(x, dtype=np.float64)
    assert np.max(np.abs(fd.evaluate("cumsum(x)", x=x) - exact) / exact) < 2e-6
    column = np.ascontiguousarray(np.broadcast_to(x[: 1 << 16, None], (1 << 16, 9)))
    assert np.max(np.abs(fd.evaluate("cumsum(x, 0)", x=column)[:, 3] - exact[: 1 << 16]) / exact[: 1 << 16]) < 2e-6


@pytest.mark.parametrize("cc", (80, 90))
@pytest.mark.parametrize(
    "text, shape, dtype",
    [
        ("cumsum(x, -1)", (4096, 1000), "float32"),
        ("cumsum(x * 2, -1) - x", (512, 100000), "float32"),
        ("cumsum(x[:, ::-1], -1)[:, ::-1]", (512, 100001), "bfloat16"),
        ("cumsum(softmax(x), -1) * exp(x)", (512, 4096), "float32"),
        ("cumsum(x, 0)", (4096, 4096), "float32"),
        ("cumprod(x, -1)", (100, 33), "int8"),
    ],
)
def test_scans_compile_for_cuda_and_spill_nothing(text, shape, dtype, cc):
    pytest.importorskip("numba_cuda")
    x = fd.spec(shape, dtype)
    (kernel,) = fd.kernel(text).resources(x, cc=cc)
    assert kernel.figures.spill_bytes == 0
    assert kernel.figures.blocks_per_sm >= 1


@pytest.mark.parametrize(
    "text, shape, dtype",
    [
        ("cumsum(x)", (100_000_000,), "float32"),
        ("cumsum(x)", (100_000_001,), "bfloat16"),
        ("cumsum(x[:, ::-1] * 2, 1)[:, ::-1] - x", (3, 1_000_001), "float64"),
        ("cummax(cumsum(x, -1), -1)", (64, 1_000_000), "int8"),
    ],
)
def test_few_long_rows_are_scanned_by_blocks_that_hand_their_state_on(text, shape, dtype):
    pytest.importorskip("numba_cuda")
    kernel, x = fd.kernel(text), fd.spec(shape, dtype)
    (found,) = fd.kernel(text, device="cuda").explain(x).kernels
    assert "few rows" in found.schedule
    assert found.blocks > 200
    (taken,) = kernel.resources(x, cc=90)
    assert taken.figures.spill_bytes == 0
    source = fd.kernel(text, device="cuda").source(x)
    assert "take_tile(semaphores)" in source and "while" not in source


def test_many_rows_are_scanned_in_loops():
    found = fd.kernel("cumsum(x, 1)", device="cuda").explain(fd.spec((32768, 65536))).kernels[0]
    assert "carried" in found.schedule


@pytest.mark.gpu
def test_long_scans_have_the_same_bits_every_time():
    import torch

    x = torch.randn(10_000_019, device="cuda")
    kernel = fd.kernel("cumsum(x)")
    first = kernel(x)
    exact = np.cumsum(x.cpu().numpy(), dtype=np.float64)
    assert np.max(np.abs(first.cpu().numpy() - exact)) < 1e-2
    assert all(torch.equal(first, kernel(x)) for _ in range(20))
