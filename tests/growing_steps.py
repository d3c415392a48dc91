"""Families of growing programs whose steps are algorithms of their own: nested loops, decoders, optimisers, transforms.

They are measured as those of growing.py are. A step here is several operations of different kinds: products with norms,
joins with masks, prefix sums with sorts, and derivatives of such.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from growing import XY, Family, Made, X, chain, growing, matrices, positions, texts
from growing_functions import MIDDLE, SHORT, SQUARE, loop, softmax

WEIGHTS = matrices("x", "W")
LABELS = {"i": np.random.default_rng(1).integers(0, 24, 24)}


def nested_loops(x, k, w):
    for j in range(4):
        x = x + w[j] * np.tanh(x)
    return x


def sorted_sums(x, k):
    return np.sort(np.cumsum(x, axis=0), axis=1) * 0.1


def chosen(x, k, i):
    return np.where(x[i] > 0, x, x[i] * 0.5)


def contracted(x, k, W):
    return np.einsum("ij,kj->ik", x, W) + x


def joined(x, k):
    return np.concatenate([x[:, 12:], np.tanh(x[:, :12])], 1)


def masked(x, k):
    return np.where(x > x.mean(), x * 0.9, x + 0.1)


def normed_product(x, k, W):
    y = x @ W
    return y / np.sqrt((y * y).sum(-1, keepdims=True) + 1e-6)


def whitened(x, k, W):
    return (x - x.mean(0)) / (x.std(0) + 0.1) @ W


def butterfly(x, k):
    a, b = x[:12], x[12:]
    return np.concatenate([a + b, (a - b) * 0.9]) * 0.7


def viterbi(s, k, T, x):
    return (s[:, None] + T).max(0) + x[k]


def forward(s, k, T, x):
    t = s[:, None] + T
    m = t.max(0)
    return m + np.log(np.exp(t - m).sum(0)) + x[k]


def clustered(c, k, x):
    w = softmax(-((x[:, None] - c) ** 2).sum(-1), 1)
    return w.T @ x / (w.sum(0)[:, None] + 1e-3)


def regressed(w, k, A, y):
    return w - 0.01 * (A.T @ (A @ w - y))


def without_the_largest(x, k):
    return x * (np.arange(24) != x.argmax(-1)[:, None]) + 0.01


def neighbours(x, k, w):
    return sum(w[j] * np.roll(x, j - 2, 0) for j in range(5))


def triangles(x, k):
    return np.tril(x @ x.T * 0.1) + x


def pooled(x, k):
    return x * 0.9 + np.repeat(x.reshape(12, 2, 24).mean(1), 2, 0) * 0.1


def mixed_bits(x, k):
    x = x * np.uint32(1664525) + np.uint32(1013904223)
    return x ^ (x >> np.uint32(16))


def heads(x, k, W):
    q = (x @ W).reshape(24, 4, 6).transpose(1, 0, 2)
    return x + (softmax(q @ q.transpose(0, 2, 1), -1) @ q).transpose(1, 0, 2).reshape(24, 24)


def messages(x, k, i, j):
    return np.tanh(x + x[i] - x[j] * 0.5)


def fourier(n: int) -> Made:
    def program(x):
        y = 0 * x
        for k in range(1, n):
            y = y + np.cos(k * x) / k + np.sin(k * x) / k**2
        return y

    return program, SQUARE


def distances(n: int) -> Made:
    """Sums of products of every step, as many results."""

    def program(x, W):
        results = []
        for _ in range(n):
            x = np.tanh(x @ W)
            results.append((x * x).sum())
        return tuple(results)

    return program, WEIGHTS


def lets(n: int) -> Made:
    """A text of names, each of which is read close by and far away."""
    lines = [f"a{k} = a{k - 1}*x + a{k // 2}" for k in range(1, n)]
    return "a0 = x; " + "; ".join(lines) + f"; a{n - 1}", X


def decided(n: int) -> Made:
    """A decision tree of n leaves, each chosen by a comparison."""

    def program(x, y):
        def leaf(low, high):
            if high - low == 1:
                return y * low
            middle = (low + high) // 2
            return np.where(x < middle / n, leaf(low, middle), leaf(middle, high))

        return leaf(0, n)

    return program, XY


STEPS: Sequence[Family] = (
    loop("loops in loops", nested_loops, SQUARE | {"w": np.float32([0.1, 0.2, 0.3, 0.4])}, SHORT),
    loop("prefix sums and sorts", sorted_sums, SQUARE, (10, 20, 40)),
    loop("choices among gathers", chosen, X | positions("i"), MIDDLE),
    loop("einsum, traced", contracted, WEIGHTS, SHORT),
    loop("halves, joined in turn", joined, SQUARE, MIDDLE),
    loop("conditions by the mean", masked, SQUARE, MIDDLE),
    loop("products and their norms", normed_product, WEIGHTS, SHORT),
    loop("whitening and products", whitened, WEIGHTS, SHORT),
    loop("butterflies", butterfly, SQUARE, MIDDLE),
    loop("Viterbi", viterbi, {"s": matrices("s")["s"][0]} | matrices("T") | matrices("x", shape=(100, 24)), SHORT),
    loop(
        "hidden Markov", forward, {"s": matrices("s")["s"][0]} | matrices("T") | matrices("x", shape=(100, 24)), SHORT
    ),
    loop("soft clusters", clustered, matrices("c", shape=(4, 3)) | matrices("x", shape=(24, 3)), SHORT),
    loop(
        "linear regression",
        regressed,
        {"w": matrices("w")["w"][0]} | matrices("A") | {"y": matrices("y")["y"][0]},
        SHORT,
    ),
    loop("all but the largest", without_the_largest, SQUARE, SHORT),
    loop("weighted neighbours", neighbours, SQUARE | {"w": np.float32([0.1, 0.2, 0.4, 0.2, 0.1])}, SHORT),
    loop("triangles of Gram matrices", triangles, SQUARE, SHORT),
    loop("means of pairs", pooled, SQUARE, SHORT),
    loop("mixed bits", mixed_bits, {"x": np.arange(96, dtype=np.uint32)}, MIDDLE),
    loop("heads of attention", heads, WEIGHTS, SHORT),
    loop("messages", messages, X | positions("i", "j"), MIDDLE),
    growing("Fourier series", fourier, *SHORT),
    growing("sums of products", distances, *SHORT),
    growing("lets", lets, 7, 14, 28),
    growing("decision trees", decided, 16, 32, 64, 128),
    texts(
        "derivatives of layers",
        chain("y = layer_norm(tanh(y @ x))", before="y = x; ", after="grad(sum(y*y), x)"),
        X,
        4,
        8,
        16,
    ),
    texts(
        "derivatives of attention",
        chain("y = y + softmax(y@x.T)@x", before="y = x; ", after="grad(sum(y), x)"),
        X,
        4,
        8,
        17,
    ),
    texts(
        "derivatives of sums along axes",
        chain("y = y - mean(y, 0)", "y = y * max(y, axis=1, keepdims=True)", before="y = x; ", after="grad(sum(y), x)"),
        X,
        4,
        8,
        14,
    ),
    texts(
        "derivatives of gathers",
        chain("y = y[i] * x + y", before="y = x; ", after="grad(sum(y), x)"),
        X | LABELS,
        6,
        12,
        24,
    ),
    texts(
        "derivatives of prefix sums",
        chain("y = cumsum(y * x, 0)", before="y = x; ", after="grad(sum(y), x)"),
        X,
        5,
        10,
        20,
    ),
    texts("sums of squares of sorts", chain("x = x - sort(x * x, 0)"), X, 5, 10, 20),
    texts("medians of windows", chain("x = median(sliding_window(x, 3), -1)"), matrices("x", shape=(600,)), 3, 6, 12),
    texts("one-hot products", chain("x = one_hot(argmax(x, -1), 24) @ x + x*0.5"), X, 3, 6, 11),
    texts("outer sums, reduced", chain("x = mean(abs(x[:, None] - x), 1)"), X, 3, 6, 14),
    texts("where of sums", chain("x = where(x > sum(x, 0), x, mean(x, 1)[:, None])"), X, 3, 5, 9),
)
