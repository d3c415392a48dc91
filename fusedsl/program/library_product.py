"""Library products: which kernels of a call the arrays' own library computes, and why the others are ours."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import Options
from ..kernel_ir.gemm import Factor, Gemm, gemm
from ..runtime.bind_shapes import BoundKernel
from ..runtime.blas_launch import numpy_has_blas

ARRAYS: tuple[Factor, ...] = ("left", "right", "out")
CPU_DTYPES = ("float32", "float64")
LANES = 16  # columns that our own kernel computes at a time, however few there are
LEAST = 1 << 15  # multiply-adds of our own kernel from which on BLAS takes less time, the call included
# measured: two cores of an EPYC 9004, NumPy 2.4, one thread: 32³ of float32 takes 3.0 µs either way, 16³ 2.2 and 2.5,
# 48³ 5.8 and 4.4, 1024 × 4 × 4 99 and 4, 64 products of 8³ 10.7 and 7.5, 16 of them 4.0 and 5.2


@dataclass(frozen=True)
class LibraryProduct:
    """A kernel that a library computes: its GEMM, the library, and the reason."""

    gemm: Gemm
    library: str  # "numpy"
    reason: str

    @property
    def name(self) -> str:
        """The library in words."""
        return "BLAS of NumPy"

    def source(self, left: str, right: str, out: str) -> str:
        """The call by which it is computed, for arrays of these names."""
        return f"numpy.matmul({left}, {right}, out={out})"


def library_product(bound: BoundKernel, library: str | None, options: Options) -> LibraryProduct | str:
    """The library product of a kernel at the extents of a call; if it stays ours, the reason.

    `library` is that of the call's arrays, None if it is not to be used.
    """
    if library is None:
        return "there is no library for these arrays"
    if options.steady:
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
    return _by_blas(product, options)


def library_of(library: str, on_device: bool) -> str | None:
    """The library that may compute products of arrays of `library`; None if there is none."""
    if on_device:
        return None
    return "numpy" if numpy_has_blas() else None


def _by_blas(product: Gemm, options: Options) -> LibraryProduct | str:
    """The product by NumPy's BLAS."""
    dtypes = {product.factor_dtype.name, product.accumulator.name, product.out_dtype.name}
    if len(dtypes) > 1 or product.factor_dtype.name not in CPU_DTYPES:
        return "BLAS has no product of these dtypes"
    computed = product.batch_count * product.rows.extent * product.terms.extent * max(LANES, product.columns.extent)
    if options.matmul != "library" and computed < LEAST:
        return "so small a product takes less time in a kernel of its own"
    return LibraryProduct(product, "numpy", "it is nothing but a product of two arrays")
