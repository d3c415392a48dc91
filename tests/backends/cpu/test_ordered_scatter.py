"""Segments by offsets on a CPU: runs are folded in blocks, with the same bits however many threads share them."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import evaluate as interpreted

import fusedsl as fd

RANDOM = np.random.default_rng(5)
ROWS = 3001
TEXTS = [
    "segment_sum(x * 2, offsets=o)",
    "segment_max(x, offsets=o)",
    "segment_min(int32(x * 9), offsets=o)",
    "segment_sum(float64(x), offsets=o)",
]


def offsets(kind: str) -> np.ndarray:
    """Offsets of segments: some empty, one of nearly all rows, some rows before and behind them, one of all rows."""
    match kind:
        case "many":
            return np.sort(RANDOM.integers(7, ROWS - 5, 300).repeat(RANDOM.integers(1, 3, 300)))
        case "long":
            return np.array([0, 3, 3, 2990, 2991, ROWS])
        case "short":
            return np.arange(0, ROWS + 1, 3)
        case "none":
            return np.array([40, 40])
    return np.array([0, ROWS])


@pytest.mark.parametrize("kind", ["many", "long", "short", "none", "all"])
@pytest.mark.parametrize("text", TEXTS)
def test_runs_are_folded_in_blocks_of_all_sizes(text, kind):
    given = {"x": RANDOM.standard_normal(ROWS).astype(np.float32), "o": offsets(kind)}
    made = fd.kernel(text, fallback=False)(**given)
    np.testing.assert_allclose(made, interpreted(text, **given), rtol=1e-5, atol=1e-5)


def test_nan_and_infinities_stay_in_their_segments():
    x = np.ones(200, np.float32)
    x[[3, 60, 61, 120]] = np.inf, np.inf, -np.inf, np.nan
    given = {"x": x, "o": np.arange(0, 201, 50)}
    for text in ("segment_sum(x, offsets=o)", "segment_max(x, offsets=o)"):
        np.testing.assert_array_equal(fd.kernel(text)(**given), interpreted(text, **given))


@pytest.mark.parametrize("kind", ["many", "long", "short", "all"])
def test_bits_do_not_depend_on_the_units(kind, monkeypatch):
    from fusedsl.backends.cpu import schedule

    monkeypatch.setattr(schedule, "THREAD_SECONDS", 1e-9)
    given = {"x": RANDOM.standard_normal(ROWS).astype(np.float32), "o": offsets(kind)}
    made = []
    for most in (1, 2, 8, 32):
        monkeypatch.setattr(schedule, "MOST_RUN_UNITS", most)
        monkeypatch.setattr(schedule, "num_threads", lambda: 64)
        kernel = fd.kernel("segment_sum(x + 1, offsets=o)", fallback=False)
        source = kernel.source(**given)
        assert f"ordered scatter, {most} units" in source
        made.append(kernel(**given).tobytes())
    assert len(set(made)) == 1
