"""Results that later kernels read: what is both a result and a temporary is stored once, as the result.

A partition stores a temporary for its readers, and a result for the caller. Where both have the same elements, the
temporary's readers read the result, whose layout a call knows as it knows an argument's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..ir.graph import Node
from .coordinates import Coordinate
from .cost_model import computed_nodes
from .fusion_group import FusionGroup, Partition
from .scalar_program import ArraySource, ScalarStore

Stores = Sequence[tuple[int, ScalarStore]]
"""The stores to an array, each with the number of its group."""


@dataclass(frozen=True)
class ReadResult:
    """The result that is read instead of a temporary; axis k of it is axis `order[k]` of the temporary."""

    index: int
    order: tuple[int, ...]

    @property
    def in_order(self) -> bool:
        return self.order == tuple(range(len(self.order)))


@dataclass(frozen=True)
class StoredResults:
    """The partition in which each result is stored once, and the result that each dropped temporary is read from."""

    cut: Partition
    result_of: Mapping[int, ReadResult]


def store_results_once(cut: Partition) -> StoredResults:
    """The partition without temporaries that have a result's elements.

    Either one kernel stores both, or one that reads the temporary copies it to the result. A reader that reshapes the
    temporary keeps it: an array of `out=` may have strides that allow no such view.
    """
    sources = [source for g in cut.groups for source in _sources(g)]
    reshaped = {source.index for source, _ in sources if any(kind == "reshape" for kind, _ in source.views)}
    fixed = {source.index for source, computed in sources if computed or source.views}  # their axes stay as they are
    results = _stores_of(cut.groups, "result")
    result_of: dict[int, ReadResult] = {}
    groups = list(cut.groups)
    for t, stores in _stores_of(cut.groups, "temporary").items():
        if t in reshaped or any(s.merged or s.is_scatter or s.viewed != s.shape for _, s in stores):
            continue
        for k, written in list(results.items()):
            order = _order(stores, written)
            if order is not None and (t not in fixed or ReadResult(k, order).in_order):
                groups = [_without(g, [s for writer, s in stores if writer == n]) for n, g in enumerate(groups)]
            elif _copies(groups, stores, written, t):
                ((copying, copy),) = written
                order = tuple(range(len(copy.axes)))
                groups[copying] = _without(groups[copying], [copy])
                groups = [_to_result(g, t, k) for g in groups]
            else:
                continue
            result_of[t] = ReadResult(k, order)
            del results[k]
            break
    return StoredResults(replace(cut, groups=tuple(groups)), result_of)


def _stores_of(groups: Sequence[FusionGroup], kind: str) -> dict[int, Stores]:
    """The stores to each array of a kind."""
    stores: dict[int, list[tuple[int, ScalarStore]]] = {}
    for number, g in enumerate(groups):
        for s in g.all_stores:
            if s.kind == kind:
                stores.setdefault(s.index, []).append((number, s))
    return dict(stores)


def _sources(g: FusionGroup) -> Iterator[tuple[ArraySource, bool]]:
    """The temporaries that a kernel reads, as it sees them, and whether it computes their elements' addresses."""
    nodes: tuple[Node, ...] = (*computed_nodes(g.values, frozenset(g.imports)), *g.imports.values())
    read = ((n.attr[0], n.op == "pointer") for n in nodes if n.op in ("load", "pointer"))
    return (one for one in read if one[0].kind == "temporary")


def _order(stores: Stores, written: Stores) -> tuple[int, ...] | None:
    """The axis of the temporary that each axis of the result is, if each kernel that stores a part of one stores the
    same part of the other."""
    own, other = stores[0][1].axes, written[0][1].axes
    if len(stores) != len(written) or len(own) != len(other) or any(r.viewed != r.shape for _, r in written):
        return None
    order = tuple(range(len(own)))
    if own != other:
        if None in own or set(own) != set(other):
            return None
        order = tuple(map(own.index, other))
    whole = tuple(range(len(other)))
    parts = [
        sorted(map(str, part)) for part in ([_part(*s, order) for s in stores], [_part(*r, whole) for r in written])
    ]
    return order if parts[0] == parts[1] else None


def _part(number: int, s: ScalarStore, order: Sequence[int]) -> tuple:
    """What a store writes where, with the axes in this order."""
    axes, offsets, shape = (
        tuple(line[a] for a in order) for line in (s.axes, s.offsets or (0,) * len(s.axes), s.shape)
    )
    return number, id(s.value), axes, offsets, shape, s.type.dtype.name, s.stored_dtype.name


def _copies(groups: Sequence[FusionGroup], stores: Stores, written: Stores, t: int) -> bool:
    """Whether the result is a copy of the temporary, by a kernel that stores or folds other elements too."""
    if len(written) != 1:
        return False
    ((number, copy),) = written
    g, first = groups[number], stores[0][1]
    alike = (copy.shape, copy.viewed, copy.type.dtype) == (first.shape, first.shape, first.type.dtype)
    if not alike or copy.offsets or copy.stored_dtype is not first.stored_dtype or g.attention is not None:
        return False
    value = g.imports.get(copy.value, copy.value)
    at = tuple(Coordinate(0, 1, a) for a in copy.axes)
    if value.op != "load" or value.attr != (ArraySource("temporary", t, (), first.rounded), at):
        return False
    return len(g.stores if g.is_elementwise else g.all_stores) > 1


def _without(g: FusionGroup, dropped: Sequence[ScalarStore]) -> FusionGroup:
    """A kernel without some of its stores."""
    return g.with_stores(lambda stores: [s for s in stores if s not in dropped]) if dropped else g


def _to_result(g: FusionGroup, t: int, result: int) -> FusionGroup:
    """A kernel that stores to the result what it would store to the temporary."""

    def stored(s: ScalarStore) -> ScalarStore:
        there = s.kind == "temporary" and s.index == t
        return replace(s, kind="result", index=result, rounded=False) if there else s

    return g.with_stores(lambda stores: list(map(stored, stores)))
