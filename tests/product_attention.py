"""Programs of several products: attention in its variants, chains of tensors."""

from __future__ import annotations

import numpy as np
from product_programs import CAUSAL, UNIT, Program, layer_norm, normalised, relu, sigmoid, softmax


def causal(s):
    return np.tril(np.ones_like(s)) > 0


def feature(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def self_attention(x):
    for _ in range(2):
        x = x + softmax(x @ x.T) @ x
    return x


def projected(x, Wq, Wk, Wv, Wo):
    q, k, v = x @ Wq, x @ Wk, x @ Wv
    s = np.where(causal(q @ k.T), q @ k.T, -np.inf)
    return x + softmax(s) @ v @ Wo


def block(x, Wq, Wk, Wv, W, V):
    n = layer_norm(x)
    x = x + softmax((n @ Wq) @ (n @ Wk).T) @ (n @ Wv)
    return x + relu(layer_norm(x) @ W) @ V


def gradients(q, k, v, g):
    p = softmax(q @ k.T)
    dp = g @ v.T
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))
    return p @ v, ds @ k, ds.T @ q, p.T @ g


def self_gradient(x, g):
    p = softmax(x @ x.T)
    dp = g @ x.T
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))
    return ds @ x + ds.T @ x + p.T @ g


def rollout(q, k):
    r = np.eye(q.shape[1], dtype=q.dtype)
    for layer in range(3):
        r = (0.5 * softmax(q[layer] @ k[layer].T) + 0.5 * np.eye(q.shape[1], dtype=q.dtype)) @ r
    return r


def linear_causal(q, k, v):
    s = np.tril(feature(q) @ feature(k).T)
    return s @ v / s.sum(-1, keepdims=True)


def retention(q, k, v):
    i, j = np.arange(q.shape[0])[:, None], np.arange(q.shape[0])
    s = np.where(j <= i, (q @ k.T) * 0.9 ** np.maximum(i - j, 0), 0)
    return s @ v, (s / (1 + np.abs(s.sum(-1, keepdims=True)))) @ v


def used_thrice(q, k, v):
    p = softmax(q @ k.T)
    return p @ v, p.sum(0), -(p * np.log(p)).sum(-1), p.T @ q


def talking(q, k, v, W, U):
    s = np.einsum("hnd,hmd->hnm", q, k)
    p = softmax(np.einsum("hnm,hg->gnm", s, W))
    return np.einsum("gnm,gh,hmd->hnd", p, U, v, optimize=True)


def heads(x, Wq, Wk, Wv, Wo):
    q, k, v = (np.einsum("nd,hde->hne", x, w) for w in (Wq, Wk, Wv))
    return np.einsum("hnm,hme,hed->nd", softmax(q @ k.swapaxes(-1, -2)), v, Wo, optimize=True)


def nystrom(q, k, v, a, b):
    f, z, g = softmax(q @ a.T), softmax(b @ a.T), softmax(b @ k.T)
    i = np.eye(z.shape[0], dtype=z.dtype)
    y = z.T / (np.abs(z).sum(0).max() * np.abs(z).sum(1).max())
    for _ in range(2):
        y = y @ (2 * i - z @ y)
    return f @ (y @ (g @ v))


def slots(x, s, Wk, Wv):
    k, v = x @ Wk, x @ Wv
    for _ in range(2):
        p = softmax(s @ k.T, 0) + 1e-3
        s = (p / p.sum(-1, keepdims=True)) @ v
    return s


def induced(x, i):
    h = softmax(i @ x.T) @ x
    return softmax(x @ h.T) @ h


def doubly(q, k, v):
    p = softmax(q @ k.T)
    p = p / p.sum(0)
    return p @ v, p.T @ (p @ v)


def windowed(q, k, v):
    i, j = np.arange(q.shape[0])[:, None], np.arange(k.shape[0])
    s = q @ k.T
    return np.where(abs(i - j) <= 3, s, 0) @ v, np.where(abs(i - j) <= 3, relu(s), 0) @ v


def hops(u, M, C):
    for _ in range(2):
        u = u + softmax(u @ M.T) @ C
    return u, u @ C.T


def cross(x, y, Wk, Wv):
    x = x + softmax(x @ (y @ Wk).T) @ (y @ Wv)
    return x + softmax(x @ x.T) @ x


def gated_linear(q, k, v, g):
    s = np.tril(q @ k.T)
    return sigmoid(g) * (s @ v), (s * s) @ v


LINEAR = "f(x) = where(x > 0, x + 1, exp(minimum(x, 0)))\n"
ATTENTION = (
    Program("self-attention of x alone", "x: nd", "softmax(x @ x.T) @ x", lambda x: softmax(x @ x.T) @ x),
    Program(
        "two layers of it", "x: nd small", "x = x + softmax(x @ x.T) @ x; x + softmax(x @ x.T) @ x", self_attention
    ),
    Program(
        "weights over columns",
        "x: nd, y: nk",
        "p = softmax(x @ x.T, axis=0); p @ y, p.T @ y, x.T @ p",
        lambda x, y: ((p := softmax(x @ x.T, 0)) @ y, p.T @ y, x.T @ p),
    ),
    Program(
        "causal attention of projections, projected",
        "x: nd, Wq: dk, Wk: dk, Wv: dk, Wo: kd",
        CAUSAL + "s = (x @ Wq) @ (x @ Wk).T; x + softmax(where(causal(s), s, -inf)) @ (x @ Wv) @ Wo",
        projected,
    ),
    Program(
        "a transformer's block",
        "x: nd unit, Wq: dk, Wk: dk, Wv: dd, W: dh, V: hd",
        "ln(x) = (x - mean(x, -1, keepdims=True)) / sqrt(var(x, -1, keepdims=True) + 1e-5)\n"
        "n = ln(x); x = x + softmax((n @ Wq) @ (n @ Wk).T) @ (n @ Wv); x + relu(ln(x) @ W) @ V",
        block,
    ),
    Program(
        "gradients of attention",
        "q: nd, k: md, v: mk, g: nk",
        "p = softmax(q @ k.T); dp = g @ v.T; ds = p * (dp - sum(dp * p, -1, keepdims=True))\n"
        "return p @ v, ds @ k, ds.T @ q, p.T @ g",
        gradients,
    ),
    Program(
        "the gradient of self-attention",
        "x: nd, g: nd",
        "p = softmax(x @ x.T); dp = g @ x.T; ds = p * (dp - sum(dp * p, -1, keepdims=True))\n"
        "ds @ x + ds.T @ x + p.T @ g",
        self_gradient,
    ),
    Program(
        "attention rollout",
        "q: 3nd, k: 3nd",
        "a(q, k) = 0.5 * softmax(q @ k.T) + where(iota(q @ k.T, -1) == iota(q @ k.T, -2), 0.5, 0)\n"
        "a(q[2], k[2]) @ (a(q[1], k[1]) @ a(q[0], k[0]))",
        rollout,
    ),
    Program(
        "weights received, causal",
        "x: nd",
        CAUSAL + "s = x @ x.T; p = softmax(where(causal(s), s, -inf)); sum(p, 0), p @ x, max(p, axis=0)",
        lambda x: (
            (p := softmax(np.where(causal(x @ x.T), x @ x.T, -np.inf))).sum(0),
            p @ x,
            p.max(0),
        ),
    ),
    Program(
        "linear attention",
        "q: nd, k: md, v: mk",
        LINEAR + "S = f(k).T @ v; f(q) @ S / (f(q) @ sum(f(k), 0))[:, None]",
        lambda q, k, v: feature(q) @ (feature(k).T @ v) / (feature(q) @ feature(k).sum(0))[:, None],
    ),
    Program(
        "linear attention, causal",
        "q: nd, k: nd, v: nk",
        LINEAR + CAUSAL + "s = f(q) @ f(k).T; s = where(causal(s), s, 0); s @ v / sum(s, -1, keepdims=True)",
        linear_causal,
    ),
    Program(
        "linear attention, causal and gated",
        "q: nd, k: nd, v: nk, g: nk",
        "s = tril(q @ k.T); sigmoid(g) * (s @ v), (s * s) @ v",
        gated_linear,
    ),
    Program(
        "retention",
        "q: nd, k: nd, v: nk",
        "s = q @ k.T; i = iota(s, -2); j = iota(s, -1); s = where(j <= i, s * 0.9 ** maximum(i - j, 0), 0)\n"
        "return s @ v, (s / (1 + abs(sum(s, -1, keepdims=True)))) @ v",
        retention,
    ),
    Program(
        "a window without a softmax",
        "q: nd, k: md, v: mk",
        "s = q @ k.T; w = abs(iota(s, -2) - iota(s, -1)) <= 3; where(w, s, 0) @ v, where(w, relu(s), 0) @ v",
        windowed,
    ),
    Program(
        "weights used four times",
        "q: nd, k: md, v: mk",
        "p = softmax(q @ k.T); p @ v, sum(p, 0), -sum(p * log(p), -1), p.T @ q",
        used_thrice,
    ),
    Program(
        "talking heads",
        "q: hnd, k: hmd, v: hmd, W: hh, U: hh",
        's = einsum("hnd,hmd->hnm", q, k); p = softmax(einsum("hnm,hg->gnm", s, W)); '
        'einsum("gnm,gh,hmd->hnd", p, U, v)',
        talking,
    ),
    Program(
        "heads, projected in and out",
        "x: nd, Wq: hde, Wk: hde, Wv: hde, Wo: hed",
        'pr(w) = einsum("nd,hde->hne", x, w)\neinsum("hnm,hme,hed->nd", softmax(pr(Wq) @ pr(Wk).mT), pr(Wv), Wo)',
        heads,
    ),
    Program(
        "attention of projected lengths",
        "q: nd, k: md, v: me, E: hm, F: hm",
        "softmax(q @ (E @ k).T) @ (F @ v)",
        lambda q, k, v, E, F: softmax(q @ (E @ k).T) @ (F @ v),
    ),
    Program(
        "landmarks",
        "q: nd, k: md, v: me, a: kd, b: kd",
        "f = softmax(q @ a.T); z = softmax(b @ a.T); g = softmax(b @ k.T); i = where(iota(z, 0) == iota(z, 1), 1, 0)\n"
        "y = z.T / (max(sum(abs(z), 0)) * max(sum(abs(z), 1))); y = y @ (2 * i - z @ y); y = y @ (2 * i - z @ y)\n"
        "f @ (y @ (g @ v))",
        nystrom,
    ),
    Program(
        "slots, two iterations",
        "x: nd, s: kh, Wk: dh, Wv: dh",
        "k = x @ Wk; v = x @ Wv; p = softmax(s @ k.T, 0) + 1e-3; s = (p / sum(p, -1, keepdims=True)) @ v\n"
        "p = softmax(s @ k.T, 0) + 1e-3; (p / sum(p, -1, keepdims=True)) @ v",
        slots,
    ),
    Program("induced points", "x: nd, i: kd", "h = softmax(i @ x.T) @ x; softmax(x @ h.T) @ h", induced),
    Program(
        "weights normalised both ways",
        "q: nd, k: md, v: mk",
        "p = softmax(q @ k.T); p = p / sum(p, 0); p @ v, p.T @ (p @ v)",
        doubly,
    ),
    Program(
        "cosines as weights",
        "x: nd, v: nk",
        UNIT + "n = unit(x); n @ (n.T @ v), (n @ n.T) @ v, (n @ n.T) @ (n @ n.T) @ v",
        lambda x, v: (
            (n := normalised(x)) @ (n.T @ v),
            (n @ n.T) @ v,
            (n @ n.T) @ (n @ n.T) @ v,
        ),
    ),
    Program(
        "two hops of memory",
        "u: nd, M: md, C: md",
        "u = u + softmax(u @ M.T) @ C; u = u + softmax(u @ M.T) @ C; u, u @ C.T",
        hops,
    ),
    Program(
        "across, then among themselves",
        "x: nd, y: mk, Wk: kd, Wv: kd",
        "x = x + softmax(x @ (y @ Wk).T) @ (y @ Wv); x + softmax(x @ x.T) @ x",
        cross,
    ),
    Program(
        "weights of weights",
        "q: nd, k: nd, v: nk",
        "p = softmax(q @ k.T); (p @ p) @ v, p @ (p @ (p @ v)), softmax(p @ p.T) @ v",
        lambda q, k, v: (
            ((p := softmax(q @ k.T)) @ p) @ v,
            p @ (p @ (p @ v)),
            softmax(p @ p.T) @ v,
        ),
    ),
)

TENSORS = (
    Program(
        "a chain of three",
        "a: nd, b: dk, c: km",
        'einsum("nd,dk,km->nm", a, b, c), a @ b @ c, a @ (b @ c)',
        lambda a, b, c: (np.einsum("nd,dk,km->nm", a, b, c), a @ b @ c, a @ (b @ c)),
    ),
    Program(
        "Tucker",
        "G: dke, A: nd, B: mk, C: he",
        'einsum("dke,nd,mk,he->nmh", G, A, B, C)',
        lambda G, A, B, C: np.einsum("dke,nd,mk,he->nmh", G, A, B, C, optimize=True),
    ),
    Program(
        "canonical factors",
        "A: nd, B: md, C: kd, x: nm",
        'einsum("nd,md,kd->nmk", A, B, C), einsum("nm,md,kd->nk", x, B, C), (A * (x @ B)) @ C.T',
        lambda A, B, C, x: (
            np.einsum("nd,md,kd->nmk", A, B, C),
            np.einsum("nm,md,kd->nk", x, B, C, optimize=True),
            (A * (x @ B)) @ C.T,
        ),
    ),
    Program(
        "a tensor train",
        "a: nd, b: dmk, c: keh, x: n, y: m, z: e",
        'u = x @ a; v = einsum("d,dmk,m->k", u, b, y); einsum("k,keh,e->h", v, c, z), einsum("nd,dmk,m->nk", a, b, y)',
        lambda a, b, c, x, y, z: (
            np.einsum("k,keh,e->h", np.einsum("d,dmk,m->k", x @ a, b, y, optimize=True), c, z, optimize=True),
            np.einsum("nd,dmk,m->nk", a, b, y, optimize=True),
        ),
    ),
    Program(
        "batches of chains",
        "a: rnd, e: rdk, c: rkm",
        "u = a @ e; w = u @ c; w, sum(w * (u @ c), -1), w.mT @ u",
        lambda a, e, c: (a @ e @ c, (a @ e @ c * (a @ e @ c)).sum(-1), (a @ e @ c).swapaxes(-1, -2) @ (a @ e)),
    ),
    Program(
        "a chain written as broadcast sums",
        "a: nd, b: dk, c: km",
        "t = sum(a[:, :, None] * b, 1); sum(t[:, :, None] * c, 1), sum(t[:, None] * t, -1) @ a",
        lambda a, b, c: (a @ b @ c, (a @ b) @ (a @ b).T @ a),
    ),
)
