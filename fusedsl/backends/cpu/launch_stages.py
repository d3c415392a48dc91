"""Launches of CPU kernels: stages, each a C function over units of work."""

from __future__ import annotations

from dataclasses import dataclass

ROW_SORT = "row sort"  # the symbol of the stage that NumPy runs


@dataclass(frozen=True)
class CpuStage:
    """One C function over units of work."""

    symbol: str
    count: int  # units
    grain: int  # units that are worth one thread


@dataclass(frozen=True)
class LibrarySort:
    """A stage that sorts rows by NumPy: their dtype, columns, direction, and the operand that they are in."""

    dtype: str
    columns: int
    descending: bool
    operand: int = -1  # -1: the workspace
    count: int = 0  # of the first elements that are wanted, with their positions; 0: all elements, without
    best: int = 0  # bytes in the workspace before these elements
    positions: int = 0  # bytes before their positions


@dataclass(frozen=True)
class CpuLaunch:
    """The stages of a kernel, in order.

    A split or cross kernel has two slots after slots(kernel): the address of the workspace, and `parts`. The runner of
    runtime/thread_pool.py fills them.
    """

    stages: tuple[CpuStage, ...]
    workspace: int = 0  # bytes
    parts: int = 1  # of each row (split), or of all rows (cross)
    unit_seconds: float = 0.0  # about the time of the longest unit, which nothing interrupts
    row_sort: LibrarySort | None = None  # what the stage ROW_SORT does
