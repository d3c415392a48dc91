"""The work of our own kernels of matrix products in memory, for the time model: by the clocks of their schedules."""

from __future__ import annotations

from ..backends.cuda.matmul.mma_schedule import MmaMatmulSchedule, mma_clocks
from ..backends.cuda.matmul.sm90.clock_model import predicted_clocks
from ..backends.cuda.matmul.sm90.layout import Sm90MatmulSchedule
from ..backends.cuda.skinny.schedule import SkinnySchedule
from ..backends.cuda.small_matmul.schedule import SmallMatmulSchedule
from ..fusion.roofline import TENSOR_SHARE
from ..hardware import Hardware
from ..kernel_ir.matmul_operands import matmul_operands
from .kernel_launch import KernelLaunch


def matmul_products(launch: KernelLaunch, hardware: Hardware) -> float | None:
    """Multiply-adds of the tensor cores that take as long as the products of a kernel; None for other kernels."""
    clocks = _clocks(launch, hardware)
    return None if clocks is None else clocks / hardware.clock * hardware.rate(hardware.tensor) * TENSOR_SHARE


def _clocks(launch: KernelLaunch, hardware: Hardware) -> float | None:
    """Clocks of an SM with the most tiles, 0 if memory is the limit. None: other kernels."""
    schedule, operands = launch.schedule, matmul_operands(launch.kernel)
    if operands is None:
        return None
    if isinstance(schedule, Sm90MatmulSchedule):
        return predicted_clocks(schedule, launch.kernel, schedule.oriented(launch.kernel), launch.extents, hardware)
    if isinstance(schedule, MmaMatmulSchedule):
        return mma_clocks(schedule, launch.kernel, operands, launch.extents, hardware)
    return 0.0 if isinstance(schedule, (SkinnySchedule, SmallMatmulSchedule)) else None
