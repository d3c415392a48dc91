"""Recognises scores (q·k sums inside reduced elements), and factors elements into weights and operands (p, v)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ...ir.folds import pick
from ...ir.graph import Node, Type, constant, is_literal, node, rebuild, value_of, walk
from ...ir.ops import CASTS
from ...ir.types import FLOAT16, DType
from ...rewrite.scalar_builder import free_axes, product_of, scalar_op, times
from ..both_axis_reductions import BOUND
from ..coordinates import Axis

MOST_FACTORS = (
    32  # of an element that is taken apart: what is multiplied with itself again and again has no end of them
)
SMALLEST = 2.0**-64  # that factors are, whose inverses are normal numbers
MOST_ADDENDS = 8  # of an element that is taken apart: each may be a pass of its own
PRODUCTS = ("multiply", "divide", "where", "cast", "convert")  # what factors are taken out of


def reachable_reductions(roots: Iterable[Node], is_end: Callable[[Node], bool]) -> list[Node]:
    """The folds, scans and orders that values are computed from, as far as to those that are an end."""
    found: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if n.op in BOUND:
            found[n] = None
        if not is_end(n):
            stack += n.args
    return list(found)


def direct_reductions(roots: Iterable[Node]) -> list[Node]:
    """The folds, scans and orders that values are computed from directly."""
    return reachable_reductions(roots, lambda n: n.op in BOUND)


def scores(value: Node, stream: Axis, free: dict[Node, frozenset]) -> list[Node]:
    """The sums that an element holds of its own, over something that the stream changes and something that it does not.

    Not those that hold such sums themselves.
    """
    found = [n for n in direct_reductions([value]) if n.op == "fold" and n.attr[0] == "sum" and stream in free[n]]
    return [n for n in found if not _has_inner_sums(n, free) and _has_query(n, stream, free)]


def _has_query(n: Node, stream: Axis, free: dict[Node, frozenset]) -> bool:
    """Whether floats are summed, some of an array that is the same all along the stream: a query, beside the keys."""
    return n.type.dtype.kind == "f" and any(m.op in ("load", "fetch") and stream not in free[m] for m in walk(n.args))


def _has_inner_sums(n: Node, free: dict[Node, frozenset]) -> bool:
    below = direct_reductions(n.args)
    return any(m.op == "fold" and m.attr[0] == "sum" and not free[m].isdisjoint(n.attr[1]) for m in below)


@dataclass
class Factors:
    """A product taken apart: multiplied, divided by, and where it is not 0; and the floats of 16 bits that factors were
    `rounded` to, before they were multiplied on."""

    over: list[Node]
    under: list[Node]
    where: list[Node]
    rounded: dict[Node, DType] = field(default_factory=dict)

    def product(self, factors: Sequence[Node]) -> Node | None:
        """The product of some factors, rounded where all of them were, unless it is read from memory as it is."""
        found, kinds = product_of(factors), {self.rounded.get(n) for n in factors}
        if found is None or len(kinds) > 1 or (d := kinds.pop()) is None:
            return found
        stands = found.op in ("load", "fetch") and found.attr[0].stored_dtype(found.type.dtype) is d
        return found if stands else node("cast", (found,), None, Type(d))


def factors_of(root: Node, whole: Callable[[Node], bool] = lambda n: False) -> Factors:
    """The factors of an element. Products are not rounded to narrow floats on the way: a factor of a sum has a rounding
    less. A rounding to float8, which changes a value by sixteenths, stays, and one of what is computed otherwise, which
    may be beyond float16; and those that are to stay `whole`."""
    found = Factors([], [], [])
    stack: list[tuple[Node, DType | None]] = [(root, None)]
    while stack:
        n, rounded = stack.pop()
        if n.op == "multiply" and n.type.dtype.kind == "f" and len(stack) + len(found.over) < MOST_FACTORS:
            stack += [(a, rounded) for a in reversed(n.args)]
        elif n.op == "divide":
            found.under.append(n.args[1])
            stack.append((n.args[0], rounded))
        elif (
            n.op in CASTS
            and n.args[0].type.dtype.compute is n.type.dtype.compute
            and not (_is_required_rounding(n) or whole(n))
        ):
            stack.append((n.args[0], n.type.dtype if is_rounding(n) else rounded))
        elif n.op == "where" and is_literal(n.args[2], 0) and not is_literal(n.args[1], 1):  # that is a number, 1 or 0
            found.where.append(n.args[0])
            stack.append((n.args[1], rounded))
        else:
            found.over.append(n)
            if rounded is not None:
                found.rounded[n] = rounded
    return found


def is_rounding(n: Node) -> bool:
    """Whether a value is rounded to a float of 16 bits."""
    return n.op == "cast" and n.type.dtype.kind == "f" and n.type.dtype.bits == 16


def is_operand(n: Node, scales: Callable[[Node], bool] = lambda x: False) -> bool:
    """Whether a value is rounded to 16 bits after it was computed from several numbers: stored so for tensor cores,
    which read what is rounded of one array, and a multiple of it, as that array. What only `scales` it is a number."""
    if not is_rounding(n):
        return False
    stack, varying = [n.args[0]], list[Node]()
    while stack and len(varying) < 2:
        x = stack.pop()
        if x.op in ("multiply", "convert") or (x.op == "divide" and _is_number(x.args[1])):
            stack += x.args
        elif not (_is_number(x) or scales(x)):
            varying.append(x)
    return len(varying) != 1 or varying[0].op not in ("load", "fetch")


def _is_number(n: Node) -> bool:
    """Whether a value is one for all elements."""
    return all(m.op in ("const", "scalar", "size") if not m.args else m.op not in BOUND for m in walk([n]))


def _is_required_rounding(n: Node) -> bool:
    """Whether a value is rounded to a dtype that only stores, or to float16 one that is no product and not folded."""
    if n.op != "cast" or n.type.dtype.storage:
        return n.op == "cast"
    (x,) = n.args
    return n.type.dtype is FLOAT16 and x.op not in (*PRODUCTS, "load", "fetch", "const") and not direct_reductions([x])


def split_weight(
    value: Node, stream: Axis, free: dict[Node, frozenset], level: bool
) -> tuple[frozenset, frozenset, Node]:
    """(rows of the weights, axes of what they weigh alone, the element as weight * weighed); where `level`, what is
    weighed stays as it is rounded."""
    parts = factors_of(value, lambda n: level and is_operand(n) and not scores(n, stream, free))
    pieces = [*parts.over, *parts.under, *parts.where]
    rows = frozenset().union(*(free[n] for n in pieces if scores(n, stream, free)))
    own = free[value] - rows - {stream}
    if not own:
        return free[value], frozenset(), value
    weighed = [n for n in parts.over if free[n] & own]
    if any(free[n] & own for n in (*parts.under, *parts.where)):
        return free[value], frozenset(), value
    weight = product_of([n for n in parts.over if n not in weighed])
    if weight is None:  # every factor has axes of its own: nothing weighs them
        return free[value], frozenset(), value
    for n in parts.under:
        weight = scalar_op("divide", weight, n)
    for condition in parts.where:
        weight = pick(condition, weight, constant(0.0, weight.type.dtype))
    whole = times(weight, parts.product(weighed) if level else product_of(weighed))
    assert whole is not None
    free.update(free_axes([whole]))
    return rows, own, whole


def distribute_sums(roots: Sequence[Node]) -> list[Node]:
    """Values whose sums along a stream hold several weights in addends of their own: a sum of each addend."""
    free = free_axes(roots)

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        made = node(old.op, args, old.attr, old.type) if args != old.args else old
        if made not in free:
            free.update(free_axes([made]))
        if made.op != "fold" or made.attr[0] != "sum" or len(made.attr[1]) != 1:
            return made
        parts = _addends(made.args[0], made.attr[1][0], free)
        if len(parts) == 1:
            return made
        sums = [_sum_addend(x, made, free) for _, x in parts]
        total = sums[0]
        for (sign, _), x in zip(parts[1:], sums[1:]):
            total = scalar_op(sign, total, x, dtype=made.type.dtype)
        free.update(free_axes([total]))
        return total

    new = rebuild(roots, change)
    return [new[r] for r in roots]


def _addends(value: Node, stream: Axis, free: dict[Node, frozenset]) -> list[tuple[str, Node]]:
    """An element as addends, "add" or "subtract", the first one added: one, unless each is a weight by itself, and they
    are few."""
    found: list[tuple[str, Node]] = []
    stack = [("add", value)]
    while stack:
        sign, x = stack.pop()
        sides = _sides(x, stream, free)
        if sides:
            stack += [(other if sign == "add" else _negated(other), y) for other, y in reversed(sides)]
        else:
            found.append((sign, x))
        if len(stack) + len(found) > MOST_ADDENDS:
            return [("add", value)]
    return found


def _sides(value: Node, stream: Axis, free: dict[Node, frozenset]) -> list[tuple[str, Node]]:
    """The two addends of an element that are weights by themselves, with the other factors; none where there are not
    two."""
    if not scores(value, stream, free):
        return []
    parts = factors_of(value)
    sums = [n for n in parts.over if n.op in ("add", "subtract") and scores(n, stream, free)]
    if len(sums) != 1 or parts.where:
        return []
    weighs = any(free[n] - free[sums[0]] for n in parts.over)
    if not (_have_distinct_scores(sums[0], stream, free) or (weighs and _are_separate_weights(sums[0], stream, free))):
        return []
    found: list[tuple[str, Node]] = []
    for sign, x in (("add", sums[0].args[0]), (sums[0].op, sums[0].args[1])):
        made = product_of([x if n is sums[0] else n for n in parts.over])
        assert made is not None
        for n in parts.under:
            made = scalar_op("divide", made, n)
        found.append((sign, made))
    free.update(free_axes([x for _, x in found]))
    return found


def _negated(sign: str) -> str:
    return "subtract" if sign == "add" else "add"


def _have_distinct_scores(total: Node, stream: Axis, free: dict[Node, frozenset]) -> bool:
    """Whether each side of a sum or a difference holds scores, and none that the other holds."""
    sides = [set(scores(x, stream, free)) for x in total.args]
    return all(sides) and not sides[0] & sides[1]


def _are_separate_weights(total: Node, stream: Axis, free: dict[Node, frozenset]) -> bool:
    """Whether the sides of a sum or a difference are weights that are measured from rows, of which one pass has one. A
    side that is no weight is cheap to sum if it does not vary both along the stream and along rows."""
    if not any(_reads_row_reduction(x, stream, free) for x in total.args):
        return False
    return all(scores(x, stream, free) or _is_cheap_to_sum(x, stream, free) for x in total.args)


def _reads_row_reduction(x: Node, stream: Axis, free: dict[Node, frozenset]) -> bool:
    """Whether a weight reads what is folded of scores, as softmax does."""
    rows = [n for n in direct_reductions([x]) if n.op == "fold" and len(n.attr[1]) == 1 and stream not in free[n]]
    return bool(scores(x, stream, free)) and any(scores(n.args[0], n.attr[1][0], free) for n in rows)


def _is_cheap_to_sum(x: Node, stream: Axis, free: dict[Node, frozenset]) -> bool:
    return stream not in free[x] or free[x] == {stream}


def _sum_addend(x: Node, whole: Node, free: dict[Node, frozenset]) -> Node:
    """The sum of an addend; before that of one without scores stands what does not vary along the stream."""
    (stream,) = whole.attr[1]
    outside: list[Node] = []
    if not scores(x, stream, free):
        parts = factors_of(x)
        free.update(free_axes([*parts.over, *parts.under]))
        outside = [n for n in parts.over if stream not in free[n] and not is_literal(n, 1)]
        inside = product_of([n for n in parts.over if stream in free[n]])
        x = inside if inside is not None else constant(1.0, whole.type.dtype)
        for n in parts.under:
            x = scalar_op("divide", x, n)
        free.update(free_axes([x]))
    total = node("fold", (x,), whole.attr, whole.type)
    for n in outside:
        total = scalar_op("multiply", n, total, dtype=whole.type.dtype)
    return total


def hoist_score_factors(value: Node, stream: Axis, level: bool) -> Node:
    """An element whose scores are sums of products alone: factors that do not vary along a sum stand before it, but for
    those of operands that stay as they are rounded, where `level`."""
    free = free_axes([value])
    done = {g: _hoist_factors(g, stream, free, level) for g in scores(value, stream, free)}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        return done.get(old) or (node(old.op, args, old.attr, old.type) if args != old.args else old)

    return rebuild([value], change)[value] if any(g is not made for g, made in done.items()) else value


def _hoist_factors(g: Node, stream: Axis, free: dict[Node, frozenset], level: bool) -> Node:
    """sum(c * x * y) as c * sum(x * y), where both sides of the product remain."""
    own = set(g.attr[1])
    parts = factors_of(g.args[0], lambda n: level and is_operand(n, lambda x: x.op == "load" and not free[x] & own))
    free |= free_axes([*parts.over, *parts.under])
    inside = [n for n in parts.over if free[n] & own]
    if parts.where or any(free[n] & own for n in parts.under) or len(inside) == len(parts.over) + len(parts.under):
        return g
    if {stream in free[n] for n in inside} != {True, False}:
        return g
    product = product_of(inside)
    if level and parts.rounded:
        sides = ([n for n in inside if (stream in free[n]) is along] for along in (False, True))
        product = times(*(parts.product(side) for side in sides))
    assert product is not None
    found = node("fold", (product,), g.attr, g.type)
    for n in parts.over:
        found = found if n in inside else scalar_op("multiply", found, n)
    for n in parts.under:
        inverse = _inverse(n) if level and parts.rounded else None
        found = scalar_op("divide", found, n) if inverse is None else scalar_op("multiply", found, inverse)
    return found


def _inverse(n: Node) -> Node | None:
    """1 / n of a literal, by which what was rounded to 16 bits may be multiplied instead; None where that is no normal
    number."""
    while n.op == "convert":
        n = n.args[0]
    if n.op != "const" or n.type.dtype.kind != "f" or not SMALLEST <= abs(value_of(n)) <= 1 / SMALLEST:
        return None
    return constant(1 / value_of(n), n.type.dtype)
