"""Relocation types and PLT stubs of each architecture.

System V ABI, AMD64 supplement, section 4.4; ELF for the Arm 64-bit architecture (IHI 0056), section 5.7.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .relocatable import AARCH64, X86_64, refused

Patch = Callable[[bytearray, int, int, int], None]
"""(section, offset, address of the offset, value): writes the value to the bytes at the offset."""


@dataclass(frozen=True)
class Relocations:
    """The relocation types of an architecture."""

    direct: Mapping[int, Patch]  # address of a symbol plus addend
    via_got: Mapping[int, Patch]  # address of a symbol's GOT entry plus addend
    calls: frozenset[int]  # those of `direct` that may go through a PLT stub
    address: int  # an absolute 64-bit address
    glob_dat: int  # dynamic relocation: address of a symbol
    relative: int  # dynamic relocation: load address plus addend
    stub: Callable[[int, int], bytes]  # (address of the stub, address of the GOT entry) to its code


def _relative(form: str) -> Patch:
    def patch(section: bytearray, offset: int, place: int, value: int) -> None:
        try:
            struct.pack_into(form, section, offset, value - place)
        except struct.error:
            raise refused("a section is out of reach") from None

    return patch


def _bits(low: int, width: int, value_of: Callable[[int, int], int], scale: int = 1) -> Patch:
    """A bit field of a 32-bit instruction; its value is `value_of(value, place)` in units of `scale`."""

    def patch(section: bytearray, offset: int, place: int, value: int) -> None:
        field, rest = divmod(value_of(value, place), scale)
        if rest or not -(1 << width) < field < 1 << width:
            raise refused("a section is out of reach, or not aligned")
        (word,) = struct.unpack_from("<I", section, offset)
        mask = (1 << width) - 1
        struct.pack_into("<I", section, offset, word & ~(mask << low) | (field & mask) << low)

    return patch


def _page(section: bytearray, offset: int, address: int, value: int) -> None:
    """ADRP: the distance in 4 KB pages, split into the lowest two bits and the others."""
    (word,) = struct.unpack_from("<I", section, offset)
    struct.pack_into("<I", section, offset, word & 0x9F00001F | _page_bits(address, value))


def _page_bits(address: int, value: int) -> int:
    pages = (value >> 12) - (address >> 12)
    return (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


def _low(value: int, address: int) -> int:
    return value & 0xFFF


def _between(value: int, address: int) -> int:
    return value - address


def _x86_stub(address: int, slot: int) -> bytes:
    return b"\xff\x25" + struct.pack("<i", slot - (address + 6)) + b"\xcc\xcc"  # jmp [rip + …]


def _arm_stub(address: int, slot: int) -> bytes:
    words = (
        0x90000010 | _page_bits(address, slot),  # adrp x16, page of the slot
        0xF9400211 | (slot & 0xFFF) >> 3 << 10,  # ldr x17, [x16, the rest]
        0xD61F0220,  # br x17
        0xD503201F,  # nop
    )
    return struct.pack("<4I", *words)


_near, _far = _relative("<i"), _relative("<q")
MACHINES = {
    X86_64: Relocations(
        direct={2: _near, 4: _near, 24: _far},  # PC32, PLT32, PC64
        via_got={9: _near, 41: _near, 42: _near},  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX
        calls=frozenset({2, 4}),
        address=1,  # 64
        glob_dat=6,  # GLOB_DAT
        relative=8,  # RELATIVE
        stub=_x86_stub,
    ),
    AARCH64: Relocations(
        direct={
            260: _far, 261: _near,  # PREL64, PREL32
            273: _bits(5, 19, _between, 4),  # LD_PREL_LO19
            275: _page, 277: _bits(10, 12, _low),  # ADR_PREL_PG_HI21, ADD_ABS_LO12_NC
            278: _bits(10, 12, _low), 284: _bits(10, 12, _low, 2), 285: _bits(10, 12, _low, 4),  # LDST8, 16, 32 …
            286: _bits(10, 12, _low, 8), 299: _bits(10, 12, _low, 16),  # LDST64, LDST128_ABS_LO12_NC
            280: _bits(5, 19, _between, 4),  # CONDBR19
            282: _bits(0, 26, _between, 4), 283: _bits(0, 26, _between, 4),  # JUMP26, CALL26
        },
        via_got={311: _page, 312: _bits(10, 12, _low, 8)},  # ADR_GOT_PAGE, LD64_GOT_LO12_NC
        calls=frozenset({282, 283}),
        address=257,  # ABS64
        glob_dat=1025,  # GLOB_DAT
        relative=1027,  # RELATIVE
        stub=_arm_stub,
    ),
}  # fmt: skip
