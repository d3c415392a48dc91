"""Functions of pandas, polars and xarray objects under @fuse: elementwise ones run fused, and give what they gave."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd

pandas = pytest.importorskip("pandas")


@fd.fuse
def both(x, y, s=2.0):
    return np.log1p(abs(x) * y) / s - (x > y), x + 1


A = pandas.Series([1.0, 2, 3], index=list("abc"), name="p")
B = pandas.Series([3.0, 1, 2], index=list("abc"), name="q")
FRAME = pandas.DataFrame({"u": [1.0, 2, 3], "v": [4.0, 5, 6]})
ONE = pandas.Series([1.0], index=["a"])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("arguments", [(A, B), (A, A, 3), (FRAME, FRAME), (FRAME, pandas.Series([1.0, 2], ["u", "v"])),
                                       (A, 2.0), (A, np.ones(3)), (ONE, ONE)])  # fmt: skip
def test_pandas_in_and_out(arguments):
    before = fd.metrics()["fusedsl_unfused_calls_total"]
    for _ in range(2):
        for found, expected in zip(both(*arguments), both.function(*arguments)):
            test = pandas.testing.assert_series_equal if expected.ndim == 1 else pandas.testing.assert_frame_equal
            test(found, expected)
    assert fd.metrics()["fusedsl_unfused_calls_total"] == before


@pytest.mark.filterwarnings("error")
def test_what_numpy_makes_an_array_of_is_one_and_arguments_are_themselves():
    plain, same = fd.fuse(lambda x: (np.where(x > 1, x, -x), x))(A)
    assert type(plain) is np.ndarray and plain.tolist() == [-1, 2, 3] and same is A


@pytest.mark.filterwarnings("error")
def test_polars_and_xarray_in_and_out():
    polars, xarray = pytest.importorskip("polars"), pytest.importorskip("xarray")
    p, d = polars.Series("p", [1.0, 2, 3]), xarray.DataArray(np.ones((2, 3)), {"x": [1, 2]}, ("x", "y"), "d")
    for found, expected in zip(both(p, p), both.function(p, p)):
        assert type(found) is polars.Series and (found.name, found.dtype) == (expected.name, expected.dtype)
        np.testing.assert_allclose(found, expected)
    for found, expected in zip(both(d, d * 2), both.function(d, d * 2)):
        xarray.testing.assert_allclose(found, expected)
        assert found.name == expected.name and found.dims == expected.dims and "x" in found.coords


@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_arrays_of_the_same_memory_keep_labels_of_their_own(shape):
    xarray = pytest.importorskip("xarray")
    x = np.arange(6.0)[: shape[0] * shape[1]].reshape(shape)
    there, turned, column = (xarray.DataArray(x, dims=dims) for dims in (("i", "j"), ("j", "i"), ("k", "i")))
    coordinates = [xarray.DataArray(x[0], {"i": first + np.arange(shape[1])}, ("i",)) for first in (1, 2)]
    for a, b in ((there, turned), (there, column), coordinates, (there, xarray.DataArray(x[:, 0], dims="i"))):
        if a.sizes.get("i") != b.sizes.get("i"):
            continue
        with pytest.warns(RuntimeWarning, match="ran without fusion"):
            found = fd.fuse(lambda p, q: p * q)(a, b)
        xarray.testing.assert_identical(found, a * b)


OTHERS = {
    "different indexes": (lambda x, y: x * y, A, B[::-1]),
    "is broadcast": (lambda x, y: x * y, A, ONE),
    "has reduce": (lambda x: x.sum() + x, A),
    "has index": (lambda x: x[1:] - x[:-1], A),
    "floor_divide of integers": (lambda x: x // 2, pandas.Series([1, 2])),
    "missing values": (lambda x: x + 1, pandas.Series([1, None], dtype="Int64")),
    "no attribute rolling": (lambda d: d.rolling(2).mean(), FRAME),
}


@pytest.mark.parametrize("reason", OTHERS)
def test_other_functions_run_as_they_are_and_say_so(reason):
    function, *arguments = OTHERS[reason]
    fused = fd.fuse(function)
    with pytest.warns(RuntimeWarning, match=f"ran without fusion: .*{reason}"):
        found = fused(*arguments)
    expected = function(*arguments)
    (pandas.testing.assert_series_equal if expected.ndim == 1 else pandas.testing.assert_frame_equal)(found, expected)


def test_a_function_that_is_not_elementwise_is_traced_once():
    calls = []

    def total(x):
        calls.append(type(x))
        return x.sum()

    fused = fd.fuse(total)
    with pytest.warns(RuntimeWarning, match="has reduce"):
        assert [fused(A) for _ in range(3)] == [6, 6, 6]
    assert calls.count(pandas.Series) == 3 and len(calls) == 4


def test_a_call_that_runs_unfused_leaves_calls_of_other_dtypes_and_shapes_fused():
    def power(x, y):
        return x**y

    fused = fd.fuse(power)
    with pytest.warns(RuntimeWarning, match="power of integers"):
        fused(pandas.Series([1, 2]), 2)
    with pytest.warns(RuntimeWarning, match="differ in the last axis|to the power"):
        pandas.testing.assert_series_equal(fused(A, B[:2]), power(A, B[:2]))
    before = fd.metrics()["fusedsl_unfused_calls_total"]
    pandas.testing.assert_series_equal(fused(A, A), power(A, A))
    pandas.testing.assert_series_equal(fused(A, 2), power(A, 2))
    assert fd.metrics()["fusedsl_unfused_calls_total"] == before


def test_an_argument_that_the_function_would_write_is_written_by_pandas():
    def doubled(x):
        x *= 2
        return x

    x = A.copy()
    with pytest.warns(RuntimeWarning, match="writes (arrays|to x)"):
        assert fd.fuse(doubled)(x) is x
    assert x.tolist() == [2, 4, 6]
