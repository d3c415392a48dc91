"""Reductions of a kernel from the table of folds: element states, identity, and combine bodies."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.folds import FOLDS, State
from ...ir.graph import node
from ...ir.types import DType
from ..phase import Body, Reduction, Value
from .body_builder import BodyBuilder, literal


def build_reduction(name: str, d: DType, lifted: Sequence[str], states: tuple[Value, ...]) -> Reduction:
    """Reduction by a fold of the table in this compute dtype, from the names of its element states."""
    fold = FOLDS[name]
    identity = fold.identity(d)
    types = [x.type for x in identity]
    lifts = tuple(Value(x, t.dtype) for x, t in zip(lifted, types))
    a, b = (tuple(node("state", (), (side, k), t) for k, t in enumerate(types)) for side in "ab")
    follow = combine_body(a, b, fold.follow(a, b)) if fold.follow else None
    return Reduction(
        fold.name, lifts, states, tuple(str(literal(x)) for x in identity), combine_body(a, b, fold.merge(a, b)), follow
    )


def combine_body(a: State, b: State, merged: State) -> Body:
    """Body that combines state a with state b."""
    builder = BodyBuilder()
    for side, state in zip("ab", (a, b)):
        for x in state:
            builder.name(x, side, side)
    return builder.body([*a, *b], merged, [*a, *b])
