"""Rules of array indices: extents are known, views and coordinates are in range, stores cover an array.

Extents are symbolic. Rules that do not follow from their form are evaluated at the samples, which pass all checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod

from .dims import Dim, Expression, Extents, Symbol, evaluate, symbols
from .graph import Parameter
from .sample_extents import Samples, size
from .verify import require

Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class Box:
    """Part of an array: first index and extent along each axis."""

    starts: Shape
    extents: Shape


@dataclass(frozen=True)
class IndexRules:
    """Index rules of a program with these parameters; each raises VerifyError about `what`."""

    parameters: Sequence[Parameter]
    samples: Samples
    known: set[Dim] = field(default_factory=set)  # extents checked so far

    def known_extents(self, dims: Iterable[Dim], what: object) -> None:
        """Extents are numbers, or computed from extents of arguments."""
        for d in dims:
            if isinstance(d, int) or d in self.known:
                continue
            require(isinstance(d, (Symbol, Expression)), "an extent is a number, or that of an argument", what, d)
            require(all(map(self._is_extent, symbols(d))), "an extent is that of an argument", what, d)
            self.known.add(d)

    def _is_extent(self, s: Symbol) -> bool:
        return s.argument < len(self.parameters) and s.axis < self.parameters[s.argument].type.rank

    def inside(self, start: Dim, step: int, count: Dim, extent: Dim, what: object) -> None:
        """The indices start + step * i, for i below the count, are in range on an axis of this extent."""
        if (start, step) == (0, 1) and count == extent:
            return
        self.known_extents((start, count, extent), what)
        for extents in self.samples.extents:
            first, n, size = (evaluate(d, extents) for d in (start, count, extent))
            ends = (first, first + step * (n - 1))
            within = n <= 0 or (min(ends) >= 0 and max(ends) < size)
            require(within, "what is read is inside of its array", what, f"{ends[0]} to {ends[1]} of {size}")

    def alike(self, a: Shape, b: Shape, what: object) -> None:
        """Two shapes are equal."""
        require(len(a) == len(b), "an array has its rank", what, b)
        for d, e in zip(a, b):
            self.equal(d, e, "an array has its shape", what, b)

    def equal(self, d: Dim, e: Dim, rule: str, *what: object) -> None:
        """Two extents are equal."""
        if d != e:
            self.known_extents((d, e), what)
            require(all(evaluate(d, x) == evaluate(e, x) for x in self.samples.extents), rule, *what)

    def viewed(self, shape: Shape, views: tuple, what: object) -> Shape:
        """The shape of an array through views, each of which must be valid."""
        for kind, how in views:
            require(kind in ("reshape", "index", "windows"), "a view is known", what)
            see = {"reshape": self._reshaped, "index": self._indexed, "windows": self._windows}[kind]
            shape = see(shape, how, what)
        return shape

    def _windows(self, shape: Shape, axes: tuple, what: object) -> Shape:
        require(len(axes) == len(shape), "windows have an entry for each axis", what)
        for d, (start, parts) in zip(shape, axes):
            if len(parts) == 1:
                self.inside(start, parts[0][1], parts[0][0], d, what)
                continue
            self.known_extents((start, d, *(count for count, _ in parts)), what)
            for extents in self.samples.extents:
                last = [step * (evaluate(count, extents) - 1) for count, step in parts]
                first, size = evaluate(start, extents), evaluate(d, extents)
                ends = first + sum(min(end, 0) for end in last), first + sum(max(end, 0) for end in last)
                empty = any(evaluate(count, extents) == 0 for _, parts in axes for count, _ in parts)
                require(empty or (ends[0] >= 0 and ends[1] < size), "windows are inside of their array", what, ends)
        return tuple(count for _, parts in axes for count, _ in parts)

    def _reshaped(self, old: Shape, new: Shape, what: object) -> Shape:
        self.known_extents((*old, *new), what)
        for extents in self.samples.extents if old != new else ():
            require(size(old, extents) == size(new, extents), "a reshape keeps the number of elements", what)
        return new

    def _indexed(self, shape: Shape, index: tuple, what: object) -> Shape:
        entries = [entry for entry in index if entry[0] != "new"]
        require(len(entries) == len(shape), "an index has an entry for each axis", what)
        for d, entry in zip(shape, entries):
            _, start, step, count = entry if entry[0] == "slice" else (*entry, 1, 1)
            self.inside(start, step, count, d, what)
        return tuple(1 if entry[0] == "new" else entry[3] for entry in index if entry[0] != "int")

    def covered(self, shape: Shape, boxes: Sequence[Box], what: object) -> None:
        """Boxes contain every element of an array exactly once."""
        self.known_extents((*shape, *(d for box in boxes for d in (*box.starts, *box.extents))), what)
        require(all(len(box.extents) == len(shape) for box in boxes), "a store has its array's rank", what, shape)
        if len(boxes) == 1 and boxes[0].extents == shape and not any(boxes[0].starts):
            return
        for extents in self.samples.extents:
            require(_cover(shape, boxes, extents), "every element is stored once", what, dict(extents))


def _cover(shape: Shape, boxes: Sequence[Box], extents: Extents) -> bool:
    whole = [evaluate(d, extents) for d in shape]
    spans = [
        [(s := evaluate(a, extents), s + evaluate(n, extents)) for a, n in zip(b.starts, b.extents)] for b in boxes
    ]
    inside = all(start >= 0 and end <= n for span in spans for (start, end), n in zip(span, whole))
    count = sum(prod(end - start for start, end in span) for span in spans)
    return inside and count == prod(whole) and not any(_overlap(a, b) for a, b in combinations(spans, 2))


def _overlap(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> bool:
    return all(max(s, t) < min(e, f) for (s, e), (t, f) in zip(a, b))
