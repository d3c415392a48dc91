"""K axes of a product: the inner one, along which K-slices lie, and the outer ones, as the taps of a convolution."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .kernel import KernelIR
from .matmul_operands import MatmulOperands

SLICE = 64  # steps of the K-slices by which axes are judged
LEAST_FILLED = 0.25  # of the steps of K-slices; with fewer, elements that are computed one by one are faster


@dataclass(frozen=True)
class KAxes:
    """The axes that a product sums over, as numbers of iteration axes.

    A K-slice lies along `inner`: the last one of a line may be filled in part. `outer` are all others, in order.
    """

    inner: int
    outer: tuple[int, ...] = ()

    def steps(self, extents: tuple[int, ...], block_k: int) -> int:
        """Steps of K, with those that fill up the last K-slice of each line if there are several lines."""
        if not self.outer:
            return extents[self.inner]
        return prod(extents[a] for a in self.outer) * -(-extents[self.inner] // block_k) * block_k

    def fills_slices(self, extents: tuple[int, ...]) -> bool:
        """Whether enough steps of the K-slices exist."""
        return prod(extents[a] for a in (*self.outer, self.inner)) >= LEAST_FILLED * self.steps(extents, SLICE)


def k_axes(kernel: KernelIR, operands: MatmulOperands, extents: tuple[int, ...]) -> KAxes:
    """The K axes; the inner one is that along which the most operands are contiguous, of those that fill slices."""
    near = [kernel.operands[k].near for k in (*operands.left, *operands.right)]
    every = range(kernel.row_axes, kernel.axes)
    choices = [KAxes(a, tuple(b for b in every if b != a)) for a in every]
    return max(choices, key=lambda k: (k.fills_slices(extents), near.count(k.inner), extents[k.inner], k.inner))
