"""Operand tiles of products in shared memory: cp.async of a thread's copy vectors, padded or swizzled lines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from ....ir.types import dtype
from ..compiler.numba_backend import I32, I64, VOID, Emitter, emitted, ir, types
from ..mma.tile_sizes import COPY_BYTES, SWIZZLE_BYTES
from ..tile.element_registers import stored_type
from ..tile.memory import load_vector, st_shared
from ..tile.valid_elements import ValidElements
from .tile_shapes import OperandTileShape

CHUNKS = SWIZZLE_BYTES // COPY_BYTES
i32, i64 = types.int32, types.int64


class OperandTile(OperandTileShape):
    """Copies of an operand tile; addresses in shared memory are int32."""

    def _own(self, e: Emitter) -> tuple[ir.Value, ir.Value]:
        """(M/N position, step of K) of a thread's first copy vector."""
        b, thread = e.builder, e.special_register("tid.x")
        line, number = b.udiv(thread, I32(self.threads_per_line)), b.urem(thread, I32(self.threads_per_line))
        along = b.mul(number, I32(self.vector))
        return (along, line) if self.major == "mn" else (line, along)

    @emitted(lambda self: types.UniTuple(i64, self.mn_vectors))
    def own_mn(self, e):
        """`own_mn()`: the M/N position of each of a thread's vectors at different ones."""
        b, (mn, _) = e.builder, self._own(e)
        return [b.zext(b.add(mn, I32(k * self.mn_stride)), I64) for k in range(self.mn_vectors)]

    def own_k(self) -> Callable:
        """`own_k()`: the first step of K of a thread's vectors."""
        return emitted(i64)(lambda e: e.builder.zext(self._own(e)[1], I64))

    @emitted(types.void, 5)
    def copy_async(self, e, *values, kinds):
        """`copy_async(to, addresses, valid_mn, step_bytes, valid_k)`: start to copy a thread's vectors of one K-slice.

        `addresses` are those of its vectors at its first step, `valid_mn` the M/N positions that exist from each on,
        `step_bytes` the distance of steps, `valid_k` the steps that exist from the slice's first on. What does not
        exist becomes 0.
        """
        b, (mn, step) = e.builder, self._own(e)
        to, addresses, valid_mn, step_bytes, valid_k = values
        target, valid_k = e.cast(to, kinds[0], i32), b.sub(e.cast(valid_k, kinds[4], i32), step)
        vectors = zip(e.unpack(addresses, self.mn_vectors), e.unpack(valid_mn, self.mn_vectors))
        for k, (address, mn_left) in enumerate(vectors):
            there = b.trunc(mn_left, I32)
            for n in range(self.k_vectors):
                further = b.mul(step_bytes, I64(n * self.k_stride)) if n else I64(0)
                steps = b.sub(valid_k, I32(n * self.k_stride))
                at = self._further(e, target, (mn, step), k * self.mn_stride, n * self.k_stride)
                need = self._inside(e, mn, step, k, n)
                self._copy(e, at, b.add(address, further), self._valid(e, there, steps), need)

    @emitted(lambda self: self._elements(), 4)
    def load(self, e, addresses, valid_mn, step_bytes, valid_k, *, kinds):
        """`load(addresses, valid_mn, step_bytes, valid_k)`: load what `copy_async` copies, to registers."""
        b, (mn, step), loaded = e.builder, self._own(e), list[ir.Value]()
        valid_k = b.sub(e.cast(valid_k, kinds[3], i32), step)
        for k, address in enumerate(e.unpack(addresses, self.mn_vectors)):
            for n in range(self.k_vectors):
                there = b.icmp_signed(">", valid_k, I32(n * self.k_stride))
                need = self._inside(e, mn, step, k, n)
                there = there if need is None else b.and_(there, need)
                at = b.add(address, b.mul(step_bytes, I64(n * self.k_stride)))
                loaded += load_vector(e, dtype(self.dtype), 1, at, ValidElements(b.zext(there, I32)))
        return loaded

    @emitted(types.void)
    def store(self, e, to, elements, *, kinds):
        """`store(to, elements)`: store elements that were fetched to the tile."""
        b, (mn, step), target = e.builder, self._own(e), e.cast(to, kinds[0], i32)
        values = iter(e.unpack(elements, self.mn_vectors * self.k_vectors))
        for k in range(self.mn_vectors):
            for n in range(self.k_vectors):
                address = self._further(e, target, (mn, step), k * self.mn_stride, n * self.k_stride)
                need, value = self._inside(e, mn, step, k, n), next(values)
                with nullcontext() if need is None else b.if_then(need):
                    st_shared(e, dtype(self.dtype), 1, address, [value])

    def _elements(self) -> types.UniTuple:
        return stored_type(dtype(self.dtype), self.mn_vectors * self.k_vectors, 1)

    def _valid(self, e: Emitter, mn_left: ir.Value, steps: ir.Value) -> ir.Value:
        """The bytes of a vector that exist; its first M/N position does."""
        b = e.builder
        along, limit = (mn_left, I32(self.vector)) if self.major == "mn" else (steps, I32(self.vector))
        along = b.select(b.icmp_signed("<", along, limit), along, limit)
        along = along if self.vector > 1 else I32(1)
        return b.select(b.icmp_signed(">", steps, I32(0)), b.mul(along, I32(self.itemsize)), I32(0))

    def _inside(self, e: Emitter, mn: ir.Value, step: ir.Value, k: int, n: int) -> ir.Value | None:
        """Whether a vector is in the tile; None if that is known."""
        number, own, end, each = (
            (n, step, self.block_k, self.k_stride) if self.major == "mn" else (k, mn, self.mn, self.mn_stride)
        )
        if (number + 1) * each <= end:
            return None
        return e.builder.icmp_unsigned("<", own, I32(end - number * each))

    def _copy(self, e: Emitter, to: ir.Value, source: ir.Value, bytes: ir.Value, need: ir.Value | None) -> None:
        size = self.vector * self.itemsize
        text = f"cp.async.{'cg' if size == COPY_BYTES else 'ca'}.shared.global [$0], [$1], {size}, $2;"
        values = [to, source, bytes]
        if need is not None:
            text = f"{{ .reg .pred p; setp.ne.b32 p, $3, 0; @p {text} }}"
            values.append(e.builder.zext(need, I32))
        e.asm(VOID, text, ",".join(["r", "l", "r", "r"][: len(values)]) + ",~{memory}", values, side_effect=True)

    # -- layouts

    def offset(self, e: Emitter, mn: ir.Value, step: ir.Value) -> ir.Value:
        """The offset of an element in the tile, in bytes."""
        b, size = e.builder, self.itemsize
        if self.layout == "padded":
            return b.mul(b.add(b.mul(step, I32(self.pitch)), mn), I32(size))
        line, along = (mn, step) if self.layout == "k" else (step, mn)
        byte, lines = b.mul(along, I32(size)), self.mn if self.layout == "k" else self.block_k
        panel = b.mul(b.lshr(byte, I32(7)), I32(lines * SWIZZLE_BYTES))
        chunk = b.and_(b.lshr(byte, I32(4)), I32(CHUNKS - 1))
        chunk_offset = b.shl(b.xor(chunk, b.and_(line, I32(CHUNKS - 1))), I32(4))
        within = b.and_(byte, I32(COPY_BYTES - 1))
        return b.add(b.add(b.shl(line, I32(7)), panel), b.add(chunk_offset, within))

    def _further(
        self, e: Emitter, at: ir.Value, own: tuple[ir.Value, ir.Value], mn_offset: int, k_offset: int
    ) -> ir.Value:
        """The address in the tile at `at`, so many M/N positions and steps beyond a thread's first vector."""
        b, (mn, step) = e.builder, own
        if self.layout == "padded":
            return b.add(b.add(at, self.offset(e, mn, step)), I32((k_offset * self.pitch + mn_offset) * self.itemsize))
        lines, along = (mn_offset, k_offset) if self.layout == "k" else (k_offset, mn_offset)
        if lines % CHUNKS or along * self.itemsize % SWIZZLE_BYTES:
            return b.add(at, self.offset(e, b.add(mn, I32(mn_offset)), b.add(step, I32(k_offset))))
        height = self.mn if self.layout == "k" else self.block_k
        panels = along * self.itemsize // SWIZZLE_BYTES
        return b.add(b.add(at, self.offset(e, mn, step)), I32((lines + panels * height) * SWIZZLE_BYTES))
