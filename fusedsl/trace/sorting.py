"""Sorted rows and binary search on tracers, shared by NumPy's and torch's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ShapeError
from .recorder import Recorder


def sorted_rows(recorder: Recorder, x: Any, axis: int | None, name: str = "sort") -> Any:
    """`x` sorted along an axis, moved last; None sorts all elements as one row."""
    if axis is None:
        return recorder.apply(name, recorder.apply("reshape", x, -1), -1)
    others = [a for a in range(x.ndim) if a != axis % x.ndim]
    row = x if axis in (-1, x.ndim - 1) else recorder.apply("transpose", x, (*others, axis % x.ndim))
    return recorder.apply(name, row, -1)


def has_nan(recorder: Recorder, rows: Any) -> Any:
    """True for sorted rows that contain a NaN, which is last; None for dtypes without NaN."""
    return recorder.apply("isnan", rows[..., -1]) if rows.node.type.dtype.kind == "f" else None


def length_of(rows: Any, what: str) -> int:
    """The row length; ShapeError if it is 0."""
    length = int(rows.shape[-1])
    if not length:
        raise ShapeError(f"{what} of no elements", "shape.empty", help="test x.size first: sizes are known")
    return length


def search(recorder: Recorder, edges: Any, values: Any, right: bool, at: Callable[[Any], Any] | None = None) -> Any:
    """The number of edges, ascending along the last axis, less than each value (`right`: less or equal).

    A binary search, unrolled: log2(edges) steps, each reads one edge. NaN compares greater than all else. `at` maps a
    position to the index of its edge.
    """
    count = int(edges.shape[-1])
    count_below: Any = recorder.apply("zeros_like", values, dtype=recorder.dtype("int64"))
    step = 1 << count.bit_length() >> 1
    while step:
        reached = count_below + step
        index = recorder.apply("minimum", reached, count) - 1
        index = index if at is None else at(index)
        edge = recorder.apply("take" if edges.ndim == 1 else "take_along_axis", edges, index, -1)
        passed = ~_less(recorder, values, edge) if right else _less(recorder, edge, values)
        count_below = recorder.apply("where", passed & (reached <= count), reached, count_below)
        step >>= 1
    return count_below


def _less(recorder: Recorder, x: Any, y: Any) -> Any:
    less = recorder.apply("less", x, y)
    return less | (recorder.apply("isnan", y) & ~recorder.apply("isnan", x))
