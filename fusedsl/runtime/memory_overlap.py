"""The byte span of arrays, and whether they share bytes: from addresses, shapes and strides alone."""

from __future__ import annotations

from typing import Any

from .arrays import ArrayFacts


def span(array: ArrayFacts) -> tuple[int, int]:
    """The offsets of the array's first byte and of one past its last, from its address: the hot path's overlap test."""
    if 0 in array.shape:
        return 0, 0
    reach = [step * (extent - 1) for extent, step in zip(array.shape, array.strides)]
    size = array.dtype.itemsize
    return size * sum(r for r in reach if r < 0), size * (sum(r for r in reach if r > 0) + 1)


def overlap(a: ArrayFacts, b: ArrayFacts) -> str | None:
    """None if no byte is shared, "same" for the same elements at the same positions, else "partial"."""
    if not _spans_overlap(a, b):
        return None
    if a.pointer == b.pointer and same_elements(a, b):
        return "same"
    return "partial" if _elements_overlap(a, b) else None


def interleave(a: ArrayFacts, b: ArrayFacts) -> bool:
    """Whether two arrays share no byte although their spans overlap."""
    return _spans_overlap(a, b) and overlap(a, b) is None


def _spans_overlap(a: ArrayFacts, b: ArrayFacts) -> bool:
    """Whether the byte spans of two arrays overlap."""
    if a.device != b.device or 0 in a.shape or 0 in b.shape:
        return False
    (a_low, a_high), (b_low, b_high) = span(a), span(b)
    return a.pointer + a_high > b.pointer + b_low and b.pointer + b_high > a.pointer + a_low


def same_elements(a: ArrayFacts, b: ArrayFacts) -> bool:
    """Whether two arrays at one address have the same elements at the same positions."""
    return (a.dtype, a.shape, _steps(a)) == (b.dtype, b.shape, _steps(b))


def _steps(array: ArrayFacts) -> list[tuple[int, int]]:
    """(extent, stride) of the axes that have more than one element."""
    return [(n, s) for n, s in zip(array.shape, array.strides) if n > 1]


class _Bounds:
    """An array interface for NumPy's exact overlap test, which computes with addresses and reads none."""

    def __init__(self, array: ArrayFacts) -> None:
        size = array.dtype.itemsize
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "typestr": f"|V{size}",
            "data": (array.pointer, True),
            "strides": tuple(step * size for step in array.strides),
        }


def _elements_overlap(a: ArrayFacts, b: ArrayFacts) -> bool:
    import numpy as np

    work: Any = 100_000  # candidates; 0.1 ms or so
    try:
        return np.shares_memory(np.asarray(_Bounds(a)), np.asarray(_Bounds(b)), max_work=work)
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(array: ArrayFacts) -> bool:
    """Whether two elements may share memory: some axis steps no further than its inner axes span."""
    if 0 in array.shape:
        return False
    reach = 0
    for extent, step in sorted(_steps(array), key=lambda axis: abs(axis[1])):
        if abs(step) <= reach:
            return True
        reach += abs(step) * (extent - 1)
    return False
