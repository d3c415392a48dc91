"""Interval analysis of conditions on a tile of indices: whether they are true somewhere, and true everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ir.graph import Node, Type, constant, node, resolve, walk
from ...ir.ops import CASTS
from ...ir.types import BOOL
from .integer_ranges import Ranges, wraps_nowhere
from .three_valued_logic import AND, LOGIC, NOT, OR, UNKNOWN, YES, Truth, all_hold, both, either, invert, is_logic
from .value_ranges import ARITHMETIC, COMPARISONS, RULES, Bounds, divisor_of, without_nan

PARTED = (*AND, *OR, *NOT, *CASTS)
STEPS = ("add", "subtract", "negative", "convert")
SUMS = (*STEPS, "cast")
EXTREMES = ("least", "greatest")
RUN = 16  # consecutive key indices that every tile holds, except the last one


class Intervals:
    """Bounds of values on a tile; `ends` are the first and last index on each of its axes.

    `free` gives the axes that a value depends on; along axes of `runs` a tile has at least RUN indices. For an integer
    or a condition that depends on only one tile axis and has no other bounds, the kernel computes the extremes itself:
    these are in `extremes`.
    """

    def __init__(self, ends: Mapping[object, Bounds], free: Callable[[Node], frozenset], runs: frozenset = frozenset()):
        self.ends = ends
        self.free = free
        self.runs = runs
        self.extremes: dict[Node, Bounds] = {}
        self._known: dict[Node, Bounds | None] = {}
        self._certain: dict[Node, Node] = {}  # condition under which bounds hold: no arithmetic wraps
        self._ranges = Ranges()
        self._stepped: dict[Node, frozenset] = {}

    def varies(self, n: Node) -> frozenset:
        """Axes of the tile that a value depends on."""
        return self.free(n) & self.ends.keys()

    def truth(self, root: Node) -> Truth:
        """(whether a condition may hold somewhere on the tile, whether it holds everywhere)."""
        bounds = resolve(self._known, root, self._needed, self._bounds_of)
        assert bounds is not None
        return bounds

    def bounds(self, root: Node) -> Bounds | None:
        """(least, greatest) value on the tile, or None if unknown."""
        return resolve(self._known, root, self._needed, self._bounds_of)

    def obstacle(self, condition: Node) -> Node:
        """The first value that prevents a condition from being known per tile: itself, or one of its operands."""
        n = condition
        while True:
            below = [a for a in self._needed(n) if self.bounds(a) in (None, UNKNOWN)]
            if not below:
                return n
            n = below[0]

    def _needed(self, n: Node) -> tuple[Node, ...]:
        """Values that a condition's truth, or a number's bounds, follow from."""
        if not self.varies(n):
            return ()
        if is_logic(n):
            return n.args
        if n.type.dtype is not BOOL:
            return n.args if n.op in RULES else ()
        return n.args[::-1] if n.op in (*COMPARISONS, *CASTS) else ()  # the left operand first

    def _bounds_of(self, n: Node) -> Bounds | None:
        if not self.varies(n):
            return n, n
        return self._truth(n) if n.type.dtype is BOOL else self._bound(n)

    def _truth(self, n: Node) -> Truth:
        joined = self._joined(n)
        if len(self.varies(n)) == 1 and (joined is None or (n.op not in PARTED and self._asks_twice(n, joined))):
            low, high = self._extreme(n)
            return high, low
        return UNKNOWN if joined is None else joined

    def _joined(self, n: Node) -> Truth | None:
        """Truth of a condition from its operands."""
        args: list = [self._known.get(a) for a in n.args]
        if is_logic(n):
            return LOGIC[n.op](*args)
        if None in args or n.op not in (*CASTS, *COMPARISONS):
            return None
        if n.op in CASTS:
            zero = constant(0, n.args[0].type.dtype.compute)
            args.append((zero, zero))
        some, every = COMPARISONS[n.op if n.op in COMPARISONS else "not_equal"](*args)
        certain = self._certainty(n)
        return either(some, invert(certain)), both(every, certain)

    def _certainty(self, n: Node) -> Node:
        """Condition under which the bounds of a value's operands hold."""
        return all_hold(self._certain.get(a, YES) for a in n.args)

    def _asks_twice(self, n: Node, answers: Truth) -> bool:
        """Whether answers about conditions are made of what the kernel finds, which it may as well find of theirs."""
        return is_logic(n) and any(m.op == "state" and m.attr[0] in EXTREMES for m in walk(answers))

    def _bound(self, n: Node) -> Bounds | None:
        if n.op == "position":
            return self.ends[n.attr]
        bounds: Bounds | None = None
        if n.op == "remainder" and (divisor := divisor_of(n) or RUN + 1) <= RUN and self.steps(n.args[0]):
            return constant(0, n.type.dtype), constant(divisor - 1, n.type.dtype)
        if n.op in RULES and not self._may_wrap(n):
            args: list = [self._known.get(a) for a in n.args]
            bounds = RULES[n.op](n, args)
            bounds = None if bounds is None else without_nan(n, bounds)
            self._certain[n] = self._certainty(n)
            if bounds is not None and n.op in ARITHMETIC and n.type.dtype.kind in "iu" and self._ranges.may_wrap(n):
                self._certain[n] = both(self._certain[n], wraps_nowhere(n, args))
        whole = n.type.dtype.kind in "iu"
        return self._extreme(n) if bounds is None and whole and len(self.varies(n)) == 1 else bounds

    def steps(self, root: Node) -> frozenset:
        """The axes of `runs` along which a value rises or falls by one from position to position."""
        return resolve(self._stepped, root, lambda n: n.args if n.op in STEPS else (), self._steps)

    def _steps(self, n: Node) -> frozenset:
        """Axes of `runs` along which a value changes by one from index to index."""
        if n.op == "position":
            return self.runs & {n.attr}
        if n.op not in STEPS or n.type.dtype.kind != "i":
            return frozenset()
        axes = frozenset().union(*(self._stepped[a] for a in n.args))
        return frozenset(axis for axis in axes if sum(axis in self.varies(a) for a in n.args) == 1)

    def _may_wrap(self, n: Node) -> bool:
        """Whether integers that come from memory are computed with: they may be as large as their type allows."""
        return n.op in ARITHMETIC and any(a in self.extremes or self._reads(a, n) for a in n.args)

    def _reads(self, root: Node, user: Node) -> bool:
        """Whether a value is computed from memory, in integers as wide as its user's: sums of narrower ones do not
        wrap."""
        stack, seen = [(root, user)], set[tuple[Node, Node]]()
        while stack:
            place = stack.pop()
            if place in seen:
                continue
            seen.add(place)
            n, above = place
            if n.op in ("load", "fetch") and self.varies(n):
                return True
            narrow = n.type.dtype.kind in "iu" and 2 * n.type.dtype.bits <= user.type.dtype.bits
            if not narrow or above.op not in SUMS:
                stack += [(a, above if above.op not in SUMS else n) for a in n.args]
        return False

    def _extreme(self, n: Node) -> Bounds:
        if n not in self.extremes:
            low, high = (node("state", (), (end, n), Type(n.type.dtype)) for end in EXTREMES)
            self.extremes[n] = (low, high)
        return self.extremes[n]
