"""Writes at computed positions, counts and histograms in traced functions do what the library does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fusedsl as fd

RANDOM = np.random.default_rng(8)
X = RANDOM.standard_normal((6, 5)).astype(np.float32)
V = RANDOM.standard_normal((8, 5)).astype(np.float32)
INDEX = np.array([3, 1, 1, -1, 0, 3, 2, 1])
J = np.array([0, 4, 4, 2, -5, 1, 3, 0])
K = RANDOM.integers(0, 6, (4, 5))


def _assigned(x, v):
    x[INDEX] = v
    return x * 2


def _added(x, v):
    x[INDEX] += v
    return x


def _pairs(x, v):
    x[INDEX, J] = v[:, 0]
    x[:, J[:2]] = 7
    x[1:3, None][..., 0] = 3
    return x


def _mixed(x, v):
    x[INDEX[:3], 1:4] = v[:3, 1:4]
    return x


def _at(x, v):
    np.add.at(x, INDEX, v)
    np.maximum.at(x, (INDEX, J), v[:, 1])
    np.subtract.at(x, (slice(None), J), 1)
    np.minimum.at(x, (K % 6, J[:5]), 0.25)
    return x


def _along(x, v):
    np.put_along_axis(x, K, v[:4] * 2, 0)
    return x


def _counts(x, v):
    counts, edges = np.histogram(x, 4, (-1, 1))
    return np.bincount(INDEX % 6, minlength=6), np.bincount(J % 5, v[:, 0], 5), counts, edges


@pytest.mark.parametrize("function", [_assigned, _added, _pairs, _mixed, _at, _along, _counts])
def test_numpy_writes_are_numpys(function):
    given, ours = X.copy(), X.copy()
    expected, found = function(given, V), fd.fuse(function)(ours, V)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        assert a.dtype == b.dtype
    np.testing.assert_allclose(ours, given, rtol=1e-5, atol=1e-6)  # what is written to an argument


TI, TJ, TK = torch.from_numpy(INDEX % 6), torch.from_numpy(J % 5), torch.from_numpy(K)
TORCH = {
    "index_add_": lambda x, v: x.index_add_(0, TI, v, alpha=2),
    "index_add": lambda x, v: x.index_add(1, TI[:3], v[:6, :3]),
    "index_copy": lambda x, v: x.index_copy(0, torch.tensor([4, 0]), v[:2]),
    "index_put_": lambda x, v: x.index_put_((TI, TJ), v[:, 0], accumulate=True),
    "index_put": lambda x, v: x.index_put((torch.tensor([5, 2]),), v[:2]),
    "scatter": lambda x, v: x.scatter(0, TK[:2], 1.5),
    "scatter_": lambda x, v: x.scatter_(1, torch.tensor([[0, 3], [4, 1]]), v),
    "scatter_add": lambda x, v: x.scatter_add(0, TK, v),
    "amax": lambda x, v: x.scatter_reduce(0, TK, v, "amax"),
    "mean": lambda x, v: x.scatter_reduce(0, TK, v, "mean", include_self=False),
    "sum": lambda x, v: x.scatter_reduce(0, TK, v, "sum", include_self=False),
    "bincount": lambda x, v: (torch.bincount(TI, minlength=6), torch.bincount(TI, v[:, 0], minlength=6)),
    "subscripts": lambda x, v: x.__setitem__((slice(None), TI[:2]), v[:6, :2]) or x * 1,
}


@pytest.mark.parametrize("name", TORCH)
def test_torch_scatters_are_torchs(name):
    v, given, ours = torch.from_numpy(V), torch.from_numpy(X.copy()), torch.from_numpy(X.copy())
    expected, found = TORCH[name](given, v), fd.fuse(TORCH[name])(ours, v)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours, given, rtol=1e-5, atol=1e-6)
