"""Draws random attention formulas with arrays of random lengths, widths, types and strides; judges their results."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import fusedsl as fd
from fusedsl.program.first_call import run_interpreter
from fusedsl.runtime.arrays import describe_all

TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 0.0}  # of weights to the type of v, and of results
APART = " = iota(s, -2); j = iota(s, -1)"
CHANGES = (
    "s = 5 * tanh(s / 5)",
    "s = s + bias",
    "s = s + slope * (j - i)",
    "s = s - 0.03 * abs(i - j)",
    "s = s * heat",
    "s = s + 0.1 * sin(iota(s, -1) * 0.3)",
)
MASKS = (
    "j <= i",
    "abs(i - j) <= 37",
    "(j <= i) & (i - j < 64)",
    "(j <= i) | (j < 33)",
    "doc[: size(s, -2), None] == doc[None, : size(s, -1)]",
    "(i - j) % 3 == 0",
    "keep",
    "j < lens",
    "(j <= i + size(k, -2) - size(q, -2)) & (doc[: size(s, -2), None] == doc[None, : size(s, -1)])",
)
TOTAL = "sum(e, -1, keepdims=True)"
WEIGHTS = {
    "softmax": "p = softmax(s)",
    "sink": f"m = maximum(max(s, axis=-1, keepdims=True), sink); e = exp(s - m); p = e / ({TOTAL} + exp(sink - m))",
    "plus one": f"m = maximum(max(s, axis=-1, keepdims=True), 0); e = exp(s - m); p = e / ({TOTAL} + exp(-m))",
}
RELATIVE = {"sigmoid": "sigmoid(s - 1)", "squared": "square(relu(s)) * 0.01"}
DROPPED = "p = where(uniform(7, (size(q, 0), size(q, 1), size(q, 2), size(k, 2)), stream=3) < 0.8, p, 0) * 1.25"
SCORES = ("score + slope[h, 0, 0] * (j - i)", "3 * tanh(score / 3)", "score + bias[i, j]", "where(j <= i, score, -inf)")
HERE = ("j <= i", "i - j < 50", "doc[i] == doc[j]")


@dataclass(frozen=True)
class Program:
    """A text, its arrays, how each lies in memory, and what was drawn, in words."""

    text: str
    arrays: dict[str, np.ndarray]
    layouts: dict[str, str]
    dtype: str
    words: str


def draw(seed: int) -> Program:
    """The program of this seed."""
    r, numbers = random.Random(seed), np.random.default_rng(seed)
    dtype = r.choice(("float16", "bfloat16", "float32"))
    width = r.choice((32, 64, 64, 80, 96, 128, 128, 192, 256))
    out = width if r.random() < 0.7 else r.choice((16, 40, 64, 128))
    if r.random() < 0.1:
        width, out = r.choice((20, 37, 50)), r.choice((9, 30, 64))
    n, m = (r.choice((16, 17, 63, 64, 100, 128, 200, 333, 513)) for _ in range(2))
    m = n if r.random() < 0.4 else m
    batch, heads = r.choice((1, 2)), r.choice((2, 4))
    shared = r.choice((1, 1, 2, heads))
    text, words = _grouped(r) if shared > 1 and shared < heads else _written(r)
    kv = heads if shared == 1 else heads // shared
    shapes = {"q": (batch, heads, n, width), "k": (batch, kv, m, width), "v": (batch, kv, m, out)}
    arrays = {name: numbers.standard_normal(shape).astype(TYPES[dtype]) for name, shape in shapes.items()}
    arrays["r"] = numbers.standard_normal((batch, heads, n, out)).astype(TYPES[dtype])
    few = {"bias": (n, m), "slope": (heads, 1, 1), "heat": (heads, n, 1), "sink": (heads, 1, 1)}
    arrays |= {name: numbers.standard_normal(shape).astype(np.float32) for name, shape in few.items()}
    arrays["slope"] *= np.float32(0.05)
    arrays["doc"] = np.sort(numbers.integers(0, 5, max(n, m))).astype(np.int32)
    arrays["keep"] = numbers.random((n, m)) < 0.6
    arrays["lens"] = numbers.integers(1, m + 1, (batch, 1, 1, 1))
    text = text.replace("SCALE", repr(round(width**-0.5, 4)))
    names = fd.kernel(text).params
    layouts = {name: r.choice(LAYOUTS) for name in names if name in "qkvr"}
    return Program(text, {name: arrays[name] for name in names}, layouts, dtype, f"{dtype}, {words}, d {width}, {out}")


def _written(r: random.Random) -> tuple[str, str]:
    changes = r.sample(CHANGES, r.choice((0, 0, 1, 1, 2)))
    mask = r.choice((None, *MASKS))
    kind = r.choice(("softmax", "softmax", "softmax", *WEIGHTS, *RELATIVE))
    lines = [r.choice(("s = q @ k.mT * SCALE", "s = (q * SCALE) @ k.mT")), "i" + APART, *changes]
    results = []
    if kind in RELATIVE:
        value = RELATIVE[kind]
        lines.append(f"p = where({mask}, {value}, 0)" if mask else f"p = {value}")
    elif mask and kind == "softmax" and r.random() < 0.5:
        lines.append(f"p = softmax(s, where={mask})")
    else:
        lines += [f"s = where({mask}, s, -inf)"] if mask else []
        lines.append(WEIGHTS[kind])
        if r.random() < 0.3:
            results.append("logsumexp(s, -1)")
    if r.random() < 0.2:
        lines.append(DROPPED)
        kind += ", dropout"
    lines.append(", ".join([r.choice(("p @ v", "p @ v", "r + p @ v", "relu(p @ v) * 2")), *results]))
    return "\n".join(lines), f"{kind}, {mask or 'no mask'}, {len(changes)} changes"


def _grouped(r: random.Random) -> tuple[str, str]:
    """A call of attention, with heads that share keys."""
    score, mask = r.choice((None, *SCORES)), r.choice((None, *HERE))
    given = [f"{name}='{text}'" for name, text in (("score", score), ("mask", mask)) if text]
    read = f"{score} {mask}"
    given += [f"{name}={name}" for name in ("slope", "bias", "doc") if f"{name}[" in read]
    if r.random() < 0.4:
        given.append("return_lse=True")
    return f"attention({', '.join(['q', 'k', 'v', *given])})", f"attention, {score}, {mask}"


# -- memory


LAYOUTS = ("as it is", "as it is", "as it is", "heads inside", "packed", "odd", "turned")


def laid_out(x: np.ndarray, layout: str) -> np.ndarray:
    """The array with its elements elsewhere: a view of another one."""
    if layout in ("", "as it is"):
        return x
    b, h, n, d = x.shape
    if layout == "heads inside":
        return np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    if layout == "turned":
        return np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3)
    if layout in ("packed", "odd"):
        first = 1 if layout == "odd" else 0
        wide = np.zeros((b, h, n, 2 * d + 8), x.dtype)
        wide[..., first : first + d] = x
        return wide[..., first : first + d]
    return x


def on_device(cupy: Any, x: np.ndarray) -> Any:
    """The array on a card, with the same strides."""
    base = x
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    flat = cupy.asarray(np.ascontiguousarray(base).reshape(-1))
    first = (x.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // x.itemsize
    return cupy.lib.stride_tricks.as_strided(flat[first:], x.shape, x.strides)


# -- results


def reference(program: Program, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Results of the interpreter in float64."""
    kernel = fd.kernel(program.text)
    wide = {n: x.astype(np.float64) if x.dtype in tuple(TYPES.values()) else x for n, x in arrays.items()}
    with np.errstate(all="ignore"):
        facts = describe_all(kernel.params, [wide[name] for name in kernel.params])
        return list(run_interpreter(kernel._program.plans, facts))


def worst(program: Program, found: list[np.ndarray]) -> float:
    """The largest error as a share of its bound; infinite where one result is a number and the other none.

    A weight is rounded to the type of v and so is a result: with e of each, what that does is at most 2 e of the sum
    of weights times |v|. Scores are sums in float32, and exponentials of them are as far off as they are: 4e-5 of it.
    """
    expected = reference(program, program.arrays)
    positive = {name: np.abs(x) if name in "vr" else x for name, x in program.arrays.items()}
    most = reference(program, positive)
    share = 0.0
    for number, (value, right, largest) in enumerate(zip(found, expected, most)):
        value = value.astype(np.float64)
        same = (value == right) | (np.isnan(value) & np.isnan(right))
        if not (np.isfinite(value) | same).all() or not (np.isfinite(right) | same).all():
            return np.inf
        size = np.abs(largest) if number == 0 else np.abs(right)
        bound = (2.2 * ROUNDING[program.dtype] + 4e-5) * np.where(same, 1, size) + 1e-5
        with np.errstate(invalid="ignore"):
            share = max(share, float(np.max(np.where(same, 0, np.abs(value - right)) / bound, initial=0)))
    return share
