"""Roots of a segment: what it stores, with the arrays that each is computed from; a scatter is of three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.graph import Node
from ..ir.scatters import ORDERED
from .reshapes import reshaped_argument, reshaped_freely
from .segments import StoreTarget


@dataclass(frozen=True)
class Root:
    """What a segment stores: the value `stored`, computed as `computed`, then the updates of a scatter."""

    target: StoreTarget
    stored: Node
    computed: Node
    fold: str = ""  # of a scatter
    updates: tuple[Node, ...] = ()  # of a scatter: its indices and values
    ordered: bool = False  # whether these indices do not decrease

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.computed, *self.updates)


def parts_of(n: Node) -> tuple[Node, ...]:
    """The arrays that are computed for a result: base, indices and values of a scatter, or itself."""
    return n.args if n.op == "scatter" else (n,)


def without_final_reshapes(written: Sequence[Node], results: Sequence[Node]) -> list[Node]:
    """Parts of results as they are computed: without a final reshape, as the bytes in memory are the same."""
    peeled, rest = [], iter(results)
    for n in written:
        first, *updates = (next(rest) for _ in parts_of(n))
        peeled.append(_below_final_reshape(first))
        if updates:
            peeled += _below_shared_reshape(updates[0], updates[1], n.attr[1])
    return peeled


def _below_final_reshape(r: Node) -> Node:
    return r.args[0] if r.op == "reshape" and reshaped_argument(r) is None else r


def _below_shared_reshape(flat_indices: Node, values: Node, mode: str) -> tuple[Node, Node]:
    """Indices and values of a scatter, which have one shape: both below reshapes of one shape, or both as they are."""
    if flat_indices.type.shape != values.type.shape:
        return flat_indices, values
    a, b = _below_final_reshape(flat_indices), _below_final_reshape(values)
    if a.type.shape == b.type.shape:
        return a, b
    moved = reshaped_freely(values, a.type.shape) if a is not flat_indices else None
    if moved is not None:
        return a, moved
    moved = reshaped_freely(flat_indices, b.type.shape) if b is not values and mode != ORDERED else None
    return (flat_indices, values) if moved is None else (moved, b)


def regrouped(
    targets: Sequence[StoreTarget], written: Sequence[Node], results: Sequence[Node], peeled: Sequence[Node]
) -> list[Root]:
    """The roots of results whose parts were rewritten."""
    roots, rest = [], iter(zip(results, peeled))
    for target, n in zip(targets, written):
        stored, computed = next(rest)
        updates = tuple(next(rest)[1] for _ in parts_of(n)[1:])
        fold, mode = n.attr if updates else ("", "")
        roots.append(Root(target, stored, computed, fold, updates, mode == ORDERED and updates[0].type.rank == 1))
    return roots
