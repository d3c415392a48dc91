"""Elements of arrays in registers: how many a register holds, as which type, and the way from words to elements."""

from __future__ import annotations

from ....ir.types import DType
from ..compiler.numba_backend import F32, F64, Emitter, ir, types


def element_type(dtype: DType) -> ir.Type:
    """How one element of an array is held in LLVM: floats narrower than 32 bits and bool as their bits."""
    if dtype.kind == "f" and dtype.bits >= 32:
        return F32 if dtype.bits == 32 else F64
    return ir.IntType(dtype.itemsize * 8)


def stored_type(dtype: DType, count: int, width: int) -> types.UniTuple:
    """The tuple that `count` loaded elements are held in: 16-bit floats stay packed in pairs."""
    if dtype.kind == "f" and dtype.bits == 16:
        return types.UniTuple(types.uint32, count // 2) if width % 2 == 0 else types.UniTuple(types.uint16, count)
    if dtype.kind == "b" or dtype.storage:
        return types.UniTuple(types.uint8, count)
    return types.UniTuple(getattr(types, dtype.name), count)


def is_packed(dtype: DType, width: int) -> bool:
    return dtype.kind == "f" and dtype.bits == 16 and width % 2 == 0


def register_bits(dtype: DType, width: int) -> int:
    """Registers that an access moves: 64 bits for 8-byte elements, else 32, less for a lone narrow element."""
    return 64 if dtype.itemsize == 8 else min(32, 8 * dtype.itemsize * width)


def unpack_registers(e: Emitter, dtype: DType, width: int, units: list[ir.Value]) -> list[ir.Value]:
    """Registers as `stored_type` holds them."""
    b, kind, size = e.builder, element_type(dtype), dtype.itemsize
    if size >= 4 or is_packed(dtype, width) or width == 1:
        return [b.bitcast(unit, kind) if size >= 4 else unit for unit in units]
    per_unit = units[0].type.width // (8 * size)
    return [b.trunc(b.lshr(unit, unit.type(8 * size * k)), kind) for unit in units for k in range(per_unit)]


def pack_registers(e: Emitter, dtype: DType, width: int, values: list[ir.Value]) -> list[ir.Value]:
    """The inverse of `unpack_registers`."""
    b, size = e.builder, dtype.itemsize
    if size >= 4 or is_packed(dtype, width) or width == 1:
        word = ir.IntType(8 * size)
        return [b.bitcast(value, word) if size >= 4 else value for value in values]
    unit = ir.IntType(register_bits(dtype, width))
    per_unit = unit.width // (8 * size)
    units = []
    for begin in range(0, len(values), per_unit):
        gathered = b.zext(values[begin], unit) if unit.width > 8 * size else values[begin]
        for k in range(1, per_unit):
            gathered = b.or_(gathered, b.shl(b.zext(values[begin + k], unit), unit(8 * size * k)))
        units.append(gathered)
    return units
