"""Temporaries that are another array with zeros around it: a kernel that can read zeros itself needs none of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ir.dims import Dim, expression
from ..ir.graph import Node, Type, is_literal
from .coordinates import ComputedIndex, Coordinate, as_coordinate
from .fusion_group import FusionGroup
from .scalar_program import ScalarStore

Widths = tuple[tuple[Dim, Dim], ...]  # zeros before and behind along each axis


def padded_temporaries(groups: Iterable[FusionGroup], types: Mapping[tuple[str, int], Type]) -> dict[int, Widths]:
    """The zeros of each temporary, by number, that a kernel of its own fills so; `types` are those of all arrays."""
    padded = dict[int, Widths]()
    for group in groups:
        if group.is_elementwise and not group.attention and not group.scatters and len(group.all_stores) == 1:
            (store,) = group.all_stores
            widths = _widths(store, types) if store.kind == "temporary" and not store.offsets else None
            if widths is not None:
                padded[store.index] = widths
    return padded


def _widths(store: ScalarStore, types: Mapping[tuple[str, int], Type]) -> Widths | None:
    """The zeros around an array that a store copies; None if it stores anything else."""
    conditions, value = list[Node](), store.value
    while value.op == "where" and is_literal(value.args[2], 0):
        conditions += _conjuncts(value.args[0])
        value = value.args[1]
    if value.op != "fetch":
        return None
    source, at, _ = value.attr
    shape = types[source.kind, source.index].shape
    if source.views or len(at) != len(store.axes) or store.shape != store.viewed:
        return None
    widths = list[tuple[Dim, Dim]]()
    for axis, n, wide, c in zip(store.axes, shape, store.shape, at):
        before = _before(axis, c, n, conditions)
        if before is None:
            return None
        widths.append((before, expression("-", expression("-", wide, n), before)))
    return None if conditions else tuple(widths)


def _conjuncts(n: Node) -> list[Node]:
    return [m for a in n.args for m in _conjuncts(a)] if n.op == "logical_and" else [n]


def _before(axis, c: Coordinate | ComputedIndex, n: Dim, conditions: list[Node]) -> Dim | None:
    """The zeros before an axis that is read at `c`; takes its conditions, that the index is in range, out of the list.

    None if it is read otherwise.
    """
    if isinstance(c, Coordinate):
        return 0 if (c.start, c.step, c.axis) == (0, 1, axis) else None
    index = as_coordinate(c.value)
    if index is None or index.step != 1 or index.axis is None or index.axis != axis:
        return None
    upper_bounds = [m for m in conditions if m.op == "less" and m.args[0] is c.value and _is_extent(m.args[1], n)]
    lower_bounds = [
        m for m in conditions if m.op == "greater_equal" and m.args[0] is c.value and is_literal(m.args[1], 0)
    ]
    if not upper_bounds or not (lower_bounds or index.start == 0):
        return None
    conditions[:] = [m for m in conditions if m not in (*upper_bounds, *lower_bounds)]
    return expression("-", 0, index.start)


def _is_extent(n: Node, extent: Dim) -> bool:
    """Whether a scalar is this extent."""
    plain = as_coordinate(n)
    return plain is not None and plain.axis is None and plain.start == extent
