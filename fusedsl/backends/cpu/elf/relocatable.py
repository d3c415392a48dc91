"""Reader of relocatable ELF64 objects, little-endian (System V ABI, generic part, chapter 4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ....errors import CompileError

X86_64, AARCH64 = 62, 183  # e_machine
WRITE, ALLOCATED, EXECUTABLE = 1, 2, 4  # sh_flags
SYMBOLS, ADDENDS, ZEROED = 2, 4, 8  # sh_type
UNDEFINED = 0  # st_shndx
GLOBAL = 1  # binding of a symbol
IGNORED = (".eh_frame",)  # unwind tables: kernels do not raise


@dataclass(frozen=True)
class Section:
    """A section that is loaded to memory."""

    name: str
    flags: int
    align: int
    data: bytes


@dataclass(frozen=True)
class ElfSymbol:
    """A symbol: an offset in a section (by number), or UNDEFINED if it is imported."""

    name: str
    section: int
    value: int
    size: int
    binding: int


@dataclass(frozen=True)
class Relocation:
    """A relocation: bytes of a section that depend on the address of a symbol."""

    section: int
    offset: int
    kind: int
    symbol: ElfSymbol
    addend: int


@dataclass(frozen=True)
class Relocatable:
    """The loaded sections of an object file, by number."""

    machine: int
    sections: dict[int, Section]
    symbols: tuple[ElfSymbol, ...]
    relocations: tuple[Relocation, ...]


def refused(what: str) -> CompileError:
    """The error for object code that the linker does not support."""
    return CompileError(f"the object code cannot be linked: {what}", "compile.link",
                        help="please report it with the expression of the kernel")  # fmt: skip


def read(data: bytes) -> Relocatable:
    """Parse an object of LLVM; CompileError for other files, and for features that kernels do not use."""
    if data[:6] != b"\x7fELF\x02\x01" or data[16:18] != b"\x01\x00":
        raise refused("it is not a relocatable ELF64 object")
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
