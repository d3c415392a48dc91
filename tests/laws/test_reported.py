"""What public bug reports and users found wrong is right."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from reported import PRODUCTS, SIZES, TORCH, Case, coinciding
from reported_numbers import LENGTHS, MASKS, NUMBERS, NUMBERS_TORCH, masked

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host


def named(cases):
    return [pytest.param(case, id=case.name) for case in cases]


def hold(case: Case) -> None:
    """Every result has the right shape and elements."""
    with np.errstate(all="ignore"):
        got, want = case.got(), case.want()
    assert isinstance(got, tuple) == isinstance(want, tuple)
    for one, right in zip(got, want) if isinstance(got, tuple) else [(got, want)]:
        one, right = np.asarray(one), np.asarray(right)
        assert one.shape == right.shape
        size = np.abs(right[np.isfinite(right)]).max(initial=0.0)
        np.testing.assert_allclose(one.astype(np.float64), right.astype(np.float64), 0, case.tolerance * size)


@pytest.mark.parametrize("case", named(PRODUCTS))
def test_products_of_products(case):
    hold(case)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("which", range(len(coinciding(8))), ids=[c.name for c in coinciding(8)])
def test_axes_of_one_extent_are_told_apart(which, n):
    hold(coinciding(n)[which])


@pytest.mark.parametrize("n", [40, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("which", range(len(coinciding(8))), ids=[c.name for c in coinciding(8)])
def test_axes_of_one_extent_are_told_apart_on_a_gpu(which, n):
    """The kernels that CUDA compiles, on an interpreter of PTX."""
    pytest.importorskip("numba_cuda")
    from ptx import emulated_gpu

    case = coinciding(n)[which]
    with emulated_gpu(multiprocessors=4) as gpu:
        found = fd.evaluate(case.source, {name: gpu.asarray(x) for name, x in case.arrays.items()})
        hold(replace(case, got=lambda: to_host(found)))


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16], ids=lambda d: d.__name__)
def test_a_masked_product_reads_every_row(name, dtype):
    for rows in LENGTHS if dtype is np.float32 else (65, 129, 256):
        hold(masked(name, rows, dtype))


@pytest.mark.parametrize("case", named(NUMBERS))
def test_numbers(case):
    hold(case)


@pytest.mark.parametrize("name, function, arrays", TORCH + NUMBERS_TORCH, ids=[c[0] for c in TORCH + NUMBERS_TORCH])
def test_functions_of_torch(name, function, arrays):
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(a) for a in arrays]
    hold(Case(name, lambda: fd.fuse(function)(*tensors).numpy(), lambda: function(*tensors).numpy()))


def test_verify_knows_how_far_a_function_of_products_may_be_off():
    s = np.sin(np.arange(36.0) * 7).reshape(6, 6).astype(np.float32)
    k = np.arange(-2, 4, dtype=np.int32)
    t = np.tril(s.astype(np.float64), -1)
    got = fd.evaluate("t = tril(s, k=-1); arctan2(t @ t, k)", s=s, k=k, verify=True)
    np.testing.assert_allclose(got, np.arctan2(t @ t, k), 1e-6)


GUARDED = (
    "where((i >= 0) & (i < 4), x[i], 0)",
    "where(i < 4, where(i >= 0, x[i], 0), 0)",
    "where((i < 0) | (i >= 4), 0, x[i])",
    "where(i < 4, x[maximum(i, 0)] * (i >= 0), 0)",
)


@pytest.mark.parametrize("text", GUARDED)
def test_verify_leaves_alone_what_a_guard_never_reads(text):
    x, i = np.arange(1.0, 5.0), np.array([0, 3, 9, -7])
    np.testing.assert_array_equal(fd.evaluate(text, x=x, i=i, verify=True), [1, 4, 0, 0])


SHIFTS = """
import numpy as np, fusedsl as fd
for d in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"):
    x, y = (np.arange(64) % 9).astype(d), (np.arange(64) * 7 % 100).astype(d)
    bits = np.iinfo(d).bits
    wide = [0 if k >= bits else (3 << int(k)) & (2**bits - 1) for k in y]
    divisors = [w - 2**bits if d[0] == "i" and w >> (bits - 1) else w for w in wide]
    want = np.array([a // b if b else 0 for a, b in zip(map(int, x), divisors)]).astype(d)
    got = fd.evaluate("x // (3 << y)", x=x, y=y)
    assert got.dtype == d and (got == want).all(), (d, got, want)
    z = (np.arange(64) % 3).astype(d)
    fd.evaluate("(x ** y) // (y * 2 + 1 << z * 40)", x=x, y=y, z=z)
print("right")
"""


def test_no_shift_ends_the_process():
    """In a process of its own: a division by a divisor that the optimiser takes for never 0 ends it."""
    told = subprocess.run([sys.executable, "-c", SHIFTS], capture_output=True, text=True, timeout=300)
    assert told.returncode == 0 and told.stdout.strip() == "right", told.stderr[-2000:] or told.returncode
