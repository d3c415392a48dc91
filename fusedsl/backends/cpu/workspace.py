"""What split and cross kernels keep in a workspace: its arrays, in order, and its size. Imports no Numba."""

from __future__ import annotations

from ...kernel_ir.kernel import KernelIR
from . import reduce
from .roles import Array, Roles

ROWS = 64  # of a part of a cross kernel at most: so many are added one after another
PARTS = 16  # that few rows are cut into


def cross_parts(rows: int) -> int:
    """The parts that so many rows of a cross kernel are cut into."""
    each = max(1, min(ROWS, -(-rows // PARTS)))
    return -(-rows // each)


def cross_arrays(kernel: KernelIR) -> list[Array]:
    """A line of states for each part."""
    return reduce.state_arrays(kernel.column_reductions, "line", "parts * columns")


def cross_bytes(kernel: KernelIR, parts: int, columns: int) -> int:
    return _bytes(cross_arrays(kernel), {"parts * columns": parts * columns})


def split_arrays(kernel: KernelIR) -> list[Array]:
    """Values of rows, the parts' states, elements that are held."""
    roles, last = Roles(kernel), len(kernel.phases)
    values = [v for p in range(last) for v in roles.made_by_row(p)]
    rows = [Array(f"{v.name}_row", v.dtype, "rows") for v in dict.fromkeys(values)]
    parts = [array for phase in kernel.phases for array in reduce.state_arrays(phase.folds, "part", "rows * parts")]
    return rows + parts + [Array(v.name, v.dtype, "rows * columns") for _, v in roles.held]


def split_bytes(kernel: KernelIR, rows: int, columns: int, parts: int) -> int:
    counts = {"rows": rows, "rows * parts": rows * parts, "rows * columns": rows * columns}
    return _bytes(split_arrays(kernel), counts)


def _bytes(arrays: list[Array], counts: dict[str, int]) -> int:
    """The size of arrays that each begin at a multiple of 64 elements."""
    return sum(-(-counts[array.count] // 64) * 64 * array.dtype.itemsize for array in arrays)
