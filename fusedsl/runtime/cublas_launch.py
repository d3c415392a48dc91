"""Launches of GEMMs by cuBLAS: arguments for arrays of any order, on any stream, captured into graphs too."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_longlong, c_size_t, c_void_p
from dataclasses import dataclass
from itertools import product as indices
from typing import Any

from ..errors import DeviceError
from ..kernel_ir.gemm import Factor, Gemm, GemmAxis
from .cublas import (
    COMPUTE_32F,
    COMPUTE_64F,
    COMPUTE_TF32,
    DATA_TYPE,
    DEFAULT_ALGORITHM,
    DEFAULT_MATH,
    SUMS_STAY_WIDE,
    Cublas,
)
from .driver import driver
from .gemm_launch import GemmLaunch
from .host_device_copies import DeviceBuffer
from .parameter_packing import BlockLayout

WORKSPACE = 32 << 20  # bytes of a workspace of our own: what NVIDIA recommends for Hopper
LARGEST = (1 << 31) - 1  # of extents and leading dimensions
MAX_CALLS = 64  # calls of cuBLAS that one product may take


@dataclass(frozen=True)
class GemmCalls:
    """A GEMM as calls of cuBLAS, which stores matrices by columns.

    A result with contiguous rows is computed as its transpose, from the transposed factors in the other order:
    `swapped`. `offsets` are the bytes from the arrays to the matrices of each call: (left, right, out).
    """

    swapped: bool
    transposed: tuple[int, int]  # of the first and the second factor: CUBLAS_OP_N or CUBLAS_OP_T
    sides: tuple[int, int, int]  # m, n, k
    pitches: tuple[int, int, int]  # leading dimensions of the first factor, the second, and the result
    steps: tuple[int, int, int]  # elements from one matrix to the next of the same
    batch: int
    offsets: tuple[tuple[int, int, int], ...]


def gemm_calls(gemm: Gemm) -> GemmCalls | str:
    """The calls of a GEMM whose arrays have BLAS layouts; if there are none, the reason."""
    layouts = {array: gemm.layout(array) for array in ("left", "right", "out")}
    left, right, out = layouts["left"], layouts["right"], layouts["out"]
    if left is None or right is None or out is None:
        return "cuBLAS takes no array without contiguous lines"
    swapped = not out.transposed
    first, second = (right, left) if swapped else (left, right)
    m, n = (gemm.columns, gemm.rows) if swapped else (gemm.rows, gemm.columns)
    sides, pitches = (m.extent, n.extent, gemm.terms.extent), (first.pitch, second.pitch, out.pitch)
    inner, outer = _split(gemm.batch)
    if max(*sides, *pitches, inner.extent) > LARGEST:
        return "cuBLAS counts in 32 bits"
    names: tuple[Factor, ...] = ("left", "right", "out")
    steps = [getattr(inner, name) for name in names]
    offsets = tuple(
        tuple(size * sum(i * getattr(axis, name) for i, axis in zip(at, outer)) for name, size in _sizes(gemm))
        for at in indices(*(range(axis.extent) for axis in outer))
    )
    if len(offsets) > MAX_CALLS:
        return f"it is {len(offsets):,} calls of cuBLAS"
    transposes = (int(first.transposed is swapped), int(second.transposed is swapped))
    steps = [steps[1], steps[0], steps[2]] if swapped else steps
    return GemmCalls(swapped, transposes, sides, pitches, tuple(steps), inner.extent, offsets)  # type: ignore[arg-type]


def _split(batch: Sequence[GemmAxis]) -> tuple[GemmAxis, list[GemmAxis]]:
    """(the longest batch axis, which one call runs along; the others)."""
    if not batch:
        return GemmAxis(1, 0, 0, 0), []
    longest = max(range(len(batch)), key=lambda k: batch[k].extent)
    return batch[longest], [axis for k, axis in enumerate(batch) if k != longest]


def _sizes(gemm: Gemm) -> tuple[tuple[Factor, int], ...]:
    """The bytes of an element of each array."""
    factor = gemm.factor_dtype.itemsize
    return ("left", factor), ("right", factor), ("out", gemm.out_dtype.itemsize)


class CublasLaunch(GemmLaunch):
    """One GEMM by cuBLAS on one CUDA device: `run(addresses of left, right, out; stream)` launches without waiting.

    On the array library's current stream, cuBLAS works in the library's
    workspace; on another one, as where we capture a graph, in one of our own.
    """

    on_device = True

    def __init__(self, product: Gemm, layout: BlockLayout, cublas: Cublas, device: int, tf32: bool = False) -> None:
        calls = gemm_calls(product)
        if isinstance(calls, str):
            raise ValueError(calls)
        super().__init__(product, layout)
        self.cublas, self.device, self.tf32 = cublas, device, tf32
        self.library = cublas.of
        self.current_stream = cublas.stream(device)
        self._calls = [_call(cublas, product, calls, offsets, tf32) for offsets in calls.offsets]
        self._workspace: DeviceBuffer | None = None
        with driver().on(device):
            cublas.handle()  # made now: in a capture it could not be

    def fire(self, payloads: Sequence[Any], stream: int) -> None:
        """Launch: payloads are, by argument, an address or a Python number."""
        left, right, out = self.layout.pointers(payloads)
        self.run(left, right, out, stream)

    def fire_overlapped(self, payloads: Sequence[Any], stream: int) -> None:
        """See `LaunchRecord.fire_overlapped`: cuBLAS waits for the launch before it."""
        self.fire(payloads, stream)

    def run(self, left: int, right: int, out: int, stream: int) -> None:  # type: ignore[override]
        """Launch the product of the arrays at these addresses."""
        if self.cublas.current_device() == self.device and self.cublas.of == "torch":
            self._launch(left, right, out, stream)
        else:
            with driver().on(self.device), self.cublas.lock:
                self._launch(left, right, out, stream)

    def _launch(self, left: int, right: int, out: int, stream: int) -> None:
        cublas, handle, current = self.cublas, c_void_p(self.cublas.handle()), self.current_stream()
        foreign = stream != current
        if cublas.of != "torch" or foreign:
            self._check(cublas.set_stream(handle, c_void_p(stream)), "cublasSetStream")
        if foreign:
            workspace = c_void_p(self._own_workspace())
            self._check(cublas.set_workspace(handle, workspace, c_size_t(WORKSPACE)), "cublasSetWorkspace")
        self._check(cublas.set_math_mode(handle, DEFAULT_MATH | SUMS_STAY_WIDE), "cublasSetMathMode")
        try:
            for call in self._calls:
                self._check(call(handle, left, right, out), "cublasGemmEx")
        finally:
            if cublas.of != "torch" or foreign:  # torch sets all this whenever it takes its handle
                cublas.set_math_mode(handle, DEFAULT_MATH)
                cublas.set_stream(handle, c_void_p(current))

    def _own_workspace(self) -> int:
        if self._workspace is None:
            with driver().on(self.device), driver().relaxed_capture():
                self._workspace = DeviceBuffer(WORKSPACE, self.device)
        return self._workspace.address

    def _check(self, status: int, name: str) -> None:
        if status:
            help = 'matmul="exact" and small products use kernels of fusedsl; deterministic="batch" always does'
            raise DeviceError(f"{name} failed with status {status}", "device.library", help=help)

    def stored_product(self) -> dict[str, Any]:
        """The product as JSON (see library_launch.py)."""
        return super().stored_product() | {"tf32": self.tf32}


def _call(
    cublas: Cublas, product: Gemm, calls: GemmCalls, offsets: tuple[int, int, int], tf32: bool
) -> Callable[[c_void_p, int, int, int], int]:
    """f(handle, left, right, out) that makes one call of cuBLAS; its status."""
    wide = product.accumulator.name == "float64"
    compute = COMPUTE_64F if wide else COMPUTE_TF32 if tf32 and product.factor_dtype.bits == 32 else COMPUTE_32F
    number = ctypes.c_double if wide else ctypes.c_float
    one, zero = number(1), number(0)
    alpha, beta = c_void_p(ctypes.addressof(one)), c_void_p(ctypes.addressof(zero))
    dtype, out_dtype = DATA_TYPE[product.factor_dtype.name], DATA_TYPE[product.out_dtype.name]
    head, (p, q, r), (s, t, u) = (*calls.transposed, *calls.sides), calls.pitches, map(c_longlong, calls.steps)
    (dl, dr, do), swapped, batch = offsets, calls.swapped, calls.batch
    gemm, batched = cublas.gemm, cublas.gemm_strided_batched

    def call(handle: c_void_p, left: int, right: int, out: int, owners: Any = (one, zero)) -> int:
        a, b, c = c_void_p(left + dl), c_void_p(right + dr), c_void_p(out + do)
        if swapped:
            a, b = b, a
        if batch == 1:
            return gemm(handle, *head, alpha, a, dtype, p, b, dtype, q, beta, c, out_dtype, r, compute,
                        DEFAULT_ALGORITHM)  # fmt: skip
        return batched(handle, *head, alpha, a, dtype, p, s, b, dtype, q, t, beta, c, out_dtype, r, u, batch, compute,
                       DEFAULT_ALGORITHM)  # fmt: skip

    return call
