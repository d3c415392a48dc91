"""Scatters, segments, counts and histograms: NumPy's meaning, every target the same, in one order of sums."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from oracle import evaluate as interpreted

import fusedsl as fd
from fusedsl.config import num_threads
from fusedsl.errors import ArgumentError, DTypeError, ShapeError

RANDOM = np.random.default_rng(24)
ROWS, PLACES = 60, 9
OFFSETS = np.array([1, 4, 4, 30, 57])
IDS = RANDOM.integers(-2, 6, ROWS)


def arrays() -> dict:
    w = RANDOM.standard_normal((ROWS, 3)).astype(np.float32)
    v = np.round(RANDOM.standard_normal(ROWS) * 4).astype(np.float32) / 2
    v[[3, 8, 20]] = np.nan, np.inf, -np.inf
    v[RANDOM.random(ROWS) < 0.1] = -0.0
    x = RANDOM.standard_normal(PLACES).astype(np.float32)
    return {"x": x, "y": RANDOM.standard_normal((PLACES, 3)).astype(np.float32), "v": v, "w": w, "o": OFFSETS,
            "i": RANDOM.integers(-PLACES, PLACES, ROWS), "k": RANDOM.integers(-20, 20, ROWS), "s": IDS}  # fmt: skip


GIVEN = arrays()
TEXTS = [
    "scatter_add(x, i, v * 2)",
    "scatter_max(x, i, v), scatter_min(x, i, v)",
    "scatter(x, i, v)",
    "scatter(y, i, exp(w))",
    "scatter_add(y.T, i, w.T, axis=1) * 2",
    "scatter_max(int8(y * 9), i, int8(w * 40))",
    "scatter_add(x > 0, i, v > 1)",
    "scatter_add(float16(x), i, w[:, 0])",
    "bincount(k, 7), bincount(k, 300)",
    "bincount(abs(i), 9, exp(-w[:, 1] ** 2))",
    "segment_sum(w, offsets=o), segment_mean(w, offsets=o)",
    "segment_max(w, ids=s, n=5), segment_min(v, offsets=o)",
    "segment_softmax(w, ids=s, n=5)",
    "histogram(w, 8, range=(-1, 1))[0]",
    "scatter_add(softmax(y), i, cumsum(w, axis=0) - mean(w))",
    "scatter_add(cumsum(v[9:18]), i[9:18], v[9:18]), segment_sum(cumsum(w, axis=0), offsets=o)",
    "bincount(i[0], 4, 1.5) != x[1], scatter_add(4, k[2] % 4, w[0, 0])",
    # Final reshapes of the values, of the places, and of both from other shapes.
    "segment_max(repeat(v * 2, 3), ids=arange(size(v) * 3) // 40, n=5), segment_sum(repeat(v, 2), offsets=o)",
    "segment_max(v, ids=reshape(sum(reshape(w, (12, 5, 3)) > 0, axis=-1, keepdims=True), (-1,)), n=4)",
    "segment_sum(reshape(sum(reshape(w, (5, 12, 3)), axis=-1, keepdims=True), (-1,)),"
    " ids=reshape(sum(reshape(w, (12, 5, 3)) > 0, axis=-1, keepdims=True), (-1,)), n=4)",
]


def read(text: str) -> dict:
    kernel = fd.kernel(text)
    return {name: GIVEN[name] for name in kernel.params}


@pytest.mark.parametrize("text", TEXTS)
def test_scatters_are_what_the_interpreter_says_at_every_stage(text):
    """verify=True compares the lowered program, the partition, the plan and the compiled kernel with it."""
    fd.kernel(text, verify=True, fallback=False)(**read(text))


def test_numpy_agrees():
    x, y, v, w, i = (GIVEN[name] for name in "xyvwi")
    added, largest, written = x.copy(), x.copy(), y.copy()
    np.add.at(added, i, w[:, 0])
    with np.errstate(invalid="ignore"):
        np.maximum.at(largest, i, v)
    written[i] = w
    np.testing.assert_allclose(fd.evaluate("scatter_add(x, i, w[:, 0])", x=x, i=i, w=w), added, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(fd.evaluate("scatter_max(x, i, v)", x=x, i=i, v=v), largest)
    np.testing.assert_array_equal(fd.evaluate("scatter(y, i, w)", y=y, i=i, w=w), written)
    np.testing.assert_array_equal(fd.evaluate("bincount(j, 9)", j=i % 9), np.bincount(i % 9, minlength=9))
    weighted = fd.evaluate("bincount(j, 9, w)", j=i % 9, w=w[:, 0])
    np.testing.assert_allclose(weighted, np.bincount(i % 9, w[:, 0], minlength=9), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("how", [{"bins": 7}, {"bins": 10, "range": (-1, 1)}, {"bins": 3, "range": (0, 0)}], ids=str)
def test_histograms_are_those_of_numpy(dtype, how):
    x = (GIVEN["w"] * 3).astype(dtype)
    counts, edges = fd.kernel("histogram(x, bins, range=range)", constants={"range": None, **how})(x=x)
    expected, expected_edges = np.histogram(x, **how)
    np.testing.assert_array_equal(counts, expected)
    np.testing.assert_allclose(edges, expected_edges, rtol=1e-6, atol=1e-7)
    assert (counts.dtype, edges.dtype) == (expected.dtype, expected_edges.dtype)


def test_segments_are_rows_from_one_offset_to_the_next():
    w = GIVEN["w"]
    parts = [w[a:b] for a, b in pairwise(OFFSETS)]
    sums = fd.evaluate("segment_sum(w, offsets=o)", w=w, o=OFFSETS)
    np.testing.assert_allclose(sums, [p.sum(0) for p in parts], rtol=1e-5, atol=1e-6)
    means = fd.evaluate("segment_mean(w, offsets=o)", w=w, o=OFFSETS)
    np.testing.assert_allclose(means, [p.mean(0) if len(p) else [np.nan] * 3 for p in parts], rtol=1e-5, atol=1e-6)
    largest = fd.evaluate("segment_max(w, offsets=o)", w=w, o=OFFSETS)
    np.testing.assert_array_equal(largest, [p.max(0, initial=-np.inf) for p in parts])
    shares = fd.evaluate("segment_softmax(w, offsets=o)", w=w, o=OFFSETS)
    outside = np.ones(ROWS, bool)
    outside[OFFSETS[0] : OFFSETS[-1]] = False
    assert not shares[outside].any()
    np.testing.assert_allclose(shares[4:30].sum(0), 1, rtol=1e-6)


@pytest.mark.parametrize("offsets", [[5], [0, 0, 64, 64, 64, 100, 128, 128], [0, 3, 3, 200], [-4, 2, 130]])
def test_empty_segments_and_rows_of_none(offsets):
    x = RANDOM.standard_normal(128).astype(np.float32)
    parts = [x[a:b] for a, b in pairwise(np.clip(offsets, 0, 128))]
    given = {"x": x, "o": np.array(offsets)}
    sums, shares = fd.evaluate("segment_sum(x, offsets=o), segment_softmax(x, offsets=o)", given)
    np.testing.assert_allclose(sums, [p.sum() for p in parts], rtol=1e-5, atol=1e-5)
    wanted = np.zeros(128)
    for a, b in pairwise(np.clip(offsets, 0, 128)):
        wanted[a:b] = np.exp(x[a:b]) / np.exp(x[a:b]).sum()
    np.testing.assert_allclose(shares, wanted, rtol=1e-5, atol=1e-6)


def test_bits_do_not_depend_on_threads():
    places, values = RANDOM.integers(0, 5000, 400_000), RANDOM.standard_normal(400_000).astype(np.float32)
    results = []
    before = num_threads()
    for threads in (1, 2, 8):
        fd.set_num_threads(threads)
        try:
            results.append(fd.evaluate("scatter_add(5000, i, v)", i=places, v=values))
        finally:
            fd.set_num_threads(before)
    assert all(r.tobytes() == results[0].tobytes() for r in results)


def test_an_index_out_of_range_is_left_out_or_raises():
    given = {"x": np.zeros(4), "i": np.array([0, 4, -5, -1])}
    np.testing.assert_array_equal(fd.evaluate("scatter_add(x, i, 1)", **given), [1, 0, 0, 1])
    np.testing.assert_array_equal(fd.evaluate("scatter(x, i, 2)", **given), [2, 0, 0, 2])
    for options in ({"bounds": "raise"}, {"verify": True}):
        with pytest.raises(IndexError, match="out of range"):
            fd.kernel("scatter_add(x, i, 1)", **options)(**given)
        np.testing.assert_array_equal(fd.kernel("bincount(i, 4)", **options)(i=given["i"]), [1, 0, 0, 0])


FAULTS = [
    ("scatter_add(x, i, w)", ShapeError, "shape.scatter"),
    ("scatter_add(x, v, 1)", DTypeError, "dtype.index"),
    ("scatter_add(x, i, 1, axis=1)", ShapeError, "shape.axis"),
    ("scatter_add(9, i, v, axis=1)", ArgumentError, "argument.axis"),
    ("segment_sum(w)", ArgumentError, "argument.segments"),
    ("segment_sum(w, offsets=o, ids=i, n=3)", ArgumentError, "argument.segments"),
    ("segment_sum(w, ids=i)", ArgumentError, "argument.missing"),
    ("segment_sum(w, ids=o, n=3)", ShapeError, "shape.broadcast"),
    ("segment_sum(w, offsets=w)", ShapeError, "shape.segment"),
    ("histogram(v, x)", ArgumentError, "argument.bins"),
    ("histogram(v, 4, range=3)", ArgumentError, "argument.range"),
    ("histogram(v > 0, 4)", DTypeError, "dtype.histogram"),
    ("histogram(v, 4, range=(3, 1))", ArgumentError, "argument.range"),
    ("histogram(v, 4, range=(0, inf))", ArgumentError, "argument.range"),
    ("histogram(v, 4, weights=v[1:])", ShapeError, "shape.broadcast"),
    ("scatter_add(2.5, i, v)", ArgumentError, "argument.kind"),
    ("scatter_add(sum(v), i, v)", ArgumentError, "argument.kind"),
    ("segment_sum(w, offsets=o[:0])", ShapeError, "shape.segment"),
]


@pytest.mark.parametrize(("text", "kind", "code"), FAULTS, ids=[text for text, *_ in FAULTS])
def test_faults_have_errors_of_their_own(text, kind, code):
    with pytest.raises(kind) as fault:
        fd.evaluate(text, GIVEN)
    assert fault.value.help and fault.value.text == text
    assert fault.value.code == code


def test_a_size_may_be_an_argument():
    found = fd.kernel("scatter_add(n, i, v)")(n=3, i=np.array([0, 2, 2]), v=np.float32([1, 2, 3]))
    np.testing.assert_array_equal(found, np.float32([1, 0, 5]))


def test_counts_name_themselves():
    with pytest.raises(ShapeError, match="cannot apply bincount"):
        fd.evaluate("bincount(i, 3, w)", i=np.array([0, 1]), w=np.ones(3))


def test_scatters_of_no_elements_and_into_none():
    nothing = np.zeros(0, np.int64)
    np.testing.assert_array_equal(fd.evaluate("bincount(i, 3)", i=nothing), [0, 0, 0])
    np.testing.assert_array_equal(fd.evaluate("scatter_add(x, i, 1)", x=np.ones(2), i=nothing), [1, 1])
    assert fd.evaluate("scatter_add(x, i, 1)", x=np.ones(0), i=np.array([0, 1])).shape == (0,)


EMULATED = [text for k, text in enumerate(TEXTS) if k in (0, 1, 3, 8, 9, 12)]


@pytest.mark.parametrize("cc", [(9, 0), pytest.param((8, 0), marks=pytest.mark.slow)], ids=["sm90", "sm80"])
def test_atomics_give_the_same_in_any_order(cc):
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu
    from test_targets import check

    results = []
    for seed in (0, 1):
        with emulated_gpu(cc=cc, seed=seed) as gpu:
            for text in EMULATED if cc == (9, 0) else TEXTS:
                check(text, read(text), gpu.asarray)
            given = {name: gpu.asarray(x) for name, x in read(TEXTS[0]).items()}
            results.append(fd.kernel(TEXTS[0])(**given).get())
            launches = len(gpu.launches)
            unordered = fd.kernel(TEXTS[0], deterministic=False)(**given).get()
            assert len(gpu.launches) == launches + 3  # the array, its sums, the result
            np.testing.assert_allclose(unordered, results[-1], rtol=1e-5, atol=1e-5)
    assert results[0].tobytes() == results[1].tobytes()


def test_the_interpreter_knows_them():
    result = interpreted("bincount(i, 9)", i=GIVEN["i"] % 9)
    np.testing.assert_array_equal(result, np.bincount(GIVEN["i"] % 9, minlength=9))


def test_sums_have_derivatives():
    x, w, i = GIVEN["y"], GIVEN["w"], GIVEN["i"]
    by_x, by_w = fd.evaluate("grad(sum(scatter_add(x, i, w) ** 2), x, w)", x=x, w=w, i=i)
    total = x.copy()
    np.add.at(total, i, w)
    np.testing.assert_allclose(by_x, 2 * total, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(by_w, 2 * total[i], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "log2(histogram(a @ b, 5, range=(-2, 2))[0])",
        "bincount(int32(abs(a @ b)), 5) * 2.0",
        "c = dot(a, b); t = scatter_add(zeros(4), int64(abs(c)) % 4, c); t * 2, t[::2], c",
        "c = w @ y.T; scatter_max(x, i, c[:, 0]) + 1",
    ],
)
def test_what_is_scattered_of_a_product_is_no_part_of_its_epilogue(text):
    given = GIVEN | {"a": RANDOM.standard_normal(3), "b": RANDOM.standard_normal((3, 17))}
    kernel = fd.kernel(text, fallback=False)
    found = kernel(*(given[name] for name in kernel.params))
    right = interpreted(text, **{name: given[name] for name in kernel.params})
    pair = (found, right) if isinstance(found, tuple) else ((found,), (right,))
    for made, known in zip(*pair, strict=True):
        np.testing.assert_allclose(made, known, rtol=1e-5, atol=1e-5)


OWN = ("cumsum(x)", "sort(x)", "swapaxes(cumsum(reshape(x, (1, -1)), 1), 0, 1)[:, 0]", "y = x[:, None] * x; sum(y, 0)")


@pytest.mark.parametrize("base", [*OWN, "exp2(exp(sin(x) * 2) * 2 + tanh(x))"])
def test_values_that_are_merged_into_their_own_array_are_read_from_another_one(base):
    """A scatter read the values that it merges from the array that it merges into."""
    before, t = base.rpartition("; ")[::2]
    x = RANDOM.standard_normal(40)
    for text in ("scatter(t, arange(40) * 3 % 40, t * 2)", "scatter_add(t, arange(40) // 3, t), t + 1"):
        whole = f"{before}\nt = {t}\n{text}"
        found, right = fd.kernel(whole, fallback=False)(x), interpreted(whole, x=x)
        for made, known in zip(*[(r if isinstance(r, tuple) else (r,)) for r in (found, right)], strict=True):
            np.testing.assert_allclose(made, known, rtol=1e-9)
