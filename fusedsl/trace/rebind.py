"""A function made again with the modules that it names seen through proxies, and a record of what it reads."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.types import DTYPES
from .tracer import Tracer

if TYPE_CHECKING:
    from .recorder import Recorder

PLAIN = (int, float, str, bytes, type(None))
CREATORS = ("arange", "zeros", "ones", "full", "empty")  # of NumPy's, those that dispatch on no array


@dataclass(frozen=True)
class Read:
    """A name that a function reads from its globals or closure, and the value it had: plain values by value, others
    by identity."""

    scope: Any  # the globals, or the cell
    name: str
    value: Any

    def holds(self) -> bool:
        try:
            now = self.scope.cell_contents if isinstance(self.scope, types.CellType) else self.scope.get(self.name)
        except ValueError:  # an empty cell
            return False
        if now is self.value:
            return True
        return _plain(self.value) and type(now) is type(self.value) and now == self.value


def _plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_plain, value))
    return isinstance(value, PLAIN)


def rebind(function: Callable, recorder: Recorder) -> tuple[Callable, list[Read]]:
    """The function as the trace calls it, and the names that it reads from outside.

    NumPy dispatches on tracers by itself, except where no argument is an array; CuPy does for ufuncs alone. So
    modules, and functions taken from them, are replaced by proxies that take over the calls that get a tracer;
    Python functions of the same modules are made again likewise. Anything that is no plain function is left as it is.
    """
    reads: list[Read] = []
    return _Rebinder(recorder, reads).function(function), reads


class _Rebinder:
    def __init__(self, recorder: Recorder, reads: list[Read]):
        self.recorder = recorder
        self.reads = reads
        self.made: dict[int, Any] = {}

    def function(self, f: Callable) -> Callable:
        if isinstance(f, types.MethodType):
            return types.MethodType(self.function(f.__func__), f.__self__)
        if not isinstance(f, types.FunctionType):
            return f
        if id(f) in self.made:
            return self.made[id(f)]
        scope = dict(f.__globals__)
        made = types.FunctionType(f.__code__, scope, f.__name__, f.__defaults__, _cells(f))
        made.__kwdefaults__ = f.__kwdefaults__
        made.__qualname__ = f.__qualname__
        self.made[id(f)] = made
        for name in _names(f.__code__):
            if name in f.__globals__:
                self.reads.append(Read(f.__globals__, name, f.__globals__[name]))
                scope[name] = self.seen(f.__globals__[name])
        for name, before, after in zip(f.__code__.co_freevars, f.__closure__ or (), made.__closure__ or ()):
            try:
                value = before.cell_contents
            except ValueError:
                continue
            self.reads.append(Read(before, name, value))
            after.cell_contents = made if value is f else self.seen(value)
        return made

    def seen(self, value: Any) -> Any:
        """What the trace sees in place of a value from outside."""
        library = _library(value)
        if isinstance(value, types.ModuleType) and library:
            return ModuleProxy(value, library, self.recorder)
        if library == "cupy" and callable(value):
            name = getattr(value, "__name__", "") or getattr(value, "name", "")
            return bridge(value, name, self.recorder)
        if isinstance(value, types.FunctionType) and not library:
            return self.function(value) if _own(value) else value
        if hasattr(value, "shape") and str(getattr(value, "dtype", "")) in DTYPES and not isinstance(value, np.generic):
            return Tracer(self.recorder, self.recorder.capture(value), captured=True)
        return value


def _own(f: types.FunctionType) -> bool:
    """Whether a function may use arrays: the standard library's and this package's do not."""
    import sys

    root = (f.__module__ or "").split(".")[0]
    return root not in sys.stdlib_module_names and root != __name__.split(".")[0]


def _cells(f: types.FunctionType) -> tuple[types.CellType, ...]:
    return tuple(types.CellType() for _ in f.__closure__ or ())


def _names(code: types.CodeType) -> list[str]:
    """The global names of a function and of the functions inside it."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(_names(constant)))
    return list(found)


def _library(value: Any) -> str | None:
    """numpy or cupy, for a module of it or something that it defines."""
    home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    if home is None or not isinstance(home, str):
        home = type(value).__module__
    root = home.split(".")[0]
    if root in ("cupy", "cupyx"):
        return "cupy"
    return "numpy" if root == "numpy" else None


class ModuleProxy:
    """NumPy or CuPy while a function is traced: its calls on tracers build the graph, all else is the module's."""

    def __init__(self, module: types.ModuleType, library: str, recorder: Recorder):
        self.__dict__.update(_module=module, _library=library, _recorder=recorder)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, types.ModuleType):
            return ModuleProxy(found, self._library, self._recorder)
        if isinstance(found, type) or not callable(found):
            return found
        if self._library == "cupy" or name in CREATORS:
            return bridge(found, name, self._recorder)
        return found

    def __eq__(self, other: object) -> bool:
        return self._module is (other._module if isinstance(other, ModuleProxy) else other)

    def __hash__(self) -> int:
        return hash(self._module)


def bridge(function: Callable, name: str, recorder: Recorder) -> Callable:
    """`function`, or the language's function of that name where an argument is a tracer."""

    def call(*args: Any, **kwargs: Any) -> Any:
        from .numpy_functions import call_creator, call_function

        if name in CREATORS and _holds_tracer((args, kwargs)):
            return call_creator(recorder, name, args, kwargs)
        if name == "get_array_module" and _holds_tracer(args):
            return ModuleProxy(__import__(function.__module__.split(".")[0]), "cupy", recorder)
        if _holds_tracer((args, kwargs)):
            return call_function(recorder, name, args, kwargs)
        return function(*args, **kwargs)

    return call


def _holds_tracer(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_holds_tracer, value))
    if isinstance(value, dict):
        return any(map(_holds_tracer, value.values()))
    return isinstance(value, Tracer)
