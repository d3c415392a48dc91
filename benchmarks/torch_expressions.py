"""The list of examples/expressions.py as torch functions: what torch.compile gets, and in float64 the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

TWINS: dict[str, Callable] = {}


def twin(*names: str) -> Callable:
    """Register a function of the expression's inputs, by name, under these expressions."""

    def register(function: Callable) -> Callable:
        TWINS.update(dict.fromkeys(names, function))
        return function

    return register


def _norm(u: Any, eps: float = 1e-6) -> Any:
    return u * torch.rsqrt((u * u).mean(-1, keepdim=True) + eps)


def _wide(*arrays: Any) -> tuple:
    """As a careful author writes it: 16-bit inputs are computed in float32."""
    return tuple(x.float() if x.dtype == torch.bfloat16 else x for x in arrays)


twin("axpby")(lambda a, b: 2 * a + 3 * b)
twin("sin2cos2")(lambda a, b: torch.sin(a) ** 2 + torch.cos(b) ** 2)
twin("polynomial_wave")(lambda t, x0, x1, x2, x3, x4, x5: (x0 + x1 * t + x2 * t**2) * torch.cos(x3 + x4 * t + x5**t))
twin("mask_rows")(lambda mask, p: torch.where(mask[:, None], math.inf, p))
twin("gelu", "gelu_wide")(lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3))))
twin("mish")(lambda x: F.mish(x))
twin("selu")(lambda x: F.selu(x))
twin("hardswish")(lambda x: F.hardswish(x))
twin("softplus")(lambda x: F.softplus(x))
twin("swiglu")(lambda g, u: F.silu(g) * u)
twin("geglu")(lambda g, u: F.gelu(g) * u)
twin("relu2")(lambda x: F.relu(x) ** 2)
twin("dynamic_tanh")(lambda alpha, x, gamma, beta: torch.tanh(alpha * x) * gamma + beta)
twin("distance")(lambda x, y: ((x - y) ** 2).sum(-1))
twin("pairs_above")(lambda p, t: p.sum(-1) > t)
twin("weighted_mean")(lambda x, w: (x * w).sum(-1) / w.sum(-1))
twin("argmax_max")(lambda x: (x.argmax(-1), x.amax(-1)))
twin("rms_norm")(lambda x, w: F.rms_norm(x, w.shape, w, 1e-6))
twin("rms_norm_gemma")(lambda x, w: F.rms_norm(x, w.shape, 1 + w, 1e-6))
twin("layer_norm", "layer_norm_long")(lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5))
twin("softmax_bias", "softmax_long")(lambda x, scale, bias: torch.softmax(x * scale + bias, -1))
twin("l1_norm")(lambda x: x / x.abs().mean(1, keepdim=True))
twin("sum_middle")(lambda x: x.sum(1))
twin("max_middle")(lambda x: x.amax(1))
twin("argmin_middle")(lambda x: x.argmin(1))
twin("channel_rms_norm")(lambda x: x / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-5))
twin("batch_norm")(lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True, eps=1e-5))
twin("instance_norm")(lambda x: F.instance_norm(x, eps=1e-5))
twin("group_norm_swish")(lambda x, w, b: F.silu(F.group_norm(x, 8, w, b, 1e-5)))
twin("softmax_first")(lambda x: torch.softmax(x, 0))
twin("softmax_channel")(lambda x, b: torch.sigmoid((torch.softmax(x, 1) + b) * 2))
twin("mse")(lambda x, y: F.mse_loss(x, y))
twin("huber")(lambda x, y: F.huber_loss(x, y))
twin("hinge")(lambda p, t: torch.clamp(1 - p * t, min=0).mean())
twin("frobenius")(lambda x: x / torch.sqrt((x * x).sum()))
twin("softmax_backward")(lambda p, g: p * (g - (p * g).sum(-1, keepdim=True)))
twin("sinkhorn")(lambda f, C, eps: -eps * torch.logsumexp((f - C) / eps, -1))
twin("cumsum")(lambda x: torch.cumsum(x, -1))
twin("cumsum_masked")(lambda x, mask: torch.cumsum(torch.where(mask, x, 0.0), -1))


@twin("complex_waves")
def complex_waves(xr, xi, c0, c1):
    x = torch.complex(xr, xi)
    z = c0 * 1j * x**2 * torch.exp(2.5e-10 * 1j * x) + c1 * 1j * x**2 * torch.exp(5e-10 * 1j * x)
    return z.real, z.imag


@twin("black_scholes")
def black_scholes(S, K, t, r, v):
    def phi(z):
        return 0.5 + 0.5 * torch.erf(z * 0.7071067811865476)

    d1 = (torch.log(S / K) + (r + v * v / 2) * t) / (v * torch.sqrt(t))
    d2 = d1 - v * torch.sqrt(t)
    call = S * phi(d1) - K * torch.exp(-r * t) * phi(d2)
    return call, call - S + K * torch.exp(-r * t)


@twin("swiglu_packed")
def swiglu_packed(x):
    g, u = x.chunk(2, -1)
    return F.silu(g) * u


@twin("rope")
def rope(q1, q2, k1, k2, c, s):
    made = (q1 * c - q2 * s, q2 * c + q1 * s, k1 * c - k2 * s, k2 * c + k1 * s)
    return tuple(one.to(q1.dtype) for one in made) if q1.dtype == torch.bfloat16 else made


@twin("adamw")
def adamw(w, g, m, v, b1, b2, lr, wd, eps, c1, c2):
    m2 = b1 * m + (1 - b1) * g
    v2 = b2 * v + (1 - b2) * g * g
    w2 = w * (1 - lr * wd) - lr * (m2 / c1) / (torch.sqrt(v2 / c2) + eps)
    return m2, v2, w2, w2.bfloat16()


@twin("dropout")
def dropout(r, seed, p, x):
    return r + F.dropout(x, p)


@twin("add_rms_norm")
def add_rms_norm(x, r, w):
    total = x + r
    return total, F.rms_norm(total, w.shape, w, 1e-6)


@twin("rms_norm_fp8")
def rms_norm_fp8(x, r, w, s):
    x, r, w = _wide(x, r, w)
    total = x + r
    return total.bfloat16(), (_norm(total) * w / s).clamp(-448, 448).to(torch.float8_e4m3fn)


@twin("rms_norm_fp8_token")
def rms_norm_fp8_token(x, r, w):
    x, r, w = _wide(x, r, w)
    total = x + r
    y = _norm(total) * w
    s = y.abs().amax(-1, keepdim=True) / 448
    return total.bfloat16(), (y / s).to(torch.float8_e4m3fn), s.bfloat16()


@twin("adaln")
def adaln(x, r, gate, scale, shift):
    total = r + x * gate
    return total, F.layer_norm(total, total.shape[-1:], None, None, 1e-5) * (1 + scale) + shift


@twin("poly_norm")
def poly_norm(x, w0, w1, w2, b):
    (z,) = _wide(x)
    return (w0 * _norm(z**3) + w1 * _norm(z**2) + w2 * _norm(z) + b).to(x.dtype)


@twin("qk_norm_rope")
def qk_norm_rope(x, w, c, s):
    n = _norm(*_wide(x)) * w
    turned = torch.cat([-n[..., 64:], n[..., :64]], -1)
    return (n * c[:, None] + turned * s[:, None]).to(x.dtype)


@twin("logsumexp_guarded")
def logsumexp_guarded(x):
    return torch.logsumexp(x, -1, keepdim=True)


@twin("cross_entropy")
def cross_entropy(x, y, weight, cap, smooth, ignore):
    (z,) = _wide(x)
    z = cap * torch.tanh(z / cap)
    lse = torch.logsumexp(z, -1)
    picked = torch.gather(z, -1, y[:, None])[:, 0]
    loss = (1 - smooth) * (lse - picked) + smooth * (lse - z.mean(-1)) + 0.0001 * lse**2
    return torch.where(y == ignore, 0.0, loss * weight)


@twin("cross_entropy_gradient")
def cross_entropy_gradient(x, y):
    (z,) = _wide(x)
    lse = torch.logsumexp(z, -1, keepdim=True)
    loss = (lse - torch.gather(z, -1, y[:, None]))[:, 0]
    hot = (torch.arange(z.shape[-1], device=z.device) == y[:, None]).to(z.dtype)
    return loss.to(x.dtype), (torch.exp(z - lse) - hot).to(x.dtype)


@twin("kl")
def kl(p, q):
    x, y = _wide(p, q)
    return (torch.exp(x) * (x - y)).sum(-1).to(p.dtype)


@twin("jsd")
def jsd(b, p, q):
    x, y = _wide(p, q)
    m = torch.log(b * torch.exp(x) + (1 - b) * torch.exp(y))
    return (b * torch.exp(x) * (x - m) + (1 - b) * torch.exp(y) * (y - m)).sum(-1).to(p.dtype)


@twin("tvd")
def tvd(p, q):
    x, y = _wide(p, q)
    return (0.5 * (x - y).abs().sum(-1)).to(p.dtype)


@twin("grpo")
def grpo(x, y, temperature, b, old, ref, A):
    (z,) = _wide(x)
    z = z / temperature
    lp = torch.gather(z, -1, y[:, None])[:, 0] - torch.logsumexp(z, -1)
    c = torch.exp(lp - old)
    return -torch.minimum(c * A, c.clamp(0.8, 1.2) * A) + b * (torch.exp(ref - lp) - (ref - lp) - 1)


@twin("triplet")
def triplet(a, p, n, margin):
    return torch.clamp((a - p).norm(dim=-1) - (a - n).norm(dim=-1) + margin, min=0).mean()


@twin("group_fp8")
def group_fp8(x):
    (z,) = _wide(x)
    groups = z.reshape(z.shape[0], -1, 128)
    s = groups.abs().amax(-1, keepdim=True) / 448
    return (groups / s).to(torch.float8_e4m3fn).reshape(x.shape), s[..., 0].to(x.dtype)


@twin("int4_dequant")
def int4_dequant(w, s, z):
    shifts = 4 * torch.arange(8, device=w.device, dtype=torch.int32)
    q = ((w[:, :, None] >> shifts) & 15).reshape(w.shape[0], -1, 128)
    return ((q - z[:, :, None]) * s[:, :, None]).reshape(w.shape[0], -1).bfloat16()


@twin("tensor_fp8")
def tensor_fp8(x):
    (z,) = _wide(x)
    s = 448 / z.abs().amax().clamp(min=1e-12)
    q = (z * s).clamp(-448, 448).to(torch.float8_e4m3fn)
    return q, q.t().contiguous()


@twin("rms_norm_backward")
def rms_norm_backward(x, w, g):
    z, weight, grad = _wide(x, w, g)
    rs = torch.rsqrt((z * z).mean(-1, keepdim=True) + 1e-6)
    xh, wg = z * rs, weight * grad
    dx = rs * (wg - xh * (wg * xh).mean(-1, keepdim=True))
    return dx.to(x.dtype), (grad * xh).sum(0).to(x.dtype)


@twin("layer_norm_backward")
def layer_norm_backward(x, w, g):
    z, weight, grad = _wide(x, w, g)
    mean = z.mean(-1, keepdim=True)
    rs = torch.rsqrt(((z - mean) ** 2).mean(-1, keepdim=True) + 1e-5)
    xh, wg = (z - mean) * rs, weight * grad
    dx = rs * (wg - wg.mean(-1, keepdim=True) - xh * (wg * xh).mean(-1, keepdim=True))
    return dx.to(x.dtype), (grad * xh).sum(0).to(x.dtype), grad.sum(0).to(x.dtype)


@twin("swiglu_backward")
def swiglu_backward(g, u, d):
    s = torch.sigmoid(g)
    return d * u * s * (1 + g * (1 - s)), d * g * s


@twin("min_p")
def min_p(x, temperature, mp):
    p = torch.softmax(x / temperature, -1)
    q = torch.where(p >= mp * p.amax(-1, keepdim=True), p, 0.0)
    return q / q.sum(-1, keepdim=True)


@twin("router")
def router(x):
    v, i = torch.topk(torch.softmax(x, -1), 8)
    return v / v.sum(-1, keepdim=True), i.int()


@twin("cross_entropy_plain")
def cross_entropy_plain(x, y):
    (z,) = _wide(x)
    return (torch.logsumexp(z, -1) - torch.gather(z, -1, y[:, None])[:, 0]).to(x.dtype)


twin("softmax")(lambda x: torch.softmax(x, -1))
twin("sum_all")(lambda x: x.sum())
twin("sum_columns")(lambda x: x.sum(0))
twin("sum_rows")(lambda x: x.sum(-1))
twin("max_columns")(lambda x: x.amax(0))
twin("argmax_all")(lambda x: x.argmax())
twin("var_columns")(lambda x: x.var(0, correction=0))
