"""Rules of stores: each element of an array is stored exactly once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..ir.graph import Node, Type, walk
from ..ir.index_rules import Box, IndexRules
from ..ir.verify import require
from ..rewrite.scalar_builder import free_axes
from .scalar_program import ScalarStore
from .verify_arrays import Arrays, Key


def verify_stores(roots: Sequence[ScalarStore], wanted: Collection[Key], arrays: Arrays) -> None:
    """VerifyError unless the stores cover exactly the arrays that are `wanted`."""
    stored: dict[Key, list[ScalarStore]] = {}
    for r in roots:
        key: Key = (r.kind, r.index)
        require(key in wanted, "what is stored is a result, or a temporary of this program", r)
        _has_the_type_of_its_array(r, arrays.types[key], arrays.index_rules)
        if not r.is_scatter:  # it merges into elements that others store
            stored.setdefault(key, []).append(r)
    for key in wanted:
        require(key in stored, "every result and every temporary is stored", key)
        viewed = stored[key][0].viewed
        require(all(r.viewed == viewed for r in stored[key]), "pieces are those of an array of one shape", key)
        arrays.index_rules.covered(viewed, [_box(r) for r in stored[key]], key)


def _has_the_type_of_its_array(r: ScalarStore, t: Type, index_rules: IndexRules) -> None:
    require(r.type.dtype is t.dtype, "what is stored has the dtype of its array", r, t)
    require(
        r.value.type.dtype.compute is r.stored_dtype.compute, "a value is computed in what its array holds", r, r.value
    )
    index_rules.alike(r.shape, t.shape, r)
    if r.is_scatter:
        require(r.kind == "temporary", "a scatter merges into a temporary", r)
        return
    if r.viewed != r.shape:
        index_rules.viewed(r.shape, (("reshape", r.viewed),), r)
    require(len(r.axes) == len(r.viewed), "a store has an axis for each of its array", r)
    axes = [a for a in r.axes if a is not None]
    require(len(axes) == len(set(axes)), "a store runs along an axis once", r)
    require(len(r.offsets) in (0, len(r.axes)), "a store begins somewhere on each axis", r)


def _box(r: ScalarStore) -> Box:
    return Box(r.offsets or (0,) * len(r.axes), tuple(1 if a is None else a.extent for a in r.axes))


def verify_values(pairs: Iterable[tuple[ScalarStore, Node]]) -> None:
    """VerifyError unless each stored value depends on the axes of its store only."""
    pairs = list(pairs)
    free = free_axes([value for _, value in pairs])
    for r, value in pairs:
        loose = free[value].difference(r.axes)
        require(not loose, "a value depends on the axes of its store alone", [str(a) for a in loose], r)


def verify_order(roots: Sequence[ScalarStore], written: frozenset[int]) -> list[ScalarStore]:
    """The stores in an order in which temporaries are `written` before they are read; VerifyError if there is none."""
    reads = {r: _temporaries(r.value) & written for r in roots}
    left, ordered, done = list(dict.fromkeys(roots)), list[ScalarStore](), set[int]()
    pending = {t: sum(r.index == t for r in roots if r.kind == "temporary") for t in written}
    while left:
        bases = {(r.kind, r.index) for r in left if not r.is_scatter}
        whole = {(r.kind, r.index) for r in ordered} - bases
        ready = [r for r in left if reads[r] <= done and (not r.is_scatter or (r.kind, r.index) in whole)]
        require(bool(ready), "no temporary is needed before it can be computed", *left)
        for r in ready:
            ordered.append(r)
            if r.kind == "temporary":
                pending[r.index] -= 1
                done |= {r.index} if pending[r.index] == 0 else set()
        left = [r for r in left if r not in ready]
    return ordered


def _temporaries(value: Node) -> set[int]:
    """Temporaries that a value reads."""
    sources = (n.attr[0] for n in walk([value]) if n.op in ("load", "pointer"))
    return {s.index for s in sources if s.kind == "temporary"}
