"""Which arrays of a narrow float hold numbers of their dtype, though they are computed in a wider one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .graph import Node, value_of
from .ops import VIEWS
from .types import DType, numpy_dtype

MOVES = (*VIEWS, "gather")  # an element is one of the first operand's, or 0 or NaN


def is_rounded(n: Node, loads: Callable[[Node], bool] = lambda n: True) -> bool:
    """Whether every element is rounded to the array's dtype: stored in it, cast to it, or chosen from such elements.

    `loads` tells whether a parameter is stored in its dtype.
    """
    d, seen, stack = n.type.dtype, set[Node](), [n]
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if n.type.dtype is not d:
            return False
        if n.op in MOVES:
            stack.append(n.args[0])
        elif n.op == "where":
            stack += n.args[1:]
        elif n.op == "const":
            if not is_number_of(n, d):
                return False
        elif n.op != "cast" and not (n.op == "param" and loads(n)):
            return False
    return True


def is_number_of(n: Node, d: DType) -> bool:
    """Whether a constant is a number of a dtype."""
    value = float(value_of(n))
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.array_equal(np.array(value).astype(numpy_dtype(d)).astype(float), value, equal_nan=True))
