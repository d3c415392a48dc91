"""Broadcast schedule: maps that broadcast along the outermost axis; blocks that read the same are neighbours.

A stack or a repeated array reads its operands once for each place on that axis. In the order of the results they would
come from memory every time, where the L2 does not hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod

from ....hardware import Hardware
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ..emit.multi_axis_index import MultiAxisIndex
from ..schedule_base import Extents
from ..tile import Tile, divide, thread_idx
from .schedule import ElementwiseSchedule, schedule_elementwise


@dataclass(frozen=True)
class BroadcastSchedule(ElementwiseSchedule):
    """Blocks are numbered along the outermost axis first, then along all others."""

    def magic_divisors(self, kernel: KernelIR, extents: Extents) -> Extents:
        return (extents[0], *super().magic_divisors(kernel, extents)[1:])

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        vectors = prod(extents[1:-1]) * -(-extents[-1] // self.width)
        return LaunchConfig(max(1, extents[0] * -(-vectors // self.tile_vectors)), self.threads)


def schedule_broadcast(kernel: KernelIR, extents: Extents, hardware: Hardware) -> BroadcastSchedule | None:
    """The schedule of a map whose arrays are all the same along the outermost axis, and larger than half of the L2."""
    read = [kernel.operands[load.operand] for load in kernel.loads]
    if kernel.axes == 1 or kernel.index64 or kernel.pointers or not read or any(x.strides[0] != "0" for x in read):
        return None
    size = sum(x.dtype.itemsize * prod(n for n, kind in zip(extents, x.strides) if kind != "0") for x in read)
    plain = schedule_elementwise(kernel, hardware)
    if 2 * size <= hardware.l2 or type(plain) is not ElementwiseSchedule or plain.row_tiles:
        return None
    values = {field.name: getattr(plain, field.name) for field in fields(plain)}
    return BroadcastSchedule(**values | {"reason": f"blocks that read the same elements in turn: {plain.reason}"})


class BroadcastIndex(MultiAxisIndex):
    """Vectors of all axes but the outermost, numbered from 0; `repeat` is the block's place on that axis."""

    def begin_tiles(self, vectors: int, threads: int, operands: Sequence[int]) -> None:
        """Define the tile of a thread, and split the block's number."""
        src, step, names = self.src, {"step": threads}, self.src.names
        src.bind("tile", Tile(width=self.width, vectors=vectors, **step, checks="v" * vectors))
        self.define(operands, vectors, step)
        src.assign("tile_number", divide(src.block, f"int32({names.extent(0)})", names.magic(1)))
        src.assign("repeat", f"int32({src.block} - int32(tile_number * int32({names.extent(0)})))")
        src.assign(self.first, f"int32(int32(tile_number * {threads * vectors}) + {thread_idx()})")

    def _count(self) -> None:
        super()._count()
        product = "row_vectors"
        for axis in self.axes[1:-1]:
            product = f"int32({product} * int32({self.src.names.extent(axis)}))"
        self.src.code[-1] = f"{self.count} = {product}"

    def _coordinates(self) -> tuple[list[str], list[str]]:
        names, last = self.src.names, self.axes[-1]
        arguments, lines, rest = ["vector", "repeat"], ["c0 = repeat"], "vector"
        for axis in reversed(self.axes[2:]):
            size = "row_vectors" if axis == last else names.extent(axis)
            arguments += [size, names.magic(axis)]
            lines.append(f"q{axis} = {divide(rest, size, names.magic(axis))}")
            lines.append(f"c{axis} = {self._position(axis, f'int32({rest} - int32(q{axis} * {size}))')}")
            rest = f"q{axis}"
        return arguments, [*lines, f"c{self.axes[1]} = {self._position(self.axes[1], rest)}"]

    def _position(self, axis: int, number: str) -> str:
        """A position, of the number of a vector where vectors lie along the axis."""
        return f"int32({number} * {self.width})" if axis == self.axes[-1] and self.width > 1 else number
