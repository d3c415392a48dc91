"""fusedsl: array expressions or NumPy-style functions, compiled to single fused kernels for NVIDIA GPUs and CPUs."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise ImportError("fusedsl relies on Python's global lock, as Numba does: start Python with -X gil=1")

__version__ = "0.1.0"

# Only modules that a cached call needs are imported here: such a call takes some ms in a new process. Modules that make
# plans and kernels are imported when one is made.
from .api import Kernel, kernel, options, spec
from .errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    DTypeError,
    FusedslError,
    FusionError,
    LimitError,
    MemoryLimitError,
    ParseError,
    ShapeError,
    TraceError,
    UnknownNameError,
    Unsupported,
)
from .evaluation import clear_cache, evaluate, metrics

with contextlib.suppress(ImportError):
    import llvmlite.binding  # noqa: F401  (loads machine code of the CPU; if it is missing, its user raises)

if TYPE_CHECKING:
    from .attention_calls import attention
    from .cache_sizes import get_cache_size, set_cache_size
    from .compile_hooks import on_compile
    from .decorator import fuse
    from .foreach_calls import foreach
    from .load_file import load
    from .threads import get_num_threads, set_num_threads

_ELSEWHERE = {
    "attention": ".attention_calls",
    "foreach": ".foreach_calls",
    "fuse": ".decorator",
    "get_cache_size": ".cache_sizes",
    "get_num_threads": ".threads",
    "load": ".load_file",
    "on_compile": ".compile_hooks",
    "set_cache_size": ".cache_sizes",
    "set_num_threads": ".threads",
}

__all__ = [
    "ArgumentError",
    "CompileError",
    "DTypeError",
    "DeviceError",
    "FusedslError",
    "FusionError",
    "Kernel",
    "LimitError",
    "MemoryLimitError",
    "ParseError",
    "ShapeError",
    "TraceError",
    "UnknownNameError",
    "Unsupported",
    "attention",
    "clear_cache",
    "evaluate",
    "foreach",
    "fuse",
    "get_cache_size",
    "get_num_threads",
    "kernel",
    "load",
    "metrics",
    "on_compile",
    "options",
    "set_cache_size",
    "set_num_threads",
    "spec",
]


def __getattr__(name: str) -> Any:
    """Modules that trace functions, write attention and read files are imported at first use (PEP 562)."""
    from importlib import import_module

    if name not in _ELSEWHERE:
        from .errors import suggest
        from .foreign_options import ATTRIBUTES

        near = None if name.startswith("_") else suggest(name, __all__)
        hint = ATTRIBUTES.get(name) or (near and f"did you mean {near}?")
        raise AttributeError(f"module 'fusedsl' has no attribute {name!r}" + (f": {hint}" if hint else ""))
    value = getattr(import_module(_ELSEWHERE[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
