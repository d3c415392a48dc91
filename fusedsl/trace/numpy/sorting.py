"""NumPy's sorting functions on tracers: sort, partition, median, quantile, searchsorted, digitize."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import ArgumentError, ShapeError
from ...lang.declared_signatures import Refusal, declared
from ...lang.quantile_functions import READ
from ..recorder import Recorder
from ..sorting import search
from ..tracer import Tracer
from .out import write_out


def _sorted(name: str) -> Callable[..., Any]:
    """sort or argsort; every `kind` is stable here."""

    message, help = f"{name}(order=) is not supported", "there are no fields: sort by a key of your own"

    @declared(
        "recorder, a, axis=-1, kind=None, order=None, stable=None", Refusal("order", message, help, "unsupported.order")
    )
    def apply(recorder: Recorder, a: Any, axis: Any) -> Any:
        return recorder.apply(name, *_row(recorder, a, axis))

    return apply


def _row(recorder: Recorder, a: Any, axis: Any) -> tuple[Any, int]:
    """An array and the axis that is ordered; None is all elements as one row."""
    return (recorder.apply("reshape", a, -1), -1) if axis is None else (a, axis)


def _partition(name: str) -> Callable[..., Any]:
    """partition or argpartition: every order is a whole one here, so that several places take one sort."""
    message, help = f"{name}(order=) is not supported", "there are no fields: partition by a key of your own"

    @declared(
        "recorder, a, kth, axis=-1, kind='introselect', order=None",
        Refusal("order", message, help, "unsupported.order"),
    )
    def apply(recorder: Recorder, a: Any, kth: Any, axis: Any) -> Any:
        row, along = _row(recorder, recorder.lifted(a), axis)
        places = [operator.index(k) for k in np.atleast_1d(kth)]
        length = int(row.shape[along])
        if any(not -length <= place < length for place in places):
            raise ShapeError(f"{name} at {kth} of {length} elements", "shape.index", help=f"there are {length} places")
        return recorder.apply("sort" if name == "partition" else "argsort", row, along)

    return apply


@declared("recorder, a, axis=None, out=None, overwrite_input=False, keepdims=False")
def _median(recorder: Recorder, a: Any, axis: Any, out: Any, keepdims: bool) -> Any:
    return write_out(recorder, out, recorder.apply("median", recorder.lifted(a), axis, keepdims=keepdims))


@declared("recorder, a, axis=None, out=None, overwrite_input=False, keepdims=False")
def _nanmedian(recorder: Recorder, a: Any, axis: Any, out: Any, keepdims: bool) -> Any:
    return write_out(recorder, out, recorder.apply("nanmedian", recorder.lifted(a), axis, keepdims=keepdims))


def _quantile(name: str) -> Callable[..., Any]:
    """quantile, percentile, nanquantile or nanpercentile."""

    scale = 100 if name.endswith("percentile") else 1
    message, help = f"{name}(weights=) is not supported", "it is there without weights"

    @declared(
        "recorder, a, q, axis=None, out=None, overwrite_input=False, method='linear', keepdims=False, *, weights=None",
        Refusal("weights", message, help, "unsupported.order"),
    )
    def apply(recorder: Recorder, a: Any, q: Any, axis: Any, out: Any, **given: Any) -> Any:
        a = recorder.lifted(a)
        if not isinstance(q, Tracer):
            levels = np.asarray(q, np.float64)
            if levels.ndim > 1 or ((levels < 0) | (levels > scale)).any():
                help = f"{name} takes numbers from 0 to {scale}, one or a list"
                raise ArgumentError(f"{name} has no level {q!r}", "argument.range", help=help)
            if type(q) not in (int, float) and given["method"] not in READ:  # NumPy's levels have a dtype
                dtype = np.result_type(a.dtype if a.dtype.kind == "f" else np.float64, getattr(q, "dtype", np.float64))
                a = recorder.apply("astype", a, recorder.dtype(dtype))
            q = tuple(levels.tolist()) if levels.ndim else float(levels)
        how = {option: given[option] for option in ("method", "keepdims")}
        return write_out(recorder, out, recorder.apply(name, a, q, axis, **how))

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
    "partition": _partition("partition"),
    "argpartition": _partition("argpartition"),
    "median": _median,
    "nanmedian": _nanmedian,
    **{name: _quantile(name) for name in ("quantile", "percentile", "nanquantile", "nanpercentile")},
    "searchsorted": _searchsorted,
    "digitize": _digitize,
}
