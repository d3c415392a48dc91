"""The work of an attention kernel, for the time model: matmuls, instructions per score, active tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from ..fusion.roofline import Work
from ..hardware import Hardware
from ..kernel_ir.attention_operands import scheduled_operands
from ..kernel_ir.instruction_cost import varying
from ..kernel_ir.kernel import AttentionKernel
from ..kernel_ir.phase import Phase
from ..runtime.bound_kernel import BoundKernel
from .instruction_counts import SHARED_READS, add_counts
from .kernel_launch import KernelLaunch
from .mask_density import mask_density

# measured: on an H200 (benchmarks/results/h200_attention.json): little work on scores is hidden behind matmuls, and
# rows and results move while neither runs.
EXPOSED_SCORE_SHARE = 0.85  # of the work on scores is not hidden behind the tensor cores
WARP_RATE, WARP_SHARE = 1024, 0.55  # multiply-adds a clock of mma.sync, and the share of it that is reached
SATURATING_WARPS = 8  # warps that saturate a multiprocessor


def attention_work(
    launch: KernelLaunch, hardware: Hardware, read: int, written: int, numbers: Mapping[str, int]
) -> Work:
    """The work of a launch that reads and writes so many bytes; `numbers` are scalars of known value."""
    kernel, schedule, bound = launch.kernel, launch.schedule, launch.bound
    stream = kernel.attention
    active, full = mask_density(kernel, schedule, bound.extents, numbers)
    busy = _padding(launch) / utilization(launch, hardware, active < 1)
    shown = busy * EXPOSED_SCORE_SHARE
    counts = score_instructions(kernel, bound, (active - full) * shown, full * shown)
    terms = multiply_adds(kernel, bound) * active * busy
    tensor = schedule.tensor_cores
    slower = 1.0 if schedule.wgmma else hardware.tensor / min(hardware.tensor, WARP_RATE) / WARP_SHARE
    wide = stream.scores[0].value.dtype.bits == 64
    return Work(
        read,
        written,
        counts[0] + (0 if tensor else terms * (1 + SHARED_READS)),
        counts[1],
        counts[2] + (terms if wide else 0),
        products=terms * slower if tensor else 0,
        exposed_bytes=written + bound.operand_bytes(scheduled_operands(kernel).q),
    )


def multiply_adds(kernel: AttentionKernel, bound: BoundKernel) -> float:
    """Multiply-adds of the matmuls of all rows and scores."""
    stream = kernel.attention
    axes = [*(score.axis for score in stream.scores), *(w.axis for w in stream.weighted_sums)]
    return prod(bound.extents[: kernel.row_axes + 1]) * sum(bound.extents[axis] for axis in axes)


def score_instructions(
    kernel: AttentionKernel, bound: BoundKernel, masked: float = 1, whole: float = 0
) -> tuple[float, float, float]:
    """(instructions, special functions, float64 instructions) for scores and results.

    `masked` and `whole` are the shares of all scores in tiles with element masks and in full tiles.
    """
    stream = kernel.attention
    totals = [0.0, 0.0, 0.0]
    rows = prod(bound.extents[: kernel.row_axes])
    every = rows * bound.extents[kernel.row_axes]
    without = stream.block_mask.full_phases if stream.block_mask is not None else ()
    _add_tile_counts(totals, kernel, stream.tile_phases, every * masked)
    _add_tile_counts(totals, kernel, without, every * whole)
    fixed = [value.name for value in kernel.scalars]
    for body in stream.mask_inputs:
        add_counts(totals, replace(body, instructions=varying(body.instructions, fixed)), every * (masked + whole))
    for ending in stream.epilogues:
        add_counts(totals, ending.body, rows * bound.extents[ending.axis])
    return totals[0], totals[1], totals[2]


def _add_tile_counts(totals: list[float], kernel: AttentionKernel, phases: Sequence[Phase], times: float) -> None:
    fixed = [value.name for value in kernel.scalars]
    for phase in phases:
        add_counts(totals, replace(phase.element, instructions=varying(phase.element.instructions, fixed)), times)
        for use in phase.folds:
            add_counts(totals, use.combine, times)


def _tile_rows(launch: KernelLaunch) -> int:
    """The rows that query tiles lie along."""
    operands, packed = scheduled_operands(launch.kernel), launch.schedule.packed_gqa_axis
    return launch.extents[operands.query_axis] * (1 if packed is None else launch.extents[packed])


def _padding(launch: KernelLaunch) -> float:
    """Computed rows per row that exists: tiles are padded to whole warps, or to groups of four."""
    rows, unit = _tile_rows(launch), launch.schedule.tile_unit
    return -(-rows // unit) * unit / max(1, rows)


def utilization(launch: KernelLaunch, hardware: Hardware, uneven: bool) -> float:
    """The share of the multiprocessors' time in which they have tiles of rows: all with the same work, or (`uneven`)
    some with less, which come last."""
    rows, schedule = _tile_rows(launch), launch.schedule
    items = launch.rows // max(1, rows) * -(-rows // schedule.rows) * schedule.num_splits
    fit = min(launch.blocks_per_sm(hardware), SATURATING_WARPS * 32 // launch.config.threads)
    slots = hardware.multiprocessors * max(1, fit)
    if uneven and items >= slots:
        return 1.0
    return max(1, items) / (-(-max(1, items) // slots) * slots)
