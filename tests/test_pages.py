"""Keys and values in pages: what is read of them, and by how many kernels."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime.copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu
from test_attend import BRAIN, agrees

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


def computed(kernel, given, cc):
    with emulated_gpu(cc=cc) as gpu:
        found = kernel(*(gpu.asarray(given[name]) for name in kernel.params))
        return [to_host(x) for x in found], len(gpu.launches)


@pytest.mark.parametrize("dtype, cc, n", [(BRAIN, (9, 0), 80), (np.float16, (8, 0), 20), (BRAIN, (7, 5), 20)])
def test_pages_are_read_where_they_are(dtype, cc, n):
    given, kernel = arrays(n, dtype), fd.kernel(PAGED, fallback=False)
    (found, sums), _ = computed(kernel, poisoned(given), cc)
    assert (found[0] == 0).all() and (sums[0] == -np.inf).all()
    parts = {name: x[1:] if name in "qpl" else x for name, x in given.items()}
    agrees(kernel, parts, [found[1:], sums[1:]])


def specs(n, d=128):
    shapes = {"q": (16, 32, n, d), "k": (8192, 16, 8, d), "v": (8192, 16, 8, d)}
    given = {name: fd.spec(shape, "bfloat16") for name, shape in shapes.items()}
    return given | {"p": fd.spec((16, 512), "int32"), "l": fd.spec((16,), "int32")}


@pytest.mark.parametrize("n", [1, 128])
@pytest.mark.parametrize("cc", [75, 90])
def test_what_is_stored_of_pages_has_their_dtype(n, cc):
    told = fd.kernel(PAGED).explain(**specs(n), cc=cc, compile=False)
    stored = [access.type for one in told.kernels for access in one.writes if access.kind == "temporary"]
    assert all(kind.startswith("bfloat16") for kind in stored if kind.endswith("128]"))
