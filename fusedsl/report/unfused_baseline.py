"""The unfused baseline: launches, bytes and time of one kernel per operation (matmuls timed as our own)."""

from __future__ import annotations

from dataclasses import dataclass

from ..backends.cuda.matmul.schedule import EDGE, THREADS
from ..fusion.roofline import Work, seconds
from ..fusion.unfused_cost import UnfusedKernel, unfused_kernels
from ..hardware import Hardware
from ..kernel_ir.matmul_axes import SMALL
from ..program.instruction_counts import matmul_instructions
from ..program.resolve_call import ResolvedCall


@dataclass(frozen=True)
class UnfusedBaseline:
    """The launches of NumPy or CuPy for the same graph: one kernel per operation, each through memory."""

    kernels: int
    bytes: int
    operations: tuple[str, ...]
    seconds: float | None = None


def unfused_baseline(call: ResolvedCall) -> UnfusedBaseline:
    """The unfused run of a call."""
    steps, hardware = unfused_kernels(call.graph, call.extents), call.target.hardware
    time = None if hardware is None else sum(_seconds(s, hardware) for s in steps)
    return UnfusedBaseline(len(steps), sum(s.bytes for s in steps), tuple(s.operation for s in steps), time)


def _seconds(step: UnfusedKernel, hardware: Hardware) -> float:
    if step.sides is None or any(n < least for n, least in zip(step.sides[1:], SMALL)):
        return seconds(Work(step.read, step.written, step.instructions), hardware)
    batch, rows, columns, terms = step.sides
    issued = matmul_instructions(*step.sides) + batch * rows * columns * 3  # … with two loads and a store each
    double = batch * rows * columns * terms if step.double else 0
    blocks = batch * -(-rows // EDGE) * -(-columns // EDGE)
    return seconds(Work(step.read, step.written, issued, double=double, chain=issued / (blocks * THREADS)), hardware)
