"""Cost of a body's instructions: issue slots, and functions of a GPU's special function units."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.op_cost import FETCH_COST, SPECIAL
from ..ir.ops import OPS
from .instruction import Instruction, dtype_column

# What differs from the table of operations: by operation, and by its column where it prints as something else.
COSTS = {"copy": 0, "convert_round": 2, "quotient": 6, "fetch": FETCH_COST, "log_of_normal": 16, "sqrt_of_normal": 6}
COLUMN_COSTS = {("fma", "i"): 2, ("fma", "b"): 2, ("fmax", "i"): 2, ("fmin", "i"): 2, ("absolute", "b"): 0}
COLUMN_COSTS |= dict.fromkeys((("maximum", "b"), ("minimum", "b")), 1)
COLUMN_COSTS |= {(f"{order}{equal}", "b"): 2 for order in ("less", "greater") for equal in ("", "_equal")}
COLUMN_COSTS |= {(op, c): 0 for op in ("isnan", "isinf", "isfinite", "floor", "ceil", "trunc") for c in "ib"}
# Instructions of float64 in functions of it, and of the others (beside arithmetic, 1) for each of their table's.
DOUBLE = {"exp": 20, "log": 26, "erf": 45, "sin": 16, "cos": 16, "tanh": 45, "power": 50}
DOUBLE_SHARE = 1.5


def instruction_cost(i: Instruction) -> int:
    """Instructions of one, by the table of operations."""
    listed = COLUMN_COSTS.get((i.op, dtype_column(i.dtype)), COSTS.get(i.op))
    if listed is not None:
        return listed
    return OPS[i.op].cost if i.op in OPS else 1


def total_cost(instructions: Iterable[Instruction]) -> int:
    """Instructions of straight-line code."""
    return sum(map(instruction_cost, instructions))


def special_functions(instructions: Iterable[Instruction]) -> int:
    """Special function unit instructions in straight-line code."""
    return sum(SPECIAL.get(i.op, i.op == "divide") for i in instructions)


def double_instructions(instructions: Iterable[Instruction]) -> float:
    """float64 instructions in straight-line code."""
    costs = [(DOUBLE.get(i.op), instruction_cost(i)) for i in instructions]
    return sum(other if known is None and other <= 2 else known or other * DOUBLE_SHARE for known, other in costs)


def varying(instructions: Iterable[Instruction], fixed: Iterable[str]) -> tuple[Instruction, ...]:
    """Instructions whose values differ by element; a thread computes the others once."""
    same, by_element = set(fixed), []
    for i in instructions:
        if same.issuperset(i.names):
            same.add(i.target)
        else:
            by_element.append(i)
    return tuple(by_element)
