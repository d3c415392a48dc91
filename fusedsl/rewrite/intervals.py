"""What a condition is on a whole tile of positions, by interval arithmetic: true somewhere, and true everywhere.

The answers are scalar nodes of the tile's ends, so that a kernel asks before it works: a tile where nothing counts is
skipped, and one where everything does needs no mask. Both are safe: "somewhere" may say True where it is not so, and
"everywhere" False.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..ir.folds import pick
from ..ir.graph import Node, Type, constant, node, resolve, value_of
from ..ir.types import BOOL
from .scalars import scalar_op as op

Bounds = tuple[Node, Node]
YES, NO = constant(True, BOOL), constant(False, BOOL)
RUN = 16  # consecutive positions of a stream that every tile of one holds, but its last


class Intervals:
    """Intervals of values on a tile: `ends` are the first and last position on each of its axes.

    `free` says which axes a value depends on; along axes of `runs` a tile holds at least RUN positions. Of an integer
    or a condition that depends on one of the tile's axes alone and has no other bounds, the kernel finds the least and
    the greatest itself: they are kept in `extremes`.
    """

    def __init__(self, ends: Mapping[object, Bounds], free: Callable[[Node], frozenset], runs: frozenset = frozenset()):
        self.ends = ends
        self.free = free
        self.runs = runs
        self.extremes: dict[Node, Bounds] = {}
        self._bounds: dict[Node, Bounds | None] = {}
        self._truths: dict[Node, Bounds] = {}
        self._stepped: dict[Node, frozenset] = {}

    def varies(self, n: Node) -> frozenset:
        """The tile's axes that a value depends on."""
        return self.free(n) & self.ends.keys()

    # -- conditions

    def truth(self, root: Node) -> Bounds:
        """(whether a condition may hold somewhere on the tile, whether it holds everywhere)"""
        return resolve(self._truths, root, self._conditions, self._truth)

    def _conditions(self, n: Node) -> tuple[Node, ...]:
        if not self.varies(n) or n.op not in (*LOGIC, "logical_not", "where"):
            return ()
        return tuple(a for a in n.args if a.type.dtype is BOOL)

    def _truth(self, n: Node) -> Bounds:
        if not self.varies(n):
            return n, n
        if n.op in LOGIC:
            (a, b), (c, d) = (self._truths[x] for x in n.args)
            join = LOGIC[n.op]
            return join(a, c), join(b, d)
        if n.op == "logical_not":
            some, every = self._truths[n.args[0]]
            return invert(every), invert(some)
        if n.op in COMPARISONS:
            left, right = (self.bounds(x) for x in n.args)
            if left is not None and right is not None:
                return COMPARISONS[n.op](left, right)
        if len(self.varies(n)) == 1:
            low, high = self._extreme(n)
            return high, low
        return YES, NO

    # -- numbers

    def bounds(self, root: Node) -> Bounds | None:
        """The least and the greatest value on the tile, or None where they are not known."""
        return resolve(self._bounds, root, self._numbers, self._bound)

    def _numbers(self, n: Node) -> tuple[Node, ...]:
        if not self.varies(n) or n.op not in RULES:
            return ()
        return tuple(a for a in n.args if a.type.dtype is not BOOL)

    def _bound(self, n: Node) -> Bounds | None:
        if not self.varies(n):
            return n, n
        if n.op == "position":
            return self.ends[n.attr]
        made: Bounds | None = None
        if n.op == "remainder" and (divisor := _divisor(n) or RUN + 1) <= RUN and self.steps(n.args[0]):
            return constant(0, n.type.dtype), constant(divisor - 1, n.type.dtype)
        if n.op in RULES and not self._may_wrap(n):
            args = [self._bounds.get(a) for a in n.args]
            made = RULES[n.op](n, args)
        whole = n.type.dtype.kind in "iu"
        return self._extreme(n) if made is None and whole and len(self.varies(n)) == 1 else made

    def steps(self, root: Node) -> frozenset:
        """The axes of `runs` along which a value rises or falls by one from position to position."""
        return resolve(self._stepped, root, lambda n: n.args if n.op in STEPS else (), self._steps)

    def _steps(self, n: Node) -> frozenset:
        if n.op == "position":
            return self.runs & {n.attr}
        if n.op not in STEPS or n.type.dtype.kind != "i":
            return frozenset()
        found = frozenset().union(*(self._stepped[a] for a in n.args))
        return frozenset(axis for axis in found if sum(axis in self.varies(a) for a in n.args) == 1)

    def _may_wrap(self, n: Node) -> bool:
        """Whether integers that come from memory are computed with: they may be as large as their type allows."""
        return n.op in ARITHMETIC and any(a in self.extremes or self._reads(a, n) for a in n.args)

    def _reads(self, root: Node, user: Node) -> bool:
        """Whether a value is made of memory, of integers as wide as its user's: sums of narrower ones do not wrap."""
        stack = [(root, user)]
        while stack:
            n, above = stack.pop()
            if n.op in ("load", "fetch") and self.varies(n):
                return True
            narrow = n.type.dtype.kind in "iu" and 2 * n.type.dtype.bits <= user.type.dtype.bits
            if not narrow or above.op not in SUMS:
                stack += [(a, above if above.op not in SUMS else n) for a in n.args]
        return False

    def _extreme(self, n: Node) -> Bounds:
        if n not in self.extremes:
            low, high = (node("state", (), (end, n), Type(n.type.dtype)) for end in ("least", "greatest"))
            self.extremes[n] = (low, high)
        return self.extremes[n]


# -- rules


def invert(x: Node) -> Node:
    """not x"""
    if x in (YES, NO):
        return NO if x is YES else YES
    return op("logical_not", x, dtype=BOOL)


def both(x: Node, y: Node) -> Node:
    """x and y"""
    if NO in (x, y):
        return NO
    return y if x is YES or x is y else x if y is YES else op("logical_and", x, y, dtype=BOOL)


def either(x: Node, y: Node) -> Node:
    """x or y"""
    if YES in (x, y):
        return YES
    return y if x is NO or x is y else x if y is NO else op("logical_or", x, y, dtype=BOOL)


def all_hold(conditions: Iterable[Node]) -> Node:
    """Whether all of these hold."""
    found = YES
    for c in conditions:
        found = both(found, c)
    return found


def _less(name: str):
    def rule(a: Bounds, b: Bounds) -> Bounds:
        return op(name, a[0], b[1], dtype=BOOL), op(name, a[1], b[0], dtype=BOOL)

    return rule


def _greater(name: str):
    def rule(a: Bounds, b: Bounds) -> Bounds:
        return op(name, a[1], b[0], dtype=BOOL), op(name, a[0], b[1], dtype=BOOL)

    return rule


def _equal(a: Bounds, b: Bounds) -> Bounds:
    if all(x.op == "const" for x in (*a, *b)):
        (low, high), (least, greatest) = (tuple(map(value_of, x)) for x in (a, b))
        always = low == high == least == greatest
        return constant(low <= greatest and least <= high, BOOL), constant(always, BOOL)
    some = both(op("less_equal", a[0], b[1], dtype=BOOL), op("less_equal", b[0], a[1], dtype=BOOL))
    one = both(op("equal", a[0], a[1], dtype=BOOL), op("equal", b[0], b[1], dtype=BOOL))
    return some, both(one, op("equal", a[0], b[0], dtype=BOOL))


def _not_equal(a: Bounds, b: Bounds) -> Bounds:
    some, every = _equal(a, b)
    return invert(every), invert(some)


LOGIC: dict[str, Callable[[Node, Node], Node]] = {
    "logical_and": both,
    "bitwise_and": both,
    "logical_or": either,
    "bitwise_or": either,
}
COMPARISONS: dict[str, Callable[[Bounds, Bounds], Bounds]] = {
    "less": _less("less"),
    "less_equal": _less("less_equal"),
    "greater": _greater("greater"),
    "greater_equal": _greater("greater_equal"),
    "equal": _equal,
    "not_equal": _not_equal,
}
STEPS = ("add", "subtract", "negative", "convert")
SUMS = (*STEPS, "cast")
ARITHMETIC = ("add", "subtract", "multiply", "negative", "absolute", "fma")


def _monotone(n: Node, args: list) -> Bounds | None:
    """The operation of both least and of both greatest."""
    if None in args:
        return None
    low, high = (node(n.op, tuple(a[k] for a in args), n.attr, n.type) for k in (0, 1))
    return low, high


def _subtract(n: Node, args: list) -> Bounds | None:
    if None in args:
        return None
    (a, b), (c, d) = args
    return op("subtract", a, d), op("subtract", b, c)


def _multiply(n: Node, args: list) -> Bounds | None:
    if None in args:
        return None
    products = [op("multiply", x, y) for x in dict.fromkeys(args[0]) for y in dict.fromkeys(args[1])]
    low = high = products[0]
    for x in products[1:]:
        low, high = op("minimum", low, x), op("maximum", high, x)
    return low, high


def _negative(n: Node, args: list) -> Bounds | None:
    return None if args[0] is None else (op("negative", args[0][1]), op("negative", args[0][0]))


def _absolute(n: Node, args: list) -> Bounds | None:
    if args[0] is None:
        return None
    low, high = args[0]
    least = op("maximum", op("maximum", low, op("negative", high)), constant(0, n.type.dtype.compute))
    return least, op("maximum", high, op("negative", low))


def _divisor(n: Node) -> int | None:
    """A literal that is divided by and is positive."""
    divisor = n.args[1]
    value = value_of(divisor) if divisor.op == "const" and n.type.dtype.kind in "iu" else 0
    return int(value) if value > 0 else None


def _floor_divide(n: Node, args: list) -> Bounds | None:
    return None if _divisor(n) is None else _monotone(n, args)


def _remainder(n: Node, args: list) -> Bounds | None:
    divisor = _divisor(n)
    if divisor is None or args[0] is None:
        return None
    (low, high), by = args[0], n.args[1]
    together = op("equal", op("floor_divide", low, by), op("floor_divide", high, by), dtype=BOOL)
    ends = (constant(0, n.type.dtype), constant(divisor - 1, n.type.dtype))
    return pick(together, op("remainder", low, by), ends[0]), pick(together, op("remainder", high, by), ends[1])


def _shift(n: Node, args: list) -> Bounds | None:
    by = n.args[1]
    return _monotone(n, args) if by.op == "const" and 0 <= value_of(by) < n.type.dtype.bits else None


def _convert(n: Node, args: list) -> Bounds | None:
    """Positions fit every signed integer that a call computes them in; nothing is known of negative unsigned ones."""
    source, to = n.args[0].type.dtype, n.type.dtype
    rises = to.kind == "f" or (to.kind == "i" and source.kind in "iu" and to.bits >= 32) or to is source
    return _monotone(n, args) if rises and source.kind != "b" else None


def _where(n: Node, args: list) -> Bounds | None:
    _, yes, no = args
    if yes is None or no is None:
        return None
    return op("minimum", yes[0], no[0]), op("maximum", yes[1], no[1])


RULES: dict[str, Callable[[Node, list], Bounds | None]] = {
    "add": _monotone,
    "subtract": _subtract,
    "multiply": _multiply,
    "negative": _negative,
    "absolute": _absolute,
    "minimum": _monotone,
    "maximum": _monotone,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "right_shift": _shift,
    "convert": _convert,
    "where": _where,
}
