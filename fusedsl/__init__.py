"""fusedsl: array math as text or NumPy-style functions, compiled to single fused kernels for NVIDIA GPUs and CPUs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if not getattr(sys, "_is_gil_enabled", lambda: True)():
    raise ImportError("fusedsl relies on Python's global lock, as Numba does: start Python with -X gil=1")

if TYPE_CHECKING:
    from .api import Kernel, evaluate, kernel, load, options, spec
    from .attend import attention
    from .decorator import fuse
    from .errors import (
        ArgumentError,
        CompileError,
        DeviceError,
        DTypeError,
        FusedslError,
        FusionError,
        LimitError,
        ParseError,
        ShapeError,
        TraceError,
        UnknownNameError,
        Unsupported,
    )
    from .lists import foreach

__version__ = "0.1.0"

_API = ("Kernel", "evaluate", "kernel", "load", "options", "spec")
_ELSEWHERE = {"attention": ".attend", "fuse": ".decorator", "foreach": ".lists"}

__all__ = [
    "ArgumentError",
    "CompileError",
    "DTypeError",
    "DeviceError",
    "FusedslError",
    "FusionError",
    "Kernel",
    "LimitError",
    "ParseError",
    "ShapeError",
    "TraceError",
    "UnknownNameError",
    "Unsupported",
    "attention",
    "evaluate",
    "foreach",
    "fuse",
    "kernel",
    "load",
    "options",
    "spec",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when first used (PEP 562), so that `import fusedsl` costs next to nothing."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'fusedsl' has no attribute {name!r}")
    module = ".api" if name in _API else _ELSEWHERE.get(name, ".errors")
    value = getattr(import_module(module, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
