"""Facts of bound maps that CUDA's machine code may rely on: extents that are multiples of what a counter serves."""

from __future__ import annotations

from collections.abc import Mapping

from ..ir.dims import Symbol, evaluate
from ..kernel_ir.kernel import ALIGNED
from ..kernel_ir.plan import KernelPlan

DRAWN = ("philox_word", "philox_pair")


def aligned_scalars(plan: KernelPlan, extents: Mapping[Symbol, int]) -> tuple[str, ...]:
    """The extents among the scalars that are multiples of ALIGNED, in a kernel that draws random numbers.

    Then what a vector of neighbours draws is known at compile time to begin with a counter of its own.
    """
    phases = [*plan.resident, *plan.looped]
    if not any(i.op in DRAWN for phase in phases for body in phase.bodies for i in body.instructions):
        return ()
    sizes = [s for s in plan.scalars if s.kind == "extent"]
    return tuple(s.value.name for s in sizes if evaluate(s.source, extents) % ALIGNED == 0)
