"""Memory access: the parameter block, loads and stores with conversion, scratch, alias scopes."""

from __future__ import annotations

from llvmlite import ir

from ...ir.types import BOOL, INT64, UINT8, UINT16, DType
from .affine import NANS
from .llvm_values import LLVMValue, llvm_type
from .loop_splitting import CONSTANT_BYTES
from .math import convert

BYTE = ir.IntType(8)
POINTER_TYPE = BYTE.as_pointer()


class KernelModule(ir.Module):
    """The module of a kernel, which keeps its alias scopes: llvmlite hashes all of a scope's metadata to find it."""

    def __init__(self, name: str):
        super().__init__(name)
        self._names: dict[int, list[ir.MDValue]] = {}  # of arrays, by how many there are
        self._scopes: dict[tuple[int, int], tuple[ir.MDValue, ir.MDValue]] = {}

    def alias_scopes(self, number: int, count: int) -> tuple[ir.MDValue, ir.MDValue]:
        """The scope of one of `count` arrays, and those of the others."""
        if count not in self._names:
            domain = self.add_metadata(["arrays"])
            self._names[count] = [self.add_metadata([f"array {k}", domain]) for k in range(count)]
        if (number, count) not in self._scopes:
            names = self._names[count]
            own, others = names[number : number + 1], names[:number] + names[number + 1 :]
            self._scopes[number, count] = self.add_metadata(own), self.add_metadata(others)
        return self._scopes[number, count]


def stored_type(d: DType) -> ir.Type:
    """The LLVM type of an element of `d` in memory: bools are bytes, narrow floats are integers."""
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
    return to_compute_type(
        LLVMValue(builder, UINT8 if d is BOOL else d, read_slot(builder, slots, index, stored_type(d))), d
    )


def to_compute_type(x: LLVMValue, d: DType) -> LLVMValue:
    """Convert a stored element of `d` to its compute type."""
    if d is BOOL:
        return x != 0
    return convert.unpack(x, d) if d.kind == "f" and d.bits < 32 else x


def element_of_byte(number: LLVMValue, d: DType) -> LLVMValue:
    """The element of an 8-bit type whose bits are a number below 256, in its compute type."""
    byte = number.to(UINT8)
    return to_compute_type(byte if d is BOOL or d.storage else byte.to(d), d)


def load(builder: ir.IRBuilder, d: DType, base, index: LLVMValue, scopes=None) -> LLVMValue:
    """Element `index` of an array of `d`."""
    # `d.storage`: float8, which is stored only; it is converted from its byte
    stored = UINT8 if d is BOOL or d.storage else UINT16 if d.kind == "f" and d.bits == 16 else d
    instruction = builder.load(
        element_pointer(builder, base, index, stored_type(d)), typ=stored_type(d), align=d.itemsize
    )
    set_alias_scope(instruction, scopes)
    return to_compute_type(LLVMValue(builder, stored, instruction), d)


def masked_address(builder: ir.IRBuilder, address: LLVMValue, mask: LLVMValue) -> LLVMValue:
    """An address under a predicate; else the zero page: zeros with CONSTANT_BYTES of slack on both sides.

    A part of a split loop may stride from there in either direction, and reads zeros.
    """
    zeros = _constant_array(builder, "zeros", UINT8, 0)
    return LLVMValue(builder, INT64, builder.select(mask.value, address.value, zeros.value))


def nan_address(builder: ir.IRBuilder, d: DType) -> LLVMValue:
    """The address within a page of NaNs of `d`, with CONSTANT_BYTES of slack on both sides."""
    return _constant_array(builder, f"nans_{d.name}", d, NANS[d.name])


def _constant_array(builder: ir.IRBuilder, name: str, d: DType, bits: int) -> LLVMValue:
    """The address of the middle of a constant array of these bits: CONSTANT_BYTES of it lie on both sides."""
    module, word, unit = builder.module, llvm_type(INT64), ir.IntType(8 * d.itemsize)
    global_array = module.globals.get(name)
    if global_array is None:
        kind = ir.ArrayType(unit, 2 * CONSTANT_BYTES // d.itemsize + 64)
        global_array = ir.GlobalVariable(module, kind, name)
        global_array.initializer = ir.Constant(kind, [unit(bits)] * kind.count if bits else None)
        global_array.linkage = "internal"
    return LLVMValue(builder, INT64, builder.add(builder.ptrtoint(global_array, word), word(CONSTANT_BYTES)))


def pointer_of(builder: ir.IRBuilder, address: LLVMValue):
    """Integer address to pointer."""
    return builder.inttoptr(address.value, POINTER_TYPE)


def memmove(builder: ir.IRBuilder, d: DType, to, source, count: LLVMValue) -> None:
    """Call memmove for `count` elements of `d`."""
    word, flag = llvm_type(INT64), ir.IntType(1)
    kind = (POINTER_TYPE, POINTER_TYPE, word, flag)
    function = c_function(builder.module, "llvm.memmove.p0i8.p0i8.i64", ir.VoidType(), *kind)
    builder.call(function, [to, source, builder.mul(count.value, word(d.itemsize)), flag(0)])


def load_at(builder: ir.IRBuilder, d: DType, base: LLVMValue, index: LLVMValue, scopes: tuple[int, int]) -> LLVMValue:
    """Load element `index` of an array of `d` at an integer address."""
    return load(builder, d, builder.inttoptr(base.value, stored_type(d).as_pointer()), index, scopes)


def masked_load(
    builder: ir.IRBuilder, d: DType, address: LLVMValue, mask: LLVMValue, scopes: tuple[int, int]
) -> LLVMValue:
    """Load of a `d` from an integer address under a predicate; else 0, loaded from a global word."""
    module = builder.module
    zero_word = module.globals.get("zero_word")
    if zero_word is None:
        word = ir.IntType(64)
        zero_word = ir.GlobalVariable(module, word, "zero_word")
        zero_word.initializer, zero_word.linkage, zero_word.global_constant = word(0), "internal", True
    kind = stored_type(d)
    there = builder.inttoptr(address.value, kind.as_pointer())
    pointer = builder.select(mask.value, there, builder.bitcast(zero_word, kind.as_pointer()))
    return load(builder, d, pointer, LLVMValue(builder, INT64, llvm_type(INT64)(0)), scopes)


def store(builder: ir.IRBuilder, d: DType, base, index: LLVMValue, x: LLVMValue, scopes=None) -> None:
    """Write x, narrowed to `d`, to element `index`."""
    if d is BOOL:
        x = x.to(UINT8)
    elif d.kind == "f" and d.bits < 32:
        x = convert.pack(x, d)
    instruction = builder.store(x.value, element_pointer(builder, base, index, stored_type(d)), align=d.itemsize)
    set_alias_scope(instruction, scopes)


def set_alias_scope(instruction, scopes: tuple[int, int] | None) -> None:
    """Set alias.scope and noalias metadata: arrays do not overlap. `scopes` is (number of this array, count)."""
    if scopes is None:
        return
    own, others = instruction.module.alias_scopes(*scopes)
    instruction.set_metadata("alias.scope", own)
    instruction.set_metadata("noalias", others)


def c_function(module: ir.Module, name: str, result: ir.Type, *args: ir.Type) -> ir.Function:
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, args), name)


def allocate(builder: ir.IRBuilder, size: LLVMValue):
    """Call malloc."""
    function = c_function(builder.module, "malloc", POINTER_TYPE, llvm_type(INT64))
    function.return_value.add_attribute("noalias")
    return builder.call(function, [size.value])


def free(builder: ir.IRBuilder, pointer) -> None:
    builder.call(c_function(builder.module, "free", ir.VoidType(), POINTER_TYPE), [pointer])


def accumulate(builder: ir.IRBuilder, floating: str, integer: str, x: LLVMValue, y: LLVMValue) -> LLVMValue:
    """x + y or x * y, by the builder's method `floating` of floats and `integer` of integers ("fadd", "add").

    Floats get the flags reassoc, so that LLVM vectorises a reduction over them, and contract (FMA).
    """
    if x.dtype.kind == "f":
        return LLVMValue(builder, x.dtype, getattr(builder, floating)(x.value, y.value, flags=("reassoc", "contract")))
    return LLVMValue(builder, x.dtype, getattr(builder, integer)(x.value, y.value))
