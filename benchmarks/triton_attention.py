"""The forward pass of Triton's tutorial "Fused Attention": tiles of rows, boxes by descriptor, the diagonal apart."""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# rows and columns of a tile, warps, stages
SHAPES = ((128, 64, 8, 3), (128, 128, 8, 2), (128, 64, 4, 3), (64, 64, 4, 3))


def _boxes(given: dict) -> None:
    rows, columns, width = given["ROWS"], given["COLUMNS"], given["WIDTH"]
    for name, lines in (("q", rows), ("k", columns), ("v", columns), ("out", rows)):
        given[name].block_shape = [lines, width]


@triton.jit
def _tiles(
    sums, total, largest, mine, k, v, base, first, last, rows, scale, COLUMNS: tl.constexpr, MASKED: tl.constexpr
):
    for start in tl.range(first, last, COLUMNS):
        start = tl.multiple_of(start, COLUMNS)
        scores = tl.dot(mine, k.load([base + start, 0]).T)
        if MASKED:
            columns = start + tl.arange(0, COLUMNS)
            scores = scores * scale + tl.where(rows[:, None] >= columns[None, :], 0, -1.0e6)
            now = tl.maximum(largest, tl.max(scores, 1))
            scores -= now[:, None]
        else:
            now = tl.maximum(largest, tl.max(scores, 1) * scale)
            scores = scores * scale - now[:, None]
        weights = tl.math.exp2(scores)
        moved = tl.math.exp2(largest - now)
        total = total * moved + tl.sum(weights, 1)
        values = v.load([base + start, 0])
        sums = tl.dot(weights.to(values.dtype), values, sums * moved[:, None])
        largest = now
    return sums, total, largest


@triton.autotune(
    [
        triton.Config({"ROWS": r, "COLUMNS": c}, num_warps=warps, num_stages=stages, pre_hook=_boxes)
        for r, c, warps, stages in SHAPES
    ],
    key=["WIDTH", "CAUSAL"],
)
@triton.jit
def attend(
    q, k, v, out, scale, length, WIDTH: tl.constexpr, CAUSAL: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    first = tl.program_id(0) * ROWS
    base = tl.program_id(1) * length
    rows = first + tl.arange(0, ROWS)
    largest = tl.full([ROWS], -float("inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, WIDTH], tl.float32)
    mine = q.load([base + first, 0])
    scale *= 1.4426950408889634
    whole = first if CAUSAL else length
    sums, total, largest = _tiles(sums, total, largest, mine, k, v, base, 0, whole, rows, scale, COLUMNS, False)
    if CAUSAL:
        last = first + ROWS
        sums, total, largest = _tiles(sums, total, largest, mine, k, v, base, first, last, rows, scale, COLUMNS, True)
    out.store([base + first, 0], (sums / total[:, None]).to(out.dtype))


def prepare(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Callable[[], torch.Tensor]:
    """A call for contiguous (batch, heads, length, width), length a multiple of 128; the best of the shapes is kept."""
    batch, heads, length, width = q.shape
    out = torch.empty_like(q)
    flat = [TensorDescriptor(x, [batch * heads * length, width], [width, 1], [1, 1]) for x in (q, k, v, out)]

    def grid(meta: dict) -> tuple[int, int]:
        return (triton.cdiv(length, meta["ROWS"]), batch * heads)

    def run() -> torch.Tensor:
        attend[grid](*flat, width**-0.5, length, width, causal)
        return out

    return run
