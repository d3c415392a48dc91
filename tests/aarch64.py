"""Runs the code of a shared object for AArch64 on an emulator: mapped, relocated and called as Linux would."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
import unicorn as uc
from unicorn import arm64_const as registers

BASE, STACK, HEAP, STOP, SERVICES = 0x10_0000, 0x800_0000, 0x1000_0000, 0x7000_0000, 0x7100_0000
HEAP_SIZE = 1 << 26


class Machine:
    """A processor, the object in its memory, and the few functions of the C library that kernels call."""

    def __init__(self, code: bytes):
        self.emulator = uc.Uc(uc.UC_ARCH_ARM64, uc.UC_MODE_ARM)
        self.free = HEAP
        for start, size in ((STACK, 1 << 20), (HEAP, HEAP_SIZE), (STOP, 4096), (SERVICES, 4096)):
            self.emulator.mem_map(start, size)
        self.emulator.reg_write(registers.UC_ARM64_REG_CPACR_EL1, 3 << 20)  # floating point
        self.services: dict[int, Callable] = {}
        self.emulator.hook_add(uc.UC_HOOK_CODE, self._serve, begin=SERVICES, end=SERVICES + 4096)
        self.symbols = self._load(code)

    def _load(self, code: bytes) -> dict[str, int]:
        """Map the segments with their permissions, and do what the dynamic section asks for."""
        (headers,), (count,) = struct.unpack_from("<Q", code, 32), struct.unpack_from("<H", code, 56)
        dynamic = b""
        for k in range(count):
            kind, flags, offset, place, _, size, _, _ = struct.unpack_from("<IIQQQQQQ", code, headers + 56 * k)
            if kind == 1:
                start, end = place & ~0xFFFF, -(-(place + size) // 0x10000) * 0x10000
                permissions = sum(p for bit, p in ((4, uc.UC_PROT_READ), (2, uc.UC_PROT_WRITE), (1, uc.UC_PROT_EXEC))
                                  if flags & bit)  # fmt: skip
                self.emulator.mem_map(BASE + start, end - start, permissions)
                self.emulator.mem_write(BASE + place, code[offset : offset + size])
            elif kind == 2:
                dynamic = code[offset : offset + size]
        told = dict(struct.iter_unpack("<QQ", dynamic))
        names = [code[told[5] + e[0] :].partition(b"\0")[0].decode() for e in self._entries(code, told)]
        values = [e[4] for e in self._entries(code, told)]
        for place, info, addend in struct.iter_unpack("<QQq", code[told[7] : told[7] + told[8]]):
            assert info & 0xFFFFFFFF in (1025, 1027)  # GLOB_DAT, RELATIVE
            value = self._service(names[info >> 32]) if info & 0xFFFFFFFF == 1025 else BASE + addend
            self.emulator.mem_write(BASE + place, struct.pack("<Q", value))
        return {name: BASE + value for name, value in zip(names, values) if value}

    @staticmethod
    def _entries(code: bytes, told: dict[int, int]) -> list[tuple]:
        (count,) = struct.unpack_from("<I", code, told[4] + 4)
        return [struct.unpack_from("<IBBHQQ", code, told[6] + 24 * k) for k in range(count)]

    # -- the C library

    def _service(self, name: str) -> int:
        place = SERVICES + 16 * len(self.services)
        self.services[place] = getattr(self, f"_{name}", None) or self._of_float64(getattr(math, name))
        self.emulator.mem_write(place, struct.pack("<I", 0xD65F03C0))  # ret
        return place

    def _serve(self, emulator, address, size, data) -> None:
        x = [emulator.reg_read(registers.UC_ARM64_REG_X0 + k) for k in range(3)]
        emulator.reg_write(registers.UC_ARM64_REG_X0, self.services[address](*x))

    def _malloc(self, size: int, *_: int) -> int:
        place, self.free = self.free, self.free + -(-size // 64) * 64
        assert self.free <= HEAP + HEAP_SIZE
        return place

    def _free(self, *_: int) -> int:
        return 0

    def _memset(self, to: int, value: int, size: int) -> int:
        self.emulator.mem_write(to, bytes([value & 255]) * size)
        return to

    def _memcpy(self, to: int, start: int, size: int) -> int:
        self.emulator.mem_write(to, bytes(self.emulator.mem_read(start, size)))
        return to

    _memmove = _memcpy

    def _of_float64(self, function: Callable[[float], float]) -> Callable[..., int]:
        """A function of one number, which floating-point registers hold."""

        def serve(x0: int, *_: int) -> int:
            (x,) = struct.unpack("<d", struct.pack("<Q", self.emulator.reg_read(registers.UC_ARM64_REG_D0)))
            (bits,) = struct.unpack("<Q", struct.pack("<d", function(x)))
            self.emulator.reg_write(registers.UC_ARM64_REG_D0, bits)
            return x0

        return serve

    # -- from outside

    def put(self, x: np.ndarray) -> int:
        """The address of a copy of an array."""
        place = self._malloc(max(64, x.nbytes))
        self.emulator.mem_write(place, x.tobytes())
        return place

    def get(self, place: int, like: np.ndarray) -> np.ndarray:
        """What has become of it."""
        return np.frombuffer(bytes(self.emulator.mem_read(place, like.nbytes)), like.dtype).reshape(like.shape)

    def call(self, symbol: str, *numbers: int) -> None:
        """A function of the object, until it returns."""
        for k, number in enumerate(numbers):
            self.emulator.reg_write(registers.UC_ARM64_REG_X0 + k, number)
        self.emulator.reg_write(registers.UC_ARM64_REG_SP, STACK + (1 << 20) - 64)
        self.emulator.reg_write(registers.UC_ARM64_REG_LR, STOP)
        self.emulator.emu_start(self.symbols[symbol], STOP)
