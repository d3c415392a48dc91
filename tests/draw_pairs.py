"""Draws random programs of pairs: distances of rows of two arrays, functions of these, folds over one of the axes."""

from __future__ import annotations

import random

import numpy as np
from draw import Program
from memory import LAYOUTS, laid_out

from fusedsl.ir.types import DTYPES, numpy_dtype

ROWS = (1, 2, 3, 5, 8, 17, 33, 64, 70, 130)
DEPTHS = (1, 2, 3, 3, 3, 4, 7, 9, 16)
BATCHES = ((), (), (), (2,), (3,))
WEIGHTS = {"float32": 8, "float64": 3, "float16": 1, "bfloat16": 1}

INNER = (
    "sum(({x} - {y})**2, -1)", "sum(({x} - {y})**2, -1)", "norm({x} - {y}, axis=-1)", "sum(abs({x} - {y}), -1)",
    "max(abs({x} - {y}), axis=-1)", "sum(({x} - {y} - rint({x} - {y}))**2, -1)", "mean(cos({x} - {y}), -1)",
    "sum(where({x} > {y}, {x} - {y}, 0), -1)", "argmax({x} - {y}, -1) * 0.5", "any({x} > {y} + 2, axis=-1) + 0.25",
    "prod(1 - 0.1 * ({x} - {y})**2, axis=-1)", "sum(({x} * {y} - 1)**2, -1)",
)  # fmt: skip
PAIRS = ("exp(-0.3 * d)", "1 / (1 + d)", "-d", "d", "sqrt(d + 1)", "where(d < 1, 1 - d, 0)", "d * exp(-d)", "log1p(d)")
FOLDS = (
    "sum({w} * b, -1)", "sum({w}, -1)", "{w} @ c", "{w} @ b", "argmin({w}, -1)", "argmax({w}, -1)", "max({w}, axis=-1)",
    "min({w}, axis=-1)", "logsumexp({w}, axis=-1)", "mean({w}, -1)", "var({w}, axis=-1)", "sum({w})", "sum({w}, -2)",
    "any({w} > 0.5, axis=-1)", "sum(softmax({w}) * b, -1)", "sum({w}, (-2, -1)) + 1", "norm({w}, axis=-1)",
    "sum(({x} - {y}) * ({w})[..., None], -2)", "count_nonzero({w} > b, axis=-1)", "sum({w} * b, -1) / sum({w}, -1)",
    "max(topk({w}, 1)[0], axis=-1)", "sum({w}, axis=-1, where=d > 0.5)",
)  # fmt: skip
AFTER = ("{f}", "{f}", "{f}", "({f}) * 2", "({f}) * 0.5 - 1")


def draw_pairs(seed: int) -> Program:
    """The program of a seed: one distance, and one to three folds of functions of it."""
    r = random.Random(f"pairs {seed}")
    dtype = DTYPES[r.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]]
    batch, n, m, depth = r.choice(BATCHES), r.choice(ROWS), r.choice(ROWS), r.choice(DEPTHS)
    shapes = {"x": (*batch, n, depth), "y": (*batch, m, depth), "b": (m,), "c": (*batch, m, r.choice((1, 2, 3, 5)))}
    sides = {"x": "x[..., :, None, :]", "y": "y[..., None, :, :]"}
    if r.random() < 0.15 and n == m:
        sides["y"] = "x[..., None, :, :]"
    lines, results = [f"d = {r.choice(INNER).format(**sides)}"], []
    for k in range(r.choice((1, 1, 2, 3))):
        fold = r.choice(FOLDS).format(w=r.choice(PAIRS), **sides)
        lines.append(f"t{k} = {r.choice(AFTER).format(f=fold)}")
        results.append(f"t{k}")
    text = "\n".join(lines)
    read = [name for name in shapes if any(f"{name}{end}" in text for end in ("[", ",", "\n", ")")) or name == text[-1]]
    draw = np.random.default_rng(r.getrandbits(32))
    layouts = {name: r.choice(LAYOUTS) for name in read}
    arrays = {name: draw.standard_normal(shapes[name]).astype(numpy_dtype(dtype)) for name in read}
    arrays = {name: laid_out(r, values, layouts[name]) for name, values in arrays.items()}
    return Program(tuple(lines), tuple(results), dict(arrays), layouts, seed)
