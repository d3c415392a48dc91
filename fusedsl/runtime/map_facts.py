"""Facts of bound kernels that CUDA's schedules read: extents that counters divide, loads at neighbouring rows, which
axes elements are near along, whose elements are placed alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..ir.dims import Symbol, evaluate
from ..kernel_ir.kernel import ALIGNED, SHORT, Operand
from ..kernel_ir.memory_access import MergedAxes, is_one_line
from ..kernel_ir.plan import KernelPlan
from .bound_kernel import BoundArrays

DRAWN = ("philox_word", "philox_pair")
MAX_DISTANCE = 128  # elements that a shifted load is apart from one of aligned vectors
NEAR_ROWS, NEAR_COLUMNS = 8, 64  # how far apart loads of a stencil are


def scalar_facts(plan: KernelPlan, extents: Mapping[Symbol, int], bound: BoundArrays) -> dict[str, Any]:
    """What is known of the extents and strides among a kernel's scalars, by field of the kernel."""
    sizes = [s for s in plan.scalars if s.kind == "extent" and s.value.dtype.kind in "iu"]
    values = {s.value.name: evaluate(s.source, extents) for s in sizes}
    facts = {"aligned_scalars": _aligned(plan, values)}
    bodies = [body for phase in plan.resident for body in phase.bodies]
    if plan.is_elementwise and any(i.op == "fetch" for body in bodies for i in body.instructions):
        sources = {s.value.name: s.source for s in plan.scalars if s.kind == "stride"}
        strides = {name: bound.byte_strides[array][axis] for name, (array, axis) in sources.items()}
        facts["short_extents"] = tuple(name for name, value in values.items() if 0 <= value < SHORT)
        facts["short_strides"] = tuple(name for name, value in strides.items() if abs(value) < SHORT)
    return facts


def _aligned(plan: KernelPlan, values: Mapping[str, int]) -> tuple[str, ...]:
    """The extents among the scalars that are multiples of ALIGNED, in a kernel that draws random numbers.

    Then what a vector of neighbours draws is known at compile time to begin with a counter of its own.
    """
    phases = [*plan.resident, *plan.looped]
    if not any(i.op in DRAWN for phase in phases for body in phase.bodies for i in body.instructions):
        return ()
    return tuple(name for name, value in values.items() if value % ALIGNED == 0)


def shifted_loads(
    plan: KernelPlan, operands: tuple[Operand, ...], merged: MergedAxes, bound: BoundArrays
) -> tuple[Operand, ...]:
    """The operands of a map of one axis; those that read an array at constant distances from a load of aligned vectors
    are told by their displacement from it, so that neighbours are read once.
    """
    if len(merged.extents) != 1 or not plan.is_elementwise or plan.scatters:
        return operands
    bases: dict[tuple, int] = {}
    for load in plan.loads:
        k, use = load.operand, plan.arrays[load.operand]
        if operands[k].access == "vector":
            bases.setdefault((use.kind, use.index, use.views), k)
    shifted = list(operands)
    for load in plan.loads:
        k, use = load.operand, plan.arrays[load.operand]
        base = bases.get((use.kind, use.index, use.views), k)
        distance = bound.offsets[k] - bound.offsets[base]
        if k != base and operands[k].strides == "1" and abs(distance) <= MAX_DISTANCE:
            shifted[k] = replace(operands[k], base=base, displacement=distance)
    return tuple(shifted)


def neighbour_rows(plan: KernelPlan, merged: MergedAxes, bound: BoundArrays) -> bool:
    """Whether two loads of a map are of one array, a few rows and columns apart."""
    if not plan.is_elementwise:
        return False
    groups: dict[tuple, list[int]] = {}
    for load in plan.loads:
        k, line = load.operand, merged.strides[load.operand]
        if len(line) < 2 or 0 in line:
            continue
        use, pitch, at = plan.arrays[k], abs(line[-2]), bound.offsets[k]
        others = groups.setdefault((use.kind, use.index, line), [])
        for other in others:
            rows = round((at - other) / pitch)
            if 0 < abs(rows) <= NEAR_ROWS and abs(at - other - rows * pitch) <= NEAR_COLUMNS:
                return True
        others.append(at)
    return False


def columns_are_nearer(merged: MergedAxes, row_axes: int) -> bool:
    """Whether elements of rows lie apart in all arrays that have several, but nearer along columns than along rows."""
    lines = [line for line in merged.strides if any(line[row_axes:])]
    if not row_axes or not lines or any(abs(line[-1]) == 1 for line in lines):
        return False
    return all(abs(line[-1]) < min((abs(s) for s in line[:row_axes] if s), default=0) for line in lines)


def placed_alike(operands: tuple[Operand, ...], merged: MergedAxes, row_axes: int) -> tuple[Operand, ...]:
    """The operands of rows over several column axes: along these an array may be one line, or have another's strides.

    The vectors of a line need no offsets, those of arrays with the same strides share theirs.
    """
    if not row_axes or len(merged.extents) == row_axes + 1:
        return operands
    first: dict[tuple[int, ...], int] = {}
    placed = []
    for k, (operand, line) in enumerate(zip(operands, merged.strides)):
        columns = line[row_axes:]
        one_line, base = is_one_line(merged.extents[row_axes:], columns), first.setdefault(columns, k)
        placed.append(replace(operand, one_line=one_line, strided_as=base if base < k and not one_line else -1))
    return tuple(placed)
