"""From a kernel and its schedule to a readable file, and from the file to machine code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...hardware import Hardware, facts, registers_for
from ...schedule import ColumnSchedule, CrossSchedule, GangSchedule, MapSchedule, Schedule, TransposeSchedule
from ...schedule.kernel import Kernel, slots
from .column import column_source
from .cross import cross_source
from .gang import gang_source
from .many import many_source
from .map import map_source
from .row import row_source
from .transpose import transpose_source


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
    if isinstance(schedule, MapSchedule):
        source = map_source(kernel, schedule)
    elif isinstance(schedule, TransposeSchedule):
        source = transpose_source(kernel, schedule)
    elif isinstance(schedule, CrossSchedule):
        source = cross_source(kernel, schedule)
    elif isinstance(schedule, ColumnSchedule):
        source = column_source(kernel, schedule)
    elif isinstance(schedule, GangSchedule):
        source = gang_source(kernel, schedule)
    else:
        source = row_source(kernel, schedule)
    return many_source(source, kernel) if kernel.table is not None else source


def lowered(source: str, path: str, kernel: Kernel, schedule: Schedule, cc: tuple[int, int], blocks: int = 0) -> bytes:
    """LTO-IR of a generated file; `path` is where the source was written, for tracebacks."""
    from . import backend, intrinsics

    names: dict[str, Any] = {"__builtins__": {}, "__name__": "fusedsl.generated", **intrinsics.namespace()}
    exec(compile(source, path, "exec"), names)
    words = [backend.types.int64] * len(slots(kernel)) if kernel.table is None else [backend.Words(kernel.table.words)]
    return backend.lower(names["kernel"], words, cc, (_threads(schedule), blocks or schedule.blocks))


def _threads(schedule: Schedule) -> int:
    return schedule.threads if isinstance(schedule, (MapSchedule, TransposeSchedule)) else schedule.block


def _fewer(hardware: Hardware, blocks: int, threads: int) -> int:
    """The next number of blocks that leaves each thread more registers."""
    now = registers_for(hardware, blocks, threads)
    return next((b for b in range(blocks - 1, 0, -1) if registers_for(hardware, b, threads) > now), 1)


def compile_source(source: str, path: str, kernel: Kernel, schedule: Schedule, cc: tuple[int, int]) -> Compiled:
    """Machine code of a generated file, for this compute capability; needs no GPU.

    Where the schedule asks for so many blocks on an SM that values would spill, fewer are asked for; but not where
    blocks wait for each other, so that all have to be there.
    """
    from . import backend

    blocks, threads = schedule.blocks, _threads(schedule)
    while True:
        found = backend.link(lowered(source, path, kernel, schedule, cc, blocks), cc)
        if not found.spill_bytes or blocks == 1 or getattr(schedule, "together", False):
            taken = {name: getattr(found, name) for name in Compiled.__dataclass_fields__ if name != "blocks"}
            return Compiled(blocks=blocks, **taken)
        blocks = _fewer(facts(cc), blocks, threads)


def ptx(source: str, path: str, kernel: Kernel, schedule: Schedule, cc: tuple[int, int]) -> str:
    """The PTX of a generated file, to look at."""
    from . import backend

    return backend.ptx(lowered(source, path, kernel, schedule, cc), cc)
