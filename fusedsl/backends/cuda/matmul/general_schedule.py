"""General products: the few schedules that ragged matrix products of all extents share, once the quota is used up."""

from __future__ import annotations

from dataclasses import replace

from ....hardware import Hardware
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.matmul_operands import matmul_operands
from ..schedule_base import Extents
from .block_shapes import block_shapes
from .mma_schedule import CHAIN, MmaMatmulSchedule, fastest
from .tile_shapes import FmaTileShape

SPLITS = (8,)  # blocks that share the steps of a tile, if several do


def schedule_general_product(
    kernel: KernelIR, extents: Extents, hardware: Hardware
) -> tuple[KernelIR, MmaMatmulSchedule] | None:
    """A kernel that loads single elements, and its schedule: the largest or the smallest tile, split or not.

    None if no instruction multiplies the operands, or shared memory is too small.
    """
    operands = tuple(replace(operand, near_access="element") for operand in kernel.operands)
    kernel = replace(kernel, operands=operands)
    multiplied = matmul_operands(kernel)
    if multiplied is None or hardware.cc < (8, 0):
        return None
    shapes = block_shapes(kernel, multiplied)
    fitting = [one for one in shapes if fastest(kernel, multiplied, ((one,), ()), extents, hardware)]
    schedule = fastest(kernel, multiplied, ((*fitting[:1], *fitting[-1:]), SPLITS), extents, hardware)
    if schedule is None:
        return None
    chain = CHAIN if isinstance(schedule.tile, FmaTileShape) else schedule.chain
    general = replace(schedule, vectors=replace(schedule.vectors, partial=True), chain=chain)
    return (kernel, general) if general.smem_bytes <= hardware.block_shared else None
