"""From a kernel and its schedule to a readable file, and from the file to machine code."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...hardware import Hardware, hardware_facts, registers_for
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.parameters import slots
from .attention.mma_emit import warps_source
from .attention.sm90_emit import attend_source
from .batched_emit import many_source
from .columns.emit import column_source
from .combo import Bundle, BundleSchedule, threads_of
from .combo_emit import bundle_source
from .compiler.wrapping_integers import wrapping
from .elementwise.emit import map_source
from .elementwise.transpose_emit import transpose_source
from .matmul.emit import contract_source
from .rows.emit import row_source
from .rows.emit_cooperative import gang_source
from .rows.emit_persistent import staying_source
from .rows_and_columns.emit import cross_source
from .schedule import (
    AttendSchedule,
    ColumnSchedule,
    ContractSchedule,
    CrossSchedule,
    GangSchedule,
    MapSchedule,
    RowSchedule,
    Schedule,
    TransposeSchedule,
    WarpSchedule,
)

WRITERS: dict[type, Callable[[KernelIR, Any], str]] = {
    MapSchedule: map_source,
    RowSchedule: row_source,
    ColumnSchedule: column_source,
    GangSchedule: gang_source,
    TransposeSchedule: transpose_source,
    CrossSchedule: cross_source,
    ContractSchedule: contract_source,
    AttendSchedule: attend_source,
    WarpSchedule: warps_source,
}


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


def generate(kernel: KernelIR | Bundle, schedule: Schedule | BundleSchedule) -> str:
    """The source text of a kernel's file; it needs no Numba."""
    if isinstance(kernel, Bundle):
        assert isinstance(schedule, BundleSchedule)
        parts = [generate(part, one) for part, one in zip(kernel.kernels, schedule.members)]
        source = bundle_source(parts, kernel, schedule)
        return _chained(source) if any(part.chained for part in kernel.kernels) else source
    assert not isinstance(schedule, BundleSchedule)
    if isinstance(schedule, RowSchedule) and schedule.stays:
        source = staying_source(kernel, schedule)
    else:
        source = WRITERS[type(schedule)](kernel, schedule)
    source = many_source(source, kernel) if kernel.table is not None else source
    return _chained(source) if kernel.chained and not kernel.part else source


def _chained(source: str) -> str:
    """The same with the kernel's first statement: it lets the next launch begin, and waits for the one before."""
    lines = source.splitlines()
    start = max(k for k, line in enumerate(lines) if line.startswith("def kernel("))
    body = next(k for k in range(start, len(lines)) if lines[k].endswith("):")) + 1
    body += lines[body].lstrip().startswith('"""')
    return "\n".join([*lines[:body], "    take_turn()", *lines[body:]]) + "\n"


def lowered(source: str, path: str, kernel: Any, schedule: Any, cc: tuple[int, int], blocks: int = 0) -> bytes:
    """LTO-IR of a generated file; `path` is where the source was written, for tracebacks."""
    from .compiler import frontend, numba_backend
    from .compiler.namespace import namespace
    from .math.fastmath import approximated, approximations

    names: dict[str, Any] = {"__builtins__": {}, "__name__": "fusedsl.generated", **namespace()}
    tree = wrapping(ast.parse(source, path))
    if kernel.kernels[0].fast if isinstance(kernel, Bundle) else kernel.fast:
        tree, names = approximated(tree), names | approximations()
    exec(compile(tree, path, "exec"), names)
    words = [numba_backend.types.int64] * len(kernel.slots if isinstance(kernel, Bundle) else slots(kernel))
    if isinstance(kernel, KernelIR) and kernel.table is not None:
        words = [numba_backend.Words(kernel.table.words)]
    bounds = (threads_of(schedule), blocks or schedule.blocks)
    if isinstance(schedule, (AttendSchedule, WarpSchedule)):  # others are measured as Numba lowers them
        with contextlib.suppress(frontend.Unsuited):
            return frontend.lowered(tree, names, words, cc, bounds)
    return numba_backend.lower(names["kernel"], words, cc, bounds)


def _fewer(hardware: Hardware, blocks: int, threads: int, spilled: int) -> int:
    """The next number of blocks that leaves each thread more registers: half of what it spilled (in bytes), or more."""
    now = registers_for(hardware, blocks, threads)
    least = now + max(1, min(spilled // 8, hardware.thread_registers - now))
    return next((b for b in range(blocks - 1, 0, -1) if registers_for(hardware, b, threads) >= least), 1)


def compile_source(source: str, path: str, kernel: Any, schedule: Any, cc: tuple[int, int]) -> Compiled:
    """Machine code of a generated file, for this compute capability; needs no GPU.

    Where the schedule asks for so many blocks on an SM that values would spill, fewer are asked for; but not where
    blocks wait for each other, so that all have to be there.
    """
    from .compiler import numba_backend

    blocks, threads = schedule.blocks, threads_of(schedule)
    while True:
        found = numba_backend.link(lowered(source, path, kernel, schedule, cc, blocks), cc)
        if not found.spill_bytes or blocks == 1 or getattr(schedule, "together", False):
            taken = {name: getattr(found, name) for name in Compiled.__dataclass_fields__ if name != "blocks"}
            return Compiled(blocks=blocks, **taken)
        blocks = _fewer(hardware_facts(cc), blocks, threads, found.spill_bytes)


def ptx(source: str, path: str, kernel: Any, schedule: Any, cc: tuple[int, int]) -> str:
    """The PTX of a generated file, to look at."""
    from .compiler import numba_backend

    return numba_backend.ptx(lowered(source, path, kernel, schedule, cc), cc)
