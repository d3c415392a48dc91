"""Every reduction as a fold: identity, lift, merge and finish, each a few scalar nodes.

One definition serves lanes, warps, blocks and split kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .graph import Node, Type, constant, node
from .types import BOOL, INT64, DType

State = tuple[Node, ...]


@dataclass(frozen=True)
class Fold:
    """Reduction as data: identity, lift (element to state), merge (two states), finish (state to value)."""

    name: str
    identity: Callable[[DType], State]
    lift: Callable[[Node, Node | None], State]
    merge: Callable[[State, State], State]
    finish: int = 0  # the index of the result in the state
    positional: bool = False  # lift reads the index along the folded axes
    follow: Callable[[State, State], State] | None = None  # a cheaper merge, if all elements of the second come later


def scalar(op: str, *args: Node, dtype: DType | None = None) -> Node:
    """An elementwise operation on scalars of one dtype."""
    return node(op, args, None, Type(dtype or args[-1].type.dtype))


def lowest(d: DType) -> Node:
    """The identity of max."""
    return constant(_bound(d, -1), d)


def highest(d: DType) -> Node:
    """The identity of min."""
    return constant(_bound(d, 1), d)


def _bound(d: DType, sign: int) -> bool | int | float:
    if d is BOOL:
        return sign > 0
    if d.kind == "f":
        return sign * float("inf")
    if d.kind == "u":
        return (1 << d.bits) - 1 if sign > 0 else 0
    return (1 << d.bits - 1) - 1 if sign > 0 else -(1 << d.bits - 1)


def _single(name: str, identity: Callable[[DType], Node], op: str) -> Fold:
    """A fold whose state is one value, merged by an operation of the table."""
    return Fold(name, lambda d: (identity(d),), lambda x, p: (x,), lambda a, b: (scalar(op, a[0], b[0]),))


def _arg(name: str, worst: Callable[[DType], Node], better: str) -> Fold:
    """The index of the best element: the first among equals, and of the first NaN if there is one."""

    def merge(a: State, b: State) -> State:
        (x, i), (y, j) = a, b
        first = scalar("less", j, i, dtype=BOOL)
        same = scalar("bitwise_and", scalar("equal", x, y, dtype=BOOL), first)
        take = scalar("bitwise_or", scalar(better, y, x, dtype=BOOL), same)
        if x.type.dtype.kind == "f":
            take = _nan_first(x, y, first, take)
        return (pick(take, y, x), pick(take, j, i))

    def follow(a: State, b: State) -> State:
        (x, i), (y, j) = a, b
        take = scalar(better, y, x, dtype=BOOL)
        if x.type.dtype.kind == "f":
            worse = scalar("greater_equal" if better == "less" else "less_equal", y, x, dtype=BOOL)
            number = scalar("equal", x, x, dtype=BOOL)
            take = scalar("bitwise_and", scalar("logical_not", worse, dtype=BOOL), number)
        return (pick(take, y, x), pick(take, j, i))

    nothing = constant((1 << 63) - 1, INT64)
    return Fold(name, lambda d: (worst(d), nothing), lambda x, p: (x, _position(p)), merge, 1, True, follow)


def _position(p: Node | None) -> Node:
    assert p is not None
    return p


def pick(condition: Node, yes: Node, no: Node) -> Node:
    """One of two scalars of one dtype."""
    return node("where", (condition, yes, no), None, Type(yes.type.dtype))


def _nan_first(x: Node, y: Node, first: Node, take: Node) -> Node:
    """`take`, but a NaN precedes any number, and the earlier of two NaNs the later."""
    x_nan, y_nan = scalar("isnan", x, dtype=BOOL), scalar("isnan", y, dtype=BOOL)
    when_y_nan = pick(x_nan, first, constant(True, BOOL))
    return pick(y_nan, when_y_nan, scalar("bitwise_and", scalar("logical_not", x_nan, dtype=BOOL), take))


FOLDS: dict[str, Fold] = {
    f.name: f
    for f in (
        _single("sum", lambda d: constant(0, d), "add"),
        _single("prod", lambda d: constant(1, d), "multiply"),
        _single("max", lowest, "maximum"),
        _single("min", highest, "minimum"),
        _single("any", lambda d: constant(False, BOOL), "logical_or"),
        _single("all", lambda d: constant(True, BOOL), "logical_and"),
        _arg("argmax", lowest, "greater"),
        _arg("argmin", highest, "less"),
    )
}
