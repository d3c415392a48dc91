"""Programs whose plans users and reviewers found to lose: what explain() may say of each, on CUDA and on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Specs = dict[str, tuple[tuple[int, ...], str]]


@dataclass(frozen=True)
class PlanCase:
    """A text or a function with its arrays, and what its plan keeps to.

    `stored` is the most elements that one temporary may hold, `multiplications` are those of all its products of
    matrices, each computed once, `like` is the same computation in words that are planned well.
    """

    name: str
    program: str | Callable[..., Any]
    arrays: Specs
    kernels: int | None = None
    stored: int | None = None
    multiplications: int | None = None
    like: tuple[str, Specs] | None = None
    dtypes: frozenset[str] | None = None  # of its temporaries
    devices: tuple[str, ...] = ("cuda", "cpu")


def arrays(dtype: str, **shapes: tuple[int, ...]) -> Specs:
    return {name: (shape, dtype) for name, shape in shapes.items()}


def square(n: int, dtype: str, names: str) -> Specs:
    """Square matrices of these names."""
    return arrays(dtype, **dict.fromkeys(names, (n, n)))


def heat(u):
    for _ in range(4):
        u = u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u)
    return u


def padded_heat(u):
    for _ in range(4):
        p = np.pad(u, 1)
        u = u + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)
    return u


def separable_blur(x):
    p = np.pad(x, ((4, 4), (0, 0)), mode="edge")
    y = sum(p[k : k + x.shape[0]] * (0.2 - 0.02 * abs(k - 4)) for k in range(9))
    p = np.pad(y, ((0, 0), (4, 4)), mode="edge")
    return sum(p[:, k : k + x.shape[1]] * (0.2 - 0.02 * abs(k - 4)) for k in range(9))


def newton_schulz_step(x):
    a = x @ x.T
    return 3.4445 * x + (-4.775 * a + 2.0315 * (a @ a)) @ x


def group_norm_gradient(x, dy, w):
    """Of x, of 8 groups: the mean and the variance, then two sums of each group."""
    g = x.reshape(x.shape[0], 8, -1)
    d = (dy * w[:, None, None]).reshape(x.shape[0], 8, -1)
    c = g - g.mean(-1, keepdims=True)
    r = 1 / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5)
    n = c * r
    return (r * (d - d.mean(-1, keepdims=True) - n * (d * n).mean(-1, keepdims=True))).reshape(x.shape)


HEADS = "sh(t) = swapaxes(reshape(t, (size(h, 0), size(h, 1), 16, 64)), 1, 2)\n"
ROTATED = "rot(t) = {}(concat([t[..., :32] * c - t[..., 32:] * s, t[..., 32:] * c + t[..., :32] * s], axis=-1))\n"
INSIDE = "rot(t) = concat([bfloat16({}), bfloat16({})], axis=-1)\n".format(
    "t[..., :32] * c - t[..., 32:] * s", "t[..., 32:] * c + t[..., :32] * s"
)
ATTENDED = arrays("bfloat16", q=(1, 16, 2048, 64), k=(1, 16, 2048, 64), v=(1, 16, 2048, 64))
TURNED = ATTENDED | arrays("float32", c=(2048, 32), s=(2048, 32))
PROJECTED = arrays("bfloat16", h=(1, 2048, 1024), wq=(1024, 1024), wk=(1024, 1024), wv=(1024, 1024))
SCORES = 2048 * 2048
PLAIN = ("attention(q, k, v, mask='j <= i')", ATTENDED)
PAGED = arrays("bfloat16", q=(16, 16, 1, 64), k=(512, 16, 16, 64), v=(512, 16, 16, 64)) | {
    "t": ((16, 32), "int32"),
    "n": ((16,), "int32"),
}

PLANS = (
    PlanCase(
        "attention of projections",
        HEADS + "attention(sh(h @ wq), sh(h @ wk), sh(h @ wv), mask='j <= i')",
        PROJECTED,
        kernels=4,
        stored=2048 * 1024,
        devices=("cuda",),
    ),
    PlanCase(
        "attention of a projected q",
        HEADS + "attention(sh(h @ wq), k, v, mask='j <= i')",
        {n: s for n, s in (PROJECTED | ATTENDED).items() if n in ("h", "wq", "k", "v")},
        kernels=2,
        stored=2048 * 1024,
        devices=("cuda",),
    ),
    PlanCase(
        "attention of rotated q and k",
        ROTATED.format("bfloat16") + "attention(rot(q), rot(k), v)",
        TURNED,
        like=(INSIDE + "attention(rot(q), rot(k), v)", TURNED),
        stored=16 * 2048 * 64,
        devices=("cuda",),
    ),
    PlanCase(
        "attention of a normalised q",
        "attention(bfloat16(rms_norm(q, w)), k, v, mask='j <= i')",
        ATTENDED | arrays("float32", w=(64,)),
        like=PLAIN,
        stored=16 * 2048 * 64,
        devices=("cuda",),
    ),
    PlanCase(
        "attention of float8 keys and values",
        "attention(q, bfloat16(k), bfloat16(v), mask='j <= i')",
        ATTENDED | arrays("float8_e4m3fn", k=(1, 16, 2048, 64), v=(1, 16, 2048, 64)),
        like=PLAIN,
        stored=16 * 2048 * 64,
        devices=("cuda",),
    ),
    PlanCase(
        "attention of a scaled q over pages",
        "attention(bfloat16(q * c), k, v, pages=t, lengths=n)",
        PAGED | arrays("float32", c=(64,)),
        like=("attention(q, k, v, pages=t, lengths=n)", PAGED),
        stored=16 * 16 * 64,
        devices=("cuda",),
    ),
    PlanCase(
        "a product squared", "a = x @ w; a @ a", square(4096, "bfloat16", "xw"), kernels=2, multiplications=2 * 4096**3
    ),
    PlanCase(
        "a product, activated and multiplied on",
        "y = x @ w; return relu(y), y @ w",
        square(4096, "bfloat16", "xw"),
        multiplications=2 * 4096**3,
    ),
    PlanCase(
        "two layers, rounded between",
        "bfloat16(relu(x @ w)) @ u",
        square(4096, "bfloat16", "xwu"),
        kernels=2,
        multiplications=2 * 4096**3,
        dtypes=frozenset({"bfloat16"}),
    ),
    PlanCase("Newton-Schulz", newton_schulz_step, square(1024, "float32", "x"), multiplications=3 * 1024**3),
    PlanCase(
        "products on both sides", "(x @ A) @ (x @ B).mT", square(256, "float32", "xAB"), multiplications=3 * 256**3
    ),
    PlanCase(
        "a product of two products", "(x @ A) @ (B @ C)", square(256, "float32", "xABC"), multiplications=3 * 256**3
    ),
    PlanCase(
        "weights of projections",
        "softmax((x @ Wq) @ (x @ Wk).mT / 16) @ (x @ Wv)",
        arrays("float32", x=(256, 256), Wq=(256, 256), Wk=(256, 256), Wv=(256, 256)),
        multiplications=5 * 256**3,
    ),
    PlanCase(
        "distances inside a sum",
        "sum(exp(-sum((x[:, None] - y[None])**2, -1)) * b, 1)",
        arrays("float32", x=(1000, 16), y=(2000, 16), b=(2000,)),
        stored=1000 * 2000,  # a distance each
    ),
    PlanCase("four heat steps", heat, square(2000, "float64", "u")),
    PlanCase("four heat steps with pads", padded_heat, square(2000, "float64", "u")),
    PlanCase("a separable blur", separable_blur, square(1080, "float32", "x")),
    PlanCase(
        "a causal depthwise convolution",
        "p = concat([0 * x[:, :3], x], axis=1); n = size(x, 1); "
        "w[0] * p[:, :n] + w[1] * p[:, 1:n + 1] + w[2] * p[:, 2:n + 2] + w[3] * x",
        arrays("bfloat16", x=(8, 4096, 2048), w=(4, 2048)),
        kernels=1,
    ),
    PlanCase(
        "the gradient of group norm",
        group_norm_gradient,
        arrays("float32", x=(16, 64, 64, 64), dy=(16, 64, 64, 64), w=(64,)),
    ),
    PlanCase(
        "five power iterations",
        "".join(["b = v; ", *["b = x.mT @ (x @ b); "] * 5, "b"]),
        arrays("float32", x=(512, 512), v=(512, 1)),
    ),
)
