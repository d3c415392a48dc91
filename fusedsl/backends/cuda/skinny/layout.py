"""Skinny layout: the shape of what a block of a product with few rows multiplies at a time, and its bytes."""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.types import dtype
from ....kernel_ir.memory_access import ACCESS_BYTES

ROWS, LINE_BYTES = 64, 64  # of the streamed operand, of a warp at a time: rows, and bytes of each
VECTORS = ROWS * LINE_BYTES // ACCESS_BYTES // 32  # of a lane
PART = 4  # neighbouring results that a thread finishes at a time
BANK_BYTES = 128  # of a row of shared memory's banks


@dataclass(frozen=True)
class SkinnyLayout:
    """Rows of the narrow operand (a multiple of 8, padded), and the warps of a block along each axis.

    `near` is the axis along which the streamed operand is contiguous: "k", or "n" for its rows. Elements are of
    `dtype`.
    """

    dtype: str
    near: str
    narrow: int
    warps_narrow: int = 1
    warps_streamed: int = 1
    warps_k: int = 4

    @property
    def itemsize(self) -> int:
        return dtype(self.dtype).itemsize

    @property
    def steps(self) -> int:
        """Steps of a warp at a time."""
        return LINE_BYTES // self.itemsize

    @property
    def threads(self) -> int:
        return 32 * self.warps_narrow * self.warps_streamed * self.warps_k

    @property
    def thread_sums(self) -> int:
        """Accumulators of a thread, for one product."""
        return (2 if self.itemsize == 2 else 4) * self.narrow // self.warps_narrow

    @property
    def streamed(self) -> int:
        """Rows of the streamed operand."""
        return ROWS * self.warps_streamed

    @property
    def depth(self) -> int:
        """Steps of a stage."""
        return self.steps * self.warps_k

    @property
    def streamed_bytes(self) -> int:
        """Bytes of a streamed operand in a stage."""
        return self.itemsize * self.streamed * self.depth

    @property
    def pitch(self) -> int:
        """Bytes from one narrow row to the next: a fragment's rows, 8 or 16 bytes a lane, lie in different banks."""
        banks, line = BANK_BYTES // (2 if self.near == "k" else 4), self.itemsize * self.depth
        return line + (banks - line) % (2 * banks)

    @property
    def narrow_bytes(self) -> int:
        """Bytes of a narrow operand in a stage."""
        return self.narrow * self.pitch

    @property
    def partial_bytes(self) -> int:
        """Bytes of the accumulators of one product in all warps along K."""
        return self.warps_k * self.record_bytes

    @property
    def record_bytes(self) -> int:
        """Bytes of the block's accumulators of one product."""
        return 4 * self.narrow * self.streamed

    @property
    def parts(self) -> int:
        """Vectors of the block's results."""
        return self.narrow * self.streamed // PART
