"""NumPy's piecewise, block, compress and convolve on tracers: arrays assembled from parts, or parts selected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ArgumentError, Unsupported
from ..recorder import Recorder


def _piecewise(recorder: Recorder, x: Any, condlist: Any, funclist: Any, *args: Any, **named: Any) -> Any:
    """piecewise: the last true condition decides; an extra function is the default."""
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    pieces = [f(x, *args, **named) if callable(f) else f for f in funclist]
    if len(pieces) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(
            f"piecewise of {len(conditions)} conditions and {len(pieces)} functions",
            "argument.piecewise",
            help="a function for each condition, and one more for the rest",
        )
    result = recorder.apply("zeros_like", x)
    if len(pieces) > len(conditions):
        result = recorder.apply("astype", recorder.apply("where", True, pieces[-1], result), recorder.dtype(x.dtype))
    for condition, piece in zip(conditions, pieces):
        result = recorder.apply("astype", recorder.apply("where", condition, piece, result), recorder.dtype(x.dtype))
    return result


def _block(recorder: Recorder, arrays: Any) -> Any:
    """block: nested lists, concatenated along the last axis at the innermost level."""
    depth, inner = 0, arrays
    while isinstance(inner, list):
        depth, inner = depth + 1, inner[0]
    rank = max([depth, *(recorder.lifted(a).ndim for a in _leaves(arrays) if hasattr(a, "ndim"))])

    def joined(parts: Any, level: int) -> Any:
        if not isinstance(parts, list):
            part = recorder.tracer(recorder.builder.strong(recorder.node(parts)))
            return part[(*[None] * (rank - part.ndim), ...)]
        return recorder.apply("concat", tuple(joined(part, level - 1) for part in parts), -level)

    return joined(arrays, depth)


def _leaves(parts: Any) -> list:
    return [leaf for part in parts for leaf in _leaves(part)] if isinstance(parts, list) else [parts]


def _fill_diagonal(recorder: Recorder, a: Any, val: Any, wrap: bool = False) -> None:
    if a.ndim != 2 or wrap or getattr(recorder.lifted(val), "ndim", 0):
        raise Unsupported(
            "fill_diagonal of a matrix with a number is what there is",
            "unsupported.function",
            help="x[...] = np.where(np.eye(n, dtype=bool), values, x)",
        )
    on = recorder.apply("equal", recorder.apply("iota", a, 0), recorder.apply("iota", a, 1))
    a[on] = val


def _extract(recorder: Recorder, condition: Any, arr: Any) -> Any:
    return recorder.lifted(arr).reshape(-1)[_mask(recorder, condition).reshape(-1)]


def _compress(recorder: Recorder, condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    array = recorder.lifted(a)
    if axis is None or out is not None or array.ndim > 1:
        raise Unsupported("compress of a vector is what there is", "unsupported.function", help="x[mask]")
    return array[_mask(recorder, condition)]


def _mask(recorder: Recorder, condition: Any) -> Any:
    return recorder.apply("astype", condition, "bool")


def _sliding_window_view(
    recorder: Recorder, x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """sliding_window_view: windows along some axes, or along all, as new last axes."""
    shape = tuple(window_shape) if isinstance(window_shape, (tuple, list)) else (window_shape,)
    axes = tuple(range(x.ndim)) if axis is None else tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    return recorder.apply("sliding_window", x, tuple(int(n) for n in shape), tuple(int(a) for a in axes))


def _convolve(recorder: Recorder, a: Any, v: Any, mode: str = "full") -> Any:
    """convolve: a sum of shifted products, one for each element of the shorter vector."""
    a, v = (recorder.tracer(recorder.builder.strong(recorder.node(x))) for x in (a, v))
    if a.ndim != 1 or v.ndim != 1 or mode not in ("full", "same", "valid"):
        raise ArgumentError("convolve takes two vectors, and full, same or valid", "argument.convolve",
                            help="flatten them: x.reshape(-1)")  # fmt: skip
    if len(v) > len(a):
        a, v = v, a
    n, m = len(a), len(v)
    if not 0 < m <= 256:
        raise Unsupported(f"convolve with {m} elements", "unsupported.function", help="at most 256, and one")
    edge = {"full": (m - 1, m - 1), "same": (m // 2, (m - 1) // 2), "valid": (0, 0)}[mode]
    wide = recorder.apply("pad", a, (edge,))
    length = n + sum(edge) - m + 1
    products = [wide[k : k + length] * v[m - 1 - k] for k in range(m)]
    result = products[0]
    for product in products[1:]:
        result = result + product
    return result


def _correlate(recorder: Recorder, a: Any, v: Any, mode: str = "valid") -> Any:
    """correlate: the convolution with the second vector reversed."""
    if mode == "same" and len(v) > len(a):
        help = "give the longer vector first, and reverse the result: np.correlate(v, a, 'same')[::-1]"
        raise Unsupported("correlate(mode='same') whose first vector is shorter", "unsupported.function", help=help)
    return _convolve(recorder, a, recorder.lifted(v)[::-1], mode)


SPLIT_JOIN: dict[str, Callable[..., Any]] = {
    "piecewise": _piecewise,
    "block": _block,
    "fill_diagonal": _fill_diagonal,
    "extract": _extract,
    "compress": _compress,
    "convolve": _convolve,
    "correlate": _correlate,
    "sliding_window_view": _sliding_window_view,
}
