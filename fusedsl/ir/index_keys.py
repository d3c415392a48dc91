"""Basic indexing: keys of integers, slices, None and an ellipsis in normal form, as NumPy reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError
from .builder import GraphBuilder, fail
from .checks import shape_error
from .dims import Dim, expression
from .graph import Check, Node, Site, Type, node

FULL_SLICE = slice(None)  # the part of a key that takes a whole axis; `whole_axis` is its entry in the normal form


def whole_axis(d: Dim) -> tuple:
    """The entry of a full slice of an axis of this extent."""
    return ("slice", 0, 1, d)


def basic_index(x: Node, key: tuple) -> Node:
    """A basic index in normal form: ("int", i), ("slice", start, step, extent) per axis of x, ("new",) between."""
    plain = [k for k in key if k[0] != "new"]
    if len(key) == len(plain) and all(k == whole_axis(d) for k, d in zip(plain, x.type.shape)):
        return x
    shape = tuple(1 if k[0] == "new" else k[3] for k in key if k[0] != "int")
    return node("index", (x,), key, Type(x.type.dtype, shape, x.type.weak))


def index(b: GraphBuilder, x: Node, key: tuple, sites: Sequence[Site] | None = None) -> Node:
    """`x[key]` for integers (or extents), slices, None and one Ellipsis: a view. `sites` are the locations of the
    parts."""
    return basic_index(x, index_entries(b, x, full_key(b, x, key), sites))


def full_key(b: GraphBuilder, x: Node, key: tuple) -> list[tuple[int, Any]]:
    """(position in the key, part) for each axis of x and new axis; an Ellipsis, or missing parts, as full slices."""
    ellipses = [position for position, k in enumerate(key) if k is Ellipsis]
    if len(ellipses) > 1:
        raise fail(ShapeError("only one ... in an index", "shape.index", help="write : for the others"), ellipses[1])
    used = sum(k is not None and k is not Ellipsis for k in key)
    if used > x.type.rank:
        raise fail(
            ShapeError(f"{used} indices for {b.describe(x.type)}", "shape.index", help=f"it has {x.type.rank} axes"),
            _position_of_part(key, x.type.rank),
        )
    full: list = []
    for position, k in enumerate(key if ellipses else (*key, Ellipsis)):
        full.extend([(position, FULL_SLICE)] * (x.type.rank - used) if k is Ellipsis else [(position, k)])
    return full


def index_entries(b: GraphBuilder, x: Node, full: list[tuple[int, Any]], sites: Sequence[Site] | None) -> tuple:
    """The normal form of a full key."""
    entries, axis = [], 0
    for position, k in full:
        if k is None:
            entries.append(("new",))
            continue
        entries.append(_entry(b, x, axis, k, position, sites[position] if sites and position < len(sites) else b.site))
        axis += 1
    return tuple(entries)


def _position_of_part(key, n: int) -> int:
    """The position in the key of its (n+1)-th part that takes an axis."""
    positions = [k for k, part in enumerate(key) if part is not None and part is not Ellipsis]
    return positions[n]


def _entry(b: GraphBuilder, x: Node, axis: int, k, position: int, site: Site) -> tuple:
    """The normal form of one part of a key, at a position in the key, that takes an axis of x."""
    n = x.type.shape[axis]
    if isinstance(k, slice):
        if k.step == 0:
            raise fail(
                ShapeError("a slice step cannot be 0", "shape.slice", help="use 1 to keep all, -1 to reverse"), position
            )
        if k.start is None and k.stop is None and k.step in (None, 1):
            return whole_axis(n)
        bounds = (n, k.start, k.stop, k.step)
        return ("slice", expression("start", *bounds), 1 if k.step is None else k.step, expression("slice", *bounds))
    check = Check("index", (k, n), "index", (x.type,), site=site)
    if isinstance(k, int) and isinstance(n, int):
        if not -n <= k < n:
            raise fail(shape_error(check, b.extents), position)
    else:
        b.checks.append(check)
    if not isinstance(k, int):  # a symbolic index may be negative: it wraps when the call's extents are known
        return "int", expression("wrap", k, n)
    if k >= 0:
        return "int", k
    return "int", n + k if isinstance(n, int) else expression("+", n, k)
