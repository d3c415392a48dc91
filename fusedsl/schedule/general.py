"""Schedules for rows and columns of any length: what a kernel has once several of its lengths are compiled."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from ..hardware import Hardware
from .column import schedule_strips
from .kernel import Kernel, Operand
from .line import line_of
from .looped import SHORT, loop_of
from .ranking import selection
from .scan import has_scans, scan_of
from .select import select_of
from .shared import schedule_shared

if TYPE_CHECKING:
    from . import Schedule

Pair = tuple[Kernel, Kernel]
"""A kernel for rows that are held, and the same for rows that are not."""


def schedule_general(
    rows: Pair, across: Pair | None, extents: tuple[int, ...], hardware: Hardware
) -> tuple[Kernel, Schedule] | None:
    """A kernel and a schedule that serve these extents among many others; None where those of few classes do anyhow.

    Of arrays it does not matter whether their rows are aligned, nor where there is but one row whether there might be
    several. `across` are the kernels whose vectors lie across columns, where arrays lie so.
    """
    held, streamed = (_alike(kernel, extents) for kernel in across or rows)
    if held.steady or held.products:
        return None
    if selection(held):
        return select_of(held, streamed, extents, hardware)
    if has_scans(held):
        return streamed, scan_of(streamed, extents, hardware)
    if across:
        return streamed, schedule_strips(streamed, extents, hardware)
    line = line_of(held, extents, hardware)
    if line is not None:
        return held, line
    several = prod(extents[: held.row_axes]) > 1
    shared = schedule_shared(streamed, extents, hardware) if several and extents[-1] > SHORT else None
    if shared is not None and shared.cluster == 1:
        return streamed, shared
    shorter = (*extents[: held.row_axes], *(1,) * held.column_axes)
    return streamed, loop_of(streamed, extents, hardware, warps=line_of(held, shorter, hardware) is None)


def _alike(kernel: Kernel, extents: tuple[int, ...]) -> Kernel:
    """The kernel for arrays of which is known as little as is ever the case with neighbours along the same axis."""
    if kernel.kept:
        operands = tuple(replace(operand, access="element") for operand in kernel.operands)
        return replace(kernel, kept=1, operands=operands)
    return replace(kernel, operands=tuple(_split(kernel, operand, extents) for operand in kernel.operands))


def _split(kernel: Kernel, operand: Operand, extents: tuple[int, ...]) -> Operand:
    """An array whose rows may begin anywhere: those that vary from row to row as all others do."""
    letters = list(operand.strides)
    for axis in range(kernel.row_axes):
        if extents[axis] == 1:
            letters[axis] = "s"
    varies = "0" not in letters[: kernel.row_axes]
    split = operand.access != "element" and kernel.column_axes == 1
    access = ("anchor" if varies else "element") if split else operand.access
    return replace(operand, strides="".join(letters), access=access)
