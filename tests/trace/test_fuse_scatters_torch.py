"""Writes at computed positions and counts in traced functions of torch do what torch does."""

from __future__ import annotations

import numpy as np
import pytest

import fusedsl as fd

torch = pytest.importorskip("torch")
RANDOM = np.random.default_rng(9)
X = RANDOM.standard_normal((6, 5)).astype(np.float32)
V = RANDOM.standard_normal((8, 5)).astype(np.float32)
INDEX = np.array([3, 1, 1, -1, 0, 3, 2, 1])
J = np.array([0, 4, 4, 2, -5, 1, 3, 0])
K = RANDOM.integers(0, 6, (4, 5))
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
