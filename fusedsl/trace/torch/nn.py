"""torch.nn.functional on tracers: activations, norms and padding, with torch's signatures and defaults."""

from __future__ import annotations

from typing import Any

from ...errors import ArgumentError, DTypeError, ShapeError, TraceError
from ...ir.types import BOOL
from ...lang.declared_signatures import Refusal, declared
from ..tracer import Tracer
from .clamps import clamp, where
from .functions import TABLE, cast, dtype_of, language, need_float, recorder_of, torch_function, torch_functions
from .numbers import checked_convert
from .promotion import operate
from .shapes import axis_of

# -- activations: those that the prelude has under torch's name

ACTIVATIONS = {
    "selu": (), "silu": (), "mish": (), "hardsigmoid": (), "hardswish": (), "leaky_relu": ("negative_slope",),
    "elu": ("alpha",), "celu": ("alpha",), "gelu": ("approximate",), "softshrink": ("lambd",),
    "softplus": ("beta", "threshold"),
}  # fmt: skip


@torch_functions(" ".join(ACTIVATIONS))
def _activation(name, input, *values, **named):
    names = ACTIVATIONS[name]
    if len(values) > len(names):
        message = f"{name} takes {len(names) + 1} arguments"
        raise ArgumentError(message, "argument.surplus", help="torch's own signature holds")
    need_float(name, input)
    return language(name, input, **dict(zip(names, values)), **named)


@torch_function()
def hardtanh(input, min_val=-1.0, max_val=1.0):
    dtype = dtype_of(input)
    if dtype is BOOL:
        raise DTypeError("torch has no hardtanh of bools", "dtype.hardtanh", help="cast it first: x.float()")
    if dtype.kind == "u" and not isinstance(min_val, Tracer) and min_val < 0:
        help = "unsigned integers are not negative"
        raise DTypeError(f"{min_val} does not fit {dtype}", "dtype.literal", help=help)
    if not any(isinstance(v, Tracer) for v in (min_val, max_val)) and min_val > max_val:
        raise ArgumentError(f"min_val is {min_val}, above max_val", "argument.choice", help="change their places")
    r = recorder_of(input)
    return clamp(input, *(r.tracer(checked_convert(r, v, dtype)) for v in (min_val, max_val)))


@torch_function()
def hardshrink(input, lambd=0.5):
    need_float("hardshrink", input)
    return where((input >= -lambd) & (input <= lambd), 0, input)


@torch_function("log_sigmoid")
def logsigmoid(input):
    need_float("logsigmoid", input)
    return clamp(input, None, 0) - operate(recorder_of(input), "log1p", exp(-abs(input)))


def exp(x: Any) -> Any:
    return operate(recorder_of(x), "exp", x)


def log(x: Any) -> Any:
    return operate(recorder_of(x), "log", x)


@torch_function("_threshold")
def threshold(input, threshold, value):
    r, dtype = recorder_of(input), dtype_of(input)
    if dtype is BOOL:
        raise DTypeError("torch has no threshold of bools", "dtype.threshold", help="cast it first: x.float()")
    level, other = (r.tracer(checked_convert(r, v, dtype)) for v in (threshold, value))
    return where(input <= level, other, input)


@torch_function()
def glu(input, dim=-1):
    axis = axis_of(input, dim)
    half, odd = divmod(int(input.shape[axis]), 2)
    if odd:
        raise ShapeError(f"glu halves a dimension of {2 * half + 1}", "shape.split", help="pad it: F.pad(x, (0, 1))")
    cut = [slice(None)] * axis
    return input[(*cut, slice(None, half))] * language("sigmoid", input[(*cut, slice(half, 2 * half))])


@torch_function()
def prelu(input, weight):
    if weight.ndim and (input.ndim > 2 or not input.ndim):
        weight = weight.reshape(-1, *[1] * (input.ndim - 2)) if input.ndim and int(weight.shape[0]) > 1 else weight[0]
    return where(input > 0, input, weight * input)


@torch_functions("softmax log_softmax")
def _softmax(name, input, dim=None, dtype=None):
    dim = (0 if input.ndim in (0, 1, 3) else 1) if dim is None else dim  # as torch guesses, and warns
    dtype = dtype if type(dtype).__name__ == "dtype" else None  # torch.nn.functional has _stacklevel in its place
    input = input if dtype is None or input.recorder.dtype(dtype) is dtype_of(input) else cast(input, dtype)
    need_float(name, input)
    return language(name, input, dim)


@torch_function("alpha_dropout", "feature_dropout", "native_dropout")
def dropout(input, p=0.5, training=True, *, train=None):
    """dropout: the identity; TraceError if it would be random. `train` is torch.dropout's name of `training`."""
    if (training if train is None else train) and not (isinstance(p, (int, float)) and p == 0):
        raise TraceError("dropout draws random numbers", "trace.random",
                         help="pass the mask as an argument, or use fd.kernel's uniform(seed, x)")  # fmt: skip
    return language("copy", input)


# -- padding, rows of a table


@torch_function()
def pad(input, pad, mode="constant", value=None):
    """pad: pairs from the last dimension on; a negative amount crops."""
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ArgumentError(
            f"pad has {len(pad)} widths", "argument.pad", help="two for each dimension, from the last backwards"
        )
    widths = [tuple(pad[k : k + 2]) for k in range(0, len(pad), 2)][::-1]
    cut = [slice(max(0, -a), None if b >= 0 else b) for a, b in widths]
    input = input[(..., *cut)] if any(a < 0 or b < 0 for a, b in widths) else input
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    pairs = ((0, 0),) * (input.ndim - len(widths)) + tuple(widths)
    modes = {"constant": "constant", "replicate": "edge", "reflect": "reflect", "circular": "wrap"}
    if mode not in modes:
        raise ArgumentError(f"mode of pad is {mode!r}", "argument.choice", help=", ".join(modes))
    named = {"constant_values": 0 if value is None else value} if mode == "constant" else {}
    if value is not None:
        checked_convert(recorder_of(input), value, dtype_of(input))
    return language("pad", input, pairs, modes[mode], **named)


@torch_function()
def rrelu(input, lower=1 / 8, upper=1 / 3, training=False):
    if training:
        raise TraceError("rrelu draws random numbers", "trace.random", help="leaky_relu, or training=False")
    return TABLE["leaky_relu"](input, (lower + upper) / 2)


@torch_function()
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    raise TraceError("gumbel_softmax draws random numbers", "trace.random",
                     help="pass the noise: softmax((logits + noise) / tau, dim)")  # fmt: skip


# -- rearrangements of channels


@torch_function()
def pixel_shuffle(input, upscale_factor):
    r, (c, h, w) = upscale_factor, input.shape[-3:]
    lead = input.shape[:-3]
    parts = input.reshape(*lead, c // (r * r), r, r, h, w)
    n = len(lead)
    return parts.permuted((*range(n + 1), n + 3, n + 1, n + 4, n + 2)).reshape(*lead, c // (r * r), h * r, w * r)


@torch_function()
def pixel_unshuffle(input, downscale_factor):
    r, (c, h, w) = downscale_factor, input.shape[-3:]
    lead = input.shape[:-3]
    parts = input.reshape(*lead, c, h // r, r, w // r, r)
    n = len(lead)
    return parts.permuted((*range(n + 1), n + 2, n + 4, n + 1, n + 3)).reshape(*lead, c * r * r, h // r, w // r)


@torch_function()
def channel_shuffle(input, groups):
    batch, c, *rest = input.shape
    return input.reshape(batch, groups, c // groups, *rest).transpose(1, 2).reshape(batch, c, *rest)


@torch_function()
@declared(
    "input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False",
    Refusal("max_norm", "embedding(max_norm=) writes its weight", "renormalise the weight before"),
)
def embedding(input, weight):
    return language("take", weight, input, 0)


# Formulas, and functions that are others with some of their arguments.
TABLE |= {
    "relu": lambda input: language("relu", input),
    "relu6": lambda input: hardtanh(input, 0, 6),
    "softsign": lambda input: input / (abs(input) + 1),
    "tanhshrink": lambda input: input - operate(recorder_of(input), "tanh", input),
    "softmin": lambda input, dim=None, dtype=None: _softmax("softmax", -input, dim, dtype),
    "constant_pad_nd": lambda input, pad, value=0: TABLE["pad"](input, pad, "constant", value),
}
