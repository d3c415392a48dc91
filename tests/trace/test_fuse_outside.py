"""State outside of a traced function: reads are never stale, and writes are done or refused."""

from __future__ import annotations

import argparse
import collections
import copy
import dataclasses
import functools
import pickle
import random
import types
from collections import namedtuple

import numpy as np
import pytest

import fusedsl as fd

ONE = np.ones(2)
LEVEL = 1.0
WEIGHTS = {"w": np.ones(2), "deep": [np.ones(2), 3.0]}
GENERATOR = np.random.default_rng(0)
Pair = namedtuple("Pair", "low high")
COUNT = 0
GAIN = np.full(3, 2.0)


class Model:
    factor = 2.0
    table = np.ones(2)

    def __init__(self):
        self.w = np.ones(2)
        self.parts = [np.ones(2)]
        self.calls = 0

    def _norm(self, x):
        return x * LEVEL + np.zeros(x.shape[0]) * self.factor

    @property
    def doubled(self):
        return self.w * 2

    @fd.fuse
    def __call__(self, x):
        self.calls += 1
        return self._norm(x) + self.doubled + self.parts[0] * 10 + self.table * 100 + self.factor * 1000

    @fd.fuse
    def keep(self, x):
        self.w = x * 2

    @fd.fuse
    def step(self, g):
        self.w -= 0.5 * g


def test_arrays_and_numbers_of_an_object_are_read_at_each_call(monkeypatch):
    model = Model()
    assert model(ONE).tolist() == [2113] * 2
    model.w += 1
    model.parts[0] += 1
    assert model(ONE).tolist() == [2125] * 2
    model.w, model.parts[0] = np.zeros(2), np.zeros(2)
    assert model(ONE).tolist() == [2101] * 2
    Model.table += 1
    assert model(ONE).tolist() == [2201] * 2
    Model.table -= 1
    monkeypatch.setattr(Model, "factor", 1.0)
    assert model(ONE).tolist() == [1101] * 2
    monkeypatch.setitem(globals(), "LEVEL", 2.0)
    assert model(ONE).tolist() == [1102] * 2
    assert Model()(ONE).tolist() == [1114] * 2


def test_new_arrays_in_an_object_trace_nothing_anew():
    model = Model()
    model.step(ONE)
    for _ in range(3):
        model.w = np.zeros(2)
        model.step(ONE)
        assert model.w.tolist() == [-0.5] * 2
    assert sum(map(len, Model.step._traces.values())) == 1


def test_a_traced_array_does_not_stay_in_an_object_or_a_name_outside():
    kept = []
    state = {"w": np.ones(2)}
    with pytest.raises(fd.TraceError, match=r"sets \.w of a Model"):
        Model().keep(ONE)
    with pytest.raises(fd.TraceError, match="puts a traced array into kept"):
        fd.fuse(lambda x: kept.append(x * 2))(ONE)
    with pytest.raises(fd.TraceError, match="changes a dict"):
        fd.fuse(lambda x: state.update(w=x * 2))(ONE)
    with pytest.raises(fd.TraceError, match="changes a list"):
        fd.fuse(lambda x, results: results.append(x * 2))(ONE, [])


def test_plain_values_that_a_function_gives_to_names_outside_stay_there():
    seen = None

    @fd.fuse
    def f(x):
        nonlocal seen
        global COUNT
        COUNT += 1
        seen = x.shape[0] + 0
        return x + COUNT

    before = COUNT
    assert f(ONE).tolist() == [before + 2] * 2
    assert before + 1 == COUNT and int(seen) == 2


def test_arrays_in_containers_outside_are_read_at_each_call():
    f = fd.fuse(lambda x: x * (WEIGHTS["w"] * 2) + WEIGHTS["deep"][0] * WEIGHTS["deep"][1])
    assert f(ONE).tolist() == [5, 5]
    WEIGHTS["w"] += 1
    WEIGHTS["deep"][0] += 1
    assert f(ONE).tolist() == [10, 10]
    WEIGHTS["deep"] = [np.zeros(2), 1.0]
    assert f(ONE).tolist() == [4, 4]


def test_objects_outside_containers_and_slots_are_read_at_each_call():
    @dataclasses.dataclass(slots=True)
    class Layer:
        w: np.ndarray
        scale: float = 1.0

    layer = Layer(np.ones(2))
    f = fd.fuse(lambda x: x + layer.w * 2 * layer.scale)
    assert f(ONE).tolist() == [3, 3]
    layer.w += 1
    assert f(ONE).tolist() == [5, 5]
    layer.scale = 2.0
    assert f(ONE).tolist() == [9, 9]
    layer.w = np.zeros(2)
    assert f(ONE).tolist() == [1, 1]


def test_arrays_of_a_class_that_serves_as_a_namespace_are_read_at_each_call():
    class Config:
        w = np.ones(2)

    f = fd.fuse(lambda x: x + Config.w * 2 + isinstance(x, Config))
    assert f(ONE).tolist() == [3, 3]
    Config.w += 1
    assert f(ONE).tolist() == [5, 5]
    Config.w = np.zeros(2)
    assert f(ONE).tolist() == [1, 1]


@pytest.mark.parametrize("kind", [types.SimpleNamespace, argparse.Namespace])
def test_namespaces_and_dicts_of_other_classes_are_read_at_each_call(kind):
    held, names = kind(w=np.ones(2), rate=2.0), collections.OrderedDict(w=np.ones(2), steps=collections.deque([1]))
    f = fd.fuse(lambda x, h: x * h.rate + h.w * 2 + names["w"] * 10 + held.w * 2 + len(names["steps"]) + held.rate)
    assert f(ONE, held).tolist() == [19, 19] and f(ONE, held).tolist() == [19, 19]
    held.w += 1
    names["w"] += 1
    assert f(ONE, held).tolist() == [33, 33]
    held.rate, names["w"] = 3.0, np.zeros(2)
    assert f(ONE, held).tolist() == [15, 15]
    names["steps"].append(2)
    assert f(ONE, held).tolist() == [16, 16]


def levelled(x):
    return x * LEVEL


def test_functions_in_containers_are_watched_too(monkeypatch):
    table, holder = {"level": levelled}, types.SimpleNamespace(act=[levelled])
    f = fd.fuse(lambda x: table["level"](x) + holder.act[0](x))
    assert f(ONE).tolist() == [2, 2]
    monkeypatch.setitem(globals(), "LEVEL", 3.0)
    assert f(ONE).tolist() == [6, 6]


def test_functions_of_a_module_of_the_users_are_traced_and_watched():
    module = types.ModuleType("mine_for_this_test")
    text = "import numpy as np\nRATE = 2.0\nW = np.ones(2)\ndef f(x): return x * RATE + W * 2 + np.zeros(x.shape)"
    exec(text, vars(module))
    f = fd.fuse(lambda x: module.f(x) + module.W)
    assert f(ONE).tolist() == [5, 5]
    module.RATE = 3.0
    assert f(ONE).tolist() == [6, 6]
    module.W += 1
    assert f(ONE).tolist() == [9, 9]


def test_partials_bound_methods_and_functions_as_arguments():
    def scaled(x, w, by=1.0):
        return x * (w * 2) * by + np.zeros(x.shape)

    w, model = np.ones(2), Model()
    f = fd.fuse(functools.partial(scaled, w=w, by=2.0))
    method = fd.fuse(model._norm)
    applied = fd.fuse(lambda x, act: act(x) + 1)
    assert f(ONE).tolist() == [4, 4] and method(ONE).tolist() == [1, 1]
    w += 1
    assert f(ONE).tolist() == [8, 8]
    assert applied(ONE, np.negative).tolist() == [0, 0]
    assert applied(ONE, lambda x: x * np.ones(x.shape) * 3).tolist() == [4, 4]


class Scaled:
    """A class whose methods are fused."""

    def __init__(self):
        self.w = np.full(2, 3.0)

    @fd.fuse
    def times(self, x, k=2):
        """x w k"""
        return x * self.w * k

    @classmethod
    @fd.fuse
    def more(cls, x):
        return x + 1


def test_fused_methods_are_explained_saved_and_compared_as_bound_methods():
    scaled = Scaled()
    times = scaled.times
    assert times(ONE, k=1).tolist() == [3, 3] and Scaled.more(ONE).tolist() == scaled.more(ONE).tolist() == [2, 2]
    assert "def kernel" in times.source(ONE) and str(times.explain(fd.spec((2,)), device="cpu")).startswith("1 kernel")
    assert times.compile(ONE) is times and "def kernel" in scaled.more.source(ONE) and times.program(ONE)[1].keys()
    assert times.__doc__ == "x w k" and times.__name__ == "times" and "Scaled.times" in repr(times)
    assert times == scaled.times and hash(times) == hash(scaled.times) and times != Scaled().times
    assert copy.copy(times) == times and pickle.loads(pickle.dumps(times))(ONE).tolist() == [6, 6]
    assert [y.tolist() for y in fd.foreach(times, [ONE, ONE + 1], k=1)] == [[3, 3], [6, 6]]
    with pytest.raises(fd.ArgumentError, match="has no form"):
        times.save("x.fused", ONE, cc="cpu")
    with pytest.raises(AttributeError, match="nothing"):
        times.nothing  # noqa: B018


def test_named_tuples_of_arrays_are_arguments():
    f = fd.fuse(lambda pair: Pair(pair.low + pair.high * 2, pair.high))
    pair = Pair(np.ones(2), np.ones(2))
    assert f(pair).low.tolist() == [3, 3]
    pair.high[...] = 2
    found = f(pair)
    assert type(found) is Pair and found.low.tolist() == [5, 5] and found.high is pair.high


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x + np.random.rand(2),
        lambda x: x + np.random.default_rng().normal(size=2),
        lambda x: x + GENERATOR.normal(size=2),
        lambda x: x * random.random(),
        lambda x, rng=GENERATOR: x + rng.normal(size=2),
    ],
)
def test_random_numbers_are_refused_because_they_would_be_drawn_once(draw):
    with pytest.raises(fd.TraceError, match="random numbers"):
        fd.fuse(draw)(ONE)


def test_random_numbers_of_torch_and_modules_are_refused():
    torch = pytest.importorskip("torch")
    x, module = torch.ones(2), torch.nn.Linear(2, 2)
    for wrong in (lambda x: x + torch.rand(2), lambda x: torch.nn.functional.dropout(x)):
        with pytest.raises(fd.TraceError, match="random"):
            fd.fuse(wrong)(x)
    for wrong in (lambda x: module(x), lambda x, m=module: m(x)):
        with pytest.raises(fd.Unsupported, match=r"nn\.Module"):
            fd.fuse(wrong)(x)
    holder = types.SimpleNamespace(module=module, w=torch.ones(2))
    assert fd.fuse(lambda x, h: x + h.w)(x, holder).tolist() == [2, 2]


def test_a_kernel_called_in_a_traced_function_joins_its_kernels():
    kernel = fd.kernel("t = a * 2; return t + b, t")
    f = fd.fuse(lambda x: kernel(x, b=x + 1)[0] * fd.evaluate("c + 1", c=x), max_kernels=1)
    assert f(np.full(2, 3.0)).tolist() == [40, 40]
    with pytest.raises(fd.ShapeError, match="cannot add"):
        fd.fuse(lambda x: kernel(x, np.ones(3)))(ONE)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_arguments_that_are_no_plain_arrays():
    """A flag alone, torch's shapes (tuples that are made of integers only), and an array that tells no shape."""
    torch = pytest.importorskip("torch")
    assert fd.fuse(lambda x: x + 1)(True) == 2
    made = fd.fuse(lambda x, shape: x.reshape(shape) * 2)(torch.arange(6.0), torch.Size([2, 3]))
    assert made.tolist() == [[0, 2, 4], [6, 8, 10]]
    with pytest.raises(fd.ArgumentError, match="cannot be read"):
        fd.fuse(lambda x: x + 1)(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))


def test_a_trace_that_fails_leaves_what_is_outside_as_it_was():
    seen, scale = [], {"by": 2.0}

    @fd.fuse
    def keep(x, by=None):
        if by is not None:
            scale["by"] = by
        seen.append(x * 2)
        return x * scale["by"]

    with pytest.raises(fd.TraceError, match="seen, which outlives it"):
        keep(ONE, 3.0)
    assert seen == [] and scale == {"by": 3.0}


def test_a_number_that_a_function_keeps_is_pythons():
    scale = [2.0]

    @fd.fuse
    def scaled(x, by):
        scale[0] = by
        return x * scale[0]

    assert scaled(ONE, 3.0).tolist() == [3, 3] and scale == [3.0] and type(scale[0]) is float


def test_a_question_that_the_function_caught_is_refused():
    @fd.fuse
    def guarded(x):
        try:
            return x + int(x[0])
        except TypeError:
            return x

    with pytest.raises(fd.TraceError, match="needs an int of an array"):
        guarded(ONE)

    @fd.fuse
    def scaled(x, s):
        try:
            s = float(s)
        except TypeError:  # as of every array of several elements
            s = s + 1
        return x * s

    assert scaled(ONE, ONE).tolist() == [2, 2] and scaled(ONE, 3).tolist() == [3, 3]


def test_types_and_comparisons_are_those_outside():
    @fd.fuse
    def asked(x, s):
        kinds = [type(v).__name__ for v in (x, s, "")]
        return (kinds, type(x) is np.ndarray, isinstance(int, type), s < 3, x.shape[0] == 2, 1 < s < 5)

    for s in (2, 2.5):
        found = asked(ONE, s)
        assert found == (["ndarray", type(s).__name__, "str"], True, True, True, True, True)
        assert [type(v) for v in found[3:]] == [bool] * 3


def test_what_is_read_only_is_not_written():
    @fd.fuse
    def grow(x):
        x += 1

    fixed = np.ones(2)
    fixed.flags.writeable = False
    with pytest.raises(fd.ArgumentError, match="writes to x, which is read-only"):
        grow(fixed)
    with pytest.raises(fd.DTypeError, match="no complex numbers"):
        fd.fuse(lambda x: x * 1j)(ONE)


@pytest.mark.parametrize("library", ("numpy", "torch"))
def test_names_of_attributes_are_no_names_outside(library, monkeypatch):
    """`.T` of an array is not the global T, whatever that is, and its change traces nothing anew."""
    module = pytest.importorskip(library)
    x = module.ones((2, 3))
    monkeypatch.setitem(globals(), "T", pytest.importorskip("torch").ones(5) if library == "numpy" else np.ones(5))
    turned = fd.fuse(lambda a: a.T + 1)
    assert turned(x).shape == (3, 2)
    monkeypatch.setitem(globals(), "T", 7)
    assert turned(x).shape == (3, 2) and sum(map(len, turned._traces.values())) == 1
    assert fd.fuse(lambda a: module.einsum("ij,kj,kl->il", a, a, a))(x).tolist() == [[6] * 3] * 2


def test_arrays_outside_have_the_names_by_which_the_function_reads_them():
    bias = np.ones(3)
    f = fd.fuse(lambda x: x * GAIN + bias + Model.table[0] + np.array([1, 2, 3]))
    listed = [line.split()[0] for line in f.explain(np.ones((2, 3)), compile=False).arguments]
    assert listed == ["x", "GAIN", "bias", "table", "captured_0"]
    assert fd.fuse(lambda bias: bias + GAIN[:1])(bias).tolist() == [3, 3, 3]
    torch = pytest.importorskip("torch")
    with pytest.raises(fd.DeviceError, match="t is a torch tensor on the CPU and GAIN is a NumPy array"):
        fd.fuse(lambda t: t * GAIN)(torch.ones(3))
