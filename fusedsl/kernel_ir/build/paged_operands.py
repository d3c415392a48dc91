"""Paged k and v: operands of attention whose rows are loaded at computed addresses, such as pages of a KV cache.

Such an operand is `where(valid, fetch(address, predicate), nan)`, and only the last step of the address runs along its
rows. Products load what memory has, or 0; instead, an invalid row makes its scores and weights NaN, unless a mask
excludes it. Each row is looked up once per tile, and not at all if no query needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isnan

from ...fusion.coordinates import Axis, ComputedIndex, Coordinate
from ...fusion.mask_conditions import may_contribute, predicate_reads
from ...fusion.online.find_attention import AttentionPattern, ValueProduct
from ...ir.folds import pick
from ...ir.graph import Node, constant, is_literal, rebuild, value_of, walk, with_arguments
from ...ir.types import BOOL, INT64
from ...rewrite.scalar_builder import free_axes, replace_nodes
from ..memory_access import ACCESS_BYTES
from .node_map import all_nodes, map_nodes

# operations that propagate NaN
NAN_PROPAGATING = (
    "add",
    "subtract",
    "multiply",
    "divide",
    "negative",
    "exp",
    "exp2",
    "tanh",
    "convert",
    "cast",
    "maximum",
)


@dataclass(frozen=True)
class PagedLoad:
    """Operand `fetch`, NaN unless `valid`: address of a row's first element, its predicate, the array's row axis."""

    fetch: Node
    valid: Node | None
    address: Node
    predicate: Node
    inner_axis: int

    @property
    def nodes(self) -> list[Node]:
        return [n for n in (self.fetch, self.valid, self.address, self.predicate) if n is not None]


@dataclass(frozen=True)
class PagedLoads:
    """The paged operands of an attention pattern: k of its one score, v of its one weighted sum."""

    k: PagedLoad | None = None
    v: PagedLoad | None = None

    @property
    def nodes(self) -> list[Node]:
        return [n for load in (self.k, self.v) if load is not None for n in load.nodes]

    @property
    def valid(self) -> list[Node]:
        """The validity conditions that elements of a tile are computed with."""
        both = (load.valid for load in (self.k, self.v) if load is not None)
        return list(dict.fromkeys(n for n in both if n is not None))

    def mapped(self, new: dict[Node, Node]) -> PagedLoads:
        """The same with nodes replaced."""

        def moved(load: PagedLoad | None) -> PagedLoad | None:
            if load is None:
                return None
            there = None if load.valid is None else new[load.valid]
            return PagedLoad(new[load.fetch], there, new[load.address], new[load.predicate], load.inner_axis)

        return PagedLoads(moved(self.k), moved(self.v))


def find_paged_loads(pattern: AttentionPattern) -> PagedLoads:
    """Find the paged operands of a pattern."""
    if not pattern.reduction.running_reference or len(pattern.score_products) != 1 or len(pattern.value_products) > 1:
        return PagedLoads()
    known = {*pattern.rows, *pattern.reduction.axes}.difference(pattern.query_axes)
    condition = may_contribute([pattern.reduction], known)
    sides = [(p.k, p.axis) for p in pattern.score_products] + [(w.v, w.axis) for w in pattern.value_products]
    return PagedLoads(*(_paged_load(value, axis, condition) for value, axis in sides))


def _paged_load(value: Node, axis: Axis, condition: Node | None) -> PagedLoad | None:
    """The paged load of an operand, if its rows have computed addresses that do not vary along the axis."""
    there, n = None, predicate_reads(condition, value)
    if is_nan_if_invalid(n):
        there, n, _ = n.args
    if n.op != "fetch":
        return None
    at = n.attr[1]
    free = free_axes([*n.args, *([] if there is None else [there])])
    computed = [x for c in at if isinstance(c, ComputedIndex) for x in (c.value, c.inside) if x is not None]
    known = free_axes(computed)
    if any(axis in known[x] for x in computed) or (there is not None and axis in free[there]):
        return None
    along = [k for k, c in enumerate(at) if c.axis == axis]
    if len(along) != 1 or not _is_aligned_contiguous(at[along[0]], n.attr[2].itemsize):
        return None
    address, wanted = _at_position_zero(n.args, axis, free)
    return PagedLoad(n, there, address, wanted, along[0])


def is_nan_if_invalid(n: Node) -> bool:
    """True for `where(condition, value, nan)`."""
    return n.op == "where" and n.args[2].op == "const" and n.type.dtype.kind == "f" and isnan(value_of(n.args[2]))


def _is_aligned_contiguous(c: Coordinate | ComputedIndex, size: int) -> bool:
    """True for stride 1 and a start that is aligned to one asynchronous copy."""
    return isinstance(c, Coordinate) and c.step == 1 and isinstance(c.start, int) and c.start * size % ACCESS_BYTES == 0


def _at_position_zero(roots: Sequence[Node], axis: Axis, free: dict[Node, frozenset]) -> list[Node]:
    """Values at position 0 of an axis; conditions of this position alone are True."""

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if old.op == "position" and old.attr == axis:
            return constant(0, INT64)
        if old.type.dtype is BOOL and free[old] == {axis}:
            return constant(True, BOOL)
        if old.op == "multiply" and any(is_literal(a, 0) for a in args):
            return constant(0, INT64)
        if old.op in ("add", "logical_and"):
            rest = [a for a in args if not is_literal(a, int(old.op == "logical_and"))]
            if len(rest) == 1:
                return rest[0]
        return with_arguments(old, args)

    new = rebuild(roots, change)
    return [new[r] for r in roots]


def with_paged_operands(
    pattern: AttentionPattern, places: PagedLoads, values: Iterable[Node], foreign: Iterable[Node]
) -> tuple[AttentionPattern, dict[Node, Node]]:
    """(the pattern with fetches as operands and NaN scores for invalid rows, the replacements of `values`).
    Nodes in `foreign` are not replaced."""
    if places == PagedLoads():
        return pattern, {v: v for v in values}
    done = {n: n for n in foreign}
    (p,) = pattern.score_products
    for right, load in zip((p.k, *(w.v for w in pattern.value_products)), (places.k, places.v)):
        if load is not None:
            done[right] = load.fetch
    bare = replace_nodes([p.fold], done)[p.fold]
    if places.k is not None and places.k.valid is not None:
        done[p.fold] = pick(places.k.valid, bare, constant(float("nan"), bare.type.dtype))
    new = replace_nodes([*all_nodes(pattern), *values], done)
    paged = map_nodes(pattern, new.__getitem__)
    return replace(paged, score_products=(replace(paged.score_products[0], fold=bare),)), new


def weight_if_valid(w: ValueProduct, weight: Node, paged: PagedLoads) -> Node:
    """The weight of an element: NaN if it is active and its row of v is invalid."""
    if paged.v is None or paged.v.valid is None or _propagates_from_score(weight, paged):
        return weight
    nan, active = constant(float("nan"), weight.type.dtype), w.p.active_condition()
    absent = nan if active is None else pick(active, nan, constant(0.0, weight.type.dtype))
    return pick(paged.v.valid, weight, absent)


def _propagates_from_score(weight: Node, paged: PagedLoads) -> bool:
    """True if invalid rows of v already make scores NaN, and scores propagate NaN to active weights."""
    if paged.k is None or paged.v is None or paged.k.valid is not paged.v.valid:
        return False
    propagating: set[Node] = set()
    for n in walk([weight]):
        absent = is_nan_if_invalid(n) and n.args[0] is paged.k.valid
        passed = n.op in NAN_PROPAGATING and not propagating.isdisjoint(n.args)
        if absent or passed or _is_masked_nan(n, weight, propagating):
            propagating.add(n)
    return weight in propagating


def _is_masked_nan(n: Node, weight: Node, propagating: set[Node]) -> bool:
    """True for a select between a NaN-propagating value and the value of masked elements."""
    if n.op != "where" or n.args[1] not in propagating or n.args[2].op != "const":
        return False
    return value_of(n.args[2]) == (0.0 if n is weight else float("-inf"))
