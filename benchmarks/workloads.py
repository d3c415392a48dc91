"""The workloads: each as a fusedsl text, as torch, as NumPy-style code and, where it is elementwise, as CUDA C."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MAP_SHAPES = ((8192, 8192),)
ROW_SHAPES = ((131072, 512), (32768, 1024), (4096, 4096), (8192, 16384), (16384, 1000), (16384, 4097))
QUICK_SHAPES = ((64, 96),)
UNALIGNED = ("16384x1000", "16384x4097")
DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class Input:
    """An array: normal numbers, or uniform ones between `low` and `high`; as wide as the problem, or one row of it."""

    name: str
    row: bool = False
    low: float | None = None
    high: float | None = None

    def shape(self, problem: tuple[int, int]) -> tuple[int, ...]:
        return problem[1:] if self.row else problem


@dataclass(frozen=True)
class Workload:
    """One workload. `plain(xp, erf)` and `torch(torch)` give functions of (scalars, then arrays)."""

    suite: str
    name: str
    text: str
    inputs: tuple[Input, ...]
    flops: int  # an element; a function counts as one
    plain: Callable[..., Callable]
    torch: Callable[..., Callable]
    scalars: tuple[tuple[str, float], ...] = ()
    results: int = 1
    c: str | None = None  # from the inputs' names, as floats, to r0, r1

    def bytes(self, shape: tuple[int, int], itemsize: int) -> int:
        """What must move: every input once, every result once."""
        wide = math.prod(shape)
        return itemsize * (sum(math.prod(i.shape(shape)) for i in self.inputs) + self.results * wide)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*(name for name, _ in self.scalars), *(i.name for i in self.inputs))


def _axpy(xp: Any, erf: Any) -> Callable:
    return lambda a, x, y: a * x + y


def _gelu(xp: Any, erf: Any) -> Callable:
    return lambda x: 0.5 * x * (1 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def _swiglu(xp: Any, erf: Any) -> Callable:
    return lambda g, u: g / (1 + xp.exp(-g)) * u


def _chain(xp: Any, erf: Any) -> Callable:
    return lambda x, y: xp.sqrt(xp.abs(x * y + 0.5 * x - y)) * (x - 1.5) + xp.maximum(x, y)


def _black_scholes(xp: Any, erf: Any) -> Callable:
    def prices(r, v, s, k, t):
        d1 = (xp.log(s / k) + (r + 0.5 * v * v) * t) / (v * xp.sqrt(t))
        d2 = d1 - v * xp.sqrt(t)
        paid = k * xp.exp(-r * t)
        call = s * (0.5 + 0.5 * erf(d1 * 0.7071067811865476)) - paid * (0.5 + 0.5 * erf(d2 * 0.7071067811865476))
        return call, call - s + paid

    return prices


def _bias_gelu(xp: Any, erf: Any) -> Callable:
    gelu = _gelu(xp, erf)
    return lambda x, b: gelu(x + b)


def _softmax(xp: Any, erf: Any) -> Callable:
    def softmax(x):
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    return softmax


def _log_softmax(xp: Any, erf: Any) -> Callable:
    def log_softmax(x):
        centred = x - xp.max(x, axis=-1, keepdims=True)
        return centred - xp.log(xp.sum(xp.exp(centred), axis=-1, keepdims=True))

    return log_softmax


def _layer_norm(xp: Any, erf: Any) -> Callable:
    def layer_norm(x, w, b):
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * w + b

    return layer_norm


def _rms_norm(xp: Any, erf: Any) -> Callable:
    return lambda x, w: x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * w


def _add_rms_norm(xp: Any, erf: Any) -> Callable:
    normal = _rms_norm(xp, erf)

    def add_rms_norm(x, r, w):
        total = x + r
        return total, normal(total, w)

    return add_rms_norm


def _torch_black_scholes(torch: Any) -> Callable:
    return _black_scholes(torch, torch.erf)


def _torch_chain(torch: Any) -> Callable:
    return _chain(torch, torch.erf)


def _torch_add_rms_norm(torch: Any) -> Callable:
    def add_rms_norm(x, r, w):
        total = x + r
        return total, torch.nn.functional.rms_norm(total, w.shape, w, 1e-6)

    return add_rms_norm


X = Input("x")
W, B = Input("w", row=True), Input("b", row=True)
GELU_C = "r0 = 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));"

BLACK_SCHOLES = """
phi(z) = 0.5 + 0.5*erf(z*0.7071067811865476)
d1 = (log(s/k) + (r + 0.5*v*v)*t) / (v*sqrt(t))
d2 = d1 - v*sqrt(t)
paid = k*exp(-r*t)
call = s*phi(d1) - paid*phi(d2)
return call, call - s + paid
"""

BLACK_SCHOLES_C = """
float root = v * sqrtf(t), paid = k * expf(-r * t);
float d1 = (logf(s / k) + (r + 0.5f * v * v) * t) / root, d2 = d1 - root;
float call = s * (0.5f + 0.5f * erff(d1 * 0.70710678f)) - paid * (0.5f + 0.5f * erff(d2 * 0.70710678f));
r0 = call; r1 = call - s + paid;
"""

WORKLOADS = (
    Workload(
        *("map", "axpy", "a*x + y", (X, Input("y")), 2, _axpy),
        lambda torch: lambda a, x, y: torch.add(y, x, alpha=a),
        scalars=(("a", 2.5),),
        c="r0 = a * x + y;",
    ),
    Workload(
        *("map", "gelu", "0.5*x*(1 + tanh(0.7978845608028654*(x + 0.044715*x*x*x)))", (X,), 9, _gelu),
        lambda torch: lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        c="float v = x; " + GELU_C,
    ),
    Workload(
        *("map", "swiglu", "g*sigmoid(g)*u", (Input("g"), Input("u")), 5, _swiglu),
        lambda torch: lambda g, u: torch.nn.functional.silu(g) * u,
        c="r0 = g / (1.0f + expf(-g)) * u;",
    ),
    Workload(
        *("map", "chain10", "sqrt(abs(x*y + 0.5*x - y))*(x - 1.5) + maximum(x, y)", (X, Input("y")), 10, _chain),
        _torch_chain,
        c="r0 = sqrtf(fabsf(x * y + 0.5f * x - y)) * (x - 1.5f) + fmaxf(x, y);",
    ),
    Workload(
        *("map", "black_scholes", BLACK_SCHOLES),
        (Input("s", low=10.0, high=100.0), Input("k", low=10.0, high=100.0), Input("t", low=0.1, high=3.0)),
        *(30, _black_scholes, _torch_black_scholes),
        scalars=(("r", 0.03), ("v", 0.3)),
        results=2,
        c=BLACK_SCHOLES_C,
    ),
    Workload(
        *("map", "bias_gelu", 'gelu(x + b, approximate="tanh")', (X, B), 10, _bias_gelu),
        lambda torch: lambda x, b: torch.nn.functional.gelu(x + b, approximate="tanh"),
        c="float v = x + b; " + GELU_C,
    ),
    Workload(
        *("rows", "softmax", "softmax(x)", (X,), 5, _softmax),
        lambda torch: lambda x: torch.softmax(x, -1),
    ),
    Workload(
        *("rows", "log_softmax", "log_softmax(x)", (X,), 6, _log_softmax),
        lambda torch: lambda x: torch.log_softmax(x, -1),
    ),
    Workload(
        *("rows", "layer_norm", "layer_norm(x, w, b)", (X, W, B), 9, _layer_norm),
        lambda torch: lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b, 1e-5),
    ),
    Workload(
        *("rows", "rms_norm", "rms_norm(x, w)", (X, W), 5, _rms_norm),
        lambda torch: lambda x, w: torch.nn.functional.rms_norm(x, w.shape, w, 1e-6),
    ),
    Workload(
        *("rows", "add_rms_norm", "r2 = x + r; return r2, rms_norm(r2, w)", (X, Input("r"), W), 6, _add_rms_norm),
        _torch_add_rms_norm,
        results=2,
    ),
)

BY_NAME = {w.name: w for w in WORKLOADS}


def shape_name(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def selected(only: str, workload: str, shape: str, dtype: str) -> bool:
    """Whether `--only` (words that must all occur) lets this case through."""
    return all(word in f"{workload} {shape} {dtype}" for word in only.split())
