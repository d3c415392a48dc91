"""Row schedule: how the elements of a row map to threads, and the kernel facts that decide it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ....kernel_ir.instruction_cost import total_cost
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.liveness import live_between_phases, register_count
from ....kernel_ir.memory_access import vector_width
from ....kernel_ir.register_pressure import instructions_per_element
from ..schedule_base import Extents, Schedule

WARP = 32
VECTOR_CLASSES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
LONG_CLASSES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # of rows of which there are few lengths
LONG_ROW = 16384  # elements, beyond which a row should not be alone on an SM
LOOP_BLOCK = 128  # threads of a block whose rows are looped over by a warp or less
ROW_WORK = 40  # instructions of a row, from which on its threads should be few
LONG_BODIES = 14  # instructions an element, from which on rows want longer threads; of 4 bytes, for each array

# A block fills byte tables only if it processes at least so many elements at a time.
MIN_ELEMENTS_FOR_BYTE_TABLE = 2048


@dataclass(frozen=True)
class RowSchedule(Schedule):
    """Row reduction: `threads` threads per row, `rows` rows per block, `vectors` vectors of `width` elements a thread.

    Every phase loops over the row, if no subclass says otherwise. Its class attributes are fields of some of these.
    """

    width: int
    vectors: int
    full_vectors: int  # leading vectors that are always in bounds; the others are checked
    threads: int
    rows: int
    blocks: int  # per SM

    resident = False
    smem = False
    decoupled_lookback = False
    rows_across_lanes = False
    blocked_layout = False
    load_all_first = False
    epilogue_vectors = 0
    cluster = 1
    peeled_elements = 0
    rematerialize = False

    def __post_init__(self) -> None:
        own = self.threads <= WARP or self.rows_across_lanes or self.cluster > 1  # whose blocks meet elsewhere
        assert own or self.rows == 1, f"{self.rows} rows share a block, whose barriers {self.threads} threads meet at"

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        blocks = max(1, -(-prod(extents[: kernel.row_axes]) // self.rows)) * self.cluster
        return LaunchConfig(blocks, self.block_threads, cluster=self.cluster)

    @property
    def rows_at_once(self) -> int:
        return self.rows

    @property
    def elements_in_flight(self) -> int:
        return self.width * self.vectors

    @property
    def vector_stride(self) -> int:
        """Elements between two neighbouring vectors of a thread."""
        return self.width if self.blocked_layout else self.width * self.threads * self.cluster

    @property
    def thread_stride(self) -> int:
        """Elements between the first vectors of two neighbouring threads."""
        return self.width * self.vectors if self.blocked_layout else self.width

    @property
    def tile_elements(self) -> int:
        """Elements that all threads of a row process at once."""
        return self.width * self.vectors * self.threads * self.cluster

    @property
    def block_threads(self) -> int:
        return self.threads * self.rows


@dataclass(frozen=True)
class ResidentRowSchedule(RowSchedule):
    """A row in the registers of a block's threads, or of a cluster's."""

    load_all_first: bool = False  # loads of later phases are issued with those of the first
    epilogue_vectors: int = 0  # vectors of a chunk of the last phase; 0: all at once
    cluster: int = 1  # blocks of a cluster; `threads` of each work on the row
    max_threads: int = 0  # threads of a row are a launch parameter, up to this; 0: compiled
    peeled_elements: int = 0  # of unaligned rows: scalar elements per thread before and after the aligned vectors
    rematerialize: bool = False  # the last phase recomputes what earlier phases computed
    resident = True

    @property
    def compiled_form(self) -> ResidentRowSchedule:
        return replace(self, threads=0, rows=0) if self.max_threads else self

    def holds_tables(self, kernel: KernelIR) -> bool:
        return self.rows * self.tile_elements >= MIN_ELEMENTS_FOR_BYTE_TABLE * self.cluster

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        launch = super().config(kernel, extents)
        return replace(launch, block_dim_y=self.rows) if self.max_threads else launch


@dataclass(frozen=True)
class LoopedRowSchedule(RowSchedule):
    """Every phase loops over the row, tile by tile."""

    rows_across_lanes: bool = False  # neighbouring threads belong to neighbouring rows
    blocked_layout: bool = False  # the vectors of a thread are neighbours; else striped


def contiguous(kernel: KernelIR) -> bool:
    """True if there is one column axis and an array with an element per column is contiguous along it."""
    whole = kernel.element_operands
    return kernel.column_axes == 1 and (not whole or any(kernel.operands[k].strides[-1] == "1" for k in whole))


def spans_axes(kernel: KernelIR) -> bool:
    """True if there are several column axes and an array with an element per column is contiguous along the last."""
    whole = kernel.element_operands
    return kernel.column_axes > 1 and any(kernel.operands[k].strides[-1] == "1" for k in whole)


def needs_whole_block(kernel: KernelIR) -> bool:
    """True if one block has to process a row: in a subkernel, or if a row is scanned or sorted."""
    return kernel.is_subkernel or any(phase.scans or phase.sort or phase.ranks for phase in kernel.phases)


def row_width(kernel: KernelIR) -> int:
    """Elements of a vector."""
    if kernel.batch_invariant_width:
        return kernel.batch_invariant_width
    if all(operand.access == "element" for operand in kernel.operands):
        return 1
    return vector_width([o.dtype for o in kernel.operands], [o.strides for o in kernel.operands])


def covered_columns(kernel: KernelIR, columns: int, width: int) -> int:
    """Columns that a row covers once its start is aligned down to a vector."""
    return columns + (width - 1 if any(o.access == "peeled" for o in kernel.operands) else 0)


def late_load_registers(kernel: KernelIR) -> float:
    """Registers per element of the loads that only later phases need."""
    first = {value.name for value in kernel.phases[0].element.args}
    later = [x.operand for x in kernel.element_loads if x.value.name not in first]
    return register_count([kernel.operands[k].dtype for k in later], packed=True)


def late_tile_registers(kernel: KernelIR) -> float:
    """Registers per element of late loads in flight: two vectors of each at a time."""
    return 2 * late_load_registers(kernel)


def registers_per_element(kernel: KernelIR, width: int) -> float:
    """Registers of an element that is held between phases."""
    return max(
        register_count(live_between_phases(kernel), packed=width > 1),
        register_count([kernel.operands[0].dtype], packed=width > 1),
    )


def has_expensive_row_body(kernel: KernelIR) -> bool:
    """True if the row bodies are long: every thread of the row executes them."""
    return sum(total_cost(phase.row.instructions) for phase in kernel.phases if phase.row is not None) >= ROW_WORK


def has_expensive_elements(kernel: KernelIR, width: int) -> bool:
    """True if there are many instructions per element."""
    return instructions_per_element(kernel) >= LONG_BODIES * (1 if width >= 8 else len(kernel.element_operands))


def has_gathers(kernel: KernelIR) -> bool:
    """True if bodies gather elements or draw random bits: vector by vector."""
    operations = {i.op for phase in kernel.phases for i in phase.element.instructions}
    return bool(kernel.pointers) or any(op == "fetch" or op.startswith("philox_") for op in operations)


def cluster_sizes(most: int) -> list[int]:
    return [size for size in (1, 2, 4, 8, 16) if size <= most]
