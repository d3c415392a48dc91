"""What bodies issue that run so many times: instructions, functions of the special units, instructions of float64."""

from __future__ import annotations

from ..backends.cuda.matmul.schedule import EDGE
from ..ir.op_cost import double_instructions, instructions, special_functions
from ..kernel_ir.phase import Body

ADDRESSING = 12  # instructions that find and stage an element of a factor
SHARED_READS = 5 / 16  # of a thread for each of its products
DOUBLE_ISSUED = 1.9  # instructions that are issued for one of float64: constants, addresses and words beside it


def count(found: list[float], body: Body, times: float) -> None:
    """Add a body's instructions, special functions, and instructions of float64 to those found so far."""
    wide = any(v.dtype.bits == 64 and v.dtype.kind == "f" for v in (*body.args, *body.results))
    if wide:
        double = times * double_instructions(body.instructions)
        found[0] += double * DOUBLE_ISSUED
        found[2] += double
        return
    found[0] += times * instructions(body.instructions)
    found[1] += times * special_functions(body.instructions)


def multiplication(batch: int, rows: int, columns: int, terms: int) -> float:
    """Instructions of so many products of matrices in squares: a multiplication reads a third of a value from shared
    memory, and an element of a factor is staged once for each square that it is in."""
    staged = rows * -(-columns // EDGE) + columns * -(-rows // EDGE)
    return batch * terms * (rows * columns * (1 + SHARED_READS) + staged * ADDRESSING)
