"""Elementwise schedule: 16-byte vectors, all loads before the math, enough of them in flight to hide latency."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....hardware import Hardware, blocks_for
from ....kernel_ir.byte_tables import without_tables
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.memory_access import ACCESS_BYTES, vector_width
from ....kernel_ir.register_pressure import Tiling, instructions_per_element, predicted_registers, required_registers
from ..schedule_base import Extents, Schedule
from .row_tiles import LANES, reads_neighbours, tile_count, tiles_across

BLOCK_VECTORS = 256
MOST_NEEDED = 128  # registers a thread, by estimate, beyond which it gets fewer vectors
MIDDLE_BODY = 16  # instructions an element: about as long as memory takes for 16 bits
# instructions an element from which on two vectors interleave, and from which on those of several 16-bit arrays do
LONG_BODY, LONG_NARROW = 18, 24
UNROLLED = (
    1000  # instructions of a thread: of longer ones a vector is enough work, and twice as much compiles no faster
)
ELEMENTS_PER_THREAD_WITH_TABLE = 64  # of a thread that looks elements up in byte tables
MOST_VECTORS_WITH_TABLE = 8  # of such a thread
NARROW_VECTORS = 4  # elements of a thread that reads neighbours one by one, to have loads enough in flight
FULL_NARROW = 64  # instructions an element from which on the eight elements of one 16-bit vector keep a thread busy


@dataclass(frozen=True)
class ElementwiseSchedule(Schedule):
    """Each thread computes `vectors` vectors of `width` elements; `blocks` of `threads` are to fit on an SM."""

    width: int
    vectors: int
    threads: int
    blocks: int
    row_tiles: bool = False  # blocks take neighbouring rows, not neighbouring vectors

    @property
    def block_threads(self) -> int:
        return self.threads

    @property
    def tile_vectors(self) -> int:
        """Vectors that a block computes."""
        return self.threads * self.vectors

    @property
    def elements_in_flight(self) -> int:
        return self.width * self.vectors

    def holds_tables(self, kernel: KernelIR) -> bool:
        return True

    def magic_divisors(self, kernel: KernelIR, extents: Extents) -> Extents:
        divisors = kernel.magic_divisors(self.width, extents)
        return (*divisors[:-1], tiles_across(extents[-1], self.width)) if self.row_tiles else divisors

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        if self.row_tiles:
            tiles = tile_count(extents, self.width, self.threads // LANES * self.vectors)
            return LaunchConfig(max(1, tiles), self.threads)
        vectors = prod(extents[:-1]) * -(-extents[-1] // self.width)
        return LaunchConfig(max(1, -(-vectors // self.tile_vectors)), self.threads)


@dataclass(frozen=True)
class FlatSchedule(ElementwiseSchedule):
    """A map whose vectors are neighbours among all elements in order, whatever row they are in."""

    def magic_divisors(self, kernel: KernelIR, extents: Extents) -> Extents:
        return kernel.magic_divisors(1, extents)

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        return LaunchConfig(max(1, -(-prod(extents) // (self.width * self.tile_vectors))), self.threads)


def schedule_elementwise(kernel: KernelIR, hardware: Hardware) -> ElementwiseSchedule:
    """How a map runs on this hardware; it does not depend on the extents, so a new shape compiles nothing."""
    return _schedule_flat(kernel, hardware) or _schedule_rows(kernel, hardware)


def _schedule_flat(kernel: KernelIR, hardware: Hardware) -> FlatSchedule | None:
    """Vectors of all elements in order, where rows are no whole number of vectors but results are stored in order, and
    an element for each thread would be too little: of 8 or 16 bits, or of computed places and positions."""
    stored = [kernel.operands[store.operand] for phase in kernel.phases for store in phase.stores]
    if kernel.axes == 1 or kernel.index64 or not stored or any(operand.access != "flat" for operand in stored):
        return None
    size = max(operand.dtype.itemsize for operand in stored)
    if size > 2 and not kernel.pointers and not kernel.positions:
        return None
    left, width = without_tables(kernel), ACCESS_BYTES // size
    need = required_registers(left, Tiling(width, 1))
    while width > 1 and need > MOST_NEEDED:
        width //= 2
        need = required_registers(left, Tiling(width, 1))
    if width == 1 or reads_neighbours(kernel):
        return None
    blocks = blocks_for(hardware, need, BLOCK_VECTORS)
    registers = predicted_registers(left, hardware, need, blocks, BLOCK_VECTORS)
    reason = (
        f"rows are no whole vectors, but results stand in order: {width} neighbours a thread, each at its own place in "
        f"other arrays; at most {registers} registers let {blocks} blocks of {BLOCK_VECTORS} on an SM"
    )
    return FlatSchedule(width, 1, BLOCK_VECTORS, blocks, reason=reason, registers=registers)


def _schedule_rows(kernel: KernelIR, hardware: Hardware) -> ElementwiseSchedule:
    """Vectors of a row, or of one line."""
    lines = [operand.strides for operand in kernel.operands]
    dtypes = [operand.dtype for operand in kernel.operands]
    wide = any(operand.access == "vector" for operand in kernel.operands)
    width = vector_width(dtypes, lines) if wide else 1
    read = sum(d.itemsize for d, line in zip(dtypes[: kernel.inputs], lines) if "0" not in line) * width
    # Measured on an H200: float32 runs at copy speed with one vector a thread and loses 3 % with two; of a single
    # 16-bit array one vector is too little work for what a thread has to set up (GELU: 0.86 of copy speed, then 0.97).
    # Long bodies gain from two vectors, whose loads and instructions interleave (log1p and SELU of float32: 6 %, of
    # expm1, log and sine 2 to 3 %, dropout and GELU times an array of bfloat16 7 %; tanh and exp lose less than 1 %;
    # Black-Scholes of bfloat16 loses 5 %); with several axes four share what finding one's place costs (bias and GELU
    # of bfloat16: 2 %).
    left = without_tables(kernel)
    work = instructions_per_element(left)
    long = work >= LONG_BODY if width < 8 else LONG_NARROW <= work < FULL_NARROW
    vectors = 2 if (width >= 8 and read <= 16) or (long and width > 1) else 1
    if kernel.axes > 1 and vectors == 2 and width >= 8 and MIDDLE_BODY <= work < LONG_NARROW:
        vectors = 4
    if kernel.pointers:  # addresses take the registers; a read that waits for its index wants company
        vectors = 2 if sum(i.op == "fetch" for i in kernel.phases[0].element.instructions) == 1 else 1
    if kernel.tables:  # a table is worth as many evaluations as entries: each thread is to look many up
        vectors = max(vectors, min(MOST_VECTORS_WITH_TABLE, ELEMENTS_PER_THREAD_WITH_TABLE // width))
    while vectors > 1 and work * width * vectors > UNROLLED:
        vectors //= 2
    need = required_registers(left, Tiling(width, vectors))
    while vectors > 1 and need > MOST_NEEDED:
        vectors //= 2
        need = required_registers(left, Tiling(width, vectors))
    while width > 1 and need > hardware.thread_registers:  # narrower vectors before values that spill
        width //= 2
        need = required_registers(left, Tiling(width, vectors))
    tiles = reads_neighbours(kernel)
    if tiles and width == 1 and not kernel.pointers:
        vectors = NARROW_VECTORS
        need = required_registers(left, Tiling(width, vectors))
    threads = BLOCK_VECTORS if kernel.tables or tiles else BLOCK_VECTORS // vectors
    blocks = blocks_for(hardware, need, threads)
    registers = predicted_registers(left, hardware, need, blocks, threads)
    reason = (
        f"{width * max(d.itemsize for d in dtypes)}-byte vectors, {vectors} a thread: {read * vectors} bytes of loads "
        f"in flight a thread; at most {registers} registers let {blocks} blocks of {threads} on an SM"
        + ("; blocks take neighbouring rows, which read the same elements" if tiles else "")
        + ("; what is computed of one byte is looked up in tables of 256 entries" if kernel.tables else "")
    )
    return ElementwiseSchedule(width, vectors, threads, blocks, tiles, reason=reason, registers=registers)
