"""Schedules and launches of sorts on the CPU: rows one after another, or rows that NumPy sorts in memory."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...kernel_ir.kernel import KernelIR
from ..cuda.sort.sort_method import sort_of
from .core_time import seconds
from .launch_stages import ROW_SORT, CpuLaunch, CpuStage
from .sort import row_sort, row_sort_operand
from .workspace import in_workspace


def sort_schedule(kernel: KernelIR, extents: tuple[int, ...], strides: tuple[tuple[int, ...], ...]) -> str:
    """The schedule of a kernel that sorts (see `schedule.choose`)."""
    library, operand = row_sort(kernel, extents), row_sort_operand(kernel, extents, strides)
    if library is None:
        return "rows"
    if library.count:
        return "sorted:best"
    return "sorted" if operand is None else f"sorted:{operand}"


def sort_launch(kernel: KernelIR, operand: str, extents: tuple[int, ...], grain: int) -> CpuLaunch:
    """Sorts in memory: keys, NumPy's sort, and ranks unless the elements are where they are wanted."""
    rows, library, wanted = prod(extents[: kernel.row_axes]), row_sort(kernel, extents), sort_of(kernel)
    assert library is not None and wanted is not None
    names, memory = ["keys", ROW_SORT], 0
    if operand.isdigit():
        library = replace(library, operand=int(operand))
    else:
        names, (library, memory) = [*names, "ranks"], in_workspace(wanted, library, rows)
    stages = tuple(CpuStage(name, rows, grain) for name in names)
    return CpuLaunch(stages, memory, unit_seconds=seconds(kernel, extents) / max(1, rows), row_sort=library)
