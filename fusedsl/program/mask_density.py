"""The density of a block mask: the shares of active and of full tiles, as far as indices and lengths determine it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..backends.cuda.attention.sm90_schedule import AttentionTiling
from ..ir.ops import OPS
from ..ir.types import BOOL
from ..kernel_ir.attention import BlockMask
from ..kernel_ir.attention_operands import operands_of
from ..kernel_ir.instruction import Instruction
from ..kernel_ir.kernel import AttentionKernel

MAX_TILES = 1 << 20  # tiles to evaluate: beyond that, every so many rows of tiles

Answer = Any  # an array over tiles; None if unknown
CONJUNCTIONS = ("logical_and", "multiply", "minimum", "bitwise_and")


def mask_density(
    kernel: AttentionKernel, schedule: AttentionTiling, extents: tuple[int, ...], numbers: Mapping[str, int]
) -> tuple[float, float]:
    """(share of tiles with some active element, share of full tiles): (1, 0) if neither is known.

    `numbers` are scalars of the kernel with known values. Masks from arrays count as active.
    """
    sieve, operands = kernel.attention.block_mask, operands_of(kernel)
    if sieve is None or operands is None:
        return 1.0, 0.0
    rows, columns = extents[operands.query_axis], extents[kernel.row_axes]
    across = -(-columns // schedule.columns)
    row_step = schedule.rows * max(1, -(-rows // schedule.rows) * across // MAX_TILES)
    begins = {
        operands.query_axis: np.arange(0, rows, row_step)[:, None],
        kernel.row_axes: np.arange(0, columns, schedule.columns)[None, :],
    }
    sizes = {operands.query_axis: (schedule.rows, rows), kernel.row_axes: (schedule.columns, columns)}
    known: dict[str, Answer] = dict(numbers)
    for axis, first, last in sieve.ranges:
        if axis in begins:
            size, extent = sizes[axis]
            known |= {first.name: begins[axis], last.name: np.minimum(begins[axis] + size, extent) - 1}
    shape = (begins[operands.query_axis].size, across)
    active, full = _evaluate_mask(sieve, known)
    return (
        1.0 if active is None else float(np.broadcast_to(active, shape).mean()),
        0.0 if full is None else float(np.broadcast_to(full, shape).mean()),
    )


def _evaluate_mask(sieve: BlockMask, known: dict[str, Answer]) -> tuple[Answer, Answer]:
    """(any active, all active) per tile, each None if it is unknown."""
    certain = bool(sieve.full_phases) and all(v.name in known for v in sieve.body.args)
    for i in sieve.body.instructions:
        known[i.target] = _value(i, [known.get(a) if isinstance(a, str) else np.asarray(a.value) for a in i.args])
    active, full = (known.get(v.name) for v in sieve.body.results)
    return active, full if certain else None


def _value(i: Instruction, operands: list[Answer]) -> Answer:
    """What an instruction computes; None if it depends on an unknown value."""
    if i.op in CONJUNCTIONS and i.dtype is BOOL:
        return _and(*operands)
    function = np.asarray if i.op in ("copy", "convert") else OPS[i.op].meaning if i.op in OPS else None
    if function is None or any(value is None for value in operands):
        return None
    return function(*operands)


def _and(a: Answer, b: Answer) -> Answer:
    """The conjunction: one known condition may already be false."""
    return b if a is None else a if b is None else a & b
