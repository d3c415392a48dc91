"""Schedules of CPU kernels: loop structure, units of work, workspace. Imports no llvmlite."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...config import num_threads
from ...kernel_ir.kernel import AttentionKernel, KernelIR, RowColumnKernel
from ...kernel_ir.matmul_axes import MatmulAxes, extent, matmul_axes, worth_tiling
from .core_time import seconds
from .launch_stages import CpuLaunch, CpuStage
from .short_rows_form import ShortRows
from .sort_launch import sort_launch, sort_schedule
from .workspace import row_column_bytes, row_column_parts, scan_bytes, split_bytes

CHUNK = 16384  # elements of the innermost axis of a map in one unit of work
TILE = (64, 32)  # (columns, rows) of a block of a tiled map
PART_ELEMENTS = 65536  # elements of a part of a split row
SEGMENT = 2048  # columns that are reduced in vector lanes; segments are merged in a pairwise tree
SHORT_COLUMNS = 12  # columns at most of rows that are unrolled
# LLVM interleaves vectors of 8 columns at most, and of rows of less than 64 bytes: loops that store elements, and
# reduce none, are slow beyond. measured: EPYC (Zen 5), 262,144 rows, unrolled or not: x * w of 12 float32 5.0, 0.60 ms,
# of 8 float64 5.0, 0.63 ms; cumsum of 12 float32 5.2, 2.1 ms, of 12 int8 0.8, 2.8 ms; argmax of 12 float32 3.2, 10 ms
INTERLEAVED_COLUMNS, INTERLEAVED_BYTES = 8, 63
SHORT_ROWS = 16  # rows at least for this
SHORT_LINES = 256  # lines at most of an unrolled row: it is compiled for each number of columns
MAX_VECTOR_STRIDE = 4  # strides that LLVM serves with vector loads and shuffles: -1, 2, 3, 4 …
MAX_LITERAL_STRIDE = 64  # strides that are literals in the code of short rows
MATMUL_BLOCK, SMALL_MATMUL_BLOCK = (192, 512), (96, 256)  # rows and columns of a block of a matmul
MATMUL_STEPS = 256  # that are packed at a time
MATMUL_UNITS = 12  # blocks of a matmul: if there are fewer, they are small, so that more threads have some
# measured: one core of an EPYC (Zen 5), GFLOPS of float32: 512³ 225 in large blocks, 197 in small ones
THREAD_SECONDS = 5e-5  # seconds of work that are worth a thread
ROW_SECONDS = 5e-3  # seconds of a row at most that one thread computes without parts
ATTENTION_ROWS = 64  # query rows of an attention tile
STRIP_MULTIPLE = 64  # rows; the width of a strip is a multiple of it
PAIR_MULTIPLE = 16  # rows that the width of a strip of pairs is a multiple of: it meets all columns, and is to end soon
MIN_STRIP = 256  # rows of a strip with per-element scratch values
MOST_RUN_UNITS = 64  # units of an ordered scatter
STRIPS_PER_THREAD = 2  # strips of a thread at most: wide strips read memory best


def choose(kernel: KernelIR, extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> str:
    """The schedule for these extents and strides (in elements, per operand and axis): part of the kernel's key.

    - "scatter": values merged at computed indices by one thread
    - "runs:" and units: indices that do not decrease, of which each unit has those that begin among its elements
    - "map", or "map:" and the innermost strides that are literals in the code
    - "tiles": a map in blocks of two axes
    - "rows": one row after another
    - "strips:" and a stride kind per operand: rows in vector lanes; the last row axis is contiguous, or rows are short
    - "short:" and `ShortRows`: unrolled rows
    - "sorted": rows that NumPy sorts in memory, between a stage that stores them and one that reads them
    - "sorted:" and an operand: rows that are stored there and that NumPy sorts there
    - "sorted:best": long rows whose few best NumPy selects
    - "split": few long rows, cut into parts that threads share
    - "scan": scans of few long rows, likewise
    - "rows and columns": reductions of rows and columns
    - "matmul:" and stride kinds: matmuls
    - "attention:" and the axis of a tile's query rows: attention
    """
    if isinstance(kernel, AttentionKernel):
        return f"attention:{max(kernel.attention.query_axes, key=lambda axis: extents[axis])}"
    if kernel.scatters:
        return _scatter(kernel, extents)
    scans = any(phase.scans for phase in kernel.phases)
    if any(phase.sort for phase in kernel.phases):
        return sort_schedule(kernel, extents, strides)
    if (short := _short(kernel, extents, strides)) is not None:
        return f"short:{short}"
    if kernel.row_axes == 0 and not scans and not any(phase.folds for phase in kernel.phases):
        return "tiles" if _reads_transposed(extents, strides) else _map(kernel, strides)
    if isinstance(kernel, RowColumnKernel):
        return "rows and columns"
    if (matmul := _matmul_sides(kernel, extents)) is not None:
        ends = (matmul.rows[-1], matmul.columns[-1])
        near = [line[axis] for axis in ends for line in strides]
        return "matmul:" + "".join(str(step) if step in (0, 1) else "s" for step in near)
    rows, columns = prod(extents[: kernel.row_axes]), prod(extents[kernel.row_axes :])
    if kernel.row_axes and (extents[kernel.row_axes - 1] >= 8 or kernel.batch_invariant_width):
        steps = [line[kernel.row_axes - 1] for line in strides]
        full = [(step, line[-1]) for step, line in zip(steps, strides) if any(line[kernel.row_axes :])]
        beside = any(step == 1 and across != 1 for step, across in full) and all(step in (0, 1) for step, _ in full)
        few = columns <= SHORT_COLUMNS and rows >= 256 and not kernel.batch_invariant_width
        if beside or few or kernel.is_pairwise:
            return "strips:" + "".join(str(step) if step in (0, 1) else "s" for step in steps)
    if (rows < 16 or kernel.batch_invariant_width) and columns >= 4 * PART_ELEMENTS:
        if not scans and not kernel.batch_invariant_width and _is_for_one_thread(seconds(kernel, extents)):
            return "rows"  # with the same bits
        if not scans:
            return "split"
        if _scans_only(kernel):
            return "scan"
    return "rows"


def _is_for_one_thread(time: float) -> bool:
    """Whether one thread computes rows of so many seconds, which an interrupt can wait for."""
    return time < 2 * THREAD_SECONDS or (time < ROW_SECONDS and num_threads() == 1)


def _scans_only(kernel: KernelIR) -> bool:
    """Whether a kernel scans loaded or computed elements once, and stores elements."""
    phase = kernel.phases[0]
    others = (phase.folds, phase.row, phase.row_stores, phase.column_reductions)
    return len(kernel.phases) == len(phase.scans) == 1 and not any(others)


def _short(kernel: KernelIR, extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> ShortRows | None:
    """The unrolled rows of a kernel, or the unrolled innermost axes of a map; None if they are too long."""
    if isinstance(kernel, RowColumnKernel) or kernel.batch_invariant_width:
        return None
    first = kernel.row_axes
    if not first and not any(phase.folds or phase.scans for phase in kernel.phases):
        first = kernel.axes - 1
        while first > 1 and prod(extents[first - 1 :]) <= SHORT_COLUMNS:
            first -= 1
    count = prod(extents[first:])
    if not first or not 1 < count <= SHORT_COLUMNS or extents[first - 1] < SHORT_ROWS or prod(extents[:first]) < 256:
        return None
    if not _interleaves(kernel, count) and not any(phase.folds for phase in kernel.phases):
        return None
    lines = sum(len(body.instructions) for phase in kernel.phases for body in phase.bodies)
    if lines * count > SHORT_LINES:
        return None
    near = [[step if abs(step) <= MAX_LITERAL_STRIDE else None for step in line[first - 1 :]] for line in strides]
    return ShortRows(tuple(extents[first:]), tuple(map(tuple, near)))


def _interleaves(kernel: KernelIR, columns: int) -> bool:
    """Whether LLVM loads and stores so many columns of each array as vectors of rows; beside 8 or 16 bits it does."""
    widths = [operand.dtype.itemsize for operand in kernel.operands]
    return min(widths) < 4 or (columns <= INTERLEAVED_COLUMNS and max(widths) * columns <= INTERLEAVED_BYTES)


def _scatter(kernel: KernelIR, extents: tuple[int, ...]) -> str:
    """One unit, or several of ordered indices, on which neither order nor result depend."""
    if not kernel.folds_runs:
        return "scatter"
    units = 1
    while 2 * units <= min(num_threads(), MOST_RUN_UNITS) and seconds(kernel, extents) > 2 * units * THREAD_SECONDS:
        units *= 2
    return f"runs:{units}"


def general(kernel: KernelIR) -> str:
    """The schedule that is valid for any extents and strides, if slower than the chosen one."""
    if kernel.scatters:
        return "scatter"
    if isinstance(kernel, AttentionKernel):
        return f"attention:{min(kernel.attention.query_axes)}"
    if isinstance(kernel, RowColumnKernel):
        return "rows and columns"
    computes = any(phase.folds or phase.scans or phase.sort for phase in kernel.phases)
    return "rows" if kernel.row_axes or computes else "map"


def _map(kernel: KernelIR, strides: tuple[tuple[int, ...], ...]) -> str:
    """The schedule of a map, with its small innermost strides."""
    steps = [(o.strides[-1:], line[-1:]) for o, line in zip(kernel.operands, strides)]
    words = [str(line[0]) if kind == "s" and 0 < abs(line[0]) <= MAX_VECTOR_STRIDE else "s" for kind, line in steps]
    return f"map:{','.join(words)}" if words.count("s") < len(words) else "map"


def _matmul_sides(kernel: KernelIR, extents: tuple[int, ...]) -> MatmulAxes | None:
    """The matmul axes of a kernel, if packing blocks pays off."""
    matmul = matmul_axes(kernel)
    return matmul if matmul is not None and worth_tiling(kernel, matmul, extents) else None


def _reads_transposed(extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> bool:
    """True if an operand of a map is contiguous along the second innermost axis instead of the innermost."""
    if len(extents) < 2 or extents[-2] < 8 or extents[-1] < 8:
        return False
    return any(abs(line[-2]) == 1 and abs(line[-1]) > 1 for line in strides)


def launch(kernel: KernelIR, schedule: str, extents: tuple[int, ...]) -> CpuLaunch:
    """The stages for these extents; results do not depend on the number of threads."""
    rows, columns = prod(extents[: kernel.row_axes]), prod(extents[kernel.row_axes :])
    if schedule == "split":
        return _split(kernel, rows, columns, extents)
    if schedule == "scatter":
        return CpuLaunch((CpuStage("kernel", 1, 1),), unit_seconds=seconds(kernel, extents))
    if schedule.startswith("runs"):
        units = int(schedule.partition(":")[2])
        return CpuLaunch((CpuStage("kernel", units, 1),), unit_seconds=seconds(kernel, extents) / units)
    if schedule.startswith("sorted"):
        return sort_launch(kernel, schedule.partition(":")[2], extents, _grain(seconds(kernel, extents), rows))
    if schedule == "scan":
        return _split_scan(kernel, rows, columns, extents)
    if schedule == "rows and columns":
        return _cross(kernel, rows, columns, extents)
    count = _units(kernel, schedule, extents)
    time = seconds(kernel, extents)
    grain = _grain(time, count)
    reads = schedule.startswith("strips") and not kernel.is_pairwise  # strips of pairs meet columns that caches hold
    if reads:  # each call cuts its units into strips: wide ones read memory best
        grain = max(grain, -(-count // (STRIPS_PER_THREAD * num_threads())), MIN_STRIP // STRIP_MULTIPLE)
    return CpuLaunch((CpuStage("kernel", count, grain),), unit_seconds=time / max(1, count))


def matmul_block(batch: int, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns at most of a block of a matmul; the generated code chooses the same."""
    few = _blocks(batch, (rows, columns), MATMUL_BLOCK) < MATMUL_UNITS
    return SMALL_MATMUL_BLOCK if few else MATMUL_BLOCK


def _blocks(batch: int, counts: Sequence[int], block: tuple[int, int]) -> int:
    return batch * prod(-(-n // most) for n, most in zip(counts, block))


def strip_multiple(kernel: KernelIR) -> int:
    """Rows that the width of a strip is a multiple of: the unit of work of its kernel."""
    return PAIR_MULTIPLE if kernel.is_pairwise else STRIP_MULTIPLE


def _units(kernel: KernelIR, schedule: str, extents: tuple[int, ...]) -> int:
    """The number of units of work of one stage: rows, or blocks of rows and columns."""
    if isinstance(kernel, AttentionKernel):
        lane = int(schedule.partition(":")[2])
        return prod(extents[: kernel.row_axes]) // max(1, extents[lane]) * -(-extents[lane] // ATTENTION_ROWS)
    if schedule.startswith("map"):
        return prod(extents[:-1]) * -(-(extents[-1] if extents else 1) // CHUNK)
    if schedule == "tiles":
        chunk, height = TILE
        return prod(extents[:-2]) * -(-extents[-2] // height) * -(-extents[-1] // chunk)
    if schedule.startswith("matmul"):
        matmul = matmul_axes(kernel)
        assert matmul is not None
        counts = [extent(axes, extents) for axes in (matmul.rows, matmul.columns)]
        batch = extent(matmul.batch, extents)
        return _blocks(batch, counts, matmul_block(batch, *counts))
    if schedule.startswith("short"):
        loop = kernel.axes - len(ShortRows.read(schedule.partition(":")[2]).counts) - 1
        return prod(extents[:loop]) * -(-extents[loop] // CHUNK)
    if schedule.startswith("strips"):
        return prod(extents[: kernel.row_axes - 1]) * -(-extents[kernel.row_axes - 1] // strip_multiple(kernel))
    return prod(extents[: kernel.row_axes])


def _grain(time: float, count: int) -> int:
    """The grain: units that are worth one thread, of `count` that take so many seconds."""
    pieces = max(1, int(time / THREAD_SECONDS))
    return max(1, -(-count // pieces))


def _parts(kernel: KernelIR, columns: int, extents: tuple[int, ...]) -> int:
    """Parts of a row of about PART_ELEMENTS elements.

    Each has a power of two of segments, so that it is a subtree of the pairwise tree of a row that is not split.
    """
    segments = prod(extents[kernel.row_axes : -1]) * -(-extents[-1] // SEGMENT)
    each = 1
    while each * columns < segments * PART_ELEMENTS:
        each *= 2
    return max(1, -(-segments // each))


def _split(kernel: KernelIR, rows: int, columns: int, extents: tuple[int, ...]) -> CpuLaunch:
    """Split rows: parts of about PART_ELEMENTS elements, two stages per phase."""
    parts = _parts(kernel, columns, extents)
    stages, grain = [], _grain(seconds(kernel, extents), rows * parts * len(kernel.phases))
    for p in range(len(kernel.phases)):
        stages += [CpuStage(f"phase{p}", rows * parts, grain), CpuStage(f"merge{p}", rows, rows)]
    return CpuLaunch(tuple(stages), split_bytes(kernel, rows, columns, parts), parts)


def _split_scan(kernel: KernelIR, rows: int, columns: int, extents: tuple[int, ...]) -> CpuLaunch:
    """Split scans: parts of about PART_ELEMENTS elements, read twice."""
    parts = _parts(kernel, columns, extents)
    grain = _grain(seconds(kernel, extents), rows * parts)
    stages = (
        CpuStage("totals", rows * parts, grain),
        CpuStage("merge", rows, rows),
        CpuStage("prefixes", rows * parts, grain),
    )
    return CpuLaunch(stages, scan_bytes(kernel, rows, parts), parts)


def _cross(kernel: KernelIR, rows: int, columns: int, extents: tuple[int, ...]) -> CpuLaunch:
    """Row-and-column reductions: a stage over parts of the rows, then one over columns."""
    parts = row_column_parts(rows)
    stages = (
        CpuStage("rows", parts, _grain(seconds(kernel, extents), parts)),
        CpuStage("columns", columns, max(1, PART_ELEMENTS // max(1, parts))),
    )
    return CpuLaunch(stages, row_column_bytes(kernel, parts, columns), parts)
