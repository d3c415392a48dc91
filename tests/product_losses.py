"""Programs of several products: recurrent cells and losses."""

from __future__ import annotations

import numpy as np
from product_programs import EYE, UNIT, Program, identity, logsumexp, normalised, relu, sigmoid, softmax

# -- recurrent cells


def rnn(x, W, U, h):
    hs = []
    for t in range(4):
        h = np.tanh(x[:, t] @ W + h @ U)
        hs.append(h)
    return h, np.stack(hs, 1)


def gru(x, h, W, U):
    for t in range(2):
        z = sigmoid(x[:, t] @ W[0] + h @ U[0])
        r = sigmoid(x[:, t] @ W[1] + h @ U[1])
        n = np.tanh(x[:, t] @ W[2] + (r * h) @ U[2])
        h = (1 - z) * n + z * h
    return h


def lstm(x, h, c, W, U):
    for t in range(2):
        i, f, o = (sigmoid(x[:, t] @ W[k] + h @ U[k]) for k in range(3))
        c = f * c + i * np.tanh(x[:, t] @ W[3] + h @ U[3])
        h = o * np.tanh(c)
    return h, c


def delta_rule(S, k, v):
    for t in range(3):
        S = S + (v[t] - S @ k[t])[:, None] * k[t]
    return S, S @ k[0]


GRU = """
z = sigmoid(x[:, T] @ W[0] + h @ U[0]); r = sigmoid(x[:, T] @ W[1] + h @ U[1])
h = (1 - z) * tanh(x[:, T] @ W[2] + (r * h) @ U[2]) + z * h
"""
LSTM = """
i = sigmoid(x[:, T] @ W[0] + h @ U[0]); f = sigmoid(x[:, T] @ W[1] + h @ U[1])
o = sigmoid(x[:, T] @ W[2] + h @ U[2]); c = f * c + i * tanh(x[:, T] @ W[3] + h @ U[3]); h = o * tanh(c)
"""
RECURRENT = (
    Program(
        "a recurrent network, all its states",
        "x: n4d, W: dk, U: kk, h: nk",
        "a = tanh(x[:, 0] @ W + h @ U); b = tanh(x[:, 1] @ W + a @ U); c = tanh(x[:, 2] @ W + b @ U)\n"
        "d = tanh(x[:, 3] @ W + c @ U); d, stack([a, b, c, d], axis=1)",
        rnn,
    ),
    Program(
        "gated units, two steps",
        "x: n2d, h: nk, W: 3dk, U: 3kk",
        GRU.replace("T", "0") + GRU.replace("T", "1") + "return h",
        gru,
    ),
    Program(
        "long memory, two steps",
        "x: n2d, h: nk, c: nk, W: 4dk, U: 4kk",
        LSTM.replace("T", "0") + LSTM.replace("T", "1") + "return h, c",
        lstm,
    ),
    Program(
        "the delta rule",
        "S: nd, k: 3d, v: 3n",
        "S = S + (v[0] - S @ k[0])[:, None] * k[0]; S = S + (v[1] - S @ k[1])[:, None] * k[1]\n"
        "S = S + (v[2] - S @ k[2])[:, None] * k[2]; S, S @ k[0]",
        delta_rule,
    ),
    Program(
        "steps without a nonlinearity",
        "a: nd, b: nd, W: dk, U: kk",
        "(b @ W + (a @ W) @ U) @ U, (a @ W) @ U @ U @ U",
        lambda a, b, W, U: ((b @ W + (a @ W) @ U) @ U, a @ W @ U @ U @ U),
    ),
)

# -- losses


def contrastive(x, y):
    s = 5 * normalised(x) @ normalised(y).T
    d = np.diagonal(s)
    return (logsumexp(s, 1) - d).mean() + (logsumexp(s, 0) - d).mean(), softmax(s, 0).T @ x


def two_views(x, y):
    z = normalised(np.concatenate([x, y]))
    s = np.where(identity(z @ z.T) > 0, -np.inf, 4 * z @ z.T)
    n = x.shape[0]
    return logsumexp(s, 1) - 4 * (z * np.concatenate([z[n:], z[:n]])).sum(1)


def standard(x):
    c = x - x.mean(0)
    return c / np.sqrt((c * c).mean(0) + 1e-3)


def barlow(x, y):
    c = standard(x).T @ standard(y) / x.shape[0]
    i = identity(c)
    return np.square(i * (c - 1)).sum() + 0.01 * np.square((1 - i) * c).sum()


def vicreg(x, y):
    c = x - x.mean(0)
    s = c.T @ c / (x.shape[0] - 1)
    return (
        np.square((1 - identity(s)) * s).sum() / x.shape[1],
        relu(1 - np.sqrt(np.diagonal(s) + 1e-4)).mean(),
        ((x - y) ** 2).mean(),
    )


LOSSES = (
    Program(
        "contrasts in both directions",
        "x: nd, y: nd",
        UNIT + "s = 5 * unit(x) @ unit(y).T; d = diagonal(s)\n"
        "return mean(logsumexp(s, 1) - d) + mean(logsumexp(s, 0) - d), softmax(s, 0).T @ x",
        contrastive,
    ),
    Program(
        "contrasts of two views",
        "x: nd, y: nd",
        UNIT + EYE + "z = unit(concat([x, y])); s = 4 * z @ z.T; n = size(x, 0)\n"
        "logsumexp(where(eye(s) > 0, -inf, s), 1) - 4 * sum(z * concat([z[n:], z[:n]]), 1)",
        two_views,
    ),
    Program(
        "Barlow's twins",
        "x: nd unit, y: nd unit",
        EYE + "st(x) = (x - mean(x, 0)) / sqrt(var(x, 0) + 1e-3); c = st(x).T @ st(y) / size(x, 0); i = eye(c)\n"
        "sum(square(i * (c - 1))) + 0.01 * sum(square((1 - i) * c))",
        barlow,
    ),
    Program(
        "covariances of a representation",
        "x: nd unit, y: nd unit",
        EYE + "c = x - mean(x, 0); s = c.T @ c / (size(x, 0) - 1)\n"
        "return sum(square((1 - eye(s)) * s)) / size(x, 1), mean(relu(1 - sqrt(diagonal(s) + 1e-4))), "
        "mean((x - y) ** 2)",
        vicreg,
    ),
    Program(
        "differences of Gram matrices",
        "x: nd, y: md",
        "g = x.T @ x / size(x, 0) - y.T @ y / size(y, 0); sum(square(g)), 4 * x @ g / size(x, 0)",
        lambda x, y: (
            np.square(g := x.T @ x / x.shape[0] - y.T @ y / y.shape[0]).sum(),
            4 * x @ g / x.shape[0],
        ),
    ),
    Program(
        "bilinear scores, and their losses",
        "x: nd, y: nk, A: dk",
        "s = x @ A @ y.T; d = diagonal(s); mean(relu(1 + s - d[:, None])), sum((x @ A) * y, 1), softmax(s, 0) @ y",
        lambda x, y, A: (
            relu(1 + (s := x @ A @ y.T) - np.diagonal(s)[:, None]).mean(),
            ((x @ A) * y).sum(1),
            softmax(s, 0) @ y,
        ),
    ),
    Program(
        "the gradient of a softmax regression",
        "x: nd, W: dk, y: nk labels",
        "z = x @ W; p = softmax(z); g = x.T @ (p - y) / size(x, 0); mean(logsumexp(z, 1) - sum(z * y, 1)), g, x @ g",
        lambda x, W, y: (
            (logsumexp(z := x @ W, 1) - (z * y).sum(1)).mean(),
            (g := x.T @ (softmax(z) - y) / x.shape[0]),
            x @ g,
        ),
    ),
)
