"""Proxies of modules, classes and random generators in a traced function: they intercept calls with tracers."""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from ..errors import TraceError, Unsupported
from .numpy import lists
from .recorder import Recorder
from .tracer import Tracer, recorder_in

# Factory functions: they have no array arguments to dispatch on. WRITABLE_CREATORS: whose result is often written.
CREATORS = (
    "arange", "zeros", "ones", "full", "empty", "tensor", "scalar_tensor",
    "array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray",
)  # fmt: skip
TORCH_CREATORS = (*CREATORS, "linspace", "eye", "as_tensor")
WRITABLE_CREATORS = {
    "numpy": ("zeros", "ones", "full", "empty"),
    "cupy": (),
    "torch": ("zeros", "ones", "full", "empty"),
}


def library_of(value: Any) -> str | None:
    """ "numpy", "cupy" or "torch" for one of their modules, or an object defined there; else None."""
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    if module is None or not isinstance(module, str):
        module = getattr(value, "__objclass__", type(value)).__module__  # the class of a method, torch.Tensor.add
    root = module.split(".")[0]
    if module.startswith("torch.testing."):  # tests of torch are user code
        return None
    if root in ("cupy", "cupyx"):
        return "cupy"
    return root if root in ("numpy", "torch") else None


class Rewriter(Protocol):
    """The rewriter of a trace, as proxies use it."""

    def read(self, scope: Any, name: str, value: Any) -> None: ...

    def proxy_of(self, value: Any) -> Any: ...


class UserModuleProxy:
    """A user module: its attributes are proxied and guarded."""

    def __init__(self, module: types.ModuleType, rewriter: Rewriter):
        self.__dict__.update(_module=module, _rewriter=rewriter)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._module, name)
        if name in vars(self._module):
            self._rewriter.read(vars(self._module), name, member)
        return self._rewriter.proxy_of(member)


class UserClassProxy:
    """A user class with array attributes: its attributes are proxied."""

    def __init__(self, kind: type, rewriter: Rewriter):
        self.__dict__.update(_kind=kind, _rewriter=rewriter)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._kind, name)
        return member if name.startswith("__") else self._rewriter.proxy_of(member)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._kind(*args, **named)

    def __instancecheck__(self, x: Any) -> bool:
        return isinstance(x, self._kind)


class RandomProxy:
    """A random number generator, refused: a trace would draw once for all calls."""

    def __init__(self, what: str):
        self.__dict__["_what"] = what

    def __getattr__(self, name: str) -> Any:
        self.refuse()

    def refuse(self, *args: Any, **named: Any) -> NoReturn:
        """Raise: also in the place of a random function, whatever its arguments."""
        raise TraceError(
            f"{self._what} draws random numbers while the function is traced, once for all calls",
            "trace.random",
            help="pass them as an argument, or use uniform, normal, randint and permutation of fd.kernel",
        )


# Modules, and modules of classes, whose functions are random; TORCH_RANDOM: random functions of torch itself.
RANDOM_MODULES = ("random", "secrets", "numpy.random", "numpy.random._generator", "numpy.random.mtrand", "cupy.random")
TORCH_RANDOM = frozenset([
    "rand", "randn", "randint", "random", "normal", "randperm", "bernoulli", "multinomial", "rand_like", "randn_like",
    "randint_like", "poisson",
])  # fmt: skip


class ModuleProxy:
    """NumPy, CuPy or torch in a traced function: calls with tracers build the graph, all else passes through."""

    def __init__(self, module: types.ModuleType, library: str, recorder: Recorder):
        self.__dict__.update(_module=module, _library=library, _recorder=recorder)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._module, name)
        if getattr(member, "__name__", "") in RANDOM_MODULES or (self._library == "torch" and name in TORCH_RANDOM):
            random = RandomProxy(f"{self._module.__name__}.{name}")
            return random if isinstance(member, types.ModuleType) else random.refuse
        if isinstance(member, types.ModuleType):
            return ModuleProxy(member, self._library, self._recorder)
        if self._library == "torch" and name == "Tensor":
            return TensorProxy
        if self._library == "torch" and name == "autocast":
            raise Unsupported(
                "autocast in a traced function is not supported",
                "unsupported.autocast",
                help="cast with x.to(dtype); 16-bit numbers are computed in float32 anyway",
            )
        if self._library == "torch" and name in ("vmap", "func"):
            raise Unsupported(
                f"torch.{name} in a traced function is not supported",
                "unsupported.trace",
                help="write it for whole tensors, with another dimension",
            )
        if self._library == "numpy" and name in ("r_", "c_"):
            return lists.AxisConcatenator(member, self._recorder, name == "c_")
        if isinstance(member, type) or not callable(member):
            return member
        if self._library != "numpy":
            return dispatching(member, name, self._recorder, self._library)
        return self.__dict__.setdefault(name, numpy_proxy(member, name, self._recorder))

    def __eq__(self, other: object) -> bool:
        return self._module is (other._module if isinstance(other, ModuleProxy) else other)

    def __hash__(self) -> int:
        return hash(self._module)


def numpy_proxy(function: Callable, name: str, recorder: Recorder) -> Any:
    """The proxy of a NumPy function."""
    if name in CREATORS:
        return dispatching(function, name, recorder, "numpy")
    return lists.list_accepting(function, name, recorder)


def dispatching(function: Callable, name: str, recorder: Recorder, library: str) -> Callable:
    """A wrapper that calls `function`, or the language's function of that name if an argument is a tracer."""

    def call(*args: Any, **kwargs: Any) -> Any:
        from .numpy.creation import call_creator
        from .numpy.functions import call_function

        creators = TORCH_CREATORS if library == "torch" else CREATORS
        if _holds_tracer((args, kwargs)) or name in WRITABLE_CREATORS[library]:
            recorder.discover_library(library, kwargs.get("device"))
        if name in creators and (_holds_tracer((args, kwargs)) or name in WRITABLE_CREATORS[library]):
            create = call_creator if library != "torch" else _torch("torch.creation").create
            return create(recorder, name, args, kwargs)
        if name == "get_array_module" and _holds_tracer(args):
            return ModuleProxy(__import__(function.__module__.split(".")[0]), "cupy", recorder)
        if not _holds_tracer((args, kwargs)):
            return function(*args, **kwargs)
        if library == "torch":
            functions = _torch("torch.functions")
            return functions.call(recorder, functions.name_of(function), args, kwargs)
        return call_function(recorder, name, args, kwargs)

    for overload in function.overloads() if hasattr(function, "overloads") else ():  # torch.ops.aten.add.Tensor
        setattr(call, overload, dispatching(getattr(function, overload), name, recorder, library))
    return functools.update_wrapper(call, function) if isinstance(function, types.FunctionType) else call


def compiled_or_traced(compiled: Callable, traced: Callable) -> Callable:
    """A wrapper that calls `compiled`, or its equivalent `traced` if an argument is a tracer."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return (traced if _holds_tracer((args, kwargs)) else compiled)(*args, **kwargs)

    return call


def _torch(name: str) -> Any:
    return importlib.import_module(f"{__package__}.{name}")


class _TensorMeta(type):
    def __instancecheck__(cls, x: Any) -> bool:
        import torch

        return isinstance(x, torch.Tensor) or (type(x) is not Tracer and isinstance(x, Tracer) and not x.is_number)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        import torch

        return torch.Tensor(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        import torch

        member = getattr(torch.Tensor, name)
        if not callable(member) or isinstance(member, type):
            return member

        def call(*args: Any, **kwargs: Any) -> Any:
            recorder = recorder_in((args, kwargs))
            if recorder is None:
                return member(*args, **kwargs)
            functions = _torch("torch.functions")
            return functions.call(recorder, functions.name_of(member), args, kwargs)

        return call


class TensorProxy(metaclass=_TensorMeta):
    """The proxy of torch.Tensor: its instances are tensors, traced or not."""


class _TypeMeta(type):
    """`type(x)` is the class that `isinstance` sees; other calls are Python's."""

    def __call__(cls, *args: Any, **named: Any) -> Any:
        if len(args) != 1 or named or not issubclass(type(args[0]), Tracer):
            return type(*args, **named)
        seen_class = args[0].__class__
        return TensorProxy if issubclass(seen_class, Tracer) else seen_class

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, type)


class TypeProxy(type, metaclass=_TypeMeta):
    """The proxy of Python's `type`."""


def _holds_tracer(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_holds_tracer, value))
    if isinstance(value, dict):
        return any(map(_holds_tracer, value.values()))
    return isinstance(value, Tracer)
