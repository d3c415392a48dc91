"""The workloads: each as a program, as torch, as NumPy-style code and, where it is elementwise, as CUDA C."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import formulas as forms


@dataclass(frozen=True)
class Input:
    """An array: normal numbers, or uniform ones between `low` and `high`; as wide as the problem, or one row of it."""

    name: str
    row: bool = False
    low: float | None = None
    high: float | None = None
    square: bool = False  # as many rows as the problem has columns, divided by their root
    stacked: int = 1  # so many of them, along an axis in front

    def shape(self, problem: tuple[int, int]) -> tuple[int, ...]:
        if self.row or self.square:
            return problem[1:] * (1 + self.square)
        return problem if self.stacked == 1 else (self.stacked, *problem)


@dataclass(frozen=True)
class Workload:
    """One workload. `plain(xp, erf)` and `torch(torch)` give functions of (scalars, then arrays)."""

    suite: str
    name: str
    text: str
    inputs: tuple[Input, ...]
    flops: int  # an element of the problem; a function counts as one
    plain: Callable[..., Callable]
    torch: Callable[..., Callable]
    scalars: tuple[tuple[str, float], ...] = ()
    results: int = 1
    c: str | None = None  # from the inputs' names, as floats, to r0, r1
    written: Callable[[tuple[int, int]], int] | None = (
        None  # elements of a result, where it has not the problem's shape
    )
    products: Callable[[tuple[int, int]], int] | None = None  # floating-point operations of matrix products

    def bytes(self, shape: tuple[int, int], itemsize: int) -> int:
        """What must move: every input once, every result once."""
        wide = self.written(shape) if self.written else math.prod(shape)
        return itemsize * (sum(math.prod(i.shape(shape)) for i in self.inputs) + self.results * wide)

    def operations(self, shape: tuple[int, int]) -> int:
        """Floating-point operations."""
        return self.flops * math.prod(shape) + (self.products(shape) if self.products else 0)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*(name for name, _ in self.scalars), *(i.name for i in self.inputs))


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
        *("map", "axpy", "a*x + y", (X, Input("y")), 2, forms.axpy),
        lambda torch: lambda a, x, y: torch.add(y, x, alpha=a),
        scalars=(("a", 2.5),),
        c="r0 = a * x + y;",
    ),
    Workload(
        *("map", "gelu", "0.5*x*(1 + tanh(0.7978845608028654*(x + 0.044715*x*x*x)))", (X,), 9, forms.gelu),
        lambda torch: lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        c="float v = x; " + GELU_C,
    ),
    Workload(
        *("map", "swiglu", "g*sigmoid(g)*u", (Input("g"), Input("u")), 5, forms.swiglu),
        lambda torch: lambda g, u: torch.nn.functional.silu(g) * u,
        c="r0 = g / (1.0f + expf(-g)) * u;",
    ),
    Workload(
        *(
            "map",
            "chain10",
            "sqrt(abs(x*y + 0.5*x - y))*(x - 1.5) + maximum(x, y)",
            (X, Input("y")),
            10,
            forms.chain,
        ),
        forms.torch_chain,
        c="r0 = sqrtf(fabsf(x * y + 0.5f * x - y)) * (x - 1.5f) + fmaxf(x, y);",
    ),
    Workload(
        *("map", "black_scholes", BLACK_SCHOLES),
        (Input("s", low=10.0, high=100.0), Input("k", low=10.0, high=100.0), Input("t", low=0.1, high=3.0)),
        *(30, forms.black_scholes, forms.torch_black_scholes),
        scalars=(("r", 0.03), ("v", 0.3)),
        results=2,
        c=BLACK_SCHOLES_C,
    ),
    Workload(
        *("map", "bias_gelu", 'gelu(x + b, approximate="tanh")', (X, B), 10, forms.bias_gelu),
        lambda torch: lambda x, b: torch.nn.functional.gelu(x + b, approximate="tanh"),
        c="float v = x + b; " + GELU_C,
    ),
    Workload(
        *("rows", "softmax", "softmax(x)", (X,), 5, forms.softmax),
        lambda torch: lambda x: torch.softmax(x, -1),
    ),
    Workload(
        *("rows", "log_softmax", "log_softmax(x)", (X,), 6, forms.log_softmax),
        lambda torch: lambda x: torch.log_softmax(x, -1),
    ),
    Workload(
        *("rows", "layer_norm", "layer_norm(x, w, b)", (X, W, B), 9, forms.layer_norm),
        forms.torch_layer_norm,
    ),
    Workload(
        *("rows", "rms_norm", "rms_norm(x, w)", (X, W), 5, forms.rms_norm),
        lambda torch: lambda x, w: torch.nn.functional.rms_norm(x, w.shape, w, 1e-6),
    ),
    Workload(
        *(
            "rows",
            "add_rms_norm",
            "r2 = x + r; return r2, rms_norm(r2, w)",
            (X, Input("r"), W),
            6,
            forms.add_rms_norm,
        ),
        forms.torch_add_rms_norm,
        results=2,
    ),
)

HEADS = 8
Q, K, V = (Input(name, stacked=HEADS) for name in "qkv")
LINEAR_GELU = 'gelu(x @ w + b, approximate="tanh")'
MORE = (
    Workload(
        *("norms", "add_layer_norm", "layer_norm(x + r, w, b)", (X, Input("r"), W, B), 10, forms.add_layer_norm),
        lambda torch: lambda x, r, w, b: forms.torch_layer_norm(torch)(x + r, w, b),
    ),
    Workload(
        *("reductions", "squared_error", "mean((x - y)**2)", (X, Input("y")), 3, forms.squared_error),
        lambda torch: torch.nn.functional.mse_loss,
        written=lambda shape: 1,
    ),
    Workload(
        *("reductions", "logsumexp", "logsumexp(x, -1)", (X,), 4, forms.logsumexp),
        lambda torch: lambda x: torch.logsumexp(x, -1),
        written=lambda shape: shape[0],
    ),
    Workload(
        *("reductions", "column_variance", "var(x, 0)", (X,), 4, forms.column_variance),
        lambda torch: lambda x: torch.var(x, 0, correction=0),
        written=lambda shape: shape[1],
    ),
    Workload(
        *("products", "linear_gelu", LINEAR_GELU, (X, Input("w", square=True), B), 10, forms.linear_gelu),
        forms.torch_linear_gelu,
        products=lambda shape: 2 * shape[0] * shape[1] ** 2,
    ),
    Workload(
        *("attention", "attention", "softmax(q @ k.mT * 0.125) @ v", (Q, K, V), 0, forms.attention),
        lambda torch: lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.125),
        written=lambda shape: HEADS * shape[0] * shape[1],
        products=lambda shape: 4 * HEADS * shape[0] ** 2 * shape[1],
    ),
)
ALL = (*WORKLOADS, *MORE)

BY_NAME = {w.name: w for w in ALL}


def draw(workload: Workload, shape: tuple[int, int], dtype: str, seed: int = 1) -> dict[str, np.ndarray]:
    """Random inputs on the host."""
    generator, arrays = np.random.default_rng(seed), {}
    for one in workload.inputs:
        size = one.shape(shape)
        if one.low is None or one.high is None:
            x = generator.standard_normal(size, dtype=np.float64 if dtype == "float64" else np.float32)
        else:
            x = generator.uniform(one.low, one.high, size)
        arrays[one.name] = (x / math.sqrt(shape[1]) if one.square else x).astype(dtype)
    return arrays


def shape_name(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def selected(only: str, workload: str, shape: str, dtype: str) -> bool:
    """Whether `--only` (words that must all occur) lets this case through."""
    return all(word in f"{workload} {shape} {dtype}" for word in only.split())
