"""Functions under `fuse` in files: what they take and give, what stays of their surroundings, what they refuse."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from lean import alone

import fusedsl as fd

SCALE = 3.0
WEIGHTS = np.ones(4, np.float32)


@fd.fuse
def norm(x, w, eps=1e-5):
    """Rows of mean 0 and variance 1."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) * w


@fd.fuse
def tree(parts, mode="sum"):
    a, (b, factor) = parts["first"], parts["rest"]
    return {"total": a + b * factor if mode == "sum" else a - b, "rows": a.shape[0], "mode": mode, "none": None}


@fd.fuse
def add_to(x, y):
    x += y
    return x


@fd.fuse
def summed(x, axis):
    return np.sum(x, axis=axis)


@fd.fuse
def by_length(x):
    return x * 2 if x.shape[0] > 10 else x * 3


def saved(tmp_path, function, *args, cc="cpu", **keywords):
    function.save(tmp_path / "f.fused", *args, cc=cc, **keywords)
    return fd.load(tmp_path / "f.fused")


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((7, 5), dtype=np.float32)


def test_a_saved_function_runs_without_compilers(tmp_path):
    norm.save(tmp_path / "f.fused", fd.spec((64, 40)), fd.spec((40,)), cc="cpu")
    code = """
import pickle
w = np.ones(40, np.float32)
for _ in range(50):
    y = kernel(x, w)
centred = x - x.mean(-1, keepdims=True)
assert np.allclose(y, centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5), 1e-4, 1e-5)
assert np.allclose(kernel(w=w, x=x[:1]), y[:1], 1e-4, 1e-5)  # in any order, and one row
assert np.allclose(pickle.loads(pickle.dumps(kernel))(x, w), y)
assert kernel.__name__ == "norm" and "mean 0" in kernel.__doc__ and "f.fused" in repr(kernel)
assert "kernel" in str(kernel.explain(x, w))
for use in (lambda: kernel(x.astype("f8"), w), lambda: kernel(x[0], w), lambda: kernel(x, w[:3]), lambda: kernel(x)):
    try:
        use()
    except fd.FusedslError as fault:
        print(fault.code)
"""
    assert alone(tmp_path, tmp_path / "f.fused", code).stdout.split() == [
        *("file.dtype", "file.shape", "shape.broadcast", "argument.missing")
    ]


def test_arguments_and_results_in_containers(tmp_path, x):
    loaded = saved(tmp_path, tree, {"first": fd.spec((3, 4)), "rest": [fd.spec((3, 4)), 2.0]})
    found = loaded({"first": x, "rest": [x, 0.5]})
    np.testing.assert_allclose(found.pop("total"), x * 1.5)
    assert found == {"rows": 7, "mode": "sum", "none": None}
    other = saved(tmp_path, tree, {"first": x, "rest": (x, 2.0)}, mode="difference")
    assert other({"first": x, "rest": (x, 1.0)}, "difference")["total"].tolist() == np.zeros_like(x).tolist()
    for use, says in (
        (lambda: loaded({"first": x, "rest": (x, 0.5)}), "parts['rest'] is a tuple of 2, and was saved as a list of 2"),
        (lambda: loaded({"first": x, "rest": [x, x]}), "parts['rest'][1] is an array, and was saved as a number"),
        (lambda: loaded({"first": 1.0, "rest": [x, 2]}), "parts['first'] is a number, and was saved as an array"),
        (lambda: loaded({"rest": [x, 0.5], "first": x}), "parts is a dict of 'rest', 'first', and was saved as a dict"),
        (lambda: other({"first": x, "rest": (x, 1.0)}, "sum"), "mode is 'sum', and was saved as 'difference'"),
    ):
        with pytest.raises(fd.ArgumentError, match=re.escape(says)) as fault:
            use()
        assert fault.value.code == "file.arguments"
    with pytest.raises(fd.ArgumentError, match="saved for calls with parts; this one has mode"):
        loaded({"first": x, "rest": [x, 0.5]}, mode="sum")
    with pytest.raises(fd.ArgumentError, match="parts is given twice"):
        loaded({"first": x, "rest": [x, 0.5]}, parts={})


def test_what_a_function_writes(tmp_path, x):
    loaded = saved(tmp_path, add_to, fd.spec((3, 4)), fd.spec((3, 4)))
    written, before = x.copy(), x.copy()
    assert loaded(written, x) is written
    np.testing.assert_array_equal(written, x + before)
    with pytest.raises(fd.ArgumentError, match="one array stands for several arguments"):
        loaded(written, written)
    written.setflags(write=False)
    with pytest.raises(fd.ArgumentError, match="read-only"):
        loaded(written, x)


def test_numbers_that_decide_are_part_of_the_signature(tmp_path, x):
    loaded = saved(tmp_path, summed, fd.spec((3, 4)), 1)
    np.testing.assert_allclose(loaded(x, 1), x.sum(1), 1e-5)
    with pytest.raises(fd.ArgumentError, match="is 0, and not 1"):
        loaded(x, 0)
    loaded = saved(tmp_path, by_length, fd.spec(20))
    np.testing.assert_array_equal(loaded(np.ones(30, np.float32)), np.full(30, 2))
    with pytest.raises(fd.ShapeError, match="takes another way"):
        loaded(np.ones(3, np.float32))
    with pytest.raises(fd.ShapeError, match=r"no kernel for float32\[1\]"):
        loaded(np.ones(1, np.float32))


def test_surroundings_stay_as_they_were(tmp_path, x, monkeypatch):
    scaled = fd.fuse(lambda x: x * SCALE)
    loaded = saved(tmp_path, scaled, fd.spec((3, 4)))
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    np.testing.assert_array_equal(loaded(x), x * np.float32(3))
    np.testing.assert_array_equal(scaled(x), x * np.float32(5))


def test_what_a_file_cannot_hold(tmp_path, x):
    class Pair:
        def __init__(self):
            self.a, self.b = np.ones(3), np.ones(3)

    for function, args, why in (
        (lambda x: x * WEIGHTS, (fd.spec((3, 4)),), r"reads arrays from outside \(WEIGHTS\)"),
        (lambda p: p.a + p.b, (Pair(),), "takes a Pair"),
        (lambda x: (x, np.add), (x,), "returns a ufunc"),
        (lambda x: {1: x}, (x,), "returns a dict"),
    ):
        with pytest.raises(fd.ArgumentError, match=why) as fault:
            fd.fuse(function).save(tmp_path / "f.fused", *args, cc="cpu")
        assert fault.value.code == "argument.saved"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(fd.Unsupported, match="was loaded from a file"):
        saved(tmp_path, norm, x, x[0]).save(tmp_path / "g.fused", x, x[0])


def test_a_function_of_torch_keeps_its_rules(tmp_path, x):
    torch = pytest.importorskip("torch")
    spread = fd.fuse(lambda x: x.var())
    tensor = torch.from_numpy(x)
    np.testing.assert_allclose(spread(x), x.var(), 1e-5)  # the same function, for arrays of two libraries
    torch.testing.assert_close(spread(tensor), tensor.var())
    np.testing.assert_allclose(spread(x), x.var(), 1e-5)
    loaded = saved(tmp_path, spread, tensor)
    torch.testing.assert_close(loaded(tensor), tensor.var())
    with pytest.raises(fd.ArgumentError, match="its arrays are numpy's, and not torch's"):
        loaded(x)


def test_a_loaded_function_in_other_places(tmp_path, x):
    loaded = saved(tmp_path, norm, fd.spec((3, 4)), fd.spec(4))
    w = np.ones(5, np.float32)
    for found, rows in zip(fd.foreach(loaded, [x[:3], x], w), (x[:3], x)):
        np.testing.assert_allclose(found, loaded(rows, w), 1e-6)
    with pytest.raises(fd.Unsupported, match="was loaded from a file"):
        fd.fuse(lambda x, w: loaded(x * 2, w))(x, w)
    assert pickle.loads(pickle.dumps(loaded))(x, w).tolist() == loaded(x, w).tolist()


def test_specs_stand_for_arrays_of_a_function():
    assert "float32[64, 40]" in str(norm.explain(fd.spec((64, 40)), fd.spec(40)))
    assert "def kernel" in norm.source(fd.spec((64, 40)), fd.spec(40), device="cpu")


def test_a_function_for_gpus_and_cpus(tmp_path, x):
    pytest.importorskip("numba_cuda")
    loaded = saved(tmp_path, norm, fd.spec((64, 40)), fd.spec((40,)), cc=[90, "cpu"])
    np.testing.assert_allclose(loaded(x, x[0]), norm(x, x[0]), 1e-5, 1e-5)
    assert loaded._saved.capabilities == ((9, 0),)
