"""Draws random programs that are differentiated: gradients of drawn results by the drawn arrays."""

from __future__ import annotations

import math
import random

import numpy as np
from draw import Draw, Program
from fill import Shape
from forms import FORMS

from fusedsl.ir.types import FLOAT64, DType

FAMILIES = (
    "functions inside their domains",
    "operators",
    "choices",
    "activations",
    "reductions",
    "reductions of some elements",
    "reductions and their elements",
    "scans",
    "orders",
    "shapes",
    "slices",
    "joins",
    "gathers",
    "contractions",
    "attention",
    "positions",
)
WITHOUT = ("{dt}", "{it}", "dtype=", "quantize", "uint8", "inf")  # steps, of which a derivative says nothing


def draw_gradient(seed: int, dtype: DType = FLOAT64) -> Program | None:
    """The gradients of a random program, as the program that computes them; None if no float array affects a float.

    The last statement is a vjp; `cotangent_0` ... are arrays like the results.
    """
    r = random.Random(f"gradient {seed}")
    draw = GradientDraw(r, dtype)
    program = draw.program(r.choice((2, 3, 4, 6)), seed)
    results = [n for n in dict.fromkeys(program.results) if draw.values[n][1].kind == "f"]
    wrt = [n for n, x in program.arrays.items() if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    if not results or not wrt:
        return None
    numbers = np.random.default_rng(r.getrandbits(32))
    given = {f"cotangent_{k}": numbers.standard_normal(draw.values[n][0]) for k, n in enumerate(results)}
    given = {name: np.asarray(x, draw.values[n][1].name) for (name, x), n in zip(given.items(), results)}
    made = ", ".join(f"by_{n}" for n in wrt)
    line = f"{made} = vjp(({', '.join(results)},), ({', '.join(given)},), {', '.join(wrt)})"
    arrays, layouts = {**program.arrays, **given}, {**program.layouts, **dict.fromkeys(given, "C")}
    return Program((*program.lines, line), tuple(f"by_{n}" for n in wrt), arrays, layouts, seed)


class GradientDraw(Draw):
    """A program of one float dtype, over small arrays of numbers near 1."""

    inside, defines, alike = 4000, 0.1, 0.0

    def __init__(self, r: random.Random, dtype: DType):
        super().__init__(r)
        self.main = dtype

    def _shape(self) -> Shape:
        shape = tuple(self.r.choice((1, 2, 3, 4, 5, 7)) for _ in range(self.r.choice((1, 2, 2, 3))))
        return shape if math.prod(shape) <= 60 else shape[:2]

    def dtype(self) -> DType:
        return self.main

    def numbers(self, shape: Shape, d: DType) -> np.ndarray:
        if d.kind != "f":
            return super().numbers(shape, d)
        return np.random.default_rng(self.r.getrandbits(32)).standard_normal(shape).astype(d.name)

    def families(self) -> dict[str, tuple[int, list[str]]]:
        chosen = {name: FORMS[name] for name in FAMILIES}
        return {k: (w, [f for f in forms if not any(p in f for p in WITHOUT)]) for k, (w, forms) in chosen.items()}


def losses(program: Program) -> tuple[str, list[str]]:
    """(the text of the sum that a gradient is of, the arrays that it is by)."""
    *lines, last = program.lines
    results, cotangents = last.partition(" = vjp((")[2].partition(",), (")[::2]
    cotangents = cotangents.partition(",), ")[0]
    terms = [f"sum({r} * {c})" for r, c in zip(results.split(", "), cotangents.split(", "))]
    return "\n".join([*lines, f"return {' + '.join(terms)}"]), [name.removeprefix("by_") for name in program.results]
