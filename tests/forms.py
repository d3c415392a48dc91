"""The forms that statements of random programs take: the whole op table and prelude, with holes for their operands.

A hole in braces names what fills it (see draw.py): {x} is any value, {y} and {z} broadcast with it, {m} is a
condition, {n} one with an integer dtype, {same} has x's shape, {axis} {axes} {kd} {k} {dt} are literals. Types are not
known here: what the language refuses is drawn anew.
"""

from __future__ import annotations

import re

from fusedsl.ir.ops import OPS
from fusedsl.ir.types import DTYPES

SYMBOLS = {name: op.symbol for name, op in OPS.items() if op.symbol and not op.internal}
UNARY = [name for name, op in OPS.items() if op.arity == 1 and not op.internal]
BINARY = [name for name, op in OPS.items() if op.arity == 2 and not op.internal]
ACTIVATIONS = "sigmoid relu relu6 selu silu mish softsign hardsigmoid hardswish tanhshrink gelu softplus elu celu"
ACTIVATIONS += " leaky_relu hardtanh softshrink sinc ndtr deg2rad radians rad2deg degrees"
PLAIN = "copy positive square fabs fix reciprocal round nan_to_num zeros_like ones_like"
FOLDS = "sum prod mean var std max min any all count_nonzero norm nansum nanmean logsumexp"
MASKED = "sum prod mean var std max min any all logsumexp"
ROWS = "softmax log_softmax layer_norm rms_norm"

# family → (weight, forms)
FORMS: dict[str, tuple[int, list[str]]] = {
    "functions": (12, [f"{name}({{x}})" for name in UNARY]),
    "functions inside their domains": (
        10,
        [
            "sqrt(abs({x}))",
            "rint({x} * 0.5)",
            "round({n} / 4)",
            "rsqrt(abs({x}) + 0.5)",
            "log(abs({x}) + 0.25)",
            "exp(-abs({x}))",
            "exp(minimum({x}, 4))",
        ]
        + ["tanh({x})", "arcsin(clip({x}, -1, 1))", "arccosh(abs({x}) + 1)", "1 / (abs({x}) + 0.5)", "sin({x})"]
        + ["{x} / (square({y}) + 1)", "erf({x})"],
    ),
    "operators": (
        24,
        [f"{{x}} {SYMBOLS[name]} {{y}}" for name in BINARY if name in SYMBOLS]
        + [f"{{y}} {s} {{x}}" for s in ("-", "/", "//", "%", "**", "<", "<<", ">>")]
        + ["{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} * {y} + {z}", "{x} - {y} * {z}", "({x} + {y}) / {c}"] * 2
        + ["-{x}", "~{x}", "not {x}", "+{x}", "{x} < {y} <= {z}", "{m} and {m}", "{m} or not {m}", "{m} ^ {m}"],
    ),
    "two operands": (8, [f"{name}({{x}}, {{y}})" for name in BINARY]),
    "choices": (
        10,
        ["where({m}, {x}, {y})", "where({m}, {y}, {x})", "{x} if {m} else {y}", "where({x}, {y}, {z})"]
        + ["clip({x}, {c}, {y})", "clip({x}, min={y})", "clip({x}, {y}, {z})", "maximum({x}, 0)", "fma({x}, {y}, {z})"],
    ),
    "activations": (7, [f"{name}({{x}})" for name in (ACTIVATIONS + " " + PLAIN).split()]),
    "activations with parameters": (
        3,
        ["leaky_relu({x}, {c})", "elu({x}, alpha={c})", "celu({x}, 0.75)", 'gelu({x}, approximate="tanh")']
        + ["softplus({x}, beta=0.5)", "softplus({x}, 2, threshold=3)", "hardtanh({x}, -0.5, {pc})"]
        + ["softshrink({x}, {pc})", "round({x}, decimals=1)", "round({x}, decimals=-1)", "full_like({x}, {c})"]
        + ["nan_to_num({x}, nan={c}, posinf=1, neginf={y})", "zeros_like({x}, dtype={dt})", "tril({x2}, {k})"]
        + ["triu({x2}, k={k})", "full_like({x}, {y0}, dtype={dt})", "{x} * {s}", "{x} + {s} - {s}", "pi * {x}"]
        + ["size({x}) + {x}", "ldexp({x}, {n})", "lerp({x}, {y}, {z})", "heaviside({x}, {y})", "xlogy({x}, {y})"]
        + ["logaddexp({x}, {y})", "logaddexp2({x}, {y})", "isclose({x}, {y}, equal_nan={kd})", "isclose({x}, {y})"]
        + ["divmod({x}, {y})", "as_float({x})", "logical_and({x}, {y})"],
    ),
    "casts": (8, ["astype({x}, {dt})", "{dt}({x})", "astype({x}, {dt})", "float32({x})"]),
    "reductions": (
        14,
        [f"{name}({{x}}, axis={{axes}}, keepdims={{kd}})" for name in FOLDS.split()]
        + [f"{name}({{x}}, axis={{axes}}, keepdims={{kd}})" for name in ("sum", "max", "mean", "min")]
        + [f"{name}({{x}}, axis={{axis}}, keepdims={{kd}})" for name in ("argmax", "argmin")]
        + ["argmax({x})", "argmin({x}, keepdims=True)", "sum({x}, dtype={dt})", "prod({x}, {axes}, dtype={dt})"]
        + ["mean({x}, {axes}, dtype={ft})", "var({x}, {axes}, ddof=1)", "std({x}, {axes}, ddof=1, keepdims=True)"]
        + [
            f"{name}({{x}}, axis={{axes}}, keepdims={{kd}})"
            for name in ("nanmax", "nanmin", "nanvar", "ptp", "average")
        ]
        + ["average({x1}, axis={axis}, weights={same})", "trapezoid({x1}, axis={axis})", "trapezoid({x1}, dx={pc})"]
        + ["sum({x} * {y}, axis={axis})", "sum(({x} - {y}) ** 2, {axes})", "max(abs({x}), axis={axes})"],
    ),
    "reductions of some elements": (
        5,
        [f"{name}({{x}}, axis={{axes}}, keepdims={{kd}}, where={{m}})" for name in MASKED.split()],
    ),
    "reductions and their elements": (
        8,
        [f"{name}({{x1}}, axis={{axis}})" for name in ROWS.split()]
        + ["softmax({x1}, axis={axis}, where={m})", "layer_norm({x1}, {last}, {last})", "rms_norm({x1}, {last})"]
        + ["layer_norm({x1}, axis={axes1}, eps={pc})", "group_norm({x2}, 1)", "{x} - mean({x}, {axes}, keepdims=True)"]
        + ["{x} / (sum(abs({x}), {axes}, keepdims=True) + 1)", "{x} == max({x}, axis={axes}, keepdims=True)"]
        + ["group_norm({x2}, {groups})", "softmax({x2}, axis={axes1})", "logsumexp({x1}, {axis}) - max({x1}, {axis})"]
        + ["rms_norm({x1} + {same}, {last})", "{x} * rsqrt(mean({x} * {x}, {axes}, keepdims=True) + 1e-5)"],
    ),
    "scans": (
        6,
        [f"{name}({{x1}}, axis={{axis}})" for name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")]
        + ["cumsum({x1}, axis={axis}, exclusive={kd})", "cummax({x1}, axis={axis}, reverse={kd}, exclusive={kd})"]
        + ["linear_scan({x1}, {same}, axis={axis})", "linear_scan(tanh({x1}), {same}, {axis}, initial={pc})"]
        + ["linear_scan(sigmoid({x1}), {same}, axis={axis}, reverse={kd}, exclusive={kd})"]
        + ["cumsum({x})", "cumsum({x1}, axis={axis}, dtype={dt})", "cumsum({x1}[::-1], axis=0)[::-1]"]
        + ["sum(sliding_window({x1}, 2, axis={axis}), axis=-1)", "max(sliding_window({x1}, 1), axis=-1) * {c}"]
        + ["min(sliding_window({x1}[..., :1] + zeros(40), 36), axis=-1)", "sliding_window({x1}, 2)"]
        + ["convolve({x1}, ({c}, 2, {c}), mode='same')", "correlate({x1}, ({c},))", "convolve({x1}, {last}, 'same')"]
        + ["conv(reshape({x1}, (1, 1, -1)), stack(({c}, 2, {c}))[None, None], padding=1)"]
        + ["mean(sliding_window(pad({x1}, 1), 3) * stack(({c}, 1, {c})), axis=-1)"]
        + ["diff({x1}, axis={axis})", "diff({x1}, n=2)", "diff({x1}, axis={axis}, prepend={c}, append={c})"],
    ),
    "orders": (
        5,
        ["sort({x1})", "argsort({x1})", "sort({x1}, descending=True)", "argsort({x1}, descending={kd})"]
        + ["topk({x1}, {room})", "topk({x1}, 1)", "sort({x1}, {axis}, descending={kd})", "argsort({x1}, axis={axis})"]
        + ["topk({x1}, 1, axis={axis})", "partition({x1}, 0, {axis})", "argpartition({x1}, -1, axis={axis})"]
        + ["median({x}, {axes}, keepdims={kd})", "nanmedian({x}, {axes}, keepdims={kd})"]
        + ["quantile({x}, 0.25, axis={axes}, keepdims={kd})", 'quantile({x}, (0.1, 0.75), {axes}, method="higher")']
        + ["percentile({x}, 90, axis={axes})", 'percentile({x}, (25, 75), {axes}, method="median_unbiased")']
        + ["nanquantile({x}, 0.5, {axes})", 'nanpercentile({x}, 40, axis={axes}, method="nearest")'],
    ),
    "shapes": (
        10,
        ["reshape({x}, {shape})", "reshape({x}, {shape})", "transpose({x})", "transpose({x}, {axes_order})", "{x}.T"]
        + ["{x2}.mT", "swapaxes({x2}, {axis}, {axis})", "expand_dims({x}, {newaxis})", "squeeze({x})"]
        + ["broadcast_to({x}, {wider})", "matrix_transpose({x2})", "squeeze(expand_dims({x}, 0), 0)"]
        + ["reshape({x}, -1)", "diagonal({x2})", "diagonal({x3}, 1, -1, 0)", "trace({x2})", "trace({x2}, -1)"]
        + ["flip({x})", "flip({x1}, {axis})", "flip({x1}, {axes1})", "outer({x}, {c1})", "expand_dims({x}, (0, -1))"],
    ),
    "slices": (
        9,
        ["{x1}[{slices}]", "{x1}[{slices}]", "{x1}[{slices}] * 2", "{x1}[...]", "{x}[None]", "{x1}[::-1] - {x1}"]
        + ["{x1}[1:] - {x1}[:-1]", "{x1}[size({x1}, 0) // 2:]", "{x1}[..., :(size({x1}, -1) + 1) // 2]"]
        + ["{x1}[..., ::2]", "{x1}[..., 1::2]", "concat(({x1}[..., 1:], {x1}[..., :1]), axis=-1)"]
        + ["concat((-{x1}[..., size({x1}, -1) // 2:], {x1}[..., :size({x1}, -1) // 2]), -1)"],
    ),
    "joins": (
        8,
        ["concat(({x1}, {same}), axis={axis})", "concat(({x1}, {same}, {same}), {axis})", "stack(({x}, {same}))"]
        + ["concat(({x1}, {same}), axis=None)", "stack(({x}, {same}, {same}), axis={newaxis})", "tile({x}, {reps})"]
        + ["roll({x}, {k})", "roll({x1}, {k}, axis={axis})", "roll({x2}, ({k}, {k}), axis=(0, 1))"]
        + ["repeat({x}, {small})", "repeat({x1}, {small}, axis={axis})", "pad({x1}, {small})", "pad({x1}, {pads})"]
        + ['pad({x1}, 1, mode="edge")', 'pad({x1}, 1, mode="reflect")', 'pad({x1}, (1, 2), mode="wrap")']
        + ["pad({x1}, (1, 2), constant_values={c})", "pad({x1}, {pads}, constant_values=({c}, {c}))"],
    ),
    "gathers": (
        8,
        ["take({x1}, {index}, axis={axis})", "take({x1}, {index})", "{x1}[{index0}]", "{x2}[:, {index1}]"]
        + ["{x2}[{index0}, {index1}]", "{x2}[{index0}, 0]", "take_along_axis({x1}, {along}, axis={axis})"]
        + ["take_along_axis({x1}, argsort({x1}), axis=-1)", "{x1}[{index0}][::-1]", "take({x1}, argmax({x1}), axis=0)"]
        + ["sum({x1}[{index0}], axis=0)", "{x2}[{index0}, 1:]", "{x2}[{index0}, None, ::-1]", "{x3}[:, {index1}]"]
        + ["{x3}[{index0}, :, 0]"]
        + ["where({m}, {x1}[{index0}], {c})", "{x1}[iota({x1}, 0) % 2]", "{x1}[{n} % size({x1}, 0)]"],
    ),
    "scatters": (
        4,
        ["scatter_add({x1}, {index0}, {c})", "scatter({x1}, {index0}, {c})", "scatter_max({x2}, {index1}, {c}, axis=1)"]
        + ["scatter({x1}, arange(size({x1}, 0)) * 3 % 5, {x1} * 2)", "scatter_min(5, arange(size({x1}, 0)) % 5, {x1})"]
        + ["scatter_add({x1}, arange(size({x1}, 0)) * 3 % 7, {same})", "bincount({n}, 7)", "bincount({n}, 4, {c})"]
        + ["segment_sum({x1}, ids=arange(size({x1}, 0)) * 5 % 4, n=3)", "segment_max({x1}, offsets=3 * arange(4))"]
        + ["segment_mean({x1}, offsets=2 * arange(5))", "segment_softmax({x1}, ids=arange(size({x1}, 0)) // 3, n=4)"]
        + ["segment_min({x1}, ids={n} % 3, n=3)", "histogram({x}, 5, range=(-2, 2))[0]"],
    ),
    "contractions": (
        5,
        ["{x2} @ {x2}.mT", "{x1} @ {times}", "matmul({x1}, {times})", "{x2}.mT @ {x2}", "inner({x1}, {last})"]
        + ["dot({x1}, {times})", "vecdot({x1}, {same})", "vdot({x}, {same})", 'einsum("ij,ij->i", {x2}, {same})']
        + ['einsum("ij,kj->ik", {x2}, {x2})', "tensordot({x1}, {times}, axes=1)", "softmax({x2} @ {x2}.mT) @ {x2}"]
        + [
            "{x2} @ {keys}.mT",
            "maximum({x1} @ {times} + {c}, 0)",
            "sum({x1} @ {times}, axis=-1)",
            "({x1} * 2) @ {times}",
        ]
        + ['einsum("ij,jk->ki", {x2}, {times})', 'einsum("bij,bkj->bik", {x3}, {x3})', 'einsum("ij->j", {x2})']
        + ['einsum("ij,kj,kl->il", {x2}, {x2}, {x2})', 'einsum("...i,...i->...", {x1}, {same})']
        + ['einsum("ij,j,i->", {x2}, {last}, {x2}[:, 0])', 'einsum("...ii->...i", {x2} @ {x2}.mT)']
        + ['einsum("ij,j->i", {x2}, {last})', 'einsum("bij->bji", {x3})', 'einsum("i,j->ij", {c1}, {c1})'],
    ),
    "attention": (
        3,
        ["softmax({x2} @ {keys}.mT * {pc}) @ {keys}", "softmax({x2} @ {keys}.mT + {bias}) @ {keys}"]
        + [
            "softmax({x2} @ {keys}.mT, where={mask}) @ {keys}",
            "softmax(where({mask}, {x2} @ {keys}.mT, -inf)) @ {keys}",
        ]
        + [
            "sigmoid({x2} @ {keys}.mT) @ {keys}",
            "logsumexp({x2} @ {keys}.mT, axis=-1)",
            "max({x2} @ {keys}.mT, axis=-1)",
        ]
        + ["softmax(where({causal}, 0.5 * ({x2} @ {keys}.mT), -inf)) @ {keys}", "softmax({x2} @ {keys}.mT)"]
        + ["softmax(3 * tanh({x2} @ {keys}.mT / 3)) @ {keys}", "argmax({x2} @ {keys}.mT, axis=-1)"],
    ),
    "positions": (
        3,
        ["iota({x1}, {axis}) + {x1}", "where(iota({x1}, {axis}) < {k}, {x1}, {c})", "arange(size({x1}, -1)) * {x1}"]
        + [
            "zeros(shape({x})) + {x}",
            "ones({small}, dtype={dt})",
            "full(shape({x}), {y0})",
            "linspace(0, {pc}, {small})",
        ]
        + ["eye(size({x1}, -1)) * {x1}", "one_hot({n}, {small})", "eye({small}, {small}, {k})"]
        + ["iota({x1}, {axis}) * {k}", "size({x}) * 2", "arange({small}, 9, 2)", "{x1} - iota({x1}, -1)"]
        + ["where(iota({x2}, -1) <= iota({x2}, -2), {x2}, -inf)", "shape({x1})"],
    ),
    "derivatives": (
        2,
        ["stop_gradient({x}) * {x}", "grad(sum(sin({x}) * {x}), {x})", "vjp({x} * {y}, {x} * {y}, {x})"]
        + ["jvp(exp({x} * 0.125), {x}, {same})", "vjp(tanh({x1}), {same}, {x1})"],
    ),
    "random numbers": (
        2,
        [
            "uniform({small}, {x})",
            "randint({small}, shape({x1}), -3, 9) + {x1}",
            "permutation({small}, 7)",
            "normal({small}, {x}, stream={small})",
            "uniform({small}, shape({x1}))",
        ],
    ),
    "quantised numbers": (
        3,
        ["quantize({x}, {pc})", "quantize({x}, {pc}, {k}, dtype={it})", "dequantize({n}, {pc})", "unpack({n1})"]
        + ["dequantize({n}, {pc}, {k})", "unpack({n1}, bits=2, signed={kd})", "unpack({n1}, bits=8)"]
        + ["dequantize(quantize({x}, {pc}), {pc})", "quantize({x}, {pc}, dtype=float8_e4m3fn)"]
        + ["quantize({x1}, abs({last}) + 0.5, axis=-1)", "dequantize({n1}, {last}, axis=-1)"]
        + ["quantize({x1}, abs({grouped}) + 0.25, group={group})", "dequantize({n1}, {grouped}, group={group})"]
        + ["quantize({x1}, max(abs({x1}), axis=-1, keepdims=True) / 127 + 0.01)"],
    ),
}

# Functions of the text's own, called like any other.
DEFINITIONS = (
    "own(u, v=0.5) = u * v + maximum(u, v)",
    "own(u, v=2) = where(u > v, u - v, v)",
    "own(u, v=1.5) = sum(u * v, keepdims=True) - u",
    "own(u, v=3) = (u + v) * (u - v)",
)
OWN = ["own({x})", "own({x}, {y})", "own({y}, v={x})", "own(own({x}), {c})"]


def names_called() -> set[str]:
    """Every function name that a form calls."""
    texts = [form for _, forms in FORMS.values() for form in forms]
    return {name for text in texts for name in re.findall(r"(\w+)\(", text)} | set(DTYPES)
