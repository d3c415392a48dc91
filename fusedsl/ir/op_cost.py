"""Costs that are no column of the table of operations: sorts, loads from computed addresses, special functions."""

from __future__ import annotations

from math import log2

EXCHANGE = 6  # instructions of a compare-exchange of a sort
FETCH_COST = 8  # instructions of a load from a computed address
# Functions of a GPU's special units (reciprocals, square roots, 2**x …) in one of ours, of float32.
SPECIAL = dict.fromkeys(("exp", "exp2", "expm1", "sqrt", "rsqrt", "erf", "erfc", "div_for_bf16"), 1)
SPECIAL |= dict.fromkeys(("tanh", "logistic", "sinh", "cosh", "power", "arctanh", "cbrt", "hypot"), 2)


def ordering(count: float) -> float:
    """Instructions per element of a merge sort of so many elements."""
    steps = log2(max(2, count))
    return steps * (steps + 1) / 4 * EXCHANGE
