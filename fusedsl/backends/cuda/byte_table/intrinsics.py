"""Byte tables in shared memory: 256 entries that a block computes once, and the lookup of a tile's bytes."""

from __future__ import annotations

from ....ir.types import DType, dtype
from ....kernel_ir.byte_tables import ENTRIES
from ..compiler.numba_backend import I1, I8, I32, I64, SHARED, Emitter, emitted, ir, numba_type, types
from ..tile.element import widened_value
from ..tile.element_registers import element_type


@emitted(types.int64)
def byte_table(e, *, name: str):
    """`byte_table(name)()`: the address of a table of this type in shared memory, another at each place in the file."""
    return e.builder.ptrtoint(e.shared_array(I8, dtype(name).itemsize * ENTRIES), I64)


@emitted(lambda name: numba_type(dtype(name).compute.name))
def byte_element(e, number, *, name: str):
    """`element(number)`: the element of this type whose bits are a number below 256, as bodies compute with it."""
    return widened_value(e, dtype(name), e.builder.trunc(number, I8))


@emitted(types.void)
def set_entry(e, table, number, value, *, kinds, name: str):
    """`set_entry(name)(table, number, value)`: write an entry of this type."""
    kind = dtype(name)
    value = e.cast(value, kinds[2], numba_type(name))
    value = e.builder.zext(value, I8) if value.type == I1 else value
    e.builder.store(value, _entry_pointer(e, kind, table, number), align=kind.itemsize)


@emitted(lambda name, kinds: types.UniTuple(numba_type(name), len(kinds[1])))
def look_up(e, table, bytes, *, kinds, name: str):
    """`look_up(table, bytes)`: the entry of each byte of a tile, as it is stored."""
    kind, entries = dtype(name), []
    for byte in e.unpack(bytes, len(kinds[1])):
        entry = e.builder.load(_entry_pointer(e, kind, table, e.builder.zext(byte, I32)), align=kind.itemsize)
        entries.append(e.builder.icmp_unsigned("!=", entry, I8(0)) if kind.kind == "b" else entry)
    return entries


def _entry_pointer(e: Emitter, kind: DType, table: ir.Value, number: ir.Value) -> ir.Value:
    """The pointer to an entry."""
    b = e.builder
    where = b.add(b.trunc(table, I32), b.mul(number, I32(kind.itemsize)))
    return b.inttoptr(where, element_type(kind).as_pointer(SHARED))
