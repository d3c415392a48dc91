"""Which bytes arrays span, and whether they share some: by their addresses, shapes and strides alone."""

from __future__ import annotations

from typing import Any

from .arrays import Array


def span(array: Array) -> tuple[int, int]:
    """Bytes from the array's address to its first byte, and to one past its last: the hot path's test of overlap."""
    if 0 in array.shape:
        return 0, 0
    reach = [step * (extent - 1) for extent, step in zip(array.shape, array.strides)]
    size = array.dtype.itemsize
    return size * sum(r for r in reach if r < 0), size * (sum(r for r in reach if r > 0) + 1)


def overlap(a: Array, b: Array) -> str | None:
    """None where no byte is shared, "same" for the very same elements in the same places, else "partial"."""
    if not _meet(a, b):
        return None
    if a.pointer == b.pointer and alike(a, b):
        return "same"
    return "partial" if _share(a, b) else None


def interleave(a: Array, b: Array) -> bool:
    """Whether two arrays share no byte, and one has bytes among those that the other spans."""
    return _meet(a, b) and overlap(a, b) is None


def _meet(a: Array, b: Array) -> bool:
    """Whether what two arrays span has bytes in common."""
    if a.device != b.device or 0 in a.shape or 0 in b.shape:
        return False
    (a_low, a_high), (b_low, b_high) = span(a), span(b)
    return a.pointer + a_high > b.pointer + b_low and b.pointer + b_high > a.pointer + a_low


def alike(a: Array, b: Array) -> bool:
    """Whether two arrays at one address are the very same elements in the same places."""
    return (a.dtype, a.shape, _steps(a)) == (b.dtype, b.shape, _steps(b))


def _steps(array: Array) -> list[tuple[int, int]]:
    """(extent, stride) of the axes that have more than one element."""
    return [(n, s) for n, s in zip(array.shape, array.strides) if n > 1]


class _Bounds:
    """An address range in NumPy's terms, for its exact overlap test, which computes with addresses and reads none."""

    def __init__(self, array: Array) -> None:
        size = array.dtype.itemsize
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "typestr": f"|V{size}",
            "data": (array.pointer, True),
            "strides": tuple(step * size for step in array.strides),
        }


def _share(a: Array, b: Array) -> bool:
    import numpy as np

    work: Any = 100_000  # candidates; 0.1 ms or so
    try:
        return np.shares_memory(np.asarray(_Bounds(a)), np.asarray(_Bounds(b)), max_work=work)
    except np.exceptions.TooHardError:
        return True


def overlaps_itself(array: Array) -> bool:
    """Whether two elements may share memory: some axis steps no further than the axes inside it reach."""
    if 0 in array.shape:
        return False
    reach = 0
    for extent, step in sorted(_steps(array), key=lambda axis: abs(axis[1])):
        if abs(step) <= reach:
            return True
        reach += abs(step) * (extent - 1)
    return False
