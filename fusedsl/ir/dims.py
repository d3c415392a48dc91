"""Symbolic extents: the length of an axis as an expression of argument extents, evaluated at each call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """The extent of axis `axis` of argument `argument`, known only at the call."""

    argument: int
    axis: int

    def __str__(self) -> str:
        return f"n{self.argument}_{self.axis}"


@dataclass(frozen=True)
class Expression:
    """An extent computed from others: `op` is a key of OPERATIONS; Nones stand for absent slice bounds."""

    op: str
    args: tuple[Dim | None, ...]

    def __str__(self) -> str:
        if self.op == "slice":
            n, *bounds = self.args
            return f"{n}[{':'.join('' if b is None else str(b) for b in bounds)}]"
        if len(self.args) == 2 and not self.op.isalpha():
            return f"({self.args[0]}{self.op}{self.args[1]})"
        return f"{self.op}({', '.join(map(str, self.args))})"


Dim = int | Symbol | Expression


def _slice_bounds(n, start, stop, step) -> range:
    return range(*slice(start, stop, step).indices(n))


OPERATIONS: dict[str, Callable[..., int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "max": max,
    "min": min,
    "slice": lambda n, start, stop, step: len(_slice_bounds(n, start, stop, step)),
    "start": lambda n, start, stop, step: _slice_bounds(n, start, stop, step).start,
    "wrap": lambda i, n: i + n if i < 0 else i,  # a negative index, from the end
    "broadcast": lambda a, b: b if a == 1 else a,
    "fits": lambda n, limit: int(n <= limit),  # a length class, for guards
}


def expression(op: str, *args: Dim | None) -> Dim:
    """`op` of extents, folded where every argument is known and simplified where it costs nothing."""
    if all(a is None or isinstance(a, int) for a in args):
        return OPERATIONS[op](*args)
    if op == "slice" and args[1] in (None, 0) and args[2] is None and args[3] in (None, 1):
        return args[0]  # type: ignore[return-value]
    if op == "slice" and args[1] is None and args[2] is None and args[3] == -1:
        return args[0]  # type: ignore[return-value]
    if op == "start" and args[1] is None and args[3] in (None, 1):
        return 0
    if op == "start" and args[1:] == (None, None, -1):
        return expression("-", args[0], 1)
    if op == "+" and (args[0] == 0 or args[1] == Expression("*", (args[0], -1))):
        return args[1] if args[0] == 0 else 0  # type: ignore[return-value]
    if op == "*" and 1 in args:
        return args[1] if args[0] == 1 else args[0]  # type: ignore[return-value]
    if (op in "+-" and args[1] == 0) or (op == "//" and args[1] == 1):
        return args[0]  # type: ignore[return-value]
    if op == "//" and (rest := _without(args[0], args[1])) is not None:
        return rest
    return Expression(op, args)


def _without(whole: Dim | None, factor: Dim | None) -> Dim | None:
    """`whole` without one of its factors; None where it is no factor. (An extent of 0 divides as any other.)"""
    if whole == factor:
        return 1
    if not isinstance(whole, Expression) or whole.op != "*":
        return None
    a, b = whole.args
    if (rest := _without(a, factor)) is not None:
        return expression("*", rest, b)
    return None if (rest := _without(b, factor)) is None else expression("*", a, rest)


def product(dims) -> Dim:
    """The number of elements of a shape."""
    dims = tuple(dims)
    known = math.prod(d for d in dims if isinstance(d, int))
    result: Dim = known
    for d in dims:
        if not isinstance(d, int):
            result = expression("*", d, result) if result != 1 else d
    return result


def evaluate(dim: Dim, extents: Mapping[Symbol, int]) -> int:
    """The number that `dim` stands for, given the extents of the arguments."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, Symbol):
        return extents[dim]
    return OPERATIONS[dim.op](*(None if a is None else evaluate(a, extents) for a in dim.args))


def substitute(dim: Dim | None, table: Mapping[Dim, Dim]) -> Dim | None:
    """`dim` with every extent that `table` names replaced (used when broadcasting unifies two symbols)."""
    if dim is None or isinstance(dim, int):
        return dim
    if dim in table:
        return substitute(table[dim], table)
    if isinstance(dim, Symbol):
        return dim
    args = tuple(substitute(a, table) for a in dim.args)
    return dim if args == dim.args else expression(dim.op, *args)


def to_json(dim: Dim | None):
    """JSON form: null, a number, ["n", argument, axis], or [op, ...]."""
    if dim is None or isinstance(dim, int):
        return dim
    if isinstance(dim, Symbol):
        return ["n", dim.argument, dim.axis]
    return [dim.op, *map(to_json, dim.args)]


def from_json(data) -> Dim | None:
    """The inverse of `to_json`."""
    if data is None or isinstance(data, int):
        return data
    if data[0] == "n":
        return Symbol(data[1], data[2])
    return Expression(data[0], tuple(from_json(a) for a in data[1:]))
