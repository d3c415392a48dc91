"""The loops of a saved file that run a kernel on the CPU: those for its call, else those for any call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..backends.cpu import schedule
from ..ir.dims import Symbol
from ..kernel_ir.kernel import KernelIR
from ..kernel_ir.plan import KernelPlan
from ..runtime.bind_shapes import bind_general
from ..runtime.bound_kernel import BoundKernel
from ..runtime.compile import plain_kernel, scheduled_cpu
from ..runtime.layout import ArrayLayout

Layouts = Mapping[tuple[str, int], ArrayLayout]
Loops = tuple[KernelIR, str, BoundKernel]
"""A kernel, the name of its loops, its bound shapes."""


def general_loops(plan: KernelPlan, layouts: Layouts, extents: Mapping[Symbol, int]) -> Loops:
    """The loops for any layout and any extents."""
    bound = bind_general(plan, layouts, extents)
    kernel = plain_kernel(bound.kernel)
    return kernel, schedule.general(kernel), bound


def loops_for(plan: KernelPlan, bound: BoundKernel, layouts: Layouts, extents: Mapping[Symbol, int]) -> Iterator[Loops]:
    """The loops that may run a kernel, fastest first."""
    kernel, chosen = scheduled_cpu(bound)
    yield kernel, chosen, bound
    if (plainer := schedule.general(kernel)) != chosen:
        yield kernel, plainer, bound
    yield general_loops(plan, layouts, extents)
