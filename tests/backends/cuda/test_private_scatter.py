"""Scatters to few places: blocks merge into bins of their own in shared memory, with the bits of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import evaluate as interpreted
from ptx import emulated_gpu
from test_column import figures, source

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

RANDOM = np.random.default_rng(7)
COUNT = 9000
PLACES = RANDOM.integers(-3, 40, COUNT).astype(np.int32)
TEXTS = {
    "bincount(i, 37)": "int32",
    "scatter_add(40, i % 40, v)": "int64",
    "scatter_add(40, i % 40, v)|": "uint64",
    "scatter_add(40, i % 40, v * 3)": "int32",
    "scatter_max(40, i % 40, v), scatter_min(40, i % 40, v)": "int8",
    "scatter_max(40, i % 40, v), scatter_min(40, i % 40, v + 0)": "float32",
    "scatter_max(40, i % 40, v)": "uint16",
    "scatter_add(40, i % 40, v)  ": "float32",
    "histogram(v, 21, range=(-9, 9))[0]": "float32",
}


def values(name: str) -> np.ndarray:
    d = np.dtype(name)
    if d.kind == "f":
        x = np.round(RANDOM.standard_normal(COUNT) * 4).astype(d) / 2
        x[RANDOM.random(COUNT) < 0.05] = -0.0
        x[7], x[90] = np.inf, -np.inf
        return x
    facts = np.iinfo(d)
    return RANDOM.integers(facts.min // 2, facts.max, COUNT, d)


@pytest.mark.parametrize("text", TEXTS)
def test_bins_of_blocks_hold_what_the_interpreter_says(text):
    v, source = values(TEXTS[text]), text.strip(" |")
    with emulated_gpu(multiprocessors=2) as gpu:
        kernel = fd.kernel(source, fallback=False)
        given = {n: {"i": PLACES, "v": v}[n] for n in kernel.params}
        made = kernel(**{n: gpu.asarray(x) for n, x in given.items()})
        made = [to_host(x) for x in (made if isinstance(made, tuple) else (made,))]
    wanted = interpreted(source, **given)
    for x, y in zip(made, wanted if isinstance(wanted, (tuple, list)) else (wanted,), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("cc", [75, 80, 90, 120])
def test_counts_have_a_copy_of_each_bin_for_every_bank(cc):
    _, scatter, _ = figures("bincount(x, 256)", cc, x=((1 << 24,), "int32"))
    assert not scatter.figures.spill_bytes and scatter.figures.occupancy >= 0.75
    assert "32 × bins" in source("bincount(x, 256)", x=((1 << 24,), "int32"))


def test_many_bins_have_fewer_copies_and_too_many_have_none():
    assert "1 × bins" in source("bincount(x, 12000)", x=((1 << 24,), "int32"))
    for places, count in ((1 << 17, 1 << 24), (1 << 10, 1 << 12)):
        assert "bins" not in source(f"bincount(x, {places})", x=((count,), "int32"))
