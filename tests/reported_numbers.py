"""Masked products and single operations that public bug reports and users found wrong."""

from __future__ import annotations

import numpy as np
from reported import Case, X, fused, softmax, text

import fusedsl as fd

ROWS = np.float32([[1.3, 3.9, 2.6], [-1.3, 2.6, 6.5]])
FIRST_LARGER = np.where(np.arange(1024) == 0, np.float32(0.7), np.float32(0.1))[None]

# -- masked products without a softmax

MASKS = {
    "where": "s = q @ k.mT; where(iota(s, -1) <= iota(s, -2), s, 0) @ v",
    "a factor": "s = q @ k.mT; (s * (iota(s, -1) <= iota(s, -2))) @ v",
    "a broadcast sum": "s = q @ k.mT; m = where(iota(s, -1) <= iota(s, -2), s, 0); sum(m[..., None] * v[None], axis=1)",
    "tril": "tril(q @ k.mT) @ v",
    "strictly below": "s = q @ k.mT; where(iota(s, -1) < iota(s, -2), s, 0) @ v",
    "above": "triu(q @ k.mT) @ v",
    "a band": "s = q @ k.mT; where(abs(iota(s, -1) - iota(s, -2)) <= 9, s, 0) @ v",
    "a factor on the score": "s = q @ k.mT * 0.5; where(iota(s, -1) <= iota(s, -2), s, 0) @ v",
    "a square": "s = square(q @ k.mT); where(iota(s, -1) <= iota(s, -2), s, 0) @ v",
    "a decay": "s = q @ k.mT; j = iota(s, -1); i = iota(s, -2); where(j <= i, s * 0.98 ** (i - j), 0) @ v",
}
LENGTHS = (65, 127, 128, 129, 200, 256, 512)


def masked(name: str, rows: int, dtype: type) -> Case:
    """One of MASKS, so many rows and columns of scores."""
    draw = np.random.default_rng(rows)
    q, k, v = (draw.standard_normal((rows, d)).astype(dtype) for d in (16, 16, 8))
    i, j = np.indices((rows, rows))
    s = q.astype(np.float64) @ k.astype(np.float64).T
    weights = {
        "strictly below": s * (j < i),
        "above": s * (j >= i),
        "a band": s * (abs(i - j) <= 9),
        "a factor on the score": 0.5 * s * (j <= i),
        "a square": s * s * (j <= i),
        "a decay": s * np.where(j <= i, 0.98 ** np.maximum(i - j, 0), 0),
    }.get(name, s * (j <= i))
    tolerance = {np.float64: 1e-12, np.float32: 2e-5, np.float16: 4e-3}[dtype]
    return Case(
        f"{name}, {rows} rows",
        lambda: fd.evaluate(MASKS[name], q=q, k=k, v=v),
        lambda: weights @ v.astype(np.float64),
        tolerance,
    )


# -- single operations


def _attention(d: int) -> Case:
    q, k, v = (np.sin(np.arange(6.0 * d) * c).reshape(1, 1, 6, d) for c in (1, 2, 3))
    return Case(
        f"attention in float64, heads of {d}",
        lambda: fd.attention(q, k, v),
        lambda: softmax(q @ k.swapaxes(-1, -2) * d**-0.5) @ v,
        1e-14,
    )


NUMBERS = (
    text("softmax of a large multiple", "softmax(x * 1e10)", lambda x: np.float32([[0, 1, 0], [0, 0, 1]]), x=ROWS),
    text(
        "softmax of squares",
        "softmax(x * x)",
        lambda x: np.float32([[0, 1, 0], [0, 0, 1]]),
        x=ROWS * np.float32(1e6),
    ),
    text(
        "softmax of a large multiple in float64",
        "softmax(x * 1e25)",
        lambda x: np.array([[0.0, 1, 0], [0, 0, 1]]),
        x=ROWS.astype(np.float64),
    ),
    text(
        "log-softmax of a large multiple",
        "log_softmax(x * 1e30)",
        lambda x: np.float32([[-2.6e30, 0, -1.3e30], [-7.8e30, -3.9e30, 0]]),
        1e-6,
        x=ROWS,
    ),
    text(
        "softmax of products of arrays",
        "softmax(x * c)",
        lambda x, c: np.float32([[0, 1, 0], [0, 0, 1]]),
        x=ROWS,
        c=np.full(3, 1e12, np.float32),
    ),
    text(
        "the root of a product less its least element",
        "p = a * b; sqrt(p - min(p))",
        lambda a, b: np.sqrt(a * b - (a * b).min()),
        1e-6,
        a=np.float32([0.1, 0.7, 0.3]),
        b=np.float32([0.3, 0.9, 0.7]),
    ),
    text("the mean of a running maximum", "mean(cummax(x, 1), -1)", lambda x: np.float32([0.7]), 2e-7, x=FIRST_LARGER),
    text(
        "the sum of a running minimum",
        "sum(cummin(-x, 1), -1)",
        lambda x: np.float32([-0.7 * 1024]),
        2e-7,
        x=FIRST_LARGER,
    ),
    text(
        "the variance of a running maximum is no more than its mean rounds",
        "var(cummax(x, 1), -1) < 1e-12",
        lambda x: np.array([True]),
        x=FIRST_LARGER,
    ),
    *(_attention(d) for d in (5, 6, 8, 24)),
    text("the sum of one negative zero", "1 / sum(x, 1)", lambda x: np.float32([np.inf]), x=np.float32([[-0.0]])),
    text(
        "the sum of two negative zeros",
        "1 / sum(x, 1)",
        lambda x: np.float32([np.inf]),
        x=np.float32([[-0.0, -0.0]]),
    ),
    fused("maximum.reduce of a list", lambda a, b: np.maximum.reduce([a, b]), X, X[::-1]),
    fused("the root of an extent, in float32", lambda x: x / np.float32(x.shape[-1] ** 0.5), ROWS, tolerance=1e-6),
    fused("diff with an element before", lambda a: np.diff(a, prepend=a[0]), X[:, 0]),
)
NUMBERS_TORCH = (
    ("softmax over products", lambda t: (t * 1e15).softmax(-1), (ROWS,)),
    ("the remainder of -0", lambda t: 1 / (t % 5.0), (np.float32([-0.0]),)),
)
