"""Inputs of a tile's scores: loads of each element, and expensive index masks, evaluated in a loop as bits."""

from __future__ import annotations

from collections.abc import Iterable

from ...fusion import cost_model
from ...ir.graph import Node, search
from ...ir.types import BOOL
from .attention_frame import AttentionFrame
from .rematerialization import recompute_cost

WORTH_A_LOOP = 20  # instructions of an index mask that is worth a loop of its own


def mask_inputs(emitter: AttentionFrame) -> tuple[list[Node], list[Node]]:
    """(loads and index masks of each element of a tile, loads of each row)"""
    pattern, free = emitter.pattern, emitter.free
    stream, lanes = set(pattern.reduction.axes), set(emitter.query_axes)
    lifts = [lift.value for lifts in emitter.lifts for lift in lifts]
    conditions = [k for w in pattern.value_products if (k := w.p.active_condition()) is not None]
    ends = {p.fold for p in pattern.score_products}
    roots = [*lifts, *emitter.weights.values(), *conditions]
    varying = [n for n in computed(roots, ends) if n.op in ("load", "fetch") and free[n] & lanes]
    elements = [n for n in varying if free[n] & stream]
    return elements + _index_masks(emitter, roots, ends), [n for n in varying if not free[n] & stream]


def _index_masks(emitter: AttentionFrame, roots: list[Node], scores: set[Node]) -> list[Node]:
    """Expensive masks of indices alone, such as dropout: one bit of each is kept, while their operands would fill
    registers."""
    stream, lanes = set(emitter.pattern.reduction.axes), set(emitter.query_axes)
    free, known, masks = emitter.free, set(emitter.known()), dict[Node, None]()
    for n in search(roots, lambda n: () if n in scores or n in masks else n.args):
        axes = free.get(n, frozenset())
        if n.type.dtype is BOOL and axes & stream and axes & lanes and recompute_cost(n, known) >= WORTH_A_LOOP:
            subgraph = computed([n], set())
            read = [m for m in subgraph if m.op in ("load", "fetch") and free[m] & stream]
            if not read and scores.isdisjoint(subgraph):
                masks[n] = None
    return list(masks)


def computed(roots: Iterable[Node], stop: Iterable[Node]) -> list[Node]:
    """All nodes below the roots down to those in `stop`, without constants."""
    return [n for n in cost_model.computed_nodes(list(roots), frozenset(stop)) if n.op != "const"]
