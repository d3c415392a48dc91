"""Loops of the CPU target over rows: sums of products several rows at a time, scans in log steps, literal divisors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cpu import schedule

WIDTHS = (13, 31, 64, 100, 200, 2048, 2049, 10243)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_rows_are_summed(dtype):
    kernel = fd.kernel("sum(a * b, axis=-1) + 1", fallback=False)
    for width in WIDTHS:
        a, b = normal(3, 71, width, dtype=dtype), normal(71, width, dtype=dtype)
        exact = (a.astype("float64") * b).sum(-1) + 1
        bound = 4 * np.finfo(dtype).eps * (np.abs(a * b).sum(-1) + 1) * np.sqrt(width)
        assert np.all(np.abs(kernel(a, b) - exact) <= bound)


@pytest.mark.parametrize("width", [31, 64, 200, 10243])
def test_a_row_has_the_same_sum_among_any_rows(width):
    kernel = fd.kernel("A @ x", fallback=False)
    A, x = normal(67, width), normal(width)
    whole = kernel(A, x)
    for begin in range(6):
        for end in (begin + 3, begin + 4, begin + 5, 67):
            assert np.array_equal(kernel(A[begin:end].copy(), x), whole[begin:end])


def test_either_operand_may_be_the_same_for_all_rows():
    A, x = normal(67, 64), normal(64)
    left, right = fd.kernel("sum(A * x, axis=-1)", fallback=False), fd.kernel("sum(x * A, -1)", fallback=False)
    assert np.array_equal(left(A, x), right(A, x))
    repeated = np.ascontiguousarray(np.broadcast_to(x, A.shape))
    assert np.array_equal(left(A, x), fd.kernel("sum(A * y, axis=-1)", fallback=False)(A, repeated))


def test_generated_code_sums_blocks_of_rows():
    text = fd.kernel("A @ x").source(normal(67, 64), normal(64), device="cpu")
    assert "row_product_float32(" in text
    assert "row_product" not in fd.kernel("sum(abs(A) * x, axis=-1)").source(normal(67, 64), normal(64), device="cpu")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("width", [13, 64, 65, 1000, 4100])
def test_running_extrema_are_exact(width, dtype):
    x = (normal(5, width, dtype="float64") * 50).astype(dtype)
    assert np.array_equal(fd.kernel("cummax(x, -1)", fallback=False)(x), np.maximum.accumulate(x, -1))
    assert np.array_equal(fd.kernel("cummin(x, -1)", fallback=False)(x), np.minimum.accumulate(x, -1))


def test_running_extrema_keep_nan_and_infinities():
    x = normal(4, 300)
    x[0, 70], x[1, 0], x[2, :5], x[3, 299] = np.nan, np.nan, -np.inf, np.inf
    kernel = fd.kernel("1 - x / cummax(x, -1)", fallback=False)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = 1 - x / np.maximum.accumulate(x, -1)
    assert np.array_equal(kernel(x), expected, equal_nan=True)


def test_largest_drawdown():
    x = np.abs(normal(7, 1000, dtype="float64")) + 0.1
    expected = (1 - x / np.maximum.accumulate(x, -1)).max(-1)
    assert np.array_equal(fd.kernel("max(1 - x / cummax(x, -1), axis=-1)", fallback=False)(x), expected)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_division_by_a_power_of_two_rounds_down(dtype):
    info = np.iinfo(dtype)
    x = np.array([info.min, info.min + 1, info.max, *range(20)] + list(range(-20, 0)) * (info.min < 0), dtype)
    for divisor in (1, 2, 8, 64):
        assert np.array_equal(fd.kernel(f"x // {divisor}", fallback=False)(x), x // np.array(divisor, dtype))
        assert np.array_equal(fd.kernel(f"x % {divisor}", fallback=False)(x), x % np.array(divisor, dtype))


def test_maps_of_many_short_rows_visit_every_row():
    x = normal(5, 9, 7, 40)[:, ::2, :, ::3]
    y = normal(9, 1, 14)[::2]
    assert np.array_equal(fd.kernel("x + y", fallback=False)(x, y), x + y)
    long = normal(2, 3, 40000)[..., ::2]
    assert np.array_equal(fd.kernel("x + 1", fallback=False)(long), long + 1)


def special_rows(dtype: str, width: int) -> np.ndarray:
    """Rows of equal elements, of ties, and of what floats have beside numbers."""
    x = np.random.default_rng(width).integers(0, 50, (6, width)).astype(dtype)
    x[1], x[2, width // 2 :] = x[1, 0], x[2, width // 2]
    if np.dtype(dtype).kind == "f":
        x[0, width // 3], x[0, -1], x[3], x[4] = np.nan, np.nan, -np.inf, 0.0
        x[4, width // 2], x[5] = -0.0, -x[5]
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int8", "uint8", "bool"])
def test_positions_of_extrema_are_those_of_numpy(dtype):
    most, least = fd.kernel("argmax(x, 1)", fallback=False), fd.kernel("argmin(x, 1)", fallback=False)
    for width in (17, 64, 131, 2049, 4200):
        x = special_rows(dtype, width)
        assert np.array_equal(most(x), x.argmax(1))
        assert np.array_equal(least(x), x.argmin(1))


def test_positions_of_extrema_of_computed_values_and_of_what_a_result_overwrites():
    x = special_rows("float64", 4200)
    assert np.array_equal(fd.kernel("argmin(x * -2, 1)", fallback=False)(x), (x * -2).argmin(1))
    assert np.array_equal(fd.kernel("argmax(x[:, ::-2], 1)", fallback=False)(x), x[:, ::-2].argmax(1))
    long = np.tile(x[4:].ravel(), 40)
    assert fd.kernel("argmax(x)", fallback=False)(long) == long.argmax()
    places = np.empty(6, np.int64)
    expected = x + 1, x.argmax(1), x.sum(1)
    results = fd.kernel("x + 1, argmax(x, 1), sum(x, 1)", fallback=False)(x, out=(x, places, None))
    assert all(map(partial(np.array_equal, equal_nan=True), results[:2], expected))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extrema_of_rows_order_zeros_and_keep_nan(dtype):
    edges = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -np.nan, 1e-40, -1e-40], dtype)
    pairs = np.stack(np.meshgrid(edges, edges), -1).reshape(-1, 2)
    rows = np.hstack([pairs, np.repeat(pairs[:, :1], 30, 1)])
    for fold, operation in (("max", "maximum"), ("min", "minimum")):
        found = fd.kernel(f"{fold}(x, axis=1)", fallback=False)(rows)
        expected = fd.kernel(f"{operation}(x, y)", fallback=False)(*map(np.ascontiguousarray, pairs.T))
        assert np.array_equal(found, expected, equal_nan=True)
        signed = ~np.isnan(found)
        assert np.array_equal(np.signbit(found[signed]), np.signbit(expected[signed]))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_division_of_long_integers_by_literals_rounds_down(dtype):
    info = np.iinfo(dtype)
    near = [2**k + o for k in range(2, 63) for o in (-1, 0, 1)] + [0, 1, 2, info.max - 1, info.max]
    for divisor in (3, 7, 1000, 2**31 + 1, 6700417 * 641, info.max - 1, info.max):
        multiples = [k * divisor + o for k in (1, 2, info.max // divisor) for o in (-1, 0, 1)]
        values = [v for v in near + multiples if v <= info.max]
        x = np.array(values + [max(-v - 1, info.min) for v in values], dtype)
        quotient, rest = fd.kernel("x // d, x % d", constants={"d": divisor}, fallback=False)(x)
        assert np.array_equal(quotient, x // np.array(divisor, dtype))
        assert np.array_equal(rest, x % np.array(divisor, dtype))


@pytest.mark.parametrize("n", [262_144, 300_001, 1_234_567])
@pytest.mark.parametrize("text", ["sum(x)", "logsumexp(x)", "mean(x * x)", "var(x)", "argmax(x)", "amax(x)"])
def test_a_row_in_parts_has_the_bits_of_a_whole_one(monkeypatch, text, n):
    x, results = np.random.default_rng(n).standard_normal(n).astype("f4"), []
    for whole in (True, False):
        monkeypatch.setattr(schedule, "_is_for_one_thread", lambda time, whole=whole: whole)
        kernel = fd.kernel(text)
        results.append(kernel(x))
        assert ("variant rows" if whole else "variant split") in str(kernel.source(x))
    assert np.asarray(results[0]).tobytes() == np.asarray(results[1]).tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("rows", [7, 8, 67, 200])
def test_extrema_of_columns_are_those_of_numpy(dtype, rows):
    x = normal(rows, 300, dtype=dtype)
    x[3, 5], x[rows - 1, 6], x[:, 7], x[:, 8] = np.nan, np.nan, -np.inf, np.inf
    x[:, 9], x[2, 9], x[:, 10], x[rows - 2, 10] = -0.0, 0.0, 0.0, -0.0
    largest, smallest, spread = fd.evaluate(
        "return amax(x, axis=0), amin(x, axis=0), amax(x * 2, axis=0) - amin(x, axis=0)", x=x
    )
    assert np.array_equal(largest, x.max(0), equal_nan=True)
    assert np.array_equal(smallest, x.min(0), equal_nan=True)
    with np.errstate(all="ignore"):
        assert np.array_equal(spread, (x * x.dtype.type(2)).max(0) - x.min(0), equal_nan=True)
    assert not np.signbit(largest[9])
    assert np.signbit(smallest[10])
