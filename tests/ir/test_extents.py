"""Extents: what is simplified has the value of what was built, and chains of pads and slices stay short."""

from __future__ import annotations

import random

from fusedsl.ir.dims import OPERATIONS, Symbol, evaluate, expression, parts

N = Symbol(0, 0)


def drawn(draw: random.Random) -> tuple:
    if draw.random() < 0.5:
        return draw.choice("+-"), draw.randint(-3, 4)
    return (
        "slice",
        draw.choice((None, 0, 1, 2, 3, -1)),
        draw.choice((None, 0, 1, 3, -1, -2)),
        draw.choice((None, 1, 2, -1)),
    )


def test_what_is_simplified_has_the_value_of_each_step():
    draw, seen = random.Random(0), 0
    for _ in range(3000):
        steps = [drawn(draw) for _ in range(draw.randint(1, 5))]
        built = N
        for op, *given in steps:
            built = expression(op, built, *given)
        for n in range(7):
            value, least = n, n
            for op, *given in steps:
                value = OPERATIONS[op](value, *given)
                least = min(least, value)
            if least >= 0:  # else it is no extent
                seen += 1
                assert evaluate(built, {N: n}) == value, steps
    assert seen > 10_000


def test_starts_of_slices_of_what_was_padded_are_numbers():
    padded = expression("+", 1, expression("+", N, 1))
    assert padded == expression("+", N, 2)
    assert expression("start", padded, 1, -1, None) == 1
    assert expression("slice", padded, 1, -1, None) == N


def test_chains_of_pads_and_slices_stay_short():
    shrunk = padded = N
    for _ in range(100):
        shrunk = expression("slice", expression("slice", shrunk, 1, None, None), None, -1, None)
        padded = expression("slice", expression("+", padded, 2), 1, None, None)
    assert len(list(parts(shrunk))) == 1 and padded == expression("+", N, 100)
    assert [evaluate(shrunk, {N: n}) for n in (0, 150, 200, 207)] == [0, 0, 0, 7]
