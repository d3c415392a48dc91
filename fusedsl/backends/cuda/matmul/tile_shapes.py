"""Shapes of a block's tiles: operand tiles in shared memory and who copies them, and the sums of its threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ....ir.types import dtype

COPY_BYTES = 16  # of the widest cp.async
SWIZZLE_BYTES = 128  # of a swizzled line
WARP = 32
FRAGMENT_PADS = {4: 8, 8: 4}  # elements between padded lines by their size: 4 steps of 8 lanes are in different banks


Major = Literal["k", "mn"]


@dataclass(frozen=True)
class BlockShape:
    """A shape of a block's sums, and the share of the card's arithmetic that it reaches on many tiles."""

    rows: int
    columns: int
    depth: int
    warps: tuple[int, int]
    rate: float
    lanes: tuple[int, int] | None = None  # along rows and columns of a warp on CUDA cores; None: tensor cores


@dataclass(frozen=True)
class OperandTileShape:
    """The tile of one operand: `lanes` rows or columns of the block's output, `depth` steps of the sum.

    `major` is the contiguous axis in global memory. `piece` elements are copied at a time; several lie along `major`.
    Copies are by cp.async, or `by_registers`: single elements of two bytes or less.
    """

    dtype: str
    lanes: int
    depth: int
    major: Major
    piece: int
    threads: int
    layout: Literal["padded", "k", "mn"]  # in shared memory: padded lines of lanes, or swizzled lines along K or lanes
    pad: int = 4  # elements between padded lines
    by_registers: bool = False

    @property
    def itemsize(self) -> int:
        return dtype(self.dtype).itemsize

    @property
    def pitch(self) -> int:
        """Elements from one padded line to the next."""
        return self.lanes + self.pad

    @property
    def bytes(self) -> int:
        """Of a stage."""
        if self.layout == "padded":
            return self.pitch * self.depth * self.itemsize
        lines, along = (self.lanes, self.depth) if self.layout == "k" else (self.depth, self.lanes)
        return lines * -(-along * self.itemsize // SWIZZLE_BYTES) * SWIZZLE_BYTES

    @property
    def across(self) -> int:
        """Neighbouring threads with pieces along `major`: those of one line."""
        if self.major == "mn":
            return min(self.lanes // self.piece, self.threads)
        return min(self.depth // self.piece, 32 if self.by_registers else 8)

    @property
    def lines(self) -> int:
        """Lines of pieces that the block copies at a time."""
        return self.threads // self.across

    @property
    def lane_pieces(self) -> int:
        """Pieces of a thread at different lanes."""
        if self.major == "mn":
            return self.lanes // self.piece // self.across
        return -(-self.lanes // self.lines)

    @property
    def step_pieces(self) -> int:
        """Pieces of a thread at different steps, for each lane."""
        if self.major == "mn":
            return -(-self.depth // self.lines)
        return self.depth // self.piece // self.across

    @property
    def lane_stride(self) -> int:
        """Lanes from one piece of a thread to the next."""
        return self.across * self.piece if self.major == "mn" else self.lines

    @property
    def step_stride(self) -> int:
        """Steps from one piece of a thread to the next."""
        return self.lines if self.major == "mn" else self.across * self.piece


@dataclass(frozen=True)
class FmaTileShape:
    """The sums of a block on CUDA cores: `warps` and in them `lanes` along (rows, columns); a thread's are in groups
    of 4 x 4, the groups of a warp's lanes side by side."""

    dtype: str
    rows: int
    columns: int
    depth: int
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
        """Sums of a thread."""
        return self.thread_rows * self.thread_columns

    @property
    def pitch(self) -> int:
        """Sums from one row of the tile in shared memory to the next: a quarter of a warp writes to all banks."""
        return self.columns + 4

    @property
    def bytes(self) -> int:
        """Of the sums in shared memory."""
        return self.rows * self.pitch * dtype(self.dtype).itemsize


@dataclass(frozen=True)
class MmaTileShape:
    """The sums of a block on tensor cores: of products of `dtype`, in the dtype `sums`; `warps` along rows, columns."""

    dtype: str
    sums: str
    rows: int
    columns: int
    depth: int
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
        """Sums of a thread."""
        return self.warp_rows * self.warp_columns // WARP

    @property
    def pitch(self) -> int:
        """Sums from one row of the tile in shared memory to the next: pairs of four rows are in different banks."""
        return self.columns + 8

    @property
    def bytes(self) -> int:
        """Of the sums in shared memory."""
        return self.rows * self.pitch * dtype(self.sums).itemsize


@dataclass(frozen=True)
class RowVectorShape:
    """The vectors in which a block's threads finish a tile of so many columns: `vectors` of a thread at a time, in
    rows `row_stride` apart. If `partial`, the last vector of a row may exist in part."""

    columns: int
    width: int
    vectors: int
    threads: int
    partial: bool = True

    @property
    def across(self) -> int:
        """Vectors of a row."""
        return self.columns // self.width

    @property
    def row_stride(self) -> int:
        return self.threads // self.across

    @property
    def rows(self) -> int:
        """Rows that the block finishes at a time."""
        return self.row_stride * self.vectors
