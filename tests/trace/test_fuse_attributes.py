"""Attributes that a fused method does not read do not matter to it, whatever they are."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import fusedsl as fd

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


class Layer:
    def __init__(self, **others):
        self.w = np.full(4, 2, np.float32)
        self.scale = 3
        self.__dict__.update(others)

    @fd.fuse
    def forward(self, x):
        return np.tanh(x) * self.w * self.scale

    @fd.fuse
    def reads(self, x):
        return x * self.other

    @fd.fuse
    def measures(self, x):
        return x * len(self.other)


class Broken:
    """An array that cannot be described."""

    shape, dtype = (3,), "no dtype"


def tensor():
    return pytest.importorskip("torch").ones(4)


def frame():
    return pytest.importorskip("pandas").Series([1.0, 2.0])


OTHERS = {
    "text": lambda: np.array(["a", "b"]),
    "objects": lambda: np.array([None, {}], object),
    "dates": lambda: np.zeros(3, "M8[s]"),
    "complex": lambda: np.ones(3, complex),
    "records": lambda: np.zeros(3, [("a", "f4"), ("b", "i4")]),
    "another library": tensor,
    "a series": frame,
    "many": lambda: [np.ones(3) for _ in range(100)],
    "in a dict": lambda: {"good": np.ones(3), "bad": np.array(["a"])},
    "broken": Broken,
    "a lock": threading.Lock,
    "a file": lambda: sys.__stdout__,
    "a generator": lambda: (k for k in range(3)),
    "a thread": threading.Thread,
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_attribute_that_is_not_read(name):
    layer = Layer(other=OTHERS[name]())
    for factor in (1, 2, 3):
        np.testing.assert_allclose(layer.forward(X * factor), np.tanh(X * factor) * 6, rtol=1e-6)
    layer.w = layer.w * 2
    np.testing.assert_allclose(layer.forward(X), np.tanh(X) * 12, rtol=1e-6)
    layer.other = np.ones(4, np.float32)  # now it is one that a call takes
    np.testing.assert_allclose(layer.forward(X), np.tanh(X) * 12, rtol=1e-6)
    assert len(layer.forward.explain(X).kernels) == 1


def test_calls_with_such_an_attribute_are_warm():
    layer = Layer(other=np.array(["a"]))
    for _ in range(3):
        layer.forward(X)
    warm = Layer.__dict__["forward"]._warm_calls
    assert any(call((layer, X), {}) is not None for call in warm)
    np.testing.assert_allclose(warm[0]((layer, X), {}), np.tanh(X) * 6, rtol=1e-6)


@pytest.mark.parametrize("name", ["text", "objects", "dates", "complex", "records"])
def test_an_attribute_that_is_read_says_why_it_cannot_be(name):
    layer = Layer(other=OTHERS[name]())
    with pytest.raises(fd.FusedslError, match=r"self\.other"):
        layer.reads(X)
    with pytest.raises(fd.FusedslError, match=r"self\.other"):
        layer.measures(X)
    layer.other = np.full(4, 5, np.float32)
    np.testing.assert_array_equal(layer.reads(X), X * 5)


def test_an_attribute_of_another_library_that_is_read():
    layer = Layer(other=tensor())
    with pytest.raises(fd.DeviceError, match=r"x is a NumPy array on the CPU and self\.other is a torch tensor"):
        layer.reads(X)


def test_a_series_that_is_read_runs_without_fusion():
    layer = Layer(other=frame())
    with pytest.warns(RuntimeWarning, match="without fusion"):
        found = layer.measures(X)
    np.testing.assert_array_equal(found, X * 2)


def test_an_argument_itself_is_still_checked():
    with pytest.raises(fd.DTypeError, match="x has elements"):
        Layer().forward(np.array(["a"]))
