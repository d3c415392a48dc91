"""Pairs: a fold over one axis of values that fold another one becomes a single fold over computed elements.

`sum(exp(-sum((x[:, None] - y[None])**2, -1)) * b, -1)` folds an inner axis of a few elements for each pair of a row of
x and a row of y. The inner fold is unrolled: a pair is straight-line code, and nothing of the size of all pairs is
stored. A short axis of a result that its pairs do not have, as the columns of b in `exp(...) @ b`, is unrolled too:
each of its elements is a fold of its own, and all of them share the loop. A fold over both axes of the pairs becomes
one over the last axis, then one over the other axes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import inf

from ..ir.dims import Dim, expression
from ..ir.folds import FOLDS
from ..ir.graph import Node, constant, node, rebuild, search, walk, with_arguments
from ..ir.types import INT64
from ..rewrite.scalar_builder import bound_axes, free_axes
from .contractions import matmul_factors
from .coordinates import Axis, Coordinate
from .cost_model import cost
from .scalar_program import ScalarProgram, ScalarStore

MOST_UNROLLED = 64  # elements of an inner fold
MOST_INSTRUCTIONS = 1024  # of all of them, by the table of operations
MOST_COLUMNS = 16  # elements of an axis of the result, each of which is a fold
OPAQUE = ("fetch", "pointer", "scan", "sort", "sorted")  # what is not unrolled: its axes are addresses or orders
Short = Callable[[Dim, int], int | None]  # the value of an extent that is at most so much; None for a longer one
Free = dict[Node, frozenset]


def unroll_pair_folds(program: ScalarProgram, short: Short) -> ScalarProgram:
    """The program with its pairs as straight-line code; `short` tells short extents."""
    values = [r.value for r in program.stores]
    free = free_axes(values)
    inner = _pair_folds(free, short)
    if not inner:
        return program
    extents = {a: short(a.extent, MOST_UNROLLED) for f in free if f in inner for a in f.attr[1]}

    pairs = _pairs_of_folds(inner, free)

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        n = _unrolled(old, args, extents) if old in inner else with_arguments(old, args)
        both = any(free[f] <= bound_axes(old) for f in pairs.get(old, ()))
        return _split(n) if both and not FOLDS[old.attr[0]].positional else n

    new = rebuild(values, change)
    unrolled = [replace(r, value=new[r.value]) for r in program.stores]
    stores = [s for r, old in zip(unrolled, values) for s in _columns(r, old, pairs, free, short)]
    return replace(program, stores=tuple(stores))


# -- what is unrolled


def _pair_folds(free: Free, short: Short) -> frozenset[Node]:
    """Inner folds of pairs: short ones below a fold, scan or sort along an axis that their elements depend on.

    No array that they read has all axes of the pairs: then it is as large as all pairs, and its rows are read once.
    """
    above: dict[Node, frozenset] = {}  # axes that the users of a node, and theirs, fold, scan or sort along
    for n in reversed(free):
        along = above.get(n, frozenset()) | bound_axes(n)
        for a in n.args:
            above[a] = above.get(a, frozenset()) | along
    sizes: dict[Node, float] = {}  # instructions of each when it is unrolled; what is within a fold comes before it
    for f in (n for n in free if n.op == "fold" and n in above):
        if _is_pair(f, above[f], free):
            count = _count_of(f, short)
            size = inf if count is None else count * _instructions(f, free, sizes)
            sizes[f] = size if size <= MOST_INSTRUCTIONS else inf
    return frozenset(f for f, size in sizes.items() if size < inf)


def _is_pair(f: Node, along: frozenset, free: Free) -> bool:
    """Whether a fold has elements for each pair of rows of arrays, along an axis that an outer fold reduces."""
    axes = free[f]
    if len(axes) < 2 or not axes & along:
        return False
    subgraph = list(walk(f.args))
    if any(n.op in OPAQUE for n in subgraph):
        return False
    products = (n for n in (f, *subgraph) if n.op == "fold")
    if any(matmul_factors(n, free, free[n]) is not None for n in products):  # families of their own multiply matrices
        return False
    loads = _axes_read(f, free)
    return bool(loads) and not any(axes <= read for read in loads)


def _axes_read(f: Node, free: Free) -> set[frozenset]:
    """The axes of each array that a fold's elements read, without those of folds within it: they may have the names of
    axes around it."""
    axis_sets: set[frozenset] = set()
    bound: frozenset[Axis] = frozenset()
    stack, seen = [(a, bound) for a in f.args], set[tuple[Node, frozenset]]()
    while stack:
        n, bound = stack.pop()
        if (n, bound) in seen:
            continue
        seen.add((n, bound))
        if n.op == "load":
            axis_sets.add(free[n] - bound)
        within = bound | bound_axes(n)
        stack += [(a, within) for a in n.args]
    return axis_sets


def _count_of(f: Node, short: Short) -> int | None:
    """The elements of an inner fold; None if they are too many for straight-line code."""
    count = 1
    for axis in f.attr[1]:
        extent = short(axis.extent, MOST_UNROLLED)
        if extent is None:
            return None
        count *= extent
    return count if count <= MOST_UNROLLED else None


def _instructions(f: Node, free: Free, sizes: Mapping[Node, float]) -> float:
    """Instructions of an element of a fold, with those of the pairs within it, of which each is another one.

    Pairs that are not unrolled are loops, which are not repeated for each element.
    """
    subgraph = list(search(f.args, lambda n: () if n in sizes else n.args))
    pairs = sum(sizes[n] for n in subgraph if n in sizes and free[n] & bound_axes(f))
    return pairs + sum(cost(n) for n in subgraph if n not in sizes)


def _pairs_of_folds(inner: frozenset[Node], free: Free) -> dict[Node, list[Node]]:
    """For each fold over pairs, the inner folds of its pairs."""
    inner_folds: dict[Node, frozenset[Node]] = {}
    for n in free:
        inner_folds[n] = frozenset().union(*(inner_folds[a] for a in n.args)) | ({n} if n in inner else set())
    pairs_of = {
        n: [f for f in inner_folds[n] if f is not n and free[f] & bound_axes(n)] for n in free if n.op == "fold"
    }
    return {n: pairs for n, pairs in pairs_of.items() if pairs}


# -- unrolling


def _unrolled(f: Node, args: tuple[Node, ...], extents: Mapping[Axis, int | None]) -> Node:
    """A fold of pairs as the merges of its elements, in order."""
    (x,), axes, fold = args, f.attr[1], FOLDS[f.attr[0]]
    total = fold.identity(x.type.dtype)
    for element in product(*(range(extents[a] or 0) for a in axes)):
        position = constant(element[0], INT64) if fold.positional else None
        total = fold.merge(total, fold.lift(substitute(x, dict(zip(axes, element))), position))
    return total[fold.finish]


def substitute(x: Node, at: Mapping[Axis, int]) -> Node:
    """An element with axes at constant indices."""
    free = free_axes([x])

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        if free[old].isdisjoint(at):
            return old
        if old.op == "load":
            source, where = old.attr
            return node("load", (), (source, tuple(_at(c, at) for c in where)), old.type)
        if old.op == "position":
            return constant(at[old.attr], INT64)
        return with_arguments(old, args)

    return rebuild([x], change)[x]


def _at(c: Coordinate, at: Mapping[Axis, int]) -> Coordinate:
    if c.axis is None or c.axis not in at:
        return c
    return Coordinate(expression("+", c.start, c.step * at[c.axis]), 1, None)


# -- axes of results


def _columns(
    r: ScalarStore, old: Node, pairs: Mapping[Node, list[Node]], free: Free, short: Short
) -> Iterator[ScalarStore]:
    """The stores of a result whose short axes are not axes of its pairs: one for each index along these."""
    over = [g for g in walk([old]) if g in pairs]
    own = {a for g in over for a in free[g].difference(*(free[f] for f in pairs[g]))}
    extents: dict[Axis, int] = {}
    count = 1
    for axis in (a for a in r.axes if a is not None and a in own):
        extent = short(axis.extent, MOST_COLUMNS)
        if extent is not None and 0 < count * extent <= MOST_COLUMNS:
            extents[axis], count = extent, count * extent
    starts = r.offsets or (0,) * len(r.axes)
    for element in product(*map(range, extents.values())):
        at = dict(zip(extents, element))
        offsets = tuple(expression("+", s, at.get(a, 0) if a else 0) for s, a in zip(starts, r.axes))
        axes = tuple(None if a in at else a for a in r.axes)
        yield replace(r, axes=axes, offsets=offsets, value=substitute(r.value, at)) if at else r


def _split(n: Node) -> Node:
    """A fold over both axes of pairs as one over the last axis, and one of its results over the others."""
    name, axes = n.attr
    row = node("fold", n.args, (name, axes[-1:]), n.type)
    return node("fold", (row,), (name, axes[:-1]), n.type)
