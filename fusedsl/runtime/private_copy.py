"""Memory that stands for an output of the caller's during a long CPU call, until the call is complete."""

from __future__ import annotations

import ctypes
from math import prod
from typing import TYPE_CHECKING, Any

from .arrays import ArrayFacts
from .memory_overlap import span

if TYPE_CHECKING:
    import numpy as np

ALIGNMENT = 64  # bytes: the most that kernels are specialised for


class PrivateCopy:
    """An array of the layout of an output, at an address of the same alignment; `publish` copies it to the output."""

    def __init__(self, out: ArrayFacts):
        import numpy as np

        self._out, (self._low, high) = out, span(out)
        self._size = high - self._low
        self._bytes = np.empty(self._size + 2 * ALIGNMENT, np.uint8)
        begin = -(-self._bytes.ctypes.data // ALIGNMENT) * ALIGNMENT
        self.address = begin + (out.pointer + self._low) % ALIGNMENT - self._low  # of the first element

    def publish(self) -> None:
        """Copy the elements to the output: what is in its gaps may be another array's."""
        if self._size == self._out.dtype.itemsize * prod(self._out.shape):
            ctypes.memmove(self._out.pointer + self._low, self.address + self._low, self._size)
        else:
            self._elements(self._out.pointer)[...] = self._elements(self.address)

    def _elements(self, address: int) -> np.ndarray:
        """The elements of an array of the output's layout at this address, as words of their size."""
        import numpy as np

        memory: Any = (ctypes.c_uint8 * self._size).from_address(address + self._low)
        size = self._out.dtype.itemsize
        strides = tuple(size * s for s in self._out.strides)
        return np.ndarray(self._out.shape, f"u{size}", memory, -self._low, strides)
