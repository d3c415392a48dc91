"""Every reduction and every scan as a fold: identity, lift, merge and finish, each a few scalar nodes.

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
    lift: Callable[..., State]  # of the value of an element and its index; scans: of all values of an element
    merge: Callable[[State, State], State]
    finish: int = 0  # the index of the result in the state
    positional: bool = False  # lift reads the index along the folded axes
    follow: Callable[[State, State], State] | None = None  # a cheaper merge, if all elements of the second come later
    value: Callable[[State], Node] | None = None  # the result, if it is computed from the state


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
    return Fold(name, lambda d: (identity(d),), lambda x, p=None: (x,), lambda a, b: (scalar(op, a[0], b[0]),))


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


def _linear_merge(a: State, b: State) -> State:
    """First h -> a h + b, then another: one map of that form."""
    (a_scale, a_shift), (b_scale, b_shift) = a, b
    return scalar("multiply", a_scale, b_scale), scalar("add", scalar("multiply", b_scale, a_shift), b_shift)


def _logsumexp_merge(a: State, b: State) -> State:
    """Sums of e^(x - m), each with its maximum m: the smaller maximum's sum is scaled. Equal infinities scale by 1."""
    (m, s), (other, t) = a, b
    largest = scalar("maximum", m, other)
    scale = scalar("exp", scalar("subtract", scalar("minimum", m, other), largest))
    scale = pick(scalar("equal", m, other, dtype=BOOL), constant(1, m.type.dtype), scale)
    first = scalar("add", s, scalar("multiply", t, scale))
    second = scalar("add", t, scalar("multiply", s, scale))
    return largest, pick(scalar("greater_equal", m, other, dtype=BOOL), first, second)


# Folds of scans. h[t] = a[t] h[t-1] + b[t] merges maps h -> a h + b (Blelloch 1990).
SCANS: dict[str, Fold] = {name: FOLDS[name] for name in ("sum", "prod", "max", "min")} | {
    f.name: f
    for f in (
        Fold("linear", lambda d: (constant(1, d), constant(0, d)), lambda a, b: (a, b), _linear_merge, finish=1),
        Fold(
            "logsumexp",
            lambda d: (lowest(d), constant(0, d)),
            lambda x: (x, constant(1, x.type.dtype)),
            _logsumexp_merge,
            value=lambda state: scalar("add", state[0], scalar("log", state[1])),
        ),
    )
}
SCAN_NAMES = {"sum": "cumsum", "prod": "cumprod", "max": "cummax", "min": "cummin", "linear": "linear_scan",
              "logsumexp": "logcumsumexp"}  # fmt: skip
