"""Boolean mask subscripts: reading `x[mask]`, and writing `x[mask] = y` and `x[:, mask] = y`."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, Unsupported
from ..ir.gathers import advanced_index
from ..ir.graph import Node
from ..ir.types import BOOL
from . import views
from .array_state import ArrayState
from .subscripts import positions


def is_mask(key: Any) -> bool:
    return isinstance(key, ArrayState) and key.node.type.dtype is BOOL and bool(key.node.type.shape)


def has_mask(key: Any) -> bool:
    """True for a tuple subscript of one mask among slices and integers."""
    masks = [is_mask(part) for part in key] if isinstance(key, tuple) else []
    plain = (slice, int, type(None), type(Ellipsis))
    return sum(masks) == 1 and all(m or type(part) in plain for m, part in zip(masks, key))


def select_by_mask(array: Any, mask: Any) -> Any:
    """The selection `array[mask]`, which supports elementwise functions, reductions and writes back."""
    from .data_dependent_shape import select

    try:
        with array.recorder.at_user_line():
            advanced_index(array.recorder.builder, array.node, positions(array.recorder, mask))
            raise AssertionError("a mask is no index")
    except ArgumentError as fault:
        if fault.code != "argument.mask":
            raise
        return select(array, mask, fault)


def write_by_mask(array: Any, mask: Any, value: Any) -> None:
    """Write where a mask is True: a broadcast value, or a selection by the same mask."""
    from .data_dependent_shape import BooleanSelection

    if isinstance(value, BooleanSelection) and value.key.node is mask.node:
        _write(array, mask.node, value.values.node)
        return
    node = array.recorder.node(value)
    if node.type.rank > array.ndim - mask.ndim:
        raise Unsupported(
            "the values for the elements that a mask picks would have to be counted out",
            "unsupported.scatter",
            help="assign a number, or x[...] = np.where(mask, new, x)",
        )
    _write(array, mask.node, node)


def write_by_partial_mask(array: Any, key: tuple, value: Node) -> None:
    """Write a number where a mask of some axes is True, within the slice of the other subscripts."""
    axis = next(k for k, part in enumerate(key) if is_mask(part))
    mask = key[axis]
    part = array[(*key[:axis], *[slice(None)] * mask.ndim, *key[axis + 1 :])]
    spare = part.ndim - mask.ndim  # axes that the mask does not have
    first = [k for k in key[:axis] if type(k) is not int]
    last = [k for k in key[axis + 1 :] if type(k) is not int]
    before = len(first) if Ellipsis not in first else spare - len(last)
    _write(part, mask[(*[None] * before, ..., *[None] * (spare - before))].node, value)


def _write(array: Any, mask: Node, value: Node) -> None:
    b, to, value = array.recorder.builder, array.node.type.dtype, array._from_number(value)
    exact = value.type.weak and (value.type.dtype.kind != "f" or to.kind == "f")
    value = b.coerce(value, to) if exact else b.cast(value, to)
    array._write(views.write_masked(b, array.node, mask, value), "unsafe")
