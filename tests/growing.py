"""Families of growing programs as data: for each size a text of at most 500 characters, or a function with a loop.

Planning and compiling a program takes time near linear in its size and ends in seconds, whatever it is made of. Here
are the texts; functions are in growing_functions.py, mixtures of both in growing_mixtures.py, and benchmarks/growth.py
measures all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LONGEST = 500  # characters of a text
SECONDS = {"cpu": 5.0, "cuda": 10.0}  # planning and compiling a first call, of the largest size
MEGABYTES = 1024  # of the whole process
EXPONENT = 1.3  # of the growth of time with size
FLOOR = 0.3  # seconds that no fit reads: below, it is the fixed cost of a call that is seen

Made = tuple[str | Callable[..., Any], dict[str, Any]]  # a program and its arguments, in order


@dataclass(frozen=True)
class Family:
    """Programs by size; `sizes` double, and the limits hold for the last."""

    name: str
    make: Callable[[int], Made]
    sizes: tuple[int, ...]


def matrices(*names: str, shape: tuple[int, ...] = (24, 24), dtype: str = "float32", scale: float = 0.2) -> dict:
    draw = np.random.default_rng(0)
    return {name: (scale * draw.standard_normal(shape)).astype(dtype) for name in names}


def positions(*names: str, n: int = 24) -> dict[str, np.ndarray]:
    """Permutations."""
    return {name: np.random.default_rng(k).permutation(n) for k, name in enumerate(names)}


def chain(*steps: str, before: str = "", after: str = "") -> Callable[[int], str]:
    """A text of n steps, these in turn."""

    def text(n: int) -> str:
        return before + "".join(f"{steps[k % len(steps)]}; " for k in range(n)) + (after or steps[0].partition(" ")[0])

    return text


def listed(item: str, between: str = ", ", before: str = "") -> Callable[[int], str]:
    """A text of n items, each with its number where there are braces."""
    return lambda n: before + between.join(item.format(k) for k in range(n))


def texts(name: str, text: Callable[[int], str], arrays: dict[str, Any], *sizes: int) -> Family:
    return Family(name, lambda n: (text(n), arrays), sizes)


def growing(name: str, make: Callable[[int], Made], *sizes: int) -> Family:
    return Family(name, make, sizes)


X, XY = matrices("x"), matrices("x", "y")
QKV = matrices("q", "k", "v")
PERMUTED = positions("w")
DEEP = "f{}(x) = f{}(f{}(x))\n"


def inlined(n: int) -> Made:
    """About n operations, by functions that call functions."""
    depth = max(1, int(np.log2(n)) - 1)
    return "f0(x) = x * 0.5 + 1\n" + "".join(DEEP.format(k + 1, k, k) for k in range(depth)) + f"f{depth}(x)", X


def summed(n: int) -> Made:
    names = [f"a{k}" for k in range(n)]
    return " + ".join(names), matrices(*names)


def folded(n: int) -> Made:
    names = [f"a{k}" for k in range(n)]
    return " + ".join(f"sum({name})" for name in names), matrices(*names)


def contracted(n: int) -> Made:
    letters = "abcdefghijklmnopqrstuvwxyz"
    told = ",".join(letters[k : k + 2] for k in range(n))
    return f'einsum("{told}->a{letters[n]}", {", ".join("x" for _ in range(n))})', matrices("x", shape=(4, 4))


FAMILIES: Sequence[Family] = (
    texts(
        "squares of attention weights",
        chain("p = p*p", before="p = softmax(q @ k.mT); ", after="p @ v"),
        *(QKV, 6, 12, 24, 48),
    ),
    texts("squares of a score", chain("s = s*s", before="s = q @ k.mT; ", after="softmax(s) @ v"), QKV, 6, 12, 24, 48),
    texts("gathers of itself", chain("w = w[w]"), PERMUTED, 6, 12, 24, 48),
    texts("gathers of itself, added to", chain("w = w[w] + 0*w"), PERMUTED, 7, 14, 28),
    texts("gathers", chain("x = x[i]"), X | positions("i"), 6, 12, 24, 48),
    texts("gathers along both axes", chain("x = x[i]", "x = x[:, j]"), X | positions("i", "j"), 10, 20, 40),
    texts("gathers at the largest", chain("x = x[argmax(x, 0)]"), X, 5, 10, 20),
    texts(
        "takes along an axis",
        chain("x = take_along_axis(x, i, 0)"),
        X | {"i": np.tile(np.arange(24), (24, 1))},
        4,
        8,
        16,
    ),
    texts("softmax along one axis", chain("x = softmax(x)"), X, 7, 14, 28),
    texts("softmax along axes in turn", chain("x = softmax(x, 0)", "x = softmax(x, 1)"), X, 6, 12, 24),
    texts("logarithms of sums, in turn", chain("x = x - logsumexp(x, 0)", "x = x.T"), X, 7, 14, 28),
    texts("shares of a sum of all", chain("x = x / sum(x)"), X, 7, 14, 28),
    texts("what is above the mean", chain("x = x * (x > mean(x))"), X, 5, 10, 20),
    texts("products with itself", chain("y = y@y + y"), matrices("y", scale=0.05), 8, 16, 32),
    texts("powers by squaring", chain("y = y @ y"), matrices("y", scale=0.1), 10, 20, 40),
    texts("products in a chain", chain("x = x @ y"), XY, 10, 20, 40),
    texts("Gram matrices", chain("x = x @ x.T / 9"), X, 7, 14, 28),
    texts("einsum in a chain", chain('x = einsum("ij,jk->ki", x, y)'), XY, 4, 8, 14),
    growing("einsum of many operands", contracted, 6, 12, 24),
    texts("sums of outer products", chain("x = sum(x[:, None] * x, 1)"), X, 4, 8, 16),
    texts("largest sums", chain("x = max(x[:, None] + y, axis=-1)"), XY, 3, 6, 12),
    texts("attention, chained", chain("x = softmax(x@k.T)@v"), matrices("x", "k", "v"), 5, 10, 20),
    texts("self-attention, chained", chain("x = softmax(x@x.T)@x"), X, 5, 10, 20),
    texts("self-attention, added", chain("x = x + softmax(x@x.T)@x"), X, 4, 8, 16),
    texts("reflected pads", chain('x = pad(x, 1, mode="reflect")'), X, 4, 8, 15),
    texts("edges as pads", chain('x = pad(x, 1, mode="edge")'), X, 4, 8, 16),
    texts("wrapped pads", chain('x = pad(x, 1, mode="wrap")'), X, 4, 8, 16),
    texts("pads of zeros", chain("x = pad(x, 1) + 1"), X, 6, 12, 24),
    texts("concatenations", chain("x = concat((x, y), 0)"), XY, 5, 10, 20),
    texts(
        "concatenations along axes in turn",
        chain("x = concat((x, x[:1]), 0)", "x = concat((x, x[:, :1]), 1)"),
        X,
        4,
        8,
        16,
    ),
    texts("stacks", chain("x = stack((x, x + 1))[1]"), X, 4, 8, 16),
    texts("rolls", chain("x = roll(x, 1, axis=0)", "x = roll(x, 2, axis=1)"), X, 5, 10, 20),
    texts("rolls, added", chain("x = x + roll(x, 1, axis=0)"), X, 4, 8, 16),
    texts("flips", chain("x = flip(x, 0) * 2", "x = flip(x, 1) + x"), X, 6, 12, 24),
    texts("neighbours, added", chain("x = x[1:] + x[:-1]"), matrices("x", shape=(200, 8)), 6, 12, 24),
    texts("differences", chain("x = diff(x, axis=0)"), matrices("x", shape=(200, 8)), 6, 12, 23),
    texts("repeats, thinned", chain("x = repeat(x, 2, axis=0)[::2]"), X, 4, 8, 15),
    texts("reshapes and transposes", chain("x = reshape(x.T, (24, 16)) + 1"), matrices("x", shape=(24, 16)), 4, 8, 15),
    texts("sorts in turn", chain("x = sort(x).T"), X, 8, 16, 32),
    texts("orders of orders", chain("x = argsort(x)"), X, 7, 14, 28),
    texts("the largest of the largest", chain("x, i = topk(x, 8)", after="x"), X, 6, 12, 24),
    texts("many sorts", listed("sort(x+{})"), X, 10, 20, 40),
    texts("many results", listed("x*{}"), X, 20, 40, 80),
    texts("many sums", listed("sum(x+{}, 0)"), X, 8, 16, 32),
    texts("many sums along axes in turn", lambda n: ", ".join(f"sum(x+{k}, {k % 2})" for k in range(n)), X, 8, 16, 32),
    texts("many products", listed("x@(x+{})"), X, 12, 24, 48),
    texts("random streams", listed("f({})", " + ", "f(k) = normal(1, x, stream=k)\n"), X, 15, 30, 60),
    texts("sines", chain("x = f(x)", before="f(x) = sin(sin(sin(sin(sin(sin(x))))))\n"), X, 10, 20, 40),
    texts(
        "powers",
        chain("x = f(x)", before="f(x) = ((x**y)**y)**y\n"),
        {k: abs(v) + 0.5 for k, v in XY.items()},
        11,
        22,
        44,
    ),
    texts(
        "special functions",
        chain("x = f(x)", before="f(x) = erf(lgamma(abs(tanh(arctan(expm1(x)))) + 0.5))\n"),
        *(X, 10, 20, 40),
    ),
    texts(
        "roots and logarithms",
        chain("x = f(x)", before="f(x) = log1p(sqrt(abs(cbrt(x)) + arcsinh(x) ** 2))\n"),
        X,
        10,
        20,
        40,
    ),
    texts("conditions", chain("x = where(x > 1, x*2, x+1)"), X, 4, 8, 16),
    texts("prefix sums", chain("x = cumsum(x, 0)"), X, 6, 12, 24),
    texts("scans of scans", chain("x = cumsum(cummax(x, 1), 0)"), X, 4, 8, 16),
    texts("quantised and back", chain("x = dequantize(quantize(x, 0.5), 0.5)"), X, 3, 6, 12),
    texts("casts in turn", chain("x = float32(float16(x)) * 2"), X, 4, 8, 16),
    texts("group norms", chain("x = group_norm(x, 2)"), matrices("x", shape=(4, 8, 16)), 5, 10, 20),
    texts("layer norms", chain("x = layer_norm(x)"), X, 6, 12, 24),
    texts("layer norms along axes in turn", chain("x = layer_norm(x).T"), X, 5, 10, 20),
    texts("integers", chain("x = (x ^ (x << 1)) * 5"), {"x": np.arange(96, dtype=np.int32)}, 5, 10, 20),
    growing("functions of functions", inlined, 256, 512, 1024, 2048),
    growing("many arrays, added", summed, 16, 32, 64),
    growing("many arrays, summed", folded, 12, 24, 46),
)
