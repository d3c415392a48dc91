"""Programs of several products: optimisers, networks and their gradients."""

from __future__ import annotations

import numpy as np
from product_programs import EYE, Program, identity, layer_norm, relu, sigmoid, softmax

# -- optimisers


def muon(g):
    x = g / np.sqrt((g * g).sum())
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * (a @ a)) @ x
    return x


def coupled(A):
    i = identity(A)
    y, z = A / 2, i
    for _ in range(3):
        t = 0.5 * (3 * i - z @ y)
        y, z = y @ t, t @ z
    return y, z


def galore(P, g, m, v):
    r = P.T @ g
    m, v = 0.9 * m + 0.1 * r, 0.99 * v + 0.01 * r * r
    return P @ (m / (np.sqrt(v) + 1e-3)), m, v


def soap(L, R, G, V):
    q = L.T @ G @ R
    v = 0.9 * V + 0.1 * q * q
    return L @ (q / np.sqrt(v)) @ R.T, v


def least_squares(x, y, w):
    for _ in range(3):
        w = w - 0.5 * (x.T @ (x @ w - y)) / x.shape[0]
    return w


def conjugate_gradients(A, b):
    x, r, p = 0 * b, b, b
    for _ in range(2):
        q = A @ p
        a = (r @ r) / (p @ q)
        x, s = x + a * p, r - a * q
        p = s + (s @ s) / (r @ r) * p
        r = s
    return x


STEP = "q = A @ p; a = (r @ r) / (p @ q); x = x + a * p; s = r - a * q; p = s + (s @ s) / (r @ r) * p; r = s\n"
OPTIMISERS = (
    Program(
        "Muon, five steps",
        "g: nd",
        "x = g / sqrt(sum(g * g))\n" + "a = x @ x.T; x = 3.4445 * x + (-4.775 * a + 2.0315 * (a @ a)) @ x\n" * 5 + "x",
        muon,
    ),
    Program(
        "a root and its inverse by Newton-Schulz",
        "A: nn definite",
        EYE
        + "i = eye(A); y = A / 2; z = i + 0 * A\n"
        + "t = 0.5 * (3 * i - z @ y); y = y @ t; z = t @ z\n" * 3
        + "return y, z",
        coupled,
    ),
    Program(
        "Shampoo",
        "G: nm, L: nn definite, R: mm definite, Li: nn, Ri: mm",
        "L + G @ G.T, R + G.T @ G, Li @ G @ Ri",
        lambda G, L, R, Li, Ri: (L + G @ G.T, R + G.T @ G, Li @ G @ Ri),
    ),
    Program(
        "GaLore",
        "P: nk orthogonal, g: nm, m: km, v: km positive",
        """
        r = P.T @ g; m = 0.9 * m + 0.1 * r; v = 0.99 * v + 0.01 * r * r
        return P @ (m / (sqrt(v) + 1e-3)), m, v""",
        galore,
    ),
    Program(
        "SOAP",
        "L: nn orthogonal, R: mm orthogonal, G: nm, V: nm positive",
        """
        q = L.T @ G @ R; v = 0.9 * V + 0.1 * q * q
        return L @ (q / sqrt(v)) @ R.T, v""",
        soap,
    ),
    Program(
        "Kronecker factors of curvature",
        "a: nd, g: nk, G: dk, Ai: dd definite, Gi: kk definite",
        "a.T @ a / size(a, 0), g.T @ g / size(g, 0), Ai @ G @ Gi, sum((Ai @ G @ Gi) * G)",
        lambda a, g, G, Ai, Gi: (
            a.T @ a / a.shape[0],
            g.T @ g / g.shape[0],
            Ai @ G @ Gi,
            ((Ai @ G @ Gi) * G).sum(),
        ),
    ),
    Program(
        "least squares by gradient descent",
        "x: nd unit, y: nk, w: dk",
        "w = w - 0.5 * (x.T @ (x @ w - y)) / size(x, 0)\n" * 3 + "w",
        least_squares,
    ),
    Program(
        "conjugate gradients",
        "A: nn definite, b: n unit",
        "x = 0 * b; r = b; p = b\n" + STEP * 2 + "x",
        conjugate_gradients,
    ),
    Program(
        "a layer with a low-rank addition",
        "x: nd, W: dh, A: dk, B: kh",
        "x @ W + (x @ A) @ B * 0.5, x @ (W + 0.5 * A @ B)",
        lambda x, W, A, B: (x @ W + (x @ A) @ B * 0.5, x @ (W + 0.5 * A @ B)),
    ),
    Program(
        "the gradients of a low-rank addition",
        "x: nd, A: dk, B: kh, g: nh",
        "t = g @ B.T; x.T @ t, (x @ A).T @ g, t @ A.T",
        lambda x, A, B, g: (x.T @ (g @ B.T), (x @ A).T @ g, g @ B.T @ A.T),
    ),
)

# -- networks


def mlp_gradients(x, W, V, y):
    a = x @ W
    h = relu(a)
    e = h @ V - y
    d = (e @ V.T) * (a > 0)
    return h.T @ e, x.T @ d, d @ W.T, (e * e).sum()


def residual(x, W, V):
    for k in range(2):
        x = x + relu(layer_norm(x) @ W[k]) @ V[k]
    return x


def mixer(x, W, U, V, Z):
    x = x + (relu(layer_norm(x).T @ W) @ U).T
    return x + relu(layer_norm(x) @ V) @ Z


def experts(x, G, W, V):
    p = softmax(x @ G)
    h = relu(np.einsum("nd,edh->neh", x, W))
    return np.einsum("ne,neh,ehk->nk", p, h, V, optimize=True), p.mean(0)


def hopfield(q, X):
    for _ in range(2):
        q = softmax(3 * q @ X.T) @ X
    return q


def highway(x, W, V):
    for _ in range(3):
        t = sigmoid(x @ V)
        x = t * np.tanh(x @ W) + (1 - t) * x
    return x


NORM = "ln(x) = (x - mean(x, -1, keepdims=True)) / sqrt(var(x, -1, keepdims=True) + 1e-5)\n"
NETWORKS = (
    Program(
        "two residual blocks",
        "x: nd unit, W: 2dh, V: 2hd",
        NORM + "x = x + relu(ln(x) @ W[0]) @ V[0]; x + relu(ln(x) @ W[1]) @ V[1]",
        residual,
    ),
    Program(
        "a mixer's block",
        "x: nd unit, W: nh, U: hn, V: dk, Z: kd",
        NORM + "x = x + (relu(ln(x).T @ W) @ U).T; x + relu(ln(x) @ V) @ Z",
        mixer,
    ),
    Program(
        "a gated layer after a norm",
        "x: nd unit, w: d positive, W: dh, V: dh, U: hd",
        "y = x / sqrt(mean(x * x, -1, keepdims=True) + 1e-5) * w; g = y @ W; x + (g * sigmoid(g) * (y @ V)) @ U",
        lambda x, w, W, V, U: (
            x + ((g := (y := x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w) @ W) * sigmoid(g) * (y @ V)) @ U
        ),
    ),
    Program(
        "experts, all of them",
        "x: nd, G: de, W: edh, V: ehk",
        'p = softmax(x @ G); h = relu(einsum("nd,edh->neh", x, W)); einsum("ne,neh,ehk->nk", p, h, V), mean(p, 0)',
        experts,
    ),
    Program(
        "a Hopfield network, twice",
        "q: nd, X: md",
        "q = softmax(3 * q @ X.T) @ X; softmax(3 * q @ X.T) @ X",
        hopfield,
    ),
    Program(
        "tied weights",
        "x: nd, W: dh",
        "h = relu(x @ W); r = h @ W.T; e = r - x; r, x.T @ ((e @ W) * (h > 0)) + e.T @ h",
        lambda x, W: (
            (h := relu(x @ W)) @ W.T,
            x.T @ (((e := h @ W.T - x) @ W) * (h > 0)) + e.T @ h,
        ),
    ),
    Program(
        "the gradients of two layers",
        "x: nd, W: dh, V: hk, y: nk",
        "a = x @ W; h = relu(a); e = h @ V - y; d = (e @ V.T) * (a > 0); h.T @ e, x.T @ d, d @ W.T, sum(e * e)",
        mlp_gradients,
    ),
    Program(
        "highways",
        "x: nd, W: dd, V: dd",
        "step(x) = sigmoid(x @ V) * tanh(x @ W) + (1 - sigmoid(x @ V)) * x\nstep(step(step(x)))",
        highway,
    ),
    Program(
        "four layers",
        "x: nd, A: dh, B: hk, C: km, D: mr",
        "tanh(tanh(relu(tanh(x @ A) @ B) @ C) @ D)",
        lambda x, A, B, C, D: np.tanh(np.tanh(relu(np.tanh(x @ A) @ B) @ C) @ D),
    ),
    Program(
        "weights from a network",
        "x: nd, z: nk, U: km",
        "w = tanh(z @ U); h = x @ (x.T @ w); relu(h) @ w.T",
        lambda x, z, U: relu(x @ (x.T @ (w := np.tanh(z @ U)))) @ w.T,
    ),
)
