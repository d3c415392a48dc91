"""Integer ranges on a tile for all calls, and where integer arithmetic may wrap."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.graph import Node, constant, resolve, value_of
from ...ir.ops import CASTS
from ...ir.types import BOOL, FLOAT64, DType
from ..scalar_builder import scalar_op as op
from .three_valued_logic import all_hold
from .value_ranges import Bounds

Range = tuple[int, int]
POSITIONS: Range = (0, 1 << 47)  # indices on an axis: at most the bytes of an address space


class Ranges:
    """Ranges of the integers of a program."""

    def __init__(self) -> None:
        self._known: dict[Node, Range] = {}

    def of(self, root: Node) -> Range:
        """(least, greatest) value of an integer."""
        return resolve(self._known, root, lambda n: n.args, self._range_of)

    def may_wrap(self, n: Node) -> bool:
        """Whether an operation may exceed its dtype."""
        exact = self._exact(n)
        return exact is None or not _within(exact, dtype_range(n.type.dtype))

    def _range_of(self, n: Node) -> Range:
        if n.type.dtype.kind not in "biu":
            return 0, 0
        limits = dtype_range(n.type.dtype)
        exact = self._exact(n)
        return limits if exact is None or not _within(exact, limits) else exact

    def _exact(self, n: Node) -> Range | None:
        """Range of the mathematical result, whatever its dtype holds; None if unknown."""
        if n.op == "const":
            return (int(value_of(n)),) * 2
        if n.op in ("position", "size"):
            return POSITIONS
        if n.op == "convert" and n.args[0].op == "position":  # a call computes indices in a dtype that holds them
            return 0, min(POSITIONS[1], dtype_range(n.type.dtype)[1])
        rule = RULES.get(n.op)
        if rule is None or any(a.type.dtype.kind == "f" for a in n.args):
            return None
        return rule(*(self.of(a) for a in n.args))


def dtype_range(d: DType) -> Range:
    """Range of an integer dtype."""
    if d is BOOL:
        return 0, 1
    return (-(1 << (d.bits - 1)), (1 << (d.bits - 1)) - 1) if d.kind == "i" else (0, (1 << d.bits) - 1)


def _within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _add(x: Range, y: Range) -> Range:
    return x[0] + y[0], x[1] + y[1]


def _negative(x: Range) -> Range:
    return -x[1], -x[0]


def multiply_ranges(x: Range, y: Range) -> Range:
    products = [a * b for a in x for b in y]
    return min(products), max(products)


def _absolute(x: Range) -> Range:
    return max(0, x[0], -x[1]), max(-x[0], x[1])


def _floor_divide(x: Range, y: Range) -> Range | None:
    return (x[0] // y[0], x[1] // y[0]) if y[0] == y[1] > 0 else None


def _remainder(x: Range, y: Range) -> Range | None:
    return (0, y[0] - 1) if y[0] == y[1] > 0 else None


def _either(c: Range, x: Range, y: Range) -> Range:
    return min(x[0], y[0]), max(x[1], y[1])


RULES: dict[str, Callable[..., Range | None]] = {
    "add": _add,
    "subtract": lambda x, y: _add(x, _negative(y)),
    "multiply": multiply_ranges,
    "negative": _negative,
    "absolute": _absolute,
    "minimum": lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    "maximum": lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "where": _either,
    **dict.fromkeys(CASTS, lambda x: x),
}


# -- conditions that a kernel evaluates, for operands that may be any number


def wraps_nowhere(n: Node, args: list[Bounds]) -> Node:
    """Condition that results at the ends of the operands' bounds fit the dtype; those between then fit too."""
    d = n.type.dtype
    match n.op:
        case "add":
            return all_hold(_sum_fits(x, y) for x, y in zip(*args))
        case "subtract":
            return all_hold(_difference_fits(x, y) for x, y in zip(args[0], args[1][::-1]))
        case "multiply":
            return all_hold(_product_fits(x, y, d) for x in dict.fromkeys(args[0]) for y in dict.fromkeys(args[1]))
    least = constant(dtype_range(d)[0], d)  # the only value whose -x and |x| do not fit
    return op("not_equal", args[0][0], least, dtype=BOOL)


def _sum_fits(x: Node, y: Node) -> Node:
    """x + y < x exactly if y < 0."""
    return _equal(op("less", op("add", x, y), x, dtype=BOOL), _is_negative(y))


def _difference_fits(x: Node, y: Node) -> Node:
    """x - y > x exactly if y < 0."""
    return _equal(op("greater", op("subtract", x, y), x, dtype=BOOL), _is_negative(y))


def _is_negative(y: Node) -> Node:
    return op("less", y, constant(0, y.type.dtype), dtype=BOOL)


def _equal(x: Node, y: Node) -> Node:
    return op("equal", x, y, dtype=BOOL)


def _product_fits(x: Node, y: Node, d: DType) -> Node:
    """|x y| in float64, whose rounding error is far below the margin."""
    x, y = (op("convert", v, dtype=FLOAT64) for v in (x, y))
    size = op("absolute", op("multiply", x, y))
    return op("less", size, constant(2.0 ** (d.bits - 1 - (d.kind == "i")), FLOAT64), dtype=BOOL)
