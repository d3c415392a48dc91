"""What a call of a kernel runs on the CPU: calls of C functions, each over units of work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CpuStage:
    """One call of a C function over units of work: `grain` of them are worth a thread."""

    symbol: str
    count: int
    grain: int


@dataclass(frozen=True)
class CpuLaunch:
    """What a call of a kernel runs, in order.

    A split or cross kernel has two slots behind slots(kernel), which `pool.runner` fills: the address of a workspace of
    `workspace` bytes, and `parts`, into which every row is cut, or all rows are.
    """

    stages: tuple[CpuStage, ...]
    workspace: int = 0
    parts: int = 1
