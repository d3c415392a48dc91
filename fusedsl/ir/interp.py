"""The reference interpreter: a graph evaluated node by node in NumPy; the meaning, the oracle and the fallback."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from ..errors import DTypeError, ShapeError
from .checks import explain, holds, spelled
from .contraction import Subscripts
from .dims import Extents, Symbol, evaluate
from .folds import highest, lowest
from .graph import Graph, Node, value_of
from .ops import OPS
from .types import BOOL, DType, fits, numpy_dtype


def extents_of(arrays: Sequence) -> Extents:
    """Every symbol's value, from the arguments' shapes."""
    return Extents({Symbol(k, a): n for k, x in enumerate(arrays) for a, n in enumerate(np.shape(x))})


def interpret(graph: Graph, arguments: Sequence, strict: bool = False) -> list[np.ndarray]:
    """The results of the program for these arguments (arrays and Python numbers), in new arrays.

    Narrow floats are computed in float32 and rounded at casts and at the results, as on every target.
    Raises the ShapeError of the first check that the shapes break and, where `strict`, of an index out of range.
    """
    extents = extents_of(arguments)
    for check in graph.checks:
        if not holds(check, extents):
            raise explain(check, extents)
    values: dict[Node, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for n in graph.nodes():
            args = [values[a] for a in n.args]
            if strict and n.op == "gather":
                check_indices(n, args)
            values[n] = evaluate_node(n, args, arguments, extents)
        return [store(values[r], r.type.dtype) for r in graph.results]


def store(value: np.ndarray, d: DType) -> np.ndarray:
    """A computed value as an array of dtype `d`, in memory of its own."""
    return np.array(value, dtype=numpy_dtype(d))


def evaluate_node(n: Node, args: list[np.ndarray], arguments: Sequence, extents: Mapping[Symbol, int]) -> np.ndarray:
    """One node, given its arguments' values in their compute dtypes."""
    if n.op in OPS:
        result = np.asarray(OPS[n.op].meaning(*args))
    else:
        result = RULES[n.op](n, args, arguments, extents)
    return result.astype(numpy_dtype(n.type.dtype.compute), copy=False)


def _parameter(n, args, arguments, extents):
    return np.asarray(arguments[n.attr])


def _scalar(n, args, arguments, extents):
    return _fitting(arguments[n.attr], n)


def _fitting(value, n):
    """A number in the dtype of the arrays that it meets; DTypeError where that does not hold it, as on every target."""
    if isinstance(value, int) and not fits(value, n.type.dtype):
        raise DTypeError(f"{spelled(value)} does not fit {n.type.dtype}", "dtype.overflow", help="pass a NumPy scalar")
    return np.asarray(value)


def _constant(n, args, arguments, extents):
    return np.asarray(value_of(n))


def _size(n, args, arguments, extents):
    return _fitting(evaluate(n.attr, extents), n)


def _iota(n, args, arguments, extents):
    return np.arange(evaluate(n.type.shape[0], extents), dtype=np.int64)


def _convert(n, args, arguments, extents):
    return args[0]


def _cast(n, args, arguments, extents):
    return cast(args[0], n.type.dtype)


def cast(x: np.ndarray, to: DType) -> np.ndarray:
    """astype: float to integer truncates, saturates and takes NaN to 0; integers wrap; narrow floats are rounded."""
    target = numpy_dtype(to)
    if to.storage:
        return x.astype(np.float32).astype(target)  # by way of float32, as on every target
    if x.dtype.kind != "f" or to.kind == "f" or to is BOOL:
        return x.astype(target)
    info = np.iinfo(target)
    whole = np.trunc(np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf))
    low, high = whole < info.min, whole >= float(info.max) + (0 if info.bits == 64 else 1)
    inside = np.where(low | high, 0, whole).astype(target)
    return np.where(low, info.min, np.where(high, info.max, inside)).astype(target)


def _index(n, args, arguments, extents):
    return basic_index(args[0], n.attr, extents)


def basic_index(x: np.ndarray, index: tuple, extents: Mapping[Symbol, int]) -> np.ndarray:
    """What an `index` node leaves of an array: entries are ("new",), ("int", k) or ("slice", start, step, extent)."""
    key: list = []
    for entry in index:
        if entry[0] == "new":
            key.append(None)
        elif entry[0] == "int":
            key.append(evaluate(entry[1], extents))
        else:
            key.append(_positions(*(evaluate(part, extents) for part in entry[1:])))
    return x[tuple(key)]


def _positions(start, step, extent):
    """The slice that visits `extent` positions from `start`."""
    stop = start + step * extent
    return slice(start, None if stop < 0 else stop, step) if extent else slice(0, 0)


def _transpose(n, args, arguments, extents):
    return np.transpose(args[0], n.attr)


def _broadcast(n, args, arguments, extents):
    return np.broadcast_to(args[0], _shape(n, extents))


def _reshape(n, args, arguments, extents):
    return np.reshape(args[0], _shape(n, extents))


def _shape(n, extents):
    return tuple(evaluate(d, extents) for d in n.type.shape)


def _gather(n, args, arguments, extents):
    x, *arrays = args
    mode, entries = n.attr
    shape = _shape(n, extents)
    found, there = [], np.ones(shape, bool)
    for axis, (kind, k) in enumerate(entries):
        extent = x.shape[axis]
        if kind == "axis":
            line = np.arange(shape[k]) if extent == shape[k] else np.zeros(shape[k], np.int64)
            found.append(line.reshape((-1,) + (1,) * (len(shape) - k - 1)))
            continue
        position = np.where(arrays[k] < 0, arrays[k] + extent, arrays[k]) if mode in COUNTING_BACK else arrays[k]
        inside = (position >= 0) & (position < extent)
        there = there & inside
        found.append(np.where(inside, position, 0))
    missing = np.nan if mode == "checked" and x.dtype.kind == "f" else 0
    if not x.size:
        return np.full(shape, missing, x.dtype)
    return np.where(there, np.broadcast_to(x[tuple(found)], shape), np.asarray(missing, x.dtype))


COUNTING_BACK = ("checked", "wrapped")  # modes in which negative positions count from the end


def check_indices(n: Node, args: list[np.ndarray]) -> None:
    """ShapeError where a position of a gather is out of range."""
    x, *arrays = args
    mode, entries = n.attr
    for extent, (kind, k) in zip(x.shape, entries):
        if kind != "at" or mode != "checked":
            continue
        wrong = arrays[k][(arrays[k] < -extent) | (arrays[k] >= extent)]
        if wrong.size:
            message = f"index {wrong[0]} is out of range for an axis of {extent}"
            raise ShapeError(message, "shape.index", help=f"indices run from {-extent} to {extent - 1}")


def _reduce(n, args, arguments, extents):
    fold, axes = n.attr
    (x,) = args
    if fold in ("argmax", "argmin"):
        return (
            np.expand_dims(getattr(np, fold)(x, axis=axes[0]), axes[0])
            if x.size
            else np.zeros(_shape(n, extents), np.int64)
        )
    if not x.size and fold in ("max", "min"):  # the check let it through: no result, or one that starts from a number
        return np.full(_shape(n, extents), value_of((lowest if fold == "max" else highest)(n.type.dtype)), x.dtype)
    if fold in ("sum", "prod"):
        return getattr(np, fold)(x, axis=axes, keepdims=True, dtype=numpy_dtype(n.type.dtype.compute))
    return getattr(np, fold)(x, axis=axes, keepdims=True)


ACCUMULATE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def _scan(n, args, arguments, extents):
    """Sums of float32 are rounded once, from float64: one after another they would drift over long rows."""
    fold, axis = n.attr
    found = ACCUMULATE[fold].accumulate(args[0], axis=axis, dtype=numpy_dtype(n.type.dtype.compute))
    if fold != "sum" or found.dtype != np.float32:
        return found
    return np.where(np.isfinite(found), np.add.accumulate(args[0], axis=axis, dtype=np.float64), found)


def _ranked(n, args, arguments, extents):
    """Stable order along the last axis; downwards it is the order of the reversed row, reversed."""
    part, down = n.attr
    x = args[0][..., ::-1] if down else args[0]
    order = np.argsort(x, axis=-1, kind="stable")
    if down:
        order = (x.shape[-1] - 1 - order)[..., ::-1]
    order = order[..., : evaluate(n.type.shape[-1], extents)]
    return order if part == "positions" else np.take_along_axis(args[0], order, axis=-1)


def _contract(n, args, arguments, extents):
    """As products of matrices; float32 in float64, rounded once, unless a product is beyond float32."""
    letters, (x, y) = Subscripts.parse(n.attr), args
    compute = numpy_dtype(n.type.dtype.compute)
    left = _matrices(x.astype(compute, copy=False), letters.left, (letters.batch, letters.rows, letters.summed))
    right = _matrices(y.astype(compute, copy=False), letters.right, (letters.batch, letters.summed, letters.columns))
    found = np.matmul(left, right)
    if compute == np.float32:
        found = np.where(np.isfinite(found), np.matmul(left.astype(np.float64), right.astype(np.float64)), found)
    extent = dict(zip(letters.left, x.shape)) | dict(zip(letters.right, y.shape))
    order = letters.batch + letters.rows + letters.columns
    unfolded = found.reshape(tuple(extent[c] for c in order))
    return unfolded.transpose([order.index(c) for c in letters.result])


def _matrices(x, letters, parts):
    """`x` with one axis for the letters of each part."""
    extent = dict(zip(letters, x.shape))
    ordered = x.transpose([letters.index(c) for part in parts for c in part])
    return ordered.reshape(tuple(prod(extent[c] for c in part) for part in parts))


RULES: dict[str, Callable] = {
    "param": _parameter,
    "scalar": _scalar,
    "const": _constant,
    "size": _size,
    "iota": _iota,
    "convert": _convert,
    "cast": _cast,
    "index": _index,
    "transpose": _transpose,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "reduce": _reduce,
    "scan": _scan,
    "ranked": _ranked,
    "gather": _gather,
    "contract": _contract,
}
