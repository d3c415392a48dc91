"""A stand-in for an array where only its signature and shape matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import ArgumentError, suggest
from .ir.types import DTYPES, DType
from .runtime.results import strides_in


@dataclass(frozen=True)
class Spec:
    """Shape, dtype and strides (in elements) of an array that need not exist."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]


def spec(shape: Sequence[int] | int, dtype: Any = "float32", strides: Sequence[int] | None = None) -> Spec:
    """An array's signature: `shape`, `dtype` by name (or anything with one), `strides` in elements (default C order).

    >>> spec((4096, 1024), "bfloat16").strides
    (1024, 1)

    Raises ArgumentError for an unknown dtype or negative extents.
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    name = str(getattr(dtype, "name", None) or getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    if name not in DTYPES:
        near = suggest(name, DTYPES)
        hint = f"did you mean {near}?" if near else f"use one of {', '.join(DTYPES)}"
        raise ArgumentError(f"there is no dtype {name!r}", "argument.dtype", help=hint)
    if any(not isinstance(n, int) or n < 0 for n in shape):
        raise ArgumentError(f"{shape} is no shape", "argument.shape", help="extents are integers of at least 0")
    return Spec(shape, DTYPES[name], tuple(strides) if strides is not None else strides_in(shape))
