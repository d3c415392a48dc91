"""Words that touch memory: the parameter block, operands (widened and narrowed as they pass), scratch."""

from __future__ import annotations

from llvmlite import ir

from ...ir.types import BOOL, INT64, UINT8, UINT16, DType
from .affine import NANS
from .llvm_values import Number, llvm_type
from .loop_splitting import LINE
from .math import convert

BYTE = ir.IntType(8)
POINTER_TYPE = BYTE.as_pointer()


def stored_type(d: DType) -> ir.Type:
    """What an element of `d` is in memory: bools are bytes, narrow floats are words of their size."""
    return BYTE if d is BOOL else ir.IntType(d.bits) if d.bits < 32 else llvm_type(d)


def at(builder: ir.IRBuilder, base, index: Number, kind: ir.Type):
    """The address of element `index` of an array of `kind`."""
    typed = builder.bitcast(base, kind.as_pointer())
    return builder.gep(typed, [index.value], inbounds=True, source_etype=kind)


def element_address(builder: ir.IRBuilder, base, index: Number, d: DType):
    """The address of element `index` of an array of `d`, as a plain pointer."""
    return builder.bitcast(at(builder, base, index, stored_type(d)), POINTER_TYPE)


def read(builder: ir.IRBuilder, slots, index: Number, kind: ir.Type):
    """Slot `index` of the parameter block, as `kind`."""
    address = builder.bitcast(at(builder, slots, index, ir.IntType(64)), kind.as_pointer())
    return builder.load(address, typ=kind)


def scalar(builder: ir.IRBuilder, slots, index: Number, d: DType) -> Number:
    """A run-time scalar, in the low bytes of its slot."""
    return widen(Number(builder, UINT8 if d is BOOL else d, read(builder, slots, index, stored_type(d))), d)


def widen(x: Number, d: DType) -> Number:
    """A stored element of `d` as the value that bodies compute with."""
    if d is BOOL:
        return x != 0
    return convert.unpack(x, d) if d.kind == "f" and d.bits < 32 else x


def load(builder: ir.IRBuilder, d: DType, base, index: Number, scopes=None) -> Number:
    """Element `index` of an array of `d`."""
    held = UINT8 if d is BOOL or d.storage else UINT16 if d.kind == "f" and d.bits == 16 else d
    instruction = builder.load(at(builder, base, index, stored_type(d)), typ=stored_type(d), align=d.itemsize)
    mark(instruction, scopes)
    return widen(Number(builder, held, instruction), d)


def origin(builder: ir.IRBuilder, address: Number, wanted: Number) -> Number:
    """An address where it is wanted; else that of zeros, as far as a part of a loop may go to either side."""
    zeros = _line(builder, "zeros", UINT8, 0)
    return Number(builder, INT64, builder.select(wanted.value, address.value, zeros.value))


def nans(builder: ir.IRBuilder, d: DType) -> Number:
    """The address of NaNs of `d`, likewise."""
    return _line(builder, f"nans_{d.name}", d, NANS[d.name])


def _line(builder: ir.IRBuilder, name: str, d: DType, bits: int) -> Number:
    """The address in the middle of elements of these bits."""
    module, word, unit = builder.module, llvm_type(INT64), ir.IntType(8 * d.itemsize)
    line = module.globals.get(name)
    if line is None:
        kind = ir.ArrayType(unit, 2 * LINE // d.itemsize + 64)
        line = ir.GlobalVariable(module, kind, name)
        line.initializer, line.linkage = ir.Constant(kind, [unit(bits)] * kind.count if bits else None), "internal"
    return Number(builder, INT64, builder.add(builder.ptrtoint(line, word), word(LINE)))


def place(builder: ir.IRBuilder, address: Number):
    """An address as a pointer."""
    return builder.inttoptr(address.value, POINTER_TYPE)


def move(builder: ir.IRBuilder, d: DType, to, source, count: Number) -> None:
    """Copy so many elements of `d`."""
    word, flag = llvm_type(INT64), ir.IntType(1)
    kind = (POINTER_TYPE, POINTER_TYPE, word, flag)
    function = c_function(builder.module, "llvm.memmove.p0i8.p0i8.i64", ir.VoidType(), *kind)
    builder.call(function, [to, source, builder.mul(count.value, word(d.itemsize)), flag(0)])


def element(builder: ir.IRBuilder, d: DType, base: Number, index: Number, scopes: tuple[int, int]) -> Number:
    """The element of `d` so many elements behind an address."""
    return load(builder, d, builder.inttoptr(base.value, stored_type(d).as_pointer()), index, scopes)


def fetch(builder: ir.IRBuilder, d: DType, address: Number, wanted: Number, scopes: tuple[int, int]) -> Number:
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
    return load(builder, d, place, Number(builder, INT64, llvm_type(INT64)(0)), scopes)


def store(builder: ir.IRBuilder, d: DType, base, index: Number, x: Number, scopes=None) -> None:
    """Write x, narrowed to `d`, to element `index`."""
    if d is BOOL:
        x = x.to(UINT8)
    elif d.kind == "f" and d.bits < 32:
        x = convert.pack(x, d)
    instruction = builder.store(x.value, at(builder, base, index, stored_type(d)), align=d.itemsize)
    mark(instruction, scopes)


def mark(instruction, scopes: tuple[int, int] | None) -> None:
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


def allocate(builder: ir.IRBuilder, size: Number):
    """Scratch memory of `size` bytes from the C library."""
    function = c_function(builder.module, "malloc", POINTER_TYPE, llvm_type(INT64))
    function.return_value.add_attribute("noalias")
    return builder.call(function, [size.value])


def release(builder: ir.IRBuilder, pointer) -> None:
    builder.call(c_function(builder.module, "free", ir.VoidType(), POINTER_TYPE), [pointer])


def accumulate(builder: ir.IRBuilder, real: str, whole: str, x: Number, y: Number) -> Number:
    """x + y or x * y where the order of the terms is free, so that a loop over them becomes vector lanes."""
    if x.dtype.kind == "f":
        return Number(builder, x.dtype, getattr(builder, real)(x.value, y.value, flags=("reassoc", "contract")))
    return Number(builder, x.dtype, getattr(builder, whole)(x.value, y.value))
