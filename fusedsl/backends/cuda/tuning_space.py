"""Tuning space: schedules near a chosen one, each different in one respect, for the same lengths."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ...hardware import Hardware, blocks_for, registers_for
from ...kernel_ir.kernel import KernelIR
from ...kernel_ir.register_pressure import Tiling, predicted_registers, required_registers
from .columns.layout import LoopedColumnSchedule
from .elementwise.schedule import ElementwiseSchedule
from .elementwise.transpose_schedule import TransposeSchedule
from .matmul.mma_schedule import MmaMatmulSchedule
from .matmul.schedule import MatmulSchedule
from .rows.cooperative import CooperativeSchedule
from .rows.persistent_cluster import PersistentClusterSchedule
from .rows.schedule import WARP, LoopedRowSchedule, ResidentRowSchedule
from .rows.smem import SmemRowSchedule
from .rows_and_columns.schedule import RowColumnSchedule
from .scan.schedule import has_scans

MOST = 8  # neighbours that are tried
LEAST_THREADS, MOST_THREADS = 64, 512  # of a map's block
MOST_VECTORS = 8  # of a thread of a map
MOST_HELD = 64  # elements of a row that a thread holds


def tuning_space(schedule: Any, kernel: KernelIR, hardware: Hardware) -> tuple[Any, ...]:
    """At most eight schedules near this one, the most promising first.

    Each runs every length that the chosen one runs, so that what is found for one shape holds for its class.
    """
    near: Iterator[Any]
    match schedule:
        case ElementwiseSchedule():
            near = _of_map(schedule, kernel, hardware)
        case LoopedColumnSchedule() | CooperativeSchedule():
            near = _of_streams(schedule)
        case PersistentClusterSchedule():
            ahead = schedule.prefetch_vectors
            near = (dataclasses.replace(schedule, prefetch_vectors=n) for n in (ahead // 2, 1) if n)
        case ResidentRowSchedule() if not has_scans(kernel):
            near = _of_row(schedule, kernel, hardware)
        case LoopedRowSchedule() | SmemRowSchedule() if not has_scans(kernel):
            near = _of_loop(schedule, kernel, hardware)
        case TransposeSchedule() | MatmulSchedule() | MmaMatmulSchedule() | RowColumnSchedule():
            near = iter(())
        case _:
            near = _bounds(schedule, schedule.block_threads, hardware)
    different = (other for other in near if other != schedule)
    return tuple(dict.fromkeys(different))[:MOST]


def difference(schedule: Any, other: Any) -> str:
    """What is different, as "threads 256 → 128, vectors 4 → 8"."""
    fields = [f.name for f in dataclasses.fields(schedule) if f.compare]
    pairs = [(name, getattr(schedule, name), getattr(other, name)) for name in fields]
    return ", ".join(f"{name} {old} → {new}" for name, old, new in pairs if old != new)


# -- maps


def _of_map(schedule: ElementwiseSchedule, kernel: KernelIR, hardware: Hardware) -> Iterator[ElementwiseSchedule]:
    for vectors in (schedule.vectors * 2, schedule.vectors // 2):
        if 1 <= vectors <= MOST_VECTORS:
            threads = min(MOST_THREADS, max(LEAST_THREADS, schedule.threads * schedule.vectors // vectors))
            yield _fitted_map(schedule, kernel, hardware, vectors, threads)
    for threads in (schedule.threads * 2, schedule.threads // 2):
        if LEAST_THREADS <= threads <= MOST_THREADS:
            yield _fitted_map(schedule, kernel, hardware, schedule.vectors, threads)
    yield from _bounds(schedule, schedule.threads, hardware)


def _fitted_map(
    schedule: ElementwiseSchedule, kernel: KernelIR, hardware: Hardware, vectors: int, threads: int
) -> ElementwiseSchedule:
    need = required_registers(kernel, Tiling(schedule.width, vectors))
    blocks = blocks_for(hardware, need, threads)
    registers = predicted_registers(kernel, hardware, need, blocks, threads)
    return dataclasses.replace(schedule, vectors=vectors, threads=threads, blocks=blocks, registers=registers)


# -- rows


def _of_row(schedule: ResidentRowSchedule, kernel: KernelIR, hardware: Hardware) -> Iterator[ResidentRowSchedule]:
    for threads in (schedule.threads * 2, schedule.threads // 2):
        if 1 <= threads <= hardware.block_threads // schedule.rows:
            reshaped = _reshaped(schedule, kernel, hardware, threads)
            if reshaped.vectors * reshaped.width <= MOST_HELD:
                yield reshaped
    if _loads_later(kernel):
        yield _fitted_row(
            dataclasses.replace(schedule, load_all_first=not schedule.load_all_first, epilogue_vectors=0),
            kernel,
            hardware,
        )
    if schedule.epilogue_vectors:
        yield _fitted_row(dataclasses.replace(schedule, epilogue_vectors=0), kernel, hardware)
        yield _fitted_row(
            dataclasses.replace(schedule, epilogue_vectors=max(1, schedule.epilogue_vectors // 2)), kernel, hardware
        )
    if schedule.threads <= WARP:
        for rows in (schedule.rows * 2, schedule.rows // 2):
            if rows >= 1 and rows * schedule.threads <= hardware.block_threads:
                yield _fitted_row(dataclasses.replace(schedule, rows=rows), kernel, hardware)
    yield from _bounds(schedule, schedule.block_threads, hardware)


def _loads_later(kernel: KernelIR) -> bool:
    """Whether later phases load what the first does not, and may do so early: unaligned rows have no time for it."""
    first = {value.name for value in kernel.phases[0].element.args}
    aligned = all(operand.access != "peeled" for operand in kernel.operands)
    return aligned and any(x.value.name not in first for x in kernel.element_loads)


def _reshaped(schedule: ResidentRowSchedule, kernel: KernelIR, hardware: Hardware, threads: int) -> ResidentRowSchedule:
    """The same rows on so many threads: as long a row fits, and what was always there is."""
    old, new = schedule.vector_stride, schedule.vector_stride * threads // schedule.threads
    vectors = -(-schedule.vectors * old // new)
    whole = schedule.full_vectors * old // new
    rows = max(1, schedule.block_threads // threads) if threads <= WARP else 1
    piece = min(schedule.epilogue_vectors, vectors)
    changed = dataclasses.replace(
        schedule, threads=threads, vectors=vectors, full_vectors=whole, rows=rows, epilogue_vectors=piece
    )
    return _fitted_row(changed, kernel, hardware)


def _of_loop(schedule: Any, kernel: KernelIR, hardware: Hardware) -> Iterator[Any]:
    if not schedule.rows_across_lanes and not schedule.blocked_layout:
        for threads in (schedule.threads * 2, schedule.threads // 2):
            if WARP <= threads <= hardware.block_threads:
                yield _fitted_row(dataclasses.replace(schedule, threads=threads, rows=1), kernel, hardware)
        for vectors in (schedule.vectors * 2, schedule.vectors // 2):
            if vectors >= 1:
                yield _fitted_row(dataclasses.replace(schedule, vectors=vectors), kernel, hardware)
    yield from _bounds(schedule, schedule.block_threads, hardware)


def _fitted_row(schedule: Any, kernel: KernelIR, hardware: Hardware) -> Any:
    """With the blocks that its registers allow."""
    need = required_registers(
        kernel, Tiling(schedule.width, schedule.vectors, schedule.load_all_first, schedule.epilogue_vectors)
    )
    blocks = blocks_for(hardware, need, schedule.block_threads)
    registers = predicted_registers(kernel, hardware, need, blocks, schedule.block_threads)
    return dataclasses.replace(schedule, blocks=blocks, registers=registers)


# -- launch bounds


def _of_streams(schedule: Any) -> Iterator[Any]:
    """Other tiles; not other launch bounds, for blocks that wait for each other have to fit beside each other."""
    for vectors in (schedule.vectors * 2, schedule.vectors // 2):
        if vectors:
            yield dataclasses.replace(schedule, vectors=vectors)


def _bounds(schedule: Any, threads: int, hardware: Hardware) -> Iterator[Any]:
    """The next launch bounds that leave each thread more registers, and fewer."""
    now = registers_for(hardware, schedule.blocks, threads)
    most = min(hardware.blocks, hardware.threads // threads)
    fewer = next((b for b in range(schedule.blocks - 1, 0, -1) if registers_for(hardware, b, threads) > now), 0)
    more = next((b for b in range(schedule.blocks + 1, most + 1) if registers_for(hardware, b, threads) < now), 0)
    for blocks in (fewer, more):
        if blocks:
            yield dataclasses.replace(schedule, blocks=blocks, registers=registers_for(hardware, blocks, threads))
