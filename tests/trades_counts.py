"""Functions of astronomy, molecules, power grids, ratings, music, texts, ecology and images, and odd arguments."""

from __future__ import annotations

import numpy as np
from trades import Trades, shaped

R = np.random.default_rng(9)
COUNTS = Trades()
normal, uniform = shaped(R.standard_normal), shaped(R.random)


# -- astronomy, molecules, power grids, ratings, music, texts, ecology, images


@COUNTS.add(uniform(20) * 6, 0.3)
def kepler(M, e):
    E = M
    for _ in range(5):
        E = E - (E - e * np.sin(E) - M) / (1 - e * np.cos(E))
    return E, 2 * np.arctan2(np.sqrt(1 + e) * np.sin(E / 2), np.sqrt(1 - e) * np.cos(E / 2))


@COUNTS.add(R.integers(1800, 2100, 9), R.integers(1, 13, 9), R.integers(1, 29, 9))
def julian(y, m, d):
    a = (14 - m) // 12
    yy, mm = y + 4800 - a, m + 12 * a - 3
    return d + (153 * mm + 2) // 5 + 365 * yy + yy // 4 - yy // 100 + yy // 400 - 32045


@COUNTS.add(normal(5, 6, 3))
def lennard_jones(x):
    d = x[:, :, None] - x[:, None]
    r2 = (d**2).sum(-1) + np.eye(6)
    i6 = r2**-3
    e = 4 * (i6 * i6 - i6) * (1 - np.eye(6))
    return e.sum((1, 2)) / 2, np.triu(r2[0], 1)


@COUNTS.add(uniform(6) + 0.9, uniform(6), normal(6, 6), normal(6, 6))
def power_flow(v, th, g, b):
    d = th[:, None] - th
    vv = np.outer(v, v)
    return (vv * (g * np.cos(d) + b * np.sin(d))).sum(axis=1), (vv * (g * np.sin(d) - b * np.cos(d))).sum(axis=1)


@COUNTS.add(uniform(10) * 2000, R.integers(0, 10, (8, 2)))
def elo(r, g):
    e = 1 / (1 + 10 ** ((r[g[:, 1]] - r[g[:, 0]]) / 400))
    new = r.copy()
    np.add.at(new, g[:, 0], 32 * (1 - e))
    np.subtract.at(new, g[:, 1], 32 * (1 - e))
    return new


@COUNTS.add(np.arange(21, 109))
def midi(n):
    f = 440 * 2 ** ((n - 69) / 12)
    return f, np.round(12 * np.log2(f / 440) + 69).astype(int), n % 12


@COUNTS.add(R.integers(0, 9, (8, 30)))
def tfidf(c):
    df = (c > 0).sum(axis=0)
    idf = np.log((1 + c.shape[0]) / (1 + df)) + 1
    x = c * idf
    return x / np.maximum(np.sqrt((x * x).sum(1, keepdims=True)), 1e-12)


@COUNTS.add(R.integers(0, 20, (6, 12)))
def diversity(n):
    p = n / n.sum(axis=1, keepdims=True)
    H = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(1)
    bc = np.abs(n[:, None] - n[None]).sum(-1) / (n[:, None] + n[None]).sum(-1)
    return H, 1 - (p**2).sum(1), bc, np.count_nonzero(n, axis=1)


@COUNTS.add(R.integers(0, 256, (9, 10, 3)).astype(np.uint8))
def hsv(rgb):
    x = rgb / 255.0
    mx, mn = x.max(-1), x.min(-1)
    d = mx - mn
    r, g, b = x[..., 0], x[..., 1], x[..., 2]
    h = np.select(
        [d == 0, mx == r, mx == g],
        [0, ((g - b) / np.where(d == 0, 1, d)) % 6, (b - r) / np.where(d == 0, 1, d) + 2],
        (r - g) / np.where(d == 0, 1, d) + 4,
    )
    return h * 60, np.where(mx == 0, 0, d / np.where(mx == 0, 1, mx)), mx


@COUNTS.add(R.integers(0, 2, (12, 12)).astype(bool))
def life(b):
    n = sum(np.roll(np.roll(b, i, 0), j, 1).astype(np.int8) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return (n == 3) | (b & (n == 2))


@COUNTS.add(R.integers(0, 255, (10, 11)).astype(np.uint8))
def sobel(x):
    y = x.astype(np.int32)
    gx = y[:-2, 2:] + 2 * y[1:-1, 2:] + y[2:, 2:] - y[:-2, :-2] - 2 * y[1:-1, :-2] - y[2:, :-2]
    return np.minimum(np.abs(gx), 255).astype(np.uint8)


@COUNTS.add(normal(10, 3), normal(4, 3))
def kmeans(x, c):
    d = ((x[:, None] - c) ** 2).sum(-1)
    a = d.argmin(1)
    one = (a[:, None] == np.arange(4)).astype(float)
    return (one.T @ x) / np.maximum(one.sum(0), 1)[:, None], a


# -- odd arguments


@COUNTS.add(np.zeros((0, 3)), normal(3))
def empty(x, w):
    return (x * w).sum(0), x @ w, x.T @ x, x.sum(), (x + 1)[::-1]


@COUNTS.add(np.array(2.5), normal(4)[::-1])
def zero_d(a, x):
    return a * x[::2], a + 1, np.where(x > a, x, a), (x * a).max()


@COUNTS.add(np.asfortranarray(normal(5, 7)), normal(7, 5).T[::-1, ::-1])
def strides(x, y):
    return x + y, (x * y)[:, ::-2], x.T @ y, np.flipud(x) - y


@COUNTS.add(R.integers(0, 99, 20).astype(np.uint32), R.integers(0, 7, 20).astype(np.uint8))
def bits(x, s):
    y = x ^ (x << 13)
    y = y ^ (y >> 17)
    return y & 0xFF, np.bitwise_or(y, s), (x >> s) & 1, ~x


@COUNTS.add(normal(20), threshold=0.5)
def masked(x, *, threshold):
    m = np.abs(x) > threshold
    return np.where(m, x, 0), np.mean(x, where=m), np.sum(x, where=m, initial=1.0), np.max(x, where=m, initial=-9)


@COUNTS.add(normal(6, 5), np.empty((6, 5)))
def outs(x, out):
    np.multiply(x, 2, out=out)
    out += 1
    return np.add(out, x)


@COUNTS.add(normal(30).astype(np.float32), normal(30).astype(np.float32))
def sharpe(r, b):
    e = r - b
    return np.sqrt(np.float32(252)) * e.mean() / e.std(ddof=1), np.min(
        np.cumprod(1 + r * np.float32(0.01)) / np.maximum.accumulate(np.cumprod(1 + r * np.float32(0.01))) - 1
    )
