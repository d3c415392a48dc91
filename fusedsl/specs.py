"""Specs: stand-ins for arrays when only signature and shape matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from operator import index
from typing import Any

from .errors import ArgumentError, public_api, suggest
from .ir.types import DTYPES, DType
from .runtime.array_protocols import packed_strides
from .runtime.arrays import CPU, ArrayFacts, Weak, describe


@dataclass(frozen=True)
class Spec:
    """Shape, dtype and strides (in elements) of an array that need not exist."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]


@public_api
def spec(shape: Sequence[int] | int, dtype: Any = "float32", strides: Sequence[int] | None = None) -> Spec:
    """An array's signature: `shape`, `dtype` by name (or anything with one), `strides` in elements (default C order).

    >>> import fusedsl as fd
    >>> fd.spec((4096, 1024), "bfloat16").strides
    (1024, 1)

    Raises ArgumentError for an unknown dtype, negative extents, or strides of other axes.
    """
    extents = _integers(shape, "shape", least=0)
    name = str(getattr(dtype, "name", None) or getattr(dtype, "__name__", dtype)).removeprefix("torch.")
    if name not in DTYPES and dtype is not None:
        name = _name_in_numpy(dtype, name)
    if name not in DTYPES:
        near = suggest(name, DTYPES)
        if isinstance(dtype, int):
            near = f"spec(({shape}, {dtype}))"
        hint = f"did you mean {near}?" if near else f"use one of {', '.join(DTYPES)}"
        raise ArgumentError(f"there is no dtype {name!r}", "argument.dtype", help=hint)
    if strides is None:
        return Spec(extents, DTYPES[name], packed_strides(extents))
    steps = _integers(strides, "strides")
    if len(steps) != len(extents):
        message = f"{len(steps)} strides for {len(extents)} axes"
        raise ArgumentError(message, "argument.strides", help="one for each axis, in elements")
    return Spec(extents, DTYPES[name], steps)


def _name_in_numpy(dtype: Any, name: str) -> str:
    """The full name of one of NumPy's dtypes, as of "f4" or float; else the name that is given."""
    import numpy as np

    try:
        return np.dtype(dtype).name
    except TypeError:
        return name


_addresses = count(1 << 48, 1 << 40)  # made up: no two specs alias


def described(argument: Any, name: str) -> ArrayFacts | Weak:
    """The facts of an argument, which may be a spec."""
    if not isinstance(argument, Spec):
        return describe(argument, name)
    address = next(_addresses)
    return ArrayFacts("numpy", argument.dtype, argument.shape, argument.strides, address, CPU, False, None)


def _integers(given: Any, what: str, least: int | None = None) -> tuple[int, ...]:
    """One integer or several as a tuple; ArgumentError for anything else."""
    try:
        integers = tuple(map(index, given)) if hasattr(given, "__iter__") else (index(given),)
    except TypeError:
        integers = None
    if integers is None or any(least is not None and n < least for n in integers):
        bound = "" if least is None else f" of at least {least}"
        raise ArgumentError(f"{given!r} is no {what}", f"argument.{what}", help=f"give integers{bound}")
    return integers
