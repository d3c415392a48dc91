"""Errors for arguments that are no arrays, with the expression to pass instead."""

from __future__ import annotations

import sys
from typing import Any

from ..errors import DTypeError, FusedslError
from ..ir.types import DTYPES

DISPLAY_NAME = {
    "numpy": "a NumPy array",
    "torch": "a torch tensor",
    "cupy": "a CuPy array",
    "dlpack": "a DLPack array",
    "interface": "an array with __cuda_array_interface__",
}
_BASES = (("numpy", "ndarray"), ("torch", "Tensor"), ("cupy", "ndarray"), ("numpy", "generic"))


def library_of(argument: Any) -> str | None:
    """numpy, torch, cupy, dlpack or interface; None if it is no array."""
    kind = type(argument)
    if kind in (float, int, bool):
        return None
    for name, base in _BASES:
        module = sys.modules.get(name)
        if module is not None and issubclass(kind, getattr(module, base, ())):
            return name
    if _library_conversion(kind):
        return None
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        return "dlpack"
    return "interface" if hasattr(argument, "__cuda_array_interface__") else None


_CONVERSIONS = {
    "pandas": "{x}.to_numpy()",
    "polars": "{x}.to_numpy()",
    "xarray": "{x}.to_numpy()",
    "scipy": "{x}.toarray()",
    "cupyx": "{x}.toarray()",
    "sparse": "{x}.todense()",
}


def _library_conversion(kind: type) -> str | None:
    """The expression that converts {x}, of another library's class, to a NumPy array; None for other classes."""
    return _CONVERSIONS.get(kind.__module__.partition(".")[0])


def conversion_expression(argument: Any, name: str) -> str | None:
    """The expression that converts an argument to an array or number; None if there is none."""
    kind = type(argument)
    conversion = _library_conversion(kind)
    if conversion is not None:
        return conversion.format(x=name)
    if isinstance(argument, list | tuple | range | memoryview | bytearray) or hasattr(kind, "__array__"):
        return f"numpy.asarray({name})"
    return f"float({name})" if hasattr(kind, "__float__") else None


def type_name(kind: type) -> str:
    """The name of a class in messages."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def dtype_fault(name: str, dtype: str, source: str | None = None) -> FusedslError:
    """The DTypeError for an element type that no kernel computes with, strings and objects included.

    `source` is the source expression of the argument, if that is not its name.
    """
    message = f"{name} has elements of type {dtype}"
    name = source or name
    conversions = {
        "complex": f"pass {name}.real and {name}.imag",
        "longdouble": f"pass {name}.astype(numpy.float64)",
        "float128": f"pass {name}.astype(numpy.float64)",
        "float96": f"pass {name}.astype(numpy.float64)",
        "datetime": f"pass {name}.astype(numpy.int64)",
        "timedelta": f"pass {name}.astype(numpy.int64)",
        "str": f"pass numbers: {name}.astype(numpy.float64), or numpy.unique({name}, return_inverse=True)[1]",
        "category": f"pass {name}.cat.codes, the number of each element's category",
        "object": f"pass {name}.astype(numpy.float64)",
        "void": f'pass one field: {name}["field"]',
    }
    conversion = next((text for start, text in conversions.items() if dtype.startswith(start)), None)
    help = conversion or f"pass {name} cast to one of {', '.join(DTYPES)}"
    return DTypeError(message, "dtype.unknown", help=help)
