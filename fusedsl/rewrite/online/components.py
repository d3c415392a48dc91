"""Components of an online reduction: sums, the references they are measured from, and the extrema behind those."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf, isinf, log

from ...ir.folds import highest, lowest, pick
from ...ir.graph import Node, Type, constant, is_literal, node, search, value_of, walk
from ...ir.types import BOOL, FLOAT32, DType
from ..scalar_builder import product_of
from ..scalar_builder import scalar_op as op

MOST_FACTORS = 32  # of a weight
HUGE = 2.0**26  # beyond this, rounding in float32 changes a power of two by several units
ADDING = ("add", "subtract", "fma", "where", "convert", "cast", "minimum", "maximum")
OPPOSITE = {"max": "min", "min": "max"}


@dataclass(frozen=True)
class Reference:
    """Value that exponents and powers are measured from: "max", "min" or "mean" of `value` over the elements so far."""

    value: Node
    kind: str
    guard: Node | None = None  # only elements for which this holds
    sign: Node | None = None  # a row value: if it is negative, the other extremum


@dataclass(frozen=True)
class Exponent:
    """exp(scale * factor * (reference.value - M)), where M is the reference; `factor` is a row value."""

    reference: Reference
    scale: float = 1.0
    base: str = "exp"
    factor: Node | None = None


@dataclass(frozen=True)
class Component:
    """Sum of weight * exponent * product of (v - R) over the elements for which `guard` holds."""

    dtype: DType
    weight: Node | None = None
    exponent: Exponent | None = None
    powers: tuple[Reference, ...] = ()
    guard: Node | None = None
    vanishes: bool = False  # skip elements whose exponential is exp(-inf): 0 times what may be infinite

    @property
    def plain(self) -> bool:
        """Whether it needs no reference."""
        return self.exponent is None and not self.powers

    def references(self) -> list[Reference]:
        return ([self.exponent.reference] if self.exponent else []) + list(self.powers)

    @property
    def skips(self) -> bool:
        """Whether an element whose exponential is exp(-inf) adds nothing; false if an infinity may multiply it."""
        e = self.exponent
        if e is None or e.factor is not None:
            return False
        beside = [r.value for r in self.powers] + ([] if self.weight is None else [self.weight])
        return self.vanishes or not any(n is e.reference.value or _is_infinite(n) for n in walk(beside))

    def active_condition(self) -> Node | None:
        """Condition that an element changes the sum; None: always.

        The guard and the conditions of the weight hold, and the exponential is not exp(-inf).
        """
        conditions = [self.guard] if self.guard is not None else []

        def is_masked(n: Node) -> bool:
            return n.op == "where" and n.args[2].op == "const" and value_of(n.args[2]) == 0

        def factors(n: Node) -> tuple[Node, ...]:
            return n.args if n.op == "multiply" else n.args[1:2] if is_masked(n) else ()

        parts = search([self.weight] if self.weight is not None else [], factors)
        conditions += [n.args[0] for n in parts if is_masked(n)]
        if self.exponent is not None and self.skips:
            value = self.exponent.reference.value
            nothing = constant(float("-inf") if self.exponent.scale > 0 else float("inf"), value.type.dtype.compute)
            conditions.append(op("not_equal", value, nothing, dtype=BOOL))
        conjunction: Node | None = None
        for condition in conditions:
            conjunction = condition if conjunction is None else op("logical_and", conjunction, condition, dtype=BOOL)
        return conjunction

    def below(self) -> list[tuple[tuple[Reference, ...], Component]]:
        """(removed powers, component) for every subset of the powers: moving a reference mixes these components."""
        mixed = []
        for count in range(len(self.powers) + 1):
            for chosen in combinations(range(len(self.powers)), count):
                left = tuple(self.powers[k] for k in chosen)
                removed = tuple(r for k, r in enumerate(self.powers) if k not in chosen)
                mixed.append((removed, self.with_powers(left)))
        return mixed

    def with_powers(self, powers: Iterable[Reference]) -> Component:
        left = tuple(powers)
        return replace(self, powers=left, vanishes=self.vanishes and bool(left or self.weight is not None))


def extrema(r: Reference, axes: tuple) -> list[Node]:
    """Folds that compute a reference: its extremum, and with a sign the opposite one too."""
    kinds = [r.kind] if r.sign is None else [r.kind, OPPOSITE[r.kind]]
    d = r.value.type.dtype
    values = [r.value if r.guard is None else masked(r.guard, r.value, kind) for kind in kinds]
    return [node("fold", (value,), (kind, axes), Type(d)) for kind, value in zip(kinds, values)]


def by_sign(sign: Node, yes: Node, no: Node) -> Node:
    return pick(op("greater_equal", sign, constant(0.0, sign.type.dtype.compute), dtype=BOOL), yes, no)


def as_exp2(e: Exponent) -> tuple[float, str]:
    """(scale, operation) of an exponent, as a power of two if in float32."""
    if e.base == "exp" and e.reference.value.type.dtype.compute is FLOAT32:
        return e.scale / log(2.0), "exp2"
    return e.scale, e.base


def exponential_is_nonzero(value: Node, scale: float) -> Node:
    """Condition that exp(scale * (value - M)) is not exp(-inf), for a finite M."""
    beyond = constant(-inf if scale > 0 else inf, value.type.dtype.compute)
    return op("greater" if scale > 0 else "less", value, beyond, dtype=BOOL)


def may_be_huge(value: Node) -> bool:
    """Whether an element may be finite and far from 0, as with additive masks."""
    stack, seen = [(value, True)], set()
    while stack:
        n, added = stack.pop()
        if n in seen or n.op == "fold" or n.type.dtype.kind != "f":
            continue
        seen.add(n)
        if n.op == "const" and abs(value_of(n)) < inf and abs(value_of(n)) > HUGE:
            return True
        if added and n.op in ("load", "fetch", "scalar") and n.type.dtype.name != "float16":
            return True
        stack += [(a, added and n.op in ADDING) for a in n.args]
    return False


def _is_infinite(n: Node) -> bool:
    return n.op == "const" and n.type.dtype.kind == "f" and isinf(value_of(n))


def is_identity_unguarded(guard: Node | None, element: Node, kind: str) -> bool:
    """Whether an element that the guard excludes already equals the extremum's identity."""
    if guard is None or element.op != "where" or element.args[0] is not guard or element.args[2].op != "const":
        return False
    return value_of(element.args[2]) == (float("-inf") if kind == "max" else float("inf"))


def factors(weight: Node | None) -> list[Node]:
    """Factors of a weight."""
    parts: list[Node] = []
    stack = [weight] if weight is not None else []
    while stack:
        n = stack.pop()
        if n.op == "multiply" and n.type.dtype.kind == "f" and len(stack) + len(parts) < MOST_FACTORS:
            stack += reversed(n.args)
        else:
            parts.append(n)
    return parts


def unmasked(weight: Node | None, element: Node, kind: str) -> Node | None:
    """A weight without 0/1 factors that are 0 only if the exponential is 0 anyway."""
    parts = factors(weight)
    kept = [n for n in parts if not (_is_truth(n) and is_identity_unguarded(n.args[0], element, kind))]
    return weight if len(kept) == len(parts) else product_of(kept)


def unguarded(weight: Node | None) -> tuple[Node | None, Node | None, bool]:
    """(weight, guard, whether the guard came from 0/1 factors only) of a weight that is 0 unless conditions hold."""
    guard: Node | None = None
    others: list[Node] = []
    truths = True
    for n in factors(weight):
        while n.op == "where" and n.args[2].op == "const" and value_of(n.args[2]) == 0:
            guard = n.args[0] if guard is None else op("logical_and", guard, n.args[0], dtype=BOOL)
            truths &= _is_truth(n)
            n = n.args[1]
        others += [] if is_literal(n, 1) else [n]
    return (weight if guard is None else product_of(others)), guard, truths


def _is_truth(n: Node) -> bool:
    """Whether a number is a condition as 1 or 0."""
    return n.op == "where" and all(is_literal(a, x) for a, x in zip(n.args[1:], (1, 0)))


def masked(guard: Node, value: Node, kind: str) -> Node:
    """The value if the guard holds, else the identity of the extremum."""
    d = value.type.dtype
    return pick(guard, value, constant(value_of(extremum_identity(kind, d)), d))


def guarded(value: Node, guard: Node | None) -> Node:
    return value if guard is None else pick(guard, value, constant(0.0, value.type.dtype))


def extremum_identity(kind: str, d: DType) -> Node:
    return lowest(d.compute) if kind == "max" else highest(d.compute)
