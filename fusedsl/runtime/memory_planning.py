"""Memory planning: offsets of a call's temporaries in one workspace, which those of disjoint live ranges share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..ir.dims import Symbol
from ..kernel_ir.plan import Plan
from .temporary_layouts import size_of, temporary_layouts

TEMPORARY_ALIGNMENT = 256  # bytes


class Workspace(NamedTuple):
    """The one allocation of a call, for its temporaries."""

    size: int  # bytes
    offsets: list[int]  # of each temporary, in bytes


def plan_workspace(plan: Plan, extents: Mapping[Symbol, int]) -> Workspace:
    """The size and the offsets of a call's one allocation.

    Temporaries with disjoint live ranges share memory: the largest are placed first, each at the lowest free offset.
    """
    ranges = live_ranges(plan)
    layouts = zip(plan.temporaries, temporary_layouts(plan, extents))
    sizes = [size_of(layout) * t.dtype.itemsize for t, layout in layouts]
    sizes = [-(-size // TEMPORARY_ALIGNMENT) * TEMPORARY_ALIGNMENT for size in sizes]
    offsets = [0] * len(sizes)
    placed: list[int] = []
    for t in sorted(range(len(sizes)), key=lambda t: -sizes[t]):
        overlapping = [p for p in placed if ranges[p][0] <= ranges[t][1] and ranges[t][0] <= ranges[p][1]]
        for p in sorted(overlapping, key=lambda p: offsets[p]):
            if offsets[p] < offsets[t] + sizes[t]:
                offsets[t] = max(offsets[t], offsets[p] + sizes[p])
        placed.append(t)
    return Workspace(max((offset + size for offset, size in zip(offsets, sizes)), default=0), offsets)


def live_ranges(plan: Plan) -> list[tuple[int, int]]:
    """The first and the last launch that use each temporary."""
    ranges: dict[int, tuple[int, int]] = {}
    launches = plan.shared
    for number, launch in enumerate(launches):
        for use in (use for k in launch for use in plan.kernels[k].arrays if use.kind == "temporary"):
            ranges[use.index] = (ranges.get(use.index, (number, number))[0], number)
    return [ranges.get(t, (0, len(launches))) for t in range(len(plan.temporaries))]
