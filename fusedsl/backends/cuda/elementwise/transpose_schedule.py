"""Transpose schedule: arrays that are contiguous along different axes, in square tiles through shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....hardware import Hardware, blocks_for
from ....kernel_ir.byte_tables import MOST_BYTES
from ....kernel_ir.kernel import KernelIR
from ....kernel_ir.launch_config import LaunchConfig
from ....kernel_ir.memory_access import ACCESS_BYTES, vector_width
from ....kernel_ir.register_pressure import Tiling, predicted_registers, required_registers
from ..schedule_base import Extents, Schedule

THREADS = 256
LONG_EDGE, EDGE, SHORT_EDGE = 128, 64, 32  # rows and columns of a tile
WAVES = 4  # blocks for each multiprocessor, below which tiles are not made long
SHARED = 48 << 10  # bytes that a block has without asking
SYSTEM_SHARED = 1 << 10  # bytes of shared memory that the system takes for each block
THIN = 16  # an axis shorter than this leaves most of a tile empty
TURNING = 4  # registers for the addresses of an element in both orientations


@dataclass(frozen=True)
class TransposeSchedule(Schedule):
    """A block of `threads` computes a tile of `edge` × `edge` elements, along `axis` and the last axis.

    A thread holds vectors of `width` elements along the last axis.
    """

    axis: int
    edge: int
    width: int
    transposed: tuple[int, ...]  # operands contiguous along `axis`, which go through shared memory
    vectorized: tuple[bool, ...]  # whether their accesses have 16 bytes
    threads: int
    blocks: int

    @property
    def block_threads(self) -> int:
        return self.threads

    @property
    def vectors(self) -> int:
        """Vectors that a thread holds."""
        return self.edge * self.edge // (self.width * self.threads)

    def grid_axes(self, axes: int) -> tuple[int, ...]:
        """The iteration axes in the order in which blocks are numbered, the last one fastest."""
        return (*(a for a in range(axes - 1) if a != self.axis), self.axis, axes - 1)

    def grid_shape(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """Blocks along each of `grid_axes`."""
        axes = (self.axis, len(extents) - 1)
        return tuple(-(-extents[a] // self.edge) if a in axes else extents[a] for a in self.grid_axes(len(extents)))

    def magic_divisors(self, kernel: KernelIR, extents: Extents) -> Extents:
        return self.grid_shape(extents)[1:]

    def holds_tables(self, kernel: KernelIR) -> bool:
        tile_bytes = self.edge * self.edge * sum(kernel.operands[k].dtype.itemsize for k in self.transposed)
        return tile_bytes + MOST_BYTES <= SHARED

    def config(self, kernel: KernelIR, extents: Extents) -> LaunchConfig:
        return LaunchConfig(max(1, prod(self.grid_shape(extents))), self.threads)


def schedule_transpose(kernel: KernelIR, extents: tuple[int, ...], hardware: Hardware) -> TransposeSchedule | None:
    """How a map with arrays across its last axis runs; None where plain loops serve it as well."""
    operands = kernel.operands
    axis = _axis(kernel)
    if axis is None or min(extents[axis], extents[-1]) < THIN:
        return None
    across = tuple(k for k, operand in enumerate(operands) if operand.near == axis)
    along = [k for k, operand in enumerate(operands) if operand.strides[-1] == "1" and k not in across]
    if not along:
        return None
    sizes = [operands[k].dtype.itemsize for k in across]
    whole = tuple(operands[k].near_access == "vector" for k in across)
    aligned = any(operands[k].access == "vector" for k in along)  # else neighbours go to neighbouring threads
    every = sizes + [operands[k].dtype.itemsize for k in along]
    edge = _edge(every, sum(sizes), aligned and all(whole), axis, extents, hardware)
    if edge is None:
        return None
    width = vector_width([o.dtype for o in operands], [o.strides for o in operands]) if aligned else 1
    width = min(width, edge * edge // THREADS)
    need = TURNING + required_registers(kernel, Tiling(width, edge * edge // (width * THREADS)))
    shared_blocks = hardware.shared // (edge * edge * sum(sizes) + SYSTEM_SHARED)
    blocks = max(1, min(blocks_for(hardware, need, THREADS), shared_blocks))
    registers = predicted_registers(kernel, hardware, need, blocks, THREADS)
    names = ", ".join(operands[k].name for k in across)
    reason = (
        f"{names} {'is' if len(across) == 1 else 'are'} contiguous across the others: patches of {edge} × {edge} turn "
        f"in {edge * edge * sum(sizes) >> 10} KiB of shared memory, "
        f"{ACCESS_BYTES if all(whole) and aligned else 'down to ' + str(min(sizes))} bytes an access"
    )
    tile = (axis, edge, width, across, whole, THREADS, blocks)
    return TransposeSchedule(*tile, reason=reason, registers=registers)


def _edge(
    sizes: list[int], itemsize: int, aligned: bool, axis: int, extents: tuple[int, ...], hardware: Hardware
) -> int | None:
    """Rows and columns of a tile, by the bytes of elements (`itemsize` of them lie across); None where none fits.

    Measured on an H200: 64 × 64 elements of 4 bytes run at copy speed; aligned narrower ones want rows as long in bytes
    where that leaves blocks enough (2 % of the time of 8192 × 8192 bfloat16), and 8 bytes shorter ones.
    """
    edges = [SHORT_EDGE] if max(sizes) == 8 else [EDGE, SHORT_EDGE]
    others = prod(extents) // (extents[axis] * extents[-1])
    blocks = others * -(-extents[axis] // LONG_EDGE) * -(-extents[-1] // LONG_EDGE)
    if aligned and max(sizes) == min(sizes) <= 2 and blocks >= WAVES * hardware.multiprocessors:
        edges.insert(0, LONG_EDGE)
    return next((edge for edge in edges if edge * edge * itemsize <= SHARED), None)


def _axis(kernel: KernelIR) -> int | None:
    """The axis along which most bytes an element are contiguous, of those that are not along the last."""
    bytes_along: dict[int, int] = {}
    for operand in kernel.operands:
        if operand.near >= 0:
            bytes_along[operand.near] = bytes_along.get(operand.near, 0) + operand.dtype.itemsize
    return max(bytes_along, key=lambda axis: bytes_along[axis]) if bytes_along else None
