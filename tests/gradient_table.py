"""Every differentiable function of the language, as a text and the torch function that it equals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

RANDOM = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


def recurrence(a: torch.Tensor, b: torch.Tensor, h: Any = 0) -> torch.Tensor:
    """h[t] = a[t] h[t-1] + b[t] along the last axis."""
    states = []
    for t in range(a.shape[1]):
        h = a[:, t] * h + b[:, t]
        states.append(h)
    return torch.stack(states, 1)


ARRAYS: dict[str, np.ndarray] = {
    "x": floats(3, 4),
    "y": floats(3, 4),
    "w": floats(4),
    "p": RANDOM.random((3, 4)) * 0.8 + 0.1,  # in (0.1, 0.9)
    "u": floats(4, 5),
    "z": np.array([[1.0, -2, 0, 0.5], [0, 3, 0, 1], [2, 2, -1, 2]]),  # zeros and ties
    "i": np.array([2, 0, 2, -1]),
    "along": np.array([[1, 1], [0, 3], [-1, 2]]),
    "t": np.array([0, 3, 1]),
    "m": RANDOM.random((3, 4)) < 0.6,
    "e": np.array([[1, -2, 0, 3]], np.int32),
    "c": floats(2, 4, 3),
    "q": floats(2, 4, 3, 8),
    "k": floats(2, 2, 5, 8),
    "v": floats(2, 2, 5, 8),
    "bias": floats(4, 3, 5),
}


# (text, the same in torch): functions of the arrays by name
Case = tuple[str, Callable[..., torch.Tensor]]


def unary(names: str, argument: str, home: Any = torch) -> list[Case]:
    """Functions of one array that have their name in torch."""
    return [(f"{name}({argument})", _of(argument, getattr(home, name))) for name in names.split()]


def _of(argument: str, f: Callable) -> Callable[..., torch.Tensor]:
    return eval(f"lambda {argument}: f({argument})", {"f": f})


def binary(names: str) -> list[Case]:
    """Functions of two arrays, of one shape and broadcast."""
    cases: list[Case] = []
    for name in names.split():
        f = getattr(torch, name)
        cases += [(f"{name}(x, y)", lambda x, y, f=f: f(x, y)), (f"{name}(w, x)", lambda w, x, f=f: f(w, x))]
    return cases


def heads(k: torch.Tensor) -> torch.Tensor:
    return k.repeat_interleave(2, 1)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **named: Any) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, heads(k), heads(v), **named)


ELEMENTWISE: list[Case] = [
    *unary("absolute sign negative square exp exp2 expm1 sin cos tan arctan sinh cosh tanh arcsinh erf erfc floor ceil "
           "trunc fix round sinc deg2rad rad2deg positive sigmoid nan_to_num", "x"),
    *unary("absolute sign square sinc", "z"),
    *unary("sqrt rsqrt log log2 log10 log1p arcsin arccos arctanh lgamma reciprocal logit", "p"),
    *unary("relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh hardswish tanhshrink "
           "softshrink", "x", F),
    ("relu(z)", lambda z: F.relu(z)),
    ("hardsigmoid(x)", lambda x: F.relu6(x + 3) / 6),
    ("arccosh(p + 1.5)", lambda p: torch.arccosh(p + 1.5)),
    ("lgamma(x - 3)", lambda x: torch.lgamma(x - 3)),
    ("lgamma(20 * p)", lambda p: torch.lgamma(20 * p)),
    ("cbrt(p)", lambda p: p ** (1 / 3)),
    ("rint(x), fabs(x), copy(x), degrees(x), radians(x), as_float(x)",
     lambda x: (torch.round(x), x.abs(), x, torch.rad2deg(x), torch.deg2rad(x), x)),
    ("ndtr(x)", lambda x: torch.special.ndtr(x)),
    ('gelu(x, approximate="tanh")', lambda x: F.gelu(x, approximate="tanh")),
    *binary("add subtract multiply divide remainder fmod maximum minimum fmax fmin arctan2 hypot logaddexp logaddexp2 "
            "copysign"),
    ("maximum(x, z), maximum(z, z[::-1]), minimum(z, z[::-1]), fmax(z, z[::-1])",
     lambda x, z: (torch.maximum(x, z), torch.maximum(z, z.flip(0)), torch.minimum(z, z.flip(0)),
                   torch.fmax(z, z.flip(0)))),
    ("p ** x", lambda p, x: p**x),
    ("z ** abs(y), x ** 3, z ** 2, z ** 1, p ** -1.5, 2 ** x, z ** 0",
     lambda z, y, x, p: (z ** y.abs(), x**3, z**2, z, p**-1.5, 2**x, z**0)),
    ("x // y, divmod(x, y)[1]", lambda x, y: (0 * (x + y), torch.remainder(x, y))),
    ("where(x > 0, x * y, y), where(m, x, 1), x if m else 2 * y",
     lambda x, y, m: (torch.where(x > 0, x * y, y), torch.where(m, x, 1), torch.where(m, x, 2 * y))),
    ("clip(x, -0.5, 0.5), clip(z, -1, 2), clip(x, y, None)",
     lambda x, z, y: (x.clip(-0.5, 0.5), z.clip(-1, 2), torch.maximum(x, y))),
    ("lerp(x, y, p), fma(x, y, w), xlogy(x, p), ldexp(x, e), heaviside(x, 0.5)",
     lambda x, y, p, w, e: (torch.lerp(x, y, p), x * y + w, torch.xlogy(x, p), x * 2.0 ** e.double(), 0 * x)),
    ("zeros_like(x) + ones_like(x) * x + full_like(x, 2)", lambda x: x + 2),
    ("tril(x), triu(x, k=1)", lambda x: (x.tril(), x.triu(1))),
    ("float32(x), astype(x, float64)", lambda x: (x.float().double(), x)),
]  # fmt: skip

FOLDS: list[Case] = [
    ("sum(x, axis=0), mean(x), prod(x, axis=-1), prod(z, axis=1)",
     lambda x, z: (x.sum(0), x.mean(), x.prod(-1), z.prod(1))),
    ("max(z, axis=-1), min(z, axis=0), max(x), ptp(x, axis=1)",
     lambda z, x: (z.amax(-1), z.amin(0), x.amax(), x.amax(1) - x.amin(1))),
    ("var(x, axis=0, ddof=1), std(x), norm(x, axis=-1), logsumexp(x, axis=-1)",
     lambda x: (x.var(0), x.std(correction=0), x.norm(dim=-1), x.logsumexp(-1))),
    ("sum(x, axis=1, where=m), max(x, axis=0, where=m, initial=-9)",
     lambda x, m: ((x * m).sum(1), torch.where(m, x, -9).amax(0))),
    ("average(x, axis=-1, weights=p), trapezoid(x)",
     lambda x, p: ((x * p).sum(-1) / p.sum(-1), torch.trapezoid(x))),
    ("nansum(x), nanmean(x, axis=0), nanvar(x), nanstd(x), nanprod(x, axis=0), nanmax(x, axis=0), nanmin(x)",
     lambda x: (x.sum(), x.mean(0), x.var(correction=0), x.std(correction=0), x.prod(0), x.amax(0), x.amin())),
    ("softmax(x), log_softmax(x, axis=0), softmax(z, axis=-1)",
     lambda x, z: (x.softmax(-1), x.log_softmax(0), z.softmax(-1))),
    ("softmax(x, where=m)", lambda x, m: torch.where(m, x, -torch.inf).softmax(-1)),
    ("layer_norm(x, w, 2 * w)", lambda x, w: F.layer_norm(x, (4,), w, 2 * w)),
    ("rms_norm(x, w)", lambda x, w: F.rms_norm(x, (4,), w, 1e-6)),
    ("group_norm(c, 2, w, w)", lambda c, w: F.group_norm(c, 2, w, w)),
    ("cross_entropy(x, t)", lambda x, t: F.cross_entropy(x, t)),
    ("cumsum(x, axis=0), cumprod(x, axis=1), cumprod(z, axis=1), nancumsum(x, axis=1), nancumprod(x, axis=0)",
     lambda x, z: (x.cumsum(0), x.cumprod(1), z.cumprod(1), x.cumsum(1), x.cumprod(0))),
    ("cumulative_sum(x, axis=0), cumulative_prod(x, axis=1)", lambda x: (x.cumsum(0), x.cumprod(1))),
    ("cummax(z, axis=1), cummin(x, axis=0)", lambda z, x: (z.cummax(1)[0], x.cummin(0)[0])),
    ("cumsum(x, 1, exclusive=True)[:, 1:], cumprod(z, 1, exclusive=True)[:, 1:], cummax(z, 1, exclusive=True)[:, 1:]",
     lambda x, z: (x.cumsum(1)[:, :-1], z.cumprod(1)[:, :-1], z.cummax(1)[0][:, :-1])),
    ("logcumsumexp(x, axis=1), logcumsumexp(y, axis=0, reverse=True), logcumsumexp(x, 1, exclusive=True)[:, 1:]",
     lambda x, y: (x.logcumsumexp(1), y.flip(0).logcumsumexp(0).flip(0), x.logcumsumexp(1)[:, :-1])),
    ("linear_scan(z, y), linear_scan(p, x, axis=0, initial=w, reverse=True), linear_scan(z, x, exclusive=True)[:, 1:]",
     lambda z, y, p, x, w: (recurrence(z, y), recurrence(p.flip(0).T, x.flip(0).T, w).T.flip(0),
                            recurrence(z, x)[:, :-1])),
    ("sliding_window(x, 3), sum(sliding_window(y, 2, axis=0)**2, axis=-1), max(sliding_window(z, 3), axis=-1)",
     lambda x, y, z: (x.unfold(1, 3, 1), (y.unfold(0, 2, 1) ** 2).sum(-1), z.unfold(1, 3, 1).amax(-1))),
    ("conv(x[:, None], stack((y[:2, :2], z[:2, :2]))[:, :1], padding=1, stride=2)",
     lambda x, y, z: F.conv1d(x[:, None], torch.stack((y[:2, :2], z[:2, :2]))[:, :1], padding=1, stride=2)),
    ("convolve(x, w[:2], mode='same'), correlate(x, w[1:])",
     lambda x, w: (F.conv1d(F.pad(x[:, None], (1, 0)), w[:2].flip(0)[None, None])[:, 0],
                   F.conv1d(x[:, None], w[1:][None, None])[:, 0])),
    ("sort(x), sort(x, descending=True), topk(x, 2)[0]",
     lambda x: (x.sort(-1)[0], x.sort(-1, descending=True)[0], x.topk(2)[0])),
    ("max(partition(x, 1)[:, :2], axis=-1)", lambda x: x.sort(-1)[0][:, 1]),
    ("median(x, axis=-1), quantile(x, 0.3, axis=-1), percentile(x, 40)",
     lambda x: (x.quantile(0.5, -1), x.quantile(0.3, -1), x.quantile(0.4))),
    ("nanmedian(x, axis=-1), nanquantile(x, 0.3, axis=-1), nanpercentile(x, 40)",
     lambda x: (x.quantile(0.5, -1), x.quantile(0.3, -1), x.quantile(0.4))),
]  # fmt: skip

SHAPES: list[Case] = [
    ("x[1:3, ::-2], x[1], x[:, None, 2], x[::2, 1:], x[-1, -1]",
     lambda x: (x[1:3].flip(1)[:, ::2], x[1], x[:, None, 2], x[::2, 1:], x[-1, -1])),
    ("reshape(x, (2, 6)) ** 2, x.T, transpose(x)[0], swapaxes(x, 0, 1), matrix_transpose(x)",
     lambda x: (x.reshape(2, 6) ** 2, x.T, x.T[0], x.T, x.mT)),
    ("broadcast_to(w, (3, 4)), expand_dims(w, 0), squeeze(w[None]), diff(x)",
     lambda w, x: (w.broadcast_to(3, 4), w[None], w, x.diff())),
    ("concat([x, y * 2], axis=1), stack([x, x * y], axis=1), concat([w, x[0], w])",
     lambda x, y, w: (torch.cat([x, y * 2], 1), torch.stack([x, x * y], 1), torch.cat([w, x[0], w]))),
    ("flip(x, axis=0), roll(x, 1, axis=1), roll(x, -6), repeat(x, 2, axis=1), tile(x, (2, 3))",
     lambda x: (x.flip(0), x.roll(1, 1), x.roll(-6), x.repeat_interleave(2, 1), x.tile(2, 3))),
    ("pad(x, ((0, 0), (1, 2))), pad(x, 1, constant_values=w[0])",
     lambda x, w: (F.pad(x, (1, 2)), torch.where(F.pad(torch.ones(3, 4), (1, 1, 1, 1)) > 0, F.pad(x, (1, 1, 1, 1)),
                                                  w[0]))),
    ('pad(x[None], ((0, 0), (0, 0), (1, 2)), mode="reflect")', lambda x: F.pad(x[None], (1, 2), mode="reflect")),
    ('pad(x[None], ((0, 0), (0, 0), (1, 2)), mode="edge")', lambda x: F.pad(x[None], (1, 2), mode="replicate")),
    ('pad(x[None], ((0, 0), (0, 0), (1, 2)), mode="wrap")', lambda x: F.pad(x[None], (1, 2), mode="circular")),
    ("outer(w, 2 * w), diagonal(x), diagonal(x, offset=1), diagonal(x, offset=-1), trace(x)",
     lambda w, x: (torch.outer(w, 2 * w), x.diagonal(), x.diagonal(1), x.diagonal(-1), x.diagonal().sum())),
    ("take(w, i), take(x, i, axis=1), x[:, i], x[i[:2], 1], take(x, i)",
     lambda w, i, x: (w[i], x[:, i], x[:, i], x[i[:2], 1], x.reshape(-1)[i])),
    ("take_along_axis(x, along, axis=1), x[arange(3) - 1], x[arange(3), arange(3)], x[:, arange(2) + 1]",
     lambda x, along: (torch.take_along_dim(x, along % 4, 1), x.roll(1, 0), x.diagonal(), x[:, 1:3])),
]  # fmt: skip

SCATTERS: list[Case] = [
    ("scatter_add(w, i, x[0]), scatter_add(x, i[:2], u[:2, :3].T, axis=1), scatter_add(w, i + 3, x[1])",
     lambda w, i, x, u: (w.index_add(0, i % 4, x[0]), x.index_add(1, i[:2], u[:2, :3].T),
                         w.index_add(0, torch.tensor([3, 2]), x[1][[1, 3]]))),
    ("scatter_max(w, i, x[0]), scatter_min(z[0], i, z[1])",
     lambda w, i, x, z: (w.scatter_reduce(0, i % 4, x[0], "amax"), z[0].scatter_reduce(0, i % 4, z[1], "amin"))),
    ("scatter(w, i, x[0]), scatter(x, i[:2], u[:2, :3].T, axis=1), scatter(x, i[:3], y)",
     lambda w, i, x, u, y: (torch.stack([x[0, 1], w[1], x[0, 2], x[0, 3]]), x.index_copy(1, i[:2], u[:2, :3].T),
                            torch.stack([y[1], x[1], y[2]]))),
    ("bincount(i, 4, x[0])", lambda i, x: torch.zeros(3, dtype=torch.float64).index_add(0, i[:3], x[0, :3]).new_zeros(4)
     .index_add(0, i[:3], x[0, :3])),
    ("segment_sum(x, ids=t % 2, n=2), segment_mean(x, ids=t % 2, n=2)",
     lambda x, t: (torch.stack([x[0], x[1] + x[2]]), torch.stack([x[0], x[1:].mean(0)]))),
    ("segment_max(x, ids=t % 2, n=2), segment_min(x, ids=t % 2, n=2)",
     lambda x, t: (torch.stack([x[0], x[1:].amax(0)]), torch.stack([x[0], x[1:].amin(0)]))),
    ("segment_softmax(x, ids=t % 2, n=2)", lambda x, t: torch.cat([x[:1].softmax(0), x[1:].softmax(0)])),
]  # fmt: skip

PRODUCTS: list[Case] = [
    ("x.T @ x, x @ w, matmul(x, u), w @ w, dot(x, u), inner(x, w), vdot(x, x), vecdot(x, w)",
     lambda x, w, u: (x.T @ x, x @ w, x @ u, w @ w, x @ u, x @ w, (x * x).sum(), x @ w)),
    ('einsum("ij,kj->ik", x, y), einsum("ij->j", x), einsum("ij,ij->", x, y), tensordot(x, u, axes=1)',
     lambda x, y, u: (x @ y.T, x.sum(0), (x * y).sum(), x @ u)),
    ("x[None] @ y[:, :, None]", lambda x, y: x[None] @ y[:, :, None]),
    ("attention(q, k, v)", lambda q, k, v: attended(q, k, v)),
    ('attention(q, k, v, mask="j <= i + 2")',
     lambda q, k, v: attended(q, k, v, attn_mask=torch.ones(3, 5).tril(2).bool())),
    ('attention(q, k, v, score="score + bias[h, i, j]", bias=bias)',
     lambda q, k, v, bias: attended(q, k, v, attn_mask=bias)),
    ('attention(q, k, v, score="3 * tanh(score / 3)", return_lse=True)[1]',
     lambda q, k, v: (3 * torch.tanh(q @ heads(k).mT / 8**0.5 / 3)).logsumexp(-1).float().double()),
    ("softmax(q[:, :2] @ k.mT / 2) @ v", lambda q, k, v: (q[:, :2] @ k.mT / 2).softmax(-1) @ v),
]  # fmt: skip

CASES = [*ELEMENTWISE, *FOLDS, *SHAPES, *SCATTERS, *PRODUCTS]
