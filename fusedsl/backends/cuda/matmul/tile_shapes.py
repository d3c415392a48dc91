"""Shapes of a block's tiles: operand tiles in shared memory, the vectors that threads copy, accumulators of threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ....ir.types import dtype
from ..mma.tile_sizes import SWIZZLE_BYTES

WARP = 32
STEP_BYTES = 32  # of K in a fragment of tensor cores
FRAGMENT_PADS = {4: 8, 8: 4}  # itemsize -> elements between padded lines: 4 steps of 8 elements are in different banks


Major = Literal["k", "mn"]


@dataclass(frozen=True)
class BlockShape:
    """A block tile (M, N, K) with its warps, and the fraction of the peak rate that it reaches on many tiles."""

    rows: int
    columns: int
    block_k: int
    warps: tuple[int, int]
    peak_fraction: float
    lanes: tuple[int, int] | None = None  # (rows, columns) of a warp's lanes on CUDA cores; None: tensor cores


@dataclass(frozen=True)
class OperandTileShape:
    """The tile of one operand: `mn` rows (of the left) or columns (of the right operand) by `block_k` steps of K.

    `major` is the contiguous axis in global memory. A copy vector of `vector` elements lies along it. Copies are by
    cp.async, or `through_registers`: single elements of two bytes or less.
    """

    dtype: str
    mn: int
    block_k: int
    major: Major
    vector: int
    threads: int
    layout: Literal["padded", "k", "mn"]  # in shared memory: padded lines along M/N, or swizzled lines along K or M/N
    pad: int = 4  # elements between padded lines
    through_registers: bool = False

    @property
    def itemsize(self) -> int:
        return dtype(self.dtype).itemsize

    @property
    def pitch(self) -> int:
        """Elements from one padded line to the next."""
        return self.mn + self.pad

    @property
    def size_bytes(self) -> int:
        """Bytes of the tile, one stage of the ring."""
        if self.layout == "padded":
            return self.pitch * self.block_k * self.itemsize
        lines, along = (self.mn, self.block_k) if self.layout == "k" else (self.block_k, self.mn)
        return lines * -(-along * self.itemsize // SWIZZLE_BYTES) * SWIZZLE_BYTES

    @property
    def threads_per_line(self) -> int:
        """Neighbouring threads that copy one line, along `major`."""
        if self.major == "mn":
            return min(self.mn // self.vector, self.threads)
        return min(self.block_k // self.vector, 32 if self.through_registers else 8)

    @property
    def lines_at_once(self) -> int:
        """Lines of which the block copies a vector of each thread at a time."""
        return self.threads // self.threads_per_line

    @property
    def mn_vectors(self) -> int:
        """Copy vectors of a thread at different M/N positions."""
        if self.major == "mn":
            return self.mn // self.vector // self.threads_per_line
        return -(-self.mn // self.lines_at_once)

    @property
    def k_vectors(self) -> int:
        """Copy vectors of a thread at different steps of K, for each M/N position."""
        if self.major == "mn":
            return -(-self.block_k // self.lines_at_once)
        return self.block_k // self.vector // self.threads_per_line

    @property
    def mn_stride(self) -> int:
        """M/N positions from one vector of a thread to the next."""
        return self.threads_per_line * self.vector if self.major == "mn" else self.lines_at_once

    @property
    def k_stride(self) -> int:
        """Steps of K from one vector of a thread to the next."""
        return self.lines_at_once if self.major == "mn" else self.threads_per_line * self.vector


@dataclass(frozen=True)
class FmaTileShape:
    """The accumulators of a block on CUDA cores: `warps`, and in a warp `lanes`, along (rows, columns).

    A thread's accumulators are in groups of 4 x 4; the groups of a warp's lanes lie side by side.
    """

    dtype: str
    rows: int
    columns: int
    block_k: int
    warps: tuple[int, int]
    lanes: tuple[int, int]

    @property
    def threads(self) -> int:
        return WARP * self.warps[0] * self.warps[1]

    @property
    def thread_rows(self) -> int:
        return self.rows // (self.warps[0] * self.lanes[0])

    @property
    def thread_columns(self) -> int:
        return self.columns // (self.warps[1] * self.lanes[1])

    @property
    def count(self) -> int:
        """Accumulators of a thread."""
        return self.thread_rows * self.thread_columns

    @property
    def fragment_words(self) -> int:
        """Registers of a thread for the elements of a step of both operands."""
        return (self.thread_rows + self.thread_columns) * max(1, dtype(self.dtype).itemsize // 4)

    @property
    def pitch(self) -> int:
        """Accumulators from one row in shared memory to the next: a quarter of a warp writes to all banks."""
        return self.columns + 4

    @property
    def size_bytes(self) -> int:
        """Bytes of the accumulators in shared memory."""
        return self.rows * self.pitch * dtype(self.dtype).itemsize


@dataclass(frozen=True)
class MmaTileShape:
    """The accumulators of a block on tensor cores, of products of `dtype`; `warps` along (rows, columns)."""

    dtype: str
    accumulator_dtype: str
    rows: int
    columns: int
    block_k: int
    warps: tuple[int, int]

    @property
    def threads(self) -> int:
        return WARP * self.warps[0] * self.warps[1]

    @property
    def warp_rows(self) -> int:
        return self.rows // self.warps[0]

    @property
    def warp_columns(self) -> int:
        return self.columns // self.warps[1]

    @property
    def count(self) -> int:
        """Accumulators of a thread."""
        return self.warp_rows * self.warp_columns // WARP

    @property
    def steps(self) -> int:
        """Fragments of a K-slice, one after another along K."""
        return self.block_k * dtype(self.dtype).itemsize // STEP_BYTES

    @property
    def fragment_words(self) -> int:
        """Registers of a thread for the fragments of both operands."""
        return (self.warp_rows + self.warp_columns) * STEP_BYTES // (4 * WARP)

    @property
    def pitch(self) -> int:
        """Accumulators from one row in shared memory to the next: pairs of four rows are in different banks."""
        return self.columns + 8

    @property
    def size_bytes(self) -> int:
        """Bytes of the accumulators in shared memory."""
        return self.rows * self.pitch * dtype(self.accumulator_dtype).itemsize


@dataclass(frozen=True)
class RowVectorShape:
    """The vectors in which a block's threads run the epilogue of a tile of so many columns.

    A thread has `vectors` at a time, in rows `row_stride` apart. If `partial`, the last vector of a row may exist in
    part.
    """

    columns: int
    width: int
    vectors: int
    threads: int
    partial: bool = True

    @property
    def threads_per_row(self) -> int:
        """Threads that share a row, with one vector each."""
        return self.columns // self.width

    @property
    def row_stride(self) -> int:
        return self.threads // self.threads_per_row

    @property
    def rows(self) -> int:
        """Rows of which the block runs the epilogue at a time."""
        return self.row_stride * self.vectors
