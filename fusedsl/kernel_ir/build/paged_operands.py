"""Right operands of a pass over scores whose lines are read at computed places, as keys in pages are.

Such an operand is `where(there, fetch(address, wanted), nan)`, and only the last step of the address goes along its
lines. Products take what memory has, or 0: what is not there makes scores and weights NaN instead, unless a mask leaves
it out. A line is looked up once, and not at all where no row counts its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import TYPE_CHECKING

from ...fusion.coordinates import Axis, ComputedIndex, Coordinate
from ...fusion.mask_conditions import may_contribute, predicate_reads
from ...fusion.online.find_attention import Streaming, Weighted
from ...ir.folds import pick
from ...ir.graph import Node, constant, is_literal, node, rebuild, value_of, walk
from ...ir.types import BOOL, INT64
from ...rewrite.scalar_builder import free_axes, replace_nodes
from ..attention import Gather, Line
from ..memory_access import ACCESS_BYTES
from .node_map import map_nodes, all_nodes

if TYPE_CHECKING:
    from .attention import AttentionBuilder

# operations that make NaN of NaN
SPREADING = ("add", "subtract", "multiply", "divide", "negative", "exp", "exp2", "tanh", "convert", "cast", "maximum")


@dataclass(frozen=True)
class Place:
    """An operand that is `fetch`, and NaN where it is not `there`: the address of a line's first element, whether it is
    wanted, and the axis of the array that lines lie along."""

    fetch: Node
    there: Node | None
    address: Node
    wanted: Node
    inner: int

    @property
    def nodes(self) -> list[Node]:
        return [n for n in (self.fetch, self.there, self.address, self.wanted) if n is not None]


@dataclass(frozen=True)
class Places:
    """The operands of a pass that are such lines: of its one score, and of its one weighing."""

    right: Place | None = None
    weighed: Place | None = None

    @property
    def nodes(self) -> list[Node]:
        return [n for place in (self.right, self.weighed) if place is not None for n in place.nodes]

    @property
    def there(self) -> list[Node]:
        """The conditions that elements of a tile are computed with."""
        both = (place.there for place in (self.right, self.weighed) if place is not None)
        return list(dict.fromkeys(n for n in both if n is not None))

    def mapped(self, new: dict[Node, Node]) -> Places:
        """The same with other nodes."""

        def moved(place: Place | None) -> Place | None:
            if place is None:
                return None
            there = None if place.there is None else new[place.there]
            return Place(new[place.fetch], there, new[place.address], new[place.wanted], place.inner)

        return Places(moved(self.right), moved(self.weighed))


def places_of(one: Streaming) -> Places:
    """What a pass reads line by line."""
    if not one.fold.running_reference or len(one.products) != 1 or len(one.weighted) > 1:
        return Places()
    known = {*one.rows, *one.fold.stream}.difference(one.lanes)
    condition = may_contribute([one.fold], known)
    sides = [(p.right, p.axis) for p in one.products] + [(w.right, w.axis) for w in one.weighted]
    return Places(*(_place(value, axis, condition) for value, axis in sides))


def _place(value: Node, axis: Axis, condition: Node | None) -> Place | None:
    """Where the lines of an operand are, if it is read at computed places that are the same all along the axis."""
    there, n = None, predicate_reads(condition, value)
    if is_absence(n):
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
    if len(along) != 1 or not _begins_whole(at[along[0]], n.attr[2].itemsize):
        return None
    address, wanted = _at_first(n.args, axis, free)
    return Place(n, there, address, wanted, along[0])


def is_absence(n: Node) -> bool:
    """Whether a value is NaN where something is not there."""
    return n.op == "where" and n.args[2].op == "const" and n.type.dtype.kind == "f" and isnan(value_of(n.args[2]))


def _begins_whole(c: Coordinate | ComputedIndex, size: int) -> bool:
    """Whether neighbours lie beside each other, from a multiple of what one copy brings on."""
    return isinstance(c, Coordinate) and c.step == 1 and isinstance(c.start, int) and c.start * size % ACCESS_BYTES == 0


def _at_first(roots: Sequence[Node], axis: Axis, free: dict[Node, frozenset]) -> list[Node]:
    """Values at position 0 of an axis; conditions of this position alone hold."""

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
        return node(old.op, args, old.attr, old.type) if args != old.args else old

    new = rebuild(roots, change)
    return [new[r] for r in roots]


def gathered(
    one: Streaming, places: Places, values: Iterable[Node], foreign: Iterable[Node]
) -> tuple[Streaming, dict[Node, Node]]:
    """The pass with fetches as operands, whose scores are NaN where these are not there, and what became of `values`.
    What is `foreign` stays as it is."""
    if places == Places():
        return one, {v: v for v in values}
    done = {n: n for n in foreign}
    (p,) = one.products
    for right, place in zip((p.right, *(w.right for w in one.weighted)), (places.right, places.weighed)):
        if place is not None:
            done[right] = place.fetch
    bare = replace_nodes([p.fold], done)[p.fold]
    if places.right is not None and places.right.there is not None:
        done[p.fold] = pick(places.right.there, bare, constant(float("nan"), bare.type.dtype))
    new = replace_nodes([*all_nodes(one), *values], done)
    found = map_nodes(one, new.__getitem__)
    return replace(found, products=(replace(found.products[0], fold=bare),)), new


def weight_there(w: Weighted, weight: Node, places: Places) -> Node:
    """What an element weighs: NaN where it counts, and what it weighs is not there."""
    if places.weighed is None or places.weighed.there is None or _is_told(weight, places):
        return weight
    nan, kept = constant(float("nan"), weight.type.dtype), w.weight.kept()
    absent = nan if kept is None else pick(kept, nan, constant(0.0, weight.type.dtype))
    return pick(places.weighed.there, weight, absent)


def _is_told(weight: Node, places: Places) -> bool:
    """Whether scores are NaN where what is weighed is not there, and weights where these are and count."""
    if places.right is None or places.weighed is None or places.right.there is not places.weighed.there:
        return False
    found: set[Node] = set()
    for n in walk([weight]):
        absent = is_absence(n) and n.args[0] is places.right.there
        if absent or _is_masked(n, weight, found) or (n.op in SPREADING and any(a in found for a in n.args)):
            found.add(n)
    return weight in found


def _is_masked(n: Node, weight: Node, found: set[Node]) -> bool:
    """Whether a value is one of those found, unless a condition leaves the element out."""
    if n.op != "where" or n.args[1] not in found or n.args[2].op != "const":
        return False
    return value_of(n.args[2]) == (0.0 if n is weight else float("-inf"))


def gather_of(emitter: AttentionBuilder) -> Gather | None:
    """How a kernel finds the lines of a tile."""
    places, builder = emitter.places_read, emitter.builder
    if places == Places():
        return None
    results = [n for place in (places.right, places.weighed) if place for n in (place.address, place.wanted)]
    results = list(dict.fromkeys([*results, *places.there]))
    body = builder.body((), results, emitter.known())
    values = dict(zip(results, body.results))

    def line(place: Place | None) -> Line | None:
        if place is None:
            return None
        number = next(k for k, p in enumerate(emitter.pointers) if p.attr[0] == place.fetch.attr[0])
        return Line(len(emitter.loads) + number, place.inner, values[place.address], values[place.wanted])

    return Gather(body, line(places.right), line(places.weighed), tuple(values[n] for n in places.there))
