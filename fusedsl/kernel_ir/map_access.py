"""How a map accesses each of its arrays: by vectors of a row, by vectors of all elements in order, by elements."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.types import DType
from .memory_access import ACCESS_BYTES, Access, MergedAxes, is_aligned, stride_kinds, vector_width


def elementwise_access(
    collapsed: MergedAxes, dtypes: Sequence[DType], addresses: Sequence[int], least: int = 1
) -> tuple[Access, ...]:
    """The access of each operand of a map: "vector", "flat" or "element"; vectors have at `least` so many elements."""
    lines = [stride_kinds(collapsed.extents, line) for line in collapsed.strides]
    width = max(vector_width(dtypes, lines), least)
    whole = len(collapsed.extents) == 1 or collapsed.extents[-1] % width == 0
    accesses: list[Access] = []
    for d, line, strides, address in zip(dtypes, lines, collapsed.strides, addresses):
        if whole:
            accesses.append("vector" if width > 1 and is_aligned(d, line, strides, address, width) else "element")
        else:
            accesses.append("flat" if _in_order(collapsed.extents, strides, address) else "element")
    return tuple(accesses)


def _in_order(extents: Sequence[int], strides: Sequence[int], address: int) -> bool:
    """Do the elements of all axes stand one behind the other, from a multiple of 16 bytes on?"""
    step = 1
    for extent, stride in zip(reversed(extents), reversed(strides)):
        if stride != step and extent != 1:
            return False
        step *= extent
    return address % ACCESS_BYTES == 0


def strided_axis_access(
    collapsed: MergedAxes, dtypes: Sequence[DType], addresses: Sequence[int]
) -> list[tuple[int, Access]]:
    """For each operand of a map the axis, if not the last, along which its elements are neighbours (else -1), and
    whether whole 16-byte vectors fit along it: "vector" or "element"."""
    accesses: list[tuple[int, Access]] = []
    for d, line, address in zip(dtypes, collapsed.strides, addresses):
        axis = next((a for a, step in enumerate(line[:-1]) if step == 1 and abs(line[-1]) > 1), -1)
        others = (step for a, step in enumerate(line) if a != axis)
        whole = collapsed.extents[axis] * d.itemsize % ACCESS_BYTES == 0 and address % ACCESS_BYTES == 0
        whole = whole and all(step * d.itemsize % ACCESS_BYTES == 0 for step in others)
        accesses.append((axis, "vector" if axis >= 0 and whole else "element"))
    return accesses
