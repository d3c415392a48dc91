"""Swizzled tiles in shared memory: panels of 128 bytes of each row, whose 16-byte chunks are permuted.

Chunk c of line i of a panel stands at 16 * (c ^ (i % 8)) of its 128 bytes: eight lines' chunks are in different banks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.types import dtype
from ..compiler.numba_backend import I32, I64, VOID, Emitter, emitted, intrinsic, ir, types
from ..tile.element import narrowed_value, stored_elements
from ..tile.loops import looped
from ..tile.memory import st_shared
from ..tile.thread_index import thread_here
from .tile_sizes import COPY_BYTES, SWIZZLE_BYTES

EACH = 8  # elements that a thread takes at a time, one by one
CHUNKS = SWIZZLE_BYTES // COPY_BYTES
i32, i64 = types.int32, types.int64


def swizzled(e: Emitter, line: ir.Value, chunk: ir.Value) -> ir.Value:
    """The offset of a chunk in its row's bytes of a panel."""
    b = e.builder
    return b.shl(b.xor(chunk, b.and_(line, I32(CHUNKS - 1))), I32(COPY_BYTES.bit_length() - 1))


def start_of(e: Emitter, tile: ir.Value, line: ir.Value) -> ir.Value:
    """The address of a row in a tile's first panel."""
    return e.builder.add(tile, e.builder.shl(line, I32(SWIZZLE_BYTES.bit_length() - 1)))


@dataclass(frozen=True)
class SwizzledTile:
    """A tile of `lines` rows of `size` bytes, padded with zeros to `room` bytes; `each` rows are copied at a time."""

    lines: int
    size: int
    room: int
    each: int

    def copy(
        self, e: Emitter, to: ir.Value, source: ir.Value, own: tuple[ir.Value, ir.Value], first: int, here: ir.Value
    ) -> None:
        """Begin to bring a thread's chunks of a line, those from `source` on, if it is `here`, else zeros. Its `own`
        line and chunk go `to` where the first lines of the tile are brought; this one is `first` lines further."""
        b, (line, chunk) = e.builder, own
        is_full = first + self.each <= self.lines
        inside = None if is_full else b.icmp_unsigned("<", line, I32(self.lines - first))
        for panel in range(-(-self.room // SWIZZLE_BYTES)):
            there, need = here, inside
            if self.size < (panel + 1) * SWIZZLE_BYTES:
                there = b.and_(
                    here, b.icmp_unsigned("<", chunk, I32(max(self.size - panel * SWIZZLE_BYTES, 0) // COPY_BYTES))
                )
            if self.room < (panel + 1) * SWIZZLE_BYTES:
                in_tile = b.icmp_unsigned("<", chunk, I32((self.room - panel * SWIZZLE_BYTES) // COPY_BYTES))
                need = in_tile if need is None else b.and_(need, in_tile)
            offset = (panel * self.lines + first) * SWIZZLE_BYTES
            line_at = b.xor(to, I32(SWIZZLE_BYTES // 2)) if first % CHUNKS else to
            _copy(e, b.add(line_at, I32(offset)), source, panel * SWIZZLE_BYTES, there, need)


def copy_rows(lines: int, size: int, room: int, threads: int, packed: bool = False) -> Callable:
    """`copy(to, at, step, first, limit)`: start to copy rows of `size` bytes, `step` bytes apart from `at` on, by
    cp.async; zeros for rows not below the limit, and up to `room` bytes of a row. If they are `packed`, two more
    arguments follow: the step between groups of rows in bytes, and the rows of a group."""
    each = threads // CHUNKS  # lines at a time: a multiple of 8, or 4 of a single warp
    panels = SwizzledTile(lines, size, room, each)

    def rule(*kinds):
        def emit(e, *values):
            b, thread = e.builder, e.special_register("tid.x")
            given = [e.cast(v, k, w) for v, k, w in zip(values, kinds, (i32, *[i64] * (arity - 1)))]
            to, at, step, first, limit = given[:5]
            line, chunk = b.lshr(thread, I32(3)), b.and_(thread, I32(CHUNKS - 1))
            to = b.add(start_of(e, to, line), swizzled(e, line, chunk))
            number = b.add(first, b.zext(line, I64))
            own = b.shl(b.zext(chunk, I64), I64(4))
            source = b.add(b.add(at, b.mul(number, step)), own)
            left = b.trunc(b.sub(limit, number), I32)
            further = b.mul(step, I64(each))
            for k in range(-(-lines // each)):
                if packed:
                    source = b.add(_packed_line(e, b.add(number, I64(k * each)), at, step, *given[5:]), own)
                here = b.icmp_signed(">", left, I32(k * each))
                panels.copy(e, to, source, (line, chunk), k * each, here)
                source = b.add(source, further)

        return types.void, emit

    arity = 7 if packed else 5
    return intrinsic(arity)(rule)


@emitted(types.void, 5)
def store_rows(e, *values, kinds, lines: int, size: int):
    """`store_rows(tile, first, to, step, count)`: a warp stores rows of a tile to global memory.

    These are `count` of the tile's `lines` rows, from `first` on, `size` bytes each; in global memory they are `step`
    bytes apart. A thread stores 16 bytes at a time.
    """
    b, chunk = e.builder, e.builder.and_(thread_here(e), I32(31))
    tile, first, to, step, count = (e.cast(v, k, w) for v, k, w in zip(values, kinds, (i32, i32, i64, i64, i32)))
    panel = b.add(tile, b.mul(b.lshr(chunk, I32(3)), I32(lines * SWIZZLE_BYTES)))
    to = b.add(to, b.shl(b.zext(chunk, I64), I64(4)))
    text = "{ .reg .b32 w<4>; ld.shared.v4.b32 {w0, w1, w2, w3}, [$1]; st.global.v4.b32 [$0], {w0, w1, w2, w3}; }"
    inside = b.icmp_unsigned("<", chunk, I32(size // COPY_BYTES))
    with looped(e, [I32(0), to], lambda k, _: b.icmp_signed("<", k, count)) as ((k, at), next_state):
        line = b.add(first, k)
        address = b.add(start_of(e, panel, line), swizzled(e, line, b.and_(chunk, I32(CHUNKS - 1))))
        with b.if_then(inside):
            e.asm(VOID, text, "l,r,~{memory}", [at, address], side_effect=True)
        next_state += [b.add(k, I32(1)), b.add(at, step)]


def _packed_line(
    e: Emitter, number: ir.Value, at: ir.Value, step: ir.Value, further: ir.Value, lines: ir.Value
) -> ir.Value:
    """The address of a row whose group has `lines` rows `step` apart; groups are `further` apart."""
    b = e.builder
    above = b.zext(b.udiv(b.trunc(number, I32), b.trunc(lines, I32)), I64)
    return b.add(b.add(at, b.mul(above, further)), b.mul(b.sub(number, b.mul(above, lines)), step))


def _copy(e: Emitter, to: ir.Value, source: ir.Value, skipped: int, there: ir.Value, need: ir.Value | None) -> None:
    text = f"cp.async.cg.shared.global [$0], [$1+{skipped}], {COPY_BYTES}, $2;"
    values = [to, source, e.builder.select(there, I32(COPY_BYTES), I32(0))]
    if need is not None:
        text = f"{{ .reg .pred p; setp.ne.b32 p, $3, 0; @p {text} }}"
        values.append(e.builder.zext(need, I32))
    e.asm(VOID, text, ",".join(["r", "l", "r", "r"][: len(values)]) + ",~{memory}", values, side_effect=True)


def row_addresses(lines: int, width: int, threads: int, across: bool) -> Callable:
    """`row_addresses(piece)`: (rows, columns) of the elements of a tile that this thread loads, from number `piece` on;
    neighbouring threads have neighbouring columns, or `across` neighbouring rows. Elements beyond the tile have
    none."""
    kind = types.UniTuple(i64, EACH)
    result = types.Tuple.from_types((kind, kind))

    @emitted(result)
    def emit(e, piece, *, kinds):
        b, indices = e.builder, []
        own = b.add(e.cast(piece, kinds[0], i32), e.special_register("tid.x"))
        for k in range(EACH):
            number = b.add(own, I32(k * threads))
            far = b.udiv(number, I32(lines if across else width))
            near = b.sub(number, b.mul(far, I32(lines if across else width)))
            indices.append([b.zext(x, I64) for x in ((near, far) if across else (far, near))])
        tiles = [e.pack(kind, [pair[side] for pair in indices]) for side in range(2)]
        return e.pack(result, tiles)

    return emit


def put_rows(name: str, lines: int, width: int) -> Callable:
    """`put_rows(to, lines, columns, values)`: store elements to a tile, predicated: those beyond it are dropped."""
    kind, size = dtype(name), dtype(name).itemsize

    @emitted(types.void)
    def emit(e, base, lines_of, columns, values, *, kinds):
        b = e.builder
        for line, column, value in zip(*(e.unpack(x, EACH) for x in (lines_of, columns, values))):
            line, column = b.trunc(line, I32), b.trunc(column, I32)
            (element,) = stored_elements(e, kind, [narrowed_value(e, kind, value, kinds[3].dtype)])
            inside = b.and_(b.icmp_unsigned("<", line, I32(lines)), b.icmp_unsigned("<", column, I32(width)))
            with b.if_then(inside):
                address = element_address(e, e.cast(base, kinds[0], i32), line, column, lines, size)
                st_shared(e, kind, 1, address, [element])

    return emit


def element_address(e: Emitter, tile: ir.Value, line: ir.Value, column: ir.Value, lines: int, size: int) -> ir.Value:
    """The address of an element of a tile."""
    b = e.builder
    byte = b.mul(column, I32(size))
    panel = b.mul(b.lshr(byte, I32(7)), I32(lines * SWIZZLE_BYTES))
    chunk = b.and_(b.lshr(byte, I32(4)), I32(CHUNKS - 1))
    own = b.add(start_of(e, tile, line), swizzled(e, line, chunk))
    return b.add(b.add(own, panel), b.and_(byte, I32(COPY_BYTES - 1)))
