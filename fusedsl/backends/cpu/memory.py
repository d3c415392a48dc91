"""Words that touch memory: the parameter block, operands (widened and narrowed as they pass), scratch."""

from __future__ import annotations

from llvmlite import ir

from ...ir.types import BOOL, INT64, UINT8, UINT16, DType
from .affine import NANS
from .llvm_values import LLVMValue, llvm_type
from .loop_splitting import CONSTANT_BYTES
from .math import convert

BYTE = ir.IntType(8)
POINTER_TYPE = BYTE.as_pointer()


def stored_type(d: DType) -> ir.Type:
    """What an element of `d` is in memory: bools are bytes, narrow floats are words of their size."""
    return BYTE if d is BOOL else ir.IntType(d.bits) if d.bits < 32 else llvm_type(d)


def element_pointer(builder: ir.IRBuilder, base, index: LLVMValue, kind: ir.Type):
    """The address of element `index` of an array of `kind`."""
    typed = builder.bitcast(base, kind.as_pointer())
    return builder.gep(typed, [index.value], inbounds=True, source_etype=kind)


def element_address(builder: ir.IRBuilder, base, index: LLVMValue, d: DType):
    """The address of element `index` of an array of `d`, as a plain pointer."""
    return builder.bitcast(element_pointer(builder, base, index, stored_type(d)), POINTER_TYPE)


def read_slot(builder: ir.IRBuilder, slots, index: LLVMValue, kind: ir.Type):
    """Slot `index` of the parameter block, as `kind`."""
    address = builder.bitcast(element_pointer(builder, slots, index, ir.IntType(64)), kind.as_pointer())
    return builder.load(address, typ=kind)


def scalar(builder: ir.IRBuilder, slots, index: LLVMValue, d: DType) -> LLVMValue:
    """A run-time scalar, in the low bytes of its slot."""
    return widen(LLVMValue(builder, UINT8 if d is BOOL else d, read_slot(builder, slots, index, stored_type(d))), d)


def widen(x: LLVMValue, d: DType) -> LLVMValue:
    """A stored element of `d` as the value that bodies compute with."""
    if d is BOOL:
        return x != 0
    return convert.unpack(x, d) if d.kind == "f" and d.bits < 32 else x


def load(builder: ir.IRBuilder, d: DType, base, index: LLVMValue, scopes=None) -> LLVMValue:
    """Element `index` of an array of `d`."""
    held = UINT8 if d is BOOL or d.storage else UINT16 if d.kind == "f" and d.bits == 16 else d
    instruction = builder.load(
        element_pointer(builder, base, index, stored_type(d)), typ=stored_type(d), align=d.itemsize
    )
    set_alias_scope(instruction, scopes)
    return widen(LLVMValue(builder, held, instruction), d)


def masked_address(builder: ir.IRBuilder, address: LLVMValue, wanted: LLVMValue) -> LLVMValue:
    """An address where it is wanted; else that of zeros, as far as a part of a loop may go to either side."""
    zeros = _constant_array(builder, "zeros", UINT8, 0)
    return LLVMValue(builder, INT64, builder.select(wanted.value, address.value, zeros.value))


def nan_address(builder: ir.IRBuilder, d: DType) -> LLVMValue:
    """The address of NaNs of `d`, likewise."""
    return _constant_array(builder, f"nans_{d.name}", d, NANS[d.name])


def _constant_array(builder: ir.IRBuilder, name: str, d: DType, bits: int) -> LLVMValue:
    """The address in the middle of elements of these bits."""
    module, word, unit = builder.module, llvm_type(INT64), ir.IntType(8 * d.itemsize)
    line = module.globals.get(name)
    if line is None:
        kind = ir.ArrayType(unit, 2 * CONSTANT_BYTES // d.itemsize + 64)
        line = ir.GlobalVariable(module, kind, name)
        line.initializer, line.linkage = ir.Constant(kind, [unit(bits)] * kind.count if bits else None), "internal"
    return LLVMValue(builder, INT64, builder.add(builder.ptrtoint(line, word), word(CONSTANT_BYTES)))


def pointer_of(builder: ir.IRBuilder, address: LLVMValue):
    """An address as a pointer."""
    return builder.inttoptr(address.value, POINTER_TYPE)


def memmove(builder: ir.IRBuilder, d: DType, to, source, count: LLVMValue) -> None:
    """Copy so many elements of `d`."""
    word, flag = llvm_type(INT64), ir.IntType(1)
    kind = (POINTER_TYPE, POINTER_TYPE, word, flag)
    function = c_function(builder.module, "llvm.memmove.p0i8.p0i8.i64", ir.VoidType(), *kind)
    builder.call(function, [to, source, builder.mul(count.value, word(d.itemsize)), flag(0)])


def element(builder: ir.IRBuilder, d: DType, base: LLVMValue, index: LLVMValue, scopes: tuple[int, int]) -> LLVMValue:
    """The element of `d` so many elements behind an address."""
    return load(builder, d, builder.inttoptr(base.value, stored_type(d).as_pointer()), index, scopes)


def fetch(builder: ir.IRBuilder, d: DType, address: LLVMValue, wanted: LLVMValue, scopes: tuple[int, int]) -> LLVMValue:
    """The element of `d` at an address where it is wanted; else 0, read from a place that is always there."""
    module = builder.module
    nothing = module.globals.get("nothing")
    if nothing is None:
        word = ir.IntType(64)
        nothing = ir.GlobalVariable(module, word, "nothing")
        nothing.initializer, nothing.linkage, nothing.global_constant = word(0), "internal", True
    kind = stored_type(d)
    there = builder.inttoptr(address.value, kind.as_pointer())
    place = builder.select(wanted.value, there, builder.bitcast(nothing, kind.as_pointer()))
    return load(builder, d, place, LLVMValue(builder, INT64, llvm_type(INT64)(0)), scopes)


def store(builder: ir.IRBuilder, d: DType, base, index: LLVMValue, x: LLVMValue, scopes=None) -> None:
    """Write x, narrowed to `d`, to element `index`."""
    if d is BOOL:
        x = x.to(UINT8)
    elif d.kind == "f" and d.bits < 32:
        x = convert.pack(x, d)
    instruction = builder.store(x.value, element_pointer(builder, base, index, stored_type(d)), align=d.itemsize)
    set_alias_scope(instruction, scopes)


def set_alias_scope(instruction, scopes: tuple[int, int] | None) -> None:
    """Say that arrays do not overlap (what the language guarantees): `scopes` is (this array's number, their count)."""
    if scopes is None:
        return
    own, count = scopes
    module = instruction.module
    domain = module.add_metadata(["arrays"])
    names = [module.add_metadata([f"array {k}", domain]) for k in range(count)]
    instruction.set_metadata("alias.scope", module.add_metadata([names[own]]))
    instruction.set_metadata("noalias", module.add_metadata([n for k, n in enumerate(names) if k != own]))


def c_function(module: ir.Module, name: str, result: ir.Type, *args: ir.Type) -> ir.Function:
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, args), name)


def allocate(builder: ir.IRBuilder, size: LLVMValue):
    """Scratch memory of `size` bytes from the C library."""
    function = c_function(builder.module, "malloc", POINTER_TYPE, llvm_type(INT64))
    function.return_value.add_attribute("noalias")
    return builder.call(function, [size.value])


def free(builder: ir.IRBuilder, pointer) -> None:
    builder.call(c_function(builder.module, "free", ir.VoidType(), POINTER_TYPE), [pointer])


def accumulate(builder: ir.IRBuilder, real: str, whole: str, x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """x + y or x * y where the order of the terms is free, so that a loop over them becomes vector lanes."""
    if x.dtype.kind == "f":
        return LLVMValue(builder, x.dtype, getattr(builder, real)(x.value, y.value, flags=("reassoc", "contract")))
    return LLVMValue(builder, x.dtype, getattr(builder, whole)(x.value, y.value))
