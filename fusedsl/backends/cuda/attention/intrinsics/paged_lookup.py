"""Paged row lookup: each warp computes the addresses of all rows of a tile, a lane every 32nd, and copies the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...compiler.numba_backend import I32, I64, emitted, types
from ...mma.smem_swizzle import CHUNKS, SwizzledTile, start_of, swizzled
from ...tile.scalar_functions import elements_of, mapped
from ...tile.shuffle import WARP, ballot_bits, shuffle

i32, i64 = types.int32, types.int64


@dataclass(frozen=True)
class PagedLookup:
    """The rows of a tile that a lane looks up: those with its index, its index + 32, and so on."""

    lines: int

    @property
    def count(self) -> int:
        """The number of rows of a lane."""
        return -(-self.lines // WARP)

    @emitted(lambda self: types.UniTuple(i64, self.count))
    def places(self, e, first, *, kinds):
        """`places(first)`: the int64 indices of a lane's rows, if the first row of the tile has index `first`."""
        b = e.builder
        own = b.add(e.cast(first, kinds[0], i32), b.and_(e.special_register("tid.x"), I32(WARP - 1)))
        return [b.zext(b.add(own, I32(WARP * k)), I64) for k in range(self.count)]

    def elementwise(self, signature: str) -> Callable[[Callable], Callable]:
        """Decorator: a scalar function over rows and uniform values; a result is a tuple of rows."""
        return mapped(signature, self.count, partial(elements_of, count=self.count))

    @emitted(lambda self: types.UniTuple(i32, self.count))
    def words(self, e, flags):
        """`words(flags)`: a bit for each row, in all lanes."""
        return [ballot_bits(e, x) for x in e.unpack(flags, self.count)]

    def copy(self, size: int, room: int, threads: int) -> Callable:
        """`copy(to, at)`: start to copy rows of `size` bytes from their addresses, by cp.async; zeros for rows at
        address 0, and up to `room` bytes of a row. All warps of the block have looked up the same rows."""
        each = threads // CHUNKS  # lines at a time: a lane has found the next one in as many, or another of its own
        panels = SwizzledTile(self.lines, size, room, each)

        @emitted(types.void)
        def emit(e, to, at, *, kinds):
            b, thread, addresses = e.builder, e.special_register("tid.x"), e.unpack(at, self.count)
            line, chunk = b.lshr(thread, I32(3)), b.and_(thread, I32(CHUNKS - 1))
            to = b.add(start_of(e, e.cast(to, kinds[0], i32), line), swizzled(e, line, chunk))
            own = b.shl(b.zext(chunk, I64), I64(4))
            for first in range(0, self.lines, each):
                number, lane = divmod(first, WARP)
                begin = shuffle(e, "idx", addresses[number], b.add(line, I32(lane)))
                here = b.icmp_unsigned("!=", begin, I64(0))
                panels.copy(e, to, b.add(begin, own), (line, chunk), first, here)

        return emit
