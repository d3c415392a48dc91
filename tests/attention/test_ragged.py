"""Ragged attention: consecutive sequences in one kernel; tokens outside of all sequences have weight 0."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

pytest.importorskip("numba_cuda")
from ptx import emulated_gpu

BRAIN = ml_dtypes.bfloat16
RANDOM = np.random.default_rng(5)
CASES = {  # name: (options, offsets of queries, offsets of keys, lengths)
    "whole": ("", (0, 30, 100), (0, 90, 150), None),
    "causal": ("mask='j <= i', ", (0, 0, 7, 7, 100), (0, 3, 3, 60, 150), None),
    "slopes, lengths": ("score='score + slope[h] * (j - i)', slope=slope, ", (0, 30, 100), (0, 90, 150), (50, 60)),
    "tokens before, between and behind": ("mask='j <= i', ", (5, 10, 80), (3, 40, 120), None),
    "no sequence": ("", (0,), (0,), None),
}


def given(case, dtype):
    """(the text, its arrays by name)"""
    options, queries, keys, lengths = CASES[case]
    found = {"q": (100, 4, 32), "k": (150, 2, 32), "v": (150, 2, 16)}
    arrays = {name: RANDOM.standard_normal(shape).astype(dtype) for name, shape in found.items()}
    arrays |= {"a": np.array(queries, np.int32), "b": np.array(keys, np.int64)}
    arrays["slope"] = np.array([0.1, 0.02, 0.3, 0.04], np.float32)
    if lengths is not None:
        options, arrays["lengths"] = options + "lengths=lengths, ", np.array(lengths)
    return f"attention(q, k, v, offsets=(a, b), {options}return_lse=True)", arrays


def expected(case, arrays):
    """(results, log-sum-exp) in float64, sequence by sequence."""
    options, queries, keys, lengths = CASES[case]
    q, k, v = (arrays[name].astype(np.float64) for name in "qkv")
    out, lse = np.zeros((*q.shape[:2], v.shape[2])), np.full((q.shape[1], q.shape[0]), -np.inf)
    for s, (first, last, begin, end) in enumerate(zip(queries, queries[1:], keys, keys[1:])):
        i, j = np.arange(last - first)[:, None], np.arange(end - begin)
        for h in range(q.shape[1]):
            score = q[first:last, h] @ k[begin:end, h // 2].T * 32**-0.5
            score = score + arrays["slope"][h] * (j - i) if "slope" in options else score
            keep = (j <= i if "mask" in options else j >= 0) & (j < (lengths[s] if lengths else np.inf))
            e = np.where(keep, np.exp(score), 0.0)
            total = e.sum(-1, keepdims=True)
            with np.errstate(divide="ignore"):
                lse[h, first:last] = np.log(total[:, 0])
            out[first:last, h] = e @ v[begin:end, h // 2] / np.where(total > 0, total, 1)
    return out, lse


def agrees(case, arrays, found):
    out, lse = expected(case, arrays)
    error = {BRAIN: 2.0**-8, np.float16: 2.0**-11}.get(arrays["q"].dtype.type, 2.0**-20)
    most = expected(case, arrays | {"v": np.abs(arrays["v"])})[0]
    np.testing.assert_array_less(np.abs(found[0].astype(np.float64) - out), 2.2 * error * most + 1e-5)
    np.testing.assert_allclose(found[1], lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, BRAIN])
def test_on_the_cpu(case, dtype):
    text, arrays = given(case, dtype)
    agrees(case, arrays, fd.evaluate(text, arrays))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype, cc", [(BRAIN, (9, 0)), (np.float32, (8, 0))])
def test_one_pass_on_an_emulated_gpu(case, dtype, cc):
    text, arrays = given(case, dtype)
    kernel = fd.kernel(text, fallback=False)
    with emulated_gpu(cc=cc) as gpu:
        found = kernel(*(gpu.asarray(arrays[name]) for name in kernel.params))
        assert len(gpu.launches) <= 2  # what each token has of its sequence, and the pass
        agrees(case, arrays, [to_host(x) for x in found])


def test_no_memory_of_tokens_by_tokens():
    tokens = [fd.spec((1 << 16, heads, 128), "bfloat16") for heads in (32, 8, 8)]
    kernel = fd.kernel("attention(q, k, v, offsets=(a, b), mask='j <= i')")
    told = kernel.explain(*tokens, *[fd.spec((65,), "int32")] * 2, device="cuda", compile=False)
    assert told.temporaries and all("," not in t.type for t in told.temporaries)


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_on_a_card(case, dtype):
    cupy = pytest.importorskip("cupy")
    text, arrays = given(case, np.dtype(dtype))
    kernel = fd.kernel(text, fallback=False)
    agrees(case, arrays, [cupy.asnumpy(x) for x in kernel(*(cupy.asarray(arrays[name]) for name in kernel.params))])
