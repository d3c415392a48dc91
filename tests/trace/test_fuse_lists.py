"""Functions of lists that hold arrays, which NumPy makes arrays of: traced as they mean outside."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from numpy import hypot, maximum, stack

import fusedsl as fd

A = np.sin(np.arange(12.0)).reshape(4, 3)
B = np.cos(np.arange(12.0)).reshape(4, 3)
V, W = A[:, 0].copy(), B[:, 0].copy()

FUNCTIONS = {
    # reduce of lists
    "maximum": lambda a, b, v, w: np.maximum.reduce([a, b]),
    "a tuple": lambda a, b, v, w: np.maximum.reduce((a, b, a * 2)),
    "add": lambda a, b, v, w: np.add.reduce([a, b]),
    "along another axis": lambda a, b, v, w: np.add.reduce([a, b], axis=1),
    "of all": lambda a, b, v, w: np.add.reduce([a, b], axis=None),
    "kept axes": lambda a, b, v, w: np.maximum.reduce([a, b], keepdims=True),
    "initial": lambda a, b, v, w: np.maximum.reduce([a, b], initial=0.5),
    "where": lambda a, b, v, w: np.add.reduce([a, b], where=[[True], [False], [True], [True]]),
    "dtype": lambda a, b, v, w: np.add.reduce([a, b], dtype=np.float32),
    "logical_or": lambda a, b, v, w: np.logical_or.reduce([a > 0, b > 0]),
    "logical_and": lambda a, b, v, w: np.logical_and.reduce((v > 0, w > 0, v < w)),
    "logical_xor": lambda a, b, v, w: np.logical_xor.reduce([v > 0, w > 0, v < w]),
    "fmax": lambda a, b, v, w: np.fmax.reduce([a, b]),
    "hypot": lambda a, b, v, w: hypot.reduce([a, b]),
    "subtract": lambda a, b, v, w: np.subtract.reduce([a, b, a]),
    "power": lambda a, b, v, w: np.power.reduce([abs(v), w]),
    "arctan2": lambda a, b, v, w: np.arctan2.reduce([v, w]),
    "bitwise_or": lambda a, b, v, w: np.bitwise_or.reduce([a > 0, b > 0]),
    "bitwise_xor": lambda a, b, v, w: np.bitwise_xor.reduce([(a * 10).astype(int), (b * 10).astype(int)]),
    "logaddexp": lambda a, b, v, w: np.logaddexp.reduce([a, b]),
    "imported by name": lambda a, b, v, w: maximum.reduce([v, w, v * w]),
    "functools": lambda a, b, v, w: functools.reduce(np.maximum, [v, w]),
    "accumulate": lambda a, b, v, w: np.add.accumulate([a, b]),
    "maximum.accumulate": lambda a, b, v, w: np.maximum.accumulate([a, b, a]),
    "outer": lambda a, b, v, w: np.multiply.outer([v[0], w[0]], v),
    # reduce of arrays
    "fmin of an array": lambda a, b, v, w: np.fmin.reduce(a, axis=1),
    "logaddexp of an array": lambda a, b, v, w: np.logaddexp.reduce(a, axis=1),
    "logaddexp2 of an array": lambda a, b, v, w: np.logaddexp2.reduce(a),
    "subtract of an array": lambda a, b, v, w: np.subtract.reduce(a, axis=1, keepdims=True),
    "divide of an array": lambda a, b, v, w: np.divide.reduce(a, axis=1),
    "logical_xor of an array": lambda a, b, v, w: np.logical_xor.reduce(a > 0, axis=1),
    "bitwise_and of bools": lambda a, b, v, w: np.bitwise_and.reduce(a > 0, axis=1),
    # elements beside arrays
    "diff(prepend=element)": lambda a, b, v, w: np.diff(v, prepend=v[0]),
    "diff(append=element)": lambda a, b, v, w: np.diff(v, append=v[-1]),
    "diff(both)": lambda a, b, v, w: np.diff(v, prepend=v[0], append=0),
    "diff of rows": lambda a, b, v, w: np.diff(a, axis=1, prepend=a[0, 0]),
    "diff(prepend=list)": lambda a, b, v, w: np.diff(v, prepend=[v[0]]),
    "diff(prepend=sum)": lambda a, b, v, w: np.diff(v, n=2, prepend=v.mean()),
    "append": lambda a, b, v, w: np.append(v, [v[0], 1.0]),
    "ediff1d": lambda a, b, v, w: np.ediff1d(v, to_end=[v[0], v[1]]),
    "concatenate": lambda a, b, v, w: np.concatenate(([v[0], 0.0], v, [v[-1]])),
    "hstack": lambda a, b, v, w: np.hstack([v[0], v]),
    "r_": lambda a, b, v, w: np.r_[0, v, w[-1], 1:3],
    "c_": lambda a, b, v, w: np.c_[v, w],
    "tile": lambda a, b, v, w: np.tile([v[0], v[1]], 2),
    # lists as arrays
    "maximum of a list": lambda a, b, v, w: np.maximum([v, w], 0.1),
    "add of lists": lambda a, b, v, w: np.add([v, w], [w, v]),
    "sqrt of a list": lambda a, b, v, w: np.sqrt([abs(v), abs(w)]),
    "where of a list": lambda a, b, v, w: np.where([v > 0, w > 0], 1.0, 0.0),
    "nested lists": lambda a, b, v, w: np.array([[v[0], v[1]], [w[0], 2.0]]),
    "dot of lists": lambda a, b, v, w: np.dot([v[0], w[0]], [1.0, 2.0]),
    "norm of a list": lambda a, b, v, w: np.linalg.norm([v, w], axis=0),
    "median of a list": lambda a, b, v, w: np.median([v, w], axis=0),
    "mean of a list": lambda a, b, v, w: np.mean([a, b], axis=0),
    "cumsum of a list": lambda a, b, v, w: np.cumsum([v, w], axis=0),
    "sort of a list": lambda a, b, v, w: np.sort([v, w], axis=0),
    "any of a list": lambda a, b, v, w: np.any([v > 0, w > 0], axis=0),
    "take of a list": lambda a, b, v, w: np.take([v, w], 0, axis=0),
    "atleast_2d of a list": lambda a, b, v, w: np.atleast_2d([v, w]),
    "einsum of lists": lambda a, b, v, w: np.einsum("i,i", [v[0], v[1]], [w[0], w[1]]),
    "clip by lists": lambda a, b, v, w: np.clip(v, [0, 0, 0, 0], [1, 1, 1, v.max()]),
    "isclose of a list": lambda a, b, v, w: np.isclose([v, w], v),
    "stack by name": lambda a, b, v, w: stack([v, w * 2], 1),
    "a ufunc is one": lambda a, b, v, w: v * isinstance(np.add, np.ufunc) * (np.add.nin == 2) * (np.add == np.add),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lists_of_arrays_are_arrays(name):
    function = FUNCTIONS[name]
    wanted, found = function(A, B, V, W), fd.fuse(function)(A, B, V, W)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda v: np.bitwise_and.reduce((v * 9).astype(int)), r"np.bitwise_and.reduce\(\[a, b\]\)"),
        (lambda v: np.hypot.reduce([v, v], axis=1), r"np.hypot.reduce\(\[a, b\]\)"),
        (lambda v: np.subtract.accumulate(v), "add, multiply, maximum and minimum accumulate"),
        (lambda v: np.add.reduceat(v, [0, 2]), r"reduce slices: x\[a:b\].sum\(\)"),
        (lambda v: np.r_["0,2", v], "write np.concatenate or np.stack"),
    ],
)
def test_what_is_not_there_says_what_to_write(function, told):
    with pytest.raises((fd.Unsupported, fd.TraceError), match=told):
        fd.fuse(function)(V)
