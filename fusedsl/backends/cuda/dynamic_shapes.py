"""Schedules for rows and columns of any length: what a kernel has once several of its lengths are compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...hardware import Hardware
from ...kernel_ir.kernel import KernelIR, Operand
from .columns.schedule import schedule_dynamic_columns
from .matmul.general_schedule import schedule_general_product
from .matmul.schedule import schedule_matmul
from .radix_select.schedule import schedule_selection
from .rows.cooperative import schedule_cooperative
from .rows.dynamic_threads import generic_resident
from .rows.looped import SHORT, generic_looped
from .rows.smem import schedule_smem
from .scan.schedule import generic_scan, has_scans
from .schedule_base import Schedule
from .sort.sort_method import sort_of
from .sort.split_topk_schedule import generic_order

Pair = tuple[KernelIR, KernelIR]
"""A kernel for rows that are held, and the same for rows that are not."""


def schedule_dynamic_shapes(
    rows: Pair, across: Pair | None, extents: tuple[int, ...], hardware: Hardware, listed: bool = False
) -> tuple[KernelIR, Schedule] | None:
    """A kernel and a schedule that serve these extents among many others; None where those of few classes do anyhow.

    Of arrays it does not matter whether their rows are aligned, nor where there is but one row whether there might be
    several. `across` are the kernels whose vectors lie across columns, where arrays lie so. Where it is `listed`, its
    blocks are to stand among those of other calls, if there are enough rows for that.
    """
    product = schedule_matmul(rows[0], extents, hardware)
    if product is not None:
        may_share = product.length_specialized and not listed
        return schedule_general_product(rows[0], extents, hardware) if may_share else None
    held, streamed = (_alike(kernel, extents) for kernel in across or rows)
    if held.batch_invariant_width:
        return None
    if sort_of(held):
        ordered, schedule = generic_order(held, streamed, extents, hardware)
        selection = schedule_selection(streamed, extents, hardware, schedule)
        return (ordered, schedule) if selection is schedule else (streamed, selection)
    if has_scans(held):
        return generic_scan(None if listed else held, streamed, extents, hardware)
    if across:
        return streamed, schedule_dynamic_columns(streamed, extents, hardware, listed)
    line = None if listed else generic_resident(held, extents, hardware)
    if line is not None:
        return held, line
    few = prod(extents[: held.row_axes]) < hardware.multiprocessors
    cooperative = schedule_cooperative(streamed, extents, hardware) if few else None
    if cooperative is not None and not cooperative.fixed_blocks:
        return streamed, cooperative
    shared = schedule_smem(streamed, extents, hardware) if extents[-1] > SHORT and not listed else None
    if shared is not None and shared.cluster == 1:
        return streamed, shared
    shorter = (*extents[: held.row_axes], *(1,) * held.column_axes)
    return streamed, generic_looped(
        streamed, extents, hardware, listed or generic_resident(held, shorter, hardware) is None
    )


def _alike(kernel: KernelIR, extents: tuple[int, ...]) -> KernelIR:
    """The kernel for arrays of which is known as little as is ever the case with neighbours along the same axis."""
    if kernel.row_vector_width:
        operands = tuple(replace(operand, access="element") for operand in kernel.operands)
        width = kernel.row_vector_width if kernel.is_pairwise else 1
        return replace(kernel, row_vector_width=width, operands=operands)
    single = [
        a for a in range(kernel.row_axes) if extents[a] == 1 and all(o.strides[a] == "0" for o in kernel.operands)
    ]
    return replace(kernel, operands=tuple(_split(kernel, operand, single) for operand in kernel.operands))


def _split(kernel: KernelIR, operand: Operand, single: Sequence[int]) -> Operand:
    """An array whose rows may begin anywhere: those that vary from row to row as all others do. Nothing is known of the
    axes that are `single`."""
    stride_kinds = list(operand.strides)
    for axis in single:
        stride_kinds[axis] = "s"
    varies = "0" not in stride_kinds[: kernel.row_axes]
    split = operand.access != "element" and kernel.column_axes == 1
    access = ("peeled" if varies else "element") if split else operand.access
    return replace(operand, strides="".join(stride_kinds), access=access)
