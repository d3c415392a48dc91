"""The programs that users timed against NumPy, as data: a function, the arrays that it takes, what it is exempt for.

What users ran as a text is a text here too; everything else is the NumPy function itself under `fuse`. Sizes are
theirs; `small` sizes say whether everything runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

EXEMPT = ("sorts", "scatters", "powers")  # of the rule that no program is slower than NumPy


@dataclass(frozen=True)
class Trial:
    """A program: `function` is what NumPy (or the peer) runs; `text` what fusedsl runs, if it is not the function."""

    name: str
    function: Callable[..., Any]
    arrays: Callable[[float], dict[str, Any]]  # of a factor: 1 is the size that users ran
    text: str | None = None
    kind: str = ""
    peer: str = "numpy"


def normal(*shape: float, dtype: str = "float32", scale: float = 1.0, seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed + len(shape))
    return (scale * draw.standard_normal(tuple(int(n) for n in shape))).astype(dtype)


def positive(*shape: float, dtype: str = "float32") -> np.ndarray:
    return (np.abs(normal(*shape, dtype="float64")) + 0.25).astype(dtype)


def side(n: float, f: float) -> int:
    """An extent of a matrix, of which there is a factor less."""
    return max(8, int(n * f**0.5) // 8 * 8)


def squares(names: str, n: int) -> Callable[[float], dict[str, Any]]:
    return lambda f: {name: normal(side(n, f), side(n, f), scale=n**-0.5, seed=k) for k, name in enumerate(names)}


def softmax(s, axis=-1):
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# -- products of products (A3)


def layer_norm(x):
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5)


def heads(t):
    return t.reshape(*t.shape[:2], 8, -1).swapaxes(1, 2)


def block(x, Wq, Wk, Wv, Wo, W, V):
    n = layer_norm(x)
    q, k, v = heads(n @ Wq), heads(n @ Wk), heads(n @ Wv)
    a = softmax(q @ k.swapaxes(-1, -2) * 32**-0.5) @ v
    x = x + a.swapaxes(1, 2).reshape(x.shape) @ Wo
    n = layer_norm(x)
    return x + np.maximum(n @ W, 0) @ V


def block_arrays(f: float) -> dict[str, Any]:
    d, t = 64 if f < 1 else 256, 16 if f < 1 else 128
    weights = {name: normal(d, d, scale=d**-0.5, seed=k) for k, name in enumerate(("Wq", "Wk", "Wv", "Wo"))}
    return {"x": normal(2, t, d)} | weights | {"W": normal(d, 4 * d, scale=d**-0.5), "V": normal(4 * d, d, scale=0.03)}


def torch_block(x, Wq, Wk, Wv, Wo, W, V):
    import torch

    def split(t):
        return t.reshape(*t.shape[:2], 8, -1).transpose(1, 2)

    n = torch.nn.functional.layer_norm(x, x.shape[-1:])
    a = torch.nn.functional.scaled_dot_product_attention(split(n @ Wq), split(n @ Wk), split(n @ Wv))
    x = x + a.transpose(1, 2).reshape(x.shape) @ Wo
    n = torch.nn.functional.layer_norm(x, x.shape[-1:])
    return x + torch.relu(n @ W) @ V


def masked(q, k, v):
    return np.tril(q @ k.T) @ v


def newton_schulz(x):
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * (a @ a)) @ x
    return x


PRODUCTS = (
    *(
        Trial(
            f"products on both sides, {n}",
            lambda x, A, B: (x @ A) @ (x @ B).T,
            squares("xAB", n),
            "(x @ A) @ (x @ B).mT",
        )
        for n in (256, 512)
    ),
    Trial("a product of two products", lambda x, A, B, C: (x @ A) @ (B @ C), squares("xABC", 256), "(x @ A) @ (B @ C)"),
    Trial("two products in turn", lambda x, A, B: (x @ A) @ B, squares("xAB", 256), "(x @ A) @ B"),
    Trial(
        "attention of projections",
        lambda x, Q, K, V: softmax((x @ Q) @ (x @ K).T / 16) @ (x @ V),
        squares("xQKV", 256),
        "softmax((x @ Q) @ (x @ K).mT / 16) @ (x @ V)",
    ),
    Trial("a transformer's block", block, block_arrays),
    Trial("a transformer's block in torch", torch_block, block_arrays, peer="torch"),
    Trial(
        "a causal product without a softmax", masked, lambda f: {n: normal(side(512, f), 64, scale=0.2) for n in "qkv"}
    ),
    Trial(
        "Newton-Schulz, five steps", newton_schulz, lambda f: {"x": normal(side(256, f), side(256, f), scale=1 / 256)}
    ),
    Trial("a square of a product", lambda x, w: (x @ w) @ (x @ w), squares("xw", 256), "a = x @ w; a @ a"),
)

# -- stencils (A4)


def stencil(u):
    return u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u)


def padded(u):
    p = np.pad(u, 1)
    return u + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)


def written(u):
    v = u.copy()
    v[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return v


def repeated(step: Callable, n: int) -> Callable:
    def steps(u):
        for _ in range(n):
            u = step(u)
        return u

    return steps


def blur(x):
    w = [0.2 - 0.02 * abs(k - 4) for k in range(9)]
    p = np.pad(x, ((4, 4), (0, 0)), mode="edge")
    y = sum(p[k : k + x.shape[0]] * w[k] for k in range(9))
    p = np.pad(y, ((0, 0), (4, 4)), mode="edge")
    return sum(p[:, k : k + x.shape[1]] * w[k] for k in range(9))


def grid(f: float) -> dict[str, Any]:
    return {"u": normal(side(2000, f), side(2000, f), dtype="float64")}


STENCILS = (
    *(Trial(f"heat, {n} steps", repeated(stencil, n), grid) for n in (1, 2, 3, 4, 6, 10)),
    *(Trial(f"heat by pads, {n} steps", repeated(padded, n), grid) for n in (2, 4)),
    *(Trial(f"heat by writes, {n} steps", repeated(written, n), grid) for n in (2, 4)),
    Trial("a separable blur", blur, lambda f: {"x": normal(side(1080, f), side(1920, f), dtype="float32")}),
)

# -- powers (A7)


def bodies(x, m):
    d = x[:, None] - x
    r2 = (d * d).sum(-1) + 0.01
    return (d * (m / r2**1.5)[..., None]).sum(1)


def rooted_bodies(x, m):
    d = x[:, None] - x
    r2 = (d * d).sum(-1) + 0.01
    return (d * (m / (r2 * np.sqrt(r2)))[..., None]).sum(1)


def body_arrays(f: float) -> dict[str, Any]:
    return {"x": normal(side(1000, f), 3, dtype="float64"), "m": positive(side(1000, f), dtype="float64")}


POWERS = (
    *(
        Trial(
            f"x ** {e}, {d}",
            lambda x, e=e: x**e,
            lambda f, d=d: {"x": positive(6e6 * f, dtype=d)},
            f"x ** {e}",
            kind="powers",
        )
        for e in (0.4545, 2.5)
        for d in ("float64", "float32")
    ),
    *(
        Trial(
            f"x ** y, {d}",
            lambda x, y: x**y,
            lambda f, d=d: {"x": positive(3e6 * f, dtype=d), "y": positive(3e6 * f, 1, dtype=d)[:, 0]},
            "x ** y",
            kind="powers",
        )
        for d in ("float64", "float32")
    ),
    Trial(
        "gamma of an image",
        lambda x: np.clip(x * 1.1 - 0.02, 0, 1) ** (1 / 2.2),
        lambda f: {"x": positive(side(1080, f), side(1920, f), 3, dtype="float64") / 4},
        kind="powers",
    ),
    Trial("bodies, by a power", bodies, body_arrays, kind="powers"),
    Trial("bodies, by a root", rooted_bodies, body_arrays),
)

# -- what moves, orders and folds (A14)


def life(b):
    n = sum(np.roll(np.roll(b, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1)) - b
    return ((n == 3) | ((b == 1) & (n == 2))).astype(b.dtype)


def sliced_life(b):
    p = np.pad(b, 1)
    h, w = b.shape
    n = sum(p[i : i + h, j : j + w] for i in range(3) for j in range(3)) - b
    return ((n == 3) | ((b == 1) & (n == 2))).astype(b.dtype)


def interleaved(x, c, s):
    y = np.empty_like(x)
    a, b = x[..., 0::2], x[..., 1::2]
    y[..., 0::2] = a * c - b * s
    y[..., 1::2] = a * s + b * c
    return y


def drawdown(x):
    return (1 - x / np.maximum.accumulate(x, -1)).max(-1)


def power_iteration(A, v):
    for _ in range(5):
        v = A @ v
        v = v / np.sqrt((v * v).sum())
    return v


def sinkhorn(K, a, b):
    u = a
    for _ in range(5):
        v = b / (u @ K)
        u = a / (K @ v)
    return u[:, None] * K * v


def group_norm_gradient(x, dy, w):
    g = x.reshape(x.shape[0], 8, -1)
    d = (dy * w[:, None, None]).reshape(g.shape)
    c = g - g.mean(-1, keepdims=True)
    r = 1 / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5)
    n = c * r
    return (r * (d - d.mean(-1, keepdims=True) - n * (d * n).mean(-1, keepdims=True))).reshape(x.shape)


def convolved(x, w):
    n = x.shape[1]
    p = np.concatenate([np.zeros_like(x[:, :3]), x], axis=1)
    return sum(w[k] * p[:, k : k + n] for k in range(4))


def one_query(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / 8) @ v


def matrix(n: int, m: int, dtype: str = "float64", positive_: bool = False) -> Callable[[float], dict[str, Any]]:
    make = positive if positive_ else normal
    return lambda f: {"x": make(side(n, f), side(m, f), dtype=dtype)}


def board(f: float) -> dict[str, Any]:
    n = side(1000, f)
    return {"b": (normal(n, n) > 0.5).astype(np.int8)}


def queries(f: float) -> dict[str, Any]:
    n = int(max(64, 4096 * f))
    return {"q": normal(8, 1, 64), "k": normal(8, n, 64, seed=1), "v": normal(8, n, 64, seed=2)}


MOVES = (
    Trial("roll of int8", lambda x: np.roll(x, 7), lambda f: {"x": (normal(1e6 * f) * 9).astype(np.int8)}),
    Trial("roll of float64", lambda x: np.roll(x, 7), lambda f: {"x": normal(1e6 * f, dtype="float64")}),
    Trial("pad", lambda x: np.pad(x, 3), matrix(1000, 1000)),
    Trial("repeat", lambda x: np.repeat(x, 3, axis=0), matrix(700, 1000)),
    Trial(
        "a gather of rows",
        lambda x, i: x[i],
        lambda f: matrix(2000, 500)(f) | {"i": np.arange(side(2000, f))[::-1].copy()},
    ),
    Trial("the game of life by rolls", life, board),
    Trial("the game of life by slices", sliced_life, board),
    Trial(
        "interleaved rotations",
        interleaved,
        lambda f: {"x": normal(8, side(512, f), 64), "c": normal(side(512, f), 32), "s": normal(side(512, f), 32)},
    ),
    Trial("sort of rows", lambda x: np.sort(x, axis=-1), matrix(1000, 1000), kind="sorts"),
    Trial("argsort of rows", lambda x: np.argsort(x, axis=-1), matrix(1000, 1000), kind="sorts"),
    Trial("median of rows", lambda x: np.median(x, axis=-1), matrix(1000, 1000), kind="sorts"),
    Trial("percentile of all", lambda x: np.percentile(x, 95), matrix(1000, 1000), kind="sorts"),
    Trial("sum over columns", lambda x: x.sum(0), matrix(1000, 1000)),
    Trial("the largest drawdown", drawdown, matrix(1000, 1000, positive_=True)),
    Trial(
        "power iteration, five steps",
        power_iteration,
        lambda f: {"A": normal(side(1000, f), side(1000, f), scale=0.03), "v": normal(side(1000, f))},
    ),
    Trial(
        "Sinkhorn, five steps",
        sinkhorn,
        lambda f: {
            "K": positive(side(1000, f), side(1000, f)),
            "a": positive(side(1000, f)),
            "b": positive(side(1000, f)),
        },
    ),
    Trial(
        "a grey image",
        lambda x, w: x @ w,
        lambda f: {
            "x": (normal(side(1080, f), side(1920, f), 3) * 60 + 128).astype(np.uint8),
            "w": np.float32([0.299, 0.587, 0.114]),
        },
        "x @ w",
    ),
    Trial("attention with one query", one_query, queries),
    Trial(
        "a causal depthwise convolution",
        convolved,
        lambda f: {"x": normal(2, side(2048, f), 256), "w": normal(4, 256)},
    ),
    Trial(
        "the gradient of group norm",
        group_norm_gradient,
        lambda f: {n: normal(4, 64, side(64, f), side(64, f)) for n in ("x", "dy")} | {"w": normal(64)},
    ),
)

TRIALS = (*PRODUCTS, *STENCILS, *POWERS, *MOVES)
