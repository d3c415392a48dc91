"""Views of traced arrays: for each kind, the read from the base and the write back to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir import index_keys, shapes
from ..ir.builder import GraphBuilder
from ..ir.dims import Dim
from ..ir.gathers import GUARDED, before_axes, gather
from ..ir.graph import Node
from ..ir.types import INT64


@dataclass(frozen=True)
class View:
    """A view of a base array."""

    read: Callable[[Node], Node]  # base → the view's value
    write: Callable[[Node, Node], Node] | None = None  # (base, new view value) → new base; None: not supported
    certain: bool = True  # False if it may be a copy: strides decide, which a trace does not know


def transposed(b: GraphBuilder, axes: Sequence[int] | None) -> View:
    """A view with permuted axes."""

    def write(base: Node, value: Node) -> Node:
        rank = base.type.rank
        order = tuple(reversed(range(rank))) if axes is None else tuple(a % rank for a in axes)
        return shapes.transpose(b, value, [order.index(k) for k in range(rank)])

    return View(lambda x: shapes.transpose(b, x, axes), write)


def reshaped(b: GraphBuilder, read: Callable[[Node], Node], base: Node) -> View:
    """A reshaped array; certainly a view if only axes of extent 1 are added or removed."""
    long = [[d for d in x.type.shape if not b.is_unit(d)] for x in (base, read(base))]
    if long[0] == long[1]:
        return View(read, lambda base, value: shapes.reshape(b, value, base.type.shape))
    return View(read, certain=False)


def indexed(b: GraphBuilder, key: tuple) -> View:
    """The view `x[key]`, for integers, slices, None and `...`."""
    return View(lambda x: index_keys.index(b, x, key), lambda base, value: write_slice(b, base, key, value))


def write_slice(b: GraphBuilder, base: Node, key: tuple, value: Node) -> Node:
    """`base` after `base[key] = value`: a select, at each index, between the value and the old element."""
    entries = index_keys.index_entries(b, base, index_keys.full_key(b, base, key), None)
    kept_entries = [entry for entry in entries if entry[0] != "int"]
    value = shapes.broadcast_to(b, value, index_keys.index(b, base, key).type.shape)
    value = shapes.squeeze(b, value, [k for k, entry in enumerate(kept_entries) if entry[0] == "new"])
    inside: list[Node] = []
    at: dict[int, Node] = {}
    sliced_axes: list[int] = []
    for axis, entry in enumerate(entry for entry in entries if entry[0] != "new"):
        extent = base.type.shape[axis]
        line = b.iota(extent)
        after = base.type.rank - axis - 1
        if entry[0] == "int":
            inside.append(before_axes(b, b.elementwise("equal", line, b.extent(entry[1])), after))
            continue
        sliced_axes.append(axis)
        if entry != ("slice", 0, 1, extent):
            position, hit = _within(b, line, *entry[1:])
            inside.append(before_axes(b, hit, after))
            at[len(sliced_axes) - 1] = before_axes(b, b.convert(position, INT64), after)
    if not inside:
        return value
    condition = inside[0]
    for other in inside[1:]:
        condition = b.elementwise("logical_and", condition, other)
    if at:
        moved = gather(value, at, sliced_axes, base.type.shape, GUARDED)
    else:
        moved = shapes.expand_dims(b, value, [a for a in range(base.type.rank) if a not in sliced_axes])
    return b.elementwise("where", condition, moved, base)


def _within(b: GraphBuilder, line: Node, start: Dim, step: int, extent: Dim) -> tuple[Node, Node]:
    """(index within the slice, whether the slice contains it) for each index of an axis."""
    offset = b.elementwise("subtract", line, b.extent(start))
    position = offset if step == 1 else b.elementwise("floor_divide", offset, b.literal(step))
    hit = b.elementwise(
        "logical_and",
        b.elementwise("greater_equal", position, b.literal(0)),
        b.elementwise("less", position, b.extent(extent)),
    )
    if abs(step) != 1:
        on_step = b.elementwise("equal", b.elementwise("multiply", position, b.literal(step)), offset)
        hit = b.elementwise("logical_and", hit, on_step)
    return position, hit


def write_masked(b: GraphBuilder, base: Node, mask: Node, value: Node) -> Node:
    """`base` after `base[mask] = value`, for a value that broadcasts to the selected elements."""
    behind = base.type.rank - mask.type.rank
    axes = [mask.type.rank + k for k in range(behind)]
    return b.elementwise("where", shapes.expand_dims(b, mask, axes) if axes else mask, value, base)
