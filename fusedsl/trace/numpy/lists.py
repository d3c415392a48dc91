"""Lists of traced arrays as arguments of NumPy's functions, ufuncs and np.r_.

NumPy's dispatch protocols check the arguments of a call, but not the elements of lists: proxies convert these first.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from types import FunctionType
from typing import Any

import numpy as np

from ...errors import ArgumentError, TraceError, Unsupported
from ..recorder import Recorder
from ..tracer import Tracer
from .signatures import unknown_keyword

TAKE_SEQUENCES = frozenset([  # functions whose first argument is a sequence of arrays
    "concatenate", "concat", "stack", "hstack", "vstack", "row_stack", "dstack", "column_stack",
])  # fmt: skip
TAKE_LISTS = frozenset(["select", "choose", "piecewise", "block", "lexsort", "multi_dot", "ix_", "array2string"])
REDUCED = frozenset(["add", "multiply", "maximum", "minimum", "logical_and", "logical_or"])
METHODS = ("reduce", "accumulate", "outer", "reduceat", "at")


def as_array(recorder: Recorder, value: Any) -> Any:
    """A nested list of traced arrays as one array; any other value unchanged."""
    if not _is_list(value):
        return value
    parts = [as_array(recorder, part) for part in value]
    return recorder.apply("stack", [recorder.tracer(recorder.builder.strong(recorder.node(part))) for part in parts])


def _is_list(value: Any) -> bool:
    """True for a list that holds traced arrays; a list of numbers may be a shape."""
    if type(value) not in (list, tuple):
        return False
    return any((isinstance(part, Tracer) and not part.is_number) or _is_list(part) for part in value)


def is_numpy_function(value: Any) -> bool:
    """True for a function or ufunc of NumPy's main namespace."""
    name = getattr(value, "__name__", None)
    return callable(value) and not isinstance(value, type) and bool(name) and getattr(np, str(name), None) is value


def list_accepting(function: Callable, name: str, recorder: Recorder) -> Any:
    """The proxy of a NumPy function or ufunc that accepts lists of traced arrays."""
    if isinstance(function, np.ufunc):
        return UfuncProxy(function, recorder)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return with_lists(*args, **kwargs)
        except TypeError as error:
            if (unknown := _unknown_keyword(function, kwargs)) is None:
                raise
            raise unknown from error

    def with_lists(*args: Any, **kwargs: Any) -> Any:
        if name in TAKE_LISTS or not any(map(_is_list, (*args, *kwargs.values()))):
            return function(*args, **kwargs)
        if name in TAKE_SEQUENCES and args and _is_list(args[0]):
            args = ([as_array(recorder, part) for part in args[0]], *args[1:])
            return function(*args, **kwargs)
        named = {key: as_array(recorder, value) for key, value in kwargs.items()}
        return function(*(as_array(recorder, value) for value in args), **named)

    wrapper = functools.update_wrapper(call, function)
    wrapper.numpys = function  # type: ignore[attr-defined]
    return wrapper


def _unknown_keyword(function: Callable, given: Collection[str]) -> ArgumentError | None:
    """The error for a keyword that a NumPy function does not have; None if it has all of them."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    key = next((key for key in given if key not in parameters), None)
    return None if key is None else unknown_keyword(function.__name__, key, parameters)


def unwrap(value: Any) -> Any:
    """The NumPy function or ufunc behind a `list_accepting` proxy; any other value unchanged."""
    if type(value) is UfuncProxy:
        return value._ufunc
    return getattr(value, "numpys", value) if type(value) is FunctionType else value


class UfuncProxy:
    """The proxy of a ufunc."""

    def __init__(self, ufunc: np.ufunc, recorder: Recorder):
        self._ufunc, self._recorder = ufunc, recorder

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # type: ignore[override]
        return np.ufunc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._ufunc(*(as_array(self._recorder, x) for x in args), **kwargs)

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._method, name) if name in METHODS else getattr(self._ufunc, name)

    def __eq__(self, other: object) -> bool:
        return self._ufunc is (other._ufunc if type(other) is UfuncProxy else other)

    def __hash__(self) -> int:
        return hash(self._ufunc)

    def __repr__(self) -> str:
        return repr(self._ufunc)

    def _method(self, method: str, *args: Any, **kwargs: Any) -> Any:
        listed = bool(args) and _is_list(args[0])
        if listed and method == "reduce" and self._ufunc.__name__ not in REDUCED:
            return self._fold_list(*args, **kwargs)
        operands = tuple(as_array(self._recorder, x) for x in args) if method != "at" else args
        return getattr(self._ufunc, method)(*operands, **kwargs)

    def _fold_list(self, parts: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """Fold a list of arrays with the ufunc, in order."""
        name = self._ufunc.__name__
        if axis != 0 or dtype is not None or out is not None:
            help = f"write np.{name}.reduce([a, b]), or functools.reduce(np.{name}, [a, b])"
            raise Unsupported(f"{name}.reduce of a list runs along axis 0", "unsupported.function", help=help)
        arrays = [as_array(self._recorder, part) for part in parts]
        result = functools.reduce(self._ufunc, arrays)
        return result[None] if keepdims else result


class AxisConcatenator:
    """The proxy of np.r_ or np.c_."""

    def __init__(self, joiner: Any, recorder: Recorder, columns: bool):
        self._joiner, self._recorder, self._columns = joiner, recorder, columns

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not any(isinstance(part, Tracer) or _is_list(part) for part in parts):
            return self._joiner[key]
        if any(isinstance(part, str) for part in parts):
            message = "np.r_ with a string beside traced arrays is not there"
            raise TraceError(message, "trace.array", help="write np.concatenate or np.stack")
        arrays = [self._part(part) for part in parts]
        return self._recorder.apply("concat", tuple(arrays), -1 if self._columns else 0)

    def _part(self, part: Any) -> Any:
        r = self._recorder
        part = self._joiner[part].reshape(-1) if isinstance(part, slice) else as_array(r, part)
        array = r.tracer(r.builder.strong(r.node(r.array_like(part) if isinstance(part, (list, tuple)) else part)))
        array = array.reshape(1) if not array.ndim else array
        return array[:, None] if self._columns and array.ndim == 1 else array
