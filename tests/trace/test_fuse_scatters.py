"""Writes at computed positions, counts and histograms in traced functions do what the library does."""

from __future__ import annotations

import numpy as np
import pytest

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


def test_ufuncs_of_one_operand_are_refused_by_name():
    with pytest.raises(fd.Unsupported, match=r"negative\.at"):
        fd.fuse(lambda x: np.negative.at(x, INDEX))(X.copy())
