"""Maps on threads: 16-byte vectors, all loads before the math, enough of them in flight to hide memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..hardware import Hardware, blocks_for
from .access import vector_width
from .kernel import Kernel
from .registers import body_registers, words

THREADS = 256
ADDRESSING = 12  # registers for pointers, indices and the like


@dataclass(frozen=True)
class MapSchedule:
    """Each thread computes `vectors` vectors of `width` elements; `blocks` of `threads` are to fit on an SM."""

    width: int
    vectors: int
    threads: int
    blocks: int
    reason: str = field(default="", compare=False)
    registers: int = field(default=0, compare=False)  # a thread, by estimate

    @property
    def tile(self) -> int:
        """Vectors that a block computes."""
        return self.threads * self.vectors


def schedule_map(kernel: Kernel, hardware: Hardware) -> MapSchedule:
    """How a map runs on this hardware; it does not depend on the extents, so a new shape compiles nothing."""
    lines = [operand.strides for operand in kernel.operands]
    dtypes = [operand.dtype for operand in kernel.operands]
    wide = any(operand.access == "vector" for operand in kernel.operands)
    width = vector_width(dtypes, lines) if wide else 1
    read = sum(d.itemsize for d, line in zip(dtypes[: kernel.inputs], lines) if "0" not in line) * width
    vectors = _vectors(read, width, hardware)
    held = words(dtypes[: kernel.inputs], packed=width > 1) * width * vectors
    registers = round(ADDRESSING + held + body_registers(kernel.phases))
    blocks = blocks_for(hardware, registers, THREADS)
    return MapSchedule(
        width,
        vectors,
        THREADS,
        blocks,
        f"{width * max(d.itemsize for d in dtypes)}-byte vectors, {vectors} a thread: {read * vectors} bytes of loads "
        f"in flight a thread; about {registers} registers let {blocks} blocks of {THREADS} on an SM",
        registers,
    )


def _vectors(read: int, width: int, hardware: Hardware) -> int:
    """Vectors a thread: 32 bytes of loads in flight, so that a half-full SM has some 32 KiB under way."""
    vectors = 1
    while vectors < 4 and read * vectors < 32:
        vectors *= 2
    return vectors


def map_grid(schedule: MapSchedule, extents: tuple[int, ...]) -> int:
    """Blocks of the launch."""
    vectors = -(-extents[-1] // schedule.width)
    for extent in extents[:-1]:
        vectors *= extent
    return max(1, -(-vectors // schedule.tile))
