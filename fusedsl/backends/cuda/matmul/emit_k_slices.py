"""Emits the K-slices of products by warps: along one axis of K, or line by line over several."""

from __future__ import annotations

from . import udiv64
from .emit_coordinates import MatmulCoordinates, coordinates
from .mma_schedule import MmaMatmulSchedule


class KSlices:
    """K-slices along one axis: `step` counts its steps, and addresses advance from slice to slice."""

    def __init__(self, coordinates: MatmulCoordinates, schedule: MmaMatmulSchedule):
        self.src, self.names = coordinates.src, coordinates.names
        self.axes, self.block_k = schedule.k_axes, schedule.tile.block_k

    def steps(self) -> str:
        """The steps of all K-slices."""
        return self.names.extent(self.axes.inner)

    def emit_first(self) -> str:
        """Emit where the first K-slice of the block lies; what precedes a thread's own step in a sum of steps."""
        return "begin + "

    def emit_valid(self, step: str) -> None:
        """Emit the number of steps that exist in the K-slice that begins at a step."""
        self.src.assign("valid_k", f"int32(minimum(end - {step}, {self.block_k}))")

    def addresses(self, k: int) -> str:
        """The addresses of an operand's vectors in the K-slice."""
        return f"{self.names.operand(k)}_addresses"

    def emit_advance(self, k: int) -> None:
        """Emit the addresses of an operand's vectors in the next K-slice."""
        name = self.names.operand(k)
        self.src.assign(f"{name}_addresses", f"{name}_advance({name}_addresses, {name}_step_bytes * {self.block_k})")

    def emit_next(self) -> None:
        """Emit where the next K-slice lies."""


class KSliceLines:
    """K-slices over several axes: each line along the inner axis has slices of its own.

    `step` counts the steps of whole slices, `inner` those of a line, c2, c3 … are the coordinates of the line. The
    methods are those of KSlices.
    """

    def __init__(self, coordinates: MatmulCoordinates, schedule: MmaMatmulSchedule):
        self.coordinates, self.src, self.names = coordinates, coordinates.src, coordinates.names
        self.axes, self.block_k = schedule.k_axes, schedule.tile.block_k

    def steps(self) -> str:
        inner = self.names.extent(self.axes.inner)
        self.src.assign("line_steps", f"{udiv64(f'{inner} + {self.block_k - 1}', self.block_k)} * {self.block_k}")
        return " * ".join([*map(self.names.extent, self.axes.outer), "line_steps"])

    def emit_first(self) -> str:
        line = f"line = {udiv64('begin', 'line_steps')}"
        self.src.emit(line, "inner = begin - line * line_steps", *coordinates(self.names, "line", self.axes.outer))
        return ""

    def emit_valid(self, step: str) -> None:
        left = f"{self.names.extent(self.axes.inner)} - inner"
        self.src.assign("valid_k", f"int32(minimum(select({step} < end, {left}, int64(0)), {self.block_k}))")

    def addresses(self, k: int) -> str:
        name, size = self.names.operand(k), self.src.kernel.operands[k].dtype.itemsize
        offset = self.coordinates.offset(k, self.axes.outer)
        line = f"({offset}) * {size} + " if offset else ""
        return f"{name}_advance({name}_addresses, {line}inner * {name}_step_bytes)"

    def emit_advance(self, k: int) -> None:
        pass

    def emit_next(self) -> None:
        src = self.src
        src.emit(f"inner = inner + {self.block_k}", f"carry = inner >= {self.names.extent(self.axes.inner)}")
        src.assign("inner", "select(carry, int64(0), inner)")
        for a in reversed(self.axes.outer):
            src.assign(f"c{a}", f"select(carry, c{a} + 1, c{a})")
            if a != self.axes.outer[0]:
                src.emit(f"carry = c{a} >= {self.names.extent(a)}", f"c{a} = select(carry, int64(0), c{a})")


def k_slices(coordinates: MatmulCoordinates, schedule: MmaMatmulSchedule) -> KSlices | KSliceLines:
    """The K-slices of a schedule."""
    return (KSliceLines if schedule.k_axes.outer else KSlices)(coordinates, schedule)
