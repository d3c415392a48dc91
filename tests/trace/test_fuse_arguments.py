"""Rare arguments of NumPy's and torch's functions in traced functions: options, axes, lists, integers; refusals of
both, and writes that a traced function may not do."""

from __future__ import annotations

import collections
import functools
import types

import numpy as np
import pytest
from fused import check, function_of, lines, pool, same, traced

import fusedsl as fd
from fusedsl.errors import FusedslError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

NUMPY = r"""
np.array(x, ndmin=3)
np.array([w, w], ndmin=4)
np.asarray(x, np.float64, "C")
x.astype(np.float64, casting="safe")
np.zeros_like(a8, shape=(2,))
np.full_like(b, True, shape=(2, 2))
np.diag(b[0])
np.linalg.norm(n, 1)
np.linalg.norm(n, np.inf, axis=-1)
np.linalg.norm(a8, 0, axis=0)
np.linalg.norm(u, 3, axis=1, keepdims=True)
np.linalg.matrix_norm(n, ord=1)
np.linalg.trace(t)
np.linalg.diagonal(t, offset=1)
np.nanmax(n)
np.nanmin(u, axis=0)
np.nanmax(gaps, axis=0, initial=3, where=b)
np.nanvar(gaps, where=b)
np.nanstd(gaps, 0, ddof=1)
np.nanargmax(m, axis=0)
np.average(a8, weights=w, axis=-1)
np.average(h, weights=a8 + 100, axis=0)
np.average(x, axis=0, weights=[1.0, 2.0, 3.0])
np.average(t, axis=(2, 1), weights=np.ones((4, 3)))
np.average(x, axis=0, returned=True)
np.average(x, weights=p, returned=True)
np.cumulative_sum(e, axis=0, include_initial=True)
np.cumulative_prod(n, axis=1, include_initial=True)
np.cov(x, ddof=9)
np.cov(e, rowvar=False)
np.polyval(x, 3)
np.polyval(h, 2.0)
np.spacing(u)
np.angle(x, deg=True)
np.angle(-np.abs(x) * 0.0)
np.cross(t[..., :3], t[..., 1:], axisc=0)
np.cross(t[..., :3], np.moveaxis(t[..., :3], 2, 0), axisb=0, axisc=1)
np.less(x, 1, dtype=bool)
np.isnan(gaps, dtype=bool)
np.logical_and(x, n, dtype=bool)
np.moveaxis(t, np.int64(0), -1)
np.broadcast_arrays(x, 1)
np.meshgrid(x, w)
np.meshgrid(w, x, indexing="ij", sparse=True)
np.stack([z, 1.5])
np.concatenate([x, y], dtype=np.float64)
np.ptp(x, axis=0, out=o[0])
np.nanmax(gaps, axis=0, out=o[0])
np.isposinf(x, out=b)
np.pad(x, k)
np.pad(x, ((k, 1), (0, k)))
x * k**-1
x * 2**-k + x * k**-k
x * x.shape[0]**-2
x * (x.shape[0] - 5)**-1
k**-1
def k **= -2; return x * k
[x] * k
(x,) * k
"ab" * k
np.minimum(0, 2.5) + n
def d[:, :3] @= d[:, :3]; return d
def y = x.astype(x.dtype, copy=False); y += 1; return x
def y = np.squeeze(z[None]); y += 1; return z
def y = x[0, ...]; y *= 2; return x
def y = np.nan_to_num(z, copy=False); y += 1; return z
def import copy; y = copy.copy(x); y += 1; v = copy.copy(x[0]); v += 1; return x, y
def import copy; y = copy.deepcopy(x); y[0] = 1; return x, y
"""
TORCH = r"""
x.narrow(-1, -3, 2)
x.chunk(2)
e.chunk(3)
e.split(2)
u.logit()
n * np.float64(2)
bf + np.float32(1.5)
torch.movedim(z, 0, -1)
F.glu(x)
x.hsplit(2)
torch.diagonal(t, 1, 0, 2)
def import copy; y = copy.copy(x); y += 1; return x
def import copy; y = copy.deepcopy(x); y += 1; return x
"""
BOTH_REFUSE = r"""
np.moveaxis(x, 5, 0)
np.moveaxis(x, (0, 0), (0, 1))
np.rollaxis(x, 5)
np.diagonal(x, 0, 0, 5)
np.diagonal(x, 0, 0, 0)
np.rot90(x, 1, (0, 2))
np.split(x, 3, axis=9)
np.unstack(x, axis=9)
np.swapaxes(x, 0, 5)
np.gradient(x, axis=5)
np.trapezoid(x, axis=5)
np.linalg.norm(x, 1, axis=(1, 1))
np.linalg.norm(t, 1)
np.linalg.norm(z, 1)
np.cumulative_sum(x)
np.average(x, weights=w)
np.average(t, axis=0, weights=x)
x.astype(np.int8, casting="safe")
np.concatenate([x, y], dtype=np.int8)
np.add(x, 1.5, dtype=np.int32)
np.add(n, 1.5, dtype=np.int32)
np.less(x, 1, dtype=np.float32)
np.putmask(x, w > 0, 3)
x.__imatmul__(w)
"""
BOTH_REFUSE_IN_TORCH = r"""
x.movedim(5, 0)
x.narrow(5, 0, 1)
x.narrow(0, 0, 9)
x.select(5, 0)
x.flatten(5)
x.flatten(1, 0)
x.unflatten(9, (1, 1))
x.diagonal(0, 0, 9)
x.diagonal(0, 1, 1)
torch.diag(t)
torch.trace(t)
F.glu(x, 0)
F.gelu(x, approximate="tan")
x.hsplit(3)
"""
REFUSED = r"""
def x.flat = 1
def x.real = 1
def x.shape = (12,)
def x.dtype = np.int8
"""


@pytest.mark.parametrize("text", lines(NUMPY))
def test_a_line_of_numpy_means_what_it_says(text):
    check(text, {"np": np})


@pytest.mark.parametrize("text", lines(TORCH))
def test_a_line_of_torch_means_what_it_says(text):
    torch = pytest.importorskip("torch")
    check(text, {"torch": torch, "np": np, "F": torch.nn.functional}, torch)


def _refused_by(text, scope, torch=None):
    function, names = function_of(text, pool(torch), scope)
    with pytest.raises(FusedslError) as fault:
        traced(function, [pool(torch)[name] for name in names], torch)
    return fault.value, function, [pool(torch)[name] for name in names]


@pytest.mark.parametrize("text", lines(BOTH_REFUSE))
def test_what_numpy_refuses_is_refused(text):
    _, function, values = _refused_by(text, {"np": np})
    with pytest.raises((ValueError, TypeError, IndexError)):
        function(*values)


@pytest.mark.parametrize("text", lines(BOTH_REFUSE_IN_TORCH))
def test_what_torch_refuses_is_refused(text):
    torch = pytest.importorskip("torch")
    _, function, values = _refused_by(text, {"torch": torch, "F": torch.nn.functional}, torch)
    with pytest.raises((RuntimeError, IndexError)):
        function(*values)


@pytest.mark.parametrize("text", lines(REFUSED))
def test_attributes_of_arrays_are_not_set(text):
    fault, _, _ = _refused_by(text, {"np": np})
    assert fault.code == "unsupported.trace" and "setting ." in str(fault)


# -- what a function returns

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Plain:
    def __init__(self, a):
        self.a = a


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Listed(list):
    pass


@pytest.mark.parametrize(
    "function",
    [
        lambda x: collections.OrderedDict(a=x + 1, b=[x]),
        lambda x: collections.defaultdict(list, a=x + 1),
        lambda x: {"a": (x + 1, {1, 2}, len), "b": collections.Counter("aab")},
    ],
)
def test_containers_of_the_standard_library_take_arrays_along(function):
    fused = fd.fuse(function)
    for _ in range(2):
        same(fused(X), function(X))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: Plain(x + 1),
        lambda x: (Plain(x + 1), 1),
        lambda x: {"a": [Slotted(x + 1)]},
        lambda x: Listed([x + 1]),
        lambda x: {(x, 1)},
        lambda x: lambda: x + 1,
        lambda x: functools.partial(np.add, x),
        lambda x: (v for v in [x]),
        lambda x: iter([x]),
        lambda x: zip([x], [1]),
        lambda x: {"a": x}.values(),
        lambda x: types.SimpleNamespace(a=x),
        lambda x: x.sum,
    ],
)
def test_nothing_else_carries_traced_arrays_out(function):
    with pytest.raises(fd.TraceError) as fault:
        fd.fuse(function)(X)
    assert fault.value.code == "trace.result"
