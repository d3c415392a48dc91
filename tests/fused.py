"""Expressions as functions: what a trace of one computes, beside what the function itself returns."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fusedsl.config import DEFAULT
from fusedsl.decorator import Fused
from fusedsl.ir.interp import interpret
from fusedsl.runtime.array_copies import to_host
from fusedsl.runtime.arrays import Weak, describe

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)
POOL = {
    "x": X, "y": RNG.normal(size=(3, 4)).astype(np.float32), "d": RNG.normal(size=(3, 4)),
    "h": RNG.normal(size=(3, 4)).astype(np.float16), "w": RNG.normal(size=4).astype(np.float32),
    "n": RNG.integers(1, 9, (3, 4)).astype(np.int32), "m": RNG.integers(-9, 9, (3, 4)),
    "u": RNG.integers(0, 200, (3, 4)).astype(np.uint8), "a8": RNG.integers(-90, 90, (3, 4)).astype(np.int8),
    "b": X > 0, "s": 1.5, "k": 2, "z": np.array(2.5, np.float32), "g": np.float32(2.5), "i": np.array([2, 0, 1]),
    "t": RNG.normal(size=(2, 3, 4)).astype(np.float32), "p": np.abs(X) + np.float32(0.5),
    "q": RNG.uniform(-0.9, 0.9, (3, 4)).astype(np.float32), "e": np.ones((0, 4), np.float32),
    "o": np.zeros((3, 4), np.float32), "gaps": np.where(X > 0.5, np.nan, X), "one": np.ones((1, 4, 1), np.float32),
}  # fmt: skip


def pool(torch=None):
    """Fresh arguments by name; tensors where torch is given."""
    if torch is None:
        return {name: v.copy() if hasattr(v, "copy") else v for name, v in POOL.items()}
    made = {name: torch.from_numpy(np.array(v)) if hasattr(v, "dtype") else v for name, v in POOL.items()}
    return made | {"bf": made["d"].to(torch.bfloat16)}


def function_of(text, names, scope):
    """The function of a line: an expression, or statements behind `def`."""
    used = [name for name in names if re.search(rf"(?<![\w.'\"]){name}(?![\w(=])", text)]
    if text.startswith("def "):
        body = "\n".join("    " + line.strip() for line in text[4:].split(";"))
        exec(f"def f({', '.join(used)}):\n{body}", scope)
        return scope["f"], used
    return eval(f"lambda {', '.join(used)}: {text}", scope), used


def traced(function, values, torch=None):
    """What a trace says that the function returns, on the reference interpreter; writes `values` as the function."""
    call = Fused(function, DEFAULT).prepared(values, {})
    facts = [describe(v) for v in call.values]
    plain = [a.value if isinstance(a, Weak) else to_host(a.owner) for a in facts]
    results = [np.array(r) for r in interpret(call.traced.graph, plain)]
    if torch is not None:
        results = [as_tensor(torch, r) for r in results]
    for argument, k in call.traced.writes:
        call.values[argument][...] = results[k]
    return call.rebuild(results)


def traced_graph(function, values):
    """The graph of a call, and its arguments on the host."""
    call = Fused(function, DEFAULT).prepared(list(values), {})
    facts = [describe(v) for v in call.values]
    return call.traced.graph, [a.value if isinstance(a, Weak) else to_host(a.owner) for a in facts]


def as_tensor(torch, x):
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(x)


def check(text, scope, torch=None):
    """A trace of the line returns and writes what the line itself does: types, dtypes, shapes, values."""
    function, names = function_of(text, pool(torch), dict(scope))
    mine, theirs = ([pool(torch)[name] for name in names] for _ in range(2))
    same(traced(function, mine, torch), function(*theirs))
    same(mine, theirs)


def same(found, wanted):
    """Two values are one in type, dtype, shape and, up to rounding, in value."""
    assert type(found) is type(wanted)
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted):
            same(one, other)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        same(list(found.values()), list(wanted.values()))
    elif hasattr(wanted, "dtype"):
        assert found.dtype == wanted.dtype and tuple(found.shape) == tuple(wanted.shape)
        tolerance = {2: 0.02 if "bfloat16" in str(wanted.dtype) else 4e-3}.get(wanted.dtype.itemsize, 1e-5)
        one, other = (np.asarray(v.double() if hasattr(v, "double") else v, np.float64) for v in (found, wanted))
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance / 5)
    else:
        assert found == wanted


def lines(text):
    """The cases of a table, a line each."""
    return [pytest.param(line, id=line[:60]) for line in text.strip().splitlines() if line.strip()]
