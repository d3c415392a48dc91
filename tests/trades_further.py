"""Functions of further trades: finance, optics, genetics, codes, graphics, robotics, physics, statistics, games."""

from __future__ import annotations

import numpy as np
from trades import Trades, shaped

R = np.random.default_rng(33)
FURTHER = Trades()
normal, uniform = shaped(R.standard_normal), shaped(R.random)


@FURTHER.add(uniform(6) * 100 + 50, uniform(6) * 100 + 50, uniform(6) + 0.1, 0.03, uniform(6) * 0.4 + 0.1)
def option_greeks(s, k, t, r, v):
    d1 = (np.log(s / k) + (r + v * v / 2) * t) / (v * np.sqrt(t))
    density = np.exp(-d1 * d1 / 2) / np.sqrt(2 * np.pi)
    return density / (s * v * np.sqrt(t)), s * density * np.sqrt(t), np.maximum(s - k * np.exp(-r * t), 0)


@FURTHER.add(uniform(5, 12) * 10, uniform(5) * 0.1)
def bond_duration(cash, y):
    t = np.arange(1, cash.shape[1] + 1)
    value = cash * (1 + y[:, None]) ** -t
    price = value.sum(1)
    return price, (value * t).sum(1) / price, (value * t * (t + 1)).sum(1) / (price * (1 + y) ** 2)


@FURTHER.add(1000.0, 2000.0, uniform(20) * 10)
def constant_product_swaps(x, y, amounts):
    out = []
    for k in range(5):
        paid = amounts[k] * 0.997
        got = y * paid / (x + paid)
        x, y = x + amounts[k], y - got
        out.append(got)
    return np.array(out), x * y


@FURTHER.add(normal(3, 8), normal(3), 1.3)
def sphere_intersections(direction, centre, radius):
    d = direction / np.sqrt((direction**2).sum(0))
    b = (d * centre[:, None]).sum(0)
    disc = b * b - centre @ centre + radius**2
    hit = disc > 0
    return np.where(hit, b - np.sqrt(np.where(hit, disc, 0)), np.inf), hit


@FURTHER.add(uniform(12, 13))
def blurred(x):
    k = np.array([1, 4, 6, 4, 1]) / 16
    p = np.pad(x, 2, mode="reflect")
    rows = sum(k[j] * p[:, j : j + x.shape[1]] for j in range(5))
    both = sum(k[j] * rows[j : j + x.shape[0]] for j in range(5))
    return both, x - both


@FURTHER.add(R.integers(0, 256, (9, 11)).astype(np.uint8))
def equalised(x):
    counts = np.bincount(x.ravel(), minlength=256)
    cdf = counts.cumsum()
    return (cdf[x] * 255 // x.size).astype(np.uint8), counts


@FURTHER.add(uniform(4, 4), uniform(4, 7), uniform(4))
def viterbi(a, b, start):
    score, back = np.log(start) + np.log(b[:, 0]), []
    for t in range(1, b.shape[1]):
        step = score[:, None] + np.log(a)
        back.append(step.argmax(0))
        score = step.max(0) + np.log(b[:, t])
    return score, np.stack(back)


@FURTHER.add(uniform(3, 3), uniform(3, 6), uniform(3))
def forward_backward(a, b, start):
    a = a / a.sum(1, keepdims=True)
    alpha = [start * b[:, 0]]
    for t in range(1, 6):
        alpha.append(alpha[-1] @ a * b[:, t])
        alpha[-1] = alpha[-1] / alpha[-1].sum()
    return np.stack(alpha, axis=1)


@FURTHER.add(np.arange(1, 9, dtype=np.uint64))
def xorshift(s):
    for _ in range(4):
        s = s ^ (s << np.uint64(13))
        s = s ^ (s >> np.uint64(7))
        s = s ^ (s << np.uint64(17))
    return s, s * np.uint64(2685821657736338717), (s >> np.uint64(11)) * 2.0**-53


@FURTHER.add(R.integers(0, 256, (5, 10)).astype(np.uint8))
def fnv(x):
    h = np.full(5, 2166136261, np.uint32)
    for j in range(10):
        h = (h ^ x[:, j]) * np.uint32(16777619)
    return h, h % np.uint32(97)


@FURTHER.add(normal(10, 2) * 3)
def gradient_noise(p):
    base = np.floor(p)
    f = p - base
    u = f * f * f * (f * (f * 6 - 15) + 10)
    corner = np.sin(base @ np.array([127.1, 311.7])) * 43.5453
    return corner - np.floor(corner), u[:, 0] * (1 - u[:, 1])


@FURTHER.add(np.linspace(-2, 1, 15), np.linspace(-1, 1, 9))
def escape_times(re, im):
    x0, y0 = re[None, :], im[:, None]
    x, y, n = np.zeros((9, 15)), np.zeros((9, 15)), np.zeros((9, 15), int)
    for _ in range(12):
        inside = x * x + y * y <= 4
        n = n + inside
        x, y = np.where(inside, x * x - y * y + x0, x), np.where(inside, 2 * x * y + y0, y)
    return n


@FURTHER.add(uniform(8, 8) < 0.3)
def page_rank(links):
    a = links / np.maximum(links.sum(0), 1)
    dangling = links.sum(0) == 0
    r = np.full(8, 1 / 8)
    for _ in range(6):
        r = 0.85 * (a @ r + (r * dangling).sum() / 8) + 0.15 / 8
    return r


@FURTHER.add(uniform(5, 6) < 0.5, normal(6))
def min_sum_decoder(h, llr):
    message = np.where(h, llr, 0.0)
    size = np.where(h, np.abs(message), np.inf)
    first = size.min(1, keepdims=True)
    second = np.where(np.arange(6) == size.argmin(1)[:, None], np.inf, size).min(1, keepdims=True)
    sign = np.where(h, np.sign(message), 1).prod(1, keepdims=True)
    check = np.where(h, sign * np.sign(message) * np.where(size == first, second, first), 0)
    return llr + np.where(np.isfinite(check), check, 0).sum(0)


@FURTHER.add(uniform(6, 4), uniform(4), uniform(3))
def pruning_likelihood(tips, pi, t):
    q = np.ones((4, 4)) - 4 * np.eye(4)
    p = [np.eye(4) + q * v + q @ q * v * v / 2 for v in (0.1, 0.2, 0.3)]
    left = (tips[:3] @ p[0]) * (tips[3:] @ p[1])
    return np.log((left @ p[2]) @ pi).sum(), left


@FURTHER.add(normal(4, 3), normal(3))
def trilateration(anchors, x):
    d = np.sqrt(((anchors - x) ** 2).sum(1))
    j = (x - anchors) / d[:, None]
    return j.T @ j, j.T @ (d - d.mean()), d


@FURTHER.add(uniform(7) + 0.1, 2.0)
def water_filling(noise, power):
    s = np.sort(noise)
    k = np.arange(1, 8)
    levels = (power + s.cumsum()) / k
    active = levels > s
    level = levels[active.sum() - 1]
    return np.maximum(level - noise, 0), level


@FURTHER.add(np.linspace(0, 10, 20), uniform(4), uniform(4) * 3)
def tides(t, amplitude, phase):
    w = np.array([0.5059, 0.5236, 0.2625, 0.2434])
    return (amplitude * np.cos(w * t[:, None] + phase)).sum(axis=-1)


@FURTHER.add(normal(6, 5), normal(6))
def ridge_by_descent(x, y):
    w = np.zeros(5)
    for _ in range(8):
        w = w - 0.05 * (x.T @ (x @ w - y) + 0.1 * w)
    return w, ((x @ w - y) ** 2).mean()


@FURTHER.add(normal(5, 5))
def power_iteration(a):
    m = a @ a.T
    v = np.ones(5)
    for _ in range(5):
        v = m @ v
        v = v / np.linalg.norm(v)
    return v @ m @ v, np.abs(v)


@FURTHER.add(normal(4, 4), normal(4, 2), normal(4))
def kalman_step(f, h, x):
    p = f @ f.T + np.eye(4)
    s = h.T @ p @ h + 0.1 * np.eye(2)
    det = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
    inverse = np.array([[s[1, 1], -s[0, 1]], [-s[1, 0], s[0, 0]]]) / det
    gain = p @ h @ inverse
    return x + gain @ (np.ones(2) - h.T @ x), (np.eye(4) - gain @ h.T) @ p


@FURTHER.add(uniform(3, 10) * 100)
def technical_indicators(close):
    change = np.diff(close, axis=1)
    up, down = np.clip(change, 0, None), -np.clip(change, None, 0)
    rs = up.mean(1) / down.mean(1)
    high = np.maximum.accumulate(close, axis=1)
    return 100 - 100 / (1 + rs), (close / high - 1).min(1), np.log(close[:, 1:] / close[:, :-1]).std(axis=1, ddof=1)


@FURTHER.add(R.integers(0, 4, 30), R.integers(0, 4, 30))
def substitutions(a, b):
    m = np.zeros((4, 4), int)
    np.add.at(m, (a, b), 1)
    transitions = np.abs(a - b) == 2
    return m, transitions.mean(), (a != b).sum()


@FURTHER.add(uniform(8, 8))
def wavelet(x):
    low, high = (x[:, ::2] + x[:, 1::2]) / 2, (x[:, ::2] - x[:, 1::2]) / 2
    y = np.concatenate([low, high], axis=1)
    low, high = (y[::2] + y[1::2]) / 2, (y[::2] - y[1::2]) / 2
    return np.concatenate([low, high], axis=0)


@FURTHER.add(normal(6, 3), R.integers(0, 6, (4, 3)))
def mesh_normals(v, f):
    a, b, c = v[f[:, 0]], v[f[:, 1]], v[f[:, 2]]
    n = np.cross(b - a, c - a)
    area = np.sqrt((n * n).sum(1)) / 2
    out = np.zeros_like(v)
    np.add.at(out, f.ravel(), np.repeat(n, 3, axis=0))
    return n, area, out


@FURTHER.add(uniform(9) * 3, uniform(9) * 6)
def polar(r, th):
    x, y = r * np.cos(th), r * np.sin(th)
    return np.hypot(x, y), np.mod(np.arctan2(y, x), 2 * np.pi)


@FURTHER.add(normal(5, 20), 4)
def block_means(x, k):
    y = x.reshape(5, -1, k)
    return y.mean(-1), y.std(-1), np.median(y, axis=-1), np.percentile(x, [10, 50, 90], axis=1)


@FURTHER.add(uniform(6, 6))
def sinkhorn(c):
    k = np.exp(-c / 0.2)
    u = np.ones(6)
    for _ in range(6):
        v = 1 / (k.T @ u)
        u = 1 / (k @ v)
    p = u[:, None] * k * v
    return p, (p * c).sum()


@FURTHER.add(normal(16), normal(16))
def sums_of_errors(x, y):
    r = x - y
    return (
        np.abs(r).mean(),
        np.sqrt((r**2).mean()),
        np.where(np.abs(r) < 1, r**2 / 2, np.abs(r) - 0.5).sum(),
        np.corrcoef(np.stack([x, y]))[0, 1],
    )


@FURTHER.add(R.integers(0, 3, (8, 8)))
def neighbours_by_rolling(g):
    n = sum(np.roll(g == 1, (i, j), (0, 1)).astype(int) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return n, np.where(g == 2, 0, np.where((g == 1) & (n > 3), 2, g))


@FURTHER.add(uniform(7, 3), uniform(3))
def choice_shares(x, beta):
    u = x @ beta
    p = np.exp(u - u.max()) / np.exp(u - u.max()).sum()
    return p, -p[:, None] * p + np.diag(p), np.log(p)


@FURTHER.add(normal(30))
def extremes(x):
    s = np.sort(x)[::-1]
    return (
        np.log(np.abs(s[:5])).mean() - np.log(np.abs(s[5])),
        np.searchsorted(s[::-1], [-1, 0, 1]),
        np.digitize(x, [-1, 0, 1]),
    )
