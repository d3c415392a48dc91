"""Views of traced arrays: what each kind reads of its base, and what the base becomes where the view is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir import shapes
from ..ir.builder import Builder
from ..ir.dims import Dim
from ..ir.gathers import GUARDED, before_axes, gather
from ..ir.graph import Node
from ..ir.types import INT64


@dataclass(frozen=True)
class View:
    """`read(base)` is what the view shows; `write(base, value)` what its base becomes when the view is `value`.

    `write` is None where that cannot be told. A view that is not `certain` shares its base's memory or copies it, as
    strides decide that a trace does not see.
    """

    read: Callable[[Node], Node]
    write: Callable[[Node, Node], Node] | None = None
    certain: bool = True


def transposed(b: Builder, axes: Sequence[int] | None) -> View:
    """The axes in another order."""

    def write(base: Node, value: Node) -> Node:
        rank = base.type.rank
        order = tuple(reversed(range(rank))) if axes is None else tuple(a % rank for a in axes)
        return shapes.transpose(b, value, [order.index(k) for k in range(rank)])

    return View(lambda x: shapes.transpose(b, x, axes), write)


def reshaped(b: Builder, read: Callable[[Node], Node], base: Node) -> View:
    """The same elements under another shape; a view for sure where only axes of extent 1 come and go."""
    long = [[d for d in x.type.shape if not b.is_unit(d)] for x in (base, read(base))]
    if long[0] == long[1]:
        return View(read, lambda base, value: shapes.reshape(b, value, base.type.shape))
    return View(read, certain=False)


def indexed(b: Builder, key: tuple) -> View:
    """`x[key]` of integers, slices, None and `...`."""
    return View(lambda x: shapes.index(b, x, key), lambda base, value: write_slice(b, base, key, value))


def write_slice(b: Builder, base: Node, key: tuple, value: Node) -> Node:
    """`base` after `base[key] = value`: at each position, what the value holds there, or what there was."""
    entries = shapes.index_entries(b, base, shapes.full_key(b, base, key), None)
    kept = [entry for entry in entries if entry[0] != "int"]
    value = shapes.broadcast_to(b, value, shapes.index(b, base, key).type.shape)
    value = shapes.squeeze(b, value, [k for k, entry in enumerate(kept) if entry[0] == "new"])
    inside: list[Node] = []
    at: dict[int, Node] = {}
    places: list[int] = []
    for axis, entry in enumerate(entry for entry in entries if entry[0] != "new"):
        extent = base.type.shape[axis]
        line = b.iota(extent)
        after = base.type.rank - axis - 1
        if entry[0] == "int":
            inside.append(before_axes(b, b.elementwise("equal", line, b.extent(entry[1])), after))
            continue
        places.append(axis)
        if entry != ("slice", 0, 1, extent):
            position, hit = _within(b, line, *entry[1:])
            inside.append(before_axes(b, hit, after))
            at[len(places) - 1] = before_axes(b, b.convert(position, INT64), after)
    if not inside:
        return value
    condition = inside[0]
    for other in inside[1:]:
        condition = b.elementwise("logical_and", condition, other)
    if at:
        moved = gather(value, at, places, base.type.shape, GUARDED)
    else:
        moved = shapes.expand_dims(b, value, [a for a in range(base.type.rank) if a not in places])
    return b.elementwise("where", condition, moved, base)


def _within(b: Builder, line: Node, start: Dim, step: int, extent: Dim) -> tuple[Node, Node]:
    """(the position in a slice of each position of an axis, whether it has one)."""
    offset = b.elementwise("subtract", line, b.extent(start))
    position = offset if step == 1 else b.elementwise("floor_divide", offset, b.literal(step))
    hit = b.elementwise(
        "logical_and",
        b.elementwise("greater_equal", position, b.literal(0)),
        b.elementwise("less", position, b.extent(extent)),
    )
    if abs(step) != 1:
        whole = b.elementwise("equal", b.elementwise("multiply", position, b.literal(step)), offset)
        hit = b.elementwise("logical_and", hit, whole)
    return position, hit


def write_masked(b: Builder, base: Node, mask: Node, value: Node) -> Node:
    """`base` after `base[mask] = value`, for a value that does not depend on which elements the mask picks."""
    behind = base.type.rank - mask.type.rank
    axes = [mask.type.rank + k for k in range(behind)]
    return b.elementwise("where", shapes.expand_dims(b, mask, axes) if axes else mask, value, base)
