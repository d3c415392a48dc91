"""NumPy's sorting functions on tracers: sort, median, quantile, searchsorted, digitize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import ArgumentError, Unsupported
from ...lang.declared_signatures import Refusal, declared
from ..recorder import Recorder
from ..sorting import has_nan, length_of, quantiles, search, sorted_rows
from ..tracer import Tracer
from .out import write_out


def _sorted(name: str) -> Callable[..., Any]:
    """sort or argsort; every `kind` is stable here."""

    message, help = f"{name}(order=) is not supported", "there are no fields: sort by a key of your own"

    @declared(
        "recorder, a, axis=-1, kind=None, order=None, stable=None", Refusal("order", message, help, "unsupported.order")
    )
    def apply(recorder: Recorder, a: Any, axis: Any) -> Any:
        if axis is None or axis in (-1, a.ndim - 1):
            return recorder.apply(name, a if axis is not None else recorder.apply("reshape", a, -1), -1)
        return recorder.apply("swapaxes", recorder.apply(name, recorder.apply("swapaxes", a, axis, -1), -1), axis, -1)

    return apply


def _keep_dims(result: Any, a: Any, axis: int | None, keepdims: bool) -> Any:
    """The result, with reduced axes of extent 1 if `keepdims`."""
    if not keepdims:
        return result
    return result.reshape((1,) * a.ndim) if axis is None else result[(*[slice(None)] * (axis % a.ndim), None)]


def _rows(recorder: Recorder, name: str, a: Any, axis: Any, dtype: Any) -> tuple[Any, Any]:
    """(`a` cast to a float dtype and sorted along an axis, that axis)."""
    if isinstance(axis, (tuple, list)):
        help = "one axis, or None for all; reshape the axes into one"
        raise Unsupported(f"{name} over several axes is not supported", "unsupported.order", help=help)
    axis = recorder.specialized(axis)
    return sorted_rows(recorder, recorder.apply("astype", a, recorder.dtype(dtype)), axis), axis


def _median(recorder: Recorder, a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
            keepdims: bool = False) -> Any:  # fmt: skip
    a = recorder.lifted(a)
    rows, axis = _rows(recorder, "median", a, axis, a.dtype if a.dtype.kind == "f" else np.float64)
    n = length_of(rows, "a median")
    middle = recorder.apply("mean", rows[..., (n - 1) // 2 : n // 2 + 1], -1)
    result = recorder.apply("where", has_nan(recorder, rows), np.nan, middle)
    return write_out(recorder, out, _keep_dims(result, a, axis, keepdims))


def _quantile(name: str, scale: float) -> Callable[..., Any]:
    """quantile (`scale` 1) or percentile (`scale` 100)."""

    message, help = f"{name}(method=, weights=) is not supported", "method='linear' without weights is there"

    @declared(
        "recorder, a, q, axis=None, out=None, overwrite_input=False, method='linear', keepdims=False, *, weights=None",
        Refusal("method weights", message, help, "unsupported.order"),
    )
    def apply(recorder: Recorder, a: Any, q: Any, axis: Any, out: Any, keepdims: bool) -> Any:
        a, weak = recorder.lifted(a), type(q) in (int, float) or (isinstance(q, Tracer) and q.is_number)
        levels = np.asarray(float(q) if isinstance(q, Tracer) else q, np.float64) / scale
        if levels.ndim > 1 or ((levels < 0) | (levels > 1)).any():
            help = f"{name} takes numbers from 0 to {scale:.0f}, one or a list"
            raise ArgumentError(f"{name} has no level {q!r}", "argument.range", help=help)
        dtype = np.result_type(a.dtype if a.dtype.kind == "f" else np.float64)
        dtype = dtype if weak else np.result_type(dtype, getattr(q, "dtype", np.float64))
        rows, axis = _rows(recorder, name, a, axis, dtype)
        per_level = [_keep_dims(x, a, axis, keepdims) for x in quantiles(recorder, rows, levels.reshape(-1).tolist())]
        result = recorder.apply("stack", tuple(per_level), 0) if levels.ndim else per_level[0]
        return write_out(recorder, out, result)

    return apply


@declared(
    "recorder, a, v, side='left', sorter=None",
    Refusal("sorter", "searchsorted(sorter=) is not supported", "pass a[sorter]", "unsupported.order"),
)
def _searchsorted(recorder: Recorder, a: Any, v: Any, side: str) -> Any:
    if side not in ("left", "right"):
        raise ArgumentError(f"side is {side!r}", "argument.choice", help="left or right")
    return search(recorder, _array(recorder, a), _array(recorder, v), side == "right")


def _digitize(recorder: Recorder, x: Any, bins: Any, right: bool = False) -> Any:
    """digitize; descending bins are counted from the other end."""
    edges = _array(recorder, bins)
    count = int(edges.shape[0])
    falls = edges[0] > edges[-1] if count > 1 else recorder.apply("not_equal", 0, 0)
    result = search(recorder, edges, _array(recorder, x), not right,
                   lambda index: recorder.apply("where", falls, count - 1 - index, index))  # fmt: skip
    return recorder.apply("where", falls, count - result, result)


def _array(recorder: Recorder, x: Any) -> Any:
    """An operand or list as an array of a strong dtype."""
    lifted = recorder.lifted(recorder.array_like(x) if isinstance(x, (list, tuple)) else x)
    return recorder.tracer(recorder.builder.strong(recorder.node(lifted)))


ORDER: dict[str, Callable[..., Any]] = {
    "sort": _sorted("sort"),
    "argsort": _sorted("argsort"),
    "median": _median,
    "quantile": _quantile("quantile", 1),
    "percentile": _quantile("percentile", 100),
    "searchsorted": _searchsorted,
    "digitize": _digitize,
}
