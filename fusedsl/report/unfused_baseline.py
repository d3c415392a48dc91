"""The unfused baseline: launches, bytes and time of one kernel per operation, matrix products by a library."""

from __future__ import annotations

from dataclasses import dataclass

from ..fusion.roofline import Work, seconds
from ..fusion.unfused_cost import UnfusedKernel, unfused_kernels
from ..hardware import Hardware
from ..program.product_work import library_seconds
from ..program.resolve_call import ResolvedCall

NARROW = 2  # rows, columns or terms of a matrix product; with fewer it is a product with a vector


@dataclass(frozen=True)
class UnfusedStep:
    """One launch of NumPy or CuPy: its operation, the bytes that it moves, and its time by the time model."""

    operation: str
    bytes: int
    instructions: int
    seconds: float | None = None


@dataclass(frozen=True)
class UnfusedBaseline:
    """The launches of NumPy or CuPy for the same graph: one kernel per operation, each through memory."""

    kernels: int
    bytes: int
    operations: tuple[str, ...]
    seconds: float | None = None
    steps: tuple[UnfusedStep, ...] = ()


def unfused_baseline(call: ResolvedCall) -> UnfusedBaseline:
    """The unfused run of a call."""
    launched, hardware = unfused_kernels(call.graph, call.extents), call.target.hardware
    tf32 = call.plans.options.matmul == "tf32"
    steps = tuple(
        UnfusedStep(s.operation, s.bytes, s.instructions, None if hardware is None else _seconds(s, hardware, tf32))
        for s in launched
    )
    time = None if hardware is None else sum(step.seconds or 0.0 for step in steps)
    moved, names = sum(step.bytes for step in steps), tuple(step.operation for step in steps)
    return UnfusedBaseline(len(steps), moved, names, time, steps)


def _seconds(step: UnfusedKernel, hardware: Hardware, tf32: bool) -> float:
    if step.sides is None or step.factors is None or step.factors.kind != "f" or min(step.sides[1:]) < NARROW:
        return seconds(Work(step.read, step.written, step.instructions), hardware)
    return library_seconds(step.sides, step.factors, step.bytes, hardware, tf32)
