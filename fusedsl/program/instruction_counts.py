"""Instruction counts of bodies: all instructions, special functions, and float64 instructions."""

from __future__ import annotations

from ..backends.cuda.matmul.schedule import TILE_MN
from ..kernel_ir.instruction_cost import double_instructions, special_functions, total_cost
from ..kernel_ir.phase import Body

ADDRESSING = 12  # instructions that address and stage an element of an operand
SHARED_READS = 5 / 16  # shared-memory reads of a thread per multiply-add
DOUBLE_ISSUED = 1.9  # instructions issued per float64 instruction: constants, addresses and moves


def add_counts(totals: list[float], body: Body, times: float) -> None:
    """Add a body's (instructions, special functions, float64 instructions), times `times`, to the totals."""
    wide = any(v.dtype.bits == 64 and v.dtype.kind == "f" for v in (*body.args, *body.results))
    if wide:
        double = times * double_instructions(body.instructions)
        totals[0] += double * DOUBLE_ISSUED
        totals[2] += double
        return
    totals[0] += times * total_cost(body.instructions)
    totals[1] += times * special_functions(body.instructions)


def matmul_instructions(batch: int, rows: int, columns: int, terms: int) -> float:
    """Instructions of `batch` tiled matmuls.

    A multiply-add takes SHARED_READS reads of shared memory, and an operand's element is staged once per tile.
    """
    staged = rows * -(-columns // TILE_MN) + columns * -(-rows // TILE_MN)
    return batch * terms * (rows * columns * (1 + SHARED_READS) + staged * ADDRESSING)
