"""Programs of several products: kernel methods, graphs, power iterations, polynomials of matrices."""

from __future__ import annotations

import numpy as np
from product_programs import EYE, UNIT, Program, identity, normalised, relu, softmax

# -- kernel methods


def squared(x, y):
    return (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * x @ y.T


def rbf(x, y):
    return np.exp(-squared(x, y))


def centred(K):
    return K - K.mean(0) - K.mean(1)[:, None] + K.mean()


def alignment(x, y):
    a, b = centred(x @ x.T), centred(y @ y.T)
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


def discrepancy(x, y):
    return rbf(x, x).mean() + rbf(y, y).mean() - 2 * rbf(x, y).mean()


def ridge(x, z, y):
    K = rbf(x, x) / x.shape[0]
    a = y
    for _ in range(2):
        a = a + 0.5 * (y - K @ a - 0.1 * a)
    return rbf(z, x) @ a


def process(x, z, y, Ki):
    k = rbf(z, x)
    w = k @ Ki
    return w @ y, 1 - (w * k).sum(1)


RBF = "rbf(x, y) = exp(2 * x @ y.T - sum(x * x, 1)[:, None] - sum(y * y, 1))\n"
CENTRED = "centred(K) = K - mean(K, 0) - mean(K, 1)[:, None] + mean(K)\n"

KERNELS = (
    Program("a Gaussian kernel applied", "x: nd, y: md, v: mk", RBF + "rbf(x, y) @ v", lambda x, y, v: rbf(x, y) @ v),
    Program(
        "a Gaussian kernel of differences, applied from both sides",
        "x: nd, y: md, v: mk",
        "K = exp(-sum(square(x[:, None] - y), -1)); u = K @ v; u, K.T @ u",
        lambda x, y, v: (rbf(x, y) @ v, rbf(x, y).T @ (rbf(x, y) @ v)),
    ),
    Program(
        "Nystrom",
        "x: nd, z: md, W: mm definite, v: nk",
        RBF + "C = rbf(x, z); C @ (W @ (C.T @ v))",
        lambda x, z, W, v: rbf(x, z) @ (W @ (rbf(x, z).T @ v)),
    ),
    Program(
        "centred kernel alignment",
        "x: nd, y: nm",
        CENTRED + "k = centred(x @ x.T); l = centred(y @ y.T); sum(k * l) / sqrt(sum(k * k) * sum(l * l))",
        alignment,
    ),
    Program(
        "maximum mean discrepancy",
        "x: nd, y: md unit",
        RBF + "mean(rbf(x, x)) + mean(rbf(y, y)) - 2 * mean(rbf(x, y))",
        discrepancy,
    ),
    Program(
        "kernel ridge regression, two steps",
        "x: nd, z: md, y: nk",
        RBF
        + "K = rbf(x, x) / size(x, 0); a = y + 0.5 * (y - K @ y - 0.1 * y); a = a + 0.5 * (y - K @ a - 0.1 * a)\n"
        + "rbf(z, x) @ a",
        ridge,
    ),
    Program(
        "a Gaussian process",
        "x: nd, z: md, y: nk, Ki: nn definite",
        RBF + "k = rbf(z, x); w = k @ Ki; w @ y, 1 - sum(w * k, 1)",
        process,
    ),
    Program(
        "a polynomial kernel",
        "x: nd, y: md, a: mk",
        "K = (x @ y.T + 1) ** 2; K @ a, sum(K, 0), sum(K, 1)",
        lambda x, y, a: ((K := (x @ y.T + 1) ** 2) @ a, K.sum(0), K.sum(1)),
    ),
    Program(
        "a doubly centred kernel applied",
        "x: nd, V: nk",
        CENTRED + RBF + "centred(rbf(x, x)) @ V",
        lambda x, V: centred(rbf(x, x)) @ V,
    ),
    Program(
        "random Fourier features",
        "x: nd, W: dm, b: m, y: nk",
        "z = cos(x @ W + b); z @ (z.T @ y), sum(z @ (z.T @ z) * z, 1)",
        lambda x, W, b, y: (
            (z := np.cos(x @ W + b)) @ (z.T @ y),
            (z @ (z.T @ z) * z).sum(1),
        ),
    ),
    Program(
        "Nadaraya-Watson, and its leverages",
        "x: nd, y: nk",
        "d = sum(square(x[:, None] - x), -1); p = softmax(-d); r = y - p @ y; p @ y, p.T @ r, diagonal(p)",
        lambda x, y: (
            (p := softmax(-squared(x, x))) @ y,
            p.T @ (y - p @ y),
            np.diagonal(p),
        ),
    ),
    Program(
        "distances, weights, and a product with both",
        "x: nd, y: md, v: mk",
        "d = sqrt(sum(square(x[:, None] - y), -1) + 1e-3); p = softmax(-d); p @ v, (p * d) @ v, p.T @ x",
        lambda x, y, v: (
            (p := softmax(-(d := np.sqrt(((x[:, None] - y) ** 2).sum(-1) + 1e-3)))) @ v,
            (p * d) @ v,
            p.T @ x,
        ),
    ),
)

# -- graphs


def laplacian(A):
    d = 1 / np.sqrt(A.sum(1))
    return d[:, None] * A * d


def chebyshev(A, x, W):
    L = -laplacian(A)
    t0, t1 = x, L @ x
    y = t0 @ W[0] + t1 @ W[1]
    for k in range(2, 4):
        t0, t1 = t1, 2 * (L @ t1) - t0
        y = y + t1 @ W[k]
    return y


def appnp(A, x, W):
    h = relu(x @ W)
    S, z = laplacian(A), h
    for _ in range(4):
        z = 0.9 * (S @ z) + 0.1 * h
    return z


def propagation(x, y):
    W = np.exp(x @ x.T)
    W = W / W.sum(1)[:, None]
    f = y
    for _ in range(3):
        f = 0.8 * (W @ f) + 0.2 * y
    return f


def gat(A, x, W, a, b):
    for _ in range(2):
        h = x @ W
        s = (h @ a)[:, None] + h @ b
        x = softmax(np.where(A > 0, np.where(s > 0, s, 0.2 * s), -np.inf)) @ h
    return x


def page_rank(A, p):
    P = A / A.sum(1)[:, None]
    for _ in range(4):
        p = 0.85 * (p @ P) + 0.15 / A.shape[0]
    return p


LAPLACIAN = "lap(A) = A / sqrt(sum(A, 1))[:, None] / sqrt(sum(A, 1))\n"
GRAPHS = (
    Program(
        "two graph convolutions",
        "A: nn graph, x: nd, W: dh, U: hk",
        LAPLACIAN + "L = lap(A); L @ relu(L @ x @ W) @ U",
        lambda A, x, W, U: laplacian(A) @ relu(laplacian(A) @ x @ W) @ U,
    ),
    Program(
        "a normalised Laplacian of weights",
        "x: nd, h: nk",
        "K = exp(x @ x.T); d = 1 / sqrt(sum(K, 1)); L = K * d[:, None] * d; h - L @ h, L @ (L @ h)",
        lambda x, h: (
            h - (L := laplacian(np.exp(x @ x.T))) @ h,
            L @ (L @ h),
        ),
    ),
    Program(
        "Chebyshev filters",
        "A: nn graph, x: nd, W: 4dk",
        LAPLACIAN
        + "L = -lap(A); a = L @ x; b = 2 * (L @ a) - x; c = 2 * (L @ b) - a\n"
        + "x @ W[0] + a @ W[1] + b @ W[2] + c @ W[3]",
        chebyshev,
    ),
    Program(
        "personalised propagation",
        "A: nn graph, x: nd, W: dk",
        LAPLACIAN + "S = lap(A); h = relu(x @ W); z = h\n" + "z = 0.9 * (S @ z) + 0.1 * h\n" * 4 + "z",
        appnp,
    ),
    Program(
        "label propagation",
        "x: nd, y: nk stochastic",
        "W = exp(x @ x.T); W = W / sum(W, 1)[:, None]; f = y\n" + "f = 0.8 * (W @ f) + 0.2 * y\n" * 3 + "f",
        propagation,
    ),
    Program(
        "two layers of graph attention",
        "A: nn graph, x: nd, W: dd, a: d, b: d",
        "layer(x) = softmax(where(A > 0, leaky_relu((x @ W @ a)[:, None] + x @ W @ b, 0.2), -inf)) @ (x @ W)\n"
        "layer(layer(x))",
        gat,
    ),
    Program(
        "PageRank",
        "A: nn graph, p: n stochastic",
        "P = A / sum(A, 1)[:, None]; n = size(A, 0)\n" + "p = 0.85 * (p @ P) + 0.15 / n\n" * 4 + "p",
        page_rank,
    ),
    Program(
        "two hops, side by side",
        "A: nn graph, x: nd, W: 2dk",
        "P = A / sum(A, 1)[:, None]; a = P @ x; concat([a @ W[0], (P @ a) @ W[1]], axis=-1), P @ P @ x + a",
        lambda A, x, W: (
            np.concatenate([(a := (P := A / A.sum(1)[:, None]) @ x) @ W[0], (P @ a) @ W[1]], axis=-1),
            P @ P @ x + a,
        ),
    ),
    Program(
        "a simplified convolution",
        "A: nn graph, x: nd, W: dk",
        LAPLACIAN + "S = lap(A); softmax(S @ S @ S @ x @ W)",
        lambda A, x, W: softmax((S := laplacian(A)) @ S @ S @ x @ W),
    ),
    Program(
        "neighbours' means beside oneself",
        "A: nn graph, x: nd, W: dk, U: dk, V: kk",
        UNIT + "P = A / sum(A, 1)[:, None]; h = unit(relu(x @ W + P @ x @ U) + 0.1); (P @ h) @ V, h @ V",
        lambda A, x, W, U, V: (
            ((P := A / A.sum(1)[:, None]) @ (h := normalised(relu(x @ W + P @ x @ U) + 0.1))) @ V,
            h @ V,
        ),
    ),
    Program(
        "differentiable pooling",
        "A: nn graph, x: nd, W: dk",
        "S = softmax(A @ x @ W); S.T @ x, S.T @ A @ S, sum(square(A - S @ S.T))",
        lambda A, x, W: (
            (S := softmax(A @ x @ W)).T @ x,
            S.T @ A @ S,
            np.square(A - S @ S.T).sum(),
        ),
    ),
    Program(
        "smoothness, and its gradient",
        "A: nn graph, x: nd, W: dk",
        "f = x @ W; L = sum(A, 1)[:, None] * f - A @ f; sum(f * L), x.T @ L",
        lambda A, x, W: (
            ((f := x @ W) * (L := A.sum(1)[:, None] * f - A @ f)).sum(),
            x.T @ L,
        ),
    ),
)

# -- iterations and polynomials


def power(A, v):
    for _ in range(3):
        v = A @ v
        v = v / np.sqrt((v * v).sum())
    return v, v @ A @ v


def gram_power(A, v):
    for _ in range(3):
        v = A.T @ (A @ v)
        v = v / np.sqrt((v * v).sum(0))
    return v


def spectral(W, u):
    for _ in range(2):
        v = W.T @ u
        v = v / np.sqrt(v @ v)
        u = W @ v
        u = u / np.sqrt(u @ u)
    return W / (u @ W @ v)


def exponential(A):
    i = identity(A)
    e = i + A / 4 + (A @ A) / 32
    e = e @ e
    return e @ e


def inverse(A):
    i = identity(A)
    x = 0.5 * i
    for _ in range(4):
        x = x @ (2 * i - A @ x)
    return x


ITERATIONS = (
    Program(
        "power iteration",
        "A: nn definite, v: n unit",
        "step(v) = (A @ v) / sqrt(sum(square(A @ v))); v = step(step(step(v))); v, v @ A @ v",
        power,
    ),
    Program(
        "subspace iteration on a Gram matrix",
        "A: mn, v: nk unit",
        "unit0(v) = v / sqrt(sum(v * v, 0))\n" + "v = unit0(A.T @ (A @ v))\n" * 3 + "v",
        gram_power,
    ),
    Program(
        "two power iterations of a Gram matrix that is there",
        "x: nd, h: nk",
        "A = x @ x.T; A @ (A @ h), (A @ A) @ h",
        lambda x, h: ((A := x @ x.T) @ (A @ h), (A @ A) @ h),
    ),
    Program(
        "spectral normalisation",
        "W: nm, u: n unit",
        "unit1(u) = u / sqrt(sum(u * u)); v = unit1(W.T @ u); u = unit1(W @ v); v = unit1(W.T @ u); u = unit1(W @ v)\n"
        "W / (u @ W @ v)",
        spectral,
    ),
    Program(
        "a matrix to the eighth",
        "A: nn stochastic, x: nk unit",
        "B = A @ A; C = B @ B; C @ C, C @ (C @ x)",
        lambda A, x: ((C := (B := A @ A) @ B) @ C, C @ (C @ x)),
    ),
    Program(
        "Horner's rule on a matrix",
        "A: nn, x: nk",
        "x + A @ (2 * x + A @ (0.5 * x - A @ (3 * x + A @ x)))",
        lambda A, x: x + A @ (2 * x + A @ (0.5 * x - A @ (3 * x + A @ x))),
    ),
    Program(
        "a cubic of a Gram matrix",
        "x: nd",
        "A = x @ x.T; B = A @ A; 2 * x + (3 * A - 0.5 * B) @ x + (A @ B) @ x",
        lambda x: 2 * x + (3 * (A := x @ x.T) - 0.5 * (A @ A)) @ x + (A @ (A @ A)) @ x,
    ),
    Program(
        "the exponential, scaled and squared",
        "A: nn small",
        EYE + "e = eye(A) + A / 4 + (A @ A) / 32; e = e @ e; e @ e",
        exponential,
    ),
    Program(
        "the inverse by Newton",
        "A: nn definite",
        EYE + "i = eye(A); x = 0.5 * i + 0 * A\n" + "x = x @ (2 * i - A @ x)\n" * 4 + "x",
        inverse,
    ),
    Program(
        "commutators",
        "A: nn, B: nn, x: nk",
        "C = A @ B - B @ A; C @ x, A @ C - C @ A, trace(C @ C)",
        lambda A, B, x: (
            (C := A @ B - B @ A) @ x,
            A @ C - C @ A,
            np.trace(C @ C),
        ),
    ),
    Program(
        "a similarity, from both sides",
        "Q: nn orthogonal, A: nn definite, x: nk",
        "B = Q @ A @ Q.T; B @ x, Q.T @ B @ Q, B @ B - A",
        lambda Q, A, x: ((B := Q @ A @ Q.T) @ x, Q.T @ B @ Q, B @ B - A),
    ),
)
