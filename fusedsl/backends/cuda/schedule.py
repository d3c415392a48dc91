"""Chooses the schedule of a kernel: its family, and how its iterations map to threads. A schedule has its reason."""

from __future__ import annotations

from ...hardware import Hardware
from ...kernel_ir.kernel import KernelIR, RowColumnKernel
from .batch_invariant import batch_invariant_form
from .byte_table.choose import with_byte_tables
from .columns.schedule import schedule_columns
from .elementwise.broadcast_schedule import schedule_broadcast
from .elementwise.schedule import schedule_elementwise
from .elementwise.transpose_schedule import schedule_transpose
from .matmul.schedule import schedule_matmul
from .radix_select.schedule import schedule_selection
from .rows.choose import choose_rows
from .rows_and_columns.schedule import schedule_rows_and_columns
from .scan.schedule import has_scans, schedule_scan
from .scatter.schedule import schedule_scatter
from .schedule_base import Schedule
from .sort.sort_method import sort_of
from .sort.split_topk_schedule import schedule_order


def choose_with_tables(
    kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, flexible: bool = True
) -> tuple[KernelIR, Schedule]:
    """(kernel, schedule), with tables of what is computed of bytes where the schedule has a place for them."""
    tables = with_byte_tables(kernel, hardware)
    if tables.tables:
        schedule = choose(tables, extents, hardware, flexible)
        if schedule.holds_tables(tables):
            return tables, schedule
    return kernel, choose(kernel, extents, hardware, flexible)


def choose(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware, flexible: bool = True) -> Schedule:
    """The schedule of a kernel. A row schedule that is not `resident` asks for a kernel that is not.

    A kernel that folds rows and columns has one only where `schedule_rows_and_columns` finds it. Unless
    `flexible`, lanes and levels of columns are compiled.
    """
    if kernel.batch_invariant_width and kernel.row_axes:
        kernel, extents = batch_invariant_form(kernel, extents)
    if isinstance(kernel, RowColumnKernel):
        schedule = schedule_rows_and_columns(kernel, extents, hardware)
        assert schedule is not None
        return schedule
    if kernel.scatters:
        return schedule_scatter(kernel, extents, hardware)
    if sort_of(kernel):
        return schedule_selection(kernel, extents, hardware, schedule_order(kernel, extents, hardware))
    if has_scans(kernel):
        return schedule_scan(kernel, extents, hardware)
    products = schedule_matmul(kernel, extents, hardware)
    if products is not None:
        return products
    if kernel.row_vector_width:
        return schedule_columns(kernel, extents, hardware, flexible)
    if kernel.row_axes:
        return choose_rows(kernel, extents, hardware, flexible)
    moved = schedule_transpose(kernel, extents, hardware) or schedule_broadcast(kernel, extents, hardware)
    return moved or schedule_elementwise(kernel, hardware)
