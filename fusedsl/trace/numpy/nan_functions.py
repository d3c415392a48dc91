"""NumPy's functions of the elements that are not NaN, on tracers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .out import single, written
from .signatures import SIGNATURES

if TYPE_CHECKING:
    from ..recorder import Recorder


def _named(name: str, args: tuple, named: dict[str, Any]) -> dict[str, Any]:
    """The arguments after the array by NumPy's names, without those that stand for nothing."""
    given = dict(zip(SIGNATURES[name].split()[1:], args)) | named
    return {key: value for key, value in given.items() if value is not np._NoValue}


def _nan_as(name: str, value: float) -> Callable[..., Any]:
    """A function of the elements that are not NaN, which `value` leaves as they are."""

    def apply(recorder: Recorder, a: Any, *args: Any, **named: Any) -> Any:
        from .functions import call_function

        a, named = recorder.strong(a), _named(name, args, named)
        if a.dtype.kind == "f":
            a = recorder.apply("where", recorder.apply("isnan", a), value, a)
        return call_function(recorder, name, (a,), named)

    return apply


def _nan_extreme(name: str, least: float) -> Callable[..., Any]:
    """The largest or smallest element; NaN where there is nothing else."""

    def apply(recorder: Recorder, a: Any, *args: Any, **named: Any) -> Any:
        from .functions import call_function

        a, named = recorder.strong(a), _named(name, args, named)
        out = single(named.pop("out", None))
        missing = recorder.apply("isnan", a)
        known = recorder.apply("where", missing, least, a) if a.dtype.kind == "f" else a
        found = call_function(recorder, name, (known,), named)
        if a.dtype.kind == "f" and "initial" not in named:
            empty = call_function(recorder, "all", (missing,), named)
            found = recorder.apply("where", empty, np.nan, found)
        return written(recorder, out, found)

    return apply


def _nan_spread(name: str) -> Callable[..., Any]:
    def apply(recorder: Recorder, a: Any, *args: Any, **named: Any) -> Any:
        from .functions import call_function

        a, named = recorder.strong(a), _named(name, args, named)
        if a.dtype.kind == "f":
            there, where = ~recorder.apply("isnan", a), named.get("where", True)
            named["where"] = there if where is True else there & where
        return call_function(recorder, name, (a,), named)

    return apply


NAN_FAMILY: dict[str, Callable[..., Any]] = {
    "nanmax": _nan_extreme("max", -np.inf),
    "nanmin": _nan_extreme("min", np.inf),
    "nanargmax": _nan_as("argmax", -np.inf),
    "nanargmin": _nan_as("argmin", np.inf),
    "nanprod": _nan_as("prod", 1),
    "nancumsum": _nan_as("cumsum", 0),
    "nancumprod": _nan_as("cumprod", 1),
    "nanvar": _nan_spread("var"),
    "nanstd": _nan_spread("std"),
}
