"""Attention microkernel: matmul of a strided operand (k or v) with a tile whose query rows are in vector lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from llvmlite import ir

from ...ir.types import DType
from .llvm_values import llvm_type
from .matmul_microkernel import WORD, outlined, splat, vector_fma
from .schedule import ATTENTION_ROWS
from .vector_registers import VectorRegisters

ROWS = 4  # rows of the result in registers


def lane_product(vectors: VectorRegisters, d: DType) -> Callable[..., None]:
    """c[m, lane] = sum over k of a[m * stride_m + k * stride_k] * b[k, lane], for m < rows and k < depth.

    It takes c, a, b, rows, depth, stride_m and stride_k. c and b are row-major with ATTENTION_ROWS columns. The sums of
    ROWS rows of c are in registers, for as many lanes as fit; then follow the next lanes.
    """
    return outlined(d, "lane_product", partial(_write, vectors))


def _write(vectors: VectorRegisters, function: ir.Function, d: DType) -> None:
    count, size = function.args[3], vectors.bytes
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    vector = ir.VectorType(llvm_type(d), size // d.itemsize)
    together = 4 if vectors.registers == 32 else 2
    four = builder.udiv(count, WORD(ROWS))
    rest = builder.mul(four, WORD(ROWS))
    for begin, end, step in ((WORD(0), rest, ROWS), (rest, count, 1)):
        with counted_loop(builder, begin, end, step) as (first, _, _):
            for start in range(0, ATTENTION_ROWS, together * vector.count):
                _block(builder, d, vector, first, step, [start + v * vector.count for v in range(together)])
    builder.ret_void()


def _block(builder: ir.IRBuilder, d: DType, vector: ir.VectorType, first, rows: int, lanes: list[int]) -> None:
    """Rows first … first + rows of c, for the vectors that start at these lanes."""
    kind = llvm_type(d)
    c, a, b = (builder.bitcast(p, kind.as_pointer()) for p in builder.function.args[:3])
    depth, across, along = builder.function.args[4:]

    def address(base, index, target=kind):
        return builder.bitcast(builder.gep(base, [index], source_etype=kind), target.as_pointer())

    tops = [address(a, builder.mul(builder.add(first, WORD(m)), across)) for m in range(rows)]
    zeros = [ir.Constant(vector, None)] * (rows * len(lanes))
    with counted_loop(builder, WORD(0), depth, 1, zeros) as (k, sums, following):
        indices = [builder.add(builder.mul(k, WORD(ATTENTION_ROWS)), WORD(start)) for start in lanes]
        rights = [builder.load(address(b, index, vector), typ=vector, align=d.itemsize) for index in indices]
        step = builder.mul(k, along)
        lefts = [splat(builder, builder.load(address(top, step), typ=kind), vector) for top in tops]
        pairs = [(left, right) for left in lefts for right in rights]
        following += [vector_fma(builder, d, *pair, accumulator, vector) for pair, accumulator in zip(pairs, sums)]
    for n, total in enumerate(sums):
        row = builder.mul(builder.add(first, WORD(n // len(lanes))), WORD(ATTENTION_ROWS))
        index = builder.add(row, WORD(lanes[n % len(lanes)]))
        builder.store(total, address(c, index, vector), align=d.itemsize)


@contextmanager
def counted_loop(builder: ir.IRBuilder, begin, end, step: int, starts=()) -> Iterator[tuple]:
    """A counted loop: (counter, loop-carried values with these initial values, a list for their next values)."""
    before = builder.block
    head, body, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
    builder.branch(head)
    builder.position_at_end(head)
    k = builder.phi(WORD)
    k.add_incoming(begin, before)
    carried, following = [builder.phi(x.type) for x in starts], []  # type: list, list
    for x, start in zip(carried, starts):
        x.add_incoming(start, before)
    builder.cbranch(builder.icmp_unsigned("<", k, end), body, after)
    builder.position_at_end(body)
    yield k, carried, following
    for x, value in zip((k, *carried), (builder.add(k, WORD(step)), *following)):
        x.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
