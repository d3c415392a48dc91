"""Derived error bounds: a graph evaluated in float64 beside how far a correct float32 target may be from it.

Every rounding adds half an ulp (a documented number of ulps for functions), and an operation passes the errors of its
operands on: the bound is the largest change of the exact result when each operand moves by its own bound.
"""

from __future__ import annotations

import itertools

import numpy as np

from fusedsl.ir.contraction import Subscripts
from fusedsl.ir.graph import Graph, Node
from fusedsl.ir.interp import ACCUMULATE, RULES, extents_of
from fusedsl.ir.ops import OPS
from fusedsl.ir.types import FLOAT32, FLOAT64, DType, numpy_dtype

EPS = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
}  # half an ulp, relative
TINY = {
    "float64": 2.0**-1074,
    "float32": 2.0**-149,
    "float16": 2.0**-24,
    "bfloat16": 2.0**-133,
    "float8_e4m3fn": 2.0**-10,
    "float8_e5m2": 2.0**-17,
}
FUNCTION_ULPS = 4.0  # the largest in CUDA's table of single-precision functions but lgamma's
EXACT = {"negative", "absolute", "sign", "maximum", "minimum", "fmax", "fmin", "where", "floor", "ceil", "trunc"}
EXACT |= {"rint", "copysign", "nextafter"}
ARITHMETIC = {"add", "subtract", "multiply", "divide", "sqrt", "fma", "fmod"}


def evaluate(graph: Graph, arguments: list) -> list[tuple[np.ndarray, np.ndarray]]:
    """(exact value, bound) of each result, stored in its dtype. Values that are not floats have bound 0."""
    extents = extents_of(arguments)
    known: dict[Node, tuple[np.ndarray, np.ndarray]] = {}
    with np.errstate(all="ignore"):
        for n in graph.nodes():
            known[n] = _node(n, [known[a] for a in n.args], arguments, extents)
        return [_rounded(*known[r], r.type.dtype) for r in graph.results]


def _node(n: Node, args, arguments, extents):
    values = [v for v, _ in args]
    compute = n.type.dtype.compute
    if n.op in OPS:
        value = np.asarray(OPS[n.op].meaning(*values))
        if value.dtype.kind != "f":
            return value, _flips(n, args, value)
        bound = _passed_on(n, args, value) + _rounding(n.op, value, compute)
        if n.op == "fma" and compute is FLOAT64:  # the exact value is not exact here: it rounds the product
            bound = bound + EPS["float64"] * np.abs(np.multiply(*values[:2]))
        return value, bound
    if n.op == "reduce":
        return _reduce(n, *args[0])
    if n.op == "contract":
        return _contract(n, args, arguments, extents)
    if n.op == "scan":
        return _scan(n, *args[0])
    if n.op == "ranked":
        return _ranked(n, *args[0], arguments, extents)
    value = _wide(np.asarray(RULES[n.op](n, values, arguments, extents)), n.type.dtype)
    if not n.args:
        return value, np.zeros(value.shape)
    bound = (
        np.asarray(RULES[n.op](n, [args[0][1], *values[1:]], arguments, extents))
        if n.op not in ("convert", "cast")
        else args[0][1]
    )
    bound = np.nan_to_num(bound)  # what a gather does not find is NaN, to the bit
    if n.op == "cast" or (n.op == "convert" and compute is FLOAT32):
        return _rounded(value, bound, n.type.dtype if n.op == "cast" else compute)
    return value, np.broadcast_to(bound, value.shape)


def _wide(x: np.ndarray, d: DType) -> np.ndarray:
    return x.astype(np.float64) if d.kind == "f" else x.astype(numpy_dtype(d))


def _rounding(op: str, value, compute: DType):
    ulps = 0.0 if op in EXACT else 0.5 if op in ARITHMETIC else 8.0 if op == "lgamma" else FUNCTION_ULPS
    ulps *= 2 if compute is FLOAT64 else 1  # the reference itself is computed in float64
    size = np.abs(np.nan_to_num(value, posinf=0, neginf=0))
    if op == "lgamma":  # its zeros are known to an absolute error only
        size = np.maximum(size, 1.0)
    return 2 * ulps * (EPS[compute.name] * size + TINY[compute.name])


def _passed_on(n: Node, args, value):
    """The largest change of the result over the corners of the operands' bounds."""
    worst = np.zeros(value.shape)
    for signs in itertools.product((-1.0, 1.0), repeat=len(args)):
        moved = [v + s * e if v.dtype.kind == "f" else v for s, (v, e) in zip(signs, args)]
        change = np.abs(np.asarray(OPS[n.op].meaning(*moved)) - value)
        worst = np.fmax(worst, np.where(np.isfinite(value), np.where(np.isnan(change), 0, change), 0))
    return worst


def _flips(n: Node, args, value):
    """A comparison of values within their bounds of one another may go either way: bound infinity."""
    if n.op in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        (a, ea), (b, eb) = args
        slack = ea + eb
        return np.where((slack > 0) & (np.abs(np.subtract(a, b, dtype=np.float64)) <= slack), np.inf, 0.0)
    bound = np.zeros(value.shape)
    for _, e in args:
        bound = bound + e
    return np.where(bound > 0, bound, 0.0)


def _reduce(n: Node, value, bound):
    fold, axes = n.attr
    empty = not value.size and fold in ("max", "min", "argmax", "argmin")
    if fold in ("sum", "prod") and n.type.dtype.kind == "f":  # in float64: one float32 after another is off by more
        total = np.asarray(getattr(np, fold)(value, axis=axes, keepdims=True))
    else:
        total = np.zeros(_kept(value, axes)) if empty else np.asarray(RULES["reduce"](n, [value], None, None))
    if n.type.dtype.kind != "f":
        return total, np.max(bound, axis=axes, keepdims=True, initial=0.0)
    eps = EPS[n.type.dtype.compute.name]
    count = max(1, int(np.prod([value.shape[a] for a in axes])))
    if fold == "sum":
        size = np.sum(np.abs(value), axis=axes, keepdims=True)
        return total, np.sum(bound, axis=axes, keepdims=True) + (8 + 64 + np.log2(count)) * eps * size
    if fold == "prod":
        with np.errstate(all="ignore"):
            relative = np.where(value != 0, bound / np.abs(value), 0)
        return total, np.abs(total) * (np.sum(relative, axis=axes, keepdims=True) + count * eps) * 1.1 + 1e-300
    return total, np.max(bound, axis=axes, keepdims=True, initial=0.0)


def _contract(n: Node, args, arguments, extents):
    """Sums of products: a few hundred one after another, then those of blocks."""
    (x, ex), (y, ey) = args
    if n.type.dtype.kind != "f":
        return np.asarray(RULES["contract"](n, [x, y], arguments, extents)), np.zeros(())
    value, size, most = (
        np.einsum(n.attr, a, b) for a, b in ((x, y), (np.abs(x), np.abs(y)), (np.abs(x) + ex, np.abs(y) + ey))
    )
    letters = Subscripts.parse(n.attr)
    count = max(1, int(np.prod([x.shape[letters.left.index(c)] for c in letters.summed])))
    serial = min(count, 256) + count // 256 + 8
    return value, most - size + 2 * serial * EPS[n.type.dtype.compute.name] * size


def _scan(n: Node, value, bound):
    """Prefixes: a few hundred additions one after another, then the tree of what they give."""
    fold, axis = n.attr
    accumulate = ACCUMULATE[fold].accumulate
    if n.type.dtype.kind != "f":
        return accumulate(value, axis=axis, dtype=numpy_dtype(n.type.dtype)), np.maximum.accumulate(bound, axis=axis)
    total, eps = accumulate(value, axis=axis), EPS[n.type.dtype.compute.name]
    if fold == "sum":
        serial = min(value.shape[axis], 4096 + value.shape[axis] // 2048)
        size = np.add.accumulate(np.abs(value), axis=axis)
        return total, np.add.accumulate(bound, axis=axis) + 2 * serial * eps * size
    if fold == "prod":
        count = np.arange(1, value.shape[axis] + 1).reshape([-1 if a == axis else 1 for a in range(value.ndim)])
        relative = np.add.accumulate(np.where(value != 0, bound / np.abs(value), 0), axis=axis)
        return total, np.abs(total) * (relative + 2 * count * eps) * 1.1 + 1e-300
    return total, np.maximum.accumulate(bound, axis=axis)


def _ranked(n: Node, value, bound, arguments, extents):
    """Elements within their bounds of one another may change places."""
    found = np.asarray(RULES["ranked"](n, [value], arguments, extents))
    if not bound.any():
        return found, np.zeros(found.shape)
    if n.attr[0] == "values":
        return found, np.broadcast_to(np.max(bound, axis=-1, keepdims=True, initial=0.0), found.shape)
    ordered, slack = np.sort(value, axis=-1), np.max(bound, axis=-1, keepdims=True)
    near = (np.diff(ordered, axis=-1) <= 2 * slack).any(axis=-1, keepdims=True)
    return found, np.broadcast_to(np.where(near, np.inf, 0.0), found.shape)


def _kept(value, axes):
    return tuple(1 if a in axes else d for a, d in enumerate(value.shape))


def _rounded(value, bound, d: DType):
    if d.kind != "f" or d is FLOAT64:
        return value, np.broadcast_to(bound, value.shape)
    return value, bound + 2 * (EPS[d.name] * np.abs(np.nan_to_num(value, posinf=0, neginf=0)) + TINY[d.name])
