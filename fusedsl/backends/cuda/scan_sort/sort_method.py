"""Sort methods: how a row is sorted or its top k found, with their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.phase import Sort


@dataclass(frozen=True)
class SortMethod:
    """How the order of a row is found; a thread holds `per_thread` places of it (0: they are looped over).

    "rounds": the best is taken out again and again. "sort": the row is sorted in `size` slots of shared memory.
    "choose": what passes the last of the best so far is gathered behind `keep` slots, and sorted where it comes to
    more than `limit`. "merge": runs of `size` are sorted, then merged in global memory.
    """

    method: Literal["rounds", "sort", "choose", "merge"]
    per_thread: int
    size: int = 0
    keep: int = 0
    limit: int = 0


def sort_of(kernel: KernelIR) -> Sort | None:
    """The order that a kernel finds."""
    return next((phase.sort for phase in kernel.phases if phase.sort), None)
