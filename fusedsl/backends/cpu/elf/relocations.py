"""What the relocations of each architecture say, and the code through which functions of other libraries are called.

System V ABI, AMD64 supplement, section 4.4; ELF for the Arm 64-bit architecture (IHI 0056), section 5.7.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .relocatable import AARCH64, X86_64, refused

Patch = Callable[[bytearray, int, int, int], None]
"""(section, offset, address of the offset, value): writes what the value is into the bytes at the offset."""


@dataclass(frozen=True)
class Relocations:
    """`direct` take the address of a symbol plus the addend, `via_got` the address of its slot in the table of
    addresses, `calls` are those of `direct` that may go by way of a stub, `address` stores a whole address.

    `glob_dat` and `relative` are the relocations of the system's loader: the address of a symbol, the address where the
    object was loaded plus the addend. `stub(place, slot)` is the code at a place that jumps to what a slot holds.
    """

    direct: Mapping[int, Patch]
    via_got: Mapping[int, Patch]
    calls: frozenset[int]
    address: int
    glob_dat: int
    relative: int
    stub: Callable[[int, int], bytes]


def _relative(form: str) -> Patch:
    def patch(section: bytearray, offset: int, place: int, value: int) -> None:
        try:
            struct.pack_into(form, section, offset, value - place)
        except struct.error:
            raise refused("a section is out of reach") from None

    return patch


def _bits(low: int, width: int, value_of: Callable[[int, int], int], scale: int = 1) -> Patch:
    """A field of an instruction of 32 bits, for what `value_of(value, place)` gives in units of `scale`."""

    def patch(section: bytearray, offset: int, place: int, value: int) -> None:
        field, rest = divmod(value_of(value, place), scale)
        if rest or not -(1 << width) < field < 1 << width:
            raise refused("a section is out of reach, or not aligned")
        (word,) = struct.unpack_from("<I", section, offset)
        mask = (1 << width) - 1
        struct.pack_into("<I", section, offset, word & ~(mask << low) | (field & mask) << low)

    return patch


def _page(section: bytearray, offset: int, place: int, value: int) -> None:
    """ADRP: how many pages of 4 KB are between, the lowest two bits apart from the others."""
    (word,) = struct.unpack_from("<I", section, offset)
    struct.pack_into("<I", section, offset, word & 0x9F00001F | _page_bits(place, value))


def _page_bits(place: int, value: int) -> int:
    pages = (value >> 12) - (place >> 12)
    return (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5


def _low(value: int, place: int) -> int:
    return value & 0xFFF


def _between(value: int, place: int) -> int:
    return value - place


def _x86_stub(place: int, slot: int) -> bytes:
    return b"\xff\x25" + struct.pack("<i", slot - (place + 6)) + b"\xcc\xcc"  # jmp [rip + …]


def _arm_stub(place: int, slot: int) -> bytes:
    words = (
        0x90000010 | _page_bits(place, slot),  # adrp x16, page of the slot
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
            286: _bits(10, 12, _low, 8), 299: _bits(10, 12, _low, 16),  # … 64, 128_ABS_LO12_NC
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
