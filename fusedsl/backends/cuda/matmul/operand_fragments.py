"""Fragments of operand tiles for mma.sync: by ldmatrix out of swizzled lines, or element by element out of padded ones.

PTX ISA, "Matrix Fragments for mma.m16n8k16" and its neighbours: the bytes of 1-, 2- and 4-byte elements are alike along
K. A read brings 16 positions along M/N (rows of the left operand, columns of the right one) of a step of K.
"""

from __future__ import annotations

from ....ir.types import DType
from ..compiler.numba_backend import F32, I32, Emitter, ir
from ..mma.fragment import matrices
from ..mma.tile_sizes import SWIZZLE_BYTES
from ..tile.memory import ld_shared
from .tile_shapes import FRAGMENT_PADS, STEP_BYTES


class Fragments:
    """Fragments by ldmatrix: four matrices of 8 M/N positions by 16 bytes of K.

    Those of the left operand are ordered by M, then K, those of the right one by K, then N.
    """

    def __init__(self, e: Emitter, side: str, layout: str, block_k: int):
        self.e, self.side, self.layout, self.block_k = e, side, layout, block_k

    def start(self, at: ir.Value, first: ir.Value, lane: ir.Value) -> None:
        """Find what a lane of the warp addresses, from M/N position `first` on, in the tile at an address."""
        b = self.e.builder
        near, far = b.and_(b.lshr(lane, I32(3)), I32(1)), b.lshr(lane, I32(4))
        mn_half, k_half = (near, far) if self.side == "left" else (far, near)
        if self.layout == "k":
            line, chunk = b.add(first, b.add(b.shl(mn_half, I32(3)), b.and_(lane, I32(7)))), k_half
            panel = I32(0)
        else:
            line = b.add(b.shl(k_half, I32(3)), b.and_(lane, I32(7)))
            chunk = b.add(b.and_(b.lshr(first, I32(3)), I32(7)), mn_half)
            panel = b.mul(b.lshr(first, I32(6)), I32(self.block_k * SWIZZLE_BYTES))
        swizzled = b.shl(b.xor(chunk, b.and_(line, I32(7))), I32(4))
        self.address = b.add(b.add(at, panel), b.add(b.shl(line, I32(7)), swizzled))

    def read(self, step: int, k: int) -> list[ir.Value]:
        """The k-th 16 M/N positions at a step."""
        b = self.e.builder
        if self.layout == "k":
            address = b.add(b.xor(self.address, I32(STEP_BYTES * step)), I32(16 * k * SWIZZLE_BYTES))
        else:
            panel, within = divmod(16 * k, 64)
            further = 16 * step * SWIZZLE_BYTES + panel * self.block_k * SWIZZLE_BYTES
            address = b.add(b.xor(self.address, I32(2 * within)), I32(further))
        return matrices(self.e, address, self.layout == "mn")


class PaddedFragments:
    """Fragments of float32 (8 steps) or float64 (4 steps), element by element out of padded lines.

    Lane 4 g + t has the M/N positions g and g + 8, and every fourth step from t on.
    """

    def __init__(self, e: Emitter, side: str, mn: int, kind: DType):
        self.e, self.side, self.kind, self.pitch = e, side, kind, mn + FRAGMENT_PADS[kind.itemsize]
        self.steps = STEP_BYTES // kind.itemsize

    def start(self, at: ir.Value, first: ir.Value, lane: ir.Value) -> None:
        """Find a lane's first element, from M/N position `first` on, in the tile at an address."""
        b = self.e.builder
        address = b.add(b.mul(b.and_(lane, I32(3)), I32(self.pitch)), b.add(first, b.lshr(lane, I32(2))))
        self.address = b.add(at, b.mul(address, I32(self.kind.itemsize)))

    def read(self, step: int, k: int) -> list[ir.Value]:
        """The k-th 16 M/N positions at a step."""
        quads, halves = range(0, self.steps, 4), (16 * k, 16 * k + 8)
        order = (
            [(q, n) for q in quads for n in halves] if self.side == "left" else [(q, n) for n in halves for q in quads]
        )
        fragment = []
        for q, n in order:
            further = ((self.steps * step + q) * self.pitch + n) * self.kind.itemsize
            (element,) = ld_shared(self.e, self.kind, 1, self.e.builder.add(self.address, I32(further)))
            fragment.append(self.e.builder.bitcast(element, I32) if element.type == F32 else element)
        return fragment


def halves(words: list[ir.Value]) -> tuple[list[ir.Value], list[ir.Value]]:
    """The fragments of both 8 columns of the right operand's 16."""
    return words[: len(words) // 2], words[len(words) // 2 :]
