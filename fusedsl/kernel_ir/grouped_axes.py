"""Axes of products that are folded in panels or groups, and strides of what is the same for each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from .phase import Phase
from .plan import KernelPlan


def axes_of_groups(kernel: KernelPlan, axis: int) -> tuple[int, ...]:
    """The row axes that number the groups along an axis: of the factor that varies along it, and not of the other."""
    bodies = [body for product in kernel.resident[0].products for body in (product.left, product.right)]
    factors = [_axes(kernel, {v.name for v in body.args}) for body in bodies]
    own = next((f for f in factors if axis in f), set())
    other = next((f for f in factors if axis not in f), set())
    return tuple(a for a in range(len(kernel.rows)) if a in own - other and a != axis)


def _axes(kernel: KernelPlan, names: set[str]) -> set[int]:
    """The axes along which what is loaded under these names varies."""
    arrays = [kernel.arrays[load.operand] for load in kernel.loads if load.value.name in names]
    return {c.axis for use in arrays for c in use.at if c.axis is not None}


def with_periodic_strides(
    kernel: KernelPlan, extents: Sequence[int], strides: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], ...]:
    """The strides of a kernel's arrays, where those that are the same for each group go on behind it: so the axes of
    the groups merge, and a position in a group is one in all of them, modulo its size."""
    groups = kernel.resident[0].groups
    if groups is None:
        return strides
    lines = [list(line) for line in strides]
    outer = axes_of_groups(kernel, groups.axis)
    for k in groups.periodic:
        for a in outer:
            inner = [extents[b] for b in outer if b > a]
            lines[k][a] = lines[k][groups.axis] * extents[groups.axis] * prod(inner)
    return tuple(map(tuple, lines))


def over_merged_axes(phase: Phase, rows: Sequence[int], merged: Sequence[tuple[int, ...]]) -> Phase:
    """The phase, whose panels or groups lie along merged axes. Groups have a size if theirs is the innermost of one."""
    if phase.panel_folds is not None:
        return replace(phase, panel_folds=replace(phase.panel_folds, axis=merged.index((phase.panel_folds.axis,))))
    if phase.groups is None:
        return phase
    own = phase.groups.axis
    axis = next((n for n, axes in enumerate(merged) if axes and axes[-1] == own), -1)
    return replace(phase, groups=replace(phase.groups, axis=axis, size=rows[own] if axis >= 0 else 0))
