"""Sample extents that satisfy a program's checks and guards: small ones, at which verifiers evaluate it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from .checks import holds
from .dims import Dim, Expression, Extents, Symbol, evaluate, symbols
from .graph import Check, Parameter

Condition = tuple[tuple[Dim, ...], Callable[[Extents], bool]]  # (extents that it compares, predicate)

EQUALITIES = ("equal", "pairs", "contract", "agree")
FIRST, STEP = 3, 2  # extents of distinct symbols: no extent is another one minus 1
FEW = 6  # symbols with distinct extents; further ones repeat
TRIED = (*range(1, 25), 32, 48, 64, 96, 128)  # candidate extents to repair a condition
ROUNDS = 12  # of repairing one condition after another


@dataclass(frozen=True)
class Samples:
    """Extents that satisfy a program's checks; it may be evaluated at the `small` ones."""

    extents: tuple[Extents, ...] = ()
    small: Extents | None = None


def sampled(
    parameters: Sequence[Parameter],
    checks: Iterable[Check] = (),
    guards: Mapping[Dim, bool] | None = None,
    given: Mapping[Symbol, int] | None = None,
) -> Samples:
    """Small extents, ascending and descending, and those of `given` that pass the checks.

    Two symbols have equal extents only if the checks require it.
    """
    own = [d for p in parameters for d in p.type.shape if isinstance(d, Symbol)]
    conditions = [*map(_of_check, checks), *(_of_guard(d, unit) for d, unit in (guards or {}).items() if _matters(d))]
    representative = _united(own, checks)
    order = list(dict.fromkeys(representative[s] for s in own))
    ways = [{s: FIRST + STEP * k for k, s in enumerate(some)} for some in (order, order[::-1])]
    ways += [{s: FIRST + STEP * (k % FEW) for k, s in enumerate(order)}] if len(order) > FEW else []
    candidates = [_mended(values, own, representative, conditions) for values in ways]
    extents = [e for e in candidates if e is not None]
    small = extents[-1] if len(order) > FEW and extents else next(iter(extents), None)
    if given is not None:
        call = Extents({s: given[s] for s in own if s in given})
        if len(call) == len(set(own)) and _passes(conditions, call):
            extents.append(call)
            small = call if small is None else small
    return Samples(tuple(extents), small)


def size(shape: Iterable[Dim], extents: Extents) -> int:
    """Number of elements of an array."""
    return prod(evaluate(d, extents) for d in shape)


# -- conditions


def _of_check(check: Check) -> Condition:
    return check.dims, lambda extents: holds(check, extents)


def _of_guard(dim: Dim, unit: bool) -> Condition:
    return (dim,), lambda extents: (evaluate(dim, extents) == 1) is unit


def _matters(dim: Dim) -> bool:
    """Whether a guard determines the meaning of a program: an extent is 1, or two are equal.

    Others, such as whether a row fits a chip, choose between equivalent kernels.
    """
    if not isinstance(dim, Expression) or dim.op != "fits":
        return True
    distance, limit = dim.args
    return limit == 0 and isinstance(distance, Expression) and distance.op == "max"


def _passes(conditions: Iterable[Condition], extents: Extents) -> bool:
    return all(condition(extents) for _, condition in conditions)


def _united(own: Sequence[Symbol], checks: Iterable[Check]) -> dict[Symbol, Symbol]:
    """A representative symbol for each set that checks require to be equal."""
    representative = {s: s for s in own}

    def root(s: Symbol) -> Symbol:
        while representative[s] != s:
            s = representative[s]
        return s

    for check in checks:
        a, b = check.dims[:2] if check.kind in EQUALITIES else (0, 0)
        if isinstance(a, Symbol) and isinstance(b, Symbol) and a in representative and b in representative:
            representative[root(a)] = root(b)
    return {s: root(s) for s in own}


# -- repair


def _mended(
    values: dict[Symbol, int],
    own: Sequence[Symbol],
    representative: Mapping[Symbol, Symbol],
    conditions: Sequence[Condition],
) -> Extents | None:
    """Extents that pass the conditions: these values, with symbols changed one after another; None if that fails."""
    for _ in range(ROUNDS):
        extents = _of(values, own, representative)
        broken = next((c for c in conditions if not c[1](extents)), None)
        if broken is None:
            return extents
        change = _change(values, own, representative, conditions, broken)
        if change is None:
            return None
        values = values | change
    return None


def _of(values: Mapping[Symbol, int], own: Sequence[Symbol], representative: Mapping[Symbol, Symbol]) -> Extents:
    return Extents({s: values[representative[s]] for s in own})


def _change(
    values: dict[Symbol, int],
    own: Sequence[Symbol],
    representative: Mapping[Symbol, Symbol],
    conditions: Sequence[Condition],
    broken: Condition,
) -> dict[Symbol, int] | None:
    """A new value of one symbol that satisfies a condition and breaks the fewest others; None if there is none."""
    best: tuple[int, dict[Symbol, int]] | None = None
    for s in dict.fromkeys(representative[s] for d in broken[0] for s in symbols(d) if s in representative):
        for value in TRIED:
            extents = _of(values | {s: value}, own, representative)
            if not broken[1](extents):
                continue
            count = sum(not condition(extents) for _, condition in conditions)
            if best is None or count < best[0]:
                best = (count, {s: value})
            if not count:
                return {s: value}
    return None if best is None else best[1]
