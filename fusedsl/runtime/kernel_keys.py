"""The key of a compiled kernel: its statements without numbers of values, its schedule and target."""

from __future__ import annotations

from ..backends.cuda.combo import ComboKernel, ComboSchedule
from ..backends.cuda.schedule import Schedule
from ..kernel_ir.kernel import KernelIR, Operand


def unnumbered(name: str) -> str:
    """A kernel's name without its number in the program: equal kernels are one binary, under its first name."""
    return name.rstrip("0123456789")


def _addressing(o: Operand) -> tuple:
    """How an operand's addresses follow from others, or from the numbers of its elements."""
    return o.base, o.displacement, o.alignment, o.one_line, o.strided_as, *o.image


def kernel_key(kernel: KernelIR | ComboKernel, schedule: Schedule | None) -> tuple:
    """The facts of a kernel that its digest does not contain: axes, stride kinds, accesses, flags.

    Schedules of products read the access along the contiguous axis, others that along the last one.
    """
    if isinstance(kernel, ComboKernel):
        assert isinstance(schedule, ComboSchedule)
        return tuple(map(kernel_key, kernel.kernels, schedule.members))
    along_last = schedule is None or not schedule.multiplies
    operands = tuple(
        (o.dtype.name, o.strides, o.access if along_last else "", o.rank, *_addressing(o)) for o in kernel.operands
    )
    positions = tuple(p.axis for p in kernel.positions)
    near = () if along_last else tuple((o.near, o.near_access) for o in kernel.operands)
    flags = (kernel.resident, kernel.index64, kernel.row_vector_width, kernel.workspace, kernel.semaphores)
    shared = (
        kernel.is_subkernel,
        kernel.batched,
        kernel.constant_scalars,
        kernel.lengths,
        kernel.tma_boxes,
        kernel.pdl,
        kernel.given if schedule is not None and schedule.prefetches else (),
        bool(kernel.batch_invariant_width),
        kernel.tables,
        kernel.aligned_scalars,
        kernel.short_extents,
        kernel.short_strides,
        kernel.neighbour_rows,
        kernel.columns_nearer,
    )
    return (kernel.row_axes, kernel.column_axes, operands, near, positions, *flags, *shared)
