"""float16 from and to float32: functions of a module, of a processor's instructions or, without those, of integers."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ....ir.types import FLOAT32, UINT16, UINT32
from ..llvm_values import LLVMValue, absolute, llvm_type, select

EXTEND, TRUNCATE = "float16_to_float32", "float32_to_float16"
WORD, SINGLE = llvm_type(UINT16), llvm_type(FLOAT32)
BITS = llvm_type(UINT32)
KINDS = {EXTEND: ir.FunctionType(SINGLE, [WORD, BITS]), TRUNCATE: ir.FunctionType(WORD, [SINGLE])}
UNKNOWN = "unknown_zero"


def extend(word: LLVMValue) -> LLVMValue:
    """The float32 of a float16, exactly; a NaN keeps its payload."""
    return LLVMValue(word.builder, FLOAT32, _call(word.builder, EXTEND, word.value, unknown_zero(word.builder)))


def truncate(x: LLVMValue) -> LLVMValue:
    """The nearest float16 (ties to even) of a float32; NaN stays NaN."""
    return LLVMValue(x.builder, UINT16, _call(x.builder, TRUNCATE, x.value))


def _call(builder: ir.IRBuilder, name: str, *arguments):
    module = builder.module
    return builder.call(module.globals.get(name) or ir.Function(module, KINDS[name], name), arguments)


def unknown_zero(builder: ir.IRBuilder):
    """A zero that LLVM does not know to be one, once a function, from its entry on.

    What has met it is no extended float16 to LLVM, which else compares, rounds and adds float16 in float16: vectors
    of them are then taken apart where the processor cannot compute with them.
    """
    for instruction in builder.function.entry_basic_block.instructions:
        if instruction.name == UNKNOWN:
            return instruction
    with builder.goto_entry_block():
        assembly = ir.InlineAsm(ir.FunctionType(BITS, [BITS]), "", "=r,0", side_effect=False)
        return builder.call(assembly, [ir.Constant(BITS, 0)], name=UNKNOWN)


def define(module: ir.Module, instructions: bool) -> None:
    """Give the functions that a module calls their bodies, which are inlined."""
    bodies: dict[str, Callable] = {EXTEND: _extended, TRUNCATE: _truncated}
    if instructions:
        bodies = {EXTEND: _extended_by_instruction, TRUNCATE: _truncated_by_instruction}
    for name, body in bodies.items():
        function = module.globals.get(name)
        if function is not None and function.is_declaration:
            function.linkage = "internal"
            function.attributes.add("alwaysinline")
            builder = ir.IRBuilder(function.append_basic_block())
            kind = UINT16 if name == EXTEND else FLOAT32
            builder.ret(body(LLVMValue(builder, kind, function.args[0]), *function.args[1:]))


def _extended_by_instruction(word: LLVMValue, zero):
    builder = word.builder
    wide = builder.fpext(builder.bitcast(word.value, ir.HalfType()), SINGLE)
    return builder.bitcast(builder.xor(builder.bitcast(wide, BITS), zero), SINGLE)


def _truncated_by_instruction(x: LLVMValue):
    return x.builder.bitcast(x.builder.fptrunc(x.value, ir.HalfType()), WORD)


def _extended(word: LLVMValue, zero):
    wide = word.to(UINT32)
    magnitude = (wide & 0x7FFF) << 13
    scaled = magnitude.reinterpret(FLOAT32) * 2.0**112  # exponent 15 becomes 127; subnormals come out normal
    special = (scaled.reinterpret(UINT32)) | 0x7F800000
    value = select(magnitude >= (0x7C00 << 13), special, scaled.reinterpret(UINT32))
    return (value | ((wide & 0x8000) << 16)).reinterpret(FLOAT32).value


def _truncated(x: LLVMValue):
    bits = x.reinterpret(UINT32)
    magnitude = bits & 0x7FFFFFFF
    normal = (magnitude + (0xFFF - (112 << 23)) + ((magnitude >> 13) & 1)) >> 13
    # adding 0.5 leaves the multiples of 2^-24 in the low bits, rounded by the addition itself
    subnormal = (absolute(x) + 0.5).reinterpret(UINT32) - 0x3F000000
    value = select(magnitude < (113 << 23), subnormal, normal)
    value = select(magnitude >= 0x477FF000, value.like(0x7C00), value)  # from 65520 up
    value = select(x != x, ((magnitude >> 13) & 0x3FF) | 0x7E00, value)
    return (value | ((bits >> 16) & 0x8000)).to(UINT16).value
