"""Functions of robotics, tomography, speech and hydrology."""

from __future__ import annotations

import numpy as np
from trades import Trades, shaped

R = np.random.default_rng(8)
SIGNALS = Trades()
normal, uniform = shaped(R.standard_normal), shaped(R.random)


# -- robotics


@SIGNALS.add(normal(7, 4), normal(7, 3))
def quaternion(q, v):
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    w, u = q[..., :1], q[..., 1:]
    t = 2 * np.cross(u, v)
    return v + w * t + np.cross(u, t)


@SIGNALS.add(uniform(3) * 2, np.array([1.0, 0.8, 0.3]))
def planar_arm(q, length):
    a = np.cumsum(q)
    x, y = np.cumsum(length * np.cos(a)), np.cumsum(length * np.sin(a))
    j = np.stack([-(np.flip(np.cumsum(np.flip(length * np.sin(a))))), np.flip(np.cumsum((length * np.cos(a))[::-1]))])
    return x[-1], y[-1], j


@SIGNALS.add(normal(6, 3))
def rodrigues(w):
    t = np.sqrt((w * w).sum(-1))[:, None, None]
    z = np.zeros(len(w))
    K = np.stack([z, -w[:, 2], w[:, 1], w[:, 2], z, -w[:, 0], -w[:, 1], w[:, 0], z], 1).reshape(-1, 3, 3)
    return np.eye(3) + np.sin(t) / t * K + (1 - np.cos(t)) / t**2 * (K @ K)


@SIGNALS.add(uniform(30) * 3, np.linspace(0, 6, 30))
def lidar(r, th):
    p = np.column_stack((r * np.cos(th), r * np.sin(th)))
    d = np.linalg.norm(p - np.roll(p, 1, axis=0), axis=1)
    return p, np.where(d > 0.5, 0, 1).astype(np.int8), d.argmax()


# -- tomography


@SIGNALS.add(uniform(16, 16))
def gradient_tv(x):
    gy, gx = np.gradient(x)
    dx = np.diff(x, axis=1, append=x[:, -1:])
    return np.sqrt(gx**2 + gy**2 + 1e-8).sum(), np.abs(dx).sum(axis=0)


@SIGNALS.add(uniform(10, 21))
def ramp(sino):
    n = sino.shape[1]
    k = np.arange(-10, 11)
    h = np.where(k == 0, 0.25, np.where(k % 2 == 1, -1 / (np.pi * np.where(k == 0, 1, k)) ** 2, 0))
    return np.stack([np.convolve(s, h, "same") for s in sino][:3]), n


@SIGNALS.add(uniform(9, 9), R.integers(0, 9, (5, 2)), uniform(5, 2))
def bilinear(img, ij, fr):
    i, j = np.clip(ij[:, 0], 0, 7), np.clip(ij[:, 1], 0, 7)
    a, b = fr[:, 0], fr[:, 1]
    return (
        img[i, j] * (1 - a) * (1 - b)
        + img[i + 1, j] * a * (1 - b)
        + img[i, j + 1] * (1 - a) * b
        + img[i + 1, j + 1] * a * b
    )


@SIGNALS.add(uniform(20, 12), uniform(12), uniform(20))
def sart(A, x, b):
    for _ in range(2):
        x = x + A.T @ ((b - A @ x) / A.sum(1)) / A.sum(0)
    return np.maximum(x, 0)


# -- speech


@SIGNALS.add(normal(400))
def frames(x):
    y = np.append(x[0], x[1:] - 0.97 * x[:-1])
    f = np.lib.stride_tricks.sliding_window_view(y, 64)[::32]
    w = f * np.hamming(64)
    return np.log((w**2).sum(-1) + 1e-10), (np.diff(np.sign(f), axis=1) != 0).sum(1)


@SIGNALS.add(uniform(12, 20) + 0.1)
def dct_mfcc(m):
    n = np.arange(20)
    d = np.cos(np.pi / 20 * (n + 0.5)[None, :] * np.arange(6)[:, None]) * np.sqrt(2 / 20)
    c = np.log(m) @ d.T
    return c - c.mean(0), np.pad(c, ((2, 2), (0, 0)), mode="edge")[4:] - c


@SIGNALS.add(normal(100))
def autocorr(x):
    x = x - x.mean()
    r = np.correlate(x, x, mode="full")[len(x) - 1 :]
    return r[:10] / r[0], r[10:60].argmax() + 10


@SIGNALS.add((normal(30) * 3000).astype(np.int16))
def mulaw(x):
    y = x / 32768.0
    c = np.sign(y) * np.log1p(255 * np.abs(y)) / np.log1p(255.0)
    q = ((c + 1) / 2 * 255 + 0.5).astype(np.uint8)
    return q, q.astype(np.float32) / 255 * 2 - 1


# -- hydrology


@SIGNALS.add(uniform(40) * 10)
def nash(q):
    s = np.zeros(3)
    out = 0.0
    for k in range(5):
        s = s + np.stack([q[k] - 0.3 * s[0], 0.3 * s[0] - 0.3 * s[1], 0.3 * s[1] - 0.3 * s[2]])
        out = out + 0.3 * s[2]
    return s, out


@SIGNALS.add(uniform(365) * 10, uniform(365) * 10)
def nse(o, s):
    return (
        1 - ((o - s) ** 2).sum() / ((o - o.mean()) ** 2).sum(),
        np.percentile(o, [5, 50, 95]),
        (o > np.median(o)).sum(),
    )


@SIGNALS.add(uniform(365), R.integers(0, 12, 365))
def monthly(p, m):
    return np.bincount(m, weights=p, minlength=12), np.bincount(m, minlength=12)


@SIGNALS.add(uniform(12, 12))
def d8(z):
    p = np.pad(z, 1, mode="edge")
    n = np.stack([p[1 + i : 13 + i, 1 + j : 13 + j] for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j])
    d = (z - n) / np.array([2**0.5, 1, 2**0.5, 1, 1, 2**0.5, 1, 2**0.5])[:, None, None]
    return np.argmax(d, 0), d.max(axis=0).clip(0)


@SIGNALS.add(uniform(7) * 30, uniform(7) * 50)
def penman(t, u):
    es = 0.6108 * np.exp(17.27 * t / (t + 237.3))
    d = 4098 * es / np.square(t + 237.3)
    return (0.408 * d * 10 + 0.066 * 900 / (t + 273) * u * es * 0.4) / (d + 0.066 * (1 + 0.34 * u))
