"""Copies between arrays of the caller's library: packed arguments, and outputs that a kernel cannot write itself."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..ir.types import DTYPES, numpy_dtype
from .arrays import Facts, Weak

# Element types that torch cannot exchange with NumPy (there ml_dtypes), and integer types of their size.
WORDS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def packed(x: Any, library: str) -> Any:
    """A C-contiguous array of the same elements, in the caller's library and on its device and stream."""
    if library == "torch":
        return x.contiguous()
    return _module(library).ascontiguousarray(x)


def assign(out: Any, value: Any, library: str) -> None:
    """out[...] = value."""
    if library == "torch":
        out.copy_(value)
    else:
        out[...] = value


def to_host(x: Any) -> Any:
    """The argument as a NumPy array, for the reference interpreter; numbers stay."""
    if isinstance(x, (bool, int, float, np.ndarray, np.generic)):
        return x
    if type(x).__module__.split(".")[0] == "torch":
        torch = sys.modules["torch"]
        name = str(x.dtype).removeprefix("torch.")
        if name in WORDS:
            word = getattr(torch, WORDS[name])
            return x.detach().cpu().view(word).numpy().view(numpy_dtype(DTYPES[name]))
        return x.detach().cpu().numpy()
    if hasattr(x, "get"):
        return x.get()
    return np.from_dlpack(x)


def all_to_host(facts: Facts) -> list:
    """`to_host` of every argument."""
    return [a.value if isinstance(a, Weak) else to_host(a.owner) for a in facts.values()]


def from_host(x: np.ndarray, like: Any, library: str) -> None:
    """Write a NumPy array into `like`, an array of the caller's library."""
    if library == "numpy":
        like[...] = x
    elif library == "torch":
        torch = sys.modules["torch"]
        word = WORDS.get(x.dtype.name)
        host = torch.from_numpy(np.asarray(x.view(word) if word else x, order="C"))
        like.copy_(host.view(getattr(torch, x.dtype.name)) if word else host)
    else:
        host = np.asarray(x if x.dtype == like.dtype else x.view(like.dtype), order="C")
        if like.flags.c_contiguous:
            like.set(host)
        else:
            like[...] = _module(library).asarray(host)


def _module(library: str) -> Any:
    return np if library == "numpy" else sys.modules["cupy"]
