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

from ..errors import TraceError, Unsupported
from ..ir.graph import Parameter
from .held import (
    Copies,
    Held,
    attributes_of,
    has_methods,
    holds_arrays,
    is_object,
    is_users,
    refuse_leak,
    refuse_module,
)
from .recorder import is_array
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
    kind = type(value)
    held = attributes_of(value) if is_users(kind) else None
    by_value, hashed = kind.__eq__ is not object.__eq__, kind.__hash__ is not None
    if by_value and hashed:
        return kind, value
    if held is not None and not isinstance(value, (type, types.FunctionType)):
        return kind if by_value else Same(value), snapshot(held, depth - 1)
    return Same(value)


@dataclass(frozen=True)
class Read:
    """A name that a function reads from its globals or closure (a cell has no name), or an attribute of a module that
    it may read, and a snapshot of the value it had."""

    scope: Any  # the names, or the cell
    name: str
    value: Any
    seen: Any = None  # what the snapshot is of

    def holds(self) -> bool:
        if isinstance(self.scope, Ambient):
            return self.scope.now() == self.value
        try:
            now = self.scope.cell_contents if isinstance(self.scope, types.CellType) else self.scope[self.name]
        except (ValueError, KeyError):  # an empty cell; a name that is gone
            return False
        return snapshot(now) == self.value


class Ambient:
    """What torch's functions depend on beside their arguments: the default dtype, and whether autocast is on."""

    def __init__(self, device: str):
        self.device = device

    def now(self) -> tuple:
        import torch

        return torch.get_default_dtype(), torch.is_autocast_enabled(self.device)


class Rebinder:
    """The functions and values of one trace that stand for those outside, and what they read there.

    NumPy dispatches on tracers by itself, except where no argument is an array; CuPy does for ufuncs alone; torch's
    functions do, but isinstance does not. So modules, and functions taken from them, are replaced by proxies that take
    over the calls that get a tracer; Python functions, methods and partials of the user's are made again likewise, and
    so are lists, dicts and objects that hold arrays. Anything else is left as it is.
    """

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        recorder.rebound = self.function
        self.reads: list[Read] = []
        if recorder.kind is not Tracer:
            self.reads.append(_ambient(recorder.example.device.type))
        self.copies = Copies(self.function, self.seen)
        self._made: dict[int, Any] = {}
        self._kept: list[Any] = []  # what _made knows by id
        self._scopes: list[tuple[Any, Any, dict[str, Any]]] = []

    def function(self, f: Callable) -> Callable:
        """A function, method or partial that sees proxies and tracers where it names what is outside."""
        if isinstance(f, types.MethodType):
            self.read({"self": f.__self__}, "self", f.__self__)
            return types.MethodType(self.function(f.__func__), self.seen(f.__self__))
        if isinstance(f, functools.partial):
            self.read({"partial": (f.args, f.keywords)}, "partial", (f.args, f.keywords))
            named = {name: self.seen(value) for name, value in f.keywords.items()}
            return functools.partial(self.function(f.func), *map(self.seen, f.args), **named)
        if not isinstance(f, types.FunctionType):
            return self.seen(f) if is_object(f) else f
        return self._made[id(f)] if id(f) in self._made else self._function(f)

    def _function(self, f: types.FunctionType) -> Callable:
        scope = dict(f.__globals__)
        defaults = f.__defaults__ and tuple(map(self.seen, f.__defaults__))
        made = types.FunctionType(f.__code__, scope, f.__name__, defaults, _cells(f))
        made.__kwdefaults__ = f.__kwdefaults__ and {name: self.seen(value) for name, value in f.__kwdefaults__.items()}
        made.__qualname__ = f.__qualname__
        self._keep(f, made)
        names = [name for name in _names(f.__code__) if name in f.__globals__]
        for name in names:
            self.read(f.__globals__, name, f.__globals__[name])
            scope[name] = self.seen(f.__globals__[name])
        self._scopes.append((f.__globals__, scope, {name: scope.get(name) for name in _names(f.__code__)}))
        for name, before, after in zip(f.__code__.co_freevars, f.__closure__ or (), made.__closure__ or ()):
            try:
                value = before.cell_contents
            except ValueError:
                continue
            self.read(before, name, value)
            after.cell_contents = made if value is f else self.seen(value)
            self._scopes.append((before, after, {name: after.cell_contents}))
        return made

    def _keep(self, value: Any, made: Any) -> None:
        self._made[id(value)] = made
        self._kept.append(value)

    def read(self, scope: Any, name: str, value: Any) -> None:
        """Remember what a name outside stands for."""
        self.reads.append(Read(scope, name, snapshot(value), value))

    def read_class(self, kind: type) -> None:
        """Remember the plain attributes of a class of the user's."""
        if id(kind) in self._made:
            return
        self._keep(kind, kind)
        for base in kind.__mro__:
            for name, value in vars(base).items() if is_users(base) else ():
                if (isinstance(value, (*PLAIN, tuple, list, dict)) or is_array(value)) and not name.startswith("__"):
                    self.read(vars(base), name, value)

    def seen(self, value: Any) -> Any:
        """What the trace sees in place of a value from outside."""
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if type(value).__module__ in RANDOM:
            return Randomness(f"a {type(value).__name__}")
        refuse_module(value)
        library = _library(value)
        if library in ("cupy", "torch") and callable(value) and not isinstance(value, type) and not is_array(value):
            name = getattr(value, "__name__", "") or getattr(value, "name", "")
            return bridge(value, name, self.recorder, library)
        if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)) and not library:
            return self.function(value) if _own(value) else value
        if isinstance(value, type):
            self.read_class(value)
            if any(
                is_array(v) or holds_arrays(v) for base in value.__mro__ if is_users(base) for v in vars(base).values()
            ):
                return UserClass(value, self)
        elif (type(value) in (tuple, list, dict) or is_object(value)) and not is_array(value):
            return self._opened(value)
        return self.recorder.lifted(value)

    def _module(self, module: types.ModuleType) -> Any:
        library, root = _library(module), module.__name__.split(".")[0]
        if root in RANDOM:
            return Randomness(root)
        if library:
            return ModuleProxy(module, library, self.recorder)
        return module if root in sys.stdlib_module_names or root == __name__.split(".")[0] else UserModule(module, self)

    def _opened(self, value: Any) -> Any:
        """A container that holds arrays, or an object, with what the trace sees inside of it."""
        if id(value) in self._made:
            return self._made[id(value)]
        if is_object(value):
            self.read_class(type(value))
            if not holds_arrays(value) and not has_methods(type(value)):
                return value
            made = self.copies.blank(value)
            self._keep(value, made)
            return self.copies.filled(made, {name: self.seen(v) for name, v in (attributes_of(value) or {}).items()})
        if not holds_arrays(value):
            return value
        if type(value) is tuple:
            return tuple(map(self.seen, value))
        made = type(value)()
        self._keep(value, made)
        if type(value) is dict:
            made.update((key, self.seen(part)) for key, part in value.items())
        else:
            made.extend(map(self.seen, value))
        return self.copies.container(made)

    def opened_argument(self, value: Any, tracer: Callable[[], Tracer]) -> Any:
        """An argument of the call, with tracers in place of its Parameters."""
        if isinstance(value, Parameter):
            return tracer()
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.opened_argument(part, tracer) for part in value))
        if isinstance(value, Held):
            attributes = {name: self.opened_argument(part, tracer) for name, part in value.attributes.items()}
            self.read_class(type(value.owner))
            return self.copies.filled(self.copies.blank(value.owner), attributes)
        if type(value) in (tuple, list):
            parts = type(value)(self.opened_argument(part, tracer) for part in value)
            return parts if type(value) is tuple else self.copies.container(parts)
        if type(value) is dict:
            return self.copies.container({key: self.opened_argument(part, tracer) for key, part in value.items()})
        return self.seen(value)

    def settle(self) -> None:
        """After the trace: plain values that the function gave to names outside go there; traced arrays cannot."""
        self.copies.settle()
        for outside, inside, before in self._scopes:
            for name, value in before.items():
                now = inside.cell_contents if isinstance(inside, types.CellType) else inside.get(name)
                if now is value:
                    continue
                now = now.item() if isinstance(now, Tracer) and now.is_number else now
                refuse_leak(now, name)
                if isinstance(outside, types.CellType):
                    outside.cell_contents = now
                else:
                    outside[name] = now
        for read in self.reads:
            if type(read.seen) in (list, dict) or is_object(read.seen):
                refuse_leak(read.seen, read.name)


def _ambient(device: str) -> Read:
    """torch's surroundings; autocast would change dtypes behind the function's back."""
    scope = Ambient(device)
    if scope.now()[1]:
        raise Unsupported(
            "autocast in a traced function is not there yet", code="unsupported.autocast", help="cast where you mean to"
        )
    return Read(scope, "torch", scope.now())


def _own(f: Any) -> bool:
    """Whether a function may use arrays: the standard library's and this package's do not."""
    f = f.func if isinstance(f, functools.partial) else f
    root = (getattr(f, "__module__", None) or "").split(".")[0]
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


class UserModule:
    """A module of the user's: what is taken from it is remade, and read again at each call."""

    def __init__(self, module: types.ModuleType, rebinder: Rebinder):
        self.__dict__.update(_module=module, _rebinder=rebinder)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if name in vars(self._module):
            self._rebinder.read(vars(self._module), name, found)
        return self._rebinder.seen(found)


class UserClass:
    """A class of the user's that holds arrays: what is taken from it is seen as from anywhere outside."""

    def __init__(self, kind: type, rebinder: Rebinder):
        self.__dict__.update(_kind=kind, _rebinder=rebinder)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._kind, name)
        return found if name.startswith("__") else self._rebinder.seen(found)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._kind(*args, **named)

    def __instancecheck__(self, x: Any) -> bool:
        return isinstance(x, self._kind)


class Randomness:
    """A generator of random numbers, which a trace would ask once for all calls."""

    def __init__(self, what: str):
        self.__dict__["_what"] = what

    def __getattr__(self, name: str) -> Any:
        raise TraceError(
            f"{self._what} draws random numbers while the function is traced, once for all calls",
            code="trace.random",
            help="pass them as an argument, or use uniform(seed, x) and normal(seed, x) of fd.kernel",
        )


# Modules, and modules of classes, whose functions give other results at each call.
RANDOM = ("random", "secrets", "numpy.random", "numpy.random._generator", "numpy.random.mtrand", "cupy.random")
DRAWN = frozenset([
    "rand", "randn", "randint", "random", "normal", "randperm", "bernoulli", "multinomial", "rand_like", "randn_like",
    "randint_like", "poisson",
])  # fmt: skip


class ModuleProxy:
    """NumPy or CuPy while a function is traced: its calls on tracers build the graph, all else is the module's."""

    def __init__(self, module: types.ModuleType, library: str, recorder: Recorder):
        self.__dict__.update(_module=module, _library=library, _recorder=recorder)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if getattr(found, "__name__", "") in RANDOM or (self._library == "torch" and name in DRAWN):
            random = Randomness(f"{self._module.__name__}.{name}")
            return random if isinstance(found, types.ModuleType) else lambda *args, **named: random.draw
        if isinstance(found, types.ModuleType):
            return ModuleProxy(found, self._library, self._recorder)
        if self._library == "torch" and name == "Tensor":
            return TensorClass
        if self._library == "torch" and name == "autocast":
            raise Unsupported("autocast in a traced function is not there yet", code="unsupported.autocast")
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
