"""Extents of a graph under construction: which are 1, which are equal, and the list of checks of a call so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import ShapeError
from .checks import describe, holds, shape_error
from .dims import Dim, Expression, Symbol, evaluate, expression, parts
from .graph import Check, Node, Parameter, Site, Type, constant, node
from .types import BOOL, FLOAT64, INT64, DType


class ExtentBuilder:
    """Extents of a graph under construction, with guards and checks."""

    def __init__(self, parameters: tuple[Parameter, ...], extents: Mapping[Symbol, int], rounding: str = "store"):
        self.parameters = parameters
        self.extents = extents
        self.rounding = rounding
        self.checks: list[Check] = []
        self.guards: dict[Dim, bool] = {}
        self.unified: dict[Dim, Dim] = {}
        self.merged: dict[Node, tuple[Node, Node]] = {}  # index on a merged axis -> the indices on its two axes
        self.windows: dict[Node, Any] = {}  # sliding windows, by the gather that reads them
        self.fold_windows: Callable[..., Node | None] | None = None  # a fold over them, if there are any
        self.site = Site()
        self.find_site: Callable[[int, int | None], Site] | None = (
            None  # source site of an operand, or of an item of it
        )
        self.names: tuple[str, ...] = ()  # names of the current operation's operands in the program
        self.labels: Sequence[str] = ()  # names of the parameters in a traced function
        self.shown: Callable[[Type], Type] = lambda t: t  # a type as messages show it
        self._coerced: dict[tuple[Node, DType], Node] = {}

    @contextmanager
    def pointing(self, operand: int, item: int | None = None):
        """Attribute errors of the checks inside to this operand, or to an item of it."""
        site = self.site
        self.site = self.find_site(operand, item) if self.find_site else site
        try:
            yield
        finally:
            self.site = site

    # -- leaves

    def parameter(self, index: int) -> Node:
        """The argument `index`: an array, or a weak number."""
        declared = self.parameters[index]
        return node("scalar" if declared.scalar else "param", (), index, declared.type)

    def literal(self, value: bool | int | float) -> Node:
        """A weak constant (a bool is strong)."""
        if isinstance(value, bool):
            return constant(value, BOOL)
        return constant(value, INT64 if isinstance(value, int) else FLOAT64, weak=True)

    def extent(self, dim: Dim) -> Node:
        """An extent as a weak integer."""
        if isinstance(dim, int):
            return self.literal(dim)
        return node("size", (), dim, Type(INT64, (), weak=True))

    def iota(self, dim: Dim) -> Node:
        """0, 1, ... along one axis of this extent: a weak integer vector that is not stored in memory."""
        return node("iota", (), None, Type(INT64, (dim,), weak=True))

    # -- extents

    def is_unit(self, dim: Dim) -> bool:
        """Whether this extent is 1. The signature fixes an argument's own extents, a guard all others."""
        dim = self.canonical(dim)
        if isinstance(dim, int):
            return dim == 1
        if isinstance(dim, Symbol):
            return False
        if dim not in self.guards:
            self.guards[dim] = bool(evaluate(dim, self.extents) == 1)  # of torch's symbols too
            if self.guards[dim]:
                self.unified[dim] = 1
        return self.guards[dim]

    def short(self, dim: Dim, most: int) -> int | None:
        """The value of an extent that is at most so much, which a guard then fixes; None for a longer one."""
        dim = self.canonical(dim)
        if isinstance(dim, int):
            return dim if dim <= most else None
        if not self.fits(dim, most):
            return None
        value = evaluate(dim, self.extents)
        difference = expression("max", expression("-", dim, value), expression("-", value, dim))
        return value if self._guarded(expression("fits", difference, 0)) else None

    def fits(self, dim: Dim, most: int) -> bool:
        """Whether an extent is at most so much; it is a guard from here on."""
        return self._guarded(expression("fits", self.canonical(dim), most))

    def _guarded(self, condition: Dim) -> bool:
        """Whether a condition on extents holds; it is a guard from here on."""
        if isinstance(condition, int):
            return bool(condition)
        return self.guards.setdefault(condition, evaluate(condition, self.extents) == 1)

    def unit_axes(self, shape: Sequence[Dim]) -> list[int]:
        """Axes of extent 1, equal for all calls; ShapeError for an extent of 1 where a saved file takes any extents."""
        for dim in map(self.canonical, shape):
            if isinstance(dim, Symbol) and self.extents[dim] == 1:
                raise ShapeError(
                    "whether an axis is there depends on its extent", "shape.squeeze", help="name the axes"
                )
        return [a for a, d in enumerate(shape) if self.is_unit(d)]

    def canonical(self, dim: Dim) -> Dim:
        """The extent that this one was unified with, or itself."""
        while dim in self.unified:
            dim = self.unified[dim]
        return dim

    def unify(self, a: Dim, b: Dim) -> None:
        """Treat two extents as equal from here on, as a check demands; ShapeError if it, or one before, cannot hold."""
        a, b = self.canonical(a), self.canonical(b)
        if a == b:
            return
        if isinstance(a, int) and isinstance(b, int):  # one of two constants is wrong
            raise shape_error(next(c for c in self.checks if not holds(c, self.extents)), self.extents)
        if isinstance(a, Expression) or isinstance(b, int):
            a, b = b, a  # prefer a symbol or a number
        if isinstance(a, Expression) and isinstance(b, Expression) and _mentions(a, b):
            a, b = b, a
        self.unified[b] = a

    def broadcast(self, shapes: list[tuple[Dim, ...]], check: Check) -> tuple[Dim, ...]:
        """NumPy's broadcasting of shapes; `check` is added for extents that must agree."""
        rank = max((len(s) for s in shapes), default=0)
        result: list[Dim] = []
        for position in range(-rank, 0):
            dims = [s[position] for s in shapes if len(s) >= -position]
            wide = [d for d in dims if not self.is_unit(d)]
            for other in wide[1:]:
                self._require_equal(wide[0], other, check, position)
            result.append(self.canonical(wide[0]) if wide else 1)
        return tuple(result)

    def _require_equal(self, a: Dim, b: Dim, check: Check, axis: int) -> None:
        if self.canonical(a) == self.canonical(b):
            return
        self.checks.append(Check("equal", (a, b, axis), check.what, check.operands, check.names, self.site))
        self.unify(a, b)

    def describe(self, t: Type) -> str:
        """A type with the extents of this call: float32[4096, 1024]."""
        return describe(self.shown(t), self.extents)

    @contextmanager
    def at(self, site: Site):
        """Nodes built inside have this site in the program."""
        before, self.site = self.site, site
        try:
            yield
        finally:
            self.site = before


def _mentions(outer: Dim, inner: Dim) -> bool:
    if outer == inner:
        return True
    return isinstance(outer, Expression) and any(inner in part.args for part in parts(outer))
