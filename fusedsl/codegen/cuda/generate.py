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


def generate(kernel: Kernel, schedule: Schedule) -> str:
    """The source text of a kernel's file; it needs no Numba."""
    return map_source(kernel, schedule) if isinstance(schedule, MapSchedule) else row_source(kernel, schedule)


def launch_bounds(schedule: Schedule) -> tuple[int, int]:
    """Threads a block, and blocks that must fit on an SM."""
    return (schedule.threads if isinstance(schedule, MapSchedule) else schedule.block), schedule.blocks


def lowered(source: str, path: str, kernel: Kernel, schedule: Schedule, cc: tuple[int, int]) -> bytes:
    """LTO-IR of a generated file; `path` is where the source was written, for tracebacks."""
    from . import backend, intrinsics

    names: dict[str, Any] = {"__builtins__": {}, "__name__": "fusedsl.generated", **intrinsics.namespace()}
    exec(compile(source, path, "exec"), names)
    return backend.lower(names["kernel"], len(slots(kernel)), cc, launch_bounds(schedule))


def compile_source(source: str, path: str, kernel: Kernel, schedule: Schedule, cc: tuple[int, int]) -> Compiled:
    """Machine code of a generated file, for this compute capability; needs no GPU."""
    from . import backend

    found = backend.link(lowered(source, path, kernel, schedule, cc), cc)
    return Compiled(**{name: getattr(found, name) for name in Compiled.__dataclass_fields__})


def ptx(source: str, path: str, kernel: Kernel, schedule: Schedule, cc: tuple[int, int]) -> str:
    """The PTX of a generated file, to look at."""
    from . import backend

    return backend.ptx(lowered(source, path, kernel, schedule, cc), cc)
