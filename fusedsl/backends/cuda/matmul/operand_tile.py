"""Operand tiles of products in shared memory: cp.async of a thread's pieces, padded or swizzled lines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from ....ir.types import dtype
from ..compiler.numba_backend import I32, I64, VOID, Emitter, emitted, ir, types
from ..tile.element_registers import stored_type
from ..tile.memory import load_vector, st_shared
from ..tile.valid_elements import ValidElements
from .tile_shapes import COPY_BYTES, SWIZZLE_BYTES, OperandTileShape

CHUNKS = SWIZZLE_BYTES // COPY_BYTES
i32, i64 = types.int32, types.int64


class OperandTile(OperandTileShape):
    """Copies of an operand tile; addresses in shared memory are int32."""

    def _own(self, e: Emitter) -> tuple[ir.Value, ir.Value]:
        """(lane, step) of a thread's first piece."""
        b, thread = e.builder, e.special_register("tid.x")
        line, piece = b.udiv(thread, I32(self.across)), b.urem(thread, I32(self.across))
        along = b.mul(piece, I32(self.piece))
        return (along, line) if self.major == "mn" else (line, along)

    def own_lanes(self) -> Callable:
        """`own_lanes()`: the first lane of each of a thread's pieces at different lanes."""
        result = types.UniTuple(i64, self.lane_pieces)

        @emitted(result)
        def emit(e):
            b, (lane, _) = e.builder, self._own(e)
            return e.pack(
                result, [b.zext(b.add(lane, I32(k * self.lane_stride)), I64) for k in range(self.lane_pieces)]
            )

        return emit

    def own_step(self) -> Callable:
        """`own_step()`: the first step of a thread's pieces."""
        return emitted(i64)(lambda e: e.builder.zext(self._own(e)[1], I64))

    def copy_async(self) -> Callable:
        """`copy(to, addresses, room, step_bytes, left)`: start to copy a thread's pieces of one K-slice.

        `addresses` are those of its pieces at its first step, `room` the lanes that exist from each of them on,
        `step_bytes` the distance of steps, `left` the steps that exist from the slice's first on. What does not exist
        becomes 0.
        """

        @emitted(types.void, 5)
        def emit(e, *values, kinds):
            b, (lane, step) = e.builder, self._own(e)
            to, addresses, room, step_bytes, left = values
            target, left = e.cast(to, kinds[0], i32), b.sub(e.cast(left, kinds[4], i32), step)
            pieces = zip(e.unpack(addresses, self.lane_pieces), e.unpack(room, self.lane_pieces))
            for k, (address, lanes) in enumerate(pieces):
                there = b.trunc(lanes, I32)
                for n in range(self.step_pieces):
                    further = b.mul(step_bytes, I64(n * self.step_stride)) if n else I64(0)
                    steps = b.sub(left, I32(n * self.step_stride))
                    at = self._further(e, target, (lane, step), k * self.lane_stride, n * self.step_stride)
                    need = self._inside(e, lane, step, k, n)
                    self._copy(e, at, b.add(address, further), self._valid(e, there, steps), need)

        return emit

    def fetch(self) -> Callable:
        """`fetch(addresses, room, step_bytes, left)`: a thread's elements of one K-slice, as `copy` takes them: to
        registers."""
        result = self._elements()

        @emitted(result, 4)
        def emit(e, addresses, room, step_bytes, left, *, kinds):
            b, (lane, step), found = e.builder, self._own(e), list[ir.Value]()
            left = b.sub(e.cast(left, kinds[3], i32), step)
            for k, address in enumerate(e.unpack(addresses, self.lane_pieces)):
                for n in range(self.step_pieces):
                    there = b.icmp_signed(">", left, I32(n * self.step_stride))
                    need = self._inside(e, lane, step, k, n)
                    there = there if need is None else b.and_(there, need)
                    at = b.add(address, b.mul(step_bytes, I64(n * self.step_stride)))
                    found += load_vector(e, dtype(self.dtype), 1, at, ValidElements(b.zext(there, I32)))
            return e.pack(result, found)

        return emit

    def put(self) -> Callable:
        """`put(to, elements)`: elements that were fetched, to the tile."""

        @emitted(types.void)
        def emit(e, to, elements, *, kinds):
            b, (lane, step), target = e.builder, self._own(e), e.cast(to, kinds[0], i32)
            values = iter(e.unpack(elements, self.lane_pieces * self.step_pieces))
            for k in range(self.lane_pieces):
                for n in range(self.step_pieces):
                    place = self._further(e, target, (lane, step), k * self.lane_stride, n * self.step_stride)
                    need, value = self._inside(e, lane, step, k, n), next(values)
                    with nullcontext() if need is None else b.if_then(need):
                        st_shared(e, dtype(self.dtype), 1, place, [value])

        return emit

    def _elements(self) -> types.UniTuple:
        return stored_type(dtype(self.dtype), self.lane_pieces * self.step_pieces, 1)

    def _valid(self, e: Emitter, lanes: ir.Value, steps: ir.Value) -> ir.Value:
        """The bytes of a piece that exist: its first lane does."""
        b = e.builder
        along, limit = (lanes, I32(self.piece)) if self.major == "mn" else (steps, I32(self.piece))
        along = b.select(b.icmp_signed("<", along, limit), along, limit)
        along = along if self.piece > 1 else I32(1)
        return b.select(b.icmp_signed(">", steps, I32(0)), b.mul(along, I32(self.itemsize)), I32(0))

    def _inside(self, e: Emitter, lane: ir.Value, step: ir.Value, k: int, n: int) -> ir.Value | None:
        """Whether a piece is in the tile; None if that is known."""
        number, own, end, each = (
            (n, step, self.depth, self.step_stride) if self.major == "mn" else (k, lane, self.lanes, self.lane_stride)
        )
        if (number + 1) * each <= end:
            return None
        return e.builder.icmp_unsigned("<", own, I32(end - number * each))

    def _copy(self, e: Emitter, to: ir.Value, source: ir.Value, bytes: ir.Value, need: ir.Value | None) -> None:
        size = self.piece * self.itemsize
        text = f"cp.async.{'cg' if size == COPY_BYTES else 'ca'}.shared.global [$0], [$1], {size}, $2;"
        values = [to, source, bytes]
        if need is not None:
            text = f"{{ .reg .pred p; setp.ne.b32 p, $3, 0; @p {text} }}"
            values.append(e.builder.zext(need, I32))
        e.asm(VOID, text, ",".join(["r", "l", "r", "r"][: len(values)]) + ",~{memory}", values, effect=True)

    # -- layouts

    def offset(self, e: Emitter, lane: ir.Value, step: ir.Value) -> ir.Value:
        """The offset of an element in the tile, in bytes."""
        b, size = e.builder, self.itemsize
        if self.layout == "padded":
            return b.mul(b.add(b.mul(step, I32(self.pitch)), lane), I32(size))
        line, along = (lane, step) if self.layout == "k" else (step, lane)
        byte, lines = b.mul(along, I32(size)), self.lanes if self.layout == "k" else self.depth
        panel = b.mul(b.lshr(byte, I32(7)), I32(lines * SWIZZLE_BYTES))
        chunk = b.and_(b.lshr(byte, I32(4)), I32(CHUNKS - 1))
        place = b.shl(b.xor(chunk, b.and_(line, I32(CHUNKS - 1))), I32(4))
        within = b.and_(byte, I32(COPY_BYTES - 1))
        return b.add(b.add(b.shl(line, I32(7)), panel), b.add(place, within))

    def _further(self, e: Emitter, at: ir.Value, own: tuple[ir.Value, ir.Value], lanes: int, steps: int) -> ir.Value:
        """The address so many lanes and steps beyond a thread's first piece, in the tile at an address."""
        b, (lane, step) = e.builder, own
        if self.layout == "padded":
            return b.add(b.add(at, self.offset(e, lane, step)), I32((steps * self.pitch + lanes) * self.itemsize))
        lines, along = (lanes, steps) if self.layout == "k" else (steps, lanes)
        if lines % CHUNKS or along * self.itemsize % SWIZZLE_BYTES:
            return b.add(at, self.offset(e, b.add(lane, I32(lanes)), b.add(step, I32(steps))))
        height = self.lanes if self.layout == "k" else self.depth
        panels = along * self.itemsize // SWIZZLE_BYTES
        return b.add(b.add(at, self.offset(e, lane, step)), I32((lines + panels * height) * SWIZZLE_BYTES))
