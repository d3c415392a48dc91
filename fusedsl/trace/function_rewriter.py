"""Rewrites functions for a trace: copies of them whose globals, closures and defaults are proxies and tracers."""

from __future__ import annotations

import copy
import dis
import functools
import sys
import types
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from ..errors import kind_of
from ..ir.graph import Parameter
from .array_library import is_array, library
from .containers import (
    ContainerCopies,
    SideEffects,
    TracedContainer,
    UnsupportedModule,
    attributes_of,
    has_methods,
    holds_arrays,
    holds_functions,
    is_object,
    is_torch_module,
    is_user_class,
    refuse_leak,
)
from .guards import PLAIN, Guard, guard_ambient_state, snapshot
from .numba_functions import python_function
from .numpy.lists import is_numpy_function
from .proxies import (
    RANDOM_MODULES,
    ModuleProxy,
    RandomProxy,
    TypeProxy,
    UserClassProxy,
    UserModuleProxy,
    compiled_or_traced,
    dispatching,
    library_of,
    numpy_proxy,
)
from .recorder import Recorder
from .tracer import Tracer
from .undescribed import UndescribedAttribute


class FunctionRewriter:
    """The replacements of outside functions and values in one trace, and the guards on what they read.

    NumPy dispatches on tracers, unless no argument is an array; CuPy dispatches for ufuncs only; torch's functions
    dispatch, but isinstance does not. So modules and their functions become proxies that intercept calls with a tracer.
    User functions, methods and partials are copied with such globals, and lists, dicts and objects that hold arrays are
    copied with tracers. All other values are used directly.
    """

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        recorder.rewrite = self.rewrite
        self.state_guards: list[Guard] = []
        self.side_effects = SideEffects()
        if recorder.kind is not Tracer or recorder.library_discovered:
            self.state_guards.append(
                guard_ambient_state(library(type(recorder.example)), recorder.example, recorder.library_discovered)
            )
        self.copies = ContainerCopies(self.rewrite, self.proxy_of)
        self._rewritten: dict[int, Any] = {}
        self._alive: list[Any] = []  # the keys of _rewritten are ids: keeps their objects alive
        self._scopes: list[tuple[Any, Any, dict[str, Any]]] = []

    def rewrite(self, f: Callable) -> Callable:
        """A copy of a function, method or partial whose outside names are proxies and tracers."""
        if isinstance(f, types.MethodType):
            self.read({"self": f.__self__}, "self", f.__self__)
            return types.MethodType(self.rewrite(f.__func__), self.proxy_of(f.__self__))
        if isinstance(f, functools.partial):
            self.read({"partial": (f.args, f.keywords)}, "partial", (f.args, f.keywords))
            named = {name: self.proxy_of(value) for name, value in f.keywords.items()}
            return functools.partial(self.rewrite(f.func), *map(self.proxy_of, f.args), **named)
        if library_of(f) in ("cupy", "torch") or is_object(f) or is_torch_module(f):
            return self.proxy_of(f)
        if not isinstance(f, types.FunctionType):
            return f
        return self._rewritten[id(f)] if id(f) in self._rewritten else self._function(f)

    def _function(self, f: types.FunctionType) -> Callable:
        scope = dict(f.__globals__)
        for given in filter(None, (f.__defaults__, f.__kwdefaults__)):
            self.read({"defaults": given}, "defaults", given)
        defaults = f.__defaults__ and tuple(map(self.proxy_of, f.__defaults__))
        rewritten = types.FunctionType(f.__code__, scope, f.__name__, defaults, _cells(f))
        rewritten.__kwdefaults__ = f.__kwdefaults__ and {
            name: self.proxy_of(value) for name, value in f.__kwdefaults__.items()
        }
        rewritten.__qualname__ = f.__qualname__
        self._remember(f, rewritten)
        if "type" in _names(f.__code__) and "type" not in f.__globals__:
            scope["type"] = TypeProxy
        names = [name for name in _names(f.__code__) if name in f.__globals__]
        for name in names:
            self.read(f.__globals__, name, f.__globals__[name])
            scope[name] = self.proxy_of(f.__globals__[name])
        self._scopes.append((f.__globals__, scope, {name: scope.get(name) for name in _names(f.__code__)}))
        for name, before, after in zip(f.__code__.co_freevars, f.__closure__ or (), rewritten.__closure__ or ()):
            try:
                value = before.cell_contents
            except ValueError:
                continue
            self.read(before, name, value)
            after.cell_contents = rewritten if value is f else self.proxy_of(value)
            self._scopes.append((before, after, {name: after.cell_contents}))
        return rewritten

    def _remember(self, value: Any, replacement: Any) -> None:
        self._rewritten[id(value)] = replacement
        self._alive.append(value)

    def read(self, scope: Any, name: str, value: Any) -> None:
        """Guard a name outside, with a snapshot of its value."""
        self.state_guards.append(Guard(scope, name, snapshot(value), value))
        if name.isidentifier() and name.isascii():
            self.recorder.outside.setdefault(id(value), name)
        self.side_effects.remember(value)

    def read_class(self, kind: type) -> None:
        """Guard the plain attributes of a user class."""
        if id(kind) in self._rewritten:
            return
        self._remember(kind, kind)
        for base in kind.__mro__:
            for name, value in vars(base).items() if is_user_class(base) else ():
                if (isinstance(value, (*PLAIN, tuple, list, dict)) or is_array(value)) and not name.startswith("__"):
                    self.read(vars(base), name, value)

    def proxy_of(self, value: Any) -> Any:
        """The proxy, copy or tracer for a value from outside; the value itself if none is needed."""
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if type(value).__module__ in RANDOM_MODULES:
            return RandomProxy(kind_of(value))
        if is_torch_module(value):
            return UnsupportedModule()
        library = library_of(value)
        if library in ("cupy", "torch") and callable(value) and not isinstance(value, type) and not is_array(value):
            name = getattr(value, "__name__", "") or getattr(value, "name", "")
            return dispatching(value, name, self.recorder, library)
        if library == "numpy" and is_numpy_function(value):
            return numpy_proxy(value, value.__name__, self.recorder)
        if (plain := python_function(value)) is not None:
            return compiled_or_traced(value, self.rewrite(plain))
        if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)) and not library:
            return self.rewrite(value) if _may_use_arrays(value) else value
        if isinstance(value, type):
            self.read_class(value)
            if any(
                is_array(v) or holds_arrays(v)
                for base in value.__mro__
                if is_user_class(base)
                for v in vars(base).values()
            ):
                return UserClassProxy(value, self)
        elif (type(value) in (tuple, list) or isinstance(value, dict) or is_object(value)) and not is_array(value):
            return self._wrap_container(value)
        return self.recorder.lifted(value)

    def _module(self, module: types.ModuleType) -> Any:
        library, root = library_of(module), module.__name__.split(".")[0]
        if root in RANDOM_MODULES:
            return RandomProxy(root)
        if library:
            return ModuleProxy(module, library, self.recorder)
        is_foreign = root in sys.stdlib_module_names or root == __name__.split(".")[0]
        return module if is_foreign else UserModuleProxy(module, self)

    def _wrap_container(self, value: Any) -> Any:
        """A copy of a container or object, with proxies for its parts; itself if it holds no arrays or functions."""
        if id(value) in self._rewritten:
            return self._rewritten[id(value)]
        if is_object(value):
            self.read_class(type(value))
            if not holds_arrays(value) and not holds_functions(value) and not has_methods(type(value)):
                return value
            replacement: Any = self.copies.new_object(value)
            self._remember(value, replacement)
            return self.copies.fill(
                replacement, {name: self.proxy_of(v) for name, v in (attributes_of(value) or {}).items()}
            )
        if not holds_arrays(value) and not holds_functions(value):
            return value
        if type(value) is tuple:
            return tuple(map(self.proxy_of, value))
        replacement = copy.copy(value) if isinstance(value, dict) else []
        self._remember(value, replacement)
        if isinstance(value, dict):
            replacement.update((key, self.proxy_of(part)) for key, part in value.items())
        else:
            replacement.extend(map(self.proxy_of, value))
        return self.copies.track(replacement)

    def wrap_argument(self, value: Any, tracer: Callable[[], Tracer]) -> Any:
        """An argument of the call, with tracers in place of Parameters."""
        if isinstance(value, Parameter):
            return tracer()
        if isinstance(value, UndescribedAttribute):
            return value
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.wrap_argument(part, tracer) for part in value))
        if isinstance(value, TracedContainer):
            own = attributes_of(value.owner) or {}
            attributes = {
                name: self.proxy_of(part) if part is own.get(name) else self.wrap_argument(part, tracer)
                for name, part in value.attributes.items()
            }
            self.read_class(type(value.owner))
            return self.copies.fill(self.copies.new_object(value.owner), attributes)
        if type(value) in (tuple, list):
            parts = type(value)(self.wrap_argument(part, tracer) for part in value)
            return parts if type(value) is tuple else self.copies.track(parts)
        if type(value) is dict:
            return self.copies.track({key: self.wrap_argument(part, tracer) for key, part in value.items()})
        return self.proxy_of(value)

    @contextmanager
    def restored_on_error(self):
        """Restore mutated lists and dicts if the trace fails."""
        try:
            yield
        except BaseException:
            self.side_effects.restore()
            raise

    def write_back(self) -> None:
        """Write plain values back to outside names after the trace; TraceError if one is a traced array."""
        self.side_effects.write_back()
        self.copies.write_back()
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
        for guard in self.state_guards:
            if isinstance(guard.original, (list, dict)) or is_object(guard.original):
                refuse_leak(guard.original, guard.name)


def _may_use_arrays(f: Any) -> bool:
    """True if a function may use arrays: not one of the standard library or this package."""
    f = f.func if isinstance(f, functools.partial) else f
    root = (getattr(f, "__module__", None) or "").split(".")[0]
    return root not in sys.stdlib_module_names and root != __name__.split(".")[0]


def _cells(f: types.FunctionType) -> tuple[types.CellType, ...]:
    return tuple(types.CellType() for _ in f.__closure__ or ())


def _names(code: types.CodeType) -> list[str]:
    """The global names of a function and its nested functions (`co_names` would include attributes)."""
    steps = dis.get_instructions(code)
    names = dict.fromkeys(step.argval for step in steps if "GLOBAL" in step.opname or step.opname == "LOAD_NAME")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(dict.fromkeys(_names(constant)))
    return list(names)
