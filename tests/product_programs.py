"""Programs of several products as data: a text, the same as a NumPy function, and how its arrays are drawn.

A shape is a word: each letter is an extent, each digit itself. At `coinciding(n)` all letters are n, so that axes that
mean different things are equally long; at DIFFERENT no two are. The programs are in product_*.py, by field.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

LETTERS = "nmdkhecrst"
SIZES = (5, 16, 40, 65, 129)
DIFFERENT = dict(zip(LETTERS, (21, 10, 6, 4, 9, 3, 8, 2, 7, 11)))

PAIRED = dict(zip(LETTERS, (16, 16, 7, 7, 16, 7, 5, 5, 7, 16)))  # some coincide, others differ


@dataclass(frozen=True)
class Program:
    """`arrays` are "name: shape" or "name: shape kind", in the order of the function's arguments; the kinds are those
    of `drawn`."""

    name: str
    arrays: str
    text: str
    function: Callable[..., Any]

    @property
    def told(self) -> list[list[str]]:
        """Each argument's name and what is said of it."""
        return [part.split(": ") for part in self.arrays.split(", ")]

    def shapes(self, extents: dict[str, int]) -> dict[str, tuple[int, ...]]:
        return {name: shape_of(words, extents) for name, words in self.told}

    def values(self, extents: dict[str, int], dtype: type, seed: int = 0) -> dict[str, np.ndarray]:
        """Its arguments, the same numbers for both dtypes up to rounding."""
        draw = np.random.default_rng(seed)
        return {name: drawn(draw, words, extents).astype(dtype) for name, words in self.told}


def coinciding(n: int) -> dict[str, int]:
    return dict.fromkeys(LETTERS, n)


def shape_of(told: str, extents: dict[str, int]) -> tuple[int, ...]:
    return tuple(int(c) if c.isdigit() else extents[c] for c in told.partition(" ")[0])


def drawn(draw: np.random.Generator, told: str, extents: dict[str, int]) -> np.ndarray:
    """Numbers of a kind; those of matrices keep the products of matrices near 1."""
    shape, kind = shape_of(told, extents), told.partition(" ")[2]
    x = draw.standard_normal(shape)
    if kind == "unit":
        return x
    if kind == "positive":
        return draw.uniform(0.5, 1.5, shape)
    if kind == "small":
        return 0.3 * x / np.sqrt(shape[-1])
    if kind == "stochastic":  # rows that sum to 1
        e = draw.uniform(0.2, 1.0, shape)
        return e / e.sum(-1, keepdims=True)
    if kind == "graph":  # symmetric edges of 0 and 1, and loops
        upper = np.triu(draw.random(shape) < 0.4, 1)
        return (upper | upper.swapaxes(-1, -2) | np.eye(shape[-1], dtype=bool)).astype(np.float64)
    if kind == "definite":  # symmetric, its eigenvalues from 1 to 2
        q, _ = np.linalg.qr(x)
        return (q * np.linspace(1, 2, shape[-1])) @ q.swapaxes(-1, -2)
    if kind == "orthogonal":
        return np.linalg.qr(x)[0] if shape[-2] >= shape[-1] else np.linalg.qr(x.T)[0].T
    if kind == "labels":
        return np.eye(shape[-1])[draw.integers(0, shape[-1], shape[0])]
    assert not kind, kind
    return x / np.sqrt(shape[-1] if shape else 1)


# -- what the NumPy functions are written with


def softmax(s, axis=-1):
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def logsumexp(s, axis=-1):
    m = s.max(axis, keepdims=True)
    return (m + np.log(np.exp(s - m).sum(axis, keepdims=True))).squeeze(axis)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def normalised(x, axis=-1):
    """Each row over its Euclidean norm."""
    return x / np.sqrt((x * x).sum(axis, keepdims=True))


def layer_norm(x):
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5)


def identity(a):
    return np.eye(a.shape[0], dtype=a.dtype)


EYE = "eye(a) = where(iota(a, -1) == iota(a, -2), 1, 0)\n"
CAUSAL = "causal(s) = iota(s, -1) <= iota(s, -2)\n"
UNIT = "unit(x) = x / sqrt(sum(x * x, -1, keepdims=True))\n"
