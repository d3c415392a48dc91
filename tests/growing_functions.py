"""Families of growing programs that are traced: loops of up to 500 steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from growing import Family, Made, matrices

LONG, MIDDLE, SHORT = (62, 125, 250, 500), (40, 80, 160), (12, 25, 50, 100)


def loop(name: str, step: Callable[..., Any], arrays: dict[str, Any], sizes: tuple[int, ...]) -> Family:
    """Programs that repeat a step of the first argument; it also takes the number of the step, then the others."""

    def make(n: int) -> Made:
        def program(x, *others):
            for k in range(n):
                x = step(x, k, *others)
            return x

        return program, arrays

    return Family(name, make, sizes)


def heat(u, k):
    return u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u)


def padded_heat(u, k):
    p = np.pad(u, 1)
    return u + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)


def written_heat(u, k):
    v = u.copy()
    v[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return v


def life(b, k):
    n = sum(np.roll(np.roll(b, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1)) - b
    return ((n == 3) | ((b == 1) & (n == 2))).astype(b.dtype)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def lstm(h, k, c, x, W, U):
    i, f, o, g = (x[k] @ W[j] + h @ U[j] for j in range(4))
    return np.tanh(f * c + i * g) * o


def kalman(P, k, F, Q, K, H):
    P = F @ P @ F.T + Q
    return P - K @ (H @ P)


def newton_schulz(x, k):
    a = x @ x.T
    return 3.4445 * x + (-4.775 * a + 2.0315 * (a @ a)) @ x


def normalised(v):
    return v / np.sqrt((v * v).sum())


def conjugate(x, k, A, b):
    r = b - A @ x
    return x + (r @ r) / (r @ (A @ r)) * r


def sinkhorn(s, k):
    return s - np.log(np.exp(s).sum(k % 2, keepdims=True))


def attended(x, k, W):
    return x + softmax(x @ W @ x.T, -1) @ x


def norm_block(x, k, W, V):
    c = x - x.mean(-1, keepdims=True)
    return x + np.maximum(c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) @ W, 0) @ V


def states(n: int) -> Made:
    """All states of a recurrence as results."""

    def program(x, a):
        s, kept = x[0], []
        for t in range(n):
            s = a * x[t] + (1 - a) * s
            kept.append(s)
        return np.stack(kept)

    return program, {"x": matrices("x", shape=(n, 16))["x"], "a": 0.1}


TIMED = {"x": matrices("x", shape=(LONG[-1], 8, 8))["x"]}
SQUARE = matrices("x")
FUNCTIONS: Sequence[Family] = (
    loop("heat by rolls", heat, SQUARE, LONG),
    loop("heat by pads", padded_heat, SQUARE, LONG),
    loop("heat by writes", written_heat, SQUARE, LONG),
    loop("the game of life", life, {"x": np.eye(24, dtype=np.int8)}, SHORT),
    loop("softmax along one axis, traced", lambda x, k: softmax(x, -1), SQUARE, MIDDLE),
    loop("softmax along axes in turn, traced", lambda x, k: softmax(x, k % 2), SQUARE, MIDDLE),
    loop("means along one axis", lambda y, k: y - y.mean(-1, keepdims=True), SQUARE, MIDDLE),
    loop("means along axes in turn", lambda y, k: y - y.mean(k % 2, keepdims=True), SQUARE, MIDDLE),
    loop("Sinkhorn", sinkhorn, SQUARE, MIDDLE),
    loop(
        "a recurrent network",
        lambda h, k, x, W, U: np.tanh(x[k] @ W + h @ U),
        matrices("h", shape=(8, 8)) | TIMED | matrices("W", "U", shape=(8, 8)),
        LONG,
    ),
    loop(
        "long memory",
        lstm,
        matrices("h", "c", shape=(8, 8)) | TIMED | matrices("W", "U", shape=(4, 8, 8)),
        SHORT,
    ),
    loop(
        "an exponential average",
        lambda s, k, x, a: a * x[k] + (1 - a) * s,
        matrices("s", shape=(8, 8)) | TIMED | {"a": 0.1},
        LONG,
    ),
    Family("all states of an average", states, LONG),
    loop(
        "a linear state space",
        lambda h, k, x, A: h @ A + x[k],
        matrices("h", shape=(8, 8)) | TIMED | matrices("A", shape=(8, 8)),
        LONG,
    ),
    loop("Horner's rule", lambda y, k, x: y * x + 0.5, matrices("y", "x"), LONG),
    loop(
        "Newton's roots",
        lambda x, k, a: 0.5 * (x + a / x),
        {n: abs(v) + 1 for n, v in matrices("x", "a").items()},
        LONG,
    ),
    loop("layers", lambda x, k, W: np.maximum(x @ W, 0), matrices("x", "W"), LONG),
    loop("blocks with norms", norm_block, matrices("x", "W", "V"), SHORT),
    loop("blocks of attention", attended, matrices("x", "W"), SHORT),
    loop("power iteration", lambda v, k, A: normalised(A @ v), {"v": matrices("v")["v"][0]} | matrices("A"), LONG),
    loop("label propagation", lambda f, k, W, y: 0.8 * (W @ f) + 0.2 * y, matrices("f", "W", "y"), LONG),
    loop("Kalman filters", kalman, matrices("P", "F", "Q", "K", "H"), SHORT),
    loop("Newton-Schulz", newton_schulz, SQUARE, SHORT),
    loop(
        "steepest descent",
        conjugate,
        {"x": matrices("x")["x"][0]} | matrices("A") | {"b": matrices("b")["b"][1]},
        SHORT,
    ),
    loop("conditions, traced", lambda x, k: np.where(x > 1, x * 0.5, x + 1), SQUARE, LONG),
    loop(
        "medians of neighbours",
        lambda x, k: np.maximum(np.minimum(x, np.roll(x, 1, 0)), np.roll(x, -1, 0)),
        SQUARE,
        LONG,
    ),
    loop("prefix sums in turn", lambda x, k: np.cumsum(x, axis=k % 2) * 0.1, SQUARE, MIDDLE),
    loop("sorts along axes in turn", lambda x, k: np.sort(x, axis=k % 2) + 0.1 * x, SQUARE, (10, 20, 40)),
)
