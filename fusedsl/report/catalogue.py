"""The catalogue of functions by family, each with an example and its name in other libraries."""

from __future__ import annotations

import numpy as np

FAMILIES = {
    "Elementwise": (
        "absolute sign sqrt rsqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 "
        "sinh cosh tanh arcsinh arccosh arctanh erf erfc lgamma sinc floor ceil round rint fix trunc minimum maximum "
        "fmin fmax clip where isnan isinf isfinite isclose signbit copysign nextafter ldexp hypot fmod divmod square "
        "reciprocal logaddexp logaddexp2 xlogy lerp heaviside deg2rad rad2deg degrees radians nan_to_num fma "
        "logical_xor fabs positive copy zeros_like ones_like full_like tril triu logit ndtr"
    ),
    "Activations": (
        "sigmoid relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh hardsigmoid hardswish "
        "tanhshrink softshrink"
    ),
    "Casts": (
        "astype bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 float8_e4m3fn "
        "float8_e5m2"
    ),
    "Reductions": (
        "sum prod mean var std max min any all argmax argmin count_nonzero logsumexp norm nansum nanmean nanvar nanstd "
        "nanmax nanmin nanprod nanargmax nanargmin ptp average median quantile percentile nanmedian nanquantile "
        "nanpercentile trace cross_entropy"
    ),
    "Scans, rows and order": (
        "cumsum cumprod cumulative_sum cumulative_prod cummax cummin logcumsumexp linear_scan nancumsum nancumprod "
        "diff sliding_window convolve correlate conv softmax log_softmax layer_norm rms_norm group_norm topk sort "
        "argsort partition argpartition trapezoid"
    ),
    "Shapes": (
        "reshape transpose matrix_transpose swapaxes expand_dims squeeze broadcast_to concat stack flip roll repeat "
        "tile pad outer diagonal size shape iota arange zeros ones full eye linspace one_hot"
    ),
    "Products": "matmul dot inner vdot vecdot tensordot einsum attention",
    "Gathers and random numbers": "take take_along_axis uniform normal randint permutation",
    "Derivatives": "grad vjp jvp stop_gradient",
    "Scatters, segments and counts": (
        "scatter scatter_add scatter_max scatter_min segment_sum segment_mean segment_max segment_min segment_softmax "
        "bincount histogram"
    ),
    "Quantised numbers": "quantize dequantize unpack",
    "For functions of your own": "as_float given summand",
}

# The arrays of the examples.
ARRAYS = {
    "x": np.array([[1, -2, 3], [0.5, 4, -1]], np.float32),
    "v": np.array([-1.5, 0.5, 2], np.float32),
    "w": np.array([2, -1, 0.5], np.float32),
    "p": np.array([0.25, 0.5, 1], np.float32),
    "i": np.array([7, -7, 3], np.int32),
    "j": np.array([2, 2, -3], np.int32),
    "m": np.array([[True, False, True], [True, True, False]]),
}


def _names(text: str) -> list[str]:
    return text.split()


# Examples other than the function of v, of v and w, or of v, w and p.
EXAMPLES = {
    **{name: f"{name}(p)" for name in _names("sqrt rsqrt log log2 log10 log1p arcsin arccos lgamma")},
    **{name: f"{name}(x, axis=-1)" for name in _names(
        "sum prod var std max min argmax argmin cumsum cumprod cummax cummin cumulative_sum cumulative_prod logsumexp "
        "logcumsumexp norm softmax log_softmax")},
    **{name: f"{name}(i, j)" for name in ("fmod", "divmod")},
    "arccosh": "arccosh(p + 1)", "arctanh": "arctanh(p - 0.5)", "round": "round(v / 3, decimals=2)",
    "clip": "clip(v, -1, 1)", "where": "where(v > 0, v, w)", "isnan": "isnan(v / 0 - inf)", "isinf": "isinf(v / 0)",
    "isclose": "isclose(v, v + 1e-9)", "ldexp": "ldexp(v, j)", "lerp": "lerp(v, w, 0.25)", "xlogy": "xlogy(p, p)",
    "sinc": "sinc(v / 3)", "nan_to_num": "nan_to_num(v / 0, posinf=9)", "logical_xor": "logical_xor(v > 0, w > 0)",
    "full_like": "full_like(v, 7)", "tril": "tril(x)", "triu": "triu(x, k=1)", "nextafter": "nextafter(v, w) - v",
    "gelu": 'gelu(v, approximate="tanh")', "leaky_relu": "leaky_relu(v, negative_slope=0.2)",
    "softplus": "softplus(v, beta=2)", "astype": "astype(v, int32)", "uint8": "uint8(i)", "bool": "bool(v - 2)",
    "mean": "mean(x, axis=0, where=m)", "any": "any(x > 3, axis=-1)", "all": "all(x > -2, axis=0)",
    "count_nonzero": "count_nonzero(x > 0, axis=-1)", "nansum": "nansum(sqrt(x), axis=-1)",
    "nanmean": "nanmean(sqrt(x), axis=-1)", "diff": "diff(x)", "layer_norm": "layer_norm(x, v, w)",
    "rms_norm": "rms_norm(x, v)", "group_norm": "group_norm(x[None], 1)[0]", "topk": "topk(x, 2)", "sort": "sort(x)",
    "partition": "partition(x, 1)", "argpartition": "argpartition(x, 1)",
    "argsort": "argsort(x, descending=True)", "reshape": "reshape(x, (3, -1))", "transpose": "transpose(x)",
    "matrix_transpose": "matrix_transpose(x)", "swapaxes": "swapaxes(x, 0, 1)", "expand_dims": "expand_dims(v, 0)",
    "squeeze": "squeeze(v[None])", "broadcast_to": "broadcast_to(v, (2, 3))", "concat": "concat([v, w])",
    "stack": "stack([v, w], axis=-1)", "flip": "flip(x, axis=-1)", "roll": "roll(v, 1)", "repeat": "repeat(v, 2)",
    "tile": "tile(v, (2, 1))", "pad": 'pad(v, (1, 2), mode="reflect")', "outer": "outer(v, w)",
    "diagonal": "diagonal(x)", "trace": "trace(outer(v, w))",
    "size": "size(x, -1)", "shape": "shape(x)", "iota": "iota(x, -1)", "arange": "arange(1, 10, 3)",
    "matmul": "matmul(x, v)", "dot": "dot(v, w)", "inner": "inner(v, w)", "vdot": "vdot(x, x)",
    "vecdot": "vecdot(x, v)", "tensordot": "tensordot(x, v, axes=1)", "einsum": 'einsum("ij,kj->ik", x, x)',
    "attention": "attention(x[None, None], x[None, None], x[None, None], mask='j <= i')[0, 0]",
    "take": "take(v, j)", "take_along_axis": "take_along_axis(x, argsort(x), axis=-1)",
    "uniform": "uniform(7, (3,))", "normal": "normal(7, x)", "randint": "randint(7, (3,), 0, 10)",
    "permutation": "permutation(7, 5)", "quantize": "quantize(v, 0.1)",
    "dequantize": "dequantize(i, 0.1, zero=2)", "unpack": "unpack(uint8(i), bits=4)", "as_float": "as_float(i)",
    "logit": "logit(p - 0.1)", "ndtr": "ndtr(v)", "nanvar": "nanvar(sqrt(x), axis=-1)",
    "nanstd": "nanstd(sqrt(x), axis=-1)", "nanmax": "nanmax(sqrt(x), axis=-1)", "nanmin": "nanmin(sqrt(x), axis=-1)",
    "nanprod": "nanprod(sqrt(x), axis=-1)", "nanargmax": "nanargmax(sqrt(x), axis=-1)",
    "nanargmin": "nanargmin(sqrt(x), axis=-1)", "nancumsum": "nancumsum(sqrt(x), axis=-1)",
    "nancumprod": "nancumprod(sqrt(x), axis=-1)", "linear_scan": "linear_scan(p, x)",
    "sliding_window": "max(sliding_window(x, 2), axis=-1)", "convolve": "convolve(x, (1, 2, 1), mode='same')",
    "correlate": "correlate(x, (-1, 1))", "conv": "conv(x[:, None], ones((2, 1, 2)))", "median": "median(x, axis=-1)",
    "quantile": "quantile(x, 0.25, axis=-1)", "percentile": "percentile(x, [25, 75])",
    "nanmedian": "nanmedian(sqrt(x), axis=-1)",
    "nanquantile": "nanquantile(sqrt(x), 0.75, axis=-1)", "nanpercentile": "nanpercentile(sqrt(x), 75)",
    "ptp": "ptp(x, axis=-1)", "average": "average(x, axis=-1, weights=p)", "trapezoid": "trapezoid(x)",
    "cross_entropy": "cross_entropy(x, int64(m[:, 0]))", "zeros": "zeros((2, 3))", "ones": "ones(3)",
    "full": "full(3, 7)", "eye": "eye(2, 3)", "linspace": "linspace(0, 1, 5)", "one_hot": "one_hot(abs(j), 4)",
    "scatter": "scatter(v, j, w)", "scatter_add": "scatter_add(v, j, w)", "scatter_max": "scatter_max(x, j, w, axis=1)",
    "scatter_min": "scatter_min(4, abs(j), v)", "segment_sum": "segment_sum(v, ids=abs(j), n=4)",
    "segment_mean": "segment_mean(v, offsets=2 * arange(3))", "segment_max": "segment_max(v, ids=abs(j), n=4)",
    "segment_min": "segment_min(v, offsets=2 * arange(3))", "segment_softmax": "segment_softmax(v, ids=abs(j), n=4)",
    "bincount": "bincount(abs(j), 4)", "histogram": "histogram(x, 4, range=(-2, 4))",
    "given": "1 if given(None) else 2", "summand": "summand(i)", "grad": "grad(sum(v ** 3), v)",
    "vjp": "vjp(v * w, p, v, w)", "jvp": "jvp(sin(v), v, w)", "stop_gradient": "grad(sum(v * stop_gradient(v)), v)",
}  # fmt: skip

# Expressions whose dtypes are more general than the example's.
PLAIN = {"nan_to_num": "nan_to_num(v)", "round": "round(v)", "nansum": "nansum(x)", "nanmean": "nanmean(x)",
         "nextafter": "nextafter(v, w)", "ndtr": "ndtr(v)",
         **{name: f"{name}(x)" for name in (
             "nanvar", "nanstd", "nanmax", "nanmin", "nanprod", "nanargmax", "nanargmin", "nancumsum", "nancumprod",
             "nanmedian", "logit")}}  # fmt: skip

# Names in other libraries, unless it is numpy's function of the same name.
ELSEWHERE = {
    **{name: f"torch.nn.functional.{name}" for name in _names(FAMILIES["Activations"])},
    **{name: f"scipy.special.{name}" for name in ("erf", "erfc", "xlogy", "logsumexp", "softmax", "log_softmax")},
    **{name: f"scipy.special.{name}" for name in ("logit", "ndtr")},
    **{name: f"torch.nn.functional.{name}" for name in ("cross_entropy", "one_hot")},
    **{name: f"torch.nn.functional.{name}" for name in ("layer_norm", "rms_norm", "group_norm")},
    "rsqrt": "1 / numpy.sqrt(x)", "lgamma": "scipy.special.gammaln", "lerp": "torch.lerp", "fma": "math.fma",
    "attention": "torch.nn.functional.scaled_dot_product_attention", "norm": "numpy.linalg.norm", "topk": "torch.topk",
    "scatter": "x[i] = v of a copy", "scatter_add": "numpy.add.at", "scatter_max": "numpy.maximum.at",
    "scatter_min": "numpy.minimum.at", "segment_softmax": "torch_geometric.utils.softmax",
    **{f"segment_{name}": f"jax.ops.segment_{name}" for name in ("sum", "max", "min")}, "segment_mean": "",
    "conv": "torch.nn.functional.conv2d", "cummax": "numpy.maximum.accumulate", "cummin": "numpy.minimum.accumulate",
    "logcumsumexp": "torch.logcumsumexp", "iota": "numpy.indices(x.shape)[axis]",
    "sliding_window": "numpy.lib.stride_tricks.sliding_window_view", "bfloat16": "ml_dtypes.bfloat16",
    "sigmoid": "scipy.special.expit",
    "float8_e4m3fn": "ml_dtypes.float8_e4m3fn", "float8_e5m2": "ml_dtypes.float8_e5m2",
    **dict.fromkeys(_names("linear_scan uniform normal randint permutation quantize dequantize unpack"), ""),
    **dict.fromkeys(_names("as_float given summand"), ""),
    "grad": "torch.autograd.grad", "vjp": "torch.func.vjp", "jvp": "torch.func.jvp", "stop_gradient": "torch.detach",
}  # fmt: skip
