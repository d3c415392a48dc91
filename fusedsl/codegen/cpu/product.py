"""Products of small matrices in registers: the word that passes over scores multiply their tiles with."""

from __future__ import annotations

from llvmlite import ir

from ...ir.types import DType
from . import host
from .memory import c_function
from .number import Number, llvm_type
from .variant import LANES

BYTES = 64  # of a vector


def product(builder: ir.IRBuilder, d: DType, c, a, b, count: Number, depth: Number, across: Number, along: Number):
    """c[m, lane] = sum over k of a[m * across + k * along] * b[k, lane], for m < count and k < depth.

    c and b have LANES columns, one after the other. Rows of c are computed four at a time, with all their sums in
    registers where these are wide enough for 64 lanes, else for some lanes after the other.
    """
    kind, word = llvm_type(d), ir.IntType(64)
    width = BYTES // d.itemsize
    lanes = LANES if "+avx512f" in host.cpu()[1] and d.itemsize == 4 else LANES // 4
    four, rest = builder.udiv(count.value, word(4)), builder.urem(count.value, word(4))

    def rows(first, many: int) -> None:
        for start in range(0, LANES, lanes):
            block(builder, kind, width, (c, a, b), first, many, start, lanes // width, depth, across, along)

    with loop(builder, four) as k:
        rows(builder.mul(k, word(4)), 4)
    base = builder.mul(four, word(4))
    with loop(builder, rest) as k:
        rows(builder.add(base, k), 1)


def block(builder, kind, width: int, pointers, first, many: int, start: int, vectors: int, depth, across, along) -> None:
    """Rows first … first + many of c, in `vectors` vectors of lanes from `start`."""
    word, vector = ir.IntType(64), ir.VectorType(kind, width)
    c, a, b = (builder.bitcast(p, kind.as_pointer()) for p in pointers)
    tops = [
        builder.gep(a, [builder.mul(builder.add(first, word(m)), across.value)], source_etype=kind) for m in range(many)
    ]
    zero = ir.Constant(vector, [0.0] * width)
    entry = builder.block
    head, body, tail = (builder.append_basic_block(name) for name in ("product.head", "product.body", "product.end"))
    builder.branch(head)
    builder.position_at_end(head)
    k = builder.phi(word)
    k.add_incoming(word(0), entry)
    sums = [[builder.phi(vector) for _ in range(vectors)] for _ in range(many)]
    for line in sums:
        for x in line:
            x.add_incoming(zero, entry)
    builder.cbranch(builder.icmp_unsigned("<", k, depth.value), body, tail)
    builder.position_at_end(body)
    place = builder.add(builder.mul(k, word(LANES)), word(start))
    rights = [load(builder, b, builder.add(place, word(v * width)), kind, vector) for v in range(vectors)]
    step = builder.mul(k, along.value)
    fused = c_function(builder.module, f"llvm.fma.v{width}f{8 * BYTES // width}", vector, vector, vector, vector)
    for m, line in enumerate(sums):
        scalar = builder.load(builder.gep(tops[m], [step], source_etype=kind), typ=kind)
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.IntType(32)(0))
        splat = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width))
        for x, right in zip(line, rights):
            x.add_incoming(builder.call(fused, [splat, right, x]), body)
    k.add_incoming(builder.add(k, word(1)), body)
    builder.branch(head)
    builder.position_at_end(tail)
    for m, line in enumerate(sums):
        row = builder.add(builder.mul(builder.add(first, word(m)), word(LANES)), word(start))
        for v, x in enumerate(line):
            address = builder.gep(c, [builder.add(row, word(v * width))], source_etype=kind)
            builder.store(x, builder.bitcast(address, vector.as_pointer()), align=4)


def load(builder, base, index, kind, vector):
    address = builder.gep(base, [index], source_etype=kind)
    return builder.load(builder.bitcast(address, vector.as_pointer()), typ=vector, align=4)


class loop:
    """`with loop(builder, count) as k:` runs for k from 0 to count."""

    def __init__(self, builder, count):
        self.builder, self.count = builder, count

    def __enter__(self):
        builder, word = self.builder, ir.IntType(64)
        before = builder.block
        self.head, body, self.tail = (builder.append_basic_block(n) for n in ("loop.head", "loop.body", "loop.end"))
        builder.branch(self.head)
        builder.position_at_end(self.head)
        self.k = builder.phi(word)
        self.k.add_incoming(word(0), before)
        builder.cbranch(builder.icmp_unsigned("<", self.k, self.count), body, self.tail)
        builder.position_at_end(body)
        return self.k

    def __exit__(self, *_):
        builder = self.builder
        self.k.add_incoming(builder.add(self.k, ir.IntType(64)(1)), builder.block)
        builder.branch(self.head)
        builder.position_at_end(self.tail)
