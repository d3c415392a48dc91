"""Subscripts of traced arrays: Python's slices, integers, lists and arrays to extents and nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import TraceError, Unsupported
from ..ir.graph import Node
from ..lang import calls
from ..lang.parameter_kinds import dim_of
from .array_state import ArrayState


def positions(recorder: Any, key: Any) -> tuple:
    """The parts of a subscript: None, Ellipsis, slices of extents, extents, and index nodes.

    Unsupported for a bool; TraceError for a slice bound that is not known from sizes and numbers.
    """
    return tuple(_part(recorder, part) for part in (key if isinstance(key, tuple) else (key,)))


def _part(recorder: Any, part: Any) -> Any:
    if part is None or part is Ellipsis:
        return part
    if isinstance(part, slice):
        return slice(*(_bound(recorder, bound) for bound in (part.start, part.stop, part.step)))
    if isinstance(part, (bool, np.bool_)):
        raise Unsupported(
            "indexing with a bool is not supported",
            "unsupported.gather",
            help="x[None] adds an axis; np.where(condition, x, 0) chooses",
        )
    if isinstance(part, list):
        part = recorder.index_array(part)
    position = recorder.value(recorder.position(part))
    if not isinstance(position, Node):
        raise calls.not_a_position(position)
    known = dim_of(position)
    return position if known is None else known


def _bound(recorder: Any, bound: Any) -> Any:
    if bound is None:
        return None
    settled = recorder.specialized(bound)
    dim = dim_of(recorder.value(settled)) if isinstance(settled, (int, ArrayState)) else None
    if dim is None:
        raise TraceError("a slice bound is an integer", "trace.slice", help="use sizes and Python integers")
    return dim
