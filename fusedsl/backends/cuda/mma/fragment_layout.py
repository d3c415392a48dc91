"""Layout of accumulator fragments: rows and columns of a thread, and their addresses in swizzled shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..compiler.numba_backend import I32, I64, Emitter, emitted, intrinsic, ir, numba_type, types
from ..tile.thread_index import thread_here

ROWS = 2  # of a thread: lane 4 g + t has rows g and g + 8 of its warp's 16, and of each 8 columns 2 t and 2 t + 1


@dataclass(frozen=True)
class FragmentLayout:
    """64 rows of `columns` columns. In each 8 columns, a thread has a pair of one row and a pair of the other."""

    columns: int

    @property
    def count(self) -> int:
        """Elements of a thread."""
        return self.columns // 2

    @emitted(lambda self, name: types.UniTuple(numba_type(name), self.count // 2))
    def column_index(self, e, start, *, kinds, name: str):
        """`column_index(start)`: the indices of a thread's columns; the first column of the tile has index `start`."""
        kind = numba_type(name)
        b, first = e.builder, e.cast(start, kinds[0], types.int32)
        column = b.shl(b.and_(e.special_register("tid.x"), I32(3)), I32(1))
        own = b.add(first, column, flags=["nsw"])
        steps = [k // 2 * 8 + k % 2 for k in range(self.count // 2)]
        columns = [b.add(own, I32(step), flags=["nsw"]) for step in steps]
        return [e.cast(x, types.int32, kind) for x in columns]

    def column_offsets(self) -> Callable:
        """`column_offsets()`: offsets of a thread's columns from its first: constants that fold into addresses."""
        result = types.UniTuple(types.int64, self.count // 2)
        offsets = [I64(k // 2 * 8 + k % 2) for k in range(self.count // 2)]
        return intrinsic(0)(lambda: (result, lambda e: e.pack(result, offsets)))

    @emitted(lambda self: types.UniTuple(types.boolean, self.count // 2))
    def in_bounds(self, e, start, limit, *, kinds):
        """`in_bounds(start, limit)`: whether the index of each column is below the limit."""
        b = e.builder
        room = b.sub(e.cast(limit, kinds[1], types.int32), e.cast(start, kinds[0], types.int32))
        room = b.sub(room, b.shl(b.and_(e.special_register("tid.x"), I32(3)), I32(1)))
        steps = [k // 2 * 8 + k % 2 for k in range(self.count // 2)]
        return [b.icmp_signed("<", I32(step), room) for step in steps]

    @emitted(lambda self: types.UniTuple(types.boolean, self.count // 2))
    def flags(self, e, given, *, kinds):
        """`flags(words)`: a condition of each column, from words with a bit for each."""
        b = e.builder
        own = b.shl(b.and_(e.special_register("tid.x"), I32(3)), I32(1))
        words = [b.lshr(word, own) for word in e.unpack(given, len(kinds[0]))]
        steps = [k // 2 * 8 + k % 2 for k in range(self.count // 2)]
        bits = [b.and_(words[step // 32], I32(1 << step % 32)) for step in steps]
        return [b.icmp_unsigned("!=", bit, I32(0)) for bit in bits]

    def box_addresses(self, e: Emitter, at: ir.Value, rows: int, thread: ir.Value) -> list[ir.Value]:
        """The addresses of a thread's rows in the matrices of a box, four matrices (16 columns) at a time."""
        b = e.builder
        line, half = b.and_(thread, I32(15)), b.and_(b.lshr(thread, I32(4)), I32(1))
        line = b.or_(line, b.shl(b.and_(b.lshr(thread, I32(5)), I32(3)), I32(4)))
        start = b.add(at, b.shl(line, I32(7)))
        chunk = b.shl(b.xor(half, b.and_(thread, I32(7))), I32(4))
        addresses = []
        for column in range(0, self.columns, 16):
            panel, further = divmod(column, 64)
            address = b.add(start, b.xor(chunk, I32(2 * further)))
            addresses.append(b.add(address, I32(panel * rows * 128)))
        return addresses


@emitted(lambda name: types.UniTuple(numba_type(name), ROWS))
def row_positions(e, start, *, kinds, name: str):
    """`rows(start)`: the indices of a thread's rows; the first of the 64 has index `start`."""
    kind = numba_type(name)
    b, thread = e.builder, thread_here(e)
    warp = b.shl(b.and_(b.lshr(thread, I32(5)), I32(3)), I32(4))
    row = b.add(warp, b.and_(b.lshr(thread, I32(2)), I32(7)))
    first = b.add(e.cast(start, kinds[0], types.int32), row, flags=["nsw"])
    rows = [first, b.add(first, I32(8), flags=["nsw"])]
    return [e.cast(x, types.int32, kind) for x in rows]


@emitted(types.int64)
def first_column(e):
    """A thread's first column."""
    return e.builder.zext(e.builder.shl(e.builder.and_(e.special_register("tid.x"), I32(3)), I32(1)), I64)
