"""Medians, quantiles and places among sorted edges in a traced function, beside NumPy's and torch's own."""

from __future__ import annotations

import numpy as np
import pytest
from fused import check, lines

import fusedsl as fd
from fusedsl.runtime.array_copies import to_host

torch = pytest.importorskip("torch")

NUMPY = r"""
np.median(x)
np.median(x, axis=0)
np.median(t, axis=1, keepdims=True)
np.median(h, -1)
np.median(n)
np.median(gaps, axis=1)
np.median(b, keepdims=True)
np.quantile(x, 0.3)
np.quantile(x, s - 1.2, axis=0)
np.quantile(t, [0.1, 0.5, 1], axis=1)
np.quantile(x, np.float64(0.7), axis=-1, keepdims=True)
np.quantile(h, 0.25)
np.quantile(n, [0.25])
np.percentile(gaps, 30, axis=1)
np.percentile(x, (0, 75))
np.median(t, axis=(0, 2))
np.nanmedian(n)
np.nanmedian(gaps, axis=0)
np.nanquantile(gaps, [0.1, 0.5], axis=1)
np.nanpercentile(gaps, 30, keepdims=True)
np.quantile(t, 0.4, axis=(1, 2), method='hazen')
np.quantile(n, 0.4, method='lower')
np.searchsorted(np.array([-1, 0, 0.5, 0.5, 2]), x)
np.searchsorted(w.copy() * 0 + np.arange(4, dtype='f4'), x, side='right')
np.searchsorted([1, 3, 3, 5, 7, 9, 12], n, 'right')
np.sort(w).searchsorted(x)
np.searchsorted(np.sort(w), gaps)
np.searchsorted(np.arange(3), k)
np.digitize(x, [-1, 0, 1])
np.digitize(x, np.array([2.0, 0.5, 0, -1]))
np.digitize(n, [5, 3, 3], right=True)
np.digitize(n, np.arange(9), right=True)
np.nanmax(n, axis=0)
np.meshgrid(x, w)[0]
"""
TORCH = r"""
torch.median(x)
x.median(0, keepdim=True)
t.median(dim=1)
torch.median(gaps)
gaps.median(1)
n.median()
x.kthvalue(2)
torch.kthvalue(t, 1, 1, True)
torch.quantile(x, 0.3)
x.quantile(0.75, dim=0, keepdim=True)
gaps.quantile(0.5, dim=1)
torch.quantile(t, 0.5, -2)
torch.quantile(t, torch.tensor([0.1, 0.5], dtype=t.dtype), 1)
torch.quantile(x, 0.3, interpolation='higher')
torch.nanquantile(gaps, 0.3, dim=1, keepdim=True)
torch.nanmedian(gaps)
torch.searchsorted(torch.tensor([-1.0, 0, 0.5, 0.5, 2]), x)
torch.searchsorted(t.sort().values, t, right=True)
torch.searchsorted(w.sort().values, 0.25, side='right', out_int32=True)
torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]))
torch.bucketize(n, torch.arange(9), right=True)
torch.linalg.diagonal(t)
torch.as_tensor(x) + torch.as_tensor([s, 2])[1]
x.new_tensor([s, 1]) + torch.tensor(x)[:, :2]
torch.transpose_copy(t, 0, 1)
torch.split_copy(x, 2)
torch.conj_physical(x)
"""


@pytest.mark.parametrize("line", lines(NUMPY))
def test_numpys_functions_mean_what_they_mean_outside(line):
    check(line, {"np": np})


@pytest.mark.parametrize("line", lines(TORCH))
def test_torchs_functions_mean_what_they_mean_outside(line):
    check(line, {"torch": torch}, torch)


def test_a_search_in_a_long_table_is_one_kernel():
    table, values = np.sort(np.random.default_rng(0).normal(size=5000)), np.linspace(-4, 4, 1001)
    fused = fd.fuse(lambda table, x: np.searchsorted(table, x, "right") * 2 + 1)
    assert len(fused.explain(table, values).kernels) == 1
    np.testing.assert_array_equal(fused(table, values), np.searchsorted(table, values, "right") * 2 + 1)


@pytest.mark.gpu
def test_a_search_runs_on_a_gpu():
    table, values = torch.randn(5000).sort().values, torch.linspace(-4, 4, 1001)
    fused = fd.fuse(lambda table, x: (torch.searchsorted(table, x), x.quantile(0.3), x.median()))
    for found, wanted in zip(fused(table.cuda(), values.cuda()), fused.function(table, values)):
        np.testing.assert_allclose(to_host(found), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", ["median", "nanmedian", "quantile", "nanpercentile"])
def test_errors_of_empty_rows_name_the_function(name):
    levels = "" if "median" in name else ", 0.5"
    with pytest.raises(fd.ShapeError, match=f"^[^\n]* {name} of an empty array"):
        fd.evaluate(f"{name}(x{levels})", x=np.zeros((2, 0)))
