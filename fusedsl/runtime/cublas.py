"""cuBLAS as torch or CuPy has loaded it: their handle of the current thread, and the functions behind it."""

from __future__ import annotations

import ctypes
import re
import sys
import threading
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from .cuda_streams import stream_reader

DEFAULT_MATH = 0  # CUBLAS_DEFAULT_MATH: at least the precision that is asked for, so no TF32 of float32
SUMS_STAY_WIDE = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: partial sums are not rounded to 16 bits
DATA_TYPE = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # cudaDataType
COMPUTE_32F, COMPUTE_64F, COMPUTE_TF32 = 68, 70, 77  # cublasComputeType_t: …_32F, …_64F, …_32F_FAST_TF32
DEFAULT_ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT

# Source: cuBLAS documentation, "cublasGemmEx", "cublasGemmStridedBatchedEx", "cublasSetStream", "cublasSetWorkspace".


class Cublas:
    """The functions of a loaded cuBLAS, and the handle of an array library for the current thread and device.

    `handle()` also lets it work on the library's current stream. `current_device()` is the device that it is for.
    Functions take ints for C's int, and ctypes objects for addresses and for all that is wider.
    """

    def __init__(self, library: Any, handle: Callable[[], int], current_device: Callable[[], int], of: str):
        self.handle, self.current_device, self.of = handle, current_device, of
        self.lock = threading.RLock()  # of the settings of a handle that we restore
        self.set_stream: Callable[..., int] = library.cublasSetStream_v2
        self.set_workspace: Callable[..., int] = library.cublasSetWorkspace_v2
        self.set_math_mode: Callable[..., int] = library.cublasSetMathMode
        self.gemm: Callable[..., int] = library.cublasGemmEx
        self.gemm_strided_batched: Callable[..., int] = library.cublasGemmStridedBatchedEx

    def stream(self, device: int) -> Callable[[], int]:
        """A function that reads the array library's current stream of a device."""
        return stream_reader(self.of, ("cuda", device))


@cache
def cublas_of(library: str) -> Cublas | None:
    """The cuBLAS of torch or CuPy; None if it cannot be told which loaded library that is."""
    find_handle = {"torch": _of_torch, "cupy": _of_cupy}.get(library)
    try:
        return find_handle() if find_handle else None
    except (AttributeError, ImportError, OSError):
        return None


def _of_torch() -> Cublas | None:
    import torch

    path = loaded_cublas(_mapped(), int((torch.version.cuda or "0").partition(".")[0]))
    if path is None:
        return None
    handle = getattr(torch._C, "_cuda_getCurrentBlasHandle", torch.cuda.current_blas_handle)
    return Cublas(ctypes.CDLL(path), handle, getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device), "torch")


def _of_cupy() -> Cublas | None:
    import cupy
    from cupy_backends.cuda.libs import cublas as backend

    handle = cupy.cuda.device.get_cublas_handle
    path = loaded_cublas(_mapped(), backend.getVersion(handle()) // 10_000)
    return None if path is None else Cublas(ctypes.CDLL(path), handle, cupy.cuda.runtime.getDevice, "cupy")


def loaded_cublas(paths: Iterable[str], major: int) -> str | None:
    """The file of cuBLAS of this major version among these paths; None if there is none, or if there are several."""
    named = (re.fullmatch(r"libcublas\.so\.(\d+)(\..*)?", Path(path).name) for path in set(paths))
    names = {match.string for match in named if match and int(match[1]) == major}
    whole = [path for path in set(paths) if Path(path).name in names]
    return whole[0] if len(whole) == 1 else None


def _mapped() -> list[str]:
    """The files that are mapped into this process."""
    if sys.platform != "linux":
        return []
    lines = Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()
    return [line.split(maxsplit=5)[5] for line in lines if line.count("/")]
