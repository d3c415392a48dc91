"""NumPy's nan-functions on tracers: reductions and scans that ignore NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..recorder import Recorder
from .out import single_out, write_out
from .reduce import numpy_function
from .signatures import SIGNATURES


def _named(name: str, args: tuple, named: dict[str, Any]) -> dict[str, Any]:
    """The arguments after the array, by NumPy's names, without unset ones (np._NoValue)."""
    given = dict(zip(SIGNATURES[name].split()[1:], args)) | named
    return {key: value for key, value in given.items() if value is not np._NoValue}


def _replace_nan(name: str, value: float) -> Callable[..., Any]:
    """A nan-function that replaces NaN by `value`, its identity."""

    def apply(recorder: Recorder, a: Any, *args: Any, **named: Any) -> Any:
        a, named = recorder.strong(a), _named(name, args, named)
        if a.dtype.kind == "f":
            a = recorder.apply("where", recorder.apply("isnan", a), value, a)
        return numpy_function(recorder, name, a, **named)

    return apply


def _nan_extreme(name: str, least: float) -> Callable[..., Any]:
    """nanmax or nanmin; NaN if all elements are NaN."""

    def apply(recorder: Recorder, a: Any, *args: Any, **named: Any) -> Any:
        a, named = recorder.strong(a), _named(name, args, named)
        out = single_out(named.pop("out", None))
        missing = recorder.apply("isnan", a)
        known = recorder.apply("where", missing, least, a) if a.dtype.kind == "f" else a
        result = numpy_function(recorder, name, known, **named)
        if a.dtype.kind == "f" and "initial" not in named:
            empty = numpy_function(recorder, "all", missing, **named)
            result = recorder.apply("where", empty, np.nan, result)
        return write_out(recorder, out, result)

    return apply


def _nan_variance(name: str) -> Callable[..., Any]:
    def apply(recorder: Recorder, a: Any, *args: Any, **named: Any) -> Any:
        a, named = recorder.strong(a), _named(name, args, named)
        if a.dtype.kind == "f":
            there, where = ~recorder.apply("isnan", a), named.get("where", True)
            named["where"] = there if where is True else there & where
        return numpy_function(recorder, name, a, **named)

    return apply


NAN_FAMILY: dict[str, Callable[..., Any]] = {
    "nanmax": _nan_extreme("max", -np.inf),
    "nanmin": _nan_extreme("min", np.inf),
    "nanargmax": _replace_nan("argmax", -np.inf),
    "nanargmin": _replace_nan("argmin", np.inf),
    "nanprod": _replace_nan("prod", 1),
    "nancumsum": _replace_nan("cumsum", 0),
    "nancumprod": _replace_nan("cumprod", 1),
    "nanvar": _nan_variance("var"),
    "nanstd": _nan_variance("std"),
}
