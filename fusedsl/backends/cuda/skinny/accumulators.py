"""Accumulators of products with few rows: a block's in shared memory, those of a split-K reduction in global memory."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import FLOAT32
from ..compiler.numba_backend import F32, I32, I64, VOID, Emitter, emitted, ir, types
from ..tile.loops import looped
from ..tile.memory import ld_shared
from .layout import PART, SkinnyLayout

AT_ONCE = 8  # records whose loads are in flight together


class SkinnyAccumulators(SkinnyLayout):
    """The intrinsics of a block's accumulators, however they are computed."""

    @property
    def accumulator_types(self) -> types.UniTuple:
        """The accumulators of a thread."""
        raise NotImplementedError

    def swizzled(self, e: Emitter, row: ir.Value, narrow: ir.Value) -> ir.Value:
        """Where a streamed row of a narrow row's accumulators stands."""
        return row

    @emitted(lambda self: self.accumulator_types)
    def zero(self, e):
        """`zero()`: a thread's accumulators before the first product."""
        return e.pack(self.accumulator_types, [ir.Constant(F32, 0.0)] * len(self.accumulator_types))

    @emitted(types.UniTuple(types.float32, PART))
    def load_accumulators(self, e, at, part):
        """`load(at, part)`: PART neighbouring accumulators of the block; those of warps along K are added in order."""
        b = e.builder
        narrow, row = self._result(e, part)
        offset = b.add(b.mul(narrow, I32(self.streamed)), self.swizzled(e, row, narrow))
        offset = b.add(at, b.shl(offset, I32(2)))
        total = ld_shared(e, FLOAT32, PART, offset)
        for k in range(1, self.warps_k):
            records = ld_shared(e, FLOAT32, PART, b.add(offset, I32(k * self.record_bytes)))
            total = [b.fadd(x, y) for x, y in zip(total, records)]
        return total

    @emitted(types.UniTuple(types.UniTuple(types.int64, PART), 2))
    def chunk_coordinates(self, e, part):
        """`chunk_coordinates(chunk)`: (narrow rows, streamed rows) of these accumulators."""
        b, (narrow, row) = e.builder, self._result(e, part)
        rows = [b.zext(b.add(row, I32(k)), I64) for k in range(PART)]
        return [[b.zext(narrow, I64)] * PART, rows]

    def _result(self, e: Emitter, part: ir.Value) -> tuple[ir.Value, ir.Value]:
        """(narrow row, first streamed row) of a part of the block's results."""
        b, line = e.builder, I32(self.streamed // PART)
        return b.udiv(part, line), b.mul(b.urem(part, line), I32(PART))


def store_record() -> Callable:
    """`store(address, accumulators)`: PART accumulators of a block for the others of its tile."""

    @emitted(types.void)
    def emit(e, at, accumulators):
        text = "st.global.v4.f32 [$0], {$1, $2, $3, $4};"
        e.asm(VOID, text, "l,f,f,f,f,~{memory}", [at, *e.unpack(accumulators, PART)], side_effect=True)

    return emit


def load_records() -> Callable:
    """`load(address, record, splits)`: sums in order of PART accumulators of `splits` blocks, `record` bytes apart."""
    result = types.UniTuple(types.float32, PART)
    text = "ld.relaxed.gpu.global.v4.f32 {$0, $1, $2, $3}, [$4];"

    @emitted(result)
    def emit(e, at, record, splits, *, kinds):
        b, record = e.builder, e.cast(record, kinds[1], types.int64)
        none = [I64(0), *[ir.Constant(F32, 0.0)] * PART]
        with looped(e, none, lambda first, *_: b.icmp_signed("<", first, splits)) as (state, next_state):
            first, *accumulators = state
            numbers = [b.add(first, I64(k)) for k in range(AT_ONCE)]
            there = [b.icmp_signed("<", number, splits) for number in numbers]
            records = []
            for number, one in zip(numbers, there):
                source = b.add(at, b.mul(b.select(one, number, first), record))
                kind = ir.LiteralStructType([F32] * PART)
                records.append(e.unpack(e.asm(kind, text, "=f,=f,=f,=f,l,~{memory}", [source], side_effect=True), PART))
            for one, values in zip(there, records):
                accumulators = [b.select(one, b.fadd(x, y), x) for x, y in zip(accumulators, values)]
            next_state += [b.add(first, I64(AT_ONCE)), *accumulators]
        return e.pack(result, state[1:])

    return emit
