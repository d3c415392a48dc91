"""Matmul microkernel: outer products of packed panels, accumulated in a register tile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir

from ...ir.types import DType
from .llvm_values import LLVMValue, llvm_type
from .memory import POINTER_TYPE
from .vector_registers import PREFER_VECTOR_WIDTH, TILE_PRODUCT, VectorRegisters, tile_shape

WORD = ir.IntType(64)


def outlined(d: DType, name: str, write: Callable[[ir.Function, DType], None]) -> Callable[..., None]:
    """A vocabulary function that calls a noinline LLVM function (three pointers, some integers), whose body `write`
    emits."""

    def call(builder: ir.IRBuilder, a, b, c, *numbers: LLVMValue) -> None:
        function = _outlined_function(builder.module, f"{name}_{d.name}", len(numbers), lambda f: write(f, d))
        builder.call(function, [a, b, c, *(n.value for n in numbers)])

    return call


def _outlined_function(module: ir.Module, name: str, numbers: int, write: Callable) -> ir.Function:
    """The function of this name, which a module has once."""
    function = module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(ir.VoidType(), [POINTER_TYPE] * 3 + [WORD] * numbers)
        function = ir.Function(module, kind, name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        set.add(function.attributes, PREFER_VECTOR_WIDTH)
        for pointer in function.args[:3]:
            pointer.add_attribute("noalias")
        write(function)
    return function


def tile_product(vectors: VectorRegisters, d: DType) -> Callable[..., None]:
    """c += a · b for one tile: a is packed (depth, rows), b packed (depth, columns), c has row stride `stride`."""
    return outlined(d, TILE_PRODUCT, partial(_write, vectors))


def _write(vectors: VectorRegisters, function: ir.Function, d: DType) -> None:
    a, b, c, depth, stride = function.args
    rows, columns = tile_shape(d, vectors)
    lanes = columns // 2
    scalar, vector = llvm_type(d), ir.VectorType(llvm_type(d), lanes)
    before, loop, after = (function.append_basic_block(name) for name in ("before", "step", "after"))
    builder = ir.IRBuilder(before)
    builder.cbranch(builder.icmp_signed(">", depth, WORD(0)), loop, after)

    builder.position_at_end(loop)
    k = builder.phi(WORD)
    k.add_incoming(WORD(0), before)
    sums = [[builder.phi(vector) for _ in range(2)] for _ in range(rows)]
    right = [_vector(builder, b, _index(builder, k, columns, v * lanes), scalar, vector, d) for v in range(2)]
    for r, line in enumerate(sums):
        left = splat(builder, _element(builder, a, _index(builder, k, rows, r), scalar), vector)
        for v, accumulator in enumerate(line):
            accumulator.add_incoming(ir.Constant(vector, None), before)
            accumulator.add_incoming(vector_fma(builder, d, left, right[v], accumulator, vector), loop)
    following = builder.add(k, WORD(1))
    k.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)

    builder.position_at_end(after)
    for line in sums:
        for v, accumulator in enumerate(line):
            total = builder.phi(vector)
            total.add_incoming(ir.Constant(vector, None), before)
            total.add_incoming(accumulator.incomings[1][0], loop)
            line[v] = total
    for r, line in enumerate(sums):
        for v, total in enumerate(line):
            offset = builder.add(builder.mul(stride, WORD(r)), WORD(v * lanes))
            address = _address(builder, c, offset, scalar, vector)
            old = builder.load(address, typ=vector, align=d.itemsize)
            added = builder.fadd(old, total) if d.kind == "f" else builder.add(old, total)
            builder.store(added, address, align=d.itemsize)
    builder.ret_void()


def _index(builder, k, step: int, offset: int):
    return builder.add(builder.mul(k, WORD(step)), WORD(offset))


def _address(builder, base, index, scalar, target):
    typed = builder.bitcast(base, scalar.as_pointer())
    return builder.bitcast(builder.gep(typed, [index], inbounds=True, source_etype=scalar), target.as_pointer())


def _vector(builder, base, index, scalar, vector, d: DType):
    return builder.load(_address(builder, base, index, scalar, vector), typ=vector, align=d.itemsize)


def _element(builder, base, index, scalar):
    return builder.load(_address(builder, base, index, scalar, scalar), typ=scalar)


def splat(builder, x, vector):
    """Broadcast a scalar to all lanes."""
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), x, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), mask)


def vector_fma(builder, d: DType, x, y, z, vector):
    """x * y + z; an fma for floats."""
    if d.kind != "f":
        return builder.add(builder.mul(x, y), z)
    lanes = f"v{vector.count}" if isinstance(vector, ir.VectorType) else ""
    name = f"llvm.fma.{lanes}f{d.bits}"
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(vector, [vector] * 3), name
    )
    return builder.call(function, [x, y, z])
