"""Costs that the table of operations does not list: sorts, loads from computed addresses, special functions."""

from __future__ import annotations

from math import log2

EXCHANGE = 6  # instructions of a compare-exchange of a sort
FETCH_COST = 8  # instructions of a load from a computed address
# Instructions of a GPU's special function units (reciprocals, square roots, 2**x …) in one float32 operation.
SPECIAL = dict.fromkeys(("exp", "exp2", "expm1", "sqrt", "rsqrt", "erf", "erfc", "div_for_bf16"), 1)
SPECIAL |= dict.fromkeys(("tanh", "logistic", "sinh", "cosh", "power", "arctanh", "cbrt", "hypot"), 2)


def ordering(count: float) -> float:
    """Instructions per element of a merge sort."""
    steps = log2(max(2, count))
    return steps * (steps + 1) / 4 * EXCHANGE
