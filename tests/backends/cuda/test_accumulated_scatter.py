"""Float sums at computed places by superaccumulators: right, the same bits in any order, few passes."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import evaluate as interpreted
from ptx import emulated_gpu
from test_column import figures, source

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

RANDOM = np.random.default_rng(11)
COUNT = 5003


def arrays(dtype: str) -> dict:
    v = (RANDOM.standard_normal(COUNT) * np.exp2(RANDOM.integers(-9, 9, COUNT))).astype(dtype)
    return {
        "v": v,
        "w": RANDOM.standard_normal((COUNT, 5)).astype(dtype),
        "x": RANDOM.standard_normal(70).astype(dtype),
        "i": RANDOM.integers(-60, 60, COUNT),
        "s": np.sort(RANDOM.integers(-2, 73, COUNT)).astype(np.int32),
        "o": np.zeros(COUNT, np.int64),
        "q": np.sort(RANDOM.integers(7, COUNT - 5, 60).repeat(RANDOM.integers(1, 3, 60))),
    }


TEXTS = [
    ("scatter_add(x, i, v * 2)", "float32"),
    ("segment_sum(v, ids=s, n=70)", "float32"),
    ("segment_sum(v[3:], ids=s[3:], n=70)", "float32"),
    ("segment_mean(w, ids=s, n=70)", "float32"),
    ("scatter_add(3, o, v)", "float32"),
    ("segment_sum(v, ids=s, n=70)", "float16"),
    ("scatter_add(5, i % 5, v)", "float64"),
    ("segment_sum(v, ids=s % 7, n=7)", "float64"),
    ("bincount(s, 7, w[:, 0])", "float32"),
    ("scatter_add(x[:9], i % 9, v)", "float32"),
    ("segment_sum(v, offsets=q)", "float32"),
    ("segment_mean(w, offsets=q)", "float32"),
    ("segment_max(w, offsets=int32(q))", "float64"),
    ("segment_max(v, ids=s, n=70), segment_min(v, ids=s, n=70)", "float32"),
    ("segment_max(v, ids=s, n=70), segment_sum(int32(v), ids=s, n=70)", "float64"),
]


@pytest.mark.parametrize(("text", "dtype"), TEXTS)
def test_sums_are_right_and_have_the_same_bits_in_any_order(text, dtype):
    given = arrays(dtype)
    given = {n: given[n] for n in fd.kernel(text).params}
    made = []
    for seed in (0, 1):
        with emulated_gpu(seed=seed, multiprocessors=2) as gpu:
            kernel = fd.kernel(text, fallback=False)
            found = kernel(**{n: gpu.asarray(x) for n, x in given.items()})
            made.append([to_host(x) for x in (found if isinstance(found, tuple) else (found,))])
    assert [x.tobytes() for x in made[0]] == [x.tobytes() for x in made[1]]
    wide = {n: x.astype(np.float64) if x.dtype.kind == "f" else x for n, x in given.items()}
    wanted = interpreted(text, **wide)
    for x, right in zip(made[0], wanted if isinstance(found, tuple) else (wanted,), strict=True):
        check(x, right)


def check(made: np.ndarray, wanted: np.ndarray) -> None:
    """Within the errors of its dtype."""
    bound = {"float16": 1e-3, "float32": 3e-6, "float64": 1e-14}.get(made.dtype.name, 0)
    scale = np.abs(wanted[np.isfinite(wanted)]).max()
    np.testing.assert_allclose(made, wanted, rtol=bound, atol=bound * scale)


def test_infinities_and_nan_stay_at_their_places():
    v, i = np.ones(200, np.float32), np.repeat(np.arange(4), 50)
    v[[3, 60, 61, 120]] = np.inf, np.inf, -np.inf, np.nan
    with emulated_gpu() as gpu:
        made = to_host(fd.kernel("scatter_add(5, i, v)", fallback=False)(i=gpu.asarray(i), v=gpu.asarray(v)))
    np.testing.assert_array_equal(made, np.float32([np.inf, np.nan, np.nan, 50, 0]))


def test_small_and_large_values_of_a_place_are_not_lost():
    values = np.tile(np.float32([1e30, 1e-30, -1e30, 1]), 50)
    places = np.tile([0, 1, 0, 2], 50)
    with emulated_gpu() as gpu:
        made = fd.kernel("scatter_add(3, i, v)", fallback=False)(i=gpu.asarray(places), v=gpu.asarray(values))
        np.testing.assert_allclose(to_host(made), [0, 50e-30, 50], rtol=1e-6)


@pytest.mark.parametrize("cc", [75, 80, 90, 120])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_places_have_words_in_shared_memory(cc, dtype):
    shape = (1 << 24,)
    _, kernel, _ = figures("scatter_add(256, x, w)", cc, x=(shape, "int32"), w=(shape, dtype))
    assert not kernel.figures.spill_bytes and kernel.figures.occupancy >= 0.5
    explained = source("scatter_add(256, x, w)", x=(shape, "int32"), w=(shape, dtype))
    assert "× words" in explained


@pytest.mark.parametrize("cc", [75, 80, 90, 120])
def test_words_are_cleared_added_to_and_summed(cc):
    found = figures("segment_sum(x, ids=i, n=1000000)", cc, x=((1 << 26,), "float32"), i=((1 << 26,), "int64"))
    assert len(found) == 3 and not any(kernel.figures.spill_bytes for kernel in found)
    assert found[1].figures.occupancy >= 0.75


def test_few_values_for_many_places_are_summed_in_integers_of_their_largest():
    explained = str(fd.kernel("scatter_add(x, i, v)").explain(fd.spec((1 << 20,), "float32"),
                    i=fd.spec((1 << 16,), "int64"), v=fd.spec((1 << 16,), "float32"), device="cuda"))  # fmt: skip
    assert "exact integers" not in explained


def test_sums_that_more_rows_read_are_computed_once():
    k = fd.kernel("segment_softmax(x, offsets=o)")
    explained = str(k.explain(fd.spec((1 << 20, 4), "float32"), fd.spec((1001,), "int64"), device="cuda"))
    assert "a gather reads twice the elements that it has" in explained
    assert "int32[1048576]" in explained and "int64[1048576]" not in explained  # the segment of each row


def test_rows_of_few_terms_have_wide_chunks():
    k = fd.kernel("scatter_add(x, i, v)")
    shapes = ((4096, 64), "float32"), ((1 << 16,), "int64"), ((1 << 16, 64), "float32")
    assert "int64[64, 14, 4096]" in str(k.explain(*(fd.spec(*s) for s in shapes), device="cuda"))


@pytest.mark.parametrize("columns", [64, 5])
def test_rows_of_one_place_are_merged_by_each_thread(columns):
    rows, i = RANDOM.standard_normal((300, columns)).astype(np.float32), np.sort(RANDOM.integers(-2, 23, 300))
    wanted = np.zeros((20, columns))
    np.add.at(wanted, i[(i >= 0) & (i < 20)], rows[(i >= 0) & (i < 20)].astype(np.float64))
    made = []
    for seed in (0, 1):
        with emulated_gpu(seed=seed, multiprocessors=2) as gpu:
            kernel = fd.kernel("segment_sum(x, ids=i, n=20)", fallback=False)
            made.append(to_host(kernel(x=gpu.asarray(rows), i=gpu.asarray(i))))
    assert made[0].tobytes() == made[1].tobytes()
    check(made[0], wanted.astype(np.float32))


def test_many_places_lie_in_large_groups(monkeypatch):
    from fusedsl.fusion import superaccumulated_scatters

    monkeypatch.setattr(superaccumulated_scatters, "FEW_PLACES", 16)
    given = {n: x for n, x in arrays("float32").items() if n in "vi"}
    with emulated_gpu(multiprocessors=2) as gpu:
        kernel = fd.kernel("scatter_add(90, i, v * 3)", fallback=False)
        made = to_host(kernel(**{n: gpu.asarray(x) for n, x in given.items()}))
        assert "many" in kernel.source(**{n: gpu.asarray(x) for n, x in given.items()})
    check(made, interpreted("scatter_add(90, i, v * 3)", i=given["i"], v=given["v"].astype(np.float64)))
