"""Functions of queueing, genetics, geodesy, optics, crystallography, epidemiology and econometrics."""

from __future__ import annotations

import numpy as np
from trades import Trades, shaped

R = np.random.default_rng(7)
SCIENCES = Trades()
normal, uniform = shaped(R.standard_normal), shaped(R.random)


# -- queueing


@SCIENCES.add(uniform(5) * 3 + 0.1, np.arange(1, 9))
def erlang_b(a, c):
    k = np.arange(20)
    t = np.cumsum(np.log(np.maximum(k, 1)))
    terms = np.exp(k * np.log(a[:, None]) - t)
    return terms[:, 1:9] / np.cumsum(terms, axis=1)[:, 1:9] * (c > 0)


@SCIENCES.add(uniform(40), uniform(40))
def lindley(arrival, service):
    x = service[:-1] - arrival[1:]
    s = np.concatenate(([0.0], np.cumsum(x)))
    return s - np.minimum.accumulate(s)


@SCIENCES.add(uniform(6) * 0.9)
def mm1(rho):
    n = np.arange(30)
    p = (1 - rho)[:, None] * rho[:, None] ** n
    return p.sum(1), (p * n).sum(axis=-1), -(p * np.log(p)).sum(-1)


# -- genetics


@SCIENCES.add(R.integers(0, 3, (30, 50)).astype(np.int8))
def grm(g):
    p = g.mean(axis=0) / 2
    z = (g - 2 * p) / np.sqrt(2 * p * (1 - p) + 1e-9)
    return z @ z.T / g.shape[1]


@SCIENCES.add(R.integers(0, 3, (30, 50)).astype(np.uint8))
def hwe(g):
    n = np.stack([(g == k).sum(0) for k in range(3)])
    tot = n.sum(0)
    p = (2 * n[2] + n[1]) / (2 * tot)
    e = np.stack([(1 - p) ** 2, 2 * p * (1 - p), p**2]) * tot
    return ((n - e) ** 2 / np.where(e > 0, e, 1)).sum(0)


@SCIENCES.add(R.integers(0, 2, (12, 40)).astype(bool))
def ld(h):
    p = h.mean(0)
    d = (h[:, :-1] & h[:, 1:]).mean(0) - p[:-1] * p[1:]
    return d**2 / np.maximum(p[:-1] * (1 - p[:-1]) * p[1:] * (1 - p[1:]), 1e-12)


@SCIENCES.add(R.integers(0, 4, 100).astype(np.uint8), R.integers(0, 4, 100).astype(np.uint8))
def kimura(a, b):
    d = a != b
    ts = d & ((a ^ b) == 2)
    P, Q = ts.mean(), (d & ~ts).mean()
    return -0.5 * np.log((1 - 2 * P * 0.5 - Q * 0.5) * np.sqrt(1 - 2 * Q * 0.3))


# -- geodesy


@SCIENCES.add(uniform(9) * 3 - 1.5, uniform(9) * 6 - 3, uniform(9) * 1e3)
def ecef(lat, lon, h):
    a, f = 6378137.0, 1 / 298.257223563
    e2 = f * (2 - f)
    N = a / np.sqrt(1 - e2 * np.sin(lat) ** 2)
    return np.array(
        [(N + h) * np.cos(lat) * np.cos(lon), (N + h) * np.cos(lat) * np.sin(lon), (N * (1 - e2) + h) * np.sin(lat)]
    )


@SCIENCES.add(uniform(9, 2), uniform(7, 2))
def haversine(p, q):
    d = p[:, None] - q[None]
    s = np.sin(d / 2) ** 2
    return 2 * 6371 * np.arcsin(np.sqrt(s[..., 0] + np.cos(p[:, None, 0]) * np.cos(q[None, :, 0]) * s[..., 1]))


@SCIENCES.add(uniform(5) * 1.2, uniform(5), uniform(5) * 1.2 + 0.01, uniform(5) + 0.2)
def vincenty(p1, l1, p2, l2):
    f = 1 / 298.257
    u1, u2, L = np.arctan((1 - f) * np.tan(p1)), np.arctan((1 - f) * np.tan(p2)), l2 - l1
    lam = L
    for _ in range(4):
        ss = np.hypot(np.cos(u2) * np.sin(lam), np.cos(u1) * np.sin(u2) - np.sin(u1) * np.cos(u2) * np.cos(lam))
        cs = np.sin(u1) * np.sin(u2) + np.cos(u1) * np.cos(u2) * np.cos(lam)
        sg = np.arctan2(ss, cs)
        sa = np.cos(u1) * np.cos(u2) * np.sin(lam) / ss
        c2 = 1 - sa**2
        cm = np.where(c2 == 0, 0, cs - 2 * np.sin(u1) * np.sin(u2) / c2)
        c = f / 16 * c2 * (4 + f * (4 - 3 * c2))
        lam = L + (1 - c) * f * sa * (sg + c * ss * (cm + c * cs * (-1 + 2 * cm**2)))
    return lam, sg


@SCIENCES.add(uniform(8) * 100, uniform(8) * 100)
def polygon(x, y):
    xn, yn = np.roll(x, -1), np.roll(y, -1)
    cr = x * yn - xn * y
    a = 0.5 * np.sum(cr)
    return abs(a), np.sum((x + xn) * cr) / (6 * a), np.sum((y + yn) * cr) / (6 * a)


# -- optics


@SCIENCES.add(uniform(4) * 1e-6 + 4e-7, np.array([1.0, 2.1, 1.4]), uniform(6))
def fresnel(lam, n, th):
    s = n[0] / n[1:, None] * np.sin(th)
    ct, ci = np.sqrt(np.clip(1 - s**2, 0, None)), np.cos(th)
    rs = (n[0] * ci - n[1:, None] * ct) / (n[0] * ci + n[1:, None] * ct)
    rp = (n[1:, None] * ci - n[0] * ct) / (n[1:, None] * ci + n[0] * ct)
    return rs**2, rp**2, np.exp(-1 / lam * 1e-7)


@SCIENCES.add(uniform(6, 4), uniform(6))
def mueller(s, th):
    c, n = np.cos(2 * th), np.sin(2 * th)
    z, o = np.zeros_like(c), np.ones_like(c)
    m = 0.5 * np.stack(
        [
            np.stack([o, c, n, z], -1),
            np.stack([c, c * c, c * n, z], -1),
            np.stack([n, c * n, n * n, z], -1),
            np.stack([z, z, z, z], -1),
        ],
        axis=-2,
    )
    return np.einsum("kij,kj->ki", m, s)


@SCIENCES.add(uniform(12, 12))
def zernike(x):
    n = x.shape[0]
    g = np.linspace(-1, 1, n)
    r = np.hypot(g[:, None], g)
    t = np.arctan2(g[:, None], g)
    m = r <= 1
    return np.sum(x * m * (6 * r**4 - 6 * r**2 + 1)), np.where(m, r**3 * np.cos(3 * t), 0.0)


# -- crystallography


@SCIENCES.add(uniform(3) + 4, uniform(3) * 0.3 + 1.4, R.integers(-3, 4, (20, 3)), uniform(8, 3), uniform(8) * 10)
def structure_factor(abc, ang, hkl, xyz, f):
    ph = 2 * np.pi * (hkl @ xyz.T)
    re, im = (f * np.cos(ph)).sum(-1), (f * np.sin(ph)).sum(-1)
    return re**2 + im**2, np.sqrt(np.sum((hkl / abc) ** 2, axis=1)), np.cos(ang).prod()


@SCIENCES.add(uniform(40) * 90 + 1, uniform(40))
def xrd(tt, i):
    th = np.deg2rad(tt) / 2
    lp = (1 + np.cos(2 * th) ** 2) / (np.sin(th) ** 2 * np.cos(th) + 1e-12)
    o = np.argsort(-i * lp, kind="stable")
    return (i * lp)[o][:5], tt[o[:5]]


@SCIENCES.add(normal(10, 3, 3))
def voigt(s):
    h = s.trace(axis1=-2, axis2=-1) / 3
    d = s - h[:, None, None] * np.eye(3)
    return np.sqrt(1.5 * np.einsum("kij,kij->k", d, d)), d[:, [0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]


# -- epidemiology


@SCIENCES.add(np.float64(0.3), np.float64(0.1), np.array([0.9, 0.05, 0.05]))
def sir(beta, gamma, y):
    for _ in range(6):
        s, i = y[0], y[1]
        d = np.stack([-beta * s * i, beta * s * i - gamma * i, gamma * i])
        y = y + 0.1 * d
    return y


@SCIENCES.add(R.integers(0, 50, 60), uniform(10))
def renewal(cases, w):
    w = w / w.sum()
    win = np.lib.stride_tricks.sliding_window_view(cases[:-1], 10)
    lam = (win * w[::-1]).sum(-1)
    return cases[10:] / np.where(lam > 0, lam, np.nan)


@SCIENCES.add(R.integers(1, 99, (5, 2, 2)))
def odds(t):
    o = t[:, 0, 0] * t[:, 1, 1] / (t[:, 0, 1] * t[:, 1, 0])
    se = np.sqrt((1 / t).sum(axis=(1, 2)))
    lo = np.log(o)
    w = 1 / se**2
    return np.exp(lo[..., None] + se[..., None] * np.array([-1.96, 0, 1.96])), (w * lo).sum() / w.sum()


@SCIENCES.add(R.integers(0, 2, 50).astype(bool), np.sort(uniform(50)))
def kaplan_meier(event, t):
    n = len(t)
    at = n - np.arange(n)
    return np.cumprod(1 - event / at)


# -- econometrics


@SCIENCES.add(normal(30), normal(30, 3), 4)
def newey_west(e, x, lags):
    u = x * e[:, None]
    s = u.T @ u
    for k in range(1, lags + 1):
        g = u[k:].T @ u[:-k]
        s = s + (1 - k / (lags + 1)) * (g + g.T)
    return s / len(e)


@SCIENCES.add(normal(50))
def garch(r):
    v = np.full(3, 0.1)
    h = r.var()
    out = []
    for k in range(6):
        h = 0.1 + 0.1 * r[k] ** 2 + 0.8 * h
        out.append(h)
    return np.array(out), v


@SCIENCES.add(normal(24), period=4)
def seasonal(x, period):
    m = x.reshape(-1, period)
    s = m.mean(axis=0) - x.mean()
    return (m - s).ravel(), s


@SCIENCES.add(normal(20, 3), normal(20))
def durbin(x, y):
    d = np.diff(y)
    return (d**2).sum() / (y**2).sum(), np.corrcoef(x.T), np.cov(x, rowvar=False)


@SCIENCES.add(uniform(40), q=0.1)
def gini(x, q):
    s = np.sort(x)
    n = x.size
    return (2 * np.arange(1, n + 1) - n - 1) @ s / (n * s.sum()), np.quantile(x, [q, 1 - q])


@SCIENCES.add(normal(30), span=5)
def ewma(x, span):
    a = 2 / (span + 1)
    w = (1 - a) ** np.arange(len(x))
    return np.convolve(x, w)[: len(x)] / np.cumsum(w)
