"""Whatever NumPy and torch have: a traced function computes it, or refuses it by its name and says what to do."""

from __future__ import annotations

import copy
import types

import numpy as np
import pytest
from fused import traced

import fusedsl as fd

torch = pytest.importorskip("torch")
F = torch.nn.functional
X = np.linspace(-1.9, 2.3, 12, dtype=np.float32).reshape(3, 4)
LINE, J = np.array([2, 0, 1]), np.zeros((3, 4), np.int64)
ARGUMENTS = [
    (X,), (abs(X) + 1,), (X, X), (J + 1,), (J, J), (X > 0,), (X[:3, :3],), (X[0], X[1]), (X, 0), (X, 0, LINE, X),
    (X, 0, J, X), (X[None], X[None, :, :3]), (X, 0, LINE), (X, 1, 0), (X, X, X), ([X, X],), (X, LINE), (X, 2.5),
    (X, LINE, X),
]  # fmt: skip
OUTSIDE = frozenset([  # what is of no function, or takes what nobody traces
    "from_dlpack", "frombuffer", "fromfile", "fromiter", "array2string", "array_repr", "array_str", "save", "savetxt",
    "printoptions", "get_printoptions", "compile", "is_vulkan_available", "is_storage", "classproperty", "test",
    "info", "show_config", "show_runtime", "tofile", "dump", "dumps", "savez", "savez_compressed", "seed",
    "manual_seed", "fork", "wait", "vectorize", "asarray", "tobytes", "to_dlpack", "sym_sum", "sym_not", "bmat",
    "asmatrix", "mintypecode",
])  # fmt: skip


def public(home, name):
    found = getattr(home, name, None)
    kinds = (type, types.ModuleType)
    plain = not name.startswith(("_", "set_", "has_torch")) and "autocast" not in name and name not in OUTSIDE
    return plain and callable(found) and not isinstance(found, kinds)


def told(function, values, library):
    """None if a trace of the call gives what the call does; else how it is refused."""
    try:
        with np.errstate(all="ignore"):
            wanted = function(*copy.deepcopy(values))
    except Exception:
        return None
    if wanted is None or isinstance(wanted, (str, bytes)):
        return None
    try:
        traced(function, list(copy.deepcopy(values)), *([torch] if library is torch else []))
    except fd.FusedslError as refused:
        return refused
    return None


def refusals(home, name, library):
    """What calls of a function with the few arguments above are refused by; another exception is a fault."""

    def function(*values):
        return getattr(values[0], name)(*values[1:]) if isinstance(home, type) else getattr(home, name)(*values)

    def given(value):
        if isinstance(value, list):
            return [given(part) for part in value]
        return library.from_numpy(value) if library is torch and isinstance(value, np.ndarray) else value

    found = [told(function, tuple(map(given, values)), library) for values in ARGUMENTS]
    return [refused for refused in found if refused is not None]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("home", "library"), [
    (np, np), (np.ndarray, np), (torch, torch), (F, torch), (torch.Tensor, torch), (torch.special, torch),
    (torch.linalg, torch), (np.linalg, np),
], ids=["numpy", "ndarray", "torch", "functional", "tensor", "special", "linalg", "numpy-linalg"])  # fmt: skip
def test_every_public_function_is_traced_or_refused_with_help(home, library):
    faults = []
    for name in (name for name in sorted(dir(home)) if public(home, name)):
        try:
            faults += [f"{name}: {r}" for r in refusals(home, name, library) if not r.help or not r.code]
        except Exception as error:
            faults.append(f"{name}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)


PLACES = np.array([3, 1, 1])
TENSOR = torch.from_numpy(PLACES)
SCATTERED = [
    (lambda x: np.multiply.at(x, PLACES, 2), "multiply.at"),
    (lambda x: np.put(x, PLACES, 0), "put"),
    (lambda x: np.place(x, x > 0, [1.0, 2.0]), "place"),
    (lambda x: np.bincount(x[0].astype(int)), "bincount"),
    (lambda x: np.histogram(x, [0, 1, 2]), "histogram"),
    (lambda x: np.histogram2d(x[0], x[1]), "histogram2d"),
    (lambda x: x.scatter_reduce(1, TENSOR[None], x, "prod"), "scatter_reduce"),
    (lambda x: x.index_reduce(1, TENSOR, x[:, :3], "prod"), "index_reduce"),
    (lambda x: torch.bincount(x[0].long()), "bincount"),
    (lambda x: torch.histc(x, 4), "histc"),
    (lambda x: x.masked_scatter(x > 0, x), "masked_scatter"),
    (lambda x: F.conv_transpose1d(x[None], x[None, :, :2]), "conv_transpose1d"),
    (lambda x: F.conv_transpose2d(x[None, None], x[None, None]), "conv_transpose2d"),
    (lambda x: F.fold(x[None], (2, 2), (1, 1)), "fold"),
]


@pytest.mark.parametrize(("function", "name"), SCATTERED, ids=[name for _, name in SCATTERED])
def test_scattered_writes_and_convolutions_are_refused_by_name(function, name):
    library = np.asarray if "np" in function.__code__.co_names else torch.from_numpy
    with pytest.raises(fd.Unsupported, match=rf"\b{name}\b") as refused:
        fd.fuse(function)(library(X[:, :4].copy()))
    assert any(word in refused.value.help for word in ("outside", "sum(0)", "where"))


@pytest.mark.parametrize("name", ["conv2d", "unique", "searchsorted"])
def test_texts_refuse_them_by_name(name):
    with pytest.raises(fd.FusedslError, match=name) as refused:
        fd.evaluate(f"{name}(x)", x=X)
    assert refused.value.help


def test_helps_speak_of_the_library_of_the_arguments():
    with pytest.raises(fd.FusedslError, match=r"torch\.where\(mask, x, 0\)"):
        fd.fuse(lambda x: torch.nonzero(x))(torch.ones(3))


def test_flags_that_are_off_are_not_refused():
    image = torch.arange(32.0).reshape(1, 2, 4, 4)
    off = (None, 0, np.False_)
    for flag in off:
        resized = fd.fuse(lambda x, flag=flag: F.interpolate(x, 2, antialias=flag))(image)
        assert torch.equal(resized, F.interpolate(image, 2))
        pooled = fd.fuse(lambda x, flag=flag: F.adaptive_avg_pool2d(x, 2) + F.max_pool2d(x, 2, return_indices=flag))
        assert torch.equal(pooled(image), F.adaptive_avg_pool2d(image, 2) + F.max_pool2d(image, 2))
    with pytest.raises(fd.Unsupported, match=r"antialias=1\) is not"):
        fd.fuse(lambda x: F.interpolate(x, 2, antialias=1))(image)


def test_numpys_ddof_of_selected_tensors_is_refused_at_the_selection():
    with pytest.raises(fd.FusedslError, match="x > 0"):
        fd.fuse(lambda x: x[x > 0].var(ddof=1))(torch.from_numpy(X))
