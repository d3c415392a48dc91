"""The judge of the tests: whether an array has the right shape and dtype and lies within its derived bound."""

from __future__ import annotations

import numpy as np

from fusedsl.accuracy.bounds import evaluate, of_node
from fusedsl.accuracy.judge import judge
from fusedsl.ir.types import DType

__all__ = ["agrees", "evaluate", "misses", "of_node"]


def misses(made: np.ndarray, value, bound, d: DType) -> tuple[np.ndarray, float]:
    """(where an array is not what it has to be, the largest share of a bound that an error takes)."""
    found = judge(made, value, bound, d)
    return found.wrong, found.share


def agrees(made: np.ndarray, value, bound, d: DType, what: str) -> float:
    """Raise AssertionError unless an array has the right shape and dtype and lies within the bound; the largest share
    of a bound that an error takes."""
    assert made.shape == value.shape, f"{what}: shape {made.shape}, not {value.shape}"
    assert made.dtype.name == d.name, f"{what}: {made.dtype}, not {d}"
    wrong, share = misses(made, value, bound, d)
    if wrong.any():
        at = tuple(np.argwhere(wrong)[0])
        raise AssertionError(f"{what}: {made[at]} at {at}, expected {value[at]} ± {bound[at]}; {wrong.sum()} wrong")
    return share
