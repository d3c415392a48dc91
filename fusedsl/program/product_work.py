"""The predicted time of a library's matrix product on a GPU, and the rates of products on this CPU."""

from __future__ import annotations

from collections.abc import Sequence

from ..backends.cpu.product_time import ProductRates, product_rates
from ..fusion.roofline import LATENCY, LAUNCH, READ_SHARE
from ..hardware import Hardware
from ..ir.types import DType
from ..runtime import vector_units

# measured: H100, cuBLAS: bfloat16 1024³ 9.1 µs, 2048³ 27.3, 4096³ 175, 4096 × 14336 × 4096 608; 4096³ of float32 2,640,
# of TF32 347, of float64 2,355. H200: 1,012 for bfloat16 4096 × 4096 × 4095, 135 for 8192 × 1001 × 1001, of which lines
# are no whole number of 16 bytes; 609 for TF32 4096³ of two factors whose lines run across the terms
UNALIGNED_LIBRARY, ACROSS_LIBRARY = 0.18, 0.57  # of the library's rate that it reaches then
TENSOR_LIBRARY, FLOAT_LIBRARY, DOUBLE_LIBRARY = 0.78, 0.78, 0.85  # of the peak rate that the library reaches
TILE, SPLIT = 128, 512  # rows and columns of a tile of cuBLAS, and terms from which on it splits few tiles
TILE_ENDS = 2.4e-6  # seconds in which the first tile is loaded and the last one is stored


def library_seconds(
    sides: Sequence[int], factors: DType, moved: float, hardware: Hardware, tf32: bool = False, share: float = 1.0
) -> float:
    """The time of a library's product of (batch, rows, columns, terms), which reads and writes `moved` bytes.

    Its layouts allow this share of the library's rate.
    """
    batch, rows, columns, terms = sides
    tiles = batch * -(-rows // TILE) * -(-columns // TILE) * max(1, terms // SPLIT)
    used = min(1.0, max(1, tiles) / hardware.multiprocessors)
    busy = batch * rows * columns * terms / (library_rate(factors, hardware, tf32) * share * used)
    return LAUNCH + LATENCY + TILE_ENDS + max(busy, moved / (READ_SHARE * hardware.bandwidth))


def library_rate(factors: DType, hardware: Hardware, tf32: bool = False) -> float:
    """Multiply-adds a second of the library's large products."""
    if factors.bits <= 16:
        return hardware.rate(hardware.tensor) * TENSOR_LIBRARY
    if factors.bits == 64:
        return hardware.rate(hardware.fp64) * (2 if hardware.double_tensor_cores else 1) * DOUBLE_LIBRARY
    if tf32 and hardware.cc >= (8, 0):
        return hardware.rate(hardware.tensor) / 2 * TENSOR_LIBRARY
    return hardware.rate(hardware.fp32) * FLOAT_LIBRARY


def cpu_product_rates() -> ProductRates:
    """The rates of matrix products on this CPU."""
    return product_rates(vector_units.vector_unit_bytes(), vector_units.blas_vector_bytes())
