"""The work of a library's matrix product on a GPU, for the time model."""

from __future__ import annotations

from collections.abc import Sequence

from ..fusion.roofline import TENSOR_SHARE, Work
from ..hardware import Hardware
from ..ir.types import DType

# measured: H100, cuBLAS, 4096³: bfloat16 176 µs, float32 2,640 µs
TENSOR_LIBRARY, FLOAT_LIBRARY, DOUBLE_LIBRARY = 0.73, 0.78, 0.85  # of the peak rate that the library reaches
EDGE = 64  # rows and columns of the tiles that multiprocessors share
SPLIT = 512  # terms from which on the library splits few tiles along them


def library_work(sides: Sequence[int], factors: DType, moved: float, hardware: Hardware, tf32: bool = False) -> Work:
    """The work of a library's product of (batch, rows, columns, terms), which reads and writes `moved` bytes."""
    batch, rows, columns, terms = sides
    tiles = batch * -(-rows // EDGE) * -(-columns // EDGE) * max(1, terms // SPLIT)
    rate = _rate(factors, hardware, tf32) * min(1.0, max(1, tiles) / hardware.multiprocessors)
    terms_alike = batch * rows * columns * terms * hardware.rate(hardware.tensor) * TENSOR_SHARE / rate
    return Work(moved, 0, 0, products=terms_alike)


def _rate(factors: DType, hardware: Hardware, tf32: bool) -> float:
    """Multiply-adds a second of the library's large products."""
    if factors.bits <= 16:
        return hardware.rate(hardware.tensor) * TENSOR_LIBRARY
    if factors.bits == 32 and tf32:
        return hardware.rate(hardware.tensor) / 2 * TENSOR_LIBRARY
    if factors.bits == 32:
        return hardware.rate(hardware.fp32) * FLOAT_LIBRARY
    return hardware.rate(hardware.fp64) * (2 if hardware.double_tensor_cores else 1) * DOUBLE_LIBRARY
