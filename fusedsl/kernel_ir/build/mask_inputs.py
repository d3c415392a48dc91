"""What a tile's elements of scores are given: what is read for them, and dear conditions, drawn in a loop as bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...fusion import cost_model
from ...ir.graph import Node
from ...ir.types import BOOL
from .rematerialization import recompute_cost

if TYPE_CHECKING:
    from .attention import AttentionBuilder

DEAR = 20  # instructions of a condition that is worth a loop of its own


def tile_inputs(emitter: AttentionBuilder) -> tuple[list[Node], list[Node]]:
    """What a tile's elements read of memory at a place of theirs, or is drawn for them, and what at a row's."""
    one, free = emitter.streaming, emitter.free
    stream, lanes = set(one.fold.stream), set(emitter.lanes)
    lifts = [lift.value for lifts in emitter.lifts for lift in lifts]
    conditions = [k for w in one.weighted if (k := w.weight.kept()) is not None]
    ends = {p.fold for p in one.products}
    roots = [*lifts, *emitter.weights.values(), *conditions]
    varying = [n for n in computed(roots, ends) if n.op in ("load", "fetch") and free[n] & lanes]
    elements = [n for n in varying if free[n] & stream]
    return elements + _drawn(emitter, roots, ends), [n for n in varying if not free[n] & stream]


def _drawn(emitter: AttentionBuilder, roots: list[Node], scores: set[Node]) -> list[Node]:
    """Dear conditions of places alone, as that a weight is dropped: a bit of each is held, while what they are
    computed of would fill registers."""
    stream, lanes = set(emitter.streaming.fold.stream), set(emitter.lanes)
    free, known, found = emitter.free, set(emitter.known()), []
    stack, seen = list(roots), set(scores)
    while stack:
        n = stack.pop()
        if n in seen or n.op == "const":
            continue
        seen.add(n)
        axes = free.get(n, frozenset())
        if n.type.dtype is BOOL and axes & stream and axes & lanes and recompute_cost(n, known) >= DEAR:
            below = computed([n], set())
            read = [m for m in below if m.op in ("load", "fetch") and free[m] & stream]
            if not read and scores.isdisjoint(below):
                found.append(n)
                continue
        stack += n.args
    return found


def computed(roots: Iterable[Node], stop: Iterable[Node]) -> list[Node]:
    """All nodes below the roots down to those in `stop`, constants left out."""
    return [n for n in cost_model.computed_nodes(list(roots), frozenset(stop)) if n.op != "const"]
