"""Tile of a thread in a resident row: its vectors, early loads, and the chunks of the last phase."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from ....hardware import Hardware, blocks_for
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.memory_access import ACCESS_BYTES
from ....kernel_ir.register_pressure import Tiling, predicted_registers, required_registers
from .schedule import (
    LONG_CLASSES,
    LONG_ROW,
    LOOP_BLOCK,
    VECTOR_CLASSES,
    WARP,
    ResidentRowSchedule,
    covered_columns,
    late_load_registers,
    registers_per_element,
    row_width,
)

EARLY_WORDS = {
    16: 32,
    128: 48,
    1024: 32,
}  # registers of the row and all that later phases read, for groups up to this size
PIECE_FROM, PIECE_WORDS = 60, 24  # registers from which on the last phase of 16-bit rows is chunked; of a chunk
IN_FLIGHT = 64 << 10  # bytes of loads that an SM should have in flight
BLOCK_BYTES = 4 << 10  # bytes that a block moves at least: an H200 begins one every 0.64 ns


@dataclass(frozen=True)
class RowProblem:
    """A row kernel at the extents of a call on a card, and what its schedules in registers decide by."""

    kernel: KernelIR
    extents: tuple[int, ...]
    hardware: Hardware
    unaligned: int = 0  # elements of unaligned rows, at most, that are read beside the vectors

    @property
    def columns(self) -> int:
        return prod(self.extents[self.kernel.row_axes :])

    @property
    def rows(self) -> int:
        return prod(self.extents[: self.kernel.row_axes])

    @cached_property
    def width(self) -> int:
        """Elements of a vector."""
        return row_width(self.kernel)

    @cached_property
    def reach(self) -> int:
        """Columns that the vectors of a row cover."""
        return self.columns if self.unaligned else covered_columns(self.kernel, self.columns, self.width)

    @property
    def is_split(self) -> bool:
        """True if the first and the last vector of a row are not whole."""
        return self.reach > self.columns

    @cached_property
    def per_element(self) -> float:
        """Registers of an element that is live between phases."""
        return registers_per_element(self.kernel, self.width)


def tiled_schedule(row: RowProblem, threads: int, cluster: int = 1, blocks: int = 0) -> tuple[ResidentRowSchedule, int]:
    """The schedule of a row in the registers of so many threads, and the registers that each of them needs.

    Where no `blocks` on an SM are asked for, as many as that leaves room for.
    """
    kernel, hardware, columns, reach, width = row.kernel, row.hardware, row.columns, row.reach, row.width
    step = width * threads * cluster
    classes = LONG_CLASSES if columns > LONG_ROW else VECTOR_CLASSES
    vectors = next(v for v in classes if v * step >= reach)
    below = max((v for v in classes if v < vectors and v * step <= columns), default=0)
    rows = _rows(kernel, columns, threads, vectors, hardware) if threads <= WARP else 1
    later = late_load_registers(kernel) * vectors
    limit = next(words for size, words in EARLY_WORDS.items() if threads <= size)
    live = (row.per_element * vectors + later) * width
    early = later > 0 and live <= limit and not row.is_split
    piece = epilogue_vectors_of(kernel, vectors, width) if live > PIECE_FROM else 0
    need = required_registers(kernel, Tiling(width, vectors, early, piece))
    blocks = blocks or blocks_for(hardware, need, threads * rows)
    registers = predicted_registers(kernel, hardware, need, blocks, threads * rows)
    group = f"{threads} threads" if cluster == 1 else f"a cluster of {cluster} blocks of {threads} threads"
    reason = (
        f"rows of {columns} in registers, {group} a row: {vectors} vectors of {width} a thread, at most {registers} "
        f"registers; reused for lengths {below * step + 1} to {vectors * step - (reach - columns)}"
    )
    if early:
        reason += "; operands of later phases are prefetched with the row"
    schedule = ResidentRowSchedule(width, vectors, below, threads, rows, blocks, early, piece, cluster)
    return replace(schedule, reason=reason, registers=registers), need


def _rows(kernel: KernelIR, columns: int, threads: int, vectors: int, hardware: Hardware) -> int:
    """Rows of a block: as few as keep enough bytes in flight, so that rows end and begin at different times; but blocks
    that move more than is moved until the next one has begun."""
    block = max(WARP, IN_FLIGHT // (hardware.blocks * ACCESS_BYTES * vectors))
    if vectors == 1:  # so little work that blocks begin as fast as they end: pairs of float64 take 5 % longer
        block *= 2
    moved = columns * sum(kernel.operands[k].dtype.itemsize for k in kernel.element_operands)
    while block < LOOP_BLOCK and block // threads * moved < BLOCK_BYTES:
        block *= 2
    return max(1, block // threads)


def can_chunk_epilogue(kernel: KernelIR) -> bool:
    """True if the last phase can process a few vectors at a time."""
    last = kernel.phases[-1]
    given = {value.name for value in last.element.args}
    simple = last.stores and not last.folds and not any(store.value in given for store in last.stores)
    return bool(simple) and not given & {p.value.name for p in kernel.positions}


def epilogue_vectors_of(kernel: KernelIR, vectors: int, width: int) -> int:
    """Vectors of a chunk of the last phase; 0 if the phase is not chunked."""
    later = late_load_registers(kernel)
    if width < 8 or not later or not can_chunk_epilogue(kernel):
        return 0
    pieces = -(-vectors // max(1, int(PIECE_WORDS / (later * width))))
    return -(-vectors // pieces)
