"""Reference interpreter: a graph evaluated node by node in NumPy; semantics, test oracle and fallback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import DTypeError
from .checks import holds, shape_error, spelled
from .contraction import Subscripts
from .dims import Extents, Symbol, evaluate
from .folds import highest, lowest
from .gathers import COUNTING_BACK
from .graph import Graph, Node, value_of, walk
from .interp_scans import ordered_zeros, scan
from .interp_scatter import scattered
from .ops import OPS
from .types import BOOL, DType, fits, numpy_dtype

# The value of a node: (node, values of its arguments, the program's arguments, extents) -> array.
Evaluated = Callable[[Node, list[np.ndarray], Sequence, Mapping[Symbol, int]], np.ndarray]


def extents_of(arrays: Sequence) -> Extents:
    """Every symbol's value, from the arguments' shapes."""
    return Extents({Symbol(k, a): n for k, x in enumerate(arrays) for a, n in enumerate(np.shape(x))})


def interpret(graph: Graph, arguments: Sequence, evaluated: Evaluated | None = None) -> list[np.ndarray]:
    """The results of the program for these arguments (arrays and Python numbers), in new arrays.

    `evaluated` computes a node; by default it is `evaluate_node`. Narrow floats are computed in float32 and rounded at
    casts and at the results, as on every target.
    Raises the ShapeError of the first check that the shapes break.
    """
    extents, evaluated = extents_of(arguments), evaluated or evaluate_node
    for check in graph.checks:
        if not holds(check, extents):
            raise shape_error(check, extents)
    values: dict[Node, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for n, done in last_uses(graph):
            args = [values[a] for a in n.args]
            values[n] = evaluated(n, args, arguments, extents)
            for a in done:
                del values[a]
        return [store(values[r], r.type.dtype) for r in graph.results]


def last_uses(graph: Graph) -> Iterator[tuple[Node, list[Node]]]:
    """Every node, arguments first, with the arguments that no later node reads and that are no results."""
    nodes, results = graph.nodes(), set(graph.results)
    last = {a: n for n in nodes for a in n.args}
    for n in nodes:
        yield n, [a for a in dict.fromkeys(n.args) if last[a] is n and a not in results]


def store(value: np.ndarray, d: DType) -> np.ndarray:
    """A computed value as a new array of dtype `d`."""
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
    """A number in the dtype of the other operands; DTypeError if it does not fit, as on every target."""
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
    truncated = np.trunc(np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf))
    low, high = truncated < info.min, truncated >= float(info.max) + (0 if info.bits == 64 else 1)
    inside = np.where(low | high, 0, truncated).astype(target)
    return np.where(low, info.min, np.where(high, info.max, inside)).astype(target)


def _index(n, args, arguments, extents):
    return basic_index(args[0], n.attr, extents)


def basic_index(x: np.ndarray, index: tuple, extents: Mapping[Symbol, int]) -> np.ndarray:
    """The elements that an `index` node selects: entries are ("new",), ("int", k) or ("slice", start, step, extent)."""
    key: list = []
    for entry in index:
        if entry[0] == "new":
            key.append(None)
        elif entry[0] == "int":
            key.append(evaluate(entry[1], extents))
        else:
            key.append(_positions(*(evaluate(part, extents) for part in entry[1:])))
    return x[(*key, ...)]  # a view, even of one element


def viewed(x: np.ndarray, kind: str, how: tuple, extents: Mapping[Symbol, int]) -> np.ndarray:
    """An array through a host-side view (fusion/scalar_program.py)."""
    if kind == "index":
        return basic_index(x, how, extents)
    if kind == "reshape":
        return x.reshape([evaluate(d, extents) for d in how])
    if kind == "padded":
        return np.pad(x, [tuple(evaluate(d, extents) for d in pair) for pair in how])
    shape = [evaluate(count, extents) for _, parts in how for count, _ in parts]
    strides = [step * stride for (_, parts), stride in zip(how, x.strides) for _, step in parts]
    if 0 not in shape:
        x = x[tuple(slice(evaluate(start, extents), None) for start, _ in how)]
    words = x.view(f"u{x.itemsize}")  # NumPy finds no dtype by the name of a float of 8 bits
    return np.lib.stride_tricks.as_strided(words, shape, strides).view(x.dtype)


def stepped(start: int, step: int, indices: np.ndarray) -> np.ndarray:
    """start + step * indices. A step beyond int64 is replaced by 0: no array has a second element there."""
    return start + (step * indices if indices.any() else indices)


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
    positions, there = [], np.ones(shape, bool)
    for axis, (kind, k) in enumerate(entries):
        extent = x.shape[axis]
        if kind == "axis":
            line = np.arange(shape[k]) if extent == shape[k] else np.zeros(shape[k], np.int64)
            positions.append(line.reshape((-1,) + (1,) * (len(shape) - k - 1)))
            continue
        position = np.where(arrays[k] < 0, arrays[k] + extent, arrays[k]) if mode in COUNTING_BACK else arrays[k]
        inside = (position >= 0) & (position < extent)
        there = there & inside
        positions.append(np.where(inside, position, 0))
    missing = np.nan if mode == "checked" and x.dtype.kind == "f" else 0
    if not x.size:
        return np.full(shape, missing, x.dtype)
    return np.where(there, np.broadcast_to(x[tuple(positions)], shape), np.asarray(missing, x.dtype))


def _reduce(n, args, arguments, extents):
    fold, axes = n.attr
    (x,) = args
    if fold in ("argmax", "argmin"):
        if not x.size:
            return np.zeros(_shape(n, extents), np.int64)
        return np.expand_dims(getattr(np, fold)(x, axis=axes[0]), axes[0])
    if not x.size and fold in ("max", "min"):  # the check passed: there is no result, or one with an initial value
        return np.full(_shape(n, extents), value_of((lowest if fold == "max" else highest)(n.type.dtype)), x.dtype)
    if fold in ("sum", "prod"):
        return getattr(np, fold)(x, axis=axes, keepdims=True, dtype=numpy_dtype(n.type.dtype.compute))
    result = getattr(np, fold)(x, axis=axes, keepdims=True)
    return ordered_zeros(fold, x, result, lambda holds: holds.any(axis=axes, keepdims=True))


def _scan(n, args, arguments, extents):
    """Prefixes, inclusive or exclusive."""
    fold, axis, exclusive = n.attr
    return scan(fold, args, axis, exclusive, numpy_dtype(n.type.dtype.compute))


def _sort(n, args, arguments, extents):
    """Stable sort along the last axis; a descending sort is that of the reversed row, reversed."""
    part, down = n.attr
    x = args[0][..., ::-1] if down else args[0]
    order = np.argsort(x, axis=-1, kind="stable")
    if down:
        order = (x.shape[-1] - 1 - order)[..., ::-1]
    order = order[..., : evaluate(n.type.shape[-1], extents)]
    return order if part == "positions" else np.take_along_axis(args[0], order, axis=-1)


def _contract(n, args, arguments, extents):
    """Matrix products; float32 is computed in float64 and rounded once, unless a product exceeds float32."""
    compute = numpy_dtype(n.type.dtype.compute)
    x, y = (a.astype(compute, copy=False) for a in args)
    result = sums_of_products(n.attr, x, y)
    if compute == np.float32:
        exact = sums_of_products(n.attr, x.astype(np.float64), y.astype(np.float64))
        result = np.where(np.isfinite(result), exact, result)
    return result


def sums_of_products(subscripts: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """einsum of two operands of one dtype, as products of matrices."""
    letters = Subscripts.parse(subscripts)
    left = _matrices(x, letters.left, (letters.batch, letters.rows, letters.summed))
    right = _matrices(y, letters.right, (letters.batch, letters.summed, letters.columns))
    extent = dict(zip(letters.left, x.shape)) | dict(zip(letters.right, y.shape))
    order = letters.batch + letters.rows + letters.columns
    unfolded = np.matmul(left, right).reshape(tuple(extent[c] for c in order))
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
    "sorted": _sort,
    "gather": _gather,
    "contract": _contract,
    "scatter": scattered,
}


def concrete(node: Node, numbers: Mapping[int, Any], extents: Mapping[Symbol, int]) -> bool | int | float:
    """The value of a node that depends only on extents and numbers."""
    values: dict[Node, Any] = {}
    for n in walk([node]):
        values[n] = evaluate_node(n, [values[a] for a in n.args], numbers, extents)  # type: ignore[arg-type]
    return values[node].item()
