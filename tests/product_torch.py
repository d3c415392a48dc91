"""Functions of several products in torch; torch is imported where one is called."""

from __future__ import annotations


def transformer_block(x, Wq, Wk, Wv, Wo, W, V):
    import torch

    def heads(t):
        return t.reshape(t.shape[0], 2, -1).transpose(0, 1)[None]

    n = torch.nn.functional.layer_norm(x, x.shape[-1:])
    a = torch.nn.functional.scaled_dot_product_attention(heads(n @ Wq), heads(n @ Wk), heads(n @ Wv))
    x = x + a[0].transpose(0, 1).reshape(x.shape[0], -1) @ Wo
    n = torch.nn.functional.layer_norm(x, x.shape[-1:])
    return x + torch.nn.functional.gelu(n @ W) @ V


def muon(g):
    x = g / g.norm()
    for _ in range(3):
        a = x @ x.mT
        b = -4.775 * a + 2.0315 * a @ a
        x = 3.4445 * x + b @ x
    return x


def attention_gradient(x, g):
    p = (x @ x.mT).softmax(-1)
    dp = g @ x.mT
    ds = p * (dp - (dp * p).sum(-1, keepdim=True))
    return ds.mT @ x, p.mT @ g


def rollout(q, k):
    import torch

    a = 0.5 * (q @ k.mT).softmax(-1) + 0.5 * torch.eye(q.shape[0], dtype=q.dtype)
    return a @ a, a.sum(0)


def recurrent(x, W, U, h):
    import torch

    for t in range(4):
        h = torch.tanh(x[:, t] @ W + h @ U)
    return h


def gated_unit(x, h, W, U):
    import torch

    for t in range(2):
        r, z, n = (x[:, t] @ W[k] for k in range(3))
        r, z = torch.sigmoid(r + h @ U[0]), torch.sigmoid(z + h @ U[1])
        h = (1 - z) * torch.tanh(n + r * (h @ U[2])) + z * h
    return h


def convolved(A, x, W, U):
    import torch

    d = A.sum(1).rsqrt()
    L = d[:, None] * A * d
    return torch.log_softmax(L @ torch.relu(L @ x @ W) @ U, -1)


def contrastive(x, y):
    import torch

    x, y = (torch.nn.functional.normalize(t, dim=-1) for t in (x, y))
    s = 5 * x @ y.mT
    d = s.diagonal()
    return (s.logsumexp(1) - d).mean() + (s.logsumexp(0) - d).mean()


def low_rank(x, W, A, B):
    return x @ W + (x @ A) @ B * 0.5, (W + A @ B).square().sum()


def linear_attention(q, k, v):
    import torch

    q, k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
    s = torch.tril(q @ k.mT)
    return s @ v / s.sum(-1, keepdim=True)


def covariances(x, W):
    c = x - x.mean(0)
    s = c.mT @ c / (x.shape[0] - 1)
    return W.mT @ s @ W, (s * s).sum()


def experts(x, G, W, V):
    import torch

    p = (x @ G).softmax(-1)
    h = torch.einsum("nd,edh->neh", x, W).relu()
    return torch.einsum("neh,ehk->nek", h, V).mul(p[..., None]).sum(1)


def kalman(x, P, F, Q, H, z, Si):
    x, P = F @ x, F @ P @ F.mT + Q
    K = P @ H.mT @ Si
    return x + K @ (z - H @ x), P - K @ H @ P


def power_iteration(A, v):
    for _ in range(3):
        v = A.mT @ (A @ v)
        v = v / v.norm()
    return v, (A @ v).norm()


FUNCTIONS = (
    (transformer_block, "x: nd unit, Wq: dd, Wk: dd, Wv: dd, Wo: dd, W: dh, V: hd"),
    (muon, "g: nd"),
    (attention_gradient, "x: nd, g: nd"),
    (rollout, "q: nd, k: nd"),
    (recurrent, "x: n4d, W: dk, U: kk, h: nk"),
    (gated_unit, "x: n2d, h: nk, W: 3dk, U: 3kk"),
    (convolved, "A: nn graph, x: nd, W: dh, U: hk"),
    (contrastive, "x: nd, y: nd"),
    (low_rank, "x: nd, W: dh, A: dk, B: kh"),
    (linear_attention, "q: nd, k: nd, v: nk"),
    (covariances, "x: nd unit, W: dk"),
    (experts, "x: nd, G: de, W: edh, V: ehk"),
    (kalman, "x: d, P: dd definite, F: dd, Q: dd definite, H: md, z: m, Si: mm definite"),
    (power_iteration, "A: mn, v: n unit"),
)
