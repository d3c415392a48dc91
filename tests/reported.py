"""Values that public bug reports and users found wrong: each case as what fusedsl gives and what is right.

A case is small and stands for its kind. These are sums inside sums, most of them over axes of one extent; masked
products and single operations are in reported_numbers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from product_graphs import propagation

import fusedsl as fd

X = np.sin(np.arange(15.0)).reshape(5, 3)
H = np.cos(np.arange(10.0)).reshape(5, 2)
S = np.sin(np.arange(25.0) + 1).reshape(5, 5)
Q, K = np.sin(np.arange(12.0)).reshape(4, 3), np.cos(np.arange(18.0)).reshape(6, 3)
X2 = X * 0.5 + 0.1
CAUSAL = np.tri(5, dtype=bool)


@dataclass(frozen=True)
class Case:
    """What is computed, and what is right; errors up to `tolerance` of the largest element are rounding."""

    name: str
    got: Callable[[], Any]
    want: Callable[[], Any]
    tolerance: float = 1e-11
    source: str = ""  # its text, if it is one
    arrays: Mapping[str, Any] = field(default_factory=dict)


def softmax(s: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def logsumexp(s: np.ndarray, axis: int) -> np.ndarray:
    m = s.max(axis, keepdims=True)
    return (m + np.log(np.exp(s - m).sum(axis, keepdims=True))).squeeze(axis)


def text(name: str, source: str, want: Callable[..., Any], tolerance: float = 1e-11, **arrays: Any) -> Case:
    """A text beside a NumPy function of its arrays, in the order in which they are given."""
    return Case(name, lambda: fd.evaluate(source, arrays), lambda: want(*arrays.values()), tolerance, source, arrays)


def fused(name: str, function: Callable[..., Any], *arrays: Any, tolerance: float = 1e-11) -> Case:
    """A function under `fuse` beside itself."""
    return Case(name, lambda: fd.fuse(function)(*arrays), lambda: function(*arrays), tolerance)


# -- A: sums inside sums


def newton_schulz(g):
    x = g / np.linalg.norm(g)
    for _ in range(2):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * (a @ a)) @ x
    return x


def attention_gradient(x, g):
    import torch

    p = torch.softmax(x @ x.T, -1)
    dp = g @ x.T
    ds = p * (dp - (dp * p).sum(-1, keepdim=True))
    return ds.T @ x


def rollout(q, k):
    import torch

    a = 0.5 * torch.softmax(q @ k.T, -1) + 0.5 * torch.eye(5, dtype=torch.float64)
    return a @ a


def recurrent(x, w, u, h):
    for t in range(3):
        h = np.tanh(x[:, t] @ w + h @ u)
    return h


def laplacian(x, h):
    k = np.exp(x @ x.T)
    d = 1 / np.sqrt(k.sum(1))
    return (k * d[:, None] * d[None]) @ h


FOUR = np.random.default_rng(0).standard_normal((4, 4, 4))
_A, _B, _W, _U = FOUR

PRODUCTS = (
    text("a Gram matrix cubed", "A = x @ x.T; A @ A @ A", lambda x: (x @ x.T) @ (x @ x.T) @ (x @ x.T), x=X),
    text(
        "a softmax of self-scores over columns, applied",
        "softmax(x @ x.T, axis=0) @ x",
        lambda x: softmax(x @ x.T, 0) @ x,
        x=X,
    ),
    text(
        "a normalised kernel matrix applied",
        "K = exp(x @ x.T); d = sum(K, 1); K @ (h / d[:, None])",
        lambda x, h: np.exp(x @ x.T) @ (h / np.exp(x @ x.T).sum(1)[:, None]),
        x=X,
        h=H,
    ),
    text("two power iterations", "A = x @ x.T; A @ (A @ h)", lambda x, h: (x @ x.T) @ ((x @ x.T) @ h), x=X, h=H),
    text(
        "three power iterations",
        "A = x @ x.T; A @ (A @ (A @ h))",
        lambda x, h: (x @ x.T) @ ((x @ x.T) @ ((x @ x.T) @ h)),
        x=X,
        h=H,
    ),
    text("transposed self-attention", "p = softmax(x @ x.T); p.T @ h", lambda x, h: softmax(x @ x.T).T @ h, x=X, h=H),
    text(
        "the largest of centred scores",
        "s = x @ x.T; max(s - mean(s, 0), axis=1)",
        lambda x: (x @ x.T - (x @ x.T).mean(0)).max(1),
        x=X,
    ),
    text(
        "scores applied twice",
        "(q @ k.T) @ ((q @ k.T) @ v)",
        lambda q, k, v: (q @ k.T) @ ((q @ k.T) @ v),
        q=X,
        k=X2,
        v=H,
    ),
    text("a square applied twice", "B = s @ s; B @ (B @ h)", lambda s, h: s @ s @ s @ s @ h, s=S, h=H),
    text(
        "row sums of a square and a matrix",
        "A = x @ x.T; sum(A @ A + A, 1)",
        lambda x: (x @ x.T @ x @ x.T + x @ x.T).sum(1),
        x=X,
    ),
    text(
        "log-sum-exp of rows after that of columns",
        "s = x @ x.T; logsumexp(s - logsumexp(s, 0), 1)",
        lambda x: logsumexp(x @ x.T - logsumexp(x @ x.T, 0), 1),
        x=X,
    ),
    text(
        "values times weights from the left",
        "x.T @ softmax(x @ x.T, axis=1)",
        lambda x: x.T @ softmax(x @ x.T),
        x=X,
    ),
    text("x (x'x)^2", "x @ (x.T @ x) @ (x.T @ x)", lambda x: x @ (x.T @ x) @ (x.T @ x), x=X),
    text(
        "a symmetrically normalised graph",
        "K = exp(x @ x.T); d = 1 / sqrt(sum(K, 1)); L = K * d[:, None] * d[None]; L @ h",
        laplacian,
        x=X,
        h=H,
    ),
    text(
        "attention weights squared",
        "p = softmax(q @ k.T); p @ p",
        lambda q, k: softmax(q @ k.T) @ softmax(q @ k.T),
        q=X,
        k=X2,
    ),
    text(
        "scores written as a broadcast sum",
        "d = sum(x[:, None] * x[None], -1); softmax(d, axis=0) @ x",
        lambda x: softmax(x @ x.T, 0) @ x,
        x=X,
    ),
    text(
        "column sums of causal self-attention",
        "s = x @ x.T; p = softmax(where(iota(s, -1) <= iota(s, -2), s, -inf)); sum(p, 0)",
        lambda x: softmax(np.where(CAUSAL, x @ x.T, -np.inf)).sum(0),
        x=X,
    ),
    fused("Newton-Schulz", newton_schulz, X, tolerance=1e-10),
    text(
        "attention received, and log-sum-exp",
        "s = q @ k.T; p = softmax(s); sum(p, 0), logsumexp(s, -1)",
        lambda q, k: (softmax(q @ k.T).sum(0), logsumexp(q @ k.T, -1)),
        q=Q,
        k=K,
    ),
    text(
        "attention received, and the best key",
        "s = q @ k.T; p = softmax(s); sum(p, 0), argmax(s, -1)",
        lambda q, k: (softmax(q @ k.T).sum(0), (q @ k.T).argmax(-1)),
        q=Q,
        k=K,
    ),
    text(
        "a square and a cube applied",
        "B = s @ s; (B + B @ s) @ x",
        lambda s, x: (s @ s + s @ s @ s) @ x,
        s=S,
        x=X,
    ),
    text(
        "four products, each of the last ones",
        "t = a.T @ b; u = t @ c.T; w = u.T @ t; w @ t.T",
        lambda a, b, c: ((a.T @ b) @ c.T).T @ (a.T @ b) @ (a.T @ b).T,
        a=S,
        b=X,
        c=K,
    ),
    text(
        "a normalised matrix applied three times",
        "n = x / norm(x, -1)[:, None]; L = n @ n.mT; L @ (L @ (L @ n))",
        lambda x: np.linalg.matrix_power((n := x / np.linalg.norm(x, axis=-1)[:, None]) @ n.T, 3) @ n,
        x=X,
    ),
    text(
        "a product, and a product of products, applied",
        "B = x @ w; (B + B @ c) @ y",
        lambda x, w, c, y: (x @ w + x @ w @ c) @ y,
        x=S,
        w=S.T + 0.3,
        c=S * 0.7 - 0.1,
        y=X,
    ),
    fused("label propagation", propagation, X, H),
    text(
        "three steps without a nonlinearity",
        "(b @ W + (a @ W) @ U) @ U",
        lambda a, b, W, U: (b @ W + (a @ W) @ U) @ U,
        a=_A,
        b=_B,
        W=_W,
        U=_U,
    ),
    text(
        "three steps of a recurrent network",
        "h1 = tanh(a @ W + h @ U); h2 = tanh(b @ W + h1 @ U); tanh(c @ W + h2 @ U)",
        lambda a, b, c, h, W, U: np.tanh(c @ W + np.tanh(b @ W + np.tanh(a @ W + h @ U) @ U) @ U),
        a=_A,
        b=_B,
        c=_B[::-1] * 0.5,
        h=_A.T * 0.3,
        W=_W,
        U=_U,
    ),
    fused("a recurrent network", recurrent, FOUR, _W, _U, _A * 0.1),
    text("products on both sides", "(x @ A) @ (x @ B).mT", lambda x, A, B: (x @ A) @ (x @ B).T, x=_A, A=_B, B=_W),
    text("a product of two products", "(x @ A) @ (B @ C)", lambda x, A, B, C: x @ A @ B @ C, x=_A, A=_B, B=_W, C=_U),
    text(
        "attention of projections",
        "softmax((x @ Wq) @ (x @ Wk).mT / 16) @ (x @ Wv)",
        lambda x, Wq, Wk, Wv: softmax((x @ Wq) @ (x @ Wk).T / 16) @ (x @ Wv),
        x=_A,
        Wq=_B,
        Wk=_W,
        Wv=_U,
    ),
    text("a product squared", "a = x @ w; a @ a", lambda x, w: x @ w @ x @ w, x=_A, w=_W),
    text(
        "a product, activated and multiplied on",
        "y = x @ w; relu(y), y @ w",
        lambda x, w: (np.maximum(x @ w, 0), x @ w @ w),
        x=_A,
        w=_W,
    ),
    text(
        "distances inside a sum",
        "sum(exp(-sum((x[:, None] - y[None])**2, -1)) * b, 1)",
        lambda x, y, b: (np.exp(-((x[:, None] - y[None]) ** 2).sum(-1)) * b).sum(1),
        x=X,
        y=X2,
        b=H[:, 0],
    ),
)
TORCH = (
    ("the gradient of self-attention", attention_gradient, (X, np.cos(X))),
    ("attention rollout", rollout, (X, X2)),
)
SIZES = (8, 40, 300)  # of extents that coincide: plans differ among them


def coinciding(n: int) -> tuple[Case, ...]:
    """Products over axes of one extent, at extents where other plans are taken."""
    draw = np.random.default_rng(n)
    x, b, c, w = (draw.standard_normal((n, n)) / np.sqrt(n) for _ in range(4))
    return (
        text("a square applied twice", "B @ (B @ X)", lambda B, X: B @ (B @ X), B=b, X=x),
        text("a matrix and its product, applied", "(B + B @ C) @ X", lambda B, C, X: (B + B @ C) @ X, B=b, C=c, X=x),
        text("weights over columns", "softmax(x @ x.T, axis=0) @ x", lambda x: softmax(x @ x.T, 0) @ x, x=x),
        text(
            "the relu of a Gram matrix used twice",
            "g = relu(x @ x.T); g @ (g @ w)",
            lambda x, w: (g := np.maximum(x @ x.T, 0)) @ (g @ w),
            x=x,
            w=w,
        ),
    )
