"""NumPy arrays on a CUDA device for the length of one call (`device="cuda"`), in memory of the driver."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from ctypes import byref, c_size_t, c_uint64, c_void_p
from typing import Any

from ..config import Options
from ..errors import FusedslError
from ..ir.types import DType, numpy_dtype
from .array_protocols import packed_strides
from .arrays import CPU, ArrayFacts, Facts
from .driver import driver
from .outputs import library_and_device


def runs_on_other_device(options: Options, facts: Facts) -> bool:
    """Whether NumPy arrays are computed on a CUDA device; a call of numbers alone stays on the CPU."""
    if not (options.device or "").startswith("cuda") or library_and_device(facts) != ("numpy", CPU):
        return False
    return any(isinstance(a, ArrayFacts) and not a.by_value for a in facts.values())


class DeviceBuffer:
    """Device memory that is freed with this object, after the work that uses it (cuMemFree waits)."""

    def __init__(self, size: int, device: int) -> None:
        self.size, self.device = size, device
        address = c_uint64()
        if size:
            with driver().on(device):
                driver().call("cuMemAlloc_v2", byref(address), c_size_t(size))
        self.address = address.value

    def __del__(self) -> None:
        address = getattr(self, "address", 0)
        if address and not sys.is_finalizing():
            with contextlib.suppress(FusedslError), driver().on(self.device):
                driver().attempt("cuMemFree_v2", c_uint64(address))


def device_empty(shape: Sequence[int], dtype: DType, device: int, order: Sequence[int] | None = None) -> ArrayFacts:
    """A packed array in new device memory; `download` copies it back."""
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    buffer = DeviceBuffer(size, device)
    where = ("cuda", device)
    return ArrayFacts("numpy", dtype, tuple(shape), packed_strides(shape, order), buffer.address, where, False, buffer)


def upload(array: ArrayFacts, device: int) -> ArrayFacts:
    """A described NumPy array, copied to a device in the same memory order."""
    axes = range(array.rank)
    order = sorted(axes, key=lambda axis: (-abs(array.strides[axis]), axis))
    packed = _packed(array.owner, order)
    there = device_empty(array.shape, array.dtype, device, order)
    if packed.nbytes:
        with driver().on(device):
            source = c_void_p(packed.ctypes.data)
            driver().call("cuMemcpyHtoD_v2", c_uint64(there.pointer), source, c_size_t(packed.nbytes))
    return there


def download(array: ArrayFacts, into: Any = None) -> Any:
    """The NumPy array that a device array holds, once the default stream is done; written to `into` if given."""
    import numpy as np

    order = sorted(range(array.rank), key=lambda axis: (-array.strides[axis], axis))
    packed = np.empty([array.shape[axis] for axis in order], numpy_dtype(array.dtype))
    if packed.nbytes:
        with driver().on(array.device[1]):
            source = c_uint64(array.pointer)
            driver().call("cuMemcpyDtoH_v2", c_void_p(packed.ctypes.data), source, c_size_t(packed.nbytes))
    result = packed.transpose([order.index(axis) for axis in range(array.rank)])
    if into is None:
        return result
    into[...] = result
    return into


def _packed(x: Any, order: Sequence[int]) -> Any:
    """The elements, contiguous in this order of axes."""
    import numpy as np

    return np.ascontiguousarray(x.transpose(order))
