"""Launch records of library products from what is stored of them on disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..kernel_ir.gemm import gemm_from_json
from .blas_launch import BlasLaunch
from .cublas import cublas_of
from .cublas_launch import CublasLaunch
from .parameter_packing import BlockLayout


def library_launch(
    library: str, stored: Mapping[str, Any], layout: BlockLayout, device: int
) -> BlasLaunch | CublasLaunch:
    """The record of a product by this library; KeyError if its cuBLAS is not there."""
    product = gemm_from_json(stored["gemm"])
    if library == "numpy":
        return BlasLaunch(product, layout)
    cublas = cublas_of(library)
    if cublas is None:
        raise KeyError(library)
    return CublasLaunch(product, layout, cublas, device, bool(stored["tf32"]))
