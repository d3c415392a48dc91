"""The expressions that people need, each in one line or a few: elementwise, rows, other axes, norms, gradients.

python examples/expressions.py [WORDS]     runs all, or those whose name holds the words, at small sizes on the CPU,
checked against the reference interpreter, and prints how many kernels and bytes each takes.
The benchmark suite `expressions` runs the same list at the sizes of use on a GPU, beside torch.compile.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

import numpy as np

import fusedsl as fd

# The extents that the inputs below are written in: (at the size of use, small).
SIZES = {
    "tokens": (8192, 24),
    "hidden": (4096, 96),
    "ffn": (14336, 160),
    "vocab": (128_256, 320),
    "square": (8192, 80),
    "plane": (32_768, 72),
    "points": (100_000_000, 1000),
    "options": (10_000_000, 500),
    "samples": (44_100_000, 441),
    "atoms": (357_899, 59),
    "rows": (32_768, 40),
    "batch": (64, 3),
    "images": (112, 4),
    "channels": (64, 8),
    "height": (512, 6),
    "width": (512, 10),
    "cube": (128, 12),
    "middle": (4096, 33),
    "odd": (4095, 35),
    "long": (65_535, 131),
    "longer": (393_216, 259),
    "few": (4096, 12),
    "blocks": (2, 2),
    "patches": (4096, 20),
    "model": (3072, 48),
    "groups": (56, 2),
    "packed": (512, 16),
    "scales": (32, 1),
    "experts": (256, 32),
    "segments": (16_384, 16),
}


@dataclass(frozen=True)
class Expression:
    """An expression, its inputs, and the least number of kernels that it can be.

    An input is a number, or "[positive ]dtype[extent, …]", or "dtype[extent, …] < extent" for indices.
    `number` is the expression's place in the list of what people need; several variants may share one.
    """

    number: int
    name: str
    text: str
    inputs: dict[str, str | int | float]
    kernels: int = 1

    def shape(self, name: str, small: bool) -> tuple[int, ...]:
        """The shape of an array among the inputs."""
        spec = self.inputs[name]
        assert isinstance(spec, str)
        words = re.search(r"\[(.*)\]", spec).group(1).split(",")  # type: ignore[union-attr]
        return tuple(_extent(word.strip(), small) for word in words if word.strip())

    def dtype(self, name: str) -> str:
        """The dtype of an array among the inputs."""
        return str(self.inputs[name]).removeprefix("positive ").partition("[")[0]

    def below(self, name: str, small: bool) -> int | None:
        """For indices: what they are less than."""
        _, mark, extent = str(self.inputs[name]).partition("] < ")
        return _extent(extent, small) if mark else None

    @property
    def arrays(self) -> tuple[str, ...]:
        return tuple(name for name, spec in self.inputs.items() if isinstance(spec, str))


def _extent(word: str, small: bool) -> int:
    """An extent: a number, or a name with an optional factor, as in "2*ffn"."""
    factor, _, name = word.rpartition("*")
    return int(factor or 1) * (int(name) if name.isdigit() else SIZES[name][small])


BLACK_SCHOLES = """
phi(z) = 0.5 + 0.5*erf(z*0.7071067811865476)
d1 = (log(S/K) + (r + v*v/2)*t)/(v*sqrt(t)); d2 = d1 - v*sqrt(t)
call = S*phi(d1) - K*exp(-r*t)*phi(d2)
return call, call - S + K*exp(-r*t)
"""
WAVES = """
c(z) = z*0.00000000025
a = xr**2 - xi**2; b = 2*xr*xi                   # x**2
d = exp(-c(xi)); e = exp(-2*c(xi))               # |exp(i*k*x)|
pr = a*d*cos(c(xr)) - b*d*sin(c(xr)); pi_ = a*d*sin(c(xr)) + b*d*cos(c(xr))
qr = a*e*cos(2*c(xr)) - b*e*sin(2*c(xr)); qi = a*e*sin(2*c(xr)) + b*e*cos(2*c(xr))
return -c0*pi_ - c1*qi, c0*pr + c1*qr            # times i
"""
ROPE = """
bfloat16(q1*c - q2*s), bfloat16(q2*c + q1*s), bfloat16(k1*c - k2*s), bfloat16(k2*c + k1*s)
"""
ADAMW = """
m2 = b1*m + (1 - b1)*g; v2 = b2*v + (1 - b2)*g*g
w2 = w*(1 - lr*wd) - lr*(m2/c1)/(sqrt(v2/c2) + eps)
return m2, v2, w2, bfloat16(w2)
"""
ADD_RMS_NORM = "r2 = x + r; y = r2*rsqrt(mean(r2*r2, -1, keepdims=True) + 1e-6)*w; "
ADALN = "r2 = r + x*gate; return r2, layer_norm(r2)*(1 + scale) + shift"
POLY_NORM = "n(u) = u*rsqrt(mean(u*u, -1, keepdims=True) + 1e-6); w0*n(x**3) + w1*n(x**2) + w2*n(x) + b"
QK_NORM_ROPE = """
n = x*rsqrt(mean(x*x, -1, keepdims=True) + 1e-6)*w
turned = concat([-n[..., 64:], n[..., :64]], axis=-1)
bfloat16(n*c[:, None, :] + turned*s[:, None, :])
"""
CROSS_ENTROPY = """
z = cap*tanh(x/cap)
l = logsumexp(z, -1)
picked = take_along_axis(z, y[:, None], -1)[:, 0]
loss = (1 - smooth)*(l - picked) + smooth*(l - mean(z, -1)) + 0.0001*l**2
return where(y == ignore, 0, loss*weight)
"""
CROSS_ENTROPY_GRADIENT = """
l = logsumexp(x, -1, keepdims=True)
loss = (l - take_along_axis(x, y[:, None], -1))[:, 0]
dx = exp(x - l) - where(iota(x, -1) == y[:, None], 1, 0)
return loss, dx
"""
GRPO = """
z = x/temperature
lp = take_along_axis(z, y[:, None], -1)[:, 0] - logsumexp(z, -1)
c = exp(lp - old)
-minimum(c*A, clip(c, 0.8, 1.2)*A) + b*(exp(ref - lp) - (ref - lp) - 1)
"""
LN_BACKWARD = """
mu = mean(x, -1, keepdims=True); rs = rsqrt(var(x, -1, keepdims=True) + 1e-5)
xh = (x - mu)*rs; wg = w*g
dx = rs*(wg - mean(wg, -1, keepdims=True) - xh*mean(wg*xh, -1, keepdims=True))
return dx, sum(g*xh, 0), sum(g, 0)
"""
RMS_BACKWARD = """
rs = rsqrt(mean(x*x, -1, keepdims=True) + 1e-6)
xh = x*rs; wg = w*g
return rs*(wg - xh*mean(wg*xh, -1, keepdims=True)), sum(g*xh, 0)
"""
GROUP_FP8 = """
X = reshape(x, (size(x, 0), size(x, 1)//128, 128))
s = max(abs(X), axis=-1, keepdims=True)/448
return reshape(float8_e4m3fn(X/s), (size(x, 0), size(x, 1))), s[:, :, 0]
"""
INT4_WEIGHTS = """
q = (w[:, :, None] >> (4*arange(8))) & 15                # eight values a word
q = reshape(q, (size(w, 0), size(w, 1)*8//128, 128))     # groups of 128
d = bfloat16(reshape((q - z[:, :, None])*s[:, :, None], (size(w, 0), size(w, 1)*8)))
"""
INT4 = INT4_WEIGHTS + "d"
INT4_LINEAR = INT4_WEIGHTS + "x @ d.mT"
LINEAR_CROSS_ENTROPY = "z = float32(x @ w.mT); logsumexp(z, -1) - take_along_axis(z, y[:, None], -1)[:, 0]"
GROUP_NORM_SWISH = "y = group_norm(x, 8, w, b); y*sigmoid(y)"
TENSOR_FP8 = "s = 448/maximum(max(abs(x)), 1e-12); q = float8_e4m3fn(clip(x*s, -448, 448)); return q, q.T"
ROUTER = "p = softmax(x); v, i = topk(p, 8); return v/sum(v, -1, keepdims=True), int32(i)"
MIN_P = (
    "p = softmax(x/temperature); q = where(p >= mp*max(p, axis=-1, keepdims=True), p, 0); q/sum(q, -1, keepdims=True)"
)

TOKENS, ROW = "bfloat16[tokens, hidden]", "bfloat16[hidden]"
LOGITS, PICKED = "bfloat16[tokens, vocab]", "int64[tokens] < vocab"
PLANE, IMAGES = "float32[plane, plane]", "float32[images, channels, height, width]"
BATCH = "float32[batch, channels, height, width]"

EXPRESSIONS = (
    Expression(1, "axpby", "2*a + 3*b", {"a": "float32[points]", "b": "float32[points]"}),
    Expression(1, "sin2cos2", "sin(a)**2 + cos(b)**2", {"a": "float32[points]", "b": "float32[points]"}),
    Expression(
        *(2, "polynomial_wave", "(x0+x1*t+x2*t**2)*cos(x3+x4*t+x5**t)"),
        {"t": "positive float64[samples, 1]", "x0": 0.1, "x1": 0.2, "x2": 0.3, "x3": 0.4, "x4": 0.5, "x5": 1.5},
    ),
    Expression(  # complex numbers as two real arrays
        *(3, "complex_waves", WAVES, {"xr": "float64[options]", "xi": "float64[options]", "c0": 0.5, "c1": 0.25}),
    ),
    Expression(
        *(4, "black_scholes", BLACK_SCHOLES),
        dict.fromkeys("SKt", "positive float64[options]") | {"r": 0.03, "v": 0.3},
    ),
    Expression(5, "mask_rows", "where(mask[:, None], inf, p)", {"mask": "bool[atoms]", "p": "float64[atoms, 2]"}),
    Expression(6, "gelu", "0.5*x*(1+tanh(0.79788456*(x+0.044715*x**3)))", {"x": "bfloat16[square, square]"}),
    Expression(6, "gelu_wide", "0.5*x*(1+tanh(0.79788456*(x+0.044715*x**3)))", {"x": "float32[few, longer]"}),
    *(
        Expression(6, name, f"{name}(x)", {"x": "float32[square, square]"})
        for name in ("mish", "selu", "hardswish", "softplus")
    ),
    Expression(7, "swiglu", "g*sigmoid(g)*u", {"g": "bfloat16[tokens, ffn]", "u": "bfloat16[tokens, ffn]"}),
    Expression(7, "swiglu_packed", "f = size(x, 1)//2; silu(x[:, :f])*x[:, f:]", {"x": "bfloat16[tokens, 2*ffn]"}),
    Expression(7, "geglu", "gelu(g)*u", {"g": "bfloat16[tokens, ffn]", "u": "bfloat16[tokens, ffn]"}),
    Expression(7, "relu2", "maximum(x, 0)**2", {"x": "bfloat16[tokens, ffn]"}),
    Expression(
        *(8, "dynamic_tanh", "tanh(alpha*x)*gamma + beta"), {"alpha": 0.5, "x": TOKENS, "gamma": ROW, "beta": ROW}
    ),
    Expression(
        *(9, "rope", ROPE),
        {f"q{k}": "bfloat16[tokens, 32, 64]" for k in "12"}
        | {f"k{k}": "bfloat16[tokens, 8, 64]" for k in "12"}
        | {"c": "float32[tokens, 1, 64]", "s": "float32[tokens, 1, 64]"},
    ),
    Expression(
        *(10, "adamw", ADAMW),
        {"w": "float32[points]", "g": "float32[points]", "m": "float32[points]", "v": "positive float32[points]"}
        | {"b1": 0.9, "b2": 0.999, "lr": 1e-3, "wd": 0.1, "eps": 1e-8, "c1": 0.1, "c2": 0.001},
    ),
    Expression(
        *(11, "dropout", "r + where(uniform(seed, x) > p, x/(1 - p), 0)"),
        {"r": TOKENS, "seed": 7, "p": 0.1, "x": TOKENS},
    ),
    Expression(12, "distance", "sum((x-y)**2, -1)", {"x": TOKENS, "y": TOKENS}),
    Expression(12, "pairs_above", "sum(p, -1) > t", {"p": "float64[atoms, 2]", "t": 0.5}),
    Expression(13, "weighted_mean", "sum(x*w, -1)/sum(w, -1)", {"x": TOKENS, "w": "positive bfloat16[tokens, hidden]"}),
    Expression(13, "argmax_max", "argmax(x, -1), max(x, axis=-1)", {"x": TOKENS}),
    Expression(14, "rms_norm", "x*rsqrt(mean(x*x, -1, keepdims=True) + 1e-6)*w", {"x": TOKENS, "w": ROW}),
    Expression(14, "rms_norm_gemma", "x*rsqrt(mean(x*x, -1, keepdims=True) + 1e-6)*(1 + w)", {"x": TOKENS, "w": ROW}),
    Expression(15, "add_rms_norm", ADD_RMS_NORM + "return r2, y", {"x": TOKENS, "r": TOKENS, "w": ROW}),
    Expression(
        *(16, "rms_norm_fp8", ADD_RMS_NORM + "return r2, float8_e4m3fn(clip(y/s, -448, 448))"),
        {"x": TOKENS, "r": TOKENS, "w": ROW, "s": 0.02},
    ),
    Expression(
        16,
        "rms_norm_fp8_token",
        ADD_RMS_NORM + "s = max(abs(y), axis=-1, keepdims=True)/448; return r2, float8_e4m3fn(y/s), s",
        {"x": TOKENS, "r": TOKENS, "w": ROW},
    ),
    Expression(17, "layer_norm", "layer_norm(x, w, b)", {"x": TOKENS, "w": ROW, "b": ROW}),
    Expression(
        *(17, "layer_norm_long", "layer_norm(x, w, b)"),
        {"x": "float32[few, long]", "w": "float32[long]", "b": "float32[long]"},
    ),
    Expression(
        *(18, "adaln", ADALN),
        dict.fromkeys("xr", "bfloat16[blocks, patches, model]")
        | dict.fromkeys(("gate", "scale", "shift"), "bfloat16[blocks, 1, model]"),
    ),
    Expression(19, "poly_norm", POLY_NORM, {"x": TOKENS, "w0": 0.3, "w1": 0.3, "w2": 0.4, "b": 0.1}),
    Expression(
        *(20, "qk_norm_rope", QK_NORM_ROPE),
        {"x": "bfloat16[tokens, 40, 128]", "w": "bfloat16[128]"}
        | {"c": "float32[tokens, 128]", "s": "float32[tokens, 128]"},
    ),
    Expression(
        *(21, "softmax_bias", "softmax(x*scale + bias, -1)"),
        {"x": "float32[segments, packed]", "scale": 0.5, "bias": "float32[packed]"},
    ),
    Expression(
        *(21, "softmax_long", "softmax(x*scale + bias, -1)"),
        {"x": "float32[few, longer]", "scale": 0.5, "bias": "float32[longer]"},
    ),
    Expression(
        22,
        "logsumexp_guarded",
        "m=max(x, axis=-1, keepdims=True); m0=where(isfinite(m), m, 0); m0 + log(sum(exp(x-m0), -1, keepdims=True))",
        {"x": LOGITS},
    ),
    Expression(
        *(23, "cross_entropy", CROSS_ENTROPY),
        {"x": LOGITS, "y": PICKED, "weight": "float32[tokens]", "cap": 30.0, "smooth": 0.1, "ignore": -100},
    ),
    Expression(23, "cross_entropy_gradient", CROSS_ENTROPY_GRADIENT, {"x": LOGITS, "y": PICKED}),
    Expression(24, "kl", "sum(exp(p)*(p - q), -1)", {"p": LOGITS, "q": LOGITS}),
    Expression(
        *(24, "jsd", "m = log(b*exp(p) + (1-b)*exp(q)); sum(b*exp(p)*(p - m) + (1-b)*exp(q)*(q - m), -1)"),
        {"b": 0.5, "p": LOGITS, "q": LOGITS},
    ),
    Expression(24, "tvd", "0.5*sum(abs(p - q), -1)", {"p": LOGITS, "q": LOGITS}),
    Expression(
        *(25, "grpo", GRPO),
        {"x": "bfloat16[few, vocab]", "y": "int64[few] < vocab", "temperature": 0.9, "b": 0.04}
        | dict.fromkeys(("old", "ref", "A"), "float32[few]"),
    ),
    Expression(26, "l1_norm", "x/mean(abs(x), 1, keepdims=True)", {"x": "float32[rows, long]"}),
    Expression(
        *(26, "triplet", "mean(maximum(norm(a-p, axis=-1) - norm(a-n, axis=-1) + margin, 0))"),
        dict.fromkeys("apn", "float32[rows, square]") | {"margin": 1.0},
        kernels=2,
    ),
    Expression(27, "group_fp8", GROUP_FP8, {"x": "bfloat16[tokens, 128*groups]"}),
    Expression(
        *(28, "int4_dequant", INT4),
        {"w": "int32[hidden, packed]", "s": "float32[hidden, scales]", "z": "int32[hidden, scales]"},
    ),
    Expression(29, "sum_middle", "sum(x, 1)", {"x": "float32[cube, middle, odd]"}),
    Expression(29, "max_middle", "max(x, axis=1)", {"x": "float32[cube, middle, odd]"}),
    Expression(29, "argmin_middle", "argmin(x, 1)", {"x": "float32[cube, middle, odd]"}),
    Expression(29, "channel_rms_norm", "x/sqrt(mean(x**2, 1, keepdims=True) + 1e-5)", {"x": IMAGES}),
    Expression(
        30,
        "batch_norm",
        "mu = mean(x, (0,2,3), keepdims=True); v = var(x, (0,2,3), keepdims=True); "
        "(x - mu)*rsqrt(v + 1e-5)*w[:, None, None] + b[:, None, None]",
        {"x": BATCH, "w": "float32[channels]", "b": "float32[channels]"},
        kernels=2,
    ),
    Expression(
        30,
        "instance_norm",
        "(x - mean(x, (2,3), keepdims=True))*rsqrt(var(x, (2,3), keepdims=True) + 1e-5)",
        {"x": BATCH},
    ),
    Expression(
        *(30, "group_norm_swish", GROUP_NORM_SWISH),
        {"x": IMAGES, "w": "float32[channels]", "b": "float32[channels]"},
        kernels=2,
    ),
    Expression(31, "softmax_first", "softmax(x, 0)", {"x": "float32[cube, cube, cube, cube]"}),
    Expression(
        *(31, "softmax_channel", "p = softmax(x, 1); sigmoid((p + b)*2)"),
        {"x": "float32[cube, cube, cube, cube]", "b": "float32[cube, 1, 1]"},
    ),
    Expression(32, "mse", "mean((x-y)**2)", {"x": PLANE, "y": PLANE}),
    Expression(32, "huber", "d = abs(x-y); mean(where(d < 1, 0.5*d*d, d - 0.5))", {"x": PLANE, "y": PLANE}),
    Expression(32, "hinge", "mean(maximum(1 - p*t, 0))", {"p": PLANE, "t": PLANE}),
    Expression(33, "frobenius", "x/sqrt(sum(x*x))", {"x": IMAGES}, kernels=2),
    Expression(33, "tensor_fp8", TENSOR_FP8, {"x": "bfloat16[square, square]"}, kernels=2),
    Expression(34, "rms_norm_backward", RMS_BACKWARD, {"x": TOKENS, "w": ROW, "g": TOKENS}),
    Expression(34, "layer_norm_backward", LN_BACKWARD, {"x": TOKENS, "w": ROW, "g": TOKENS}),
    Expression(35, "softmax_backward", "p*(g - sum(p*g, -1, keepdims=True))", {"p": TOKENS, "g": TOKENS}),
    Expression(
        35,
        "swiglu_backward",
        "s = sigmoid(g); return d*u*s*(1 + g*(1 - s)), d*g*s",
        {"g": "bfloat16[tokens, ffn]", "u": "bfloat16[tokens, ffn]", "d": "bfloat16[tokens, ffn]"},
    ),
    Expression(
        *(35, "sinkhorn", "-eps*logsumexp((f - C)/eps, -1)"),
        {"f": "float32[square, 1]", "C": "float32[square, square]", "eps": 0.1},
    ),
    Expression(36, "cumsum", "cumsum(x, -1)", {"x": PLANE}),
    Expression(36, "cumsum_masked", "cumsum(where(mask, x, 0), -1)", {"x": PLANE, "mask": "bool[plane, plane]"}),
    Expression(37, "min_p", MIN_P, {"x": "float32[experts, vocab]", "temperature": 0.8, "mp": 0.05}),
    Expression(38, "router", ROUTER, {"x": "float32[tokens, experts]"}),
)

# With products of matrices. Their kernels are right on every target; on GPUs they do not use tensor cores yet.
PRODUCTS = (
    Expression(
        *(28, "int4_linear", INT4_LINEAR),
        {"x": "bfloat16[few, 8*packed]", "w": "int32[hidden, packed]"}
        | {"s": "float32[hidden, scales]", "z": "int32[hidden, scales]"},
        kernels=2,  # each element of d is computed once, not for every tile of the product
    ),
    Expression(
        *(45, "linear_swish_tanh", "clip(tanh(clip(silu(x @ w + b)/2, -1, 1)), -1, 1)"),
        {"x": "float32[segments, model]", "w": "float32[model, hidden]", "b": "float32[hidden]"},
    ),
    Expression(
        *(45, "linear_gelu_softmax", "softmax(gelu(x @ w + b))"),
        {"x": "float32[segments, model]", "w": "float32[model, hidden]", "b": "float32[hidden]"},
        kernels=2,
    ),
    Expression(
        *(45, "swiglu_linear", "silu(x @ g)*(x @ u)"),
        {"x": TOKENS, "g": "bfloat16[hidden, ffn]", "u": "bfloat16[hidden, ffn]"},
    ),
    Expression(
        *(45, "rms_norm_linear", "rms_norm(x, w) @ v + r"),
        {"x": TOKENS, "w": ROW, "v": "bfloat16[hidden, model]", "r": "bfloat16[tokens, model]"},
        kernels=2,
    ),
    Expression(
        *(45, "mlp_logsumexp", "logsumexp(sigmoid(x @ v + a) @ w + b, -1)"),
        {"x": "float32[segments, model]", "v": "float32[model, hidden]", "a": "float32[hidden]"}
        | {"w": "float32[hidden, square]", "b": "float32[square]"},
        kernels=3,
    ),
    Expression(
        *(45, "linear_group_norm", "group_norm(hardswish(x @ w + b), 8, g, h)"),
        {"x": "float32[plane, model]", "w": "float32[model, hidden]"}
        | dict.fromkeys(("b", "g", "h"), "float32[hidden]"),
        kernels=3,
    ),
    Expression(
        45,
        "linear_batch_norm_softmax",
        "y = x @ w + b; softmax(g*(y - mean(y, 0))*rsqrt(var(y, 0) + 0.00001))",
        {"x": "float32[segments, model]", "w": "float32[model, hidden]", "b": "float32[hidden]", "g": 1.5},
        kernels=3,
    ),
    Expression(
        *(45, "linear_cross_entropy", LINEAR_CROSS_ENTROPY),
        {"x": "bfloat16[few, hidden]", "w": "bfloat16[vocab, hidden]", "y": "int64[few] < vocab"},
        kernels=2,
    ),
)


def array(expression: Expression, name: str, generator: np.random.Generator, small: bool = True) -> np.ndarray:
    """Random values for an input, of the kind that the expression asks for."""
    shape, dtype = expression.shape(name, small), expression.dtype(name)
    limit = expression.below(name, small)
    if limit is not None:
        return generator.integers(0, limit, shape).astype(dtype)
    if dtype == "bool":
        return generator.random(shape) < 0.5
    if dtype.startswith("int"):
        return generator.integers(-(2**31), 2**31 - 1, shape).astype(dtype)
    values = generator.standard_normal(shape)
    if str(expression.inputs[name]).startswith("positive"):
        values = abs(values) + 0.1
    if dtype == "bfloat16":
        import ml_dtypes

        return values.astype(ml_dtypes.bfloat16)
    return values.astype(dtype)


def main() -> None:
    words = sys.argv[1:]
    generator = np.random.default_rng(0)
    print(f"{'':>3} {'expression':24} {'kernels':>7} {'bytes':>12} {'instead of':>12}")
    for e in EXPRESSIONS + PRODUCTS:
        if not all(word in e.name for word in words):
            continue
        kernel = fd.kernel(e.text, verify=True)
        given = {n: array(e, n, generator) if n in e.arrays else e.inputs[n] for n in e.inputs}
        kernel(**given)
        told = kernel.explain(**given)
        print(f"{e.number:>3} {e.name:24} {len(told.kernels):>7} {told.bytes:>12,} {told.before.bytes:>12,}")


if __name__ == "__main__":
    main()
