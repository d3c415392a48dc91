"""Judges whether an array is within its error bounds."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from ..ir.types import DType
from .ball import distance


@dataclass(frozen=True)
class Verdict:
    """Elements that are wrong, elements that cannot be judged, and the largest share of a bound that is used."""

    wrong: np.ndarray
    unsure: np.ndarray
    share: float


def judge(result: np.ndarray, value: np.ndarray, bound: np.ndarray, d: DType) -> Verdict:
    """An array of dtype `d` beside the exact value and its bound, as `evaluate` gives them."""
    unsure = np.isinf(bound)
    if d.kind != "f":
        return Verdict((result != value) & ~unsure, unsure, 0.0)
    got = result.astype(np.float64)
    with np.errstate(all="ignore"):
        error = distance(np.broadcast_to(value, got.shape), got)
        beyond = np.isinf(got) & (np.abs(value) + bound > float(ml_dtypes.finfo(result.dtype).max))
        wrong = ~((error <= bound) | (beyond & (np.sign(got) == np.sign(value))))
        measured = (bound > 0) & ~unsure & np.isfinite(error)
        share = (error[measured] / bound[measured]).max(initial=0.0)
    return Verdict(wrong, unsure, float(share))
