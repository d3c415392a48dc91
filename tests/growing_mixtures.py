"""Families of growing programs that mix kinds of operations: views with folds, scans with products, gathers with sorts.

They are measured as those of growing.py are, from which they differ in that few of their steps are of one kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from growing import XY, Family, Made, X, chain, growing, listed, matrices, positions, texts
from growing_functions import LONG, MIDDLE, SHORT, SQUARE, loop, softmax

CUBE = matrices("x", shape=(8, 9, 10))
LINE = matrices("x", shape=(600,))
IMAGE = matrices("x", shape=(1, 4, 24, 24)) | matrices("w", shape=(4, 4, 3, 3))
HEADS = matrices("q", "k", "v", shape=(1, 2, 24, 16))
LABELS = {"i": np.random.default_rng(1).integers(0, 24, 24)}


def table(n: int) -> Made:
    """A lookup in n literals."""
    return f"stack(({', '.join(str(k % 10) + '.' for k in range(n))}))[i] * x", X | {"i": LABELS["i"] % 8}


def polynomial(n: int) -> Made:
    return " + ".join(f"{k % 9}*x**{k}" for k in range(n)), X


def nested(n: int) -> Made:
    text = "x"
    for k in range(n):
        text = f"where(x>{k},y,{text})"
    return text, XY


def scalars(n: int) -> Made:
    """A recurrence of numbers, each of two before."""

    def program(x, a):
        s, t = x[0], x[1]
        for _ in range(n):
            s, t = t, a * t - s / (1 + t * t)
        return s

    return program, {"x": matrices("x", shape=(2, 8))["x"], "a": 0.5}


def sums_of_steps(n: int) -> Made:
    """Many small results of one chain."""

    def program(x):
        results = []
        for _ in range(n):
            x = np.tanh(x) + 0.1
            results.append(x.sum(-1))
        return tuple(results)

    return program, X


def gated(h, k, W, U):
    z = 1 / (1 + np.exp(-(h @ W)))
    return z * np.tanh((z * h) @ U) + (1 - z) * h


def cross_attended(x, k, y):
    return x + softmax(x @ y.T / 5, -1) @ y


def scattered(x, k, i):
    y = x.copy()
    y[i] = x * 0.5
    return y


def convolved(x, k, w):
    p = np.pad(x, ((1, 1), (0, 0)))
    return w[0] * p[:-2] + w[1] * p[1:-1] + w[2] * p[2:]


def multigrid(x, k):
    coarse = 0.5 * (x[::2] + x[1::2])
    return np.repeat(coarse, 2, axis=0) * 0.9 + 0.1 * x


def particles(p, k):
    d = p[:, None] - p
    return p + 0.01 * (d / ((d * d).sum(-1, keepdims=True) + 1)).sum(1)


def adam(n: int) -> Made:
    def program(p, m, v, g):
        for k in range(1, n + 1):
            d = g * p
            m, v = 0.9 * m + 0.1 * d, 0.99 * v + 0.01 * d * d
            p = p - 0.01 * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.99**k)) + 1e-8)
        return p

    return program, {name: abs(v) for name, v in matrices("p", "m", "v", "g").items()}


def rows_written(n: int) -> Made:
    """A recurrence in place."""

    def program(p):
        y = np.zeros_like(p)
        y[0] = p[0]
        for t in range(1, n):
            y[t] = 0.5 * y[t - 1] + p[t]
        return y

    return program, matrices("p", shape=(n, 8))


def columns_written(n: int) -> Made:
    def program(p):
        y = p.copy()
        for t in range(2, n):
            y[:, t] = y[:, t - 1] * y[:, t - 2] + y[:, 0]
        return y

    return program, matrices("p", shape=(8, n))


def elements_written(n: int) -> Made:
    """A table of n elements, each of three before it."""
    side = int(n**0.5) + 1

    def program(p):
        y = p.copy()
        for i in range(1, side):
            for j in range(1, side):
                y[i, j] = np.minimum(y[i - 1, j], y[i, j - 1]) + y[i - 1, j - 1]
        return y

    return program, matrices("p", shape=(side, side))


def runge_kutta(x, k, A):
    a = np.tanh(x @ A)
    b = np.tanh((x + 0.05 * a) @ A)
    return x + 0.1 * b


MIXTURES: Sequence[Family] = (
    growing("conditions inside conditions", nested, 8, 16, 30),
    texts("sorts and products", chain("x = sort(x @ y)", "x = x / 9"), XY, 7, 14, 28),
    texts("slices, joined", chain("x = concat((x[:, 5:], x[:, :5]), 1)"), X, 3, 6, 12),
    texts("halves, swapped and added to", chain("x = x + concat((x[12:], x[:12]), 0)"), X, 3, 6, 12),
    texts(
        "sums over three axes in turn",
        chain("x = x / sum(x, 0)", "x = x / sum(x, 1)[:, None]", "x = x / sum(x, 2)[:, :, None]"),
        *(CUBE, 5, 10, 19),
    ),
    texts(
        "extrema over three axes in turn",
        chain("x = x - max(x, axis=0)", "x = x - min(x, axis=1)[:, None]", "x = x - max(x, axis=2)[:, :, None]"),
        *(CUBE, 4, 8, 15),
    ),
    texts("prefix sums of shares", chain("x = cumsum(x / sum(x))"), X, 5, 10, 20),
    texts("prefix sums, squared", chain("x = cumsum(x * x, 1) / 9"), X, 4, 8, 17),
    texts(
        "einsum along axes in turn",
        chain('x = einsum("ijk,il->jkl", x, w)'),
        matrices("x", "w", shape=(8, 8, 8)) | matrices("w", shape=(8, 8)),
        3,
        6,
        12,
    ),
    texts("gathers by sorted positions", chain("x = x[argsort(x[:, 0])]"), X, 4, 8, 16),
    texts("gathers by gathered positions", chain("i = j[i]; x = x[i]", after="x"), X | positions("i", "j"), 6, 12, 24),
    texts("gathers of products", chain("x = (x @ y)[i]"), XY | positions("i"), 7, 14, 28),
    texts("many small results", listed("max(x*{})"), X, 10, 20, 40),
    texts("many means and deviations", listed("std(x*{}, 0)"), X, 8, 16, 32),
    texts("scatters in turn", chain("x = scatter_add(x, i, x)"), X | LABELS, 5, 10, 19),
    texts("segments of segments", chain("x = x + segment_sum(x, ids=i, n=24)"), X | LABELS, 4, 8, 13),
    texts("segments of attention", chain("x = x * segment_softmax(x, ids=i, n=24)"), X | LABELS, 3, 6, 12),
    texts("counts of counts", chain("i = bincount(i % 24, 24)"), LABELS, 5, 10, 19),
    texts("convolutions in turn", chain("x = conv(x, w, padding=1)"), IMAGE, 4, 8, 17),
    texts("convolutions and activations", chain("x = relu(conv(x, w, padding=1)) + x"), IMAGE, 3, 6, 13),
    texts("convolutions of lines", chain('x = convolve(x, (1, 2, 1), "same") / 4'), LINE, 4, 8, 12),
    texts("windows of windows", chain("x = max(sliding_window(x, 3), axis=-1)"), LINE, 3, 6, 12),
    texts("means of windows of windows", chain("x = mean(sliding_window(x, 3), -1)"), LINE, 4, 8, 13),
    growing("polynomials", polynomial, 12, 25, 50),
    texts(
        "casts through dtypes in turn", chain("x = float32(int8(x * 9)) + x", "x = float32(bfloat16(x))"), X, 4, 8, 16
    ),
    growing("tables of literals", table, 28, 56, 112),
    texts("linear scans", chain("x = linear_scan(y, x)", "x = linear_scan(y, x, 0)"), XY, 5, 10, 20),
    texts("largest values, thresholds", chain("x = x * (x >= topk(x, 4)[0][:, 3:])"), X, 3, 6, 12),
    texts("medians, subtracted", chain("x = x - median(x, -1, keepdims=True)"), X, 3, 6, 12),
    texts("quantiles, subtracted", chain("x = x / (1 + quantile(x, 0.9))"), X, 3, 6, 12),
    texts("clips between extrema", chain("x = clip(x * 2, min(x, axis=0), max(x, axis=0))"), X, 3, 5, 10),
    texts("normalised products", chain("x = rms_norm(x @ y) + x"), XY, 5, 10, 19),
    texts("attention with masks", chain("q = attention(q, k, v, mask='j <= i')"), HEADS, 3, 6, 12),
    texts(
        "derivatives of chains", chain("y = tanh(y * x) + y", before="y = x; ", after="grad(sum(y), x)"), X, 4, 8, 18
    ),
    texts("derivatives of products", chain("y = tanh(y @ x)", before="y = x; ", after="grad(sum(y), x)"), X, 7, 14, 28),
    texts(
        "derivatives of norms", chain("y = softmax(y) * x", before="y = x; ", after="grad(sum(y * y), x)"), X, 5, 10, 20
    ),
    growing("a recurrence of numbers", scalars, *LONG),
    growing("sums of every step", sums_of_steps, *SHORT),
    growing("steps of Adam", adam, *SHORT),
    growing("rows, written in turn", rows_written, *MIDDLE),
    growing("columns, written in turn", columns_written, *MIDDLE),
    growing("elements, written in turn", elements_written, *SHORT),
    loop("gated units", gated, matrices("x", "W", "U"), SHORT),
    loop("attention to another", cross_attended, matrices("x", "y"), MIDDLE),
    loop("writes at positions", scattered, X | positions("i"), MIDDLE),
    loop("convolutions, traced", convolved, X | {"w": np.float32([0.2, 0.5, 0.3])}, MIDDLE),
    loop("coarse and fine", multigrid, SQUARE, MIDDLE),
    loop("bodies in turn", particles, matrices("x", shape=(24, 3)), SHORT),
    loop("Runge-Kutta", runge_kutta, matrices("x", "A"), SHORT),
    loop("largest along axes in turn", lambda x, k: x - 0.5 * x.max(k % 2, keepdims=True), SQUARE, MIDDLE),
    loop("positions of the largest", lambda x, k: x[np.argsort(x.sum(-1))] * 0.9, SQUARE, MIDDLE),
    loop("transposes and products", lambda x, k: (x @ x.T)[::-1] * 0.1 + x, SQUARE, MIDDLE),
    loop("outer products, added", lambda x, k: x + 0.1 * np.outer(x[k % 24], x[:, k % 24]), SQUARE, MIDDLE),
    loop("rows, updated", lambda x, k: np.concatenate([x[1:], x[:1] * 0.5 + x[1:2]]), SQUARE, MIDDLE),
)
