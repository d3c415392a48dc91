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
from fusedsl.backends.cpu.schedule import PART_ELEMENTS

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


LONG = [
    ("cumsum(x)", lambda x, a: np.cumsum(x)),
    ("cumsum(x, reverse=True, exclusive=True) * x", lambda x, a: (np.cumsum(x[::-1])[::-1] - x) * x),
    ("linear_scan(a, x, initial=2)", lambda x, a: recurrence(a, x, 2)),
    ("linear_scan(a, x, reverse=True)", lambda x, a: recurrence(a[::-1], x[::-1])[::-1]),
    ("logcumsumexp(x) - cumsum(2 * x)", lambda x, a: np.logaddexp.accumulate(x) - np.cumsum(2 * x)),
    ("cummax(x)", lambda x, a: np.maximum.accumulate(x)),
]


def recurrence(a: np.ndarray, b: np.ndarray, h: float = 0.0) -> np.ndarray:
    """h[t] = a[t] h[t-1] + b[t] along the last axis."""
    states = np.empty_like(b)
    for t in range(b.shape[-1]):
        states[..., t] = h = a[..., t] * h + b[..., t]
    return states


@pytest.mark.parametrize(("text", "meaning"), LONG)
def test_threads_share_a_long_scan_and_its_bits_do_not_depend_on_them(text, meaning):
    n = 4 * PART_ELEMENTS + 4321
    given = {"x": RANDOM.standard_normal(n), "a": RANDOM.uniform(-1, 1, n)}
    kernel = fd.kernel(text)
    arguments = [given[name] for name in kernel.params]
    assert "threads share: their states first" in str(kernel.explain(*arguments))
    found = []
    before = fd.get_num_threads()
    for threads in (1, 3):
        fd.set_num_threads(threads)
        found.append(kernel(*arguments))
    fd.set_num_threads(before)
    np.testing.assert_allclose(found[0], meaning(**given), 1e-9, 1e-7)
    assert found[0].tobytes() == found[1].tobytes()


def test_a_recurrence_is_the_loop():
    a, b = RANDOM.uniform(-2, 2, (3, 50)), RANDOM.standard_normal((3, 50))
    start = np.array([1.0, -2, 0.5])
    for text, meaning in (
        ("linear_scan(a, b)", recurrence(a, b)),
        ("linear_scan(a, b, initial=s)", recurrence(a, b, start)),
        (
            "linear_scan(a.T, b.T, axis=0, initial=s, reverse=True).T",
            recurrence(a[:, ::-1], b[:, ::-1], start)[:, ::-1],
        ),
        ("linear_scan(0.5, b)", recurrence(np.full_like(b, 0.5), b)),
        ("linear_scan(int8(a), int8(b))", recurrence(np.int64(np.int8(a)), np.int64(np.int8(b)))),
    ):
        for found in (interpreted(text, a=a, b=b, s=start), fd.evaluate(text, {"a": a, "b": b, "s": start})):
            np.testing.assert_allclose(found, meaning, 1e-9, 1e-9)
    assert fd.evaluate("linear_scan(a, b)", a=a, b=np.float32(b)).dtype == np.float64
    assert fd.evaluate("linear_scan(a[0], b, exclusive=True)[:, 0]", a=a, b=b).tolist() == [0, 0, 0]


def test_products_that_underflow_or_are_zero_reset_a_recurrence():
    a, b = np.float32([[1e-30, 1e-30, 0, 5, 1e-38, 2]]), np.float32([[1, 1, 1, 1, 1, 1]])
    np.testing.assert_allclose(fd.evaluate("linear_scan(a, b)", a=a, b=b), recurrence(a, b), 1e-6)


def test_logarithms_of_sums_keep_what_overflows_and_what_is_infinite():
    x = np.array([[1000, 1000, -1000, 3], [-np.inf, -np.inf, 0, 1], [np.inf, 1, np.inf, 2], [1, np.nan, 2, 3]])
    with np.errstate(invalid="ignore"):
        wanted = np.logaddexp.accumulate(x, axis=1)
    for found in (interpreted("logcumsumexp(x, 1)", x=x), fd.evaluate("logcumsumexp(x, 1)", x=x)):
        np.testing.assert_allclose(found, wanted, 1e-12)
    assert np.isneginf(fd.evaluate("logcumsumexp(x, 1, exclusive=True)", x=x)[:, 0]).all()


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("linear_scan(y, x)", "shape.broadcast", 1),
        ("linear_scan(x, 1, axis=2)", "shape.axis", 24),
        ("linear_scan(2, 3)", "shape.axis", 1),
        ("linear_scan(x)", "argument.missing", 14),
    ],
)
def test_faults_of_recurrences(text, code, column):
    with pytest.raises(fd.FusedslError) as fault:
        fd.evaluate(text, {"x": np.ones((2, 3), np.float32), "y": np.ones(5, np.float32)})
    assert (fault.value.code, fault.value.column) == (code, column)


def test_numpys_scans_are_traced():
    x = RANDOM.standard_normal((3, 5)).astype(np.float32)
    for function in (
        lambda x: np.cumsum(x, axis=1),
        lambda x: x.cumsum(),
        lambda x: np.cumprod(x, 0, dtype=np.float64),
        lambda x: np.add.accumulate(x),
        lambda x: np.maximum.accumulate(x, axis=-1),
        lambda x: np.logaddexp.accumulate(x, axis=1),
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
        ("linear_scan(sigmoid(x), x, reverse=True)", (512, 100000), "bfloat16"),
        ("logcumsumexp(x, -1, exclusive=True)", (512, 4096), "float32"),
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


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_scans_that_begin_with_the_initial_value_are_one_kernel(name):
    kernel = fd.kernel(f"{name}(x, axis=-1, include_initial=True)", max_kernels=1)
    x = np.array([[-0.0, 2, 3], [np.inf, 0.5, -1]], np.float32)
    found = kernel(x)
    np.testing.assert_array_equal(found, getattr(np, name)(x, axis=-1, include_initial=True))
    assert np.signbit(found[0, :2]).tolist() == [False, True]
