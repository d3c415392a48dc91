"""Split-KV decoding: warps share the keys of few rows, and their partial states are combined in a fixed order."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.backends.cuda.attention import split_kv_schedule
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu
from test_cuda_attention import BRAIN, agrees

RANDOM = np.random.default_rng(23)
CACHED = "j <= i + size(k, -2) - size(q, -2)"
# text, (rows, heads, heads of k and v), dtype
CASES = {
    "one row, shared heads": ("attention(q, k, v)", (1, 4, 1), np.float16),
    "lengths": ("attention(q, k, v, lengths=lengths, return_lse=True)", (1, 4, 2), BRAIN),
    "several rows, causal over a cache": (f"attention(q, k, v, mask='{CACHED}')", (5, 2, 1), BRAIN),
    "heads without others": ("attention(q, k, v, score='where(j < 300, score, -inf)')", (1, 2, 2), BRAIN),
    "many heads on one": ("attention(q, k, v, scale=0.3)", (1, 20, 1), np.float16),
    "rows of all heads of a group": (
        f"attention(q, k, v, mask='{CACHED}', return_lse=True)",
        (5, 8, 2),
        BRAIN,
    ),
    "eight warps of rows of all heads of a group": (
        f"attention(q, k, v, mask='{CACHED}', return_lse=True)",
        (30, 8, 2),
        BRAIN,
    ),
    "a score of its own for each head": (
        "attention(q, k, v, score='score + (h + 1) * 0.01 * (j - i)', mask='j - i < 300')",
        (3, 6, 2),
        np.float16,
    ),
    "a limit of each head": ("attention(q, k, v, mask='(j >= i) & (j < limit[h])', limit=limit)", (3, 4, 2), BRAIN),
    "documents": ("attention(q, k, v, mask='doc[i] + 1 >= doc[j]', doc=doc)", (2, 2, 2), BRAIN),
    "no state but sums": ("sigmoid(q @ k.mT * 0.2 - 1) @ v", (2, 2, 2), BRAIN),
    "softcap": ("softmax(5 * tanh(q @ k.mT / 5)) @ v", (3, 2, 2), np.float16),
}


def arrays(rows, heads, shared, dtype, length=333, batch=2):
    shapes = {"q": (batch, heads, rows, 32), "k": (batch, shared, length, 32), "v": (batch, shared, length, 16)}
    found = {name: RANDOM.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    doc = np.sort(RANDOM.integers(0, 4, length)).astype(np.int32)
    found |= {"limit": RANDOM.integers(3, length, heads)}
    return found | {"r": found["v"], "lengths": np.array([length - 3, 70], np.int32), "doc": doc}


@pytest.mark.parametrize("case", CASES)
def test_parts_of_a_stream_merge_to_the_whole(case, monkeypatch):
    monkeypatch.setattr(split_kv_schedule, "num_splits", lambda items, tiles, slots: 5)
    text, sizes, dtype = CASES[case]
    given, kernel = arrays(*sizes, dtype), fd.kernel(text, fallback=False)
    with emulated_gpu() as gpu:
        found = kernel(*(gpu.asarray(given[name]) for name in kernel.params))
        found = [to_host(x) for x in (found if isinstance(found, tuple) else (found,))]
        assert len(gpu.launches) == 1
    agrees(kernel, given, found)


def test_more_parts_than_one_block_merges(monkeypatch):
    monkeypatch.setattr(split_kv_schedule, "num_splits", lambda items, tiles, slots: 11)
    given, kernel = arrays(1, 2, 1, BRAIN, 64 * 10 + 3, batch=1), fd.kernel("attention(q, k, v)")
    with emulated_gpu() as gpu:
        found = to_host(kernel(*(gpu.asarray(given[name]) for name in kernel.params)))
        again = to_host(kernel(*(gpu.asarray(given[name]) for name in kernel.params)))
    agrees(kernel, given, [found])
    assert found.tobytes() == again.tobytes()


def test_parts_follow_from_how_many_blocks_there_are():
    assert split_kv_schedule.num_splits(8, 2048, 792) == 99
    assert split_kv_schedule.num_splits(100_000, 4, 792) == 1
    assert split_kv_schedule.num_splits(8, 2, 792) == 1


@pytest.mark.parametrize("cc", [80, 90])
def test_no_queries_are_no_rows(cc):
    q, k = (fd.spec(shape, "bfloat16") for shape in ((2, 4, 0, 64), (2, 2, 8, 64)))
    told = fd.kernel("attention(q, k, v)").explain(q, k, k, cc=cc, compile=False)
    assert [access.bytes for kernel in told.kernels for access in kernel.writes if access.kind == "result"] == [0]


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("length", [64, 5000])
def test_on_a_card(case, length):
    cupy = pytest.importorskip("cupy")
    text, sizes, _ = CASES[case]
    given, kernel = arrays(*sizes, np.float16, length + 70), fd.kernel(text)
    for _ in range(2):  # counters are 0 again
        found = kernel(*(cupy.asarray(given[name]) for name in kernel.params))
        agrees(kernel, given, [cupy.asnumpy(x) for x in (found if isinstance(found, tuple) else (found,))])
