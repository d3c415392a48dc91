"""The unfused baseline: launches, bytes and time of one kernel per operation, matrix products by a library."""

from __future__ import annotations

from dataclasses import dataclass

from ..fusion.roofline import Work, seconds
from ..fusion.unfused_cost import UnfusedKernel, unfused_kernels
from ..hardware import Hardware
from ..program.product_work import library_seconds
from ..program.resolve_call import ResolvedCall

MIN_GEMM_EXTENT = 2  # of M, N and K: a product with a smaller extent is a matrix-vector or outer product


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
    size, dtype = step.problem_size, step.operand_dtype
    if size is None or dtype is None or dtype.kind != "f" or min(size[1:]) < MIN_GEMM_EXTENT:
        return seconds(Work(step.read, step.written, step.instructions), hardware)
    return library_seconds(size, dtype, step.bytes, hardware, tf32)
