"""Paged row lookup: each warp computes the addresses of all rows of a tile, a lane every 32nd, and copies the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...compiler.numba_backend import I32, I64, emitted, types
from ...mma.smem_swizzle import CHUNKS, SwizzledTile, start_of, swizzled
from ...mma.tile_sizes import COPY_BYTES
from ...tile.scalar_functions import elements_of, mapped
from ...tile.shuffle import WARP, ballot_bits, shuffle

i32, i64 = types.int32, types.int64


@dataclass(frozen=True)
class PagedLookup:
    """The rows of a tile that a lane looks up: those with its index, its index + 32, and so on."""

    rows: int

    @property
    def count(self) -> int:
        """The number of rows of a lane."""
        return -(-self.rows // WARP)

    @emitted(lambda self: types.UniTuple(i64, self.count))
    def places(self, e, first, *, kinds):
        """`places(first)`: the int64 indices of a lane's rows, if the first row of the tile has index `first`."""
        b = e.builder
        lane_row = b.add(e.cast(first, kinds[0], i32), b.and_(e.special_register("tid.x"), I32(WARP - 1)))
        return [b.zext(b.add(lane_row, I32(WARP * k)), I64) for k in range(self.count)]

    def elementwise(self, signature: str) -> Callable[[Callable], Callable]:
        """Decorator: a scalar function over rows and uniform values; a result is a tuple of rows."""
        return mapped(signature, self.count, partial(elements_of, count=self.count))

    @emitted(lambda self: types.UniTuple(i32, self.count))
    def words(self, e, flags):
        """`words(flags)`: ballots, a bit for each row, in all lanes."""
        return [ballot_bits(e, x) for x in e.unpack(flags, self.count)]

    def copy(self, size: int, padded_size: int, threads: int) -> Callable:
        """`copy(to, at)`: start to copy rows of `size` bytes from their addresses, by cp.async; zeros for rows at
        address 0, and up to `padded_size` bytes of a row. All warps of the block have looked up the same rows."""
        each = threads // CHUNKS  # rows at a time; the address of row r is number r // 32 of lane r % 32
        panels = SwizzledTile(self.rows, size, padded_size, each)

        @emitted(types.void)
        def emit(e, to, at, *, kinds):
            b, thread, addresses = e.builder, e.special_register("tid.x"), e.unpack(at, self.count)
            row, chunk = b.lshr(thread, I32(CHUNKS.bit_length() - 1)), b.and_(thread, I32(CHUNKS - 1))
            to = b.add(start_of(e, e.cast(to, kinds[0], i32), row), swizzled(e, row, chunk))
            chunk_offset = b.shl(b.zext(chunk, I64), I64(COPY_BYTES.bit_length() - 1))
            for first in range(0, self.rows, each):
                number, lane = divmod(first, WARP)
                begin = shuffle(e, "idx", addresses[number], b.add(row, I32(lane)))
                here = b.icmp_unsigned("!=", begin, I64(0))
                panels.copy(e, to, b.add(begin, chunk_offset), (row, chunk), first, here)

        return emit
