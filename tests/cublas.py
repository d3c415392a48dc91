"""A cuBLAS that computes on the host: C functions of the library's own signatures, which record their calls."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, c_int, c_longlong, c_void_p
from types import SimpleNamespace

import ml_dtypes
import numpy as np

from fusedsl.runtime.cublas import Cublas

DTYPES = {0: np.dtype("f4"), 1: np.dtype("f8"), 2: np.dtype("f2"), 14: np.dtype(ml_dtypes.bfloat16)}
HANDLE, STREAM = 77, 4096
INVALID_VALUE = 7  # CUBLAS_STATUS_INVALID_VALUE

_MATRIX = (c_void_p, c_int, c_int)  # address, data type, leading dimension
_BATCHED = (*_MATRIX, c_longlong)  # … and the stride from one matrix to the next
_HEAD = (c_void_p, *[c_int] * 5)  # handle, transa, transb, m, n, k
_PROTOTYPES = {
    "cublasSetStream_v2": (c_void_p, c_void_p),
    "cublasSetWorkspace_v2": (c_void_p, c_void_p, ctypes.c_size_t),
    "cublasSetMathMode": (c_void_p, c_int),
    "cublasGemmEx": (*_HEAD, c_void_p, *_MATRIX, *_MATRIX, c_void_p, *_MATRIX, c_int, c_int),
    "cublasGemmStridedBatchedEx": (
        *(*_HEAD, c_void_p, *_BATCHED, *_BATCHED, c_void_p, *_BATCHED),
        *(c_int, c_int, c_int),  # batch count, compute type, algorithm
    ),
}


class HostCublas:
    """The functions of cuBLAS on arrays of the host. `calls` are the names of those that were called.

    `memory(address, size)` is the memory at an address.
    """

    def __init__(self, memory=lambda address, size: (ctypes.c_char * size).from_address(address)):
        self.calls, self.mode, self.stream, self.memory = [], 0, STREAM, memory
        functions = {
            "cublasSetStream_v2": self._set_stream,
            "cublasSetWorkspace_v2": lambda handle, address, size: self._said("workspace"),
            "cublasSetMathMode": self._set_mode,
            "cublasGemmEx": self._gemm,
            "cublasGemmStridedBatchedEx": self._gemm_strided_batched,
        }
        made = {name: CFUNCTYPE(c_int, *_PROTOTYPES[name])(function) for name, function in functions.items()}
        self.library = SimpleNamespace(**made)

    def cublas(self, of="torch"):
        """The same as the runtime finds it, for stream STREAM of device 0."""
        found = Cublas(self.library, lambda: HANDLE, lambda: 0, of)
        found.stream = lambda device: lambda: STREAM
        return found

    def _said(self, name):
        self.calls.append(name)
        return 0

    def _set_stream(self, handle, stream):
        self.stream = stream
        return self._said("stream")

    def _set_mode(self, handle, mode):
        self.mode = mode
        return self._said("mode")

    def _gemm(self, handle, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc, compute, algorithm):
        self._said("gemm")
        steps = (0, 0, 0)
        return self._compute(
            (ta, tb), (m, n, k), (alpha, beta), (a, b, c), (at, bt, ct), (lda, ldb, ldc), steps, 1, compute
        )

    def _gemm_strided_batched(
        self, handle, ta, tb, m, n, k, alpha, a, at, lda, sa, b, bt, ldb, sb, beta, c, ct, ldc, sc, batch, compute, how
    ):
        self._said("batched")
        given = (ta, tb), (m, n, k), (alpha, beta), (a, b, c), (at, bt, ct), (lda, ldb, ldc), (sa, sb, sc)
        return self._compute(*given, batch, compute)

    def _compute(self, turned, sides, scales, addresses, types, pitches, steps, batch, compute):
        """The product of matrices stored by columns; INVALID_VALUE as cuBLAS has it for a short leading dimension."""
        (m, n, k), number = sides, ctypes.c_double if compute == 70 else ctypes.c_float
        assert [number.from_address(at).value for at in scales] == [1, 0]
        assert not self.mode & 1
        assert types[0] == types[1]
        wholes = [(k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n), (m, n)]
        if any(pitch < max(1, rows) for pitch, (rows, _) in zip(pitches, wholes)):
            return INVALID_VALUE
        self.compute = compute
        for number in range(batch):
            a, b, c = (
                self._matrix(at, DTYPES[kind], shape, pitch, number * step)
                for at, kind, shape, pitch, step in zip(addresses, types, wholes, pitches, steps)
            )
            left, right = a.T if turned[0] else a, b.T if turned[1] else b
            wide = "f8" if compute == 70 else "f4"
            c[...] = (left.astype(wide) @ right.astype(wide)).astype(c.dtype)
        return 0

    def _matrix(self, address, dtype, shape, pitch, start):
        """The matrix of this shape that is stored by columns from element `start` on."""
        size = dtype.itemsize
        reach = (shape[0] - 1 + pitch * (shape[1] - 1) + 1) * size
        return np.ndarray(shape, dtype, self.memory(address + start * size, reach), 0, (size, pitch * size))
