"""Functions that Numba compiles: a trace calls the Python function under the decorator."""

from __future__ import annotations

import types
from typing import Any


def python_function(f: Any) -> types.FunctionType | None:
    """The function that `numba.njit` or `numba.vectorize` decorated; None for all else, CUDA kernels among it.

    >>> python_function(len) is None
    True
    """
    module = getattr(type(f), "__module__", None) or ""
    if not module.startswith("numba.") or module.startswith("numba.cuda."):
        return None
    plain = getattr(f, "py_func", None) or getattr(getattr(f, "_dispatcher", None), "py_func", None)
    return plain if isinstance(plain, types.FunctionType) else None
