"""The array library of a trace: that of the arguments, or, if no argument is an array, of the first array it uses."""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np


def library(kind: type) -> str:
    """The library that defines an array class."""
    return kind.__module__.split(".")[0]


def is_array(x: Any) -> bool:
    """True for an array of any library; False for scalars and types."""
    return hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (np.generic, type))


class LibraryDiscovered(BaseException):
    """The function uses an array (`example`) of a library that no argument has: the trace restarts with that library.

    A BaseException, so that `except Exception` in the function does not catch it.
    """

    def __init__(self, example: Any):
        self.example = example


def empty(library: str, device: Any = None) -> Any:
    """An array of torch or CuPy on `device`, or on the library's default device."""
    module = sys.modules[library]
    return module.empty(1) if library == "cupy" else module.empty(1, dtype=module.uint8, device=device)


def default_device(library: str) -> Any:
    """The device on which torch or CuPy creates arrays by default."""
    module = sys.modules[library]
    return module.cuda.Device().id if library == "cupy" else module.get_default_device()


def array_classes() -> tuple[type, ...]:
    """The array classes of the libraries that are imported."""
    loaded = ((sys.modules.get("torch"), "Tensor"), (sys.modules.get("cupy"), "ndarray"))
    return (np.ndarray, *(getattr(module, name) for module, name in loaded if module is not None))


@dataclass(frozen=True)
class ConstantArray:
    """A constant array that the function creates and returns; each call returns a copy."""

    array: Any

    def fresh(self) -> Any:
        """A copy for one call."""
        return copy.deepcopy(self.array)
