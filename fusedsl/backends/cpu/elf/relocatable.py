"""Reads a relocatable ELF object of 64 bits, little-endian (System V ABI, generic part, chapter 4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ....errors import CompileError

X86_64, AARCH64 = 62, 183  # e_machine
WRITE, ALLOCATED, EXECUTABLE = 1, 2, 4  # sh_flags
SYMBOLS, ADDENDS, ZEROED = 2, 4, 8  # sh_type
UNDEFINED = 0  # st_shndx
GLOBAL = 1  # binding of a symbol
IGNORED = (".eh_frame",)  # what only unwinding needs: kernels raise nothing


@dataclass(frozen=True)
class Section:
    """Bytes that are in memory while the code runs."""

    name: str
    flags: int
    align: int
    data: bytes


@dataclass(frozen=True)
class ElfSymbol:
    """A place in a section (by number), or without one (UNDEFINED), what must come from elsewhere."""

    name: str
    section: int
    value: int
    size: int
    binding: int


@dataclass(frozen=True)
class Relocation:
    """Bytes of a section that depend on where a symbol is."""

    section: int
    offset: int
    kind: int
    symbol: ElfSymbol
    addend: int


@dataclass(frozen=True)
class Relocatable:
    """An object file, of which only what is in memory is left; sections by their number."""

    machine: int
    sections: dict[int, Section]
    symbols: tuple[ElfSymbol, ...]
    relocations: tuple[Relocation, ...]


def refused(what: str) -> CompileError:
    """The error for object code that the linker does not take."""
    return CompileError(f"the object code cannot be linked: {what}", "compile.link",
                        help="please report it with the text of the kernel")  # fmt: skip


def read(data: bytes) -> Relocatable:
    """An object as LLVM emits it; CompileError for another kind of file, or what kernels do not have."""
    if data[:6] != b"\x7fELF\x02\x01" or data[16:18] != b"\x01\x00":
        raise refused("it is no relocatable ELF object of 64 bits")
    (machine,) = struct.unpack_from("<H", data, 18)
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<3H", data, 58)
    # name, type, flags, address, offset, size, link, info, align, entry size
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * k) for k in range(count)]
    contents = [b"" if h[1] == ZEROED else data[h[4] : h[4] + h[5]] for h in headers]
    sections = {}
    for k, h in enumerate(headers):
        name = _text(contents[names], h[0])
        if h[2] & ALLOCATED and name not in IGNORED:
            sections[k] = Section(name, h[2], max(1, h[8]), bytes(h[5]) if h[1] == ZEROED else contents[k])
    symbols = [_symbols(contents[k], contents[h[6]]) for k, h in enumerate(headers) if h[1] == SYMBOLS]
    known = symbols[0] if symbols else ()
    relocations = [
        Relocation(h[7], offset, info & 0xFFFFFFFF, known[info >> 32], addend)
        for k, h in enumerate(headers)
        if h[1] == ADDENDS and h[7] in sections
        for offset, info, addend in struct.iter_unpack("<QQq", contents[k])
    ]
    return Relocatable(machine, sections, known, tuple(relocations))


def _symbols(table: bytes, names: bytes) -> tuple[ElfSymbol, ...]:
    return tuple(
        ElfSymbol(_text(names, name), section, value, size, info >> 4)
        for name, info, _, section, value, size in struct.iter_unpack("<IBBHQQ", table)
    )


def _text(table: bytes, start: int) -> str:
    return table[start : table.index(b"\0", start)].decode()
