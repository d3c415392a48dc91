"""The target of a call: this CPU or a GPU, and the call's part in the specialisation quota."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..errors import DeviceError
from ..hardware import Hardware
from ..kernel_ir.plan import KernelPlan
from ..runtime.arrays import CPU, Facts
from ..runtime.bound_kernel import BoundKernel
from ..runtime.driver import driver
from ..runtime.outputs import library_and_device
from . import call_steps
from .plans import Plans

ScheduledKernel = tuple[Any, Any]  # (KernelIR, schedule)
Chooser = Callable[[KernelPlan, BoundKernel, Hardware], ScheduledKernel]


@dataclass(frozen=True)
class CallTarget:
    """The target of a call. `hardware` is None on the CPU."""

    hardware: Hardware | None = None
    cc: tuple[int, int] | None = None  # that kernels are compiled for
    reserve: bool = False  # the call takes its place in the specialisation quota; else later calls are not affected
    alone: bool = False  # its shapes get specialised binaries, whatever was called before
    listed: bool = False  # it is one call of a foreach
    choose: Chooser | None = None  # of schedules on CUDA; None: as the options and the quota say

    @property
    def is_cuda(self) -> bool:
        return self.hardware is not None

    def __str__(self) -> str:
        if self.hardware is None:
            return "CPU"
        major, minor = self.hardware.cc
        return f"CUDA, compute capability {major}.{minor} ({self.hardware.card})"


def architecture(hardware: Hardware) -> CallTarget:
    """The target of kernels for an architecture, on its usual card."""
    return CallTarget(hardware, hardware.cc)


def card(index: int) -> CallTarget:
    """The target of kernels on a present GPU."""
    device = driver().facts(index)
    return CallTarget(call_steps.hardware_of(device), device.cc)


def array_target(plans: Plans, facts: Facts) -> CallTarget:
    """The target of a call of these arrays: their device; DeviceError if the device option excludes it."""
    _, device = library_and_device(facts)
    if device == CPU:
        return CallTarget(reserve=True)
    if plans.options.device == "cpu":
        raise DeviceError(
            f"the arrays are on {device[0]}:{device[1]}, and device is 'cpu'",
            "device.option",
            help="copy them to the CPU, or leave the option out",
        )
    return replace(card(device[1]), reserve=True)
