"""Maps that read an array at several shifts read neighbours once, and what is padded is not stored for them."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import evaluate as interpreted
from ptx import emulated_gpu
from test_column import figures, source

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

RANDOM = np.random.default_rng(5)
TEXTS = ["sum(sliding_window(x, 7), -1)", "x[1:-1] - 2 * x[2:] + x[:-2]", "x[9:] * x[:-9]", "diff(x) + int8(x[1:])"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
@pytest.mark.parametrize("count", [37, 1040])
def test_every_shift_is_read(dtype, count):
    x = (RANDOM.standard_normal(count) * 9).astype(dtype)
    with emulated_gpu() as gpu:
        for text in TEXTS if dtype == "float32" else TEXTS[:1]:
            made = to_host(fd.kernel(text, fallback=False)(x=gpu.asarray(x)))
            wanted = interpreted(text, x=x)
            np.testing.assert_allclose(made, wanted, rtol=1e-2 if dtype == "float16" else 1e-6, atol=1e-4)


def test_shifts_of_words_are_read_together_and_others_apart():
    line = ((1 << 20,), "float32")
    assert 'load_shifted(tile, "float32", (0, 1, 2,' in source("mean(sliding_window(x, 16), -1)", x=line)
    assert "load_shifted" not in source("x[64:] * x[:-64]", x=line)
    assert "load_shifted" not in source("x[1:] * x[:-1]", x=((1 << 20,), "float16"))


@pytest.mark.parametrize("cc", [75, 90, 120])
def test_windows_of_sixteen_do_not_spill(cc):
    (kernel,) = figures("mean(sliding_window(x, 16), -1)", cc, x=((1 << 24,), "float32"))
    assert not kernel.figures.spill_bytes


def test_parts_of_vectors_are_aligned_and_hold_what_is_needed():
    pytest.importorskip("numba_cuda")
    from fusedsl.backends.cuda.elementwise.shifted_loads import aligned_parts

    assert list(aligned_parts(range(-1, 7), 4)) == [(-1, 1), (0, 4), (4, 2), (6, 1)]
    assert list(aligned_parts({0, 1, 2, 3, 6, 7, 9}, 4)) == [(0, 4), (6, 2), (9, 1)]


@pytest.mark.parametrize("mode", ["constant", "edge"])
def test_a_stencil_of_a_padded_array_stores_nothing_padded(mode):
    text = f'p = pad(x, 1, mode="{mode}"); p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x'
    explained = str(fd.kernel(text).explain(fd.spec((512, 512), "float32"), device="cuda"))
    assert explained.startswith("1 kernel ") and "temporary" not in explained.split("notes")[0]
    x = RANDOM.standard_normal((9, 37)).astype(np.float32)
    with emulated_gpu() as gpu:
        made = to_host(fd.kernel(text, fallback=False)(x=gpu.asarray(x)))
    p = np.pad(x, 1, mode=mode)
    np.testing.assert_allclose(made, p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x, atol=1e-5)


def test_many_reads_of_a_padded_array_store_it():
    taps = " + ".join(f"p[{i}:size(x, 0) + {i}, {j}:size(x, 1) + {j}]" for i in range(4) for j in range(4))
    explained = str(fd.kernel(f"p = pad(x, 3); {taps}").explain(fd.spec((512, 512), "float32"), device="cuda"))
    assert "it is stored, because recomputing it at 16 coordinates" in explained
