"""Lines of memory that are weighed and added to a fragment, for rows that keep them: a few columns at a time."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.types import dtype
from .. import convert
from ..backend import F32, I32, I64, VOID, Emitter, intrinsic, ir, types
from .element import unpaired
from .fragment import ROWS
from .launch import thread_here
from .memory import read

TOGETHER = 4  # pairs of columns whose loads are on their way at once
FMA = "{ .reg .pred p; setp.ne.b32 p, $4, 0; mov.b32 $0, $3; @p fma.rn.f32 $0, $1, $2, $3; }"


def add_line(width: int, name: str) -> Callable:
    """`add(sums, weights, kept, at)`: the first `width` columns of a fragment, a multiple of 8, of float32, with those
    of one line of 16-bit floats at `at`, times each row's weight, for rows that keep it. The line is aligned to 4
    bytes; both rows of a thread read it once."""
    kind = dtype(name)

    def rule(sums, weights, kept, address):
        def emit(e, held, factors, flags, at):
            b, found = e.builder, e.unpack(held, len(sums))
            factors, flags = e.unpack(factors, ROWS), [b.zext(flag, I32) for flag in e.unpack(flags, ROWS)]
            own = b.shl(b.zext(b.and_(thread_here(e), I32(3)), I64), I64(2))
            first = b.add(e.cast(at, address, types.int64), own)
            for k in range(width // 8):
                if k and k % TOGETHER == 0:
                    e.asm(VOID, "bar.warp.sync 0xffffffff;", "~{memory}", [], effect=True)
                pair = unpaired(e, kind, read(e, kind, 2, b.add(first, I64(16 * k)), None), 2)
                for p, value in enumerate(convert.widen(e, half, name) for half in pair):
                    for row in range(ROWS):
                        n = 4 * k + 2 * row + p
                        found[n] = _added(e, found[n], factors[row], value, flags[row])
            return e.pack(sums, found)

        return sums, emit

    return intrinsic(4)(rule)


def _added(e: Emitter, total: ir.Value, weight: ir.Value, value: ir.Value, kept: ir.Value) -> ir.Value:
    return e.asm(F32, FMA, "=f,f,f,f,r", [weight, value, total, kept])
