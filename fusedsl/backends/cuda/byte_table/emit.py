"""Emits byte tables: the loop in which a block fills them, and the lookups of a tile's bytes."""

from __future__ import annotations

from collections.abc import Sequence

from ....kernel_ir.byte_tables import ENTRIES, ByteTable
from ..emit.file_builder import FileBuilder, signature
from ..tile import barrier, block_dim_x, thread_idx, uniform
from . import byte_element, byte_table, look_up, set_entry


def fill(src: FileBuilder, tables: Sequence[ByteTable], threads: int) -> None:
    """All `threads` of a block compute the entries together, and wait for each other; 0: as many as are launched."""
    for table in tables:
        new = src.bind(f"new_{_name(table)}", byte_table(table.result.dtype.name))
        src.assign(_name(table), new())
    src.assign("byte", thread_idx())
    with src.while_(f"byte < {ENTRIES}"):
        for table in tables:
            _set_entry(src, table)
        src.assign("byte", f"int32(byte + {threads or block_dim_x()})")
    src.emit(barrier())


def look_up_all(src: FileBuilder, tables: Sequence[ByteTable]) -> None:
    """What tables have of the bytes of a tile."""
    for table in tables:
        kind = table.result.dtype.name
        read = src.bind(f"look_up_{kind}", look_up(kind))
        src.assign(table.result.name, read(_name(table), table.argument.name))


def _name(table: ByteTable) -> str:
    return f"{table.result.name}_table"


def _set_entry(src: FileBuilder, table: ByteTable) -> None:
    entry, stored, result = table.entry, table.stored.name, table.result
    kinds = signature((value.dtype for value in entry.args), [result.dtype])
    names = [value.name for value in entry.args]
    compute = src.function(uniform(kinds), f"{result.name}_entry", names, [*entry.lines, f"return {result.name}"])
    element = src.bind(f"{stored}_of", byte_element(stored))("byte")
    write = src.bind(f"set_{result.name}", set_entry(result.dtype.name))
    src.emit(write(_name(table), "byte", compute(element, *names[1:])))
