"""Paged keys and values: which elements are read, and by how many kernels."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cuda.attention import split_kv_schedule
from fusedsl.runtime import cache, compile
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu
from test_cuda_attention import BRAIN, agrees

from fusedsl.backends.cuda.compiler import numba_backend

RANDOM = np.random.default_rng(31)
PAGE, WIDTH, OUT = 16, 32, 16
ENDS = np.array([0, 33, 70, 80], np.int32)
PAGED = "attention(q, k, v, pages=p, lengths=l, return_lse=True)"


def arrays(n, dtype=BRAIN, heads=4, shared=2, numbers=5):
    """Sequences whose pages lie in any order; numbers behind their ends are those of no page."""
    batch, pages = len(ENDS), 24
    shapes = {"q": (batch, heads, n, WIDTH), "k": (pages, PAGE, shared, WIDTH), "v": (pages, PAGE, shared, OUT)}
    found = {name: RANDOM.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    p = RANDOM.permutation(pages)[: batch * numbers].reshape(batch, numbers)
    behind = np.arange(numbers) >= -(-ENDS[:, None] // PAGE)
    p = np.where(behind, [-1, 10**6, -(10**6), -1, 10**6], p).astype(np.int32)
    return found | {"p": p, "l": ENDS, "r": found["v"]}


def poisoned(given):
    """The same, where what is behind a sequence's end in its last page is NaN."""
    k, v = given["k"].copy(), given["v"].copy()
    for line, end in zip(given["p"], ENDS):
        if end % PAGE:
            k[line[end // PAGE], end % PAGE :], v[line[end // PAGE], end % PAGE :] = np.nan, np.nan
    return given | {"k": k, "v": v}


def check(kernel, given, found, sums):
    """The first sequence has no elements."""
    assert (found[0] == 0).all() and (sums[0] == -np.inf).all()
    parts = {name: x[1:] if name in "qpl" else x for name, x in given.items()}
    agrees(kernel, parts, [found[1:], sums[1:]])


def computed(kernel, given, cc):
    with emulated_gpu(cc=cc) as gpu:
        found = kernel(*(gpu.asarray(given[name]) for name in kernel.params))
        return [to_host(x) for x in found], len(gpu.launches)


@pytest.mark.parametrize(
    "dtype, cc, n, launches",
    [
        (BRAIN, (9, 0), 1, 1),
        (BRAIN, (8, 0), 3, 1),
        (np.float16, (9, 0), 20, 1),
        (np.float16, (8, 0), 80, 1),
        (np.float32, (8, 0), 20, 1),
        (BRAIN, (9, 0), 300, 2),  # stored for Hopper's kernel
        (BRAIN, (7, 5), 20, 2),  # stored, as there are no copies of whole lines
    ],
)
def test_pages_are_read_where_they_are(dtype, cc, n, launches, monkeypatch):
    monkeypatch.setattr(split_kv_schedule, "num_splits", lambda items, tiles, slots: 2)
    given, kernel = arrays(n, dtype), fd.kernel(PAGED, fallback=False)
    (found, sums), count = computed(kernel, poisoned(given), cc)
    assert count == launches
    check(kernel, given, found, sums)


@pytest.mark.parametrize("text", [PAGED, "attention(q, k, v, pages=p, return_lse=True)"])
def test_a_page_that_is_not_there_is_nan_where_it_counts(text):
    given, kernel = arrays(2), fd.kernel(text, fallback=False)
    given["p"] = RANDOM.integers(0, 24, given["p"].shape).astype(np.int32)
    given["p"][2, 1] = 24
    (found, sums), count = computed(kernel, given, (8, 0))
    assert count == 1
    assert np.isnan(found[2].astype(np.float32)).all() and np.isnan(sums[2]).all()
    rest = np.array([1, 3])
    parts = {name: x[rest] if name in "qpl" else x for name, x in given.items()}
    agrees(kernel, parts, [found[rest], sums[rest]])


GATHERED = {
    "keys of some places": "attention(q, k[:, :, at], v[:, :, at], return_lse=True)",
    "values alone": "softmax(q @ k[:, :, : size(at, 0)].mT) @ v[:, :, at], 1.0 * at",
    "other sequences": "attention(q, k[b], v[b], mask='j <= i + 60', return_lse=True)",
}


@pytest.mark.parametrize("name", GATHERED)
def test_lines_at_other_computed_places(name):
    """One array of positions, or lines that follow the stream; those not there are left out of nothing."""
    shapes = {"q": (2, 2, 3, 32), "k": (2, 2, 90, 32), "v": (2, 2, 90, 16)}
    given = {n: RANDOM.standard_normal(shape).astype(BRAIN) for n, shape in shapes.items()}
    given |= {"at": RANDOM.integers(-90, 90, 70), "b": np.array([1, -1]), "r": given["v"]}
    kernel = fd.kernel(GATHERED[name], fallback=False)
    found, _ = computed(kernel, given, (9, 0))
    agrees(kernel, given, found)


def specs(n, d=128):
    shapes = {"q": (16, 32, n, d), "k": (8192, 16, 8, d), "v": (8192, 16, 8, d)}
    given = {name: fd.spec(shape, "bfloat16") for name, shape in shapes.items()}
    return given | {"p": fd.spec((16, 512), "int32"), "l": fd.spec((16,), "int32")}


@pytest.mark.parametrize("n, cc", [(1, 75), (128, 75), (4096, 90)])
def test_what_is_stored_of_pages_has_their_dtype(n, cc):
    told = fd.kernel(PAGED).explain(**specs(n), cc=cc, compile=False)
    stored = [access.type for one in told.kernels for access in one.writes if access.kind == "temporary"]
    assert all(kind.startswith("bfloat16") for kind in stored if kind.endswith("128]"))


@pytest.mark.parametrize("n, cc", [(1, 80), (1, 90), (8, 90), (4096, 80), (4096, 120)])
def test_one_kernel_reads_pages_nothing_spills_and_numba_is_not_asked(n, cc, monkeypatch, tmp_path):
    monkeypatch.setattr(numba_backend, "lower", None)
    monkeypatch.setattr(compile, "disk", lambda: cache.Cache(tmp_path))
    (found,) = fd.kernel(PAGED).resources(**specs(n), cc=cc)
    assert found.figures.spill_bytes == 0


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 5, 40, 300])
def test_on_a_card(n):
    cupy = pytest.importorskip("cupy")
    given, kernel = arrays(n, np.float16), fd.kernel(PAGED, fallback=False)
    there = poisoned(given)
    found = kernel(*(cupy.asarray(there[name]) for name in kernel.params))
    check(kernel, given, *map(to_host, found))
