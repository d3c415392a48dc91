"""Finds scores (q·k sums inside reduced elements), moves other factors out of their sums, and splits elements into
factors: weights p and values v."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ...ir.folds import pick
from ...ir.graph import Node, Type, constant, is_literal, node, rebuild, search, value_of, walk, with_arguments
from ...ir.ops import CASTS, OPERAND, WIDENED
from ...ir.types import FLOAT16, DType
from ...rewrite.scalar_builder import free_axes, product_of, scalar_op, times
from ..both_axis_reductions import BOUND
from ..coordinates import Axis

MOST_FACTORS = 32  # of an element; repeated squaring has exponentially many
SMALLEST = 2.0**-64  # literal divisor with a normal inverse
MOST_ADDENDS = 8  # of an element; each may need a pass of its own
PRODUCTS = ("multiply", "divide", "where", "cast", "convert")  # operations that are split into factors


def reachable_reductions(roots: Iterable[Node], is_end: Callable[[Node], bool]) -> list[Node]:
    """Folds, scans and sorts below some values, down to those for which `is_end` is true."""
    return [n for n in search(roots, lambda n: () if is_end(n) else n.args) if n.op in BOUND]


def direct_reductions(roots: Iterable[Node]) -> list[Node]:
    """Folds, scans and sorts that some values read directly."""
    return reachable_reductions(roots, lambda n: n.op in BOUND)


def scores(value: Node, kv_axis: Axis, free: dict[Node, frozenset]) -> list[Node]:
    """Innermost sums inside an element that vary along the kv axis and read a query, an array that does not."""
    sums = [n for n in direct_reductions([value]) if n.op == "fold" and n.attr[0] == "sum" and kv_axis in free[n]]
    return [n for n in sums if not _has_inner_sums(n, free) and _has_query(n, kv_axis, free)]


def _has_query(n: Node, kv_axis: Axis, free: dict[Node, frozenset]) -> bool:
    """Whether a sum of floats reads an array that is constant along the kv axis."""
    return n.type.dtype.kind == "f" and any(m.op in ("load", "fetch") and kv_axis not in free[m] for m in walk(n.args))


def _has_inner_sums(n: Node, free: dict[Node, frozenset]) -> bool:
    inner = direct_reductions(n.args)
    return any(m.op == "fold" and m.attr[0] == "sum" and not free[m].isdisjoint(n.attr[1]) for m in inner)


@dataclass
class Factors:
    """An element as over / under where all conditions hold, else 0.

    `rounded` are factors and their 16-bit dtype, `casts` factors and divisors and the outermost cast that was dropped.
    """

    over: list[Node]
    under: list[Node]
    where: list[Node]
    rounded: dict[Node, DType] = field(default_factory=dict)
    casts: dict[Node, Node] = field(default_factory=dict)

    @property
    def all(self) -> list[Node]:
        """Factors, divisors and conditions."""
        return [*self.over, *self.under, *self.where]

    def product(self, factors: Sequence[Node]) -> Node | None:
        """The product of some factors, cast to their 16-bit dtype if all have the same, unless memory holds it in that
        dtype."""
        product, kinds = product_of(factors), {self.rounded.get(n) for n in factors}
        if product is None or len(kinds) > 1 or (d := kinds.pop()) is None:
            return product
        in_memory = product.op in ("load", "fetch") and product.attr[0].stored_dtype(product.type.dtype) is d
        return product if in_memory else node("cast", (product,), OPERAND, Type(d))


def factors_of(root: Node, is_factor: Callable[[Node], bool] = lambda n: False) -> Factors:
    """The factors of an element.

    The rounding of a contraction's operand inside a product is dropped. Casts of the program remain, as do casts of
    operands to float16 of other operations, whose values may exceed float16, and everything for which `is_factor` is
    true.
    """
    factors = Factors([], [], [])
    stack: list[tuple[Node, DType | None, Node | None]] = [(root, None, None)]
    while stack:
        n, rounded, outermost = stack.pop()
        if n.op == "multiply" and n.type.dtype.kind == "f" and len(stack) + len(factors.over) < MOST_FACTORS:
            stack += [(a, rounded, outermost) for a in reversed(n.args)]
        elif n.op == "divide":
            factors.under.append(n.args[1])
            _note_cast(factors, n.args[1], outermost)
            stack.append((n.args[0], rounded, outermost))
        elif (
            n.op in CASTS
            and n.args[0].type.dtype.compute is n.type.dtype.compute
            and not (_is_required_rounding(n) or is_factor(n))
        ):
            rounds = is_rounding(n)
            stack.append((n.args[0], n.type.dtype if rounds else rounded, outermost or (n if rounds else None)))
        elif n.op == "where" and is_literal(n.args[2], 0) and not is_literal(n.args[1], 1):  # 1 or 0 is a number
            factors.where.append(n.args[0])
            stack.append((n.args[1], rounded, outermost))
        else:
            factors.over.append(n)
            _note_cast(factors, n, outermost)
            if rounded is not None:
                factors.rounded[n] = rounded
    return factors


def _note_cast(factors: Factors, n: Node, outermost: Node | None) -> None:
    if outermost is not None:
        factors.casts[n] = outermost


def is_rounding(n: Node) -> bool:
    """Whether a value is a cast to a 16-bit float."""
    return n.op == "cast" and n.type.dtype.kind == "f" and n.type.dtype.bits == 16


def is_operand(n: Node, scales: Callable[[Node], bool] = lambda x: False) -> bool:
    """Whether a value is computed from several arrays and cast to 16 bits: it is stored so for the tensor cores.

    A cast of one array, or of a multiple of it, is read as that array. Values for which `scales` is true are numbers.
    """
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
    """Whether a value is equal for all elements."""
    return all(m.op in ("const", "scalar", "size") if not m.args else m.op not in BOUND for m in walk([n]))


def _is_required_rounding(n: Node) -> bool:
    """Whether a cast must stay: of the program, or to float16 of something that is neither a product nor a reduction.

    A cast to the dtype that its operand is computed in changes nothing.
    """
    if n.op != "cast" or n.attr == WIDENED:
        return n.op == "cast"
    (x,) = n.args
    if n.attr != OPERAND:
        return n.type.dtype is not n.type.dtype.compute
    return n.type.dtype is FLOAT16 and x.op not in (*PRODUCTS, "load", "fetch", "const") and not direct_reductions([x])


def split_weight(
    value: Node, kv_axis: Axis, free: dict[Node, frozenset], running_reference: bool
) -> tuple[frozenset, frozenset, Node]:
    """(rows of the weight p, axes of the value v alone, the element as p * v). With a `running_reference`, v keeps its
    cast."""
    factors = factors_of(value, lambda n: running_reference and is_operand(n) and not scores(n, kv_axis, free))
    rows = frozenset().union(*(free[n] for n in factors.all if scores(n, kv_axis, free)))
    value_axes = free[value] - rows - {kv_axis}
    if not value_axes:
        return free[value], frozenset(), value
    value_factors = [n for n in factors.over if free[n] & value_axes]
    if any(free[n] & value_axes for n in (*factors.under, *factors.where)):
        return free[value], frozenset(), value
    weight = product_of([n for n in factors.over if n not in value_factors])
    if weight is None:  # every factor is part of v
        return free[value], frozenset(), value
    for n in factors.under:
        weight = scalar_op("divide", weight, n)
    for condition in factors.where:
        weight = pick(condition, weight, constant(0.0, weight.type.dtype))
    product = times(weight, factors.product(value_factors) if running_reference else product_of(value_factors))
    assert product is not None
    free.update(free_axes([product]))
    return rows, value_axes, product


def hoist_score_factors(value: Node, kv_axis: Axis, running_reference: bool) -> Node:
    """The element, rewritten so that its scores are sums of q * k alone: their other factors multiply the sums.

    With a `running_reference`, operands keep their casts.
    """
    free = free_axes([value])
    done = {g: _hoist_factors(g, kv_axis, free, running_reference) for g in scores(value, kv_axis, free)}

    def change(old: Node, args: tuple[Node, ...]) -> Node:
        return done.get(old) or with_arguments(old, args)

    return rebuild([value], change)[value] if any(g is not hoisted for g, hoisted in done.items()) else value


def _hoist_factors(g: Node, kv_axis: Axis, free: dict[Node, frozenset], running_reference: bool) -> Node:
    """sum(c * q * k) as c * sum(q * k)."""
    axes = set(g.attr[1])
    factors = factors_of(
        g.args[0], lambda n: running_reference and is_operand(n, lambda x: x.op == "load" and not free[x] & axes)
    )
    free |= free_axes([*factors.over, *factors.under])
    inside = [n for n in factors.over if free[n] & axes]
    if (
        factors.where
        or any(free[n] & axes for n in factors.under)
        or len(inside) == len(factors.over) + len(factors.under)
    ):
        return g
    if {kv_axis in free[n] for n in inside} != {True, False}:
        return g
    product = product_of(inside)
    if running_reference and factors.rounded:
        sides = ([n for n in inside if (kv_axis in free[n]) is along] for along in (False, True))
        product = times(*(factors.product(side) for side in sides))
    assert product is not None
    result = node("fold", (product,), g.attr, g.type)
    for n in factors.over:
        result = result if n in inside else scalar_op("multiply", result, n)
    for n in factors.under:
        inverse = _inverse(n) if running_reference and factors.rounded else None
        result = scalar_op("divide", result, n) if inverse is None else scalar_op("multiply", result, inverse)
    return result


def _inverse(n: Node) -> Node | None:
    """1 / n of a literal, if it is a normal number: multiplying 16-bit operands by it is exact enough."""
    while n.op == "convert":
        n = n.args[0]
    if n.op != "const" or n.type.dtype.kind != "f" or not SMALLEST <= abs(value_of(n)) <= 1 / SMALLEST:
        return None
    return constant(1 / value_of(n), n.type.dtype)
