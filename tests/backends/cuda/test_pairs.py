"""Pairs on CUDA: rows in the registers of threads, columns that all of them read, and what the schedule says."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_cuda_emulated import check_twice, normal

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

SQUARES = "sum((x[:, None] - y[None])**2, -1)"
FORMS = {
    "a vector": f"sum(exp(-{SQUARES}) * b, -1)",
    "a product with a matrix of few columns": f"exp(-{SQUARES}) @ c",
    "nearest": f"argmin({SQUARES}, -1)",
    "extrema": f"d = {SQUARES}; return min(d, axis=-1), max(sqrt(d), axis=-1)",
    "logsumexp": f"logsumexp(-{SQUARES}, axis=-1)",
    "spread": f"var({SQUARES}, axis=-1)",
    "absolute distances": "sum(exp(-sum(abs(x[:, None] - y[None]), -1)) * b, -1)",
    "both axes": f"sum(exp(-{SQUARES}))",
    "forces": "r = y[None] - x[:, None]; return sum(r * ((sum(r * r, -1) + 0.1)**-1.5 * b)[:, :, None], 1)",
}


def given(text, rows, columns, depth, gpu=None):
    arrays = {"x": normal(rows, depth), "y": normal(columns, depth), "b": normal(columns), "c": normal(columns, 3)}
    return {name: arrays[name] for name in fd.kernel(text).params}


@pytest.mark.parametrize("form", FORMS)
def test_pairs_agree_with_the_interpreter(form):
    text = FORMS[form]
    with emulated_gpu() as gpu:
        check_twice(gpu, text, given(text, 77, 45, 3))


def test_a_row_has_the_same_bits_among_any_others_if_they_are_to_be_batch_invariant():
    x, y, b = (np.asarray(normal(*shape)) for shape in ((70, 3), (700, 3), (700,)))
    kernel = fd.kernel(FORMS["a vector"], deterministic="batch")
    with emulated_gpu(multiprocessors=4) as gpu:
        there = [gpu.asarray(v) for v in (y, b)]
        one, some, all_rows = (to_host(kernel(gpu.asarray(x[:n].copy()), *there)) for n in (1, 5, 70))
    assert one.tobytes() == all_rows[:1].tobytes()
    assert some.tobytes() == all_rows[:5].tobytes()


@pytest.mark.parametrize(("rows", "columns", "depth"), [(1, 9, 2), (300, 5, 1), (33, 70, 17), (600, 3, 9)])
def test_pairs_of_other_extents(rows, columns, depth):
    """Few rows, vectors of rows that are there in part, several vectors of columns, long inner axes."""
    with emulated_gpu(cc=(8, 0)) as gpu:
        check_twice(gpu, FORMS["nearest"], given(FORMS["nearest"], rows, columns, depth))


def test_rows_and_columns_that_lie_apart_in_memory():
    text = FORMS["a vector"].replace("x[:", "x.T[:").replace("y[None]", "y.T[None]")
    x, y, b = normal(3, 70), normal(3, 20), normal(20)
    with emulated_gpu() as gpu:
        check_twice(gpu, text, {"x": x, "y": y, "b": b})


def test_one_kernel_reads_arrays_whose_elements_lie_at_other_distances():
    """Distances are constants of the machine code: each has a binary of its own."""
    with emulated_gpu() as gpu:
        for rows in (40, 44):
            check_twice(gpu, FORMS["a vector"], {"x": normal(3, rows).T, "y": normal(9, 3), "b": normal(9)})


def test_blocks_share_the_columns_of_few_rows_and_nothing_spills():
    specs = [fd.spec((2000, 32), "float32"), fd.spec((20_000, 32), "float32"), fd.spec((20_000,), "float32")]
    kernel = fd.kernel(FORMS["a vector"])
    told = str(kernel.explain(*specs, device="cuda", compile=False))
    assert "blocks share the columns of 512 rows, the last one finishes it" in told
    (found,) = kernel.resources(*specs, cc=90)
    assert found.figures.spill_bytes == 0


def test_costly_functions_of_a_pair_bound_the_pairs_that_a_thread_computes_at_once():
    """Each pair of an iteration is code of its own: sixteen of nine cosines took ptxas minutes."""
    costly = (
        "d = mean(cos(x[:, None] - y[None]), -1); return sum(d, -1), var(d, axis=-1), logsumexp(1 / (1 + d), axis=-1)"
    )
    for text, pairs in ((FORMS["a vector"], 16), (costly, 2)):
        shapes = {"x": (700, 9), "y": (70, 9), "b": (70,)}
        kernel = fd.kernel(text)
        source = kernel.source(*(fd.spec(shapes[name], "float32") for name in kernel.params), device="cuda", cc=90)
        tile = re.search(r"tile = Tile\(width=(\d+), vectors=(\d+)", source)
        assert int(tile[1]) * int(tile[2]) == pairs
