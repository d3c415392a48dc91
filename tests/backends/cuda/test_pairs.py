"""Pairs on CUDA: rows in the registers of threads, columns that all of them read, and what the schedule says."""

from __future__ import annotations

import pytest
from test_cuda_emulated import check_twice, normal

import fusedsl as fd

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
