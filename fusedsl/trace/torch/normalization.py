"""torch's normalizations on tracers: layer, RMS, group, batch and instance norm, with torch's signatures."""

from __future__ import annotations

from typing import Any

from ...errors import ShapeError
from ...lang.declared_signatures import Refusal, declared
from .clamps import clamp
from .functions import cast, dtype_of, language, need_float, recorder_of, torch_function
from .norms import p_norm
from .promotion import operate, result_type
from .reductions import axes_of, mean, var


def _trailing(input: Any, shape: Any) -> tuple[int, ...]:
    """The last axes, checked to have these extents."""
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    axes = tuple(range(-len(shape), 0))
    if len(shape) > input.ndim or any(input.shape[a] != extent for a, extent in zip(axes, shape)):
        raise ShapeError(
            f"the last dimensions are not {tuple(map(str, shape))}",
            "shape.norm",
            help="normalized_shape is x.shape[-1:], or more of the last dimensions",
        )
    return axes


@torch_function()
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    need_float("layer_norm", input)
    axes = _trailing(input, normalized_shape)
    return cast(language("layer_norm", input, weight, bias, axes, eps=eps), input.dtype)


@torch_function()
def rms_norm(input, normalized_shape, weight=None, eps=None):
    need_float("rms_norm", input)
    if eps is None:
        eps = _epsilon(input)
    axes = _trailing(input, normalized_shape)
    result = language("rms_norm", input, weight, axes, eps=eps)
    kind = dtype_of(input) if weight is None else result_type([input.node, weight.node])
    return cast(result, kind)


def _epsilon(input: Any) -> float:
    """torch's default epsilon: the machine epsilon of the computation dtype, float32 for narrower ones."""
    import torch

    return torch.finfo(getattr(torch, dtype_of(input).compute.name)).eps


@torch_function()
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    need_float("group_norm", input)
    return language("group_norm", input, num_groups, weight, bias, eps=eps)


@torch_function()
@declared("input, running_mean=None, running_var=None, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5")
def batch_norm(input, weight, bias, eps, **running):
    need_float("batch_norm", input)
    middle, variance = _running_statistics(input, **running)
    result = (input - middle) * operate(recorder_of(input), "rsqrt", variance + eps)
    return _affine(result, _channels(input, weight), _channels(input, bias))


def _running_statistics(input: Any, running_mean: Any, running_var: Any, training: Any, momentum: Any) -> tuple:
    """(mean, variance) of each channel: those of the input if it is trained, which updates the running ones."""
    if training or running_mean is None or running_var is None:
        axes = tuple(k for k in range(input.ndim) if k != 1)
        middle, variance = mean(input, axes, True), var(input, axes, False, True)
        for running, now in ((running_mean, lambda: mean(input, axes)), (running_var, lambda: var(input, axes))):
            if training and running is not None:
                running[...] = (1 - momentum) * running + momentum * now()
        return middle, variance
    return _channels(input, running_mean), _channels(input, running_var)


@torch_function()
@declared(
    "input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5",
    Refusal("running_mean use_input_stats", "instance_norm with running statistics",
            "leave them out, with use_input_stats=True"),
)  # fmt: skip
def instance_norm(input, weight, bias, eps):
    axes = tuple(range(2, input.ndim))
    result = (input - mean(input, axes, True)) * operate(
        recorder_of(input), "rsqrt", var(input, axes, False, True) + eps
    )
    return _affine(result, _channels(input, weight), _channels(input, bias))


def _channels(input: Any, values: Any) -> Any:
    """One value per channel (dimension 1), reshaped to broadcast."""
    return None if values is None else values.reshape(-1, *[1] * (input.ndim - 2))


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


@torch_function()
def normalize(input, p=2.0, dim=1, eps=1e-12):
    need_float("normalize", input)
    return input / clamp(p_norm(input, p, axes_of(dim), True), eps)
