"""The two products of attention by wgmma: q @ k.mT of matrices in shared memory, p @ v with p in registers."""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.numba_backend import emitted, types
from ...tile.sm90 import tied_operands, tuple_asm


def _listed(first: int, count: int) -> str:
    return "{" + ",".join(f"${k}" for k in range(first, first + count)) + "}"


def wgmma_qk(kind: str, rows: int, columns: int, width: int) -> Callable:
    """`wgmma_qk(q, k)`: start q @ k.T of K-major matrices, to 64 x columns accumulators.

    The sum runs over `width` elements; q has `rows` rows in shared memory.
    """
    count = columns // 2
    result = types.UniTuple(types.float32, count)

    def at(step: int, lines: int) -> int:
        return (step // 4 * lines * 128 + step % 4 * 32) >> 4

    @emitted(result)
    def emit(e, a, b):
        lines = [".reg .b64 a, b;", ".reg .pred more;", "wgmma.fence.sync.aligned;"]
        for step in range(width // 16):
            lines += [
                f"add.s64 a, ${count}, {at(step, rows)};",
                f"add.s64 b, ${count + 1}, {at(step, columns)};",
                f"setp.ne.b32 more, {step}, 0;",
                f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} "
                f"{_listed(0, count)}, a, b, more, 1, 1, 0, 0;",
            ]
        lines.append("wgmma.commit_group.sync.aligned;")
        return e.pack(result, tuple_asm(e, count, lines, ["=&f"] * count + ["l", "l"], [a, b]))

    return emit


def wgmma_pv(kind: str, steps: int, width: int) -> Callable:
    """`wgmma_pv(sums, p, v)`: start to add p @ v to 64 x width accumulators.

    p is packed in registers; v is an MN-major matrix of `steps` rows, a multiple of 16.
    """
    assert steps % 16 == 0, steps
    count, p_words = width // 2, steps // 4
    result = types.UniTuple(types.float32, count)

    @emitted(result)
    def emit(e, accumulators, pairs, b):
        lines = [".reg .b64 b;", ".reg .pred more;", "setp.eq.b32 more, 0, 0;", "wgmma.fence.sync.aligned;"]
        for step in range(steps // 16):
            lines += [
                f"add.s64 b, ${2 * count + p_words}, {step * 2048 >> 4};",
                f"wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{kind}.{kind} "
                f"{_listed(0, count)}, {_listed(2 * count + 4 * step, 4)}, b, more, 1, 1, 1;",
            ]
        lines.append("wgmma.commit_group.sync.aligned;")
        given = [*e.unpack(accumulators, count), *e.unpack(pairs, p_words), b]
        return e.pack(result, tuple_asm(e, count, lines, [*tied_operands(count), *["r"] * p_words, "l"], given))

    return emit
