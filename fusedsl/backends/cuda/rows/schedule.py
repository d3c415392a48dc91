"""Rows on threads: what a schedule of rows says, and the facts of a kernel that it follows from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ....ir.op_cost import instructions
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.liveness import held, row_loads, words
from ....kernel_ir.memory_access import vector_width
from ....kernel_ir.register_pressure import element_work
from ..scan_sort.sort_method import Ranking

WARP = 32
VECTOR_CLASSES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
LONG_CLASSES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # of rows of which there are few lengths
LONG_ROW = 16384  # elements, beyond which a row should not be alone on an SM
LOOP_BLOCK = 128  # threads of a block whose rows are looped over by a warp or less
ROW_WORK = 40  # instructions of a row, from which on its threads should be few
LONG_BODIES = 14  # instructions an element, from which on rows want longer threads; of 4 bytes, for each array


@dataclass(frozen=True)
class RowSchedule:
    """`threads` work on a row, `rows` rows share a block; a thread holds `vectors` vectors of `width` elements.

    `whole` of the vectors are always there, the others are checked. Where `across`, neighbouring threads belong to
    neighbouring rows. Where `early`, what later phases load is loaded at once; where there is a `piece`, the last
    phase takes so many vectors at a time. Not `resident`: every phase loops over the row. Where `blocked`, the vectors
    of a thread are neighbours. Where `linked`, every tile of a row is a block's, which hands its state on. Where
    `shared`, what the phases read again is copied to shared memory first. Where there is a `cluster` of so many blocks,
    `threads` of each of them work on the row; where it `stays`, on one row after the other, beside the other teams of
    such blocks: what all rows read is in shared memory, where `ahead` vectors of a thread's next row come meanwhile.
    Where `late`, the rest of the next row is loaded into the registers that the last phase has done with.
    Where `anew`, the last phase computes again what earlier ones made of the row.
    Where there is `room`, for so many threads in a block, how many of them work on a row is not compiled: the launch
    says it. Where there are `edges`, the tiles of rows that are not aligned have their whole vectors alone, and of the
    elements before and after those each thread takes so many.
    """

    resident: bool
    width: int
    vectors: int
    whole: int
    threads: int
    rows: int
    blocks: int
    across: bool = False
    early: bool = False
    piece: int = 0
    cluster: int = 1
    shared: bool = False
    reason: str = field(default="", compare=False)
    registers: int = field(default=0, compare=False)  # a thread, by estimate
    blocked: bool = False
    ranking: Ranking | None = None
    linked: bool = False
    room: int = 0
    edges: int = 0
    stays: bool = False
    ahead: int = 0
    late: bool = False
    anew: bool = False
    clusters: int = field(default=0, compare=False)  # that stay at once, at most

    def __post_init__(self) -> None:
        own = self.threads <= WARP or self.across or self.cluster > 1  # whose blocks meet elsewhere
        assert own or self.rows == 1, f"{self.rows} rows share a block, whose barriers {self.threads} threads meet at"

    @property
    def binary(self) -> RowSchedule:
        """What of it machine code depends on."""
        return replace(self, threads=0, rows=0) if self.room else self

    @property
    def step(self) -> int:
        """Elements between one vector of a thread and its next."""
        return self.width if self.blocked else self.width * self.threads * self.cluster

    @property
    def apart(self) -> int:
        """Elements between the first of a thread and that of the next."""
        return self.width * self.vectors if self.blocked else self.width

    @property
    def span(self) -> int:
        """Elements that a team works on at once."""
        return self.width * self.vectors * self.threads * self.cluster

    @property
    def block(self) -> int:
        return self.threads * self.rows


def contiguous(kernel: KernelIR) -> bool:
    """One column axis, along which an array that is read or written in full is contiguous."""
    whole = full_operands(kernel)
    return kernel.column_axes == 1 and (not whole or any(kernel.operands[k].strides[-1] == "1" for k in whole))


def alone(kernel: KernelIR) -> bool:
    """Whether a row has to be one block's: other blocks share its launch, or a row is put in order or scanned."""
    return kernel.part or any(phase.scans or phase.select or phase.ranks for phase in kernel.phases)


def full_operands(kernel: KernelIR) -> list[int]:
    rows = row_loads(kernel)
    return [k for k in range(len(kernel.operands)) if k not in rows]


def row_width(kernel: KernelIR) -> int:
    """Elements of a vector."""
    if kernel.steady:
        return kernel.steady
    if all(operand.access == "element" for operand in kernel.operands):
        return 1
    return vector_width([o.dtype for o in kernel.operands], [o.strides for o in kernel.operands])


def reach_of(kernel: KernelIR, columns: int, width: int) -> int:
    """Columns that a row may cover once it is aligned down."""
    return columns + (width - 1 if any(o.access == "anchor" for o in kernel.operands) else 0)


def later_of(kernel: KernelIR) -> float:
    """Registers an element of the loads that only a later phase needs."""
    first = {value.name for value in kernel.phases[0].element.args}
    rows = row_loads(kernel)
    later = [x.operand for x in kernel.loads if x.value.name not in first and x.operand not in rows]
    return words([kernel.operands[k].dtype for k in later], packed=True)


def streamed_words(kernel: KernelIR) -> float:
    """Registers an element that those take beside what is held: two vectors of each at a time."""
    return 2 * later_of(kernel)


def per_element_of(kernel: KernelIR, width: int) -> float:
    """Registers of an element that is held."""
    return max(words(held(kernel), packed=width > 1), words([kernel.operands[0].dtype], packed=width > 1))


def dear_rows(kernel: KernelIR) -> bool:
    """Whether there is much to do once a row, which every thread does."""
    return sum(instructions(phase.row.instructions) for phase in kernel.phases if phase.row is not None) >= ROW_WORK


def long_bodies(kernel: KernelIR, width: int) -> bool:
    """Whether there is much to do for each element."""
    return element_work(kernel) >= LONG_BODIES * (1 if width >= 8 else len(full_operands(kernel)))


def fetches(kernel: KernelIR) -> bool:
    """Whether elements are read, or drawn, where a body says: vector by vector."""
    lines = [line for phase in kernel.phases for line in phase.element.instructions]
    return bool(kernel.pointers) or any(" = fetch_" in line or " = philox_" in line for line in lines)


def cluster_sizes(most: int) -> list[int]:
    return [size for size in (1, 2, 4, 8, 16) if size <= most]


def row_grid(schedule: RowSchedule, rows: int) -> int:
    """Blocks of the launch."""
    return max(1, -(-rows // schedule.rows)) * schedule.cluster
