"""NumPy's array creation on tracers: from extents, like an array, and from lists of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...lang.declared_signatures import declared
from ..recorder import Recorder
from ..tracer import Tracer
from ..views import View


def call_creator(recorder: Recorder, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """arange, zeros, ones, full or empty whose shape has traced extents, or an array converter."""
    if name in CONVERTERS:
        return _array(recorder, name, *args, **kwargs)
    dtype = kwargs.pop("dtype", None)
    if name == "arange":
        indices = recorder.apply("arange", *args)
        return recorder.apply("astype", indices, recorder.dtype(dtype or np.int64))
    shape = kwargs.pop("shape", args[0] if args else None)
    rest = args[1:]
    value: Any = {"zeros": 0, "empty": 0, "ones": 1}.get(name)
    if name == "full":
        value, rest = kwargs.pop("fill_value", rest[0] if rest else None), rest[1:]
    if rest:
        dtype = rest[0]
    if dtype is None and not (name == "full" and isinstance(value, Tracer)):
        dtype = np.float64 if name != "full" else np.asarray(value).dtype
    filled = value if dtype is None else recorder.apply("astype", value, recorder.dtype(dtype))
    return recorder.apply("broadcast_to", filled, shape)


CONVERTERS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")


@declared("recorder, name, a, dtype=None, order=None, *, copy=True, ndmin=0, **named")
def _array(recorder: Recorder, name: str, a: Any, dtype: Any, copy: Any, ndmin: int) -> Any:
    """np.array and its variants, of an array or a nested list of arrays, with at least `ndmin` axes."""
    array = _converted(recorder, name, a, dtype, copy)
    return array[(*[None] * (ndmin - array.ndim), ...)] if array.ndim < ndmin else array


def _converted(recorder: Recorder, name: str, a: Any, dtype: Any = None, copy: Any = True) -> Any:
    if not isinstance(a, Tracer):
        if isinstance(a, (tuple, list)):
            array = recorder.apply("stack", tuple(_converted(recorder, "array", part) for part in a), 0)
        else:
            array = recorder.tracer(recorder.builder.strong(recorder.node(a)))
        return array if dtype is None else recorder.apply("astype", array, recorder.dtype(dtype))
    a = recorder.tracer(recorder.builder.strong(a.node)) if a.is_number else a
    if dtype is not None and recorder.dtype(dtype) is not a.node.type.dtype:
        return recorder.apply("astype", a, recorder.dtype(dtype))
    if name in ("ascontiguousarray", "asfortranarray"):
        return a.viewed(View(lambda x: x, certain=False))
    return a if name != "array" or not copy else recorder.apply("copy", a)


def _like(value: Any) -> Callable[..., Any]:
    """zeros_like, ones_like, empty_like."""

    @declared("recorder, a, dtype=None, order='K', subok=True, shape=None, *, device=None")
    def apply(recorder: Recorder, a: Any, dtype: Any, shape: Any) -> Any:
        return _full_like(recorder, a, value, dtype, shape=shape)

    return apply


@declared("recorder, a, fill_value, dtype=None, order='K', subok=True, shape=None, *, device=None")
def _full_like(recorder: Recorder, a: Any, fill_value: Any, dtype: Any, shape: Any) -> Any:
    if shape is None:
        kind = {} if dtype is None else {"dtype": recorder.dtype(dtype)}
        return recorder.apply("full_like", a, fill_value, **kind)
    scalar = recorder.apply("full_like", recorder.apply("any", a), fill_value, dtype=recorder.dtype(dtype or a.dtype))
    return recorder.apply("broadcast_to", scalar, shape)


LIKE: dict[str, Callable[..., Any]] = {
    "zeros_like": _like(0),
    "ones_like": _like(1),
    "empty_like": _like(0),
    "full_like": _full_like,
}
