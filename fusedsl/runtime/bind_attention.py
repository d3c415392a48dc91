"""Binds attention to the arrays of a call: lengths, pages, and operands that tensor cores read."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.types import INT64
from ..kernel_ir.attention import AttentionBody
from ..kernel_ir.kernel import AttentionKernel, Operand
from ..kernel_ir.plan import KernelPlan
from .bound_kernel import BoundArrays, BoundKernel, access_of
from .layout import ALIGNMENT


def bind_attention(
    plan: KernelPlan, attention: AttentionBody, extents: tuple[int, ...], bound: BoundArrays, symbolic_units: bool
) -> BoundKernel:
    """An attention kernel: its axes are not merged, and a unit stride is recognised on any axis."""
    lines = [tuple(0 if n == 1 and not symbolic_units else s for n, s in zip(extents, line)) for line in bound.strides]
    access = [
        access_of(line, use.dtype.itemsize, address) if attention.running_reference else "element"
        for use, line, address in zip(plan.arrays, lines, bound.addresses)
    ]
    for k, axis, whole in _paged_arrays(plan, attention, bound):
        lines[k] = (*lines[k][:axis], 1, *lines[k][axis + 1 :])
        access[k] = "vector" if whole else "element"
    operands = tuple(
        Operand(use.name, use.dtype, "".join("s" if s not in (0, 1) else str(s) for s in line), how)
        for use, line, how in zip(plan.arrays, lines, access)
    )
    kernel = AttentionKernel(
        plan.name,
        plan.header,
        len(plan.rows),
        len(plan.columns),
        plan.inputs,
        operands,
        plan.loads,
        plan.positions,
        tuple(s.value for s in plan.scalars),
        (),
        pointers=plan.pointers,
        lengths=_lengths(plan),
        attention=attention,
        fastmath=plan.fastmath,
        batch_invariant_width=int(plan.batch_invariant),
    )
    return BoundKernel(kernel, extents, tuple(lines), bound.offsets, bound.byte_strides)


def _lengths(plan: KernelPlan) -> tuple[str, ...]:
    """The integer scalars that are extents of the kernel's axes."""
    axes = (*plan.rows, *plan.columns)
    uses = [s for s in plan.scalars if s.kind == "extent" and s.source in axes]
    return tuple(s.value.name for s in uses if s.value.dtype is INT64)


def _paged_arrays(plan: KernelPlan, stream: AttentionBody, bound: BoundArrays) -> Iterator[tuple[int, int, bool]]:
    """The paged arrays: operand, the iteration axis that is contiguous in memory, whether rows are 16-byte aligned."""
    axes = (stream.scores[0].axis, *(w.axis for w in stream.weighted_sums))
    for line, axis in zip((stream.paged.k, stream.paged.v) if stream.paged else (), axes):
        if line is None:
            continue
        steps, size = list(bound.byte_strides[line.operand]), plan.arrays[line.operand].dtype.itemsize
        if steps.pop(line.inner_axis) == size:
            whole = not bound.addresses[line.operand] and all(step % ALIGNMENT == 0 for step in steps)
            yield line.operand, axis, whole
