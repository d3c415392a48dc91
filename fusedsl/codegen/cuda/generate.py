"""From a kernel and its schedule to a readable file, and from the file to machine code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...schedule import MapSchedule, Schedule
from ...schedule.kernel import Kernel, slots
from .map import map_source
from .row import row_source


@dataclass(frozen=True)
class Compiled:
    """Machine code of a generated file, its entry point, and what the linker found that it takes."""

    code: bytes
    function: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    log: str
    blocks: int  # that were asked to fit on an SM


def generate(kernel: Kernel, schedule: Schedule) -> str:
    """The source text of a kernel's file; it needs no Numba."""
    return map_source(kernel, schedule) if isinstance(schedule, MapSchedule) else row_source(kernel, schedule)


def lowered(source: str, path: str, kernel: Kernel, schedule: Schedule, cc: tuple[int, int], blocks: int = 0) -> bytes:
    """LTO-IR of a generated file; `path` is where the source was written, for tracebacks."""
    from . import backend, intrinsics

    names: dict[str, Any] = {"__builtins__": {}, "__name__": "fusedsl.generated", **intrinsics.namespace()}
    exec(compile(source, path, "exec"), names)
    threads = schedule.threads if isinstance(schedule, MapSchedule) else schedule.block
    return backend.lower(names["kernel"], len(slots(kernel)), cc, (threads, blocks or schedule.blocks))


def compile_source(source: str, path: str, kernel: Kernel, schedule: Schedule, cc: tuple[int, int]) -> Compiled:
    """Machine code of a generated file, for this compute capability; needs no GPU.

    Where the schedule asks for so many blocks on an SM that values would spill, fewer are asked for.
    """
    from . import backend

    blocks = schedule.blocks
    while True:
        found = backend.link(lowered(source, path, kernel, schedule, cc, blocks), cc)
        if not found.spill_bytes or blocks == 1:
            taken = {name: getattr(found, name) for name in Compiled.__dataclass_fields__ if name != "blocks"}
            return Compiled(blocks=blocks, **taken)
        blocks = max(1, blocks - max(1, blocks // 5))


def ptx(source: str, path: str, kernel: Kernel, schedule: Schedule, cc: tuple[int, int]) -> str:
    """The PTX of a generated file, to look at."""
    from . import backend

    return backend.ptx(lowered(source, path, kernel, schedule, cc), cc)
