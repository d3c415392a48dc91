"""Functions of the kinds of public bug reports: odd shapes and axes, and what Python keeps arrays and numbers in."""

from __future__ import annotations

import functools
import math
import operator
from collections import namedtuple
from dataclasses import dataclass, field

import numpy as np
from trades import Trades, shaped

R = np.random.default_rng(22)
ODD = Trades()
normal = shaped(R.standard_normal)


# -- shapes


@ODD.add(np.zeros((0, 3)), np.zeros((3, 0)))
def nothing(x, y):
    return (
        x.sum(),
        x.sum(0),
        x.prod(1),
        y @ x,
        x @ y,
        x.max(1),
        np.concatenate([x, x]),
        x.T + y,
        x.any(),
        y.cumsum(1),
        x.mean(1),
    )


@ODD.add(np.array(2.5), normal(4), 3)
def no_axes(a, x, n):
    return (
        a * x,
        a + n,
        np.sum(a),
        a.reshape(1),
        np.atleast_1d(a),
        x.sum() * a,
        a > 1,
        np.where(a > 1, x, -x),
        a.T,
        np.maximum(a, n),
    )


@ODD.add(normal(3, 4, 5), R.random((3, 4, 5)) < 0.6)
def axes(x, m):
    return (
        x.sum((0, 2)), x.mean((-1, 0), keepdims=True), x.var(1, ddof=1), x.std((0, 1), ddof=2, keepdims=True),
        x.sum(-1, where=m), x.mean((0, 1), where=m), x.max((1, 2), where=m, initial=-9), m.any((0, 2)),
        x.var(2, where=m),
    )  # fmt: skip


@ODD.add(normal(2, 3, 4))
def rearranged(x):
    return (
        np.moveaxis(x, 0, -1), np.rollaxis(x, 2), x.transpose(2, 0, 1), np.flip(x, (0, 2)), np.roll(x, (1, -1), (0, 2)),
        np.rot90(x, 1, (1, 2)), np.swapaxes(x, 0, 2)[..., None], x.reshape(-1, 4)[:, ::-1], np.squeeze(x[:, :1]),
        np.tile(x, (2, 1, 1)),
    )  # fmt: skip


@ODD.add(normal(5), normal(4), normal(3, 1, 4))
def broadcasts(a, b, c):
    return (
        a[:, None] * b,
        np.outer(a, b),
        c + a[:, None],
        np.add.outer(a, b),
        np.broadcast_to(b, (2, 4)) + 1,
        (a[:, None] < b).sum(1),
    )


@ODD.add(normal(7, 5))
def diagonals(x):
    return (
        np.trace(x),
        np.diagonal(x, 1),
        np.diag(x[0]),
        np.tril(x, -1),
        np.triu(x, 2),
        np.eye(7, 5) * x,
        np.diff(x, 2, 0),
        np.ediff1d(x[0]),
    )


# -- Python


Point = namedtuple("Point", "x y")
SCALE = [2.0]


@dataclass
class Settings:
    gain: float = 1.5
    bias: np.ndarray = field(default_factory=lambda: np.arange(4.0))
    mode: str = "up"

    def apply(self, x):
        return x * self.gain + self.bias if self.mode == "up" else x


@ODD.add(Point(normal(4), normal(4)))
def named_tuple(p):
    return Point(p.x + p.y, p.x * p.y)


@ODD.add(normal(4), Settings())
def data_class(x, s):
    return s.apply(x), x * s.gain


@ODD.add({"w": normal(3, 4), "b": normal(4)}, normal(2, 3))
def parameters(p, x):
    h = x @ p["w"] + p["b"]
    return tuple(h * v for v in (1, 2)), sum(x.sum() for x in p.values())


@ODD.add(normal(4), normal(4), normal(4), scale=3)
def variadic(*args, scale=1, **others):
    return sum(args) * scale + len(others), functools.reduce(np.maximum, args), functools.reduce(operator.mul, args)


@ODD.add(normal(8))
def recursive(x):
    def fold(y):
        return y if y.shape[0] == 1 else fold(y[::2] + y[1::2] * 2)

    return fold(x), [fold(x[:4])[0] for _ in range(2)][1]


@ODD.add(normal(5))
def closures(x):
    steps = [lambda y, k=k: y * k + SCALE[0] for k in range(3)]
    for step in steps:
        x = step(x)
    return x, max(math.pi, 1) * x


@ODD.add(normal(6), 3)
def loops(x, n):
    total, k = np.zeros_like(x), 0
    while k < n:
        total, k = total + x**k, k + 1
    return total, np.array([x[j] * j for j in range(4)]), tuple(y for y in zip(x[:2], x[2:4]))[1][0]


@ODD.add(normal(5))
def order_of_evaluation(x):
    a = x
    x = x + 1
    b = a - x
    a *= 2
    return a, b, x, (x := x * 3) + x


@ODD.add(normal(4), True, None, "same")
def switches(x, flag, nothing=None, mode="same"):
    y = x if nothing is None else x + nothing
    return (-y if flag else y), (y * 2 if mode == "same" else y), y * flag
