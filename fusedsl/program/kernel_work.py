"""The work of a scheduled kernel, for the time model: bytes, instructions, and the bytes in flight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log2, prod

from ..backends.cuda.matmul.schedule import TILE_MN
from ..backends.cuda.radix_select.schedule import READINGS, SelectSchedule
from ..backends.cuda.schedule_base import Schedule
from ..backends.cuda.sort.onesweep_schedule import RadixSortSchedule, pass_bytes, passes
from ..backends.cuda.sort.schedule import SortSchedule
from ..backends.cuda.sort.sort_method import sort_of
from ..fusion.roofline import Work
from ..hardware import Hardware
from ..ir.op_cost import EXCHANGE, ordering
from ..kernel_ir.instruction_cost import varying
from ..kernel_ir.kernel import AttentionKernel, KernelIR
from ..kernel_ir.matmul_axes import MatmulAxes, extent, matmul_axes, worth_tiling
from ..runtime.bound_kernel import BoundKernel
from .attention_work import attention_work, multiply_adds, score_instructions
from .instruction_counts import add_counts, matmul_instructions
from .kernel_launch import KernelLaunch
from .matmul_work import matmul_products

DIGIT = 40  # instructions that count, rank and scatter a word by one digit


def kernel_work(
    launch: KernelLaunch,
    hardware: Hardware,
    reads: Sequence[tuple[int, int]],
    written: int,
    numbers: Mapping[str, int],
) -> Work:
    """The work of a launch; `reads` are the (bytes, passes) of each array, `numbers` its scalars of known value."""
    kernel, blocks, threads = launch.kernel, launch.config.blocks, launch.config.threads
    if isinstance(kernel, AttentionKernel):
        return attention_work(launch, hardware, sum(size for size, _ in reads), written, numbers)
    if (products := matmul_products(launch, hardware)) is not None:
        return Work(sum(size for size, _ in reads), written, 0, products=products)
    issued, special, double = instruction_totals(kernel, launch.bound)
    issued += _sort_instructions(launch)
    once = sum(size // passes for size, passes in reads)
    reread = sum(size for size, _ in reads) - once
    read_in_passes, written_in_passes = _sort_bytes(launch)
    at_once = min(blocks, hardware.multiprocessors * max(1, launch.blocks_per_sm(hardware)))
    return Work(
        once + read_in_passes,
        written + written_in_passes,
        issued,
        special,
        double,
        chain=issued / max(1, blocks * threads * launch.schedule.independent),
        in_flight=at_once * threads * _thread_loads(kernel, launch.schedule) or None,
        reread=reread,
        reread_footprint=at_once * _row_bytes(launch) if reread else 0,
    )


def instruction_totals(kernel: KernelIR, bound: BoundKernel) -> tuple[float, float, float]:
    """(instructions, special functions, float64 instructions) of a launch."""
    rows, columns = prod(bound.extents[: kernel.row_axes]), prod(bound.extents[kernel.row_axes :])
    elements = rows * columns
    totals = [0.0, 0.0, 0.0]
    if isinstance(kernel, AttentionKernel):
        issued, special, double = score_instructions(kernel, bound)
        return issued + multiply_adds(kernel, bound), special, double
    products = matmul_axes(kernel)
    if products is not None and worth_tiling(kernel, products, bound.extents):
        return _matmul_totals(kernel, products, bound)
    totals[0] = elements * len(kernel.operands)  # a load or store each
    if kernel.is_pairwise:  # a thread loads what its rows have once, and what a column has once for all of them
        loads = elements / max(1, kernel.row_vector_width) * len(kernel.element_operands)
        totals[0] = loads + rows * len(kernel.row_operands)
    fixed = [value.name for value in kernel.scalars]
    for phase in kernel.phases:
        if phase.row is not None:
            add_counts(totals, phase.row, rows)
        for part in phase.passes:
            for body in part.bodies:
                add_counts(totals, replace(body, instructions=varying(body.instructions, fixed)), elements)
            for use in (*part.folds, *part.column_reductions, *part.scan_uses, *part.scan_uses):
                add_counts(totals, use.combine, elements)
    return totals[0], totals[1], totals[2]


def _sort_instructions(launch: KernelLaunch) -> float:
    """Instructions that sort rows: rounds of selection, or a sort in shared memory."""
    sort, schedule = sort_of(launch.kernel), launch.schedule
    if isinstance(schedule, SelectSchedule):
        return launch.rows * launch.columns * READINGS * DIGIT
    if sort is not None and isinstance(schedule, RadixSortSchedule):
        return launch.rows * launch.columns * passes(sort) * DIGIT
    if sort is None or not isinstance(schedule, SortSchedule):
        return 0
    ranking, rows, columns = schedule.sort_method, launch.rows, launch.columns
    if ranking.method == "rounds" and sort.count is not None:
        own, turns = schedule.vectors * schedule.width, sort.count
        exchanges = own * min(own, turns) / 2 + turns * (turns / 6 + 2 * log2(schedule.threads))
        return rows * schedule.threads * exchanges * EXCHANGE
    if ranking.method == "choose":
        return 0
    if ranking.method == "digits":
        return rows * columns * passes(sort) * DIGIT
    merges = log2(max(1, columns / ranking.size))  # levels of merging sorted runs
    return rows * columns * (ordering(ranking.size) + merges * EXCHANGE)


def _sort_bytes(launch: KernelLaunch) -> tuple[int, int]:
    """Bytes that a radix sort reads and writes in its passes, the words that it makes of the elements included; those
    of the readings of a selection but the first."""
    sort = sort_of(launch.kernel)
    if isinstance(launch.schedule, SelectSchedule):
        each = sum(launch.kernel.operands[k].dtype.itemsize for k in launch.kernel.element_operands)
        return launch.rows * launch.columns * each * (READINGS - 1), 0
    if sort is None or not isinstance(launch.schedule, RadixSortSchedule):
        return 0, 0
    elements, (read, written) = launch.rows * launch.columns, pass_bytes(sort)
    return elements * (passes(sort) * read + written), elements * (passes(sort) + 1) * written


def _matmul_totals(kernel: KernelIR, products: MatmulAxes, bound: BoundKernel) -> tuple[float, float, float]:
    """Counts of tiled matmuls: an operand's element is computed once per tile that it is in."""
    rows, columns = (extent(axes, bound.extents) for axes in (products.rows, products.columns))
    steps, batch = prod(bound.extents[kernel.row_axes :]), extent(products.batch, bound.extents)
    totals = [0.0, 0.0, 0.0]
    for use, pair in zip(kernel.phases[0].folds, products.factors):
        wide = use.accumulators[0].dtype.bits == 64 and use.accumulators[0].dtype.kind == "f"
        totals[0] += matmul_instructions(batch, rows, columns, steps)
        totals[2] += batch * rows * columns * steps if wide else 0
        for body, own, other in zip(pair, (rows, columns), (columns, rows)):
            add_counts(totals, body, batch * own * steps * -(-other // TILE_MN))
    row = kernel.phases[0].row
    if row is not None:
        add_counts(totals, row, batch * rows * columns)
    totals[0] += batch * rows * columns * len(kernel.operands)
    return totals[0], totals[1], totals[2]


def _thread_loads(kernel: KernelIR, schedule: Schedule) -> int:
    """Bytes that a thread loads before it uses any of them; 0 if unknown."""
    first = {value.name for part in kernel.phases[0].passes for value in part.reads}
    operands = [x.operand for x in kernel.element_loads if x.value.name in first or not first]
    sizes = [kernel.operands[k].dtype.itemsize for k in operands if "0" not in kernel.operands[k].strides]
    return sum(sizes) * schedule.elements_in_flight


def _row_bytes(launch: KernelLaunch) -> int:
    """Bytes of the rows that a block works on: later passes hit in the L2 if it holds them all."""
    kernel = launch.kernel
    size = sum(kernel.operands[x.operand].dtype.itemsize for x in kernel.element_loads)
    return launch.schedule.rows_at_once * launch.columns * size
