"""Library products: which kernels of a call the arrays' own library computes, and why the others are ours."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..config import Options
from ..fusion.roofline import LAUNCH
from ..hardware import Hardware
from ..kernel_ir.gemm import Factor, Gemm, gemm
from ..kernel_ir.matmul_axes import matmul_axes, worth_tiling
from ..runtime.blas_launch import numpy_has_blas
from ..runtime.bound_kernel import BoundKernel
from ..runtime.cublas import cublas_of
from ..runtime.cublas_launch import gemm_calls
from ..runtime.layout import ALIGNMENT
from .product_work import ACROSS_LIBRARY, UNALIGNED_LIBRARY, cpu_product_rates, library_seconds

ARRAYS: tuple[Factor, ...] = ("left", "right", "out")
CPU_DTYPES = ("float32", "float64")
CUDA_DTYPES = {  # of factors: those of results
    "float16": ("float16", "float32"),
    "bfloat16": ("bfloat16", "float32"),
    "float32": ("float32",),
    "float64": ("float64",),
}
TIME_TOLERANCE = 1.05  # of the library's time: a kernel of ours that takes no longer is taken
FASTER = 0.95  # of the time of BLAS that our kernel of tiles may take where it has the higher rate
LANES = 16  # columns that our own kernel computes at a time, however few there are
LONGEST_SUM = 1 << 16  # products that a BLAS may add one after another
MIN_MULTIPLY_ADDS = 1 << 15  # multiply-adds of our own kernel from which on BLAS takes less time, the call included
# measured: two cores of an EPYC 9004, NumPy 2.4, one thread: 32³ of float32 takes 3.0 µs either way, 16³ 2.2 and 2.5,
# 48³ 5.8 and 4.4, 1024 × 4 × 4 99 and 4, 64 products of 8³ 10.7 and 7.5, 16 of them 4.0 and 5.2


@dataclass(frozen=True)
class LibraryProduct:
    """A kernel that a library computes: its GEMM, the library, the reason, and the predicted seconds on a GPU."""

    gemm: Gemm
    library: str  # "numpy", "torch" or "cupy"
    reason: str
    tf32: bool = False
    seconds: float | None = None

    @property
    def name(self) -> str:
        """The library in words."""
        return {"numpy": "BLAS of NumPy", "torch": "cuBLAS through torch", "cupy": "cuBLAS through CuPy"}[self.library]

    def source(self, left: str, right: str, out: str) -> str:
        """The call by which it is computed, for arrays of these names."""
        if self.library == "numpy":
            return f"numpy.matmul({left}, {right}, out={out})"
        sides = f"m={self.gemm.rows.extent}, n={self.gemm.columns.extent}, k={self.gemm.terms.extent}"
        compute = "64F" if self.gemm.accumulator.name == "float64" else "32F_FAST_TF32" if self.tf32 else "32F"
        function = "cublasGemmStridedBatchedEx" if self.gemm.batch else "cublasGemmEx"
        batch = f", batch={self.gemm.batch_count}" if self.gemm.batch else ""
        return f"{function}({left}, {right}, out={out}, {sides}{batch}, compute=CUBLAS_COMPUTE_{compute})"


def library_product(
    bound: BoundKernel,
    library: str | None,
    options: Options,
    hardware: Hardware | None = None,
    own_seconds: float = math.inf,
) -> LibraryProduct | str:
    """The library product of a kernel at the extents of a call; if it stays ours, the reason.

    `library` is that of the call's arrays, None if it is not to be used. `hardware` is the GPU (None: the CPU), and
    `own_seconds` are the predicted seconds of our own kernel.
    """
    if library is None:
        return "there is no library for these arrays"
    if options.batch_invariant:
        return "a library's bits depend on other rows"
    product = gemm(bound.kernel, bound.extents, bound.strides)
    if isinstance(product, str):
        return product
    if product.multiply_adds == 0:
        return "it sums nothing"
    if any(product.layout(array) is None for array in ARRAYS):
        return "BLAS takes no array without contiguous lines"
    if any(min(axis.left, axis.right, axis.out) < 0 for axis in product.batch):
        return "BLAS takes no array that is read backwards"
    if hardware is None:
        return _by_blas(product, bound, options, own_seconds)
    return _by_cublas(product, library, options, hardware, own_seconds)


def blas_library(array_library: str, on_device: bool) -> str | None:
    """The library that may compute products of arrays of `array_library`; None if there is none."""
    if on_device:
        return array_library if cublas_of(array_library) is not None else None
    return "numpy" if numpy_has_blas() else None


def _by_blas(product: Gemm, bound: BoundKernel, options: Options, own_seconds: float) -> LibraryProduct | str:
    """The product by NumPy's BLAS."""
    dtypes = {product.factor_dtype.name, product.accumulator.name, product.out_dtype.name}
    if len(dtypes) > 1 or product.factor_dtype.name not in CPU_DTYPES:
        return "BLAS has no product of these dtypes"
    if product.terms.extent > LONGEST_SUM:
        return "sums of so many products are added in parts by our own kernel, which is more accurate"
    padded_multiply_adds = (
        product.batch_count * product.rows.extent * product.terms.extent * max(LANES, product.columns.extent)
    )
    if options.matmul != "library" and padded_multiply_adds < MIN_MULTIPLY_ADDS:
        return "so small a product takes less time in a kernel of its own"
    if options.matmul != "library" and _own_kernel_is_faster(product, bound, own_seconds):
        return "our own kernel takes less time: the vectors of this BLAS are narrower than those of the processor"
    return LibraryProduct(product, "numpy", "it is nothing but a product of two arrays")


def _own_kernel_is_faster(product: Gemm, bound: BoundKernel, own_seconds: float) -> bool:
    """Whether BLAS has a lower rate than our kernel of tiles, which takes less time for this product."""
    rates, axes = cpu_product_rates(), matmul_axes(bound.kernel)
    if rates.own.multiplication >= rates.blas.multiplication:
        return False
    if axes is None or not worth_tiling(bound.kernel, axes, bound.extents):
        return False
    sides = product.batch_count, product.rows.extent, product.columns.extent, product.terms.extent
    return own_seconds < FASTER * rates.blas.seconds(sides, product.factor_dtype.itemsize)


def _by_cublas(
    product: Gemm, library: str, options: Options, hardware: Hardware, own_seconds: float
) -> LibraryProduct | str:
    """The product by cuBLAS."""
    accumulator = "float64" if product.factor_dtype.name == "float64" else "float32"
    results = CUDA_DTYPES.get(product.factor_dtype.name, ())
    if product.out_dtype.name not in results or product.accumulator.name != accumulator:
        return "cuBLAS has no product of these dtypes"
    calls = gemm_calls(product)
    if isinstance(calls, str):
        return calls
    tf32 = options.matmul == "tf32" and product.factor_dtype.name == "float32"
    if options.matmul == "3xtf32" and product.factor_dtype.name == "float32":
        return "cuBLAS has no products of three TF32 parts"
    seconds = _gemm_seconds(product, hardware, tf32) + (len(calls.offsets) - 1) * LAUNCH
    if options.matmul != "library" and own_seconds <= TIME_TOLERANCE * seconds:
        return "our own kernel takes no longer, by the time model"
    return LibraryProduct(product, library, "it is nothing but a product of two arrays", tf32, seconds)


def _gemm_seconds(product: Gemm, hardware: Hardware, tf32: bool) -> float:
    """The predicted seconds of a GEMM by one call of cuBLAS."""
    m, n, k = product.rows.extent, product.columns.extent, product.terms.extent
    factors = (m * k + k * n) * product.factor_dtype.itemsize
    moved = product.batch_count * (factors + m * n * product.out_dtype.itemsize)
    sides, share = (product.batch_count, m, n, k), _layout_share(product, tf32)
    return library_seconds(sides, product.factor_dtype, moved, hardware, tf32, share)


def _layout_share(product: Gemm, tf32: bool) -> float:
    """The share of its rate that cuBLAS reaches with matrices of these layouts."""
    layouts = {array: product.layout(array) for array in ARRAYS}
    sizes = {"left": product.factor_dtype, "right": product.factor_dtype, "out": product.out_dtype}
    lines = [layout.pitch * sizes[array].itemsize for array, layout in layouts.items() if layout is not None]
    if product.factor_dtype.itemsize == 2 and any(line % ALIGNMENT for line in lines):
        return UNALIGNED_LIBRARY
    left, right = layouts["left"], layouts["right"]
    across = left is not None and left.transposed and right is not None and not right.transposed
    return ACROSS_LIBRARY if tf32 and across else 1.0
