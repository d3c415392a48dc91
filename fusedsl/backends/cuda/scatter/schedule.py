"""Scatter schedules: threads merge a few elements each by atomics; into few elements by way of bins of their block."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from ....hardware import Hardware, blocks_for
from ....ir.superaccumulators import SUPERACCUMULATORS
from ....ir.types import DType
from ....kernel_ir.instruction import Constant
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.memory_access import RUN_WIDTH
from ....kernel_ir.phase import Scatter
from ....kernel_ir.register_pressure import Tiling, predicted_registers, required_registers
from ..schedule_base import Extents, Schedule

THREADS = 256
ELEMENTS = 4  # of a thread: their loads are in flight together
MOST_NEEDED = 64  # registers a thread, by estimate, beyond which it gets fewer elements
PRIVATE_THREADS = 512  # of a block with bins: they share them
MOST_COPIES = 32  # of a bin: one for each bank of shared memory
FOLDING = 24  # registers of a thread that folds runs in order, beside its values and their indices
WORTH_BINS = 8  # elements for each bin from which on a block has bins of its own
NEAR_CHUNKS = 3  # of a superaccumulator that a block has words of: those beside the largest value that it meets first
FIRST_CHUNK = 16  # bytes that say which these are
RECORDS_BYTES = 32  # of the first and the last run of a block
RESERVED = 2048  # bytes of shared memory that a block leaves to the system


@dataclass(frozen=True)
class ScatterSchedule(Schedule):
    """Each thread merges `elements` elements; `blocks` of `threads` are to fit on an SM."""

    elements: int
    threads: int
    blocks: int
    width: int = 1

    @property
    def block_threads(self) -> int:
        return self.threads

    @property
    def elements_in_flight(self) -> int:
        return self.elements

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        return LaunchConfig(max(1, -(-prod(extents) // (self.threads * self.elements))), self.threads)


@dataclass(frozen=True)
class OrderedScatterSchedule(ScatterSchedule):
    """Indices do not decrease: warps fold runs and store them, blocks leave their first and their last run as records,
    which the last of them folds.
    """

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        launch = super().config(kernel, extents)
        return replace(launch, workspace=launch.blocks * RECORDS_BYTES, semaphores=1)


@dataclass(frozen=True)
class PrivateScatterSchedule(ScatterSchedule):
    """Blocks loop over tiles of `elements` a thread and merge them into `copies` private copies of the `bins` in shared
    memory, then these into the array; if every update adds the same value `unit`, bins are integer counts.
    """

    bins: int = field(kw_only=True)
    copies: int = field(kw_only=True)
    unit: int = field(kw_only=True)
    shared: int = field(kw_only=True)  # bytes of a block

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        """As many blocks as are resident, each with elements enough to be worth its bins."""
        each = max(self.threads * self.elements, WORTH_BINS * self.bins)
        return LaunchConfig(max(1, -(-prod(extents) // each)), self.threads, self.shared, persistent=True)


@dataclass(frozen=True)
class PrivateSumSchedule(ScatterSchedule):
    """Blocks loop over tiles and add floats to `copies` of the words of `chunks` chunks of `bins` indices in shared
    memory, then these to the words in memory.
    """

    bins: int = field(kw_only=True)
    chunks: int = field(kw_only=True)
    copies: int = field(kw_only=True)
    shared: int = field(kw_only=True)  # bytes of a block

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        """As many blocks as are resident, each with elements enough to be worth its words."""
        each = max(self.threads * self.elements, WORTH_BINS * self.bins * self.chunks)
        return LaunchConfig(max(1, -(-prod(extents) // each)), self.threads, self.shared, persistent=True)


def schedule_scatter(kernel: KernelIR, extents: Extents, hardware: Hardware) -> ScatterSchedule:
    """How a scatter runs; it depends on the extents only where its indices are few, so new shapes rarely compile."""
    if kernel.folds_runs and _has_near_places(kernel) and _depends_on_order(kernel):
        return _ordered(kernel, hardware)
    private = _private(kernel, extents, hardware) or _private_sums(kernel, extents, hardware)
    if private is not None:
        return private
    width = _width(kernel)
    exact = any(scatter.fold in SUPERACCUMULATORS for scatter in kernel.scatters)
    rows = exact and kernel.axes > 1
    elements, need = _elements(kernel, width, 2 * ELEMENTS if width > 1 or rows else ELEMENTS)
    threads = _row_threads(extents[-1]) if rows else THREADS
    blocks = blocks_for(hardware, need, threads)
    registers = predicted_registers(kernel, hardware, need, blocks, threads)
    together = "rows" if rows else "neighbours" if width > 1 or exact else ""
    how = f"{together} of one place merged first, then " if together else "each merged "
    how += "added as exact integers" if exact else "by an atomic whose result no order changes"
    reason = (
        f"{elements} elements a thread, {how}; at most {registers} registers let {blocks} blocks of {threads} on an SM"
    )
    return ScatterSchedule(elements, threads, blocks, width, reason=reason, registers=registers)


def _depends_on_order(kernel: KernelIR) -> bool:
    """Whether floats are added; for other folds atomics are faster: H100, extrema of 64 M in 284 us, not 423."""
    scatter = kernel.scatters[0]
    return scatter.fold == "sum" and kernel.operands[scatter.operand].dtype.kind == "f"


def _ordered(kernel: KernelIR, hardware: Hardware) -> OrderedScatterSchedule:
    """The schedule of indices that do not decrease."""
    width = _width(kernel)
    elements, need = _elements(kernel, width, 4 * ELEMENTS)
    held = scatter_dtype(kernel, kernel.scatters[0]).compute.bits / 32 + 1  # registers of a value and its index
    need = max(need, FOLDING + round(elements * held))
    blocks = blocks_for(hardware, need, THREADS)
    registers = predicted_registers(kernel, hardware, need, blocks, THREADS)
    reason = (
        f"{elements} elements a thread; neighbours of one place are folded in order, and stored once: the last block "
        f"folds what several share; at most {registers} registers let {blocks} blocks of {THREADS} on an SM"
    )
    return OrderedScatterSchedule(elements, THREADS, blocks, width, reason=reason, registers=registers)


def _row_threads(columns: int) -> int:
    """Threads of a block that takes rows: as many as columns, so that a thread's elements follow one another in one."""
    return next((n for n in (64, 128, 512) if n == columns), THREADS)


def _width(kernel: KernelIR) -> int:
    """Elements of a vector: of one line whose arrays are all read by vectors, or are the same for all elements.

    Runs of one index are merged then, by their indices in 32 bits.
    """
    lines = [kernel.operands[load.operand] for load in kernel.loads]
    whole = kernel.axes == 1 and all(x.access == "vector" or x.strides[-1] == "0" for x in lines)
    return RUN_WIDTH if whole and _has_near_places(kernel) else 1


def _has_near_places(kernel: KernelIR) -> bool:
    """Whether indices have 32 bits."""
    return all(0 < scatter.bins <= 1 << 31 for scatter in kernel.scatters)


def _elements(kernel: KernelIR, width: int, most: int) -> tuple[int, int]:
    """(elements of a thread, registers that they need)."""
    elements = most
    while elements > width and required_registers(kernel, Tiling(width, elements // width)) > MOST_NEEDED:
        elements //= 2
    return elements, required_registers(kernel, Tiling(width, elements // width))


def _private(kernel: KernelIR, extents: Extents, hardware: Hardware) -> PrivateScatterSchedule | None:
    """The schedule with bins of a block, if these fit in its shared memory and are worth it."""
    scatter = kernel.scatters[0]
    unit = _unit(kernel, scatter)
    size = _bin_bytes(kernel, scatter, unit)
    table = scatter.bins * size
    if len(kernel.scatters) > 1 or not table or prod(extents) < WORTH_BINS * scatter.bins:
        return None
    occupancy = _shared_copies(kernel, hardware, table)
    if occupancy is None:
        return None
    copies, blocks, need = occupancy
    registers = predicted_registers(kernel, hardware, need, blocks, PRIVATE_THREADS)
    counts = "counts of them" if unit else "their sums or extrema"
    reason = (
        f"at most {scatter.bins} places: blocks of {PRIVATE_THREADS} merge elements into {copies} × as many bins in "
        f"shared memory, {counts}, and these into the array; "
        f"at most {registers} registers let {blocks} blocks on an SM"
    )
    bins = {"bins": scatter.bins, "copies": copies, "unit": unit, "shared": copies * table}
    return PrivateScatterSchedule(ELEMENTS, PRIVATE_THREADS, blocks, reason=reason, registers=registers, **bins)


def _shared_copies(kernel: KernelIR, hardware: Hardware, table: int) -> tuple[int, int, int] | None:
    """(copies of a table of so many bytes, blocks on an SM, registers of a thread); None if there is no room for it."""
    need = required_registers(kernel, Tiling(1, 1)) + round((ELEMENTS - 1) * _loaded_registers(kernel))
    blocks = blocks_for(hardware, need, PRIVATE_THREADS)
    while blocks > 2 and table > _room(hardware, blocks):
        blocks -= 1
    if table > _room(hardware, blocks):
        return None
    copies = MOST_COPIES
    while copies * table > _room(hardware, blocks):
        copies //= 2
    return copies, blocks, need


def _private_sums(kernel: KernelIR, extents: Extents, hardware: Hardware) -> PrivateSumSchedule | None:
    """The schedule of sums of floats with words of a block, likewise."""
    scatter = kernel.scatters[0]
    if len(kernel.scatters) > 1 or scatter.fold not in SUPERACCUMULATORS or not scatter.bins:
        return None
    accumulator = SUPERACCUMULATORS[scatter.fold][scatter_dtype(kernel, scatter)]
    most = NEAR_CHUNKS + -(-accumulator.low // accumulator.width)
    candidates = ((n, _shared_copies(kernel, hardware, 8 * n * scatter.bins)) for n in range(most, 0, -1))
    chunks, occupancy = next(((n, fit) for n, fit in candidates if fit is not None), (0, None))
    words = chunks * scatter.bins
    if occupancy is None or prod(extents) < WORTH_BINS * words:
        return None
    copies, blocks, need = occupancy
    registers = predicted_registers(kernel, hardware, need, blocks, PRIVATE_THREADS)
    reason = (
        f"at most {scatter.bins} places: blocks of {PRIVATE_THREADS} add elements as integers to {copies} × as many "
        f"sums in shared memory, for {chunks} ranges of exponents, and these to those in memory; "
        f"at most {registers} registers let {blocks} blocks on an SM"
    )
    shape = {"bins": scatter.bins, "chunks": chunks, "copies": copies, "shared": 8 * words * copies + FIRST_CHUNK}
    return PrivateSumSchedule(ELEMENTS, PRIVATE_THREADS, blocks, reason=reason, registers=registers, **shape)


def scatter_dtype(kernel: KernelIR, scatter: Scatter) -> DType:
    """The dtype of the values that a scatter merges."""
    (d,) = {v.dtype for v in kernel.phases[0].results if v.name == scatter.value}
    return d


def _loaded_registers(kernel: KernelIR) -> float:
    """Registers of an element's loads: all are in flight together, and then merged one after the other."""
    return sum(max(32, kernel.operands[load.operand].dtype.bits) / 32 for load in kernel.loads)


def _room(hardware: Hardware, blocks: int) -> int:
    """Bytes of bins of a block, if so many are to be on an SM."""
    return min(hardware.shared // blocks, hardware.block_shared) - RESERVED


def _bin_bytes(kernel: KernelIR, scatter: Scatter, unit: int) -> int:
    """Bytes of a copy of a bin; 0 if shared memory has no atomics that merge into it, or its order matters."""
    d = kernel.operands[scatter.operand].dtype
    if d.bits == 64:
        return (4 if unit else 8) if scatter.fold == "sum" and d.kind != "f" else 0
    folds = ("max",) if d.kind == "f" else ("sum", "max", "min")
    return 4 if scatter.fold in folds else 0


def _unit(kernel: KernelIR, scatter: Scatter) -> int:
    """The integer that every element adds, if that is known: then it is enough to count them; 0 if not."""
    if scatter.fold != "sum" or kernel.operands[scatter.operand].dtype.kind == "f":
        return 0
    for phase in kernel.phases:
        for i in phase.element.instructions:
            if i.target == scatter.value and i.op == "copy" and isinstance(i.args[0], Constant):
                return int(i.args[0].value)
    return 0
