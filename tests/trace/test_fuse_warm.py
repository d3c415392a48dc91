"""Warm calls of a traced function skip the general path only if that is right."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import fusedsl as fd
from fusedsl.trace.warm_call import MISSED

F4 = np.float32


def short(f, *args, **keywords):
    """Whether the next call like this one is a short one."""
    return any(known(args, keywords) is not MISSED for known in f._warm_calls)


def test_a_second_call_is_short_and_other_shapes_numbers_and_forms_are_told_apart():
    @fd.fuse
    def f(x, k, s=2.0, flag=True, name="a"):
        return (x.sum(k) if x.shape[0] > 2 else x.sum()) * s + (1 if flag else 100) + len(name)

    x, y = np.ones((3, 4), F4), np.ones((2, 4), F4)
    for _ in range(2):
        assert f(x, 0).tolist() == [8] * 4
        assert f(x, 1).tolist() == [10] * 3
        assert f(y, 0) == 18 and type(f(y, 0)) is np.float32
        assert f(x, 0, 3.0).tolist() == [11] * 4 and f(x, 0, 4.0).tolist() == [14] * 4
        assert f(x, 0, flag=False, name="ab").tolist() == [108] * 4
        assert f(x, 0, name="ab", flag=False).tolist() == [108] * 4
        assert f(x, 0, name="abc", flag=False).tolist() == [109] * 4
    assert short(f, x, 0, name="ab", flag=False) and not short(f, x, 0, name="ab", flag=True)
    assert not short(f, x.astype("f8"), 0) and not short(f, x, 0.0) and not short(f, x)


def test_a_short_call_writes_its_arguments_and_sees_that_two_of_them_are_one():
    @fd.fuse
    def f(x, y):
        x += 1
        return x + y, x

    x, y = np.zeros(3), np.zeros(3)
    for k in range(1, 4):
        found = f(x, y)
        assert found[1] is x and found[0].tolist() == [k] * 3 and x.tolist() == [k] * 3
    assert short(f, x, y) and x.tolist() == [4] * 3
    assert f(x, x)[0].tolist() == [10] * 3
    assert f(x, x[:])[0].tolist() == [12] * 3
    with pytest.raises(fd.ArgumentError, match="overlaps"):
        f(x[:2], x[1:])


def test_a_short_call_returns_what_a_long_one_does():
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0).reshape(2, 3)
    f = fd.fuse(lambda x, s: {"max": x.max(1), "n": s * 2, "none": (None, [x.shape[0], x]), "sum": x.sum()})
    long, again = f(x, 1.5), f(x, 2.5)
    assert short(f, x, 1.5)
    assert type(again["max"]) is type(long["max"]) and again["max"].indices.tolist() == [2, 2]
    assert again["n"] == 5.0 and again["none"][0] is None and again["none"][1] == [2, x]
    assert type(again["sum"]) is torch.Tensor and again["sum"].shape == ()
    assert f(x.clone().requires_grad_(), 1.5)["sum"].requires_grad


def test_traces_that_hold_no_more_are_forgotten():
    table = np.ones(2)
    f = fd.fuse(lambda x: x + table)
    f(np.ones(2))
    first = weakref.ref(table)
    for k in range(40):
        table = np.full(2, k)
        assert f(np.ones(2)).tolist() == [k + 1] * 2
    gc.collect()
    assert first() is None and sum(map(len, f._traces.values())) <= 32


class Layer:
    def __init__(self):
        self.w, self.scale, self.names = np.ones(2), 2.0, ["a"]

    @fd.fuse
    def __call__(self, x, more, *, extra):
        return x * self.w * self.scale + len(self.names) + more[0]["b"] + extra


def test_calls_with_objects_and_containers_are_short_too():
    layer, x, more = Layer(), np.ones(2), ({"b": np.ones(2)}, None)
    for k in range(1, 4):
        assert layer(x, more, extra=k).tolist() == [4 + k] * 2
    assert short(Layer.__call__, layer, x, more, extra=7)
    layer.w = np.full(2, 2.0)
    assert short(Layer.__call__, layer, x, more, extra=7) and layer(x, more, extra=0).tolist() == [6] * 2
    layer.scale = 3.0
    assert not short(Layer.__call__, layer, x, more, extra=7) and layer(x, more, extra=0).tolist() == [8] * 2
    layer.names.append("b")
    assert layer(x, more, extra=0).tolist() == [9] * 2
    more[0]["c"] = 1
    assert not short(Layer.__call__, layer, x, more, extra=7) and layer(x, more, extra=0).tolist() == [9] * 2


def test_what_torchs_functions_depend_on_beside_their_arguments_is_watched():
    torch = pytest.importorskip("torch")
    f, x = fd.fuse(lambda n: n / 2), torch.ones(2, dtype=torch.int64)
    assert f(x).dtype == f(x).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert f(x).dtype == f(x).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.autocast("cpu"), pytest.warns(RuntimeWarning, match="ran without fusion: torch.autocast"):
        assert f(x).dtype == torch.float32
