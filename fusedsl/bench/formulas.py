"""The workloads as NumPy-style code and as torch: `plain(xp, erf)` and `torch` give functions of (scalars, arrays)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def erf_of(xp: Any) -> Callable:
    """The library's erf; NumPy has none, so that its users write Abramowitz and Stegun 7.1.26, accurate to 1.5e-7."""
    if xp.__name__ == "cupy":
        from cupyx.scipy.special import erf

        return erf

    def polynomial(x):
        t = 1 / (1 + 0.3275911 * abs(x))
        series = t * (ERF[0] + t * (ERF[1] + t * (ERF[2] + t * (ERF[3] + t * ERF[4]))))
        return xp.copysign(1 - series * xp.exp(-x * x), x)

    return polynomial


def axpy(xp: Any, erf: Any) -> Callable:
    return lambda a, x, y: a * x + y


def gelu(xp: Any, erf: Any) -> Callable:
    return lambda x: 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def swiglu(xp: Any, erf: Any) -> Callable:
    return lambda g, u: g / (1 + xp.exp(-g)) * u


def chain(xp: Any, erf: Any) -> Callable:
    return lambda x, y: xp.sqrt(xp.abs(x * y + 0.5 * x - y)) * (x - 1.5) + xp.maximum(x, y)


def black_scholes(xp: Any, erf: Any) -> Callable:
    def prices(r, v, s, k, t):
        d1 = (xp.log(s / k) + (r + 0.5 * v * v) * t) / (v * xp.sqrt(t))
        d2 = d1 - v * xp.sqrt(t)
        paid = k * xp.exp(-r * t)
        call = s * (0.5 + 0.5 * erf(d1 * 0.7071067811865476)) - paid * (0.5 + 0.5 * erf(d2 * 0.7071067811865476))
        return call, call - s + paid

    return prices


def bias_gelu(xp: Any, erf: Any) -> Callable:
    activation = gelu(xp, erf)
    return lambda x, b: activation(x + b)


def softmax(xp: Any, erf: Any) -> Callable:
    def call(x):
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    return call


def log_softmax(xp: Any, erf: Any) -> Callable:
    def call(x):
        centred = x - xp.max(x, axis=-1, keepdims=True)
        return centred - xp.log(xp.sum(xp.exp(centred), axis=-1, keepdims=True))

    return call


def layer_norm(xp: Any, erf: Any) -> Callable:
    def call(x, w, b):
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * w + b

    return call


def rms_norm(xp: Any, erf: Any) -> Callable:
    return lambda x, w: x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * w


def add_rms_norm(xp: Any, erf: Any) -> Callable:
    normal = rms_norm(xp, erf)

    def call(x, r, w):
        total = x + r
        return total, normal(total, w)

    return call


def torch_black_scholes(torch: Any) -> Callable:
    return black_scholes(torch, torch.erf)


def torch_chain(torch: Any) -> Callable:
    return chain(torch, torch.erf)


def torch_add_rms_norm(torch: Any) -> Callable:
    def call(x, r, w):
        total = x + r
        return total, torch.nn.functional.rms_norm(total, w.shape, w, 1e-6)

    return call


def add_layer_norm(xp: Any, erf: Any) -> Callable:
    normal = layer_norm(xp, erf)
    return lambda x, r, w, b: normal(x + r, w, b)


def torch_layer_norm(torch: Any) -> Callable:
    return lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b, 1e-5)


def squared_error(xp: Any, erf: Any) -> Callable:
    return lambda x, y: xp.mean((x - y) * (x - y))


def logsumexp(xp: Any, erf: Any) -> Callable:
    def call(x):
        m = xp.max(x, axis=-1, keepdims=True)
        return xp.log(xp.sum(xp.exp(x - m), axis=-1)) + m[..., 0]

    return call


def column_variance(xp: Any, erf: Any) -> Callable:
    return lambda x: xp.var(x, axis=0)


def linear_gelu(xp: Any, erf: Any) -> Callable:
    activation = gelu(xp, erf)
    return lambda x, w, b: activation(x @ w + b)


def torch_linear_gelu(torch: Any) -> Callable:
    return lambda x, w, b: torch.nn.functional.gelu(torch.addmm(b, x, w), approximate="tanh")


def attention(xp: Any, erf: Any) -> Callable:
    weights = softmax(xp, erf)
    return lambda q, k, v: weights(q @ xp.swapaxes(k, -1, -2) * 0.125) @ v
