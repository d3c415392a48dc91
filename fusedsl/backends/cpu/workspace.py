"""Workspaces of split and mixed kernels: the arrays, in order, and the size. Imports no llvmlite."""

from __future__ import annotations

from dataclasses import replace

from ...ir.types import INT64
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.phase import Sort
from . import reduce, sort
from .launch_stages import LibrarySort
from .roles import ScratchArray, ValueRoles

MAX_PART_ROWS = 64  # rows of a part of a row-and-column reduction at most: these are merged serially
MIN_PARTS = 16  # parts of few rows


def row_column_parts(rows: int) -> int:
    """The number of parts of the rows of a row-and-column reduction."""
    each = max(1, min(MAX_PART_ROWS, -(-rows // MIN_PARTS)))
    return -(-rows // each)


def row_column_arrays(kernel: KernelIR) -> list[ScratchArray]:
    """A state per part and column."""
    return reduce.state_arrays(kernel.column_reductions, "line", "parts * columns")


def row_column_bytes(kernel: KernelIR, parts: int, columns: int) -> int:
    return _bytes(row_column_arrays(kernel), {"parts * columns": parts * columns})


def split_arrays(kernel: KernelIR) -> list[ScratchArray]:
    """Row values, partial states, per-element scratch values."""
    roles, last = ValueRoles(kernel), len(kernel.phases)
    values = [v for p in range(last) for v in roles.row_results(p)]
    rows = [ScratchArray(f"{v.name}_row", v.dtype, "rows") for v in dict.fromkeys(values)]
    parts = [array for phase in kernel.phases for array in reduce.state_arrays(phase.folds, "part", "rows * parts")]
    return rows + parts + [ScratchArray(v.name, v.dtype, "rows * columns") for _, v in roles.scratch_values]


def split_bytes(kernel: KernelIR, rows: int, columns: int, parts: int) -> int:
    counts = {"rows": rows, "rows * parts": rows * parts, "rows * columns": rows * columns}
    return _bytes(split_arrays(kernel), counts)


def scan_arrays(kernel: KernelIR) -> list[ScratchArray]:
    """A state of each scan for each part of each row."""
    uses = [use for phase in kernel.phases for use in phase.scan_uses]
    return reduce.state_arrays(tuple(uses), "part", "rows * parts")


def scan_bytes(kernel: KernelIR, rows: int, parts: int) -> int:
    return _bytes(scan_arrays(kernel), {"rows * parts": rows * parts})


def row_sort_arrays(order: Sort, selects: bool) -> list[ScratchArray]:
    """The keys of all rows, or integers of keys and columns; where the best are selected, those and their positions."""
    kind = INT64 if sort.packs_pairs(order) and not selects else sort.scratch_dtype(order.key.dtype)
    keys = [ScratchArray("order", kind, "rows * columns")]
    count = f"rows * {order.count}"
    best = [ScratchArray("best", keys[0].dtype, count), ScratchArray("position", INT64, count)]
    return [*keys, *best] if selects else keys


def in_workspace(order: Sort, library: LibrarySort, rows: int) -> tuple[LibrarySort, int]:
    """(the sort of so many rows with its places in the workspace, bytes of it)."""
    arrays = row_sort_arrays(order, library.count > 0)
    counts = {"rows * columns": rows * library.columns, f"rows * {order.count}": rows * library.count}
    ends = [_bytes(arrays[: k + 1], counts) for k in range(len(arrays))]
    return (replace(library, best=ends[0], positions=ends[1]) if library.count else library), ends[-1]


def _bytes(arrays: list[ScratchArray], counts: dict[str, int]) -> int:
    """The size of arrays that are padded to multiples of 64 elements."""
    return sum(-(-counts[array.count] // 64) * 64 * array.dtype.itemsize for array in arrays)
