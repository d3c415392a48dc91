"""A function made again with the modules that it names seen through proxies, and a record of what it reads."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .tracer import Tracer

if TYPE_CHECKING:
    from .recorder import Recorder

PLAIN = (int, float, str, bytes, type(None))
# Functions that dispatch on no array, and those of them whose arrays a function may go on to write.
CREATORS = (
    "arange", "zeros", "ones", "full", "empty", "tensor", "scalar_tensor",
    "array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray",
)  # fmt: skip
FILLED = {"numpy": ("zeros", "ones", "full", "empty"), "cupy": (), "torch": ("zeros", "ones", "full", "empty")}


class Same:
    """An object as the part of a snapshot that only the same object equals."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def snapshot(value: Any, depth: int = 4) -> Any:
    """What a trace takes for granted of a value, to be compared later: plain values, and the plain values that
    containers and objects hold, by value; everything else by identity."""
    if isinstance(value, PLAIN):
        return type(value), repr(value) if isinstance(value, float) else value
    if depth == 0:
        return Same(value)
    if type(value) in (tuple, list):
        return type(value), tuple([snapshot(part, depth - 1) for part in value])
    if type(value) is dict:
        return dict, tuple([(snapshot(k, depth - 1), snapshot(part, depth - 1)) for k, part in value.items()])
    if type(value) in (set, frozenset):
        return type(value), frozenset([snapshot(part, depth - 1) for part in value])
    if type(value) is slice:
        return slice, tuple([snapshot(part, depth - 1) for part in (value.start, value.stop, value.step)])
    if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, np.generic):
        return Same(value)
    return _object(value, depth)


def _object(value: Any, depth: int) -> Any:
    """Objects that compare by value are taken by value; of the user's others, what they hold."""
    kind, held = type(value), getattr(value, "__dict__", None)
    by_value, hashed = kind.__eq__ is not object.__eq__, kind.__hash__ is not None
    if by_value and hashed:
        return kind, value
    if type(held) is dict and _is_users(kind) and not isinstance(value, (type, types.FunctionType)):
        return kind if by_value else Same(value), snapshot(held, depth - 1)
    return Same(value)


def _is_users(kind: type) -> bool:
    """Whether objects of a class are the user's own: not Python's, the array libraries' or this package's."""
    root = (kind.__module__ or "").split(".")[0]
    return root not in sys.stdlib_module_names and root not in (
        "numpy",
        "cupy",
        "cupyx",
        "torch",
        __name__.split(".")[0],
    )


@dataclass(frozen=True)
class Read:
    """A name that a function reads from its globals or closure (a cell has no name), or an attribute of a module that
    it may read, and a snapshot of the value it had."""

    scope: Any  # the names, or the cell
    name: str
    value: Any

    def holds(self) -> bool:
        try:
            now = self.scope.cell_contents if isinstance(self.scope, types.CellType) else self.scope[self.name]
        except (ValueError, KeyError):  # an empty cell; a name that is gone
            return False
        return snapshot(now) == self.value


def rebind(function: Callable, recorder: Recorder) -> tuple[Callable, list[Read]]:
    """The function as the trace calls it, and the names that it reads from outside.

    NumPy dispatches on tracers by itself, except where no argument is an array; CuPy does for ufuncs alone. So
    modules, and functions taken from them, are replaced by proxies that take over the calls that get a tracer;
    Python functions of the same modules are made again likewise. Anything that is no plain function is left as it is.
    """
    reads: list[Read] = []
    recorder.rebound = _Rebinder(recorder, reads).function
    return recorder.rebound(function), reads


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
        made = types.FunctionType(
            f.__code__, scope, f.__name__, f.__defaults__ and tuple(map(self.seen, f.__defaults__)), _cells(f)
        )
        made.__kwdefaults__ = f.__kwdefaults__ and {name: self.seen(value) for name, value in f.__kwdefaults__.items()}
        made.__qualname__ = f.__qualname__
        self.made[id(f)] = made
        names = _names(f.__code__)
        for name in names:
            if name in f.__globals__:
                value = f.__globals__[name]
                self.read(f.__globals__, name, value)
                if isinstance(value, types.ModuleType) and not _library(value):
                    self.read_module(value, names)
                scope[name] = self.seen(value)
        for name, before, after in zip(f.__code__.co_freevars, f.__closure__ or (), made.__closure__ or ()):
            try:
                value = before.cell_contents
            except ValueError:
                continue
            self.read(before, name, value)
            after.cell_contents = made if value is f else self.seen(value)
        return made

    def read(self, scope: Any, name: str, value: Any) -> None:
        self.reads.append(Read(scope, name, snapshot(value)))

    def read_module(self, module: types.ModuleType, names: list[str]) -> None:
        """The plain values of a module that attributes in the code may name."""
        for name in vars(module).keys() & set(names):
            if isinstance(vars(module)[name], (*PLAIN, tuple, list, dict)):
                self.read(vars(module), name, vars(module)[name])

    def seen(self, value: Any) -> Any:
        """What the trace sees in place of a value from outside."""
        library = _library(value)
        if isinstance(value, types.ModuleType) and library:
            return ModuleProxy(value, library, self.recorder)
        if library in ("cupy", "torch") and callable(value) and not isinstance(value, type):
            name = getattr(value, "__name__", "") or getattr(value, "name", "")
            return bridge(value, name, self.recorder, library)
        if isinstance(value, types.FunctionType) and not library:
            return self.function(value) if _own(value) else value
        return self.recorder.lifted(value)


def _own(f: types.FunctionType) -> bool:
    """Whether a function may use arrays: the standard library's and this package's do not."""
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
    """numpy, cupy or torch, for a module of it or something that it defines."""
    home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    if home is None or not isinstance(home, str):
        home = type(value).__module__
    root = home.split(".")[0]
    if root in ("cupy", "cupyx"):
        return "cupy"
    return root if root in ("numpy", "torch") else None


class ModuleProxy:
    """NumPy or CuPy while a function is traced: its calls on tracers build the graph, all else is the module's."""

    def __init__(self, module: types.ModuleType, library: str, recorder: Recorder):
        self.__dict__.update(_module=module, _library=library, _recorder=recorder)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, types.ModuleType):
            return ModuleProxy(found, self._library, self._recorder)
        if self._library == "torch" and name == "Tensor":
            return TensorClass
        if isinstance(found, type) or not callable(found):
            return found
        if self._library != "numpy" or name in CREATORS:
            return bridge(found, name, self._recorder, self._library)
        return found

    def __eq__(self, other: object) -> bool:
        return self._module is (other._module if isinstance(other, ModuleProxy) else other)

    def __hash__(self) -> int:
        return hash(self._module)


def bridge(function: Callable, name: str, recorder: Recorder, library: str) -> Callable:
    """`function`, or the language's function of that name where an argument is a tracer."""

    def call(*args: Any, **kwargs: Any) -> Any:
        from .numpy_functions import call_creator, call_function

        if name in CREATORS and (_holds_tracer((args, kwargs)) or name in FILLED[library]):
            create = call_creator if library != "torch" else _torch("torch_math").create
            return create(recorder, name, args, kwargs)
        if name == "get_array_module" and _holds_tracer(args):
            return ModuleProxy(__import__(function.__module__.split(".")[0]), "cupy", recorder)
        if not _holds_tracer((args, kwargs)):
            return function(*args, **kwargs)
        if library == "torch":
            functions = _torch("torch_functions")
            return functions.call(recorder, functions.name_of(function), args, kwargs)
        return call_function(recorder, name, args, kwargs)

    return functools.update_wrapper(call, function) if isinstance(function, types.FunctionType) else call


def _torch(name: str) -> Any:
    return importlib.import_module(f"{__package__}.{name}")


class _IsTensor(type):
    def __instancecheck__(cls, x: Any) -> bool:
        import torch

        return isinstance(x, torch.Tensor) or (type(x) is not Tracer and isinstance(x, Tracer) and not x.is_number)

    def __getattr__(cls, name: str) -> Any:
        import torch

        return getattr(torch.Tensor, name)


class TensorClass(metaclass=_IsTensor):
    """torch.Tensor as a traced function sees it: its instances are tensors, traced or not."""


def _holds_tracer(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_holds_tracer, value))
    if isinstance(value, dict):
        return any(map(_holds_tracer, value.values()))
    return isinstance(value, Tracer)
