"""Lists, pandas, polars, xarray and JAX objects as arguments, and results of their kind with their labels."""

from __future__ import annotations

import subprocess
import sys
import types

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.ir.dims import Symbol
from fusedsl.ir.graph import Parameter, Type
from fusedsl.ir.labels import axis_origins
from fusedsl.ir.types import FLOAT64
from fusedsl.program.text_source import TextSource

# ---- which axes of arguments a result's axes run along

SHAPES = {"x": (4, 6), "y": (4, 6), "w": (6,), "s": (4,), "i": (3,), "m": (6, 5)}
X0, X1, W0, S0 = {(0, 0)}, {(0, 1)}, {(1, 0)}, {(1, 0)}


def origins(text):
    source = TextSource(text, fd.options().__enter__(), None, None)
    names = source.names
    sizes = {Symbol(k, a): n for k, name in enumerate(names) for a, n in enumerate(SHAPES[name])}
    parameters = tuple(
        Parameter(name, Type(FLOAT64, tuple(Symbol(k, a) for a in range(len(SHAPES[name])))))
        for k, name in enumerate(names)
    )
    graph, _ = source.build(parameters, sizes, fd.options().__enter__())
    return [[set(axis) for axis in result] for result in axis_origins(graph)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("exp(x)", [X0, X1]),
        ("x + w", [X0, X1 | W0]),
        ("x * s[:, None]", [X0 | S0, X1]),
        ("x.T", [X1, X0]),
        ("sum(x, 1)", [X0]),
        ("sum(x, 1, keepdims=True)", [X0, set()]),
        ("softmax(x)", [X0, X1]),
        ("cumsum(x, 1)", [X0, X1]),
        ("x[1:]", [set(), X1]),
        ("x[:, ::-1]", [X0, set()]),
        ("roll(x, 1, 0)", [set(), X1]),
        ("sort(x)", [X0, set()]),
        ("x[0]", [X1]),
        ("x[:, None]", [X0, set(), X1]),
        ("reshape(x, (size(x, 0), 2, 3))", [X0, set(), set()]),
        ("reshape(x, -1)", [set()]),
        ("x @ m", [X0, {(1, 1)}]),
        ("x.T @ y", [X1, {(1, 1)}]),
        ("concat([x, y])", [set(), X1 | {(1, 1)}]),
        ("take(x, int64(i), 1)", [X0, {(1, 0)}]),
        ("broadcast_to(w, (3, size(w)))", [set(), {(0, 0)}]),
    ],
)
def test_an_axis_keeps_its_origin_where_its_elements_keep_their_places(text, wanted):
    assert origins(text) == [wanted]


# ---- lists


def test_lists_and_ranges_are_arrays_of_numpy():
    import array

    b = np.array([10, 20, 30])
    for a in ([1, 2, 3], (1, 2, 3), range(1, 4), array.array("l", [1, 2, 3])):
        found = fd.evaluate("a * 2 + b", a=a, b=b)
        assert type(found) is np.ndarray and found.tolist() == [12, 24, 36]
    assert fd.evaluate("a / 2", a=[[1, 2], [3, 4]]).dtype == np.float64
    assert fd.kernel("sum(a)")([1.5, 2]) == 3.5
    a, b = [1, 2, 3], (4, 5, 6)
    assert fd.evaluate("a + b").tolist() == [5, 7, 9]


@pytest.mark.parametrize(
    ("a", "error", "says"),
    [
        ([[1, 2], [3]], fd.ArgumentError, "differ in length"),
        (["x", "y"], fd.DTypeError, "a has elements of type str"),
        ([1, None], fd.DTypeError, "object"),
        ([2**70], fd.DTypeError, "object"),
    ],
)
def test_lists_of_no_numbers_are_refused_by_name(a, error, says):
    with pytest.raises(error, match=says):
        fd.evaluate("a * 2", a=a)


def test_lists_are_looked_into_by_all_that_takes_arguments():
    kernel = fd.kernel("a * 2")
    assert "int64[3]" in str(kernel.explain([1, 2, 3], compile=False))
    assert kernel.bind([1, 2, 3])().tolist() == [2, 4, 6]


# ---- pandas


def test_a_series_comes_back_with_its_index_and_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4, 5, 6]}, index=list("xyz"))
    for _ in range(2):
        found = fd.evaluate("a * 2 + b", a=frame.a, b=frame.b)
        pandas.testing.assert_series_equal(found, frame.a * 2 + frame.b)
        pandas.testing.assert_series_equal(fd.evaluate("a * 2", a=frame.a), frame.a * 2)
    assert type(fd.evaluate("sum(a)", a=frame.a)) is np.ndarray
    assert type(fd.evaluate("a[::-1] * 1", a=frame.a)) is np.ndarray
    pandas.testing.assert_series_equal(fd.evaluate("a * b * 2", frame), frame.a * frame.b * 2)
    price, qty = frame.a, frame.b
    pandas.testing.assert_series_equal(fd.evaluate("price * qty"), price * qty)
    out = np.empty(3)
    assert fd.evaluate("a * 2", a=frame.a, out=out) is out and out.tolist() == [2, 4, 6]


def test_a_data_frame_is_a_table_with_its_labels():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [True, False, True], "c": [7, 8, 9]}, index=list("xyz"))
    pandas.testing.assert_frame_equal(fd.evaluate("t * 2", t=frame), frame * 2.0)
    pandas.testing.assert_frame_equal(fd.evaluate("t.T + 0", t=frame * 1.0), (frame * 1.0).T)
    pandas.testing.assert_series_equal(fd.evaluate("mean(t, 0)", t=frame), frame.mean())
    pandas.testing.assert_series_equal(fd.evaluate("sum(t, 1)", t=frame), (frame * 1.0).sum(axis=1))
    found = fd.evaluate("t @ w", t=frame, w=np.ones((3, 2)))
    assert list(found.index) == list("xyz") and list(found.columns) == [0, 1]
    shifted = pandas.Series([1.0, 2.0, 3.0], index=frame.columns)
    pandas.testing.assert_frame_equal(fd.evaluate("t + s", t=frame, s=shifted), frame + shifted)


def test_different_indexes_are_not_silently_taken_for_one():
    pandas = pytest.importorskip("pandas")
    a, b = pandas.Series([1.0, 2.0], index=[0, 1]), pandas.Series([3.0, 4.0], index=[1, 0])
    with pytest.raises(fd.ArgumentError, match=r"a and b have different indexes\n.*a.align\(b\)"):
        fd.evaluate("a + b", a=a, b=b)
    pandas.testing.assert_series_equal(fd.evaluate("a + sum(b)", a=a, b=b), a + b.sum())


def test_missing_values_are_nan_and_other_types_are_named_by_their_column():
    pandas = pytest.importorskip("pandas")
    whole = pandas.Series([1, None, 3], dtype="Int64")
    assert np.isnan(fd.evaluate("x * 2", x=whole).to_numpy()).tolist() == [False, True, False]
    assert fd.evaluate("x * 2", x=whole.dropna()).dtype == np.int64
    assert fd.evaluate("x * 2", x=pandas.Series([1.5, None], dtype="Float32")).dtype == np.float32
    frame = pandas.DataFrame({"a": [1.0], "s": ["x"], "k": pandas.Categorical(["u"])})
    with pytest.raises(fd.DTypeError, match="s has elements of type"):
        fd.evaluate("s * 2", frame)
    with pytest.raises(fd.DTypeError, match=r"k has elements of type category\n.*k.cat.codes"):
        fd.evaluate("k * 2", frame)
    with pytest.raises(fd.DTypeError, match="column 's' of t has elements"):
        fd.evaluate("t * 2", t=frame)
    with pytest.raises(fd.DTypeError, match="missing bools"):
        fd.evaluate("~x", x=pandas.Series([True, None], dtype="boolean"))


# ---- polars and xarray


def test_polars_rows_and_columns():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1, 2, None], "b": [1.0, 2.0, 3.0], "s": ["x", "y", "z"]})
    found = fd.evaluate("a * b", frame)
    assert isinstance(found, polars.Series) and found.to_list()[:2] == [1.0, 4.0]
    found = fd.evaluate("x * 2", x=frame[["a", "b"]])
    assert isinstance(found, polars.DataFrame) and found.columns == ["a", "b"]
    assert fd.evaluate("x * 2", x=frame["b"]).name == "b"
    assert type(fd.evaluate("sum(x, 0)", x=frame[["b"]])) is np.ndarray
    with pytest.raises(fd.DTypeError, match="column 's' of x"):
        fd.evaluate("x * 2", x=frame)


def test_xarray_dimensions_and_coordinates():
    xarray = pytest.importorskip("xarray")
    a = xarray.DataArray(
        np.arange(6.0).reshape(2, 3),
        dims=("t", "s"),
        coords={"t": [10, 20], "s": list("abc"), "lab": ("t", ["u", "v"])},
    )
    b = xarray.DataArray(np.arange(3.0), dims="s", coords={"s": list("abc")})
    xarray.testing.assert_identical(fd.evaluate("a + b", a=a, b=b), a + b)
    xarray.testing.assert_identical(fd.evaluate("mean(a, 0) + b", a=a, b=b), a.mean("t") + b)
    xarray.testing.assert_identical(fd.evaluate("u * w", xarray.Dataset({"u": a, "w": b})), a * b)
    with pytest.raises(fd.ArgumentError, match="different dimensions, 's' and 'q'"):
        fd.evaluate("a + b", a=a, b=b.rename(s="q"))
    with pytest.raises(fd.ArgumentError, match="different coordinates along 's'"):
        fd.evaluate("a + b", a=a, b=b.assign_coords(s=list("abd")))
    with pytest.raises(fd.ArgumentError, match="is a Dataset"):
        fd.evaluate("u * 2", u=xarray.Dataset({"u": a}))


# ---- JAX, which need not be there


class FakeJax:
    """What is used of jax.Array."""

    __module__ = "jaxlib._jax"

    def __init__(self, array):
        self.array = np.asarray(array)
        self.ndim, self.shape, self.dtype = self.array.ndim, self.array.shape, self.array.dtype

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_an_array_of_jax_in_gives_one_of_jax_out(monkeypatch):
    jax = types.ModuleType("jax")
    jax.dlpack = types.SimpleNamespace(from_dlpack=FakeJax)
    monkeypatch.setitem(sys.modules, "jax", jax)
    for _ in range(2):
        doubled, total = fd.evaluate("x * s, sum(x)", x=FakeJax(np.arange(3.0)), s=2)
        assert type(doubled) is type(total) is FakeJax
        assert doubled.array.tolist() == [0, 2, 4] and total.array == 3
    fused = fd.fuse(lambda x: np.tanh(x))
    assert type(fused(FakeJax(np.zeros(3)))) is FakeJax


# ---- functions


def test_a_function_of_labelled_arrays_runs_as_it_is_and_says_so():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"price": [1.0, 2.0], "qty": [3.0, 4.0]})

    @fd.fuse
    def total(d):
        return np.log1p(d.price * d.qty)

    with pytest.warns(RuntimeWarning, match=r"total ran without fusion: labelled .* has no attribute price") as told:
        found = total(frame)
    assert told[0].filename == __file__
    pandas.testing.assert_series_equal(found, total.function(frame))
    with pytest.warns(RuntimeWarning, match="ran without fusion: labelled"):
        assert fd.fuse(lambda d: d.std())(frame.price) == frame.price.std()


@pytest.mark.filterwarnings("error")
def test_one_warning_a_function_and_none_where_something_is_traced():
    @fd.fuse
    def squashed(a):
        return np.tanh(a) * 2

    with pytest.raises(RuntimeWarning, match="numbers in lists"):
        squashed([1.0, 2.0])
    assert np.array_equal(squashed([1.0, 2.0]), squashed.function([1.0, 2.0]))
    assert fd.fuse(lambda a, b: np.add(a, b))([1.0, 2.0], np.ones(2)).tolist() == [2, 3]
    assert fd.fuse(lambda a: a * 2)([1.0, 2.0]) == [1, 2, 1, 2]
    assert fd.fuse(lambda x: np.zeros(3))(np.ones(2)).tolist() == [0, 0, 0]


def test_no_library_is_imported_for_arguments_of_others():
    code = (
        "import sys, numpy as np, fusedsl as fd\n"
        "fd.evaluate('a * b', a=[1, 2], b=np.ones(2))\n"
        "print([m for m in ('torch', 'pandas', 'polars', 'xarray', 'jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
