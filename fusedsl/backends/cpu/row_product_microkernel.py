"""Matrix-vector microkernel: sums of products of contiguous rows, several rows at a time in vector registers.

A row is summed in the same order whether it is one of a block or by itself, so that its bits do not depend on the
number of rows, nor on how threads share them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir

from ...ir.types import DType
from .attention_microkernel import counted_loop
from .llvm_values import llvm_type
from .matmul_microkernel import WORD, outlined, vector_fma
from .row_products import PRODUCT
from .vector_registers import VectorRegisters

SUMS = 2  # accumulators of a row
# measured: EPYC, 32,768 rows of 64 float32 in the L3 cache, 2026-11: blocks of 8 rows 87 µs, of 4 rows 112, of 4 rows
# with 4 accumulators 110, NumPy 92: the lanes of 8 rows are summed together
# measured: EPYC, 1,000 rows of 1,000 float32 in the L3 cache, 2026-11: 61 µs, and 75 with prefetch instructions, which
# gain nothing for rows of 64 either


def row_product(vectors: VectorRegisters, d: DType) -> Callable[..., None]:
    """c[m] = sum over k of a[m * stride_a + k] * b[m * stride_b + k], for m < rows and k < columns.

    It takes c, a, b, rows, columns, stride_a and stride_b.
    """
    return outlined(d, PRODUCT, partial(_write, vectors))


def _write(vectors: VectorRegisters, function: ir.Function, d: DType) -> None:
    """Blocks of rows, with a shared operand loaded once for all of them; then the remaining rows."""
    c, a, b, rows, columns, across_a, across_b = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    shared = builder.icmp_unsigned("==", across_a, WORD(0))
    a, b = builder.select(shared, b, a), builder.select(shared, a, b)
    across_a, across_b = builder.select(shared, across_b, across_a), builder.select(shared, across_a, across_b)
    block = _Block(builder, d, vectors, (c, a, b), columns, (across_a, across_b))
    begin, is_shared = WORD(0), builder.icmp_unsigned("==", across_b, WORD(0))
    for count in (8, 4) if vectors.registers == 32 else (4,):
        end = builder.and_(rows, WORD(-count))
        shared_end = builder.select(is_shared, end, begin)
        for first, stop, share in ((begin, shared_end, True), (shared_end, end, False)):
            with counted_loop(builder, first, stop, count) as (row, _, _):
                block.write(row, count, share)
        begin = end
    with counted_loop(builder, begin, rows, 1) as (row, _, _):
        block.write(row, 1, False)
    builder.ret_void()


class _Block:
    """Emits the reduction of some rows."""

    def __init__(self, builder: ir.IRBuilder, d: DType, vectors: VectorRegisters, pointers, columns, across):
        self.builder, self.d, self.columns, self.across = builder, d, columns, across
        self.vector = ir.VectorType(llvm_type(d), vectors.bytes // d.itemsize)
        self.c, self.a, self.b = (builder.bitcast(p, llvm_type(d).as_pointer()) for p in pointers)

    def write(self, first, count: int, shared: bool) -> None:
        """Rows first … first + count: SUMS vectors per iteration, then one vector, then one element."""
        builder, kind = self.builder, llvm_type(self.d)
        rows = [builder.add(first, WORD(m)) for m in range(count)]
        left, right = (
            [self._address(base, builder.mul(m, across), kind) for m in rows]
            for base, across in zip((self.a, self.b), self.across)
        )
        tops = left, right[:1] if shared else right
        end, totals = self._loop(tops, WORD(0), SUMS, [ir.Constant(self.vector, None)] * (count * SUMS))
        while len(totals) > count:
            totals = [builder.fadd(x, y) for x, y in zip(totals[::2], totals[1::2])]
        end, totals = self._loop(tops, end, 1, totals)
        _, totals = self._loop(tops, end, 1, _lane_sums(builder, totals))
        for m, total in zip(rows, totals):
            builder.store(total, self._address(self.c, m, kind), align=self.d.itemsize)

    def _loop(self, tops: tuple[list, list], begin, width: int, totals: list) -> tuple:
        """A loop with `width` vectors, or elements, of each row per iteration: (end index, totals)."""
        builder, kind = self.builder, totals[0].type
        lanes = kind.count if isinstance(kind, ir.VectorType) else 1
        end = builder.and_(self.columns, WORD(-width * lanes))
        with counted_loop(builder, begin, end, width * lanes, totals) as (k, sums, following):
            indices = [builder.add(k, WORD(v * lanes)) for v in range(width)]
            left, right = ([[self._load(top, at, kind) for at in indices] for top in side] for side in tops)
            for n, total in enumerate(sums):
                x, y = left[n // width][n % width], right[n // width % len(right)][n % width]
                following.append(vector_fma(builder, self.d, x, y, total, kind))
        return end, sums

    def _address(self, base, index, target):
        address = self.builder.gep(base, [index], source_etype=llvm_type(self.d))
        return self.builder.bitcast(address, target.as_pointer())

    def _load(self, base, index, kind):
        return self.builder.load(self._address(base, index, kind), typ=kind, align=self.d.itemsize)


def _lane_sums(builder: ir.IRBuilder, vectors: list) -> list:
    """Horizontal sums: halves of the lanes are added, for two vectors at once."""
    segments, width = 1, vectors[0].type.count  # (sums per vector, lanes per sum)
    while width > 1:
        half, lanes = width // 2, segments * width
        pairs = list(zip(vectors[::2], vectors[1::2])) if len(vectors) > 1 else [(vectors[0], vectors[0])]
        segments = 2 * segments if len(vectors) > 1 else segments
        low = [s * width + j for s in range(segments) for j in range(half)]
        high = [k + half for k in low]
        assert max(high) < 2 * lanes
        vectors = [builder.fadd(*(_shuffled(builder, *pair, mask) for mask in (low, high))) for pair in pairs]
        width = half
    number = ir.IntType(32)
    return [builder.extract_element(v, number(s)) for v in vectors for s in range(segments)]


def _shuffled(builder: ir.IRBuilder, x, y, lanes: list[int]):
    kind = ir.VectorType(ir.IntType(32), len(lanes))
    return builder.shuffle_vector(x, y, ir.Constant(kind, lanes))
