"""Whose arrays a traced function makes: those of its arguments' library, or where none is an array, of what it uses."""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np


def library(kind: type) -> str:
    """The library that a class of arrays belongs to."""
    return kind.__module__.split(".")[0]


def is_array(x: Any) -> bool:
    """Whether a value is an array of some library, and no scalar."""
    return hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (np.generic, type))


class LibraryDiscovered(BaseException):
    """The function uses arrays of a library that no argument told of, such as `example`: the trace begins anew with
    that. It passes by the handlers of the function."""

    def __init__(self, example: Any):
        self.example = example


def empty(library: str, device: Any = None) -> Any:
    """An array of torch or CuPy where its functions make them: on `device`, or on the default one."""
    home = sys.modules[library]
    return home.empty(1) if library == "cupy" else home.empty(1, dtype=home.uint8, device=device)


def default_device(library: str) -> Any:
    """Where functions of torch or CuPy make arrays that no argument places."""
    home = sys.modules[library]
    return home.cuda.Device().id if library == "cupy" else home.get_default_device()


def array_classes() -> tuple[type, ...]:
    """The classes of arrays of the libraries that are there."""
    loaded = ((sys.modules.get("torch"), "Tensor"), (sys.modules.get("cupy"), "ndarray"))
    return (np.ndarray, *(getattr(home, name) for home, name in loaded if home is not None))


@dataclass(frozen=True)
class ConstantArray:
    """An array that the function makes of nothing and returns: each call returns one of its own."""

    array: Any

    def fresh(self) -> Any:
        """The array of one call."""
        return copy.deepcopy(self.array)
