"""Interval analysis of conditions on a tile of indices: whether they are true somewhere, and true everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ir.graph import Node, Type, constant, node, resolve, search, walk
from ...ir.ops import CASTS
from ...ir.types import BOOL
from .integer_ranges import Ranges, wraps_nowhere
from .three_valued_logic import AND, LOGIC, NOT, OR, UNKNOWN, YES, Truth, all_hold, both, either, invert, is_logic
from .value_ranges import ARITHMETIC, COMPARISONS, RULES, Bounds, divisor_of, without_nan

DERIVED = (*AND, *OR, *NOT, *CASTS)
STEPS = ("add", "subtract", "negative", "convert")
SUMS = (*STEPS, "cast")
EXTREMES = ("least", "greatest")
RUN = 16  # consecutive key indices that every tile holds, except the last one


class Intervals:
    """Bounds of values on a tile; `ends` maps each axis of the tile to its first and last index.

    `free` gives the axes that a value depends on. Along axes of `runs`, a tile has at least RUN indices. Where no
    bounds can be derived for an integer or condition of one tile axis, the kernel computes its minimum and maximum
    (`extremes`).
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
        """(whether a condition may hold somewhere on the tile, whether it holds everywhere on it)."""
        bounds = resolve(self._known, root, self._needed, self._bounds_of)
        assert bounds is not None
        return bounds

    def bounds(self, root: Node) -> Bounds | None:
        """(least, greatest) value on the tile, or None if unknown."""
        return resolve(self._known, root, self._needed, self._bounds_of)

    def obstacle(self, condition: Node) -> Node:
        """The innermost value that has no bounds, because of which a condition is unknown per tile."""
        n = condition
        while True:
            below = [a for a in self._needed(n) if self.bounds(a) in (None, UNKNOWN)]
            if not below:
                return n
            n = below[0]

    def _needed(self, n: Node) -> tuple[Node, ...]:
        """Operands that determine a condition's truth, or a number's bounds."""
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
        derived = self._derived(n)
        if len(self.varies(n)) == 1 and (derived is None or (n.op not in DERIVED and self._reads_extremes(n, derived))):
            low, high = self._extreme(n)
            return high, low
        return UNKNOWN if derived is None else derived

    def _derived(self, n: Node) -> Truth | None:
        """Truth of a condition derived from its operands."""
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
        """Condition under which the bounds of the operands hold."""
        return all_hold(self._certain.get(a, YES) for a in n.args)

    def _reads_extremes(self, n: Node, answers: Truth) -> bool:
        """Whether the truth of a logical operation reads extremes: then computing the operation's own extremes costs no
        more."""
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
        is_integer = n.type.dtype.kind in "iu"
        return self._extreme(n) if bounds is None and is_integer and len(self.varies(n)) == 1 else bounds

    def steps(self, root: Node) -> frozenset:
        """Axes of `runs` along which a value changes by one from index to index."""
        return resolve(self._stepped, root, lambda n: n.args if n.op in STEPS else (), self._steps)

    def _steps(self, n: Node) -> frozenset:
        if n.op == "position":
            return self.runs & {n.attr}
        if n.op not in STEPS or n.type.dtype.kind != "i":
            return frozenset()
        axes = frozenset().union(*(self._stepped[a] for a in n.args))
        return frozenset(axis for axis in axes if sum(axis in self.varies(a) for a in n.args) == 1)

    def _may_wrap(self, n: Node) -> bool:
        """Whether an operation reads integers from memory, which may be as large as their dtype allows."""
        return n.op in ARITHMETIC and any(a in self.extremes or self._reads(a, n) for a in n.args)

    def _reads(self, root: Node, user: Node) -> bool:
        """Whether a value is read from memory, or computed from it in integers more than half as wide as its user's;
        sums of narrower ones cannot wrap."""

        def below(visit: tuple[Node, Node]) -> list[tuple[Node, Node]]:
            n, parent = visit
            narrow = n.type.dtype.kind in "iu" and 2 * n.type.dtype.bits <= user.type.dtype.bits
            return [(a, n if parent.op in SUMS else parent) for a in n.args if not narrow or parent.op not in SUMS]

        return any(n.op in ("load", "fetch") and self.varies(n) for n, _ in search([(root, user)], below))

    def _extreme(self, n: Node) -> Bounds:
        if n not in self.extremes:
            low, high = (node("state", (), (end, n), Type(n.type.dtype)) for end in EXTREMES)
            self.extremes[n] = (low, high)
        return self.extremes[n]
