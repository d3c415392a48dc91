"""Symbolic extents: the length of an axis as an expression of argument extents, evaluated at each call."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary


@dataclass(frozen=True)
class Symbol:
    """The extent of axis `axis` of argument `argument`, known only at the call."""

    argument: int
    axis: int

    def __str__(self) -> str:
        return f"n{self.argument}_{self.axis}"


class Expression:
    """An extent computed from others: `op` is a key of OPERATIONS; None stands for an absent slice bound.

    Interned, so that identity is equality: an extent built in thousands of steps, or doubled at each, costs no more
    than its distinct parts. `weight` counts the parts with their repetitions.
    """

    __slots__ = ("__weakref__", "args", "op", "weight")
    __match_args__ = ("op", "args")

    op: str
    args: tuple[Dim | None, ...]
    weight: int

    def __new__(cls, op: str, args: tuple[Dim | None, ...]) -> Expression:
        known = _interned.get((op, args))
        if known is None:
            known = object.__new__(cls)
            weight = 1 + sum(a.weight if isinstance(a, Expression) else 1 for a in args)
            for name, value in (("op", op), ("args", args), ("weight", min(weight, HEAVY))):
                object.__setattr__(known, name, value)
            known = _interned.setdefault((op, args), known)
        return known

    def __setattr__(self, name, value):
        raise AttributeError("extents are frozen")

    def __reduce__(self):
        return (from_json, (to_json(self),))

    def __repr__(self) -> str:
        return f"<extent {self}>"

    def __str__(self) -> str:
        args = [str(a) if not isinstance(a, Expression) or a.weight <= SHOWN else "..." for a in self.args]
        if self.op == "slice":
            n, *bounds = ("" if a is None else text for a, text in zip(self.args, args))
            return f"{n}[{':'.join(bounds)}]"
        if len(args) == 2 and not self.op.isalpha():
            return f"({args[0]}{self.op}{args[1]})"
        return f"{self.op}({', '.join(args)})"


SHOWN = 32  # printed subexpressions of an extent
HEAVY = 1000  # subexpressions that are counted at most
_interned: WeakValueDictionary[tuple, Expression] = WeakValueDictionary()
Dim = int | Symbol | Expression


def _slice_bounds(n, start, stop, step) -> range:
    return range(*slice(start, stop, step).indices(max(n, 0)))


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
    """`op` of extents, folded if all arguments are known, and simplified if that is cheap."""
    if all(a is None or isinstance(a, int) for a in args):
        return OPERATIONS[op](*args)
    if op == "slice" and args[1] in (None, 0) and args[2] is None and args[3] in (None, 1):
        return args[0]  # type: ignore[return-value]
    if op == "slice" and args[1] is None and args[2] is None and args[3] == -1:
        return args[0]  # type: ignore[return-value]
    if op == "slice" and (trimmed := _trimmed(args)) is not None and isinstance(args[0], Expression):
        inner = _trimmed(args[0].args) if args[0].op == "slice" else None
        if inner is not None:
            return expression("slice", args[0].args[0], inner + trimmed, None, None)
        if _least(args[0]) >= trimmed:
            return expression("+", args[0], -trimmed)
    if op == "start" and args[1] is None and args[3] in (None, 1):
        return 0
    if op == "start" and (trimmed := _trimmed((*args[:2], None, args[3]))) is not None and _least(args[0]) >= trimmed:
        return trimmed
    if op == "start" and args[1:] == (None, None, -1):
        return expression("-", args[0], 1)
    if op == "+" and (args[0] == 0 or args[1] == Expression("*", (args[0], -1))):
        return args[1] if args[0] == 0 else 0  # type: ignore[return-value]
    if op == "+" and isinstance(args[0], int):
        return expression("+", args[1], args[0])
    if op == "+" and (whole := _joined(*args)) is not None:
        return whole
    match args:
        case (Expression(op="+", args=(rest, int() as first)), int() as second) if op in "+-":
            return expression("+", rest, first + second if op == "+" else first - second)
    if op == "*" and 0 in args:
        return 0
    if op == "*" and 1 in args:
        return args[1] if args[0] == 1 else args[0]  # type: ignore[return-value]
    if (op in "+-" and args[1] == 0) or (op == "//" and args[1] == 1):
        return args[0]  # type: ignore[return-value]
    if op == "//" and (rest := _without(args[0], args[1])) is not None:
        return rest
    return Expression(op, args)


def _trimmed(args: tuple[Dim | None, ...]) -> int | None:
    """How many elements a slice (extent, start, stop, step) leaves out at the ends of an axis that is long enough; None
    where its bounds do not count from both ends."""
    _, start, stop, step = args
    begins, ends = start is None or (isinstance(start, int) and start >= 0), isinstance(stop, int) and stop < 0
    if step not in (None, 1) or not begins or not (stop is None or ends):
        return None
    return (start or 0) - (stop or 0)  # type: ignore[operator]


def _joined(a: Dim | None, b: Dim | None) -> Dim | None:
    """x[i:j] + x[j:k] = x[i:k], in either order; None for other extents. Either j is no less than i and no more than k,
    or there are no i and k."""
    if not all(isinstance(x, Expression) and x.op == "slice" and x.args[3] in (None, 1) for x in (a, b)):
        return None
    for first, second in ((a.args, b.args), (b.args, a.args)):  # type: ignore[union-attr]
        (x, begin, cut, _), (y, same, end, _) = first, second
        if x != y or not isinstance(cut, int) or same != cut:
            continue
        if begin in (None, 0) and end is None:
            return x
        if 0 <= (begin or 0) <= cut and (end is None or (isinstance(end, int) and end >= cut)):  # type: ignore[operator]
            return expression("slice", x, begin, end, None)
    return None


def _least(dim: Dim | None) -> int:
    """A lower bound of an extent."""
    added = 0
    while isinstance(dim, Expression) and dim.op == "+" and isinstance(dim.args[1], int):
        added, dim = added + dim.args[1], dim.args[0]
    if isinstance(dim, int):
        return added + dim
    return added if isinstance(dim, Symbol) or (isinstance(dim, Expression) and dim.op == "slice") else -1


def _without(dim: Dim | None, factor: Dim | None) -> Dim | None:
    """An extent without one of its factors; None if it has no such factor. (An extent of 0 divides like any other.)"""
    if dim == factor:
        return 1
    if not isinstance(dim, Expression) or dim.op != "*" or dim.weight > SHOWN:
        return None
    a, b = dim.args
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


class Extents(dict[Symbol, int]):
    """The extents of one call, with a cache of computed ones."""

    __slots__ = ("known",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.known: dict[Expression, int] = {}


def evaluate(dim: Dim, extents: Mapping[Symbol, int]) -> int:
    """The value of `dim`, given the extents of the arguments."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, Symbol):
        return extents[dim]
    known: dict[Expression, int] = getattr(extents, "known", {})
    for part in parts(dim, known):
        values = (extents[a] if isinstance(a, Symbol) else known.get(a, a) for a in part.args)  # type: ignore[arg-type]
        known[part] = OPERATIONS[part.op](*values)
    return known[dim]


def parts(dim: Expression, known: Container[Expression] = ()) -> Iterator[Expression]:
    """The subexpressions of `dim`, each once and after its own parts, without those that are `known`."""
    stack = [dim]
    seen: set[Expression] = set()
    while stack:
        top = stack[-1]
        missing = [a for a in top.args if isinstance(a, Expression) and a not in seen and a not in known]
        if missing and top not in known:
            stack += missing
            continue
        stack.pop()
        if top not in seen and top not in known:
            seen.add(top)
            yield top


def symbols(dim: Dim) -> list[Symbol]:
    """The symbols in an extent."""
    if isinstance(dim, Symbol):
        return [dim]
    args = [a for part in parts(dim) for a in part.args] if isinstance(dim, Expression) else []
    return [a for a in args if isinstance(a, Symbol)]


def substitute(dim: Dim | None, table: Mapping[Dim, Dim], known: dict[Dim | None, Any] | None = None) -> Dim | None:
    """`dim` with the extents in `table` replaced; `known` caches results for one table."""
    known = {} if known is None else known
    stack = [dim]
    while stack:
        end = stack[-1]
        while end in table:
            end = table[end]  # type: ignore[index]
        if isinstance(end, Expression):
            missing = [a for a in end.args if a not in known]
            if missing:
                stack += missing
                continue
            args = tuple(known[a] for a in end.args)
            end = end if args == end.args else expression(end.op, *args)
        known[stack.pop()] = end
    return known[dim]


@lru_cache(maxsize=256)
def to_json(dim: Dim | None) -> list:
    """JSON form: the parts in order, each null, a number, ["n", argument, axis], or [op, indices of its arguments]."""
    indices: dict[Dim | None, int] = {}
    data: list = []

    def tell(part: Dim | None, form: Any) -> None:
        if part not in indices:
            indices[part] = len(data)
            data.append(form)

    def leaf(part: Dim | None) -> None:
        if not isinstance(part, Expression):
            tell(part, ["n", part.argument, part.axis] if isinstance(part, Symbol) else part)

    leaf(dim)
    for e in parts(dim) if isinstance(dim, Expression) else ():
        for a in e.args:
            leaf(a)
        tell(e, [e.op, *(indices[a] for a in e.args)])
    return data


def from_json(data: list) -> Dim | None:
    """The inverse of `to_json`."""
    dims: list[Dim | None] = []
    for part in data:
        if part is None or isinstance(part, int):
            dims.append(part)
        elif part[0] == "n":
            dims.append(Symbol(part[1], part[2]))
        else:
            dims.append(Expression(part[0], tuple(dims[index] for index in part[1:])))
    return dims[-1]
