"""ufunc.reduce on tracers, for ufuncs without a reduction of their own in the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import Unsupported
from ..recorder import Recorder
from ..unsupported import of_list
from .out import single_out, write_out


def numpy_function(recorder: Recorder, name: str, *args: Any, **kwargs: Any) -> Any:
    """A NumPy function on tracers."""
    from .functions import call_function

    return call_function(recorder, name, args, kwargs)


def _reduce_as(name: str, change: Callable[[Any], Any] = lambda x: x, back: Callable[[Any], Any] = lambda x: x):
    """A reduction by another function: back(function(change(array)))."""

    def apply(recorder: Recorder, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False):
        a = recorder.strong(a)
        a = a if dtype is None else recorder.apply("astype", a, recorder.dtype(dtype))
        result = back(numpy_function(recorder, name, change(a), axis=axis, keepdims=keepdims))
        return write_out(recorder, single_out(out), result)

    return apply


def _first_and_rest(operation: Callable[[Any, Any], Any], name: str):
    """A reduction of the first element with the sum or product of the others, for subtract and divide."""

    def apply(recorder: Recorder, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False):
        a = recorder.strong(a)
        a = a if dtype is None else recorder.apply("astype", a, recorder.dtype(dtype))
        before = (slice(None),) * recorder.axis(a, axis)
        rest = numpy_function(recorder, name, a[(*before, slice(1, None))], axis=axis, keepdims=keepdims)
        first = a[(*before, slice(0, 1))]
        result = operation(first if keepdims else recorder.apply("squeeze", first, axis), rest)
        return write_out(recorder, single_out(out), result)

    return apply


def _bits(name: str):
    """A bitwise reduction of bools, which is a logical one."""

    def apply(recorder: Recorder, a: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False):
        if a.dtype.kind != "b":
            message = f"{name}.reduce of an array of integers is not supported"
            raise Unsupported(message, "unsupported.function", help=of_list(name))
        return UFUNC_REDUCTIONS[name.replace("bitwise", "logical")](recorder, a, axis, dtype, out, keepdims)

    return apply


UFUNC_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "fmax": _reduce_as("nanmax"),
    "fmin": _reduce_as("nanmin"),
    "logaddexp": _reduce_as("logsumexp"),
    "logaddexp2": _reduce_as("logsumexp", lambda x: x * np.log(2.0), lambda x: x / np.log(2.0)),
    "logical_and": _reduce_as("all"),
    "logical_or": _reduce_as("any"),
    "logical_xor": _reduce_as("sum", lambda x: x != 0, lambda x: x % 2 != 0),
    "subtract": _first_and_rest(lambda first, rest: first - rest, "sum"),
    "divide": _first_and_rest(lambda first, rest: first / rest, "prod"),
    **{name: _bits(name) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
}
