"""float16 from and to float32: functions of a module, of a processor's instructions or, without those, of integers."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ....ir.types import FLOAT32, UINT16, UINT32
from ..llvm_values import LLVMValue, absolute, llvm_type, select

EXTEND, TRUNCATE = "float16_to_float32", "float32_to_float16"
WORD, SINGLE = llvm_type(UINT16), llvm_type(FLOAT32)
KINDS = {EXTEND: ir.FunctionType(SINGLE, [WORD]), TRUNCATE: ir.FunctionType(WORD, [SINGLE])}


def extend(word: LLVMValue) -> LLVMValue:
    """The float32 of a float16, exactly; a NaN keeps its payload."""
    return LLVMValue(word.builder, FLOAT32, _call(word, EXTEND))


def truncate(x: LLVMValue) -> LLVMValue:
    """The nearest float16 (ties to even) of a float32; NaN stays NaN."""
    return LLVMValue(x.builder, UINT16, _call(x, TRUNCATE))


def _call(x: LLVMValue, name: str):
    module = x.builder.module
    return x.builder.call(module.globals.get(name) or ir.Function(module, KINDS[name], name), [x.value])


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
            builder.ret(body(LLVMValue(builder, kind, function.args[0])))


def _extended_by_instruction(word: LLVMValue):
    return word.builder.fpext(word.builder.bitcast(word.value, ir.HalfType()), SINGLE)


def _truncated_by_instruction(x: LLVMValue):
    return x.builder.bitcast(x.builder.fptrunc(x.value, ir.HalfType()), WORD)


def _extended(word: LLVMValue):
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
