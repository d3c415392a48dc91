"""Meaning of scans in NumPy: the states of a fold along an axis, and its prefixes, inclusive or exclusive."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .folds import SCANS
from .graph import value_of
from .types import dtype

ACCUMULATE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def ordered_zeros(fold: str, x: np.ndarray, result: np.ndarray, some: Callable) -> np.ndarray:
    """Extremes with -0.0 less than 0.0; NumPy's result depends on the processor."""
    if fold not in ("max", "min") or x.dtype.kind != "f":
        return result
    zero, negative = np.zeros_like(result), np.signbit(x)
    positive = some((x == 0) & ~negative) if fold == "max" else ~some((x == 0) & negative)
    return np.where(result == 0, np.where(positive, zero, -zero), result)


def accumulate(fold: str, x: np.ndarray, axis: int, dtype: np.dtype | None = None) -> np.ndarray:
    """The prefixes of a fold of one value along an axis."""
    prefixes = ACCUMULATE[fold].accumulate(x, axis=axis, dtype=dtype)
    return ordered_zeros(fold, x, prefixes, lambda holds: np.logical_or.accumulate(holds, axis=axis))


def scan(fold: str, args: Sequence[np.ndarray], axis: int, exclusive: bool, compute: np.dtype) -> np.ndarray:
    """The prefixes of a scan, of values in the dtype that it computes in.

    Of float32 they are rounded once, from float64, because sequential sums drift over long rows.
    """
    if fold in ACCUMULATE:
        prefixes = accumulate(fold, args[0], axis, compute)
        if fold == "sum" and prefixes.dtype == np.float32:
            wide = np.add.accumulate(args[0], axis=axis, dtype=np.float64)
            prefixes = np.where(np.isfinite(prefixes), wide, prefixes)
    else:
        precise = np.dtype(np.float64) if compute.kind == "f" else compute
        states = scan_states(fold, [a.astype(precise) for a in args], axis)
        prefixes = states[1] if fold == "linear" else states[0] + np.log(states[1])
    return shifted(prefixes, axis, empty(fold, prefixes.dtype, SCANS[fold].finish)) if exclusive else prefixes


def scan_states(fold: str, args: Sequence[np.ndarray], axis: int) -> tuple[np.ndarray, ...]:
    """The states of a fold along an axis, part by part, in the order of `ir.folds`."""
    if fold in ACCUMULATE:
        return (accumulate(fold, args[0], axis),)
    lines = [np.moveaxis(a, axis, 0) for a in np.broadcast_arrays(*args)]
    if fold == "linear":
        a, b = lines
        return np.moveaxis(np.multiply.accumulate(a), 0, axis), np.moveaxis(linear(a, b), 0, axis)
    (x,) = lines
    largest, sums = accumulate("max", x, 0), np.ones_like(x)
    for t in range(1, len(x)):
        old = np.where(largest[t - 1] == largest[t], 1, np.exp(largest[t - 1] - largest[t]))
        new = np.where(x[t] == largest[t], 1, np.exp(x[t] - largest[t]))
        sums[t] = sums[t - 1] * old + new
    return np.moveaxis(largest, 0, axis), np.moveaxis(sums, 0, axis)


def linear(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """h[t] = a[t] h[t-1] + b[t] along the first axis, from h[-1] = 0."""
    h = np.array(b)
    for t in range(len(h)):
        h[t] += a[t] * (h[t - 1] if t else 0)
    return h


def shifted(prefixes: np.ndarray, axis: int, first: np.generic) -> np.ndarray:
    """Inclusive prefixes as exclusive ones: each moves on by one, behind those of no element."""
    line = np.moveaxis(prefixes, axis, 0)
    moved = np.concatenate([np.full_like(line[:1], first), line[:-1]])
    return np.moveaxis(moved + first if first == 0 and moved.dtype.kind == "f" else moved, 0, axis)  # -0.0 becomes 0.0


def empty(fold: str, compute: np.dtype, part: int) -> np.generic:
    """A part of the state of no element; of logsumexp, part 0 is the result too."""
    return compute.type(value_of(SCANS[fold].identity(dtype(compute.name))[part]))
