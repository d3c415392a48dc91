"""User containers and objects in a trace: copies with tracers in place of arrays, and side effects to write back."""

from __future__ import annotations

import argparse
import enum
import functools
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import TraceError, Unsupported, kind_of
from .array_library import is_array
from .tracer import Tracer

DEPTH = 4  # levels of nesting that are searched for arrays
NAMESPACES = (types.SimpleNamespace, argparse.Namespace)  # standard library classes that hold user attributes
LIBRARIES = ("numpy", "cupy", "cupyx", "torch", __name__.split(".")[0])


@dataclass(frozen=True)
class TracedContainer:
    """A user object among the arguments, with parameters or values for its attributes."""

    owner: Any
    attributes: dict[str, Any]


def is_user_class(kind: type) -> bool:
    """True for a user-defined class: not of the standard library, an array library or this package."""
    if kind in NAMESPACES:
        return True
    root = (kind.__module__ or "").split(".")[0]
    return root not in sys.stdlib_module_names and root not in LIBRARIES


def attributes_of(value: Any) -> dict[str, Any] | None:
    """The attributes of an object, from its `__dict__` and slots; None if it has neither."""
    in_dict = getattr(value, "__dict__", None)
    slots = [name for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)]
    if type(in_dict) is not dict and not slots:
        return None
    return {**{name: getattr(value, name) for name in slots}, **(in_dict if type(in_dict) is dict else {})}


def _slots(kind: type) -> tuple[str, ...]:
    names = vars(kind).get("__slots__", ())
    names = (names,) if isinstance(names, str) else tuple(names)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__") and not name.startswith("__"))


def is_object(value: Any) -> bool:
    """True for an instance of a user class that can be rebuilt from its attributes."""
    kind = type(value)
    if isinstance(value, (type, types.FunctionType, types.ModuleType, enum.Enum, BaseException)) or not is_user_class(
        kind
    ):
        return False
    plain = kind.__new__ is object.__new__ or kind in NAMESPACES
    return plain and not is_torch_module(value) and attributes_of(value) is not None


def holds_arrays(value: Any, depth: int = DEPTH) -> bool:
    """True if a list, tuple, dict or user object contains an array, at any level."""
    if depth == 0:
        return False
    parts = _parts(value)
    return any(is_array(part) or holds_arrays(part, depth - 1) for part in parts)


def holds_functions(value: Any, depth: int = DEPTH) -> bool:
    """True if a container or user object contains a Python function, method or partial, at any level."""
    if depth == 0:
        return False
    functions = (types.FunctionType, types.MethodType, functools.partial)
    return any(isinstance(part, functions) or holds_functions(part, depth - 1) for part in _parts(value))


def _parts(value: Any) -> Any:
    if type(value) in (tuple, list):
        return value
    if isinstance(value, dict):
        return value.values()
    if is_torch_module(value):
        return ()
    return (attributes_of(value) or {}).values() if is_object(value) else ()


def is_torch_module(value: Any) -> bool:
    """True for an instance of torch.nn.Module."""
    nn = getattr(sys.modules.get("torch"), "nn", None)
    return nn is not None and isinstance(value, nn.Module)


class UnsupportedModule:
    """A stand-in for a torch.nn.Module, which raises Unsupported if it is used."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        raise Unsupported(
            "fuse over nn.Module is not supported", "unsupported.module", help="pass its parameters as arguments"
        )

    def __getattr__(self, name: str) -> Any:
        return self()


class ContainerCopies:
    """The container and object copies of one trace, and their attributes before it."""

    def __init__(self, rewrite: Callable[[Callable], Callable], proxy_of: Callable[[Any], Any]):
        self.rewrite = rewrite
        self.proxy_of = proxy_of
        self.classes: dict[type, type] = {}
        self.owners: dict[int, Any] = {}
        self.objects: list[tuple[Any, Any, dict[str, Any]]] = []
        self.containers: list[tuple[Any, Any]] = []

    def new_object(self, owner: Any) -> Any:
        """An empty object of a subclass of the owner's class whose methods are rewritten."""
        kind = type(owner)
        if kind not in self.classes:
            self.classes[kind] = self._traced_class(kind)
        create: Any = kind.__new__
        copy = create(self.classes[kind])
        self.owners[id(copy)] = owner
        return copy

    def fill(self, copy: Any, attributes: dict[str, Any]) -> Any:
        """The copy, with these attributes set."""
        slots = {name for kind in type(copy).__mro__ for name in _slots(kind)}
        for name, value in attributes.items():
            if name in slots:
                object.__setattr__(copy, name, value)
            else:
                copy.__dict__[name] = value
        self.objects.append((self.owners[id(copy)], copy, dict(attributes)))
        return copy

    def _traced_class(self, kind: type) -> type:
        methods: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
        for base in reversed(kind.__mro__):
            if is_user_class(base):
                methods |= {name: self._method(f) for name, f in vars(base).items() if _is_method(f)}
                methods |= {name: self.proxy_of(v) for name, v in vars(base).items() if is_array(v) or holds_arrays(v)}
        return type(kind.__name__, (kind,), methods)

    def _method(self, f: Any) -> Any:
        if isinstance(f, property):
            return property(f.fget and self.rewrite(f.fget), f.fset, f.fdel)
        if isinstance(f, (staticmethod, classmethod)):
            return type(f)(self.rewrite(f.__func__))
        return self.rewrite(f)

    def track(self, copy: Any) -> Any:
        """A list or dict that the function must not change."""
        self.containers.append((copy, copy.copy()))
        return copy

    def write_back(self) -> None:
        """Copy plain attribute writes to the real objects; TraceError if a traced array was stored."""
        for owner, copy, before in self.objects:
            now = attributes_of(copy) or {}
            for name, value in now.items():
                if name in before and before[name] is value:
                    continue
                if _has_tracer(value):
                    raise _leak(f"sets .{name} of {kind_of(owner)} to a traced array")
                setattr(owner, name, value)
        for now, before in self.containers:
            same = len(now) == len(before) and all(
                a is b for a, b in zip(_flat(now), _flat(before))
            )  # by identity: == of arrays is no bool
            if not same:
                raise _leak(f"changes {kind_of(now)} that holds arrays and that is not its own")


class SideEffects:
    """Mutations of the user's own lists and dicts: their contents before the function ran."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[Any, Any]] = {}

    def remember(self, value: Any, depth: int = DEPTH) -> None:
        """Record the contents of a value's lists and dicts, nested ones too."""
        if depth and id(value) not in self.before:
            if type(value) is list or isinstance(value, dict):
                self.before[id(value)] = value, value.copy()
            for part in _safe_parts(value):
                self.remember(part, depth - 1)

    def write_back(self) -> None:
        """Replace traced numbers that the function stored in them by Python numbers."""
        for now, _ in self.before.values():
            for key, part in list(enumerate(now) if type(now) is list else now.items()):
                if isinstance(part, Tracer) and part.is_number:
                    now[key] = part.item()

    def restore(self) -> None:
        """Restore the contents of lists and dicts that hold traced values, after a failed trace."""
        for now, before in self.before.values():
            if any(isinstance(part, Tracer) for part in _flat(now)):
                now.clear()
                now.extend(before) if type(now) is list else now.update(before)


def has_methods(kind: type) -> bool:
    """True if a class has user-defined methods, other than dunders that dataclasses generate."""
    methods = (name for base in kind.__mro__ if is_user_class(base) for name, f in vars(base).items() if _is_method(f))
    return any(not name.startswith("__") or name == "__call__" for name in methods)


def _is_method(f: Any) -> bool:
    return isinstance(f, (types.FunctionType, property, staticmethod, classmethod))


def _flat(container: Any) -> list:
    return [part for item in container.items() for part in item] if isinstance(container, dict) else list(container)


def _has_tracer(value: Any, depth: int = DEPTH) -> bool:
    if isinstance(value, Tracer):
        return True
    return depth > 0 and any(_has_tracer(part, depth - 1) for part in _safe_parts(value))


def _safe_parts(value: Any) -> Any:
    return _parts(value) if type(value) in (tuple, list) or isinstance(value, dict) or is_object(value) else ()


def refuse_leak(value: Any, name: str) -> None:
    """TraceError if a value from outside holds tracers after the trace."""
    if _has_tracer(value):
        raise _leak(f"puts a traced array into {name}, which outlives it")


def _leak(what: str) -> TraceError:
    return TraceError(
        f"the function {what}",
        "trace.leak",
        help="return the array and store it outside, or write in place: x[...] = new",
    )
