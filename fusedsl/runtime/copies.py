"""Copies between arrays in the caller's library: packing an argument, filling an `out` that a kernel cannot write."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


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
    """The argument as NumPy's, for the reference interpreter; numbers stay."""
    if isinstance(x, (bool, int, float, np.ndarray, np.generic)):
        return x
    if type(x).__module__.split(".")[0] == "torch":
        torch = sys.modules["torch"]
        if x.dtype == torch.bfloat16:
            import ml_dtypes

            return x.detach().cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return x.detach().cpu().numpy()
    if hasattr(x, "get"):
        return x.get()
    return np.from_dlpack(x)


def from_host(x: np.ndarray, like: Any, library: str) -> None:
    """Write a NumPy array into `like`, an array of the caller's library."""
    if library == "numpy":
        like[...] = x
    elif library == "torch":
        torch = sys.modules["torch"]
        bits = x.dtype.name == "bfloat16"
        host = torch.from_numpy(np.ascontiguousarray(x.view(np.int16) if bits else x))
        like.copy_(host.view(torch.bfloat16) if bits else host)
    else:
        like.set(np.ascontiguousarray(x))


def _module(library: str) -> Any:
    return np if library == "numpy" else sys.modules["cupy"]
