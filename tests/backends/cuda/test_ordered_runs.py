"""Scatters whose places do not decrease: segments by offsets fold their runs in order, and store each of them once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from ptx import emulated_gpu
from test_column import figures, source

import fusedsl as fd
from fusedsl.backends.cuda.scatter import schedule
from fusedsl.runtime.array_copies import to_host

RANDOM = np.random.default_rng(17)
COUNT = 10_007


@pytest.fixture
def small_blocks(monkeypatch):
    """A block has one warp, and tiles of few elements: runs go on in many blocks, and each thread has many records."""
    monkeypatch.setattr(schedule, "THREADS", 32)
    monkeypatch.setattr(schedule, "ELEMENTS", 4)


def offsets_of(kind: str) -> np.ndarray:
    """Ends of segments: of many short ones, of some with gaps, of one that all blocks share, of empty ones."""
    match kind:
        case "short":
            return np.sort(RANDOM.integers(0, COUNT + 9, 4000))
        case "some":
            return np.sort(RANDOM.integers(7, COUNT - 5, 20).repeat(2))
        case "one":
            return np.array([5, 5, COUNT - 3, COUNT - 3])
    return np.array([4, 4, 4])


def folded(kind: str, x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """What a loop over the segments gives, in float64."""
    ends = np.clip(offsets, 0, len(x))
    parts = [x[a:b].astype(np.float64) for a, b in pairwise(ends)]
    match kind:
        case "sum":
            return np.array([part.sum() for part in parts])
        case "max":
            return np.array([part.max(initial=-np.inf) for part in parts])
    return np.array([part.min(initial=np.inf) for part in parts])


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("segments", ["short", "some", "one", "empty"])
@pytest.mark.parametrize(("fold", "dtype"), [("sum", "float32"), ("max", "float64"), ("min", "float32")])
def test_runs_that_blocks_share_are_folded_once(fold, dtype, segments):
    x, offsets, made = RANDOM.standard_normal(COUNT).astype(dtype), offsets_of(segments), []
    for seed in (0, 1):
        with emulated_gpu(seed=seed, multiprocessors=2) as gpu:
            kernel = fd.kernel(f"segment_{fold}(x, offsets=o)", fallback=False)
            made.append(to_host(kernel(gpu.asarray(x), gpu.asarray(offsets))))
    wanted = folded(fold, x, offsets)
    wanted = np.where(np.isinf(wanted), np.sign(wanted) * np.finfo(dtype).max, wanted) if fold != "sum" else wanted
    assert made[0].tobytes() == made[1].tobytes()
    full = np.diff(np.clip(offsets, 0, COUNT)) > 0
    np.testing.assert_allclose(made[0][full], wanted[full], rtol=3e-6, atol=1e-5 if fold == "sum" else 0)
    assert fold != "sum" or not made[0][~full].any()


@pytest.mark.parametrize("text", ["segment_sum(x[1:] * 2, offsets=o)", "segment_sum(int32(x * 9), offsets=o)"])
def test_unaligned_and_whole_elements(text):
    x, offsets = RANDOM.standard_normal(9001).astype(np.float32), np.sort(RANDOM.integers(0, 9000, 70))
    with emulated_gpu(multiprocessors=2) as gpu:
        made = to_host(fd.kernel(text, fallback=False)(gpu.asarray(x), gpu.asarray(offsets)))
    values = x[1:] * 2 if "x[1:]" in text else (x * 9).astype(np.int32)
    np.testing.assert_allclose(made, folded("sum", values, offsets), rtol=3e-6, atol=1e-4)


def test_infinities_and_nan_stay_in_their_segments():
    x, offsets = np.ones(500, np.float32), np.arange(0, 501, 100)
    x[[3, 110, 120, 230]] = np.inf, np.inf, -np.inf, np.nan
    with emulated_gpu() as gpu:
        made = to_host(fd.kernel("segment_sum(x, offsets=o)", fallback=False)(gpu.asarray(x), gpu.asarray(offsets)))
        most = to_host(fd.kernel("segment_max(x, offsets=o)", fallback=False)(gpu.asarray(x), gpu.asarray(offsets)))
    np.testing.assert_array_equal(made, np.float32([np.inf, np.nan, np.nan, 100, 100]))
    np.testing.assert_array_equal(most, np.float32([np.inf, np.inf, np.nan, 1, 1]))


@pytest.mark.parametrize("cc", [75, 90, 120])
def test_each_element_is_read_once_and_no_words_are_stored(cc):
    shapes = {"x": ((1 << 26,), "float32"), "o": ((1_000_001,), "int64")}
    found = figures("segment_sum(x, offsets=o)", cc, **shapes)
    assert not any(kernel.figures.spill_bytes for kernel in found)
    text = source("segment_sum(x, offsets=o)", **shapes)
    assert "an ordered scatter; each thread folds 16 elements" in text and "accumulate" not in text
