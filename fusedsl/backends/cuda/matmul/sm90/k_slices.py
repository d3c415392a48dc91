"""Emits the K-slices of a tile on sm_90, as its producer walks them: along one axis of K, or line by line."""

from __future__ import annotations

from ...emit.source_builder import SourceBuilder
from ...tile import udiv
from .layout import Sm90MatmulSchedule


def slices_of_line(src: SourceBuilder, axis: int, slice: int) -> str:
    """The K-slices of a line along an axis."""
    return f"int32((int32({src.names.extent(axis)}) + {slice - 1}) // {slice})"


class Sm90KSlices:
    """K-slices along one axis, of which `slice_from` is the first step of one."""

    def __init__(self, src: SourceBuilder, schedule: Sm90MatmulSchedule):
        self.src, self.k_axes, self.slice = src, schedule.k_axes, schedule.kind.slice

    def count(self) -> str:
        """The K-slices of all parts of a sum."""
        return slices_of_line(self.src, self.k_axes.inner, self.slice)

    def begin(self) -> None:
        """Emit where the first K-slice of a tile lies."""
        self.src.assign("slice_from", f"int32(first_slice * {self.slice})")

    def more(self) -> str:
        """Whether there are further K-slices."""
        return f"slice_from < (first_slice + slices) * {self.slice}"

    def advance(self) -> None:
        """Emit where the next K-slice lies."""
        self.src.emit(f"slice_from = int32(slice_from + {self.slice})")


class Sm90KSliceLines:
    """K-slices over several axes: each line along the inner axis has slices of its own; c2, c3 … are where it lies.

    The methods are those of Sm90KSlices.
    """

    def __init__(self, src: SourceBuilder, schedule: Sm90MatmulSchedule):
        self.src, self.k_axes, self.slice, self.extent = src, schedule.k_axes, schedule.kind.slice, src.names.extent

    def count(self) -> str:
        self.src.assign("line_slices", slices_of_line(self.src, self.k_axes.inner, self.slice))
        return f"int32({' * '.join(['line_slices', *(f'int32({self.extent(a)})' for a in self.k_axes.outer)])})"

    def begin(self) -> None:
        src = self.src
        src.assign("line", udiv("first_slice", "line_slices"))
        src.assign("slice_from", f"int32((first_slice - line * line_slices) * {self.slice})")
        for a in reversed(self.k_axes.outer[1:]):
            src.assign("lines", udiv("line", f"int32({self.extent(a)})"))
            src.emit(f"c{a} = int32(line - lines * int32({self.extent(a)}))", "line = lines")
        src.emit(f"c{self.k_axes.outer[0]} = line", "slices_left = slices")

    def more(self) -> str:
        return "slices_left > 0"

    def advance(self) -> None:
        src = self.src
        src.emit(f"slice_from = int32(slice_from + {self.slice})", "slices_left = int32(slices_left - 1)")
        src.assign("carry", f"slice_from >= {self.extent(self.k_axes.inner)}")
        src.assign("slice_from", "select(carry, int32(0), slice_from)")
        for a in reversed(self.k_axes.outer):
            src.assign(f"c{a}", f"select(carry, int32(c{a} + 1), c{a})")
            if a != self.k_axes.outer[0]:
                src.emit(f"carry = c{a} >= {self.extent(a)}", f"c{a} = select(carry, int32(0), c{a})")
