"""Workloads of `demo` and `bench`: each as a program, and as the NumPy function that it replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BLACK_SCHOLES = """
tail(d, k) = 0.3989422804 * exp(-0.5 * d * d) * k * (
    0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
upper(d) = tail(d, 1 / (1 + 0.2316419 * abs(d)))
cnd(d) = where(d > 0, 1 - upper(d), upper(d))
d1 = (log(s / x) + (r + 0.5 * v * v) * t) / (v * sqrt(t))
d2 = d1 - v * sqrt(t)
discounted = x * exp(-r * t)
return s * cnd(d1) - discounted * cnd(d2), discounted * cnd(-d2) - s * cnd(-d1)
"""


def softmax(xp, x):
    e = xp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(xp, x):
    return 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def residual_norm(xp, x, r, w, b):
    y = x + r
    mu = y.mean(-1, keepdims=True)
    variance = xp.square(y - mu).mean(-1, keepdims=True)
    return (y - mu) / xp.sqrt(variance + 1e-5) * w + b


def _cnd(xp, d):
    k = 1 / (1 + 0.2316419 * abs(d))
    series = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.3989422804 * xp.exp(-0.5 * d * d) * series
    return xp.where(d > 0, 1 - tail, tail)


def black_scholes(xp, s, x, t, r, v):
    """Call and put prices; the normal distribution by Abramowitz and Stegun 26.2.17."""
    d1 = (xp.log(s / x) + (r + 0.5 * v * v) * t) / (v * xp.sqrt(t))
    d2 = d1 - v * xp.sqrt(t)
    discounted = x * xp.exp(-r * t)
    return s * _cnd(xp, d1) - discounted * _cnd(xp, d2), discounted * _cnd(xp, -d2) - s * _cnd(xp, -d1)


@dataclass(frozen=True)
class Workload:
    """One workload."""

    name: str
    text: str
    unfused: Callable[..., Any]  # (array module, **arguments) → results
    arguments: Callable[[Any, int], dict[str, Any]]  # (generator, n) → float32 arguments of about n elements


def _grid(generator, n: int):
    columns = max(8, min(1024, n))
    return generator.standard_normal((max(1, n // columns), columns)).astype("float32")


def _norm_arguments(generator, n: int) -> dict[str, Any]:
    x = _grid(generator, n)
    w, b = generator.standard_normal((2, x.shape[1])).astype("float32")
    return {"x": x, "r": _grid(generator, n), "w": w, "b": b}


def _market(generator, n: int) -> dict[str, Any]:
    ranges = {"s": (5, 30), "x": (1, 100), "t": (0.25, 10)}
    arrays = {name: generator.uniform(low, high, n).astype("float32") for name, (low, high) in ranges.items()}
    return {**arrays, "r": 0.02, "v": 0.30}


WORKLOADS = (
    Workload("softmax", "softmax(x)", softmax, lambda g, n: {"x": _grid(g, n)}),
    Workload("gelu", 'gelu(x, approximate="tanh")', gelu, lambda g, n: {"x": _grid(g, n)}),
    Workload("residual + layer norm", "layer_norm(x + r, w, b)", residual_norm, _norm_arguments),
    Workload("Black-Scholes", BLACK_SCHOLES, black_scholes, _market),
)
