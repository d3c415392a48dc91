"""Scan schedule: a resident row, a loop over tiles that carries the state, or decoupled look-back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, blocks_for, registers_for
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.liveness import most_registers_with_arguments, register_count
from ....kernel_ir.phase import Phase, ScanUse
from ....kernel_ir.register_pressure import predicted_registers
from ..rows.choose import schedule_rows
from ..rows.schedule import WARP, LoopedRowSchedule, ResidentRowSchedule, RowSchedule, contiguous, row_width
from ..schedule_base import Extents

ADDRESSING = 16  # registers for addresses and counters
LONGEST = 32768  # columns of the longest row that stays in registers although a loop is possible
BLOCK = 256  # threads of a block that scans a long row
SHORT = 1024  # columns of a row that one warp scans, in binaries for many lengths
HELD = (32, 128, 512, 2048)  # longest row of each class of lengths that stays in registers
ROWS = 4  # short rows per block; longer ones need the block's barriers for themselves
FEW_ROWS = 4  # rows per SM, below which the tiles of long rows are scanned by several blocks (look-back)
HEADER = 16  # bytes of counters before the tile states of a look-back scan
WIDE = 16  # further registers if offsets have 64 bits
TILE_WORDS = 16  # registers per thread for a tile of the widest array
# Registers per thread for the live tile of a look-back scan: several blocks share an SM, so that some load and store
# while others wait for what lies before their tile.
# measured: H100, cumsum of 64 M float32 and 16 M float64: 241 and 128 µs; 248 and 135 with 32, 304 and 157 with 16
LOOKBACK_WORDS = 64
LEAST_ELEMENTS = 8  # of a thread, where larger tiles would leave multiprocessors idle
# Threads of a row and columns of each, if neighbouring lanes are rows; more threads of fewer rows, which shall have as
# many of an SM in all.
ACROSS_LANES, ACROSS_COLUMNS, ACROSS_MOST, ACROSS_THREADS = 8, 8, 32, 768

# Scans in two passes: rows side by side, parts of a row, and tiles of a part, at least; bytes of a part of a state;
# registers beside the estimate, as blocks that wait for each other cannot be fewer after a spill.
LEAST_LANES, LEAST_PARTS, LEAST_TURNS, RECORD_PART, SPARE = 8, 4, 4, 8, 8


@dataclass(frozen=True)
class LookbackSchedule(RowSchedule):
    """A scan in one pass: every tile of a row is a block's, which finds its prefix by decoupled look-back."""

    decoupled_lookback = True

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        rows, skew = prod(extents[: kernel.row_axes]), max_misalignment(kernel, self.width)
        tiles = -(-(extents[-1] + skew) // self.tile_elements)
        semaphores = (HEADER + sum(lookback_bytes(kernel, rows, tiles))) // 4  # uint32 that the blocks share
        return LaunchConfig(rows * tiles, self.block_threads, semaphores=semaphores)


@dataclass(frozen=True)
class TwoPassScanSchedule(RowSchedule):
    """A scan of few rows in two passes: each block has a part of 32 neighbouring rows, whose total it finds first.

    All blocks pass a grid barrier between the passes; then a block merges what lies before its part.
    """

    rows_across_lanes = True
    blocked_layout = True
    grid_sync = True
    length_specialized = False
    parts: int = field(default=1, compare=False)  # of a row: blocks that share it

    @property
    def elements_in_flight(self) -> int:
        return 0

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        groups = -(-prod(extents[: kernel.row_axes]) // WARP)
        (use,) = kernel.phases[0].scan_uses
        blocks = groups * self.parts
        workspace = blocks * WARP * lane_record_bytes(use)
        launch = LaunchConfig(blocks, self.block_threads, cooperative=True, workspace=workspace)
        return replace(launch, semaphores=2 * groups, grid_multiple=groups)


def lane_record_bytes(use: ScanUse) -> int:
    """Bytes of the state that a block leaves for a row."""
    return RECORD_PART * len(use.accumulators)


def has_scans(kernel: KernelIR) -> bool:
    """Whether some phase scans."""
    return any(phase.scans for phase in kernel.phases)


def schedule_scan(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> RowSchedule:
    """How a row kernel with scans runs. If a `resident` kernel does not fit, the schedule is not `resident`."""
    if kernel.resident and contiguous(kernel):
        folds = any(phase.folds for phase in kernel.phases)
        resident = schedule_rows(kernel, extents, hardware) if folds or extents[-1] <= LONGEST else None
        if isinstance(resident, ResidentRowSchedule) and resident.block_threads <= 1024:
            return replace(resident, epilogue_vectors=0)
    across = _two_passes(kernel, extents, hardware) or _across(kernel, extents, hardware)
    return across or _linked(kernel, extents, hardware) or _along(kernel, extents, hardware)


def generic_scan(
    held: KernelIR | None, kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware
) -> tuple[KernelIR, RowSchedule]:
    """The kernel with scans, if short rows may be `held` that one, and how it runs, in few forms for all extents.

    Measured on an H200: sums of float32 rows of 43, 156 and 559 elements take 866, 231 and 84 us in tiles of a warp
    (a copy: 66).
    """
    for longest in HELD:
        if held is not None and contiguous(held) and extents[-1] <= longest:
            schedule = schedule_scan(held, (*extents[:-1], longest), hardware)
            if schedule.resident:
                return held, replace(
                    schedule, full_vectors=0, reason=f"{extents[-1]} columns are held: {schedule.reason}"
                )
    columns = SHORT if extents[-1] <= SHORT else LONGEST
    like = (*extents[:-1], columns)
    across = _two_passes(kernel, extents, hardware) or _across(kernel, like, hardware)
    schedule = across or _linked(kernel, extents, hardware) or _along(kernel, like, hardware)
    return kernel, replace(schedule, reason=schedule.reason.replace(f"{columns} columns", f"{extents[-1]} columns"))


def _registers(kernel: KernelIR, elements: int) -> int:
    """A thread's, by estimate: its addresses, the bodies' values, and tiles: scanned, and read, twice (the next)."""
    width = row_width(kernel)
    read = [kernel.operands[x.operand].dtype for x in kernel.element_loads]
    scanned = [v.dtype for p in kernel.phases for use in p.scan_uses for v in use.accumulators]
    tiles = register_count(scanned) + 2 * register_count(read, packed=width > 1)
    return round(ADDRESSING + tiles * elements) + most_registers_with_arguments(kernel.phases)


def _along(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> RowSchedule:
    """Tiles of a row, one after another, each by a block (or by a part of one, where rows are short)."""
    size = max(operand.dtype.itemsize for operand in kernel.operands)
    schedule = _tiles(LoopedRowSchedule, kernel, extents[-1], hardware, TILE_WORDS * 4 // size)
    reason = (
        f"{extents[-1]} columns are scanned in tiles of {schedule.tile_elements} by {schedule.threads} threads, "
        f"and the state of a tile's end is carried to the next"
    )
    return replace(schedule, reason=reason)


def _linked(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> RowSchedule | None:
    """Few long rows: a block for every tile instead of a loop, where one pass over the elements is all there is."""
    rows, columns = prod(extents[: kernel.row_axes]), extents[-1]
    (phase, *others) = kernel.phases
    alone = not others and not phase.folds and not phase.row and not phase.row_stores
    if not alone or rows >= FEW_ROWS * hardware.multiprocessors or columns <= LONGEST:
        return None
    wide = any(v.dtype.bits == 64 for use in phase.scan_uses for v in use.accumulators)
    # Split vectors and lone elements are masked one by one.
    masked = row_width(kernel) == 1 or max_misalignment(kernel, row_width(kernel))
    elements, room = 1, LOOKBACK_WORDS // (2 if masked else 1)
    while elements * 2 * _alive(kernel, phase) <= room:
        elements *= 2
    while elements > LEAST_ELEMENTS and columns < elements * BLOCK * hardware.multiprocessors:
        elements //= 2
    need = ADDRESSING + round(_alive(kernel, phase) * elements) + most_registers_with_arguments(kernel.phases)
    need += WIDE * wide  # 64-bit states take temporaries of two registers
    schedule = _tiles(LookbackSchedule, kernel, columns, hardware, elements, need)
    reason = (
        f"few rows: each tile of {schedule.tile_elements} of {columns} columns is a block of {schedule.threads} "
        f"threads, that finds what lies before it from the totals that earlier tiles leave"
    )
    return replace(schedule, reason=reason)


def _alive(kernel: KernelIR, phase: Phase) -> float:
    """Registers of an element while it is scanned: what is read before that, or its states and what is read after."""
    kinds = {x.value.name: kernel.operands[x.operand].dtype for x in kernel.loads}
    loaded = [kinds[x.value.name] for x in kernel.element_loads]
    states = [v.dtype for use in phase.scan_uses for v in use.accumulators]
    later = {v.name for step in phase.scans for v in step.element.args}
    kept = [kinds[x.value.name] for x in kernel.element_loads if x.value.name in later]
    return max(register_count(loaded), register_count([*states, *kept]))


def _tiles(
    kind: type[RowSchedule], kernel: KernelIR, columns: int, hardware: Hardware, elements: int, need: int = 0
) -> RowSchedule:
    """Tiles of so many elements a thread, which may `need` more registers than tiles of a loop, or fewer."""
    width = row_width(kernel)
    vectors = max(1, elements // width)
    threads = WARP
    while threads < BLOCK and columns > width * vectors * threads:
        threads *= 2
    rows = ROWS if threads == WARP else 1
    need = (need or _registers(kernel, width * vectors)) + WIDE * kernel.index64
    blocks = blocks_for(hardware, need, threads * rows)
    registers = predicted_registers(kernel, hardware, need, blocks, threads * rows)
    return kind(width, vectors, 0, threads, rows, blocks, registers=registers)


def lookback_bytes(kernel: KernelIR, rows: int, tiles: int) -> list[int]:
    """Bytes of each scan's slots: one for every tile, and two for every group of 32."""
    uses = [use for phase in kernel.phases for use in phase.scan_uses]
    slots = rows * (tiles + 2 * -(-tiles // WARP))
    return [slots * tile_state_bytes(use) for use in uses]


def tile_state_bytes(use: ScanUse) -> int:
    """What a tile leaves: a state and its mark, which share a word if there is room."""
    bits = sum(max(32, v.dtype.bits) for v in use.accumulators)
    return 8 if bits <= 32 else 8 * (-(-bits // 64) + 1)


def max_misalignment(kernel: KernelIR, width: int) -> int:
    """Columns by which a row may begin behind the start of its first vector."""
    return width - 1 if any(operand.access == "peeled" for operand in kernel.operands) else 0


def _two_passes(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> TwoPassScanSchedule | None:
    """Few rows that lie side by side, and are long: a warp of neighbouring rows would be alone on an SM.

    Predicted: both passes read what does not stay in the L2, so a scan takes half as long again as one reading.
    """
    rows, columns, full = prod(extents[: kernel.row_axes]), extents[-1], kernel.element_operands
    (phase, *others) = kernel.phases
    plain = not (others or phase.folds or phase.row or phase.row_stores or kernel.index64 or kernel.pointers)
    plain = plain and len(phase.scan_uses) == 1 and not phase.scan_uses[0].reverse and not kernel.is_subkernel
    groups = -(-rows // WARP)
    if not plain or kernel.column_axes > 1 or any(p.axis >= kernel.row_axes for p in kernel.positions):
        return None
    if any(kernel.operands[k].strides[-1] == "1" for k in full) or not full or rows < LEAST_LANES:
        return None
    lanes = 2 * ACROSS_LANES
    need = _registers(kernel, ACROSS_COLUMNS) + SPARE
    while lanes > 1 and registers_for(hardware, 1, lanes * WARP) < need:
        lanes //= 2
    blocks = blocks_for(hardware, need, lanes * WARP)
    parts = min(blocks * hardware.multiprocessors // groups, columns // (lanes * ACROSS_COLUMNS * LEAST_TURNS))
    if parts < LEAST_PARTS:
        return None
    registers = predicted_registers(kernel, hardware, need, blocks, lanes * WARP)
    reason = (
        f"{rows} rows side by side: {parts} blocks of {lanes * WARP} threads share 32 of them, and find the totals of "
        f"their parts before they scan these"
    )
    schedule = TwoPassScanSchedule(1, ACROSS_COLUMNS, 0, lanes, WARP, blocks, parts=parts)
    return replace(schedule, reason=reason, registers=registers)


def _across(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> RowSchedule | None:
    """Neighbouring rows on neighbouring threads, where the arrays lie so."""
    rows, full = prod(extents[: kernel.row_axes]), kernel.element_operands
    if rows < WARP or not full or any(kernel.operands[k].strides[-1] == "1" for k in full):
        return None
    few, lanes = ACROSS_THREADS * hardware.multiprocessors, 1
    most = next((n for n in (ACROSS_LANES, 2 * ACROSS_LANES) if rows * n >= few), ACROSS_MOST)
    while lanes < most and extents[-1] > lanes * ACROSS_COLUMNS:
        lanes *= 2
    need = _registers(kernel, ACROSS_COLUMNS) + WIDE * kernel.index64
    while lanes > 1 and registers_for(hardware, 1, lanes * WARP) < need:
        lanes //= 2
    blocks = blocks_for(hardware, need, lanes * WARP)
    registers = predicted_registers(kernel, hardware, need, blocks, lanes * WARP)
    reason = (
        f"neighbouring rows on neighbouring threads: tiles of {lanes * ACROSS_COLUMNS} columns, "
        f"{ACROSS_COLUMNS} by a thread, whose end's state is carried to the next"
    )
    schedule = LoopedRowSchedule(1, ACROSS_COLUMNS, 0, lanes, WARP, blocks, rows_across_lanes=True, blocked_layout=True)
    return replace(schedule, reason=reason, registers=registers)
