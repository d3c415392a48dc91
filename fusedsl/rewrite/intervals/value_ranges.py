"""Value ranges on a tile: (least, greatest) of an operation from those of its operands."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, isnan, nan

from ...ir.folds import pick
from ...ir.graph import Node, constant, node, search, value_of
from ...ir.ops import CASTS, CONTRARY, MIRRORED, OPS
from ...ir.types import BOOL
from ..scalar_builder import scalar_op as op
from .three_valued_logic import NO, YES, Truth, both, invert

Bounds = tuple[Node, Node]

# -- comparisons


def _compared(name: str, x: Node, y: Node) -> Node:
    """A comparison; constant if its operands are literals, or a select of literals."""
    if x.op == y.op == "const":
        return YES if OPS[name].meaning(value_of(x), value_of(y)) else NO
    if y.op == "where" and x.op == "const":
        return _compared(MIRRORED.get(name, name), y, x)
    if x.op == "where" and y.op == "const" and all(a.op == "const" for a in x.args[1:]):
        yes, no = (_compared(name, a, y) for a in x.args[1:])
        return yes if yes is no else x.args[0] if yes is YES else invert(x.args[0])
    return op(name, x, y, dtype=BOOL)


def _may(name: str, x: Node, y: Node) -> Node:
    """A comparison that is also true for NaN, which bounds of floats may be (inf - inf)."""
    if x.type.dtype.kind != "f":
        return _compared(name, x, y)
    return invert(_compared(CONTRARY[name], x, y))


def _ordered(name: str) -> Callable[[Bounds, Bounds], Truth]:
    """An order comparison: it may hold for (least, greatest), and holds everywhere for (greatest, least)."""
    low = int(name.startswith("greater"))

    def rule(a: Bounds, b: Bounds) -> Truth:
        return _may(name, a[low], b[1 - low]), _compared(name, a[1 - low], b[low])

    return rule


def _equal(a: Bounds, b: Bounds) -> Truth:
    some = both(_may("less_equal", a[0], b[1]), _may("less_equal", b[0], a[1]))
    if b[0] is b[1] or a[0] is a[1]:
        point, (low, high) = (b[0], a) if b[0] is b[1] else (a[0], b)
        every = _compared("equal", low, point)
        return some, every if low is high else both(every, _compared("equal", high, point))
    alone = both(_compared("equal", a[0], a[1]), _compared("equal", b[0], b[1]))
    return some, both(alone, _compared("equal", a[0], b[0]))


def _not_equal(a: Bounds, b: Bounds) -> Truth:
    some, every = _equal(a, b)
    return invert(every), invert(some)


COMPARISONS: dict[str, Callable[[Bounds, Bounds], Truth]] = {
    **{name: _ordered(name) for name in MIRRORED},
    "equal": _equal,
    "not_equal": _not_equal,
}

# -- numbers

ARITHMETIC = ("add", "subtract", "multiply", "negative", "absolute", "fma")


def _monotone(n: Node, args: list) -> Bounds | None:
    """The operation on both lower and both upper bounds."""
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


def divisor_of(n: Node) -> int | None:
    """A positive literal divisor."""
    divisor = n.args[1]
    value = value_of(divisor) if divisor.op == "const" and n.type.dtype.kind in "iu" else 0
    return int(value) if value > 0 else None


def _floor_divide(n: Node, args: list) -> Bounds | None:
    return None if divisor_of(n) is None else _monotone(n, args)


def _remainder(n: Node, args: list) -> Bounds | None:
    divisor = divisor_of(n)
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
    """Indices fit every signed integer dtype of a call; negative indices as unsigned integers are unknown."""
    source, to = n.args[0].type.dtype, n.type.dtype
    if source is BOOL:
        return _of_condition(n, args)
    rises = to.kind == "f" or (to.kind == "i" and source.kind in "iu" and to.bits >= 32) or to is source
    return _monotone(n, args) if rises else None


def _of_condition(n: Node, args: list) -> Bounds | None:
    """1 if a condition holds, else 0; other casts may wrap."""
    if n.args[0].type.dtype is not BOOL:
        return None
    some, every = args[0]
    one, zero = constant(1, n.type.dtype), constant(0, n.type.dtype)
    return _select_bound(every, one, zero), _select_bound(some, one, zero)


def _where(n: Node, args: list) -> Bounds | None:
    (some, every), yes, no = args
    if yes is None or no is None:
        return None
    ends = []
    for k, join in ((0, "minimum"), (1, "maximum")):
        mixed = _least(join, yes[k], no[k])
        partly = _select_bound(some, mixed, no[k])
        ends.append(partly if mixed is yes[k] else _select_bound(every, yes[k], partly))
    return ends[0], ends[1]


def _least(join: str, x: Node, y: Node) -> Node:
    """Minimum, or maximum, of two numbers."""
    if x.op == y.op == "const" and not (isnan(value_of(x)) or isnan(value_of(y))):
        return min(x, y, key=value_of) if join == "minimum" else max(x, y, key=value_of)
    return x if x is y else op(join, x, y)


def _select_bound(condition: Node, yes: Node, no: Node) -> Node:
    if condition in (YES, NO) or yes is no:
        return no if condition is NO else yes
    return pick(condition, yes, no)


def without_nan(n: Node, bounds: Bounds) -> Bounds:
    """Bounds of an arithmetic result; NaN if the result may be NaN inside finite bounds (0 * inf, inf - inf)."""
    if n.type.dtype.kind != "f" or n.op not in ARITHMETIC or all(_is_finite(a) for a in n.args):
        return bounds
    finite = both(*(op("isfinite", x, dtype=BOOL) for x in bounds))
    low, high = (pick(finite, x, constant(nan, x.type.dtype)) for x in bounds)
    return low, high


def _is_finite(root: Node) -> bool:
    """Whether a value is finite: an integer, or computed from finite literals."""
    for n in search([root], lambda n: () if n.type.dtype.kind in "biu" else n.args[n.op == "where" :]):
        if n.op == "const" and not isfinite(value_of(n)):
            return False
        computed = n.op in ("const", *CASTS, *ARITHMETIC, "minimum", "maximum", "where")
        if n.type.dtype.kind not in "biu" and not computed:
            return False
    return True


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
    "cast": _of_condition,
    "where": _where,
}
