"""Layouts of temporaries: contiguous, or with aligned rows where a matrix product multiplies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..config import TENSOR_FLOAT
from ..fusion.formulation import AttentionMode
from ..ir.dims import Symbol, evaluate
from ..kernel_ir.plan import ArrayUse, Plan
from .array_protocols import packed_strides
from .layout import ALIGNMENT, ArrayLayout, NeedsCopy, contiguous, view

LEAST_ROW = 128  # bytes of rows that are aligned: gaps between shorter ones would take a large part of memory


def temporary_layouts(plan: Plan, extents: Mapping[Symbol, int]) -> list[ArrayLayout]:
    """The layout of each temporary of a plan.

    TMA and cp.async take 16 bytes from an operand of a product only if its rows begin at multiples of 16 bytes.
    """
    layouts = [contiguous(tuple(evaluate(d, extents) for d in t.shape)) for t in plan.temporaries]
    if plan.attention is AttentionMode.TILE_MAX:  # on CPUs
        return layouts
    for k in set(_multiplied(plan)):
        aligned = _with_aligned_rows(layouts[k], plan.temporaries[k].dtype.itemsize)
        if all(_can_view(aligned, use, extents) for use in _uses(plan, k)):
            layouts[k] = aligned
    return layouts


def size_of(layout: ArrayLayout) -> int:
    """Elements from the first of a temporary to behind its last row."""
    return (
        layout.shape[0] * layout.strides[0] if layout.shape and 0 not in layout.shape else min(layout.shape, default=1)
    )


def _multiplied(plan: Plan) -> Iterator[int]:
    """The temporaries that kernels of products on tensor cores read."""
    for kernel in plan.kernels:
        if any(phase.products for phase in kernel.resident):
            read = (use for use in kernel.arrays[: kernel.inputs] if use.kind == "temporary")
            yield from (u.index for u in read if u.dtype.itemsize <= 2 or kernel.matmul in TENSOR_FLOAT)


def _uses(plan: Plan, temporary: int) -> Iterator[ArrayUse]:
    uses = (use for kernel in plan.kernels for use in kernel.arrays)
    return (use for use in uses if (use.kind, use.index) == ("temporary", temporary))


def _with_aligned_rows(layout: ArrayLayout, itemsize: int) -> ArrayLayout:
    """The layout with rows at multiples of 16 bytes, if they are long enough."""
    shape = layout.shape
    if len(shape) < 2 or shape[-1] * itemsize < LEAST_ROW:
        return layout
    unit = max(1, ALIGNMENT // itemsize)
    return replace(layout, strides=packed_strides((*shape[:-1], -(-shape[-1] // unit) * unit)))


def _can_view(layout: ArrayLayout, use: ArrayUse, extents: Mapping[Symbol, int]) -> bool:
    try:
        view(layout, use.views, extents)
    except NeedsCopy:
        return False
    return True
