"""Programs of several products: state estimation, Markov chains, optimal transport, statistics."""

from __future__ import annotations

import numpy as np
from product_programs import EYE, Program, identity, logsumexp, softmax

# -- Kalman filters


def joseph(P, K, H, R):
    a = identity(P) - K @ H
    return a @ P @ a.T + K @ R @ K.T


def update(x, P, z, H, Si):
    K = P @ H.T @ Si
    return x + (z - x @ H.T) @ K.T, P - K @ H @ P


def smoother(x, P, F, Q, Pi, xs, Ps):
    C = P @ F.T @ Pi
    return x + (xs - x @ F.T) @ C.T, P + C @ (Ps - (F @ P @ F.T + Q)) @ C.T


def inverted(P, H, R):
    s = H @ P @ H.T + R
    i = identity(s)
    y = s.T / (np.abs(s).sum(0).max() * np.abs(s).sum(1).max())
    for _ in range(3):
        y = y @ (2 * i - s @ y)
    return y


def sigma_points(s, w, H):
    m = (w[:, None] * s).sum(0)
    d = s - m
    z = s @ H.T
    e = z - (w[:, None] * z).sum(0)
    return (w[:, None] * d).T @ d, (w[:, None] * d).T @ e, (w[:, None] * e).T @ e


def riccati(P, F, Q, K, H):
    for _ in range(2):
        P = F @ P @ F.T + Q
        P = P - K @ (H @ P)
    return P


ESTIMATION = (
    Program(
        "Kalman prediction",
        "x: nd, P: dd definite, F: dd, Q: dd definite",
        "x @ F.T, F @ P @ F.T + Q",
        lambda x, P, F, Q: (x @ F.T, F @ P @ F.T + Q),
    ),
    Program(
        "Kalman update with its gain",
        "x: nd, P: dd definite, z: nm, H: md, Si: mm definite",
        "K = P @ H.T @ Si; x + (z - x @ H.T) @ K.T, P - K @ H @ P",
        update,
    ),
    Program(
        "Joseph form",
        "P: dd definite, K: dm, H: md, R: mm definite",
        EYE + "a = eye(P) - K @ H; a @ P @ a.T + K @ R @ K.T",
        joseph,
    ),
    Program(
        "innovations and their distances",
        "x: nd, z: nm, H: md, P: dd definite, R: mm definite, Si: mm definite",
        "y = z - x @ H.T; S = H @ P @ H.T + R; sum((y @ Si) * y, -1), sum(y @ S * y, -1)",
        lambda x, z, H, P, R, Si: (
            (((z - x @ H.T) @ Si) * (z - x @ H.T)).sum(-1),
            ((z - x @ H.T) @ (H @ P @ H.T + R) * (z - x @ H.T)).sum(-1),
        ),
    ),
    Program(
        "the inverse of an innovation covariance, by Newton",
        "P: dd definite, H: md, R: mm definite",
        EYE
        + "s = H @ P @ H.T + R; i = eye(s); y = s.T / (max(sum(abs(s), 0)) * max(sum(abs(s), 1)))\n"
        + "y = y @ (2 * i - s @ y)\n" * 3
        + "y",
        inverted,
    ),
    Program(
        "Rauch-Tung-Striebel smoother",
        "x: nd, P: dd definite, F: dd, Q: dd definite, Pi: dd definite, xs: nd, Ps: dd definite",
        "C = P @ F.T @ Pi; x + (xs - x @ F.T) @ C.T, P + C @ (Ps - (F @ P @ F.T + Q)) @ C.T",
        smoother,
    ),
    Program(
        "information filter",
        "Y: dd definite, y: nd, H: md, Ri: mm definite, z: nm, Fi: dd, G: dd definite",
        "Y1 = Y + H.T @ Ri @ H; y1 = y + z @ Ri @ H; M = Fi.T @ Y1 @ Fi; M - M @ G @ M, y1 @ Fi",
        lambda Y, y, H, Ri, z, Fi, G: (
            (M := Fi.T @ (Y + H.T @ Ri @ H) @ Fi) - M @ G @ M,
            (y + z @ Ri @ H) @ Fi,
        ),
    ),
    Program(
        "sigma points",
        "s: nd, w: n positive, H: md",
        "w1 = w[:, None]; d = s - sum(w1 * s, 0); z = s @ H.T; e = z - sum(w1 * z, 0)\n"
        "return (w1 * d).T @ d, (w1 * d).T @ e, (w1 * e).T @ e",
        sigma_points,
    ),
    Program(
        "two Riccati steps",
        "P: dd definite, F: dd, Q: dd definite, K: dm small, H: md",
        "P1 = F @ P @ F.T + Q; P2 = P1 - K @ (H @ P1); P3 = F @ P2 @ F.T + Q; P3 - K @ (H @ P3)",
        riccati,
    ),
    Program(
        "a linear state space, four steps",
        "x: n4d, h: nk, A: kk, B: dk, C: km",
        "h = h @ A + x[:, 0] @ B; h = h @ A + x[:, 1] @ B; h = h @ A + x[:, 2] @ B; (h @ A + x[:, 3] @ B) @ C",
        lambda x, h, A, B, C: (((h @ A + x[:, 0] @ B) @ A + x[:, 1] @ B) @ A + x[:, 2] @ B) @ A @ C + x[:, 3] @ B @ C,
    ),
)

# -- Markov chains and transport


def forward(p, A, B):
    for t in range(4):
        p = (p @ A) * B[t]
        p = p / p.sum(-1, keepdims=True)
    return p


def forward_backward(p, A, B):
    a = p * B[0]
    a1 = (a @ A) * B[1]
    a2 = (a1 @ A) * B[2]
    b1 = B[2] @ A.T
    b0 = (b1 * B[1]) @ A.T
    return a * b0 / (a * b0).sum(-1, keepdims=True), a1 * b1 / (a1 * b1).sum(-1, keepdims=True), a2


def max_plus(p, A, B):
    for t in range(3):
        p = (p[:, None] + A).max(0) + B[t]
    return p


def sinkhorn(C, a, b):
    K = np.exp(-C)
    u = np.ones_like(a)
    for _ in range(3):
        v = b / (u @ K)
        u = a / (K @ v)
    P = u[:, None] * K * v
    return P, (P * C).sum()


def log_sinkhorn(x, y):
    s = x @ y.T
    for _ in range(3):
        s = s - logsumexp(s, 1)[:, None]
        s = s - logsumexp(s, 0)
    return np.exp(s) @ y


def stationary(P, p):
    for _ in range(4):
        p = p @ P
    return p, (P * np.log(P)).sum(-1) @ p


CHAINS = (
    Program(
        "four steps of a Markov chain, and its entropy",
        "P: nn stochastic, p: n positive",
        "p = p @ P; p = p @ P; p = p @ P; p = p @ P; p, sum(P * log(P), -1) @ p",
        stationary,
    ),
    Program(
        "transition matrices to powers",
        "P: nn stochastic, f: nm unit",
        "P2 = P @ P; P4 = P2 @ P2; P4 @ f, P2 @ f, (P4 @ P) @ f",
        lambda P, f: (
            P @ P @ P @ P @ f,
            P @ P @ f,
            (P @ P @ P @ P @ P) @ f,
        ),
    ),
    Program(
        "the forward algorithm",
        "p: mn positive, A: nn stochastic, B: 4mn positive",
        "step(p, b) = (p @ A) * b / sum((p @ A) * b, -1, keepdims=True)\n"
        "step(step(step(step(p, B[0]), B[1]), B[2]), B[3])",
        forward,
    ),
    Program(
        "forward and backward",
        "p: mn positive, A: nn stochastic, B: 3mn positive",
        "a = p * B[0]; a1 = (a @ A) * B[1]; a2 = (a1 @ A) * B[2]; b1 = B[2] @ A.T; b0 = (b1 * B[1]) @ A.T\n"
        "share(x) = x / sum(x, -1, keepdims=True)\n"
        "return share(a * b0), share(a1 * b1), a2",
        forward_backward,
    ),
    Program(
        "max-plus products",
        "p: n unit, A: nn unit, B: 3n unit",
        "step(p, b) = max(p[:, None] + A, axis=0) + b\nstep(step(step(p, B[0]), B[1]), B[2])",
        max_plus,
    ),
    Program(
        "Sinkhorn",
        "C: nm positive, a: n positive, b: m positive",
        "K = exp(-C); v = b / sum(K, 0); u = a / (K @ v)\n"
        + "v = b / (u @ K); u = a / (K @ v)\n" * 2
        + "P = u[:, None] * K * v\nreturn P, sum(P * C)",
        sinkhorn,
    ),
    Program(
        "Sinkhorn of scores, in logarithms",
        "x: nd, y: md",
        "s = x @ y.T\n" + "s = s - logsumexp(s, 1)[:, None]; s = s - logsumexp(s, 0)\n" * 3 + "exp(s) @ y",
        log_sinkhorn,
    ),
)

# -- statistics


def whitened(x):
    c = x - x.mean(0)
    a = c.T @ c / x.shape[0] + identity(c.T @ c)
    i = identity(a)
    t = np.trace(a)
    y, z = a / t, i
    for _ in range(3):
        m = 0.5 * (3 * i - z @ y)
        y, z = y @ m, m @ z
    return c @ z / np.sqrt(t)


def mixture(x, mu, L):
    d = ((x[:, None] - mu) ** 2 @ L).sum(-1)
    r = softmax(-0.5 * d)
    n = r.sum(0)[:, None]
    m = r.T @ x / n
    return r, m, r.T @ (x * x) / n - m * m


def soft_kmeans(x, c):
    for _ in range(2):
        r = softmax(-(((x[:, None] - c) ** 2).sum(-1)))
        c = r.T @ x / r.sum(0)[:, None]
    return c


STATISTICS = (
    Program(
        "principal components, there and back",
        "x: nd unit, V: dk orthogonal",
        "m = mean(x, 0); c = x - m; y = c @ V; r = y @ V.T + m; y, r, mean(square(x - r / 2))",
        lambda x, V: (
            (c := x - x.mean(0)) @ V,
            c @ V @ V.T + x.mean(0),
            np.square(x - (c @ V @ V.T + x.mean(0)) / 2).mean(),
        ),
    ),
    Program(
        "ZCA whitening by Newton",
        "x: nd unit",
        EYE
        + "c = x - mean(x, 0); b = c.T @ c / size(x, 0); i = eye(b); a = b + i\n"
        + "t = trace(a); y = a / t; z = i + 0 * a\n"
        + "m = 0.5 * (3 * i - z @ y); y = y @ m; z = m @ z\n" * 3
        + "c @ z / sqrt(t)",
        whitened,
    ),
    Program(
        "Mahalanobis distances to means",
        "x: nd, mu: md, A: dd definite",
        "d = x[:, None] - mu; sum(d @ A * d, -1)",
        lambda x, mu, A: (((x[:, None] - mu) @ A) * (x[:, None] - mu)).sum(-1),
    ),
    Program(
        "quadratic forms, three ways",
        "x: nd, A: dd",
        'sum(x @ A * x, -1), einsum("ni,ij,nj->n", x, A, x), diagonal(x @ A @ x.T)',
        lambda x, A: (
            (x @ A * x).sum(-1),
            np.einsum("ni,ij,nj->n", x, A, x),
            np.diagonal(x @ A @ x.T),
        ),
    ),
    Program(
        "Gaussian log densities and their gradient",
        "x: nd, mu: d, A: dd definite",
        "c = x - mu; g = c @ A; -0.5 * sum(g * c, -1), -g, mean(g, 0) @ A",
        lambda x, mu, A: (
            -0.5 * ((x - mu) @ A * (x - mu)).sum(-1),
            -(x - mu) @ A,
            ((x - mu) @ A).mean(0) @ A,
        ),
    ),
    Program(
        "a step of expectation maximisation",
        "x: nd, mu: kd, L: dd definite",
        "d = sum(square(x[:, None] - mu) @ L, -1); r = softmax(-0.5 * d); n = sum(r, 0)[:, None]; m = r.T @ x / n\n"
        "return r, m, r.T @ (x * x) / n - m * m",
        mixture,
    ),
    Program(
        "soft k-means, two steps",
        "x: nd, c: kd",
        "step(c) = softmax(-sum(square(x[:, None] - c), -1)).T @ x / sum(softmax(-sum(square(x[:, None] - c), -1)), 0)"
        "[:, None]\nstep(step(c))",
        soft_kmeans,
    ),
    Program(
        "canonical correlations",
        "x: nd, y: nm, Cx: dd definite, Cy: mm definite",
        "c = (x - mean(x, 0)).T @ (y - mean(y, 0)); Cx @ c @ Cy @ c.T",
        lambda x, y, Cx, Cy: Cx @ (c := (x - x.mean(0)).T @ (y - y.mean(0))) @ Cy @ c.T,
    ),
    Program(
        "factor analysis",
        "x: nd, L: dk, p: d positive, G: kk definite",
        "b = G @ (L / p[:, None]).T; z = x @ b.T; z, z.T @ z, x.T @ z",
        lambda x, L, p, G: (
            z := x @ (G @ (L / p[:, None]).T).T,
            z.T @ z,
            x.T @ z,
        ),
    ),
    Program(
        "Woodbury, its inverses given",
        "y: nm, U: nk, Ci: kk definite, V: kn, d: n positive",
        "z = y / d[:, None]; z - (U @ (Ci @ (V @ z))) / d[:, None]",
        lambda y, U, Ci, V, d: y / d[:, None] - (U @ (Ci @ (V @ (y / d[:, None])))) / d[:, None],
    ),
    Program(
        "risk of portfolios",
        "x: nd unit, w: md",
        "c = x - mean(x, 0); S = c.T @ c / (size(x, 0) - 1); v = sum(w @ S * w, -1); (w @ S) / sqrt(v)[:, None], v",
        lambda x, w: (
            (g := w @ (S := (c := x - x.mean(0)).T @ c / (x.shape[0] - 1))) / np.sqrt((g * w).sum(-1))[:, None],
            (w @ S * w).sum(-1),
        ),
    ),
    Program(
        "correlations, squared and applied",
        "x: nd unit, w: dm",
        "c = x - mean(x, 0); z = c / sqrt(sum(c * c, 0)); r = z.T @ z; (r * r) @ w, r @ (r @ w)",
        lambda x, w: (
            ((r := (z := (c := x - x.mean(0)) / np.sqrt((c * c).sum(0))).T @ z) * r) @ w,
            r @ (r @ w),
        ),
    ),
)
