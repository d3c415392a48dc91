"""Linker: lays out an object, applies relocations, writes the shared object (System V ABI, chapters 4 and 5).

Functions of the C library are called through a GOT that the dynamic loader fills. There is no DT_NEEDED: malloc and sin
are in every process that runs Python (see runtime/object_loader.py).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .layout import CODE, DATA, PAGE, PERMISSIONS, READ_ONLY, ObjectLayout, Piece, lay_out
from .relocatable import (
    EXECUTABLE,
    GLOBAL,
    UNDEFINED,
    WRITE,
    ElfSymbol,
    Relocatable,
    Relocation,
    Section,
    read,
    refused,
)
from .relocations import MACHINES, Patch, Relocations

HEAD, PROGRAM, SYMBOL, RELOCATION, ENTRY = 64, 56, 24, 24, 16  # bytes of each record
LOAD, DYNAMIC, STACK = 1, 2, 0x6474E551  # p_type
PROGRAMS = len(PERMISSIONS) + 2
TAGS = {"hash": 4, "names": 5, "symbols": 6, "relocations": 7, "relocations size": 8, "relocation size": 9,
        "names size": 10, "symbol size": 11, "now": 24, "end": 0}  # d_tag  # fmt: skip
FUNCTION = GLOBAL << 4 | 2  # st_info
LIBRARY = """
memcpy memmove memset malloc free sin cos tan pow log10 cbrt hypot lgamma fmod fmodf exp log exp2 log2 sinf cosf tanf
powf expf logf exp2f log2f log10f floor floorf ceil ceilf trunc truncf rint rintf nearbyint nearbyintf round roundf fma
fmaf fmin fminf fmax fmaxf ldexp ldexpf
"""  # functions of every version of the C library


class Linked(NamedTuple):
    """An object after symbol resolution and layout."""

    source: Relocatable
    rules: Relocations  # of its architecture
    imported: tuple[ElfSymbol, ...]  # functions of libraries
    exported: tuple[ElfSymbol, ...]
    got: tuple[ElfSymbol, ...]  # symbols with a GOT entry
    relative: tuple[Relocation, ...]  # absolute addresses in data
    layout: ObjectLayout

    def address(self, symbol: ElfSymbol) -> int:
        """The address of a defined symbol, relative to the load address."""
        if symbol.section not in self.layout:
            raise refused(f"{symbol.name or 'a symbol'} is in no section that is loaded")
        return self.layout[symbol.section].address + symbol.value

    def got_entry(self, symbol: ElfSymbol) -> int:
        """The address of the GOT entry of a symbol."""
        return self.layout["slots"].address + 8 * self.got.index(symbol)

    def stub(self, symbol: ElfSymbol) -> int:
        """The address of the PLT stub of an imported function."""
        return self.layout["stubs"].address + len(self.rules.stub(0, 0)) * self.imported.index(symbol)


def link(object_bytes: bytes, exported: Sequence[str]) -> bytes:
    """Link relocatable object code to a shared object that exports these functions.

    CompileError for imports that are not in LIBRARY, and for architectures other than x86-64 and AArch64.
    """
    source = read(object_bytes)
    rules = MACHINES.get(source.machine)
    if rules is None:
        raise refused(f"unknown architecture (e_machine {source.machine})")
    called, defined = _imported(source.symbols), _defined(source, exported)
    slots = tuple(dict.fromkeys((*called, *(r.symbol for r in source.relocations if r.kind in rules.via_got))))
    moved = tuple(r for r in source.relocations if r.kind == rules.address)
    layout = lay_out(_pieces(source, rules, called, defined, len(slots), len(slots) + len(moved)))
    return _write(Linked(source, rules, called, defined, slots, moved, layout))


def _imported(symbols: Iterable[ElfSymbol]) -> tuple[ElfSymbol, ...]:
    """The imported functions."""
    undefined = tuple(s for s in symbols if s.section == UNDEFINED and s.name)
    if unknown := [s.name for s in undefined if s.name not in LIBRARY.split()]:
        raise refused(f"no C library has {', '.join(unknown)}")
    return undefined


def _defined(source: Relocatable, names: Sequence[str]) -> tuple[ElfSymbol, ...]:
    """The exported functions."""
    functions = {s.name: s for s in source.symbols if s.binding == GLOBAL and s.section in source.sections}
    if missing := [name for name in names if name not in functions]:
        raise refused(f"it does not define {', '.join(missing)}")
    return tuple(functions[name] for name in names)


def _pieces(
    source: Relocatable,
    rules: Relocations,
    called: Sequence[ElfSymbol],
    exported: Sequence[ElfSymbol],
    slots: int,
    relocations: int,
) -> list[Piece]:
    """The pieces of the file, sorted by segment."""
    symbols = 1 + len(called) + len(exported)
    first = [
        Piece(READ_ONLY, "head", HEAD + PROGRAM * PROGRAMS, 1),
        Piece(READ_ONLY, "hash", 4 * (3 + symbols), 8),
        Piece(READ_ONLY, "symbols", SYMBOL * symbols, 8),
        Piece(READ_ONLY, "names", len(_names((*called, *exported))), 1),
        Piece(READ_ONLY, "relocations", RELOCATION * relocations, 8),
    ]
    sections = [Piece(_segment(s), number, len(s.data), s.align) for number, s in source.sections.items()]
    last = [
        Piece(CODE, "stubs", len(rules.stub(0, 0)) * len(called), 16),
        Piece(DATA, "dynamic", ENTRY * len(TAGS), 8),
        Piece(DATA, "slots", 8 * slots, 8),
    ]
    return sorted([*first, *sections, *last], key=lambda piece: piece.segment)


def _segment(section: Section) -> int:
    return CODE if section.flags & EXECUTABLE else DATA if section.flags & WRITE else READ_ONLY


def _write(linked: Linked) -> bytes:
    """The bytes of the file."""
    layout, source = linked.layout, linked.source
    contents: dict[str | int, bytes] = {number: _relocate(linked, number) for number in source.sections}
    contents |= {
        "head": _head(linked),
        "hash": _hash(1 + len(linked.imported) + len(linked.exported)),
        "symbols": _symbols(linked),
        "names": _names((*linked.imported, *linked.exported)),
        "relocations": _relocations(linked),
        "stubs": b"".join(linked.rules.stub(linked.stub(s), linked.got_entry(s)) for s in linked.imported),
        "dynamic": _dynamic(linked),
    }
    file = bytearray(layout.size)
    for key, content in contents.items():
        start = layout[key].offset
        file[start : start + len(content)] = content
    return bytes(file)


# -- sections


def _relocate(linked: Linked, number: int) -> bytes:
    """The bytes of a section, with static relocations applied."""
    data, place = bytearray(linked.source.sections[number].data), linked.layout[number].address
    for r in linked.source.relocations:
        if r.section == number and r.kind != linked.rules.address:
            patch, target = _target(linked, r)
            patch(data, r.offset, place + r.offset, target + r.addend)
    return bytes(data)


def _target(linked: Linked, r: Relocation) -> tuple[Patch, int]:
    """(patch, target address) of a relocation."""
    rules = linked.rules
    if r.kind in rules.via_got:
        return rules.via_got[r.kind], linked.got_entry(r.symbol)
    if r.kind not in rules.direct:
        raise refused(f"unknown relocation {r.kind}")
    if r.symbol.section != UNDEFINED:
        return rules.direct[r.kind], linked.address(r.symbol)
    if r.kind not in rules.calls:
        raise refused(f"it takes the address of {r.symbol.name}")
    return rules.direct[r.kind], linked.stub(r.symbol)


# -- headers and dynamic section


def _head(linked: Linked) -> bytes:
    """The ELF header and the program headers; there are no section headers."""
    layout = linked.layout
    fields = (3, linked.source.machine, 1, 0, HEAD, 0, 0, HEAD, PROGRAM, PROGRAMS, 0, 0, 0)
    programs = [
        (LOAD, PERMISSIONS[part], offset, offset + part * PAGE, size, PAGE)
        for part, (offset, size) in enumerate(layout.segments)
    ]
    place = layout["dynamic"]
    programs.append((DYNAMIC, PERMISSIONS[DATA], place.offset, place.address, ENTRY * len(TAGS), 8))
    programs.append((STACK, PERMISSIONS[DATA], 0, 0, 0, 16))
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", *fields)
    return head + b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, size, size, align)
        for kind, flags, offset, address, size, align in programs
    )


def _hash(count: int) -> bytes:
    """DT_HASH with one chain: there are few symbols."""
    chain = [0, *((k + 1) % count for k in range(1, count))]
    return struct.pack(f"<{3 + count}I", 1, count, min(1, count - 1), *chain)


def _names(symbols: Iterable[ElfSymbol]) -> bytes:
    return b"\0" + b"".join(symbol.name.encode() + b"\0" for symbol in symbols)


def _symbols(linked: Linked) -> bytes:
    """The dynamic symbol table: null, imports, exports."""
    entries, name = [bytes(SYMBOL)], 1
    for symbol in (*linked.imported, *linked.exported):
        here = (1, linked.address(symbol), symbol.size) if symbol in linked.exported else (UNDEFINED, 0, 0)
        entries.append(struct.pack("<IBBHQQ", name, FUNCTION, 0, *here))
        name += len(symbol.name.encode()) + 1
    return b"".join(entries)


def _relocations(linked: Linked) -> bytes:
    """Dynamic relocations: GOT entries, and addresses in data."""
    entries = []
    for symbol in linked.got:
        if symbol in linked.imported:
            kind, value = (1 + linked.imported.index(symbol)) << 32 | linked.rules.glob_dat, 0
        else:
            kind, value = linked.rules.relative, linked.address(symbol)
        entries.append((linked.got_entry(symbol), kind, value))
    for r in linked.relative:
        if r.symbol.section == UNDEFINED or not linked.source.sections[r.section].flags & WRITE:
            raise refused("an address stands where it cannot be filled in")
        place = linked.layout[r.section].address + r.offset
        entries.append((place, linked.rules.relative, linked.address(r.symbol) + r.addend))
    return b"".join(struct.pack("<QQq", *entry) for entry in entries)


def _dynamic(linked: Linked) -> bytes:
    """The dynamic section."""
    layout = linked.layout
    sizes = {
        "relocations size": RELOCATION * (len(linked.got) + len(linked.relative)),
        "names size": len(_names((*linked.imported, *linked.exported))),
        "relocation size": RELOCATION,
        "symbol size": SYMBOL,
        "now": 0,
        "end": 0,
    }
    return b"".join(
        struct.pack("<QQ", tag, sizes[name] if name in sizes else layout[name].address) for name, tag in TAGS.items()
    )
