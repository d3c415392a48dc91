"""Scatters of the interpreter: values merged into elements of a NumPy array, in order."""

from __future__ import annotations

import numpy as np

from .superaccumulators import SUPERACCUMULATORS
from .types import dtype


def scattered(n, args, arguments, extents):
    """The value of a scatter node; float32 sums are computed in float64 and rounded once."""
    base, flat_indices, values = args
    wide = np.float64 if n.attr[0] == "sum" and base.dtype == np.float32 else base.dtype
    result = np.array(base, wide, order="C")
    merge_at(n.attr[0], result, flat_indices, values)
    return result


MERGE_AT = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def merge_at(fold: str, into: np.ndarray, flat_indices: np.ndarray, values: np.ndarray) -> None:
    """Merge values into the elements of a contiguous array at flat indices in C order, in order; others are left out.

    What accumulates floats is an array of the words of superaccumulators.
    """
    flat_indices, values = np.broadcast_arrays(flat_indices, values)
    if fold in SUPERACCUMULATORS:
        accumulator = SUPERACCUMULATORS[fold][dtype(values.dtype.name)]
        inside = (flat_indices >= 0) & (flat_indices < into.size // accumulator.chunks)
        accumulator.add_at(into, flat_indices[inside], values[inside])
        return
    flat = into.reshape(-1)
    inside = (flat_indices >= 0) & (flat_indices < flat.size)
    at, given = flat_indices[inside], values[inside].astype(into.dtype)
    if fold == "last":
        flat[at] = given
        return
    before = flat.copy() if fold != "sum" and into.dtype.kind == "f" else flat
    MERGE_AT[fold].at(flat, at, given)
    if before is not flat:
        flat[...] = _merged_zeros(fold, before, flat, at, given)


def _merged_zeros(fold: str, before: np.ndarray, merged: np.ndarray, at: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Merged extremes with -0.0 less than 0.0."""
    winner = fold == "min"  # the sign bit of the zero that wins
    wins = (before == 0) & (np.signbit(before) == winner)
    np.logical_or.at(wins, at, (given == 0) & (np.signbit(given) == winner))
    return np.where(merged == 0, np.where(wins == winner, -0.0, 0.0).astype(merged.dtype), merged)
